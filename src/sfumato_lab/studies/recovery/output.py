"""The whole study of recovery and membership as text: the paper's figures beside ours. INTERNAL.

It reads the plain values that `sfumato reproduce recovery` writes, so that a page can be made
again from a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfumato.attacks.report import INTERNAL, WORDS, table
from sfumato_lab.studies.recovery import points as paper

Found = Mapping[str, Any]


def percent(value: float) -> str:
    """With one decimal; a dash where there is no figure."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def as_markdown(found: Found) -> str:
    """Only the parts that were run."""
    lines = ["# Trajectories recovered from counts", "", f"**{INTERNAL}**", ""]
    makers: dict[str, Callable[[Any], list[str]]] = {
        "crowd": _crowd,
        "cabspotting": _taxis,
        "tdrive": _taxis,
        "protected": _protected,
        "protected-taxis:cabspotting": _protected,
        "protected-taxis:tdrive": _protected,
        "readings": _readings,
        "schemes": _protected,
        "whole-map": _protected,
        "left-out": _left_out,
        "left-out-whole-map": _left_out,
        "noise": _protected,
        "suppression": _protected,
        "membership": _membership,
    }
    for key, make in makers.items():
        if key in found:
            lines += [f"## {TITLES[key]}", "", *make(found[key]), ""]
    return "\n".join([*lines, *(f"- {words}" for words in WORDS), ""])


TITLES = {
    "crowd": "The crowd, by number of points",
    "cabspotting": "Taxis of San Francisco, every starting hour",
    "tdrive": "Taxis of Beijing, every starting hour",
    "protected": "The schemes of Chen et al. as printed, 19 points, 8,010 cells",
    "protected-taxis:cabspotting": "The same on taxis of San Francisco, 10 points from 8 on",
    "protected-taxis:tdrive": "The same on taxis of Beijing, 10 points from 8 on",
    "readings": "Readings of their Figure 6",
    "schemes": "Schemes of this package, 19 points, 900 cells",
    "whole-map": "Schemes of this package, 19 points, 8,010 cells",
    "left-out": "People who take part and people who do not, 900 cells",
    "left-out-whole-map": "People who take part and people who do not, 8,010 cells",
    "noise": "More noise (gaussian, 400 cells)",
    "suppression": "Suppression in dense towns, 900 cells",
    "membership": "Membership, 400 cells; dense: twenty times the people on 900 cells",
}


def _crowd(rows: Sequence[Found]) -> list[str]:
    lengths = sorted({row["points"] for row in rows})
    names = list(dict.fromkeys(row["reading"] for row in rows))
    by_key = {(row["reading"], row["points"]): row for row in rows}

    def cell(name: str, n: int) -> str:
        row = by_key[name, n]
        return f"{percent(row['greedy'])} ({100 * row['low']:.1f}–{100 * row['high']:.1f})"

    body = [[name, *(cell(name, n) for n in lengths)] for name in names]
    body.append(["paper", *(f"{paper.CROWD[n]} %" if n in paper.CROWD else "" for n in lengths)])
    return table(["greedy accuracy", *(f"{n} points" for n in lengths)], body)


def _taxis(found: Mapping[str, Mapping[Any, Sequence[Found]]]) -> list[str]:
    """Mean and range over starting hours for each reading and length."""
    body = []
    for how, hours in found.items():
        rows: dict[tuple[int, str], list[float]] = {}
        for points in hours.values():
            for row in points:
                rows.setdefault((row["points"], row["reading"]), []).append(100 * row["greedy"])
        body += [
            [how, name, str(n), f"{sum(v) / len(v):.1f} %", f"{min(v):.1f}–{max(v):.1f} %",
             str(len(v)), f"{paper.TAXIS[n]} %"]
            for (n, name), v in sorted(rows.items(), key=lambda item: item[0][0])
        ]  # fmt: skip
    return table(["taxis", "reading", "points", "mean", "range", "hours", "paper"], body)


def _protected(rows: Sequence[Found]) -> list[str]:
    head = ["scheme", "ε", "greedy", "± (runs)", "knows all others", "points above", "±"]
    head += ["census", "halves", "knows the map", "random", "stays", "learned", "chance"]
    keys = ("census", "halves", "map", "random", "stay", "learned", "chance")
    body = [
        [
            row["scheme"],
            "" if row["epsilon"] is None else f"{row['epsilon']:g}",
            percent(row["greedy"]),
            f"{100 * row['spread']:.1f} ({row['runs']})",
            percent(row["others"]),
            f"{row['above']:+.1f}",
            f"{row['above_spread']:.1f}",
            *(percent(row[key]) for key in keys),
        ]
        for row in rows
    ]
    return table(head, body)


def _left_out(rows: Sequence[Found]) -> list[str]:
    head = ["scheme", "ε", "runs", "take part", "±", "left out", "±", "points above"]
    body = [
        [
            row["scheme"],
            f"{row['epsilon']:g}",
            str(row["runs"]),
            percent(row["inside"]),
            f"{100 * row['inside_spread']:.1f}",
            percent(row["outside"]),
            f"{100 * row['outside_spread']:.1f}",
            f"{100 * (row['inside'] - row['outside']):+.1f}",
        ]
        for row in rows
    ]
    return table(head, body)


def _readings(rows: Sequence[Found]) -> list[str]:
    head = ["cells", "whole counts", "scheme", "ε", "draws", "greedy", "±", "empty map", "±"]
    body = [
        [row["cells"], row["whole"], row["scheme"], f"{row['epsilon']:g}", str(row["draws"]),
         percent(row["greedy"]), f"{100 * row['spread']:.1f}",
         percent(row["nobody"]), f"{100 * row['nobody_spread']:.1f}",
         percent(row["reusing"]), percent(row["best"])]
        for row in rows
    ]  # fmt: skip
    head += ["used again", "best"]
    return table(head, body)


def _membership(towns: Mapping[str, Mapping[str, Found]]) -> list[str]:
    keys = ("knows", "trained", "blind")
    body = [
        [
            town,
            name,
            *(
                f"{a['value']:.2f} ({a['low']:.2f}–{a['high']:.2f})"
                for a in (row[key] for key in keys)
            ),
            "–" if row["allowed"] is None else f"{row['allowed']:.2f}",
        ]
        for town, found in towns.items()
        for name, row in found.items()
    ]
    return table(["town", "counts", "knows the person", "trained", "chance", "allowed"], body)
