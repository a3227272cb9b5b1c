"""Moments: is this hour unusual, and who may be there now?

**Unusual.** A slot is held against the slots of the same weekday and hour in this release and in
earlier ones. What lies between them has three parts: the doubt of the published numbers (from the
posterior, where what slots of one release share cancels), the chance of who happens to come (the
variance of a count is at least its mean), and how much weeks differ by nature, a share of the
usual number. That share is learnt from all slots at once, as the scale at which the median squared
deviation is what a normal law has: an empirical null (Efron 2004), in which a few odd hours do not
hide themselves. Where deviations are smaller than doubt and chance alone, as those of a scheme that
pulls numbers towards a rhythm are, the null is narrower by as much. A slot is unusual where such a
deviation would be rare even though so many slots were asked about (Benjamini & Hochberg 1995, one
false alarm in ten) and the interval of the difference leaves zero out. An hour within its own ± is
never unusual.

**Now.** In an emergency the upper end matters, so it comes first. A running stream answers with its
last slot; a release of the past with the same time of the week, which is what is usual then and not
what is the case today: the answer says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sfumato.errors import InputError, UsageError
from sfumato.model.time_grid import MICROSECONDS, TimeGrid, zone
from sfumato.published.answers import Presence, Usual, shown
from sfumato.published.asking import estimates
from sfumato.published.estimate import Estimate
from sfumato.published.groups import counting, described, places_words, selected, signed
from sfumato.published.selection import DAYS, Moment

if TYPE_CHECKING:
    from sfumato.published.posterior import Factors
    from sfumato.published.release import Release

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
_FALSE = 0.1
"""Share of alarms that may be false."""
_FRESH = timedelta(days=1)
"""So long after its last slot a stream still says who is there now; later its week is typical."""
_MEDIAN_OF_MANY = float(np.sqrt(np.pi / 2))
"""Standard deviation of a median over that of a mean."""
_LEAST_SCALE = 0.2
"""Narrower nulls are those of weeks that were published together, or twice."""
_CELLS = "At most: upper ends of cells, summed, or that of all places together; more than needed."
_AT_ONCE = 400
"""Slots that are asked about at once: a year of hours would be gigabytes of weights."""
_MEDIAN = float(special.chdtri(1, 0.5))


class _Null(NamedTuple):
    """What deviations of common weeks look like."""

    share: float
    """Of the usual number, by which weeks differ beyond doubt and chance."""
    scale: float
    """Of the deviations, where doubt and chance are more than they show."""


class _Series(NamedTuple):
    """What one release says about the places, slot by slot."""

    release: Release
    places: Vector
    keys: list[tuple[int, ...]]
    values: Vector


def unusual(release: Release, earlier: Sequence[Release], words: Mapping[str, Any]) -> Usual:
    """The slots that are asked about, against the same weekday and hour at other times."""
    asked = selected(release, words)
    _all_different([release, *earlier])
    where = {key: word for key, word in words.items() if key in ("zones", "polygon")}
    series = [_series(one, where, release) for one in (release, *earlier)]
    others = _others(series)
    wanted = [int(k) for k in np.flatnonzero(asked.slots)]
    if not any(others[0][k] for k in wanted):
        raise InputError(
            "There is nothing to compare these hours with: this release has every weekday and "
            "hour once.",
            remedy="Give releases of other weeks as `earlier`.",
        )
    known = [k for k in wanted if others[0][k]]
    apart = np.array([_apart(series, others, 0, k) for k in known])
    difference, usual, many = apart.T
    noise = _noise(series, others, known)
    null = None if noise is None else _null(series, others)
    rows: list[dict[str, Any]] = []
    each = estimates(release, asked.places, one_each(known, release.grid.slots))
    starts = release.grid.starts()
    verdicts: list[bool | None] = [None] * len(known)
    chance: list[float | None] = [None] * len(known)
    if noise is not None and null is not None:
        own = np.maximum(usual, 0.0) + np.square(null.share * usual)
        spread = null.scale * np.sqrt(np.maximum(noise + own * (1 + 1 / many), 1e-12))
        p = 2 * special.ndtr(-np.abs(difference) / spread)
        sure = np.abs(difference) > _half(1.0, each[0].coverage or 0.9) * np.sqrt(noise)
        chance = [float(one) for one in p]
        verdicts = [bool(one) for one in _discoveries(p) & sure]
    for k, slot in enumerate(known):
        level = each[k].coverage
        doubt = None if noise is None or level is None else _half(noise[k], level)
        rows.append(
            {
                "slot": starts[slot],
                "count": each[k],
                "usual": float(usual[k]),
                "difference": _around(float(difference[k]), doubt, level),
                "relative": float(difference[k] / usual[k]) if usual[k] > 0 else None,
                "chance": chance[k],
                "unusual": verdicts[k],
                "weeks": len(others[0][slot]),
            }
        )
    question = f"against the same weekday and hour at other times: {described(release, asked)}"
    notes, signature = signed(release)
    if null is not None and null.share > 0:
        notes.append(f"Besides doubt and chance, weeks differ by {100 * null.share:.1f} % here.")
    if len(known) < len(wanted):
        notes.append(f"{len(wanted) - len(known)} of the slots have nothing to be compared with.")
    return Usual(question, _verdict(rows), rows, notes, signature)


def _all_different(releases: Sequence[Release]) -> None:
    """Refuse a week that is held against itself, which would seem as usual as can be."""
    folders = [one.folder.resolve() for one in releases]
    twice = [folder for k, folder in enumerate(folders) if folder in folders[:k]]
    if twice:
        raise UsageError(
            f"{twice[0].name} is given twice.",
            remedy="Give each release of another week once as `earlier`.",
        )


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    odd = [row for row in rows if row["unusual"]]
    if rows[0]["unusual"] is None:
        return "without a posterior it cannot be said what is unusual"
    if not odd:
        return "nothing unusual" if len(rows) > 1 else f"not unusual: {_said(rows[0])}"
    most = min(odd, key=lambda row: float(row["chance"]))
    many = "" if len(rows) == 1 else f"{len(odd)} of {len(rows)} slots unusual; most "
    return f"{many}{'unusual: ' if not many else ''}{_said(most)}"


def _said(row: Mapping[str, Any]) -> str:
    far = "" if row["relative"] is None else f" ({shown(row['relative'], 'relative')})"
    return f"{row['slot']:%a %Y-%m-%d %H:%M} {row['count']}, usually {row['usual']:,.0f}{far}"


def _around(value: float, half: float | None, level: float | None) -> Estimate:
    return Estimate(value) if half is None else Estimate(value, value - half, value + half, level)


def _half(variance: float, level: float) -> float:
    return float(special.ndtri(0.5 + level / 2) * np.sqrt(variance))


def _series(one: Release, where: Mapping[str, Any], asked: Release) -> _Series:
    """The places of the question in one release, slot by slot.

    Raises:
        InputError: It cannot be held against the release that is asked.
    """
    if one is not asked:
        same = one.manifest.privacy.counting == asked.manifest.privacy.counting
        if one.kind == "traces" or not same or not one.manifest.grid.alike(asked.manifest.grid):
            raise InputError(
                "it has other slots, another clock or counts something else.",
                file=str(one.folder),
                remedy="Give earlier releases of the same kind as `earlier`.",
            )
        if not where and one.manifest.released.sha256 != asked.manifest.released.sha256:
            raise InputError(
                "it has other places.",
                file=str(one.folder),
                remedy="Ask about zones or a polygon that both have.",
            )
    places = selected(one, where).places
    return _Series(one, places, week_keys(one.grid), places @ one.values)


def week_keys(grid: TimeGrid) -> list[tuple[int, ...]]:
    """Weekday and time of day of each slot; the second pass of an hour set back is its own."""
    found: list[tuple[int, ...]] = []
    for start in grid.starts():
        day = 0 if grid.fold == "day" else start.weekday()
        found.append((day, start.hour, start.minute, start.second, start.fold))
    return found


def _others(series: Sequence[_Series]) -> list[list[list[tuple[int, int]]]]:
    """For every release and slot: the same weekday and hour elsewhere, as (release, slot)."""
    at: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for r, one in enumerate(series):
        for k, key in enumerate(one.keys):
            at.setdefault(key, []).append((r, k))
    return [
        [[pair for pair in at[key] if pair != (r, k)] for k, key in enumerate(one.keys)]
        for r, one in enumerate(series)
    ]


def _apart(
    series: Sequence[_Series], others: list[list[list[tuple[int, int]]]], r: int, k: int
) -> tuple[float, float, float]:
    """A slot less the median of its others, that median, and as many as a mean would need.

    With a mean, one odd week would make all the others look unusual. A median of three and more
    is as far off as the mean of two thirds as many (2 / pi of them, for normal numbers).
    """
    beside = others[r][k]
    usual = float(np.median([series[a].values[b] for a, b in beside]))
    many = len(beside) if len(beside) < 3 else len(beside) * 2 / np.pi
    return float(series[r].values[k]) - usual, usual, many


def _noise(
    series: Sequence[_Series], others: list[list[list[tuple[int, int]]]], slots: list[int]
) -> Vector | None:
    """Variance of the error of each difference: linear questions to every release.

    Those to the others are weighed so that their variance is that of the median.
    """
    if len(slots) > _AT_ONCE:
        parts = [
            _noise(series, others, slots[k : k + _AT_ONCE]) for k in range(0, len(slots), _AT_ONCE)
        ]
        return None if parts[0] is None else np.concatenate([p for p in parts if p is not None])
    found = np.zeros(len(slots))
    for r, one in enumerate(series):
        if one.release.posterior is None:
            return None
        weights = np.zeros((len(slots), one.values.size))
        for row, k in enumerate(slots):
            if r == 0:
                weights[row, k] = 1.0
            same = [b for a, b in others[0][k] if a == r]
            beside = len(others[0][k])
            weights[row, same] -= (1.0 if beside < 3 else _MEDIAN_OF_MANY) / beside
        found += one.release.posterior.variances(one.places, weights)
    return found


def _by_slot(factors: Factors, places: Vector) -> Vector:
    """Variance of the error of every slot's sum."""
    slots = factors.counts.shape[1]
    parts = []
    for first in range(0, slots, _AT_ONCE):
        some = np.arange(first, min(first + _AT_ONCE, slots))
        parts.append(factors.variances(places, one_each(some, slots)))
    return np.concatenate(parts)


