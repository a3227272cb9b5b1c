"""All attacks on a set of traces at a given noise, and the internal page about them.

`attack_traces` makes the reports itself, `attack_released` takes those of a folder. Both give plain
data; the page is a head with its warning, a picture, and tables.
"""

from __future__ import annotations

import base64
import io
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import canvas
from sfumato.attacks.traces.denoise import (
    average_after_interpolation,
    expected_error_m,
    moving_average,
)
from sfumato.attacks.traces.reidentify import (
    SIDE_M,
    Globe,
    Visits,
    halves,
    link,
    top_places,
    unicity,
)
from sfumato.attacks.traces.released import Released
from sfumato.errors import UsageError
from sfumato.io.write import write_bytes
from sfumato.model.rounding import number_of
from sfumato.model.source import Progress
from sfumato.model.sphere import EARTH_RADIUS_M, great_circle
from sfumato.model.traces import Box, Traces
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.published.folder import make_internal_folder
from sfumato.reports.internal import head as head
from sfumato.reports.internal import percent as percent
from sfumato.reports.internal import table as table
from sfumato.traces.cells import Cells
from sfumato.traces.interpolation import interpolate
from sfumato.traces.mechanisms import simulated
from sfumato.traces.request import Kind


def embedded(picture: bytes | None, words: str) -> str:
    """A picture inside of the page, so that the two cannot be parted."""
    if picture is None:
        return ""
    data = base64.b64encode(picture).decode()
    return f'<p><img alt="{escape(words)}" src="data:image/png;base64,{data}"></p>'


def write(results: dict[str, Any], folder: Path) -> tuple[list[Path], str]:
    """JSON, page and picture; and why there is no picture, where there is none."""
    make_internal_folder(folder)
    written = [folder / f"traces-attack.internal.{ending}" for ending in ("json", "html", "png")]
    write_bytes(written[0], json.dumps(results, indent=2).encode(), 0o600)
    remark, picture = "", None
    try:
        picture = draw(results)
        write_bytes(written[2], picture, 0o600)
    except UsageError as error:  # the picture is optional, the numbers are not
        remark = f"no picture: {error}"
        written.pop()
    write_bytes(written[1], page(results, picture).encode(), 0o600)
    return written, remark


_LINES = {"true": ("#222222", "-"), "published": ("#b3261e", ":"), "guess": ("#1b6e53", "-")}


def draw(results: dict[str, Any]) -> bytes:
    """One person's fixes, the error of each guess, and how many are recognised."""
    figure = canvas((13.0, 4.4))
    from matplotlib import ticker  # canvas said where it is not there

    track, errors, linked = figure.subplots(1, 3, width_ratios=[4, 4, 3])
    for name, (colour, style) in _LINES.items():
        x, y = results["shown"][name]
        track.plot(x, y, style, marker="o", ms=2.5, lw=1, color=colour, label=name)
    track.set(xlabel="metres east", ylabel="metres north", title="One person, drawn at random")
    track.set_aspect("equal", adjustable="datalim")
    track.legend(frameon=False, fontsize=8)
    held = results["position_error_m"]
    for mark, key in (("o", "mean"), ("|", "median")):  # far apart where fixes are: logarithms
        found = [row[key] for row in held.values()]
        errors.plot(found, list(held), mark, ms=9, mew=2, color="#5f7d95", label=key)
    errors.axvline(results["noise_m"], color="black", lw=1, label="expected noise")
    errors.set(xscale="log", xlabel="error, m", title="Where people were")
    errors.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    errors.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    errors.xaxis.set_minor_formatter(ticker.NullFormatter())
    errors.invert_yaxis()
    errors.tick_params(axis="y", labelsize=7)
    errors.legend(frameon=False, fontsize=8)
    shares = results["linkage"]
    linked.bar(list(shares), [100 * rate for rate in shares.values()], color="#b3261e")
    linked.axhline(100 * results["linkage_by_chance"], color="black", lw=1)
    linked.set(ylabel="% linked to their user (line: guessing)", ylim=(0, 100))
    linked.set_title("Who they are")
    figure.suptitle(f"INTERNAL: attacks on traces at {results['noise_m']:g} m of expected noise")
    made = io.BytesIO()
    figure.savefig(made, dpi=110, metadata={"Software": None})
    return made.getvalue()


