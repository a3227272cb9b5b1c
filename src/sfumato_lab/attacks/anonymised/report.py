"""What `attack anonymised` found, as JSON, as a page with a picture, and on the terminal."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sfumato.attacks.report import canvas, rich_table
from sfumato.attacks.traces.run import head, percent, table
from sfumato.errors import UsageError
from sfumato.io.write import write_bytes
from sfumato.published.folder import make_internal_folder
from sfumato_lab.attacks.anonymised.run import AnonymisedAttacked, Answered

NAME = "anonymised-attack.internal"
QUESTION = "Did the target visit (L, t)?"
ASKED = (
    "release",
    "adversary",
    "advantage",
    "95 % interval",
    "yes if visited",
    "if not",
    "allowed",
)


def to_json(found: AnonymisedAttacked) -> dict[str, Any]:
    """Plain values for a file."""
    return {
        "people": found.people,
        "places": found.places,
        "slots": found.slots,
        "unicity": {name: [asdict(one) for one in curve] for name, curve in found.unicity.items()},
        "top": {str(n): share for n, share in found.top.items()},
        "tables": [asdict(one) for one in found.tables],
        "groups": {name: asdict(one) for name, one in found.groups.items()},
        "narrowed": {name: [asdict(one) for one in of] for name, of in found.narrowed.items()},
        "left": {
            name: {
                "people": int(one.sizes.size),
                "k": one.k,
                "median": one.median,
                "alone": one.share_at_most(1),
                "at_most_3": one.share_at_most(3),
            }
            for name, one in found.left.items()
        },
        "answered": [asdict(one) for one in found.answered],
    }


def answered_rows(answered: tuple[Answered, ...]) -> list[list[str]]:
    """One row a release and adversary, as text."""
    return [
        [
            one.release,
            one.adversary,
            f"{one.found.value:.2f}",
            f"{one.found.low:.2f} to {one.found.high:.2f}",
            percent(one.found.right),
            percent(one.found.wrong),
            "" if one.allowed is None else f"{one.allowed:.2f}",
        ]
        for one in answered
    ]


def page(found: AnonymisedAttacked, picture: bytes | None = None) -> str:
    """Everything, in words a holder can act on."""
    image = ""
    if picture is not None:
        data = base64.b64encode(picture).decode()
        words = "advantage by release, and people singled out by points"
        image = f'<img alt="{words}" src="data:image/png;base64,{data}">'
    curve = [[name, *(percent(one.share) for one in of)] for name, of in found.unicity.items()]
    points = [str(one.points) for one in next(iter(found.unicity.values()))]
    parts = [
        head("attacks on anonymised releases"),
        "<h1>Attacks on anonymised releases</h1>",
        f"<p>{found.people:,} people, {found.places:,} places, {found.slots} slots. "
        "Nothing here may be published.</p>",
        image,
        f"<h2>{QUESTION}</h2>",
        f"<p>{found.answered[0].found.targets:,} targets, half of whom visited the pair they are "
        "asked about. The advantage is the share of yes among those less that among the others: "
        "0 is guessing, 1 is certainty. A figure near 0 means that <em>these</em> adversaries "
        "failed; what holds against all is the last column, and only releases by "
        "<code>sfumato release</code> have it.</p>",
        table(list(ASKED), answered_rows(found.answered)),
        "<h2>Records under pseudonyms</h2>",
        "<p>Share of people whom so many of their own points, drawn at random, single out "
        "(de Montjoye et al. 2013 have 95 % for four points).</p>",
        table(["resolution", *points], curve),
        "<p>People whose most visited places are theirs alone: "
        + "; ".join(f"top {n}: {percent(share)}" for n, share in found.top.items())
        + ".</p>",
        *_tables(found),
        *_records(found),
        "<p>Trajectories recovered from tables: <code>sfumato attack recovery</code>.</p>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _tables(found: AnonymisedAttacked) -> list[str]:
    rows = [
        [
            one.release,
            percent(one.hidden),
            percent(one.exact),
            percent(one.narrower),
            percent(one.leaving.share),
        ]
        for one in found.tables
    ]
    return [
        "<h2>Suppressed tables</h2>",
        "<p>Counts that are left out and follow from the published sums; and the visits of a "
        "person that show when the table is published again without them.</p>",
        table(["table", "left out", "follow exactly", "narrowed", "shown by leaving"], rows),
    ]


def _records(found: AnonymisedAttacked) -> list[str]:
    parts = []
    if found.groups:
        rows = [
            [name, f"{one.groups:,}", percent(one.certain), percent(one.pairs), percent(one.guess)]
            for name, one in found.groups.items()
        ]
        columns = ["release", "groups", "people with a shared visit", "shared visits", "mean share"]
        parts += [
            "<h2>What groups have in common</h2>",
            "<p>Who finds the group of a person learns what all of its members did.</p>",
            table(columns, rows),
        ]
    for name, of in found.narrowed.items():
        rows = [
            [
                f"{one.points} places and how often" if one.often else f"{one.points} points",
                f"{one.median:,.0f}",
                percent(one.unique),
                percent(one.below),
                percent(one.none),
            ]
            for one in of
        ]
        columns = ["known", "records left, median", "one left", "fewer than k left", "none fits"]
        parts += [f"<h2>{escape(name)}: knowledge beyond m</h2>", table(columns, rows)]
    if found.left:
        rows = [
            [name, str(one.k), f"{one.median:,.0f}", percent(one.share_at_most(1))]
            for name, one in found.left.items()
        ]
        columns = ["releases", "k", "anonymity left, median", "nobody else left"]
        parts += ["<h2>Two releases together</h2>", table(columns, rows)]
    return parts


def draw(found: AnonymisedAttacked) -> bytes:
    """Advantages with their intervals, and the curves of points."""
    figure = canvas((10.5, 0.9 + 0.36 * max(len(found.answered), 6)))
    left, right = figure.subplots(1, 2)
    names = [f"{one.release}, {one.adversary}" for one in found.answered]
    at = np.arange(len(names))[::-1]
    value = np.array([one.found.value for one in found.answered])
    low = value - [one.found.low for one in found.answered]
    high = np.array([one.found.high for one in found.answered]) - value
    left.errorbar(value, at, xerr=np.maximum([low, high], 0), fmt="o", ms=4, capsize=2)
    for where, one in zip(at, found.answered, strict=True):
        if one.allowed is not None:
            left.vlines(one.allowed, where - 0.3, where + 0.3, color="black", lw=1.6)
    left.set_yticks(at, names, fontsize=8)
    left.axvline(0, color="grey", ls=":", lw=1)
    left.set(xlim=(-0.1, 1.05), xlabel="advantage; black: the most that a promise allows")
    left.set_title(f"INTERNAL: {QUESTION}", fontsize=9)
    for name, curve in found.unicity.items():
        right.plot(
            [one.points for one in curve],
            [100 * one.share for one in curve],
            "o-",
            ms=3,
            label=name,
        )
    right.axhline(95, color="grey", ls=":", lw=1)
    right.set(xlabel="points known", ylabel="people singled out, %", ylim=(0, 101))
    right.legend(frameon=False, fontsize=8)
    held = io.BytesIO()
    figure.savefig(held, dpi=110, metadata={"Software": None})
    return held.getvalue()


def show(found: AnonymisedAttacked) -> None:
    """The question's answers as a table on standard error."""
    kept = [0, 1, 2, 3, 6]  # a terminal is narrow; the page holds all
    body = [[row[n] for n in kept] for row in answered_rows(found.answered)]
    title = f"internal: {QUESTION} 0 is guessing, 1 certainty"
    Console(stderr=True).print(rich_table(title, [ASKED[n] for n in kept], body))


def write(found: AnonymisedAttacked, folder: Path) -> tuple[list[Path], str]:
    """JSON, page and picture; and why there is no picture, where there is none."""
    make_internal_folder(folder)
    written = [folder / f"{NAME}.{ending}" for ending in ("json", "html", "png")]
    text = json.dumps(to_json(found), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    remark, picture = "", None
    try:
        picture = draw(found)
        write_bytes(written[2], picture, mode=0o600)
    except UsageError as error:  # the picture is optional, the numbers are not
        remark = f"no picture: {error}"
        written.pop()
    write_bytes(written[1], page(found, picture).encode(), mode=0o600)
    return written, remark
