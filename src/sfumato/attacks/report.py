"""A study of attacks in words, tables and pictures, as `sfumato attack` shows it. INTERNAL.

It compares with the truth, so every form carries the mark, and every file says so in its name. The
pictures are the accuracy of every table beside its baselines, and slot by slot; matplotlib is
optional (the extra `plots`) and imported when it is needed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from sfumato.attacks.membership import Membership
from sfumato.attacks.recovery.baselines import JUDGED_BY, KNOWN
from sfumato.attacks.recovery.study import Outcome, Study
from sfumato.errors import UsageError
from sfumato.io.write import write_atomically, write_bytes
from sfumato.model.extras import optional
from sfumato.published.folder import make_internal_folder
from sfumato.reports.internal import AttackPanel, AttackResult, AttackTracks, write_panel

_ATTACK = "#b3261e"
_BASE = {"random": "#9aa5b1", "stay": "#5f7d95", "map": "#7fb59b", "others": "#1b6e53"}
BASELINES = {
    "random": "linked at random",
    "stay": "everybody stays",
    "map": "knows the map",
    "others": "knows all others",
    "census": "census of other people",
    "halves": "halves guessed from halves",
}


def canvas(size: tuple[float, float]) -> Any:
    """A figure that needs no display."""
    optional("matplotlib", "The plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_study(study: Study, path: Path) -> None:
    """Bars by table on the left, accuracy by slot on the right."""
    figure = canvas((12.5, 4.2))
    bars, lines = figure.subplots(1, 2, width_ratios=[3, 2])
    at = np.arange(len(study.outcomes))
    reached = [one.scores["greedy"] for one in study.outcomes]
    means = np.array([100 * s.mean for s in reached])
    spread = np.array([[100 * (s.mean - s.low), 100 * (s.high - s.mean)] for s in reached]).T
    bars.bar(at - 0.32, means, 0.16, yerr=spread, color=_ATTACK, label="attack", capsize=2)
    for k, (name, colour) in enumerate(_BASE.items()):
        values = [100 * one.baselines[name]["greedy"] for one in study.outcomes]
        bars.bar(at - 0.16 + 0.16 * k, values, 0.16, color=colour, label=BASELINES[name])
    bars.set_xticks(at, [one.name for one in study.outcomes], rotation=20, ha="right")
    bars.set_ylabel("greedy accuracy, %")
    bars.set_ylim(0, 100)
    bars.legend(frameon=False, fontsize=8)
    for one in study.outcomes:
        lines.plot(100 * one.by_slot, lw=1.2, label=one.name)
    if study.outcomes:  # it does not look at the table, so one line serves all
        style = {"ls": "--", "lw": 1.2, "color": _BASE[JUDGED_BY], "label": BASELINES[JUDGED_BY]}
        lines.plot(100 * study.outcomes[0].others, **style)
    lines.set_xlabel("slot")
    lines.set_ylim(0, 100)
    lines.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("INTERNAL: trajectories recovered from counts", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def save_curves(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    axes: tuple[str, str],
    path: Path,
    title: str = "",
    *,
    log: bool = False,
) -> None:
    """Panels of named curves (x, y in percent): the paper's are dotted, baselines dashed.

    The panels show the same names, so that one legend below serves all of them.
    """
    guessing = set(BASELINES.values())
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = canvas((max(7.2, 5.2 * columns), 3.4 * lines + 0.9))
    places = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    highest = max(max(y) for curves in panels.values() for _, y in curves.values())
    for place, (name, curves) in zip(places, panels.items(), strict=False):
        for label, (x, y) in curves.items():
            style = {"ls": "--" if label in guessing else "-"}
            if label.startswith("paper"):
                style = {"ls": ":", "color": "black"}
            place.plot(x, y, marker="o", ms=3, lw=1.2, label=label, **style)
        place.set(title=name, xlabel=axes[0], ylabel=axes[1], ylim=(0, min(100, 1.2 * highest)))
        if log:
            place.set_xscale("log")
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    if title:
        figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})


INTERNAL = "INTERNAL: this compares with the truth and must not be published."
WORDS = (
    "Accuracy is the share of person-slots whose place the attack got right, with recovered "
    "trajectories matched to people afterwards. Read it beside the baselines: linking at random, "
    "letting everybody stay, people held where the true average map has them (*the map*: what a "
    "release is meant to tell), and people drawn from the exact average map of everybody *else*, "
    "which holds nothing of the person guessed: what would be learned of somebody who is not in "
    "the data. An accuracy no better than that tells of people no more than such knowledge would.",
    "High accuracy means that counts alone give trajectories away: such a table is personal data.",
    "Low accuracy means that *this* attack failed. It is no guarantee: another attack, more "
    "knowledge or a second table may do better. A guarantee comes from the release's own "
    "statement, never from this figure.",
    "Membership is the easier question, whether somebody was counted at all. It can be answered "
    "where trajectories cannot be recovered; 0.5 is guessing, 1 is certainty. *Chance* is what the "
    "trained adversary scores about coins that are not the person's; *allowed* is the most that "
    "the guarantee lets any adversary reach.",
)
_COLUMNS = ("greedy", "assignment", "best", "night", "day")


def as_json(
    study: Study,
    membership: Mapping[str, Membership] | None = None,
    allowed: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Plain values for a file; sampled trajectories are left to the page."""
    most = allowed or {}
    return {
        "internal": INTERNAL,
        "people": study.people,
        "slots": study.slots,
        "cells": study.cells,
        "filled_share": study.filled,
        "seeds": study.seeds,
        "method": {
            "predict": study.method.predict,
            "link": str(study.method.link),
            "solver": str(study.method.solver),
            "fill": str(study.method.fill),
            "people": study.method.people,
        },
        "uniqueness": study.uniqueness.tolist(),
        "tables": [_outcome(one) for one in study.outcomes],
        "membership": {
            name: {
                adversary: {"auc": auc.value, "low": auc.low, "high": auc.high, "loss": auc.loss}
                for adversary, auc in (
                    ("knows", played.knows),
                    ("trained", played.trained),
                    ("blind", played.blind),
                )
            }
            | {"group": played.game.group, "targets": played.game.targets}
            | {"rounds": played.game.rounds, "allowed": most.get(name)}
            for name, played in (membership or {}).items()
        },
    }