def page(results: dict[str, Any], picture: bytes | None = None) -> str:
    """Every table of `attack_traces`, in words a holder can act on."""
    errors = [
        [name, f"{row['mean']:.0f} m", f"{row['median']:.0f} m"]
        for name, row in results["position_error_m"].items()
    ]
    still = [[n, f"{metres:.1f} m"] for n, metres in results["stationary_error_m"].items()]
    linked = [[name, percent(rate)] for name, rate in results["linkage"].items()]
    parts = [
        head("attacks on traces"),
        f"<h1>Attacks at {results['noise_m']:g} m of expected noise</h1>",
        f"<p>{results['users']:,} users, {results['fixes']:,} fixes.{_of(results)}</p>",
        embedded(picture, "a trace, errors of guesses, people recognised"),
        "<h2>Where people were</h2>",
        table(["an adversary's guess", "mean error", "median error"], errors),
        "<h2>Somebody who stays in one place</h2>",
        table(["independent reports of it", "error of the most likely place"], still),
        f"<h2>Who they are</h2><p>{_where(results['region'])} Second half of the period "
        "linked to heat maps of the first; guessing gets "
        f"{percent(results['linkage_by_chance'])}.</p>",
        table(["reports", "linked to their user"], linked),
        "<p>Trials in which so many known points of a trace (cell of 800 m, hour) fit one user "
        "only:</p>",
        _shares(results["unicity"], "points"),
        "<p>Users whose most visited cells are nobody else's:</p>",
        _shares(results["unique_top_places"], "places"),
        "</html>",
    ]
    if "classifier" in results:
        parts.insert(-1, _classifier(results["classifier"]))
    return "\n".join(parts) + "\n"


def _of(results: dict[str, Any]) -> str:
    """Which release was attacked, where it was one that exists."""
    if "release" not in results:
        return ""
    release = results["release"]
    return (
        f" The release is {escape(release['name'])} ({release['kind']}); "
        f"{percent(release['matched'])} of its reports have their true fix among these."
    )


def _where(region: list[float] | str) -> str:
    """Whom the figures are about."""
    if isinstance(region, str):
        return f"Fixes anywhere, in cells of 800 m over {escape(region)}."
    return f"Fixes within {', '.join(f'{side:.2f}' for side in region)} (west to north)."


def _classifier(results: dict[str, Any]) -> str:
    return "<h2>The recurrent classifier</h2>" + classifier_table(results)


def classifier_table(results: dict[str, Any], beside: dict[str, float] | None = None) -> str:
    """What the network recognises, the mean over classes first; `beside`: a paper's accuracies."""
    keys = ("balanced", "chance", "nearest", "accuracy", "majority")
    rows = [
        [name, *(percent(row[key]) for key in keys), f"{row['steps']:,}"]
        for name, row in results.items()
    ]
    columns = ["reports", "mean over classes", "chance", "nearest window, mean over classes"]
    columns += ["accuracy", "largest class", "steps"]
    if beside is not None:
        columns.append("paper's accuracy")
        for row in rows:
            row.append(percent(beside.get(row[0])))
    return table(columns, rows)


def _shares(by_reports: dict[str, dict[str, float]], what: str) -> str:
    first = next(iter(by_reports.values()))
    rows = [[name, *map(percent, row.values())] for name, row in by_reports.items()]
    return table(["reports", *(number_of(int(n), what) for n in first)], rows)


MOST_CELLS = 4_000_000
"""Cells of 800 m in a square of 1,600 km: beyond it a plane's cells are no longer alike."""
GLOBE = "the globe"
_AVERAGED = 9
_SHOWN = 60
"""Fixes of the one person in the picture: about what an eye can follow."""
_REPORTS = (1, 10, 100, 1000, 10_000)