def one_each(slots: Sequence[int] | NDArray[np.intp], many: int) -> Matrix:
    """A question for each of some slots."""
    found = np.zeros((len(slots), many))
    found[np.arange(len(slots)), slots] = 1.0
    return found


def _null(series: Sequence[_Series], others: list[list[list[tuple[int, int]]]]) -> _Null:
    """How far apart the same hours of common weeks are, from all slots of all releases."""
    rows = []
    for r, one in enumerate(series):
        assert one.release.posterior is not None
        doubt = _by_slot(one.release.posterior, one.places)
        for k in range(one.values.size):
            if others[r][k]:
                difference, usual, many = _apart(series, others, r, k)
                rows.append((difference**2, doubt[k] * (1 + 1 / many), usual, 1 + 1 / many))
    squared, noise, usual, more = np.array(rows).T
    chance = noise + np.maximum(usual, 0.0) * more

    def median(share: float) -> float:
        spread = np.maximum(chance + np.square(share * usual) * more, 1e-12)
        return float(np.median(squared / spread))

    low, high = 0.0, 2.0
    if median(low) <= _MEDIAN:
        return _Null(0.0, max(np.sqrt(median(low) / _MEDIAN), _LEAST_SCALE))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if median(middle) > _MEDIAN else (low, middle)
    return _Null(high, 1.0)