def _outcome(one: Outcome) -> dict[str, Any]:
    identified = one.identified
    return {
        "table": one.name,
        "recovered_people": one.people,
        "scores": {
            key: {"mean": _number(s.mean), "low": _number(s.low), "high": _number(s.high)}
            for key, s in one.scores.items()
        },
        "baselines": {
            name: {key: _number(value) for key, value in values.items()}
            for name, values in one.baselines.items()
        },
        "by_slot": one.by_slot.tolist(),
        "others_by_slot": [_number(value) for value in one.others.tolist()],
        "uniqueness": one.uniqueness.tolist(),
        "identified": None
        if identified is None
        else {
            "points": identified.points,
            "people": identified.people,
            "singled_out": identified.singled_out,
            "learned": identified.learned,
            "chance": identified.chance,
        },
        "certified_gap": one.gap,
    }


def header() -> list[str]:
    return [
        "table",
        "greedy",
        "(range)",
        *_COLUMNS[1:],
        "error m",
        "random",
        "stays",
        "the map",
        "all others",
        "learned",
        "chance",
    ]


def rows(study: Study) -> list[list[str]]:
    """One row a table, percentages and metres as text."""
    return [
        [
            one.name,
            f"{_percent(one.scores['greedy'].mean)} ± {100 * one.scores['margin'].mean:.1f}",
            f"{_percent(one.scores['greedy'].low)}–{_percent(one.scores['greedy'].high)}",
            *(_percent(one.scores[key].mean) for key in _COLUMNS[1:]),
            f"{one.scores['error_m'].mean:,.0f}",
            *(_percent(one.baselines[key]["greedy"]) for key in KNOWN),
            "–" if one.identified is None else _percent(one.identified.learned),
            "–" if one.identified is None else _percent(one.identified.chance),
        ]
        for one in study.outcomes
    ]


def as_markdown(
    study: Study,
    membership: Mapping[str, Membership] | None = None,
    allowed: Mapping[str, float] | None = None,
) -> str:
    """The page of a study for people who read text."""
    lines = [
        "# Attack on counts",
        "",
        f"**{INTERNAL}**",
        "",
        f"{study.people:,} people, {study.cells:,} cells, {study.slots} slots, "
        f"{study.seeds} tie-breaking seeds. {_percent(study.filled)} of all person-slots had no "
        "record and hold the last known place.",
        "",
        *table(header(), rows(study)),
        "",
        "Distinct sets of the most visited 1 to 5 cells, per person: "
        + ", ".join(f"{value:.2f}" for value in study.uniqueness)
        + ".",
        "",
    ]
    if membership:
        lines += ["## Was somebody counted?", "", *table(*membership_rows(membership, allowed)), ""]
    lines += ["## What this means", "", *(f"- {words}" for words in WORDS), ""]
    return "\n".join(lines)


def membership_rows(
    membership: Mapping[str, Membership], allowed: Mapping[str, float] | None = None
) -> tuple[list[str], list[list[str]]]:
    """AUC of both adversaries with intervals, chance beside them, and what is allowed at most."""
    head = ["table", "group", "AUC, knows the person", "AUC, trained", "chance", "allowed"]
    most = allowed or {}
    body = [
        [
            name,
            str(played.game.group),
            *(
                f"{a.value:.2f} ({a.low:.2f}–{a.high:.2f})"
                for a in (played.knows, played.trained, played.blind)
            ),
            f"{most[name]:.2f}" if name in most else "–",
        ]
        for name, played in membership.items()
    ]
    return head, body