def attack_traces(
    traces: Traces,
    noise_m: float,
    *,
    window_s: int = 300,
    box: Box | None = None,
    seed: int = 1,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Errors of each attack on positions, and how well people are recognised."""
    strength, wall = Strength.from_noise(noise_m), Wall.seeded(SeededStream(seed).child("attack"))
    progress("adding noise", -1.0)
    noisy = simulated(traces, strength, wall, "independent")
    frozen = simulated(traces, strength, wall, "windows", window_s=window_s)
    progress("taking the noise off", -1.0)
    averaged = moving_average(noisy, _AVERAGED)
    guesses = {
        "independent noise, as published": noisy,
        f"plain average of {_AVERAGED} reports": averaged,
        f"recursive average of {_AVERAGED}, as printed": moving_average(
            noisy, _AVERAGED, as_published=True
        ),
        f"windows of {window_s} s, as published": frozen,
        "windows, interpolated": interpolate(frozen, window_s),
        f"windows, interpolated, average of {_AVERAGED}": average_after_interpolation(
            frozen, window_s, _AVERAGED
        ),
    }
    return {
        "noise_m": noise_m,
        "window_s": window_s,
        "shown": _one_person(traces, noisy, averaged, seed),
        **_positions(traces, guesses),
        "stationary_error_m": {str(n): expected_error_m(noise_m, n) for n in _REPORTS},
        **_recognition(
            traces, {"no noise": traces, "independent": noisy, "windows": frozen}, box, progress
        ),
    }


def attack_released(
    target: Released,
    *,
    box: Box | None = None,
    seed: int = 1,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """The same of a release that exists: no noise is drawn, its own reports are attacked."""
    progress("taking the noise off", -1.0)
    true, reports = target.true, target.reports
    if target.kind is Kind.PRINTED_CLOCK and target.window_s is not None:
        moving = interpolate(reports, target.window_s)
        guess = moving_average(moving, _AVERAGED)
        guesses = {
            "as published": reports,
            "windows, interpolated": moving,
            f"windows, interpolated, average of {_AVERAGED}": guess,
        }
    else:
        guess = moving_average(reports, _AVERAGED)
        guesses = {
            "as published": reports,
            f"plain average of {_AVERAGED} reports": guess,
            f"recursive average of {_AVERAGED}, as printed": moving_average(
                reports, _AVERAGED, as_published=True
            ),
        }
    # The mean of Gaussian reports is their most likely place.
    still = {
        str(n): target.noise_m / math.sqrt(n)
        if target.kind is Kind.GAUSSIAN
        else expected_error_m(target.noise_m, n)
        for n in _REPORTS
    }
    return {
        "release": {"name": target.name, "kind": target.kind.value, "matched": target.matched},
        "noise_m": target.noise_m,
        "window_s": target.window_s,
        "shown": _one_person(true, reports, guess, seed),
        **_positions(true, guesses),
        "stationary_error_m": still,
        **_recognition(true, {"no noise": true, "as published": reports}, box, progress),
    }


def _positions(true: Traces, guesses: dict[str, Traces]) -> dict[str, Any]:
    return {
        "users": int(np.unique(true.user).size),
        "fixes": len(true),
        "position_error_m": {name: _error(true, guess) for name, guess in guesses.items()},
    }


def _one_person(true: Traces, noisy: Traces, guess: Traces, seed: int) -> dict[str, Any]:
    """Some successive fixes of somebody drawn by lot, in metres from the first."""
    fix = int(np.random.default_rng(seed).integers(len(true)))  # long trips are likelier
    first, last = true.starts[np.searchsorted(true.starts, fix, side="right") + np.array([-1, 0])]
    rows = slice(int(first), int(min(last, first + _SHOWN)))
    lon, lat = float(true.lon[rows.start]), float(true.lat[rows.start])
    north = np.radians(1.0) * EARTH_RADIUS_M
    east = north * np.cos(np.radians(lat))
    return {
        name: [
            (((form.lon[rows] - lon + 180) % 360 - 180) * east).tolist(),
            ((form.lat[rows] - lat) * north).tolist(),
        ]
        for name, form in (("true", true), ("published", noisy), ("guess", guess))
    }


def _error(true: Traces, guess: Traces) -> dict[str, float]:
    apart = great_circle(true.lon, true.lat, guess.lon, guess.lat)
    return {"mean": float(apart.mean()), "median": float(np.median(apart))}


def _recognition(
    true: Traces, forms: dict[str, Traces], box: Box | None, progress: Progress
) -> dict[str, Any]:
    area = box or _middle(true)
    coarse: Cells | Globe = Cells.over(area, SIDE_M)
    where: list[float] | str = list(area.bounds)
    if coarse.size > MOST_CELLS:
        if box is not None:
            raise UsageError(
                "The region is too large for one plane of heat maps.",
                remedy="Give a smaller `region`, or none: cells then cover the globe.",
            )
        coarse, where = Globe(), GLOBE
    known, _ = halves(true)
    rows: dict[str, Any] = {"region": where, "linkage": {}, "unicity": {}, "unique_top_places": {}}
    for done, (name, form) in enumerate(forms.items()):
        progress("recognising people", done / len(forms))
        linked = link(known, halves(form)[1], coarse)
        rows["linkage"][name] = linked.rate
        rows["linkage_by_chance"] = linked.chance
        seen = Visits.of(form, coarse)
        rows["unicity"][name] = {
            str(p): unicity(seen.user, seen.point, p, trials=1000, seed=1).share for p in (1, 2, 4)
        }
        rows["unique_top_places"][name] = {
            str(n): top_places(seen.user, seen.cell, n).share_below(2) for n in (1, 2, 3)
        }
    return rows


def _middle(traces: Traces) -> Box:
    """The box that holds nearly all fixes: read from the data, and internal like all of this."""
    low, high = (np.quantile(c, [0.005, 0.995]) for c in (traces.lon, traces.lat))
    return Box(
        max(float(low[0]) - 0.01, -180.0),
        max(float(high[0]) - 0.01, -90.0),
        min(float(low[1]) + 0.01, 180.0),
        min(float(high[1]) + 0.01, 90.0),
    )