def _discoveries(p: Vector) -> NDArray[np.bool_]:
    """Which of many deviations are more than the rare ones among so many."""
    order = np.argsort(p)
    bars = _FALSE * np.arange(1, p.size + 1) / p.size
    passed = np.flatnonzero(p[order] <= bars)
    found = np.zeros(p.size, dtype=bool)
    if passed.size:
        found[order[: passed[-1] + 1]] = True
    return found


def present(release: Release, at: Moment, sure: float, words: Mapping[str, Any]) -> Presence:
    """How many may be there at a moment: in its slot, or as at that time of the week."""
    if not 0.5 < sure < 1:
        raise UsageError("`sure` is a probability.", remedy="Take 0.95 or 0.99, say.")
    if words.get("start") is not None or words.get("end") is not None:
        raise UsageError(
            "A moment and a period were given.", remedy="Leave `start` and `end` out with `at`."
        )
    if words.get("hours") is not None or words.get("weekdays") is not None:
        raise UsageError(
            "A moment and hours or days were given.",
            remedy="Leave `hours` and `weekdays` out with `at`.",
        )
    asked = selected(release, words)
    moment = _moment(at, release.grid.tz)
    which, how = _slots_at(release, moment)
    when = one_each(which, release.grid.slots)
    (found,) = estimates(release, asked.places, when.sum(axis=0), float(which.size))
    at_most: float | None = None
    further: list[str] = []
    if release.posterior is not None:
        high = release.posterior.estimates(asked.places, when, 2 * sure - 1)[2]
        at_most = float(high.max())
        if which.size == 1 and 2 * sure - 1 >= release.posterior.coverage:
            at_most = max(at_most, found.ends[1])  # of a single cell, the one that is printed
    elif release.upper is not None and release.manifest.scheme.interval_coverage:
        at_most, sure = _cells_at_most(release, asked.places, which)
        further = [_CELLS]
    most = (
        "no upper end is known"
        if at_most is None
        else (f"at most {np.ceil(at_most):,.0f} ({100 * sure:g} % sure)")
    )
    notes, signature = signed(release)
    row = {"at": moment, "present": found, "at_most": at_most, "sure": sure, "which": how}
    return Presence(
        f"{counting(release)} in {places_words(release, asked)}, {moment:%a %Y-%m-%d %H:%M} "
        f"({release.grid.tz}): {how}",
        f"{most}; {found}",
        [row],
        [*notes, *further],
        signature,
        estimate=found,
        at_most=at_most,
    )


