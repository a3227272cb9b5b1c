"""All attacks on a set of traces at a given noise, and the internal page about them.

`attack_traces` gives plain data; the page is a head with its warning, and tables.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from sfumato.attacks.traces.denoise import (
    average_after_interpolation,
    expected_error_m,
    interpolate,
    moving_average,
)
from sfumato.attacks.traces.reidentify import SIDE_M, Globe, halves, link, top_places, unicity
from sfumato.errors import UsageError
from sfumato.model.sphere import great_circle
from sfumato.model.traces import Box, Traces
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.reports.internal import head as head
from sfumato.reports.internal import percent as percent
from sfumato.reports.internal import table as table
from sfumato.traces.cells import Cells
from sfumato.traces.mechanisms import simulated


def page(results: dict[str, Any]) -> str:
    """Every table of `attack_traces`, in words a holder can act on."""
    errors = [
        [name, f"{row['mean']:.0f} m", f"{row['median']:.0f} m"]
        for name, row in results["position_error_m"].items()
    ]
    still = [[n, f"{metres:.1f} m"] for n, metres in results["stationary_error_m"].items()]
    linked = [[name, f"{rate:.1%}"] for name, rate in results["linkage"].items()]
    parts = [
        head("attacks on traces"),
        f"<h1>Attacks at {results['noise_m']:g} m of expected noise</h1>",
        f"<p>{results['users']:,} users, {results['fixes']:,} fixes.</p>",
        "<h2>Where people were</h2>",
        table(["an adversary's guess", "mean error", "median error"], errors),
        "<h2>Somebody who stays in one place</h2>",
        table(["independent reports of it", "error of the most likely place"], still),
        f"<h2>Who they are</h2><p>{_where(results['region'])} Second half of the period "
        f"linked to heat maps of the first; guessing gets {results['linkage_by_chance']:.1%}.</p>",
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


def _where(region: list[float] | str) -> str:
    """Whom the figures are about."""
    if isinstance(region, str):
        return f"Fixes anywhere, in cells of 800 m over {escape(region)}."
    return f"Fixes within {', '.join(f'{side:.2f}' for side in region)} (west to north)."


def _classifier(results: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{row[key]:.1%}" for key in ("accuracy", "balanced", "nearest", "majority"))]
        for name, row in results.items()
    ]
    columns = ["reports", "accuracy", "mean over classes", "nearest window", "largest class"]
    return "<h2>The recurrent classifier</h2>" + table(columns, rows)


def _shares(by_reports: dict[str, dict[str, float]], what: str) -> str:
    first = next(iter(by_reports.values()))
    rows = [[name, *(f"{share:.1%}" for share in row.values())] for name, row in by_reports.items()]
    return table(["reports", *(f"{n} {what}" for n in first)], rows)


MOST_CELLS = 4_000_000
"""Cells of 800 m in a square of 1,600 km: beyond it a plane's cells are no longer alike."""
GLOBE = "the globe"
_AVERAGED = 9
_REPORTS = (1, 10, 100, 1000, 10_000)


def attack_traces(
    traces: Traces,
    noise_m: float,
    *,
    window_s: int = 300,
    box: Box | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Errors of each attack on positions, and how well people are recognised."""
    strength, wall = Strength.from_noise(noise_m), Wall.seeded(SeededStream(seed).child("attack"))
    noisy = simulated(traces, strength, wall, "independent")
    frozen = simulated(traces, strength, wall, "windows", window_s=window_s)
    guesses = {
        "independent noise, as published": noisy,
        f"plain average of {_AVERAGED} reports": moving_average(noisy, _AVERAGED),
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
        "users": int(np.unique(traces.user).size),
        "fixes": len(traces),
        "position_error_m": {name: _error(traces, guess) for name, guess in guesses.items()},
        "stationary_error_m": {str(n): expected_error_m(noise_m, n) for n in _REPORTS},
        **_recognition(traces, {"no noise": traces, "independent": noisy, "windows": frozen}, box),
    }


def _error(true: Traces, guess: Traces) -> dict[str, float]:
    apart = great_circle(true.lon, true.lat, guess.lon, guess.lat)
    return {"mean": float(apart.mean()), "median": float(np.median(apart))}


def _recognition(true: Traces, forms: dict[str, Traces], box: Box | None) -> dict[str, Any]:
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
    for name, form in forms.items():
        linked = link(known, halves(form)[1], coarse)
        rows["linkage"][name] = linked.rate
        rows["linkage_by_chance"] = linked.chance
        rows["unicity"][name] = {
            str(p): unicity(form, coarse, p, trials=1000, seed=1).share for p in (1, 2, 4)
        }
        rows["unique_top_places"][name] = {
            str(n): top_places(form, coarse, n).share_below(2) for n in (1, 2, 3)
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
