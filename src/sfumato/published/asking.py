"""Questions to a release beyond a sum: comparisons, shares, rankings, profiles, who is there now.

Every question is a set of weights of places and slots. Numbers are sums of published counts;
intervals, probabilities and ranks come from joint draws of the posterior (`Factors.samples`), in
which what two questions share (cells, levels, rhythms) is the same in a row. Two releases have
errors of their own; where the second was read together with the first (`--earlier`), part of them
is common, and intervals of differences are a little too wide.

Averages are per slot: a profile says how many there are at a time, not how many come by. `Release`
has these as methods (`sfumato.published.questions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.model.rounding import number_of
from sfumato.model.time_grid import TimeGrid, parse_step
from sfumato.published.answers import Comparison, Profile, Ranking, Total
from sfumato.published.estimate import Estimate
from sfumato.published.groups import (
    counting,
    described,
    grouped,
    grouping,
    labelled,
    name_of,
    selected,
    signed,
    windows,
)
from sfumato.published.selection import Selection, slot_weights

if TYPE_CHECKING:
    from sfumato.published.release import Release

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
_AT_ONCE = 500
_MOST_RANKED = 1_200
"""Groups whose ranks are drawn: the first of a year of hours. Those behind have no chance to be
among the first ones, and drawing all of them jointly would take minutes."""


def estimates(
    release: Release, places: Matrix, slots: Matrix, over: Vector | float = 1.0
) -> list[Estimate]:
    """Sums of questions with their intervals; weights one row a question, or one for all.

    What is printed with an interval keeps that one, whether there is a posterior or not: a single
    cell, and all places in a slot of a stream.

    Args:
        release: What is asked.
        places: Weights of places.
        slots: Weights of slots.
        over: What sums are divided by, for averages: the law of a sum is that of whole visits.
    """
    a, b = np.atleast_2d(places), np.atleast_2d(slots)
    rows = max(a.shape[0], b.shape[0])
    by = np.broadcast_to(np.asarray(over, dtype=np.float64), (rows,))
    if release.posterior is not None:
        level = release.posterior.coverage
        value, low, high = (one / by for one in _in_parts(release.posterior.estimates, a, b))
        found = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
        pairs = zip(*(np.broadcast_to(one, (rows, one.shape[1])) for one in (a, b)), strict=True)
        printed = [_stated(release, *pair) for pair in pairs]
        return [
            Estimate(one[0], *(one[1:] if two is None else (two[0] / k, two[1] / k)), level)
            for one, two, k in zip(found, printed, by.tolist(), strict=True)
        ]
    level = release.manifest.scheme.coverage_of_sums
    value = ((a @ release.values) * b).sum(axis=1) / by
    each = zip(*(np.broadcast_to(one, (rows, one.shape[1])) for one in (a, b)), strict=True)
    ends = [_stated(release, *pair) if level else None for pair in each]
    return [
        Estimate(one) if two is None else Estimate(one, two[0] / k, two[1] / k, level)
        for one, two, k in zip(value.tolist(), ends, by.tolist(), strict=True)
    ]


def _in_parts(
    asked: Callable[[Matrix, Matrix], tuple[Vector, ...]], a: Matrix, b: Matrix
) -> list[Vector]:
    """Some questions after the other: a year of hours at once would be gigabytes of weights."""
    rows = max(a.shape[0], b.shape[0])
    parts = []
    for first in range(0, rows, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        parts.append(asked(*(one if one.shape[0] == 1 else one[some] for one in (a, b))))
    return [np.concatenate(one) for one in zip(*parts, strict=True)]


def _stated(release: Release, places: Vector, slots: Vector) -> tuple[float, float] | None:
    """The published interval of one cell, or of all places in one slot."""
    where, when = np.flatnonzero(places), np.flatnonzero(slots)
    if when.size != 1 or slots[when[0]] != 1 or not (places[where] == 1).all():
        return None
    if where.size == 1 and release.lower is not None and release.upper is not None:
        cell = (where[0], when[0])
        return float(release.lower[cell]), float(release.upper[cell])
    if where.size == places.size and release.total_interval is not None:
        low, high = release.total_interval[when[0]]
        return float(low), float(high)
    return None


def samples(
    release: Release, places: Matrix, slots: Matrix, over: Vector | float = 1.0
) -> Matrix | None:
    """Joint draws of questions, samples x questions; `None` without a posterior."""
    if release.posterior is None:
        return None
    drawn: Matrix = release.posterior.samples(np.atleast_2d(places), np.atleast_2d(slots)) / over
    return drawn


def total(release: Release, words: Mapping[str, Any]) -> Total:
    """A sum, and beside it the average of a slot."""
    asked = selected(release, words)
    many = asked.slots.sum()
    (summed,) = estimates(release, asked.places, asked.slots)
    (average,) = estimates(release, asked.places, asked.slots, many)
    headline = f"{summed}{f'; {average} a slot on average' if many > 1 else ''}"
    row = {"total": summed, "average": average, "slots": int(many)}
    notes, signature = signed(release)
    if asked.polygons > 1:
        row["polygons"] = asked.polygons
        headline += f"; one sum over {asked.polygons} polygons together"
        notes.insert(0, "For a number of each polygon, ask with one of them at a time.")
    return Total(described(release, asked), headline, [row], notes, signature, estimate=summed)


def compare(
    release: Release, a: Mapping[str, Any], b: Mapping[str, Any] | None, other: Release | None
) -> Comparison:
    """Two selections of one release, or of two."""
    second = release if other is None else other
    if b is None and other is None:
        raise UsageError(
            "There is nothing to compare with.", remedy="Give a second selection or a release."
        )
    _alike_enough(release, second)
    asked = (selected(release, a), selected(second, a if b is None else b))
    lengths = np.array([one.slots.sum() for one in asked])
    per_slot = bool(lengths[0] != lengths[1])
    over = lengths if per_slot else np.ones(2)
    if second is release:
        where, when = _stacked(asked)
        first, then = estimates(release, where, when, over)
        drawn = samples(release, where, when, over)
        draws = None if drawn is None else (drawn[:, 0], drawn[:, 1])
    else:
        both = tuple(zip((release, second), asked, over, strict=True))
        first, then = (estimates(one, q.places, q.slots, n)[0] for one, q, n in both)
        each = [samples(one, q.places, q.slots, n) for one, q, n in both]
        draws = None if each[0] is None or each[1] is None else (each[0][:, 0], each[1][:, 0])
    difference, ratio = _apart(first, then, draws)
    rows = [
        {"what": described(release, asked[0]), "count": first},
        {"what": described(second, asked[1]), "count": then},
        {"what": "difference", "count": difference},
        *([] if ratio is None else [{"what": "ratio", "count": ratio}]),
    ]
    clear = difference.lower is not None and not (difference.lower <= 0 <= difference.ends[1])
    verdict = "" if clear or difference.lower is None else ", which may be none"
    headline = f"difference {difference}{verdict}"
    headline += "" if ratio is None else f"; ratio {ratio}"
    apart = " a slot on average, since the two have unequally many slots" if per_slot else ""
    question = f"{counting(release)}{apart}"
    notes, signature = signed(release)
    return Comparison(
        question,
        headline,
        rows,
        notes,
        signature,
        first=first,
        second=then,
        difference=difference,
        ratio=ratio,
    )


def _stacked(asked: tuple[Selection, Selection]) -> tuple[Matrix, Matrix]:
    """The weights of two questions."""
    return np.stack([one.places for one in asked]), np.stack([one.slots for one in asked])


def _alike_enough(release: Release, other: Release) -> None:
    """Refuse to set numbers of different things beside each other."""
    if release.manifest.privacy.counting != other.manifest.privacy.counting:
        raise InputError(
            f"One release counts {release.manifest.privacy.counting}, the other "
            f"{other.manifest.privacy.counting}.",
            file=str(other.folder),
            remedy="Compare releases that count the same thing.",
        )


def _apart(
    first: Estimate, second: Estimate, draws: tuple[Vector, Vector] | None
) -> tuple[Estimate, Estimate | None]:
    """Difference and ratio. A ratio to what may be nothing has no interval."""
    less, over = first.value - second.value, None
    if draws is None or first.coverage is None:
        if second.value > 0:
            over = Estimate(first.value / second.value)
        return Estimate(less), over
    difference = Estimate.of(less, draws[0] - draws[1], first.coverage)
    if second.value > 0:
        over = Estimate(first.value / second.value)
        if np.quantile(draws[1], 0.5 - first.coverage / 2) > 0:
            drawn = draws[0] / np.maximum(draws[1], 1e-12)
            over = Estimate.of(over.value, drawn, first.coverage)
    return difference, over


def share(release: Release, part: Mapping[str, Any], whole: Mapping[str, Any] | None) -> Total:
    """One selection over another that holds it."""
    if whole is None:
        whole = {key: word for key, word in part.items() if key not in ("zones", "polygon")}
    asked = (selected(release, part), selected(release, whole))
    outside = (asked[0].places > asked[1].places) | (asked[1].places == 0) & (asked[0].places > 0)
    if outside.any() or (asked[0].slots > asked[1].slots).any():
        raise UsageError(
            "The part is not inside of the whole.",
            remedy="Compare the two instead, or ask for a part of the same places and times.",
        )
    where, when = _stacked(asked)
    first, second = estimates(release, where, when)
    if second.value <= 0:
        raise InputError("The whole is zero, so it has no shares.", remedy="Ask for more of it.")
    drawn = samples(release, where, when)
    found = _apart(first, second, None if drawn is None else (drawn[:, 0], drawn[:, 1]))[1]
    assert found is not None
    if found.lower is not None:
        low, high = found.ends
        found = Estimate(found.value, max(low, 0.0), min(high, 1.0), found.coverage)
    rows = [{"share": found, "part": first, "whole": second}]
    question = f"{described(release, asked[0])}, as a share of {described(release, asked[1])}"
    return Total(question, f"{found} of the whole", rows, *signed(release), estimate=found)


def profile(release: Release, by: str, below: float | None, words: Mapping[str, Any]) -> Profile:
    """The average of a slot for each group."""
    if below is not None and not np.isfinite(below):
        raise UsageError("`below` is not a number.", remedy="Give a number of people, such as 20.")
    by, asked = grouping(by), selected(release, words)
    groups = grouped(release, asked, by)
    found = estimates(release, groups.places, groups.slots, groups.over)
    rows: list[dict[str, Any]] = []
    for k, (key, one) in enumerate(zip(groups.keys, found, strict=True)):
        row = labelled(release, by, key) | {"average": one}
        if below is not None:
            one_group = groups.some(np.array([k]))
            drawn = samples(release, *one_group)
            row["chance_below"] = None if drawn is None else float((drawn < below).mean())
            row["surely_below"] = None if one.upper is None else one.upper < below
        rows.append(row)
    most = max(range(len(rows)), key=lambda k: found[k].value)
    least = min(range(len(rows)), key=lambda k: found[k].value)
    headline = f"most {name_of(release, by, groups.keys[most])} with {found[most]}"
    if most != least:
        headline += f", least {name_of(release, by, groups.keys[least])} with {found[least]}"
    if below is not None:
        told = [row["surely_below"] for row in rows if row["surely_below"] is not None]
        if told:
            headline = f"{sum(told)} of {len(rows)} surely below {below:,g}; {headline}"
        else:
            headline = f"without intervals none is surely below {below:,g} or not; {headline}"
    question = f"average of a slot by {by}: {described(release, asked)}"
    return Profile(question, headline, rows, *signed(release))


def side_by_side(
    release: Release,
    by: str,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    other: Release | None,
) -> Profile:
    """The average of a slot for each group that two selections have, of one release or of two."""
    second = release if other is None else other
    _alike_enough(release, second)
    by, asked = grouping(by), (selected(release, a), selected(second, b))
    first, then = grouped(release, asked[0], by), grouped(second, asked[1], by)
    place = {key: k for k, key in enumerate(then.keys)}
    pairs = [(k, place[key]) for k, key in enumerate(first.keys) if key in place]
    if not pairs:
        raise InputError(
            f"The two selections have no {by} in common.",
            remedy="Compare by another grouping, such as hour or weekday, or without `by`.",
        )
    rows: list[dict[str, Any]] = []
    values = [
        estimates(one, groups.places, groups.slots, groups.over)
        for one, groups in ((release, first), (second, then))
    ]
    for k, at in pairs:
        here, there = first.some(np.array([k])), then.some(np.array([at]))
        if second is release:
            drawn = samples(
                release, *(np.concatenate(pair) for pair in zip(here, there, strict=True))
            )
            draws = None if drawn is None else (drawn[:, 0], drawn[:, 1])
        else:
            both = samples(release, *here), samples(second, *there)
            draws = None if both[0] is None or both[1] is None else (both[0][:, 0], both[1][:, 0])
        difference, _ = _apart(values[0][k], values[1][at], draws)
        row = labelled(release, by, first.keys[k]) | {"average": values[0][k]}
        rows.append(row | {"against": values[1][at], "difference": difference})
    most = max(range(len(rows)), key=lambda k: abs(rows[k]["difference"].value))
    name = name_of(release, by, first.keys[pairs[most][0]])
    notes, signature = signed(release)
    alone = len(first.keys) + len(then.keys) - 2 * len(pairs)
    if alone:
        notes.insert(0, f"Left out: {number_of(alone, 'groups')} that one of the two has alone.")
    return Profile(
        f"average of a slot by {by}: {described(release, asked[0])}; against "
        f"{described(second, asked[1])}",
        f"largest difference {rows[most]['difference']}, {name}",
        rows,
        notes,
        signature,
    )


def rank(
    release: Release,
    by: str,
    top: int,
    quietest: bool,
    window: str | timedelta | None,
    demand: Mapping[str, float] | None,
    words: Mapping[str, Any],
) -> Ranking:
    """The first `top` groups by their average, with how sure their order is."""
    if top < 1:
        raise UsageError("A ranking has at least one row.", remedy="Give `top` a positive number.")
    by, asked = grouping(by), selected(release, words)
    if demand:
        asked = replace(asked, slots=_demanded(release.grid, demand, asked.slots))
    if window is not None:
        if by not in ("slot", "hour"):
            raise UsageError(
                "Only slots and hours of the day have windows.",
                remedy="Rank slots or hours, or leave `window` out.",
            )
        length = parse_step(window) if isinstance(window, str) else window
        groups = windows(release, asked, by, length)
    else:
        groups = grouped(release, asked, by)
    found = estimates(release, groups.places, groups.slots, groups.over)
    sign = 1.0 if quietest else -1.0
    order = np.argsort([sign * one.value for one in found], kind="stable")
    if window is not None:
        order = _without_overlap(order, groups.slots)
    drawn = samples(release, *groups.some(order[:_MOST_RANKED]))
    ranks = None if drawn is None else 1 + np.argsort(np.argsort(sign * drawn, axis=1), axis=1)
    rows: list[dict[str, Any]] = []
    level = found[0].coverage or 0.9
    for k, one in enumerate(order[:top].tolist()):
        row: dict[str, Any] = {"rank": k + 1, **labelled(release, by, groups.keys[one])}
        row["average"] = found[one]
        best = worst = chance = clear = None
        if ranks is not None and drawn is not None and k < ranks.shape[1]:
            low, high = np.quantile(ranks[:, k], (0.5 - level / 2, 0.5 + level / 2))
            best, worst = int(np.floor(low)), int(np.ceil(high))
            chance = float((ranks[:, k] <= top).mean())
            if k + 1 < ranks.shape[1]:
                ahead = float((sign * drawn[:, k] < sign * drawn[:, k + 1]).mean())
                clear = ahead >= 0.5 + level / 2
        row |= {"rank_from": best, "rank_to": worst, "chance_in_top": chance, "before_next": clear}
        rows.append(row)
    first = name_of(release, by, groups.keys[int(order[0])])
    said = {None: "", True: ", clearly before the next", False: ", not clearly before the next"}
    sure = said[rows[0]["before_next"]]
    headline = f"{'quietest' if quietest else 'most'} {first} with {found[int(order[0])]}{sure}"
    spans = f" in windows of {window}" if window is not None else ""
    question = (
        f"the {'quietest' if quietest else 'busiest'} {min(top, order.size)} of {order.size} by "
        f"average of a slot{spans}: {described(release, asked)}"
    )
    return Ranking(question, headline, rows, *signed(release))


def _demanded(grid: TimeGrid, demand: Mapping[str, float], slots: Vector) -> Vector:
    """Slots with the weight that their hours are given."""
    weights = np.zeros(grid.slots)
    for hours, weight in demand.items():
        if not (np.isfinite(weight) and weight > 0):
            raise UsageError(
                "A demand is hours and how much they matter.",
                remedy='Write 7-10=2 (in Python {"7-10": 2}): a number above zero.',
            )
        weights += float(weight) * slot_weights(grid, hours=hours)
    weights *= slots
    if not weights.any():
        raise InputError("The demand and the hours asked about have nothing in common.")
    return weights


def _without_overlap(order: NDArray[np.intp], slots: Matrix) -> NDArray[np.intp]:
    """The best window, then the best that shares no slot with those before it, and so on."""
    taken, kept = np.zeros(slots.shape[1], dtype=bool), []
    for one in order.tolist():
        if not (taken & (slots[one] > 0)).any():
            kept.append(one)
            taken |= slots[one] > 0
    return np.asarray(kept, dtype=np.intp)
