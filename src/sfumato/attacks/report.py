"""A study in words, tables and numbers. INTERNAL: it compares with the truth.

Every form carries the mark; file names get it from whoever writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.attacks.membership import Membership
from sfumato.attacks.recovery.beside import KNOWN
from sfumato.attacks.recovery.study import Outcome, Study

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
                    ("knows", found.knows),
                    ("trained", found.trained),
                    ("blind", found.blind),
                )
            }
            | {"group": found.game.group, "targets": found.game.targets}
            | {"rounds": found.game.rounds, "allowed": most.get(name)}
            for name, found in (membership or {}).items()
        },
    }


def _outcome(one: Outcome) -> dict[str, Any]:
    found = one.identified
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
        if found is None
        else {
            "points": found.points,
            "people": found.people,
            "singled_out": found.singled_out,
            "learned": found.learned,
            "chance": found.chance,
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
            _percent(one.scores["greedy"].mean),
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
            str(found.game.group),
            *(
                f"{a.value:.2f} ({a.low:.2f}–{a.high:.2f})"
                for a in (found.knows, found.trained, found.blind)
            ),
            f"{most[name]:.2f}" if name in most else "–",
        ]
        for name, found in membership.items()
    ]
    return head, body


def table(head: list[str], body: list[list[str]]) -> list[str]:
    """Markdown lines."""
    line = "|".join(["", *(f" {cell} " for cell in head), ""])
    rule = "|".join(["", *("---" for _ in head), ""])
    return [line, rule, *("|".join(["", *(f" {c} " for c in row), ""]) for row in body)]


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