def _cells_at_most(
    release: Release, places: Vector, slots: NDArray[np.intp]
) -> tuple[float, float]:
    """What a sum does not exceed where only cells have intervals, and how surely.

    Upper ends of cells, summed: however errors of a joint normal (or elliptical) law hang together,
    the upper end of the sum is not above that. Nor is it above that of all places together.
    """
    assert release.upper is not None
    ends = places @ release.upper[:, slots]
    if release.total_interval is not None:
        ends = np.minimum(ends, release.total_interval[slots, 1])
    return float(ends.max()), 0.5 + release.manifest.scheme.interval_coverage / 2


def _moment(at: Moment, tz: str) -> datetime:
    local = zone(tz)
    if at == "now":
        return datetime.now(local)
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        raise UsageError(
            "The moment is not a time.", remedy="Write now, or a time such as 2007-09-10T08:00."
        )
    return found.astimezone(local) if found.tzinfo else found.replace(tzinfo=local)


def _slots_at(release: Release, moment: datetime) -> tuple[NDArray[np.intp], str]:
    """The slots that speak for a moment, and in which way."""
    grid = release.grid
    instant = round(moment.timestamp() * MICROSECONDS)
    if grid.fold is None and grid.edges[0] <= instant < grid.edges[-1]:
        return np.array([np.searchsorted(grid.edges, instant, side="right") - 1]), "counted then"
    age = timedelta(microseconds=instant - int(grid.edges[-1]))
    if release.kind == "stream" and grid.fold is None and timedelta(0) <= age < _FRESH:
        ended = grid.ends()[-1]
        return np.array([grid.slots - 1]), f"the last slot that is out, ended {ended:%a %H:%M}"
    day = 0 if grid.fold == "day" else moment.weekday()
    clock = 1440 * day + 60 * moment.hour + moment.minute
    cycle = 1440 if grid.fold == "day" else 7 * 1440
    lasts = np.diff(grid.edges) / (60 * MICROSECONDS)
    begins = np.array([1440 * key[0] + 60 * key[1] + key[2] for key in week_keys(grid)])
    found = np.flatnonzero((clock - begins) % cycle < lasts)
    if not found.size:
        raise InputError(
            f"The release has no {DAYS[moment.weekday()].capitalize()} at {moment:%H:%M}.",
            remedy=f"It is about {release.manifest.grid.days()} ({grid.tz}).",
        )
    times = "" if grid.fold == "day" else f"{DAYS[moment.weekday()].capitalize()}s "
    return found, f"as {times}at {moment:%H:%M} in {release.manifest.grid.days()}"