def table(head: list[str], body: list[list[str]]) -> list[str]:
    """Markdown lines."""
    line = "|".join(["", *(f" {cell} " for cell in head), ""])
    rule = "|".join(["", *("---" for _ in head), ""])
    return [line, rule, *("|".join(["", *(f" {c} " for c in row), ""]) for row in body)]


def show_pictures(page: Path, pictures: Iterable[Path], mode: int = 0o644) -> None:
    """Add the pictures that lie beside a Markdown page to its end, so that it shows them."""
    shown = [f"![{path.name.partition('.')[0]}]({path.name})" for path in pictures]
    if shown:
        text = page.read_text("utf-8").rstrip("\n")
        write_bytes(page, "\n\n".join([text, "## Pictures", *shown, ""]).encode(), mode)


def study_page(page: Path, pictures: Iterable[Path]) -> Path:
    """A study's Markdown page with its pictures, and beside it the same to open in a browser."""
    from markdown_it import MarkdownIt  # rich brings it

    from sfumato.attacks.traces.run import head

    show_pictures(page, pictures)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(page.read_text("utf-8"))
    made = page.with_suffix(".html")
    start = head(page.name.partition(".")[0], "Compared with the truth")
    write_bytes(made, f"{start}\n{body}</html>\n".encode())
    return made


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


SHOWN = ("table", "greedy", "(range)", "random", "stays", "the map", "all others", "learned")


def write(
    study: Study,
    membership: Mapping[str, Membership],
    allowed: Mapping[str, float],
    folder: Path,
    console: Console | None,
) -> list[Path]:
    """JSON, text and picture, and what the internal page will show."""
    make_internal_folder(folder)
    written = [folder / f"internal-attack.{ending}" for ending in ("json", "md", "png")]
    text = json.dumps(as_json(study, membership, allowed), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    write_bytes(written[1], as_markdown(study, membership, allowed).encode(), mode=0o600)
    write_panel(panel(study, membership, allowed), folder)
    try:
        write_atomically(written[2], lambda path: save_study(study, path), mode=0o600)
        show_pictures(written[1], written[2:], 0o600)
    except UsageError as error:  # the picture is optional, the numbers are not
        if console is not None:
            console.print(f"no picture: {error}", highlight=False)
        written.pop()
    return written


def show(study: Study, membership: Mapping[str, Membership], allowed: Mapping[str, float]) -> None:
    """The study as tables on standard error, and what it means."""
    console = Console(stderr=True)
    kept = [header().index(name) for name in SHOWN]  # a terminal is narrow; the files hold all
    body = [[row[k] for k in kept] for row in rows(study)]
    console.print(rich_table("internal: trajectories recovered from counts", list(SHOWN), body))
    if membership:
        head, body = membership_rows(membership, allowed)
        console.print(rich_table("internal: was somebody counted?", head, body))
    for words in WORDS:
        console.print(f"- {words}", highlight=False)


def rich_table(
    title: str | None, head: list[str], body: list[list[str]], words: bool = False
) -> RichTable:
    """Text for a terminal; all columns but the first stand on the right, unless they are words."""
    table = RichTable(title=title)
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if words or k == 0 else "right")
    for row in body:
        table.add_row(*row)
    return table


def panel(
    study: Study, membership: Mapping[str, Membership], allowed: Mapping[str, float]
) -> AttackPanel:
    """The study for the attack panel of the internal page."""
    results = [
        AttackResult(
            attack="trajectory recovery",
            contender=one.name,
            measure="greedy accuracy",
            reached=one.scores["greedy"].mean,
            guessing=one.baselines[JUDGED_BY]["greedy"],
            note=f"knows the map: {one.baselines['map']['greedy']:.3f}; "
            f"everybody stays: {one.baselines['stay']['greedy']:.3f}; "
            f"linked at random: {one.baselines['random']['greedy']:.3f}",
        )
        for one in study.outcomes
    ]
    results += [
        AttackResult(
            attack="membership",
            contender=name,
            measure="AUC",
            reached=one.worst.value,
            guessing=0.5,
            bound=allowed.get(name),
            note=f"groups of about {one.game.group}; {one.worst.low:.2f} to {one.worst.high:.2f}",
        )
        for name, one in membership.items()
    ]
    tracks = tuple(
        AttackTracks(
            one.name,
            one.by_slot.tolist(),
            one.others.tolist(),
            one.shown[0].tolist(),
            one.shown[1].tolist(),
        )
        for one in study.outcomes
    )
    return AttackPanel(tuple(results), tracks)
