"""Exact audit of stream schemes: the loss of one unit along a transcript, by replay.

A stream asks whether distances reach a threshold, and decides by the answers what it measures
next. Run on one input and replayed on its neighbour with the same answers of the wall it must
take the same measurements and write the same bytes: whatever differs was decided from private
numbers. What still differs behind the wall is what one unit moved, and the chance of these very
answers can differ by no more than

* Laplace noise: the L1 shift over the scale; Gaussian noise: in rho, the squared L2 shift over
  2 sigma2; a choice: the range of the shifts of its costs over the softness (in rho its square
  over 8);
* a run of the sparse vector technique: with the threshold's noise moved by s, as far as the
  noes need, s / b_T, and for each yes what is left of its own shift over b_q (the proof of the
  mechanism, with the real shifts in place of their bound).

Pure losses add up along the transcript, and so do those in rho. No noise is involved, no meter,
and no bound that was promised: a sum that is above the claim has found a fault, however small.

`stream_rows` does this on made-up crowds for neighbours of every kind: one unit (the whole
period, a day, a window of w slots, one record) that stays in one cell, that is in another cell
every slot, or that is always where the others are not, which moves the distances furthest.
Only for made-up data: nothing here is reachable from a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product, zip_longest

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.pipeline import REFUSED, Finished, differing, output_row, release_key
from sfumato.audits.run import Claim, EpsilonClaim, RhoClaim, Row, SensitivityClaim
from sfumato.audits.transcript import ListeningWall, Shift, Step, shifts
from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.time_grid import Calendar
from sfumato.privacy.door import open_private
from sfumato.privacy.events import (
    BoundedRangeEvent,
    Charger,
    GaussianEvent,
    LaplaceEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.mechanisms import NoisyDistances, SparseVector
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import Consistency, line_bytes, table_bytes
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import Run, run_on
from sfumato.streams.scheme import Meter, NoiseKind, Publication, StreamScheme

Counts = NDArray[np.int64]
"""Slot x cell."""
UNITS = ("user-period", "user-day", "w-event:5", "event")
"""Every unit of a stream. Five slots: a window that is shorter than the audit's days of six."""
_DAYS, _PER_DAY, _CELLS, _COLUMNS = 2, 6, 6, 3
EXPECTED_USERS = 60
"""About what the made-up crowds are."""


@dataclass(frozen=True, slots=True)
class Questions:
    """One run of the sparse vector technique: scales, what was asked, what was answered."""

    label: str
    sensitivity: int
    threshold_scale: Fraction
    query_scale: Fraction
    behind: list[int] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlayedStream(Finished):
    """A stream run to its end: transcript, what was written of each slot, and its questions."""

    runs: list[Questions] = field(default_factory=list)


class StreamListener(ListeningWall):
    """A listening wall that hears questions too, and repeats the answers of an earlier run."""

    def __init__(self, charger: Charger, key: bytes, earlier: PlayedStream | None = None) -> None:
        super().__init__(charger, key, () if earlier is None else earlier.steps)
        self.runs: list[Questions] = []
        self._replaying = earlier is not None
        self._said = {} if earlier is None else {run.label: run.answers for run in earlier.runs}

    def sparse_vector(
        self,
        *,
        threshold: int,
        sensitivity: int,
        positives: int,
        threshold_scale: Fraction | int,
        query_scale: Fraction | int,
        label: str,
        histograms: Histograms | None = None,
        used: int = 0,
    ) -> SparseVector:
        if histograms is not None:  # their loss would go uncounted
            raise UsageError("Histograms inside a run of questions cannot be audited exactly.")
        run = super().sparse_vector(
            threshold=threshold,
            sensitivity=sensitivity,
            positives=positives,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            label=label,
            used=used,
        )
        heard = Questions(label, sensitivity, Fraction(threshold_scale), Fraction(query_scale))
        self.runs.append(heard)
        given = self._said.get(label, []) if self._replaying else None
        return _HeardVector(run, heard, given)

    def distances(
        self, *, most: int, sensitivity: int, sigma2: Fraction | int, label: str
    ) -> NoisyDistances:
        run = super().distances(most=most, sensitivity=sensitivity, sigma2=sigma2, label=label)
        return _HeardDistances(run, self, most)


class _HeardVector(SparseVector):
    """A run that writes down what it is asked."""

    def __init__(self, run: SparseVector, heard: Questions, given: Sequence[bool] | None) -> None:
        self.__dict__.update(run.__dict__)
        self._heard, self._given_answers = heard, given

    def above(self, box: Private[int], number: int | None = None, about: str = "") -> bool:
        answer, asked = super().above(box, number, about), len(self._heard.answers)
        if self._given_answers is not None:
            if asked >= len(self._given_answers):
                raise UsageError(f"The run {self.label!r} asks more on a neighbouring input.")
            given = self._given_answers[asked]
            self._left += answer - given
            answer = given
        self._heard.behind.append(int(open_private(box)))
        self._heard.answers.append(answer)
        return answer


class _HeardDistances(NoisyDistances):
    """Noisy distances, each a step of the transcript of its own."""

    def __init__(self, run: NoisyDistances, wall: StreamListener, most: int) -> None:
        self.__dict__.update(run.__dict__)
        self._wall, self._most = wall, most

    def measure(self, box: Private[int]) -> int:
        label = self.label if self._most == 1 else f"{self.label}/{self._left}"
        answer = np.array([super().measure(box)], np.int64)
        if self._wall._replaying:
            answer = self._wall._answer(label, 1)
        self._wall._add(Step(label, self.event, np.array([open_private(box)]), answer))
        return int(answer[0])


def play_stream(
    scheme: StreamScheme,
    facts: StreamFacts,
    counts: Counts,
    key: bytes,
    earlier: PlayedStream | None = None,
    how: Consistency = Consistency.NONE,
) -> PlayedStream:
    """Run a scheme on counts to the end, or replay it with the answers of an `earlier` run."""
    meter = Meter(scheme.plan(facts).accounts, facts)
    wall = StreamListener(meter, key, earlier)
    try:
        parts = written(run_on(wall, meter, scheme, facts, counts, how))
    except Exception as error:  # a refusal is an answer too: it is compared like the rest
        said = f"{type(error).__name__}: {error}".encode()
        return PlayedStream(wall.steps, {REFUSED: said}, error, wall.runs)
    return PlayedStream(wall.steps, parts, None, wall.runs)


def written(made: Run) -> dict[str, bytes]:
    """Everything that a stream writes of its slots, partitions and lines, by slot."""
    ids = np.array([f"z{cell}" for cell in range(made.values.shape[1])])
    return {
        f"slot {slot}": table_bytes(ids, said) + line_bytes(slot, "start", "end", said)
        for slot, values in enumerate(made.values)
        for said in [Publication(values, bool(made.fresh[slot]), float(made.sd[slot]))]
    }


def apart(one: PlayedStream, other: PlayedStream) -> list[str]:
    """What a run and its replay did not do alike: parts written, measurements, questions.

    Raises:
        UsageError: Or whatever else both runs were refused with, alike: a scheme that does not
            run, whoever is in the data, cannot be audited.
    """
    if one.refusal and one.parts == other.parts:
        raise one.refusal
    names = differing(one, other)
    if [run.answers for run in one.runs] != [run.answers for run in other.runs]:
        names.insert(0, "questions asked")
    return names


def loss_between(one: PlayedStream, other: PlayedStream, *, pure: bool) -> float:
    """How far the chance of this transcript can differ: a pure epsilon, or a rho."""
    losses: list[Fraction] = []
    for a, b in zip_longest(one.steps, other.steps):
        if a is None or b is None or a.label != b.label or a.event != b.event:
            raise UsageError("On a neighbouring input other measurements were taken.")
        losses.append(_step_loss(a, b, pure))
    for run, again in zip_longest(one.runs, other.runs):
        if run is None or again is None or run.answers != again.answers:
            raise UsageError("On a neighbouring input other questions were asked.")
        if not pure:
            raise UsageError("The sparse vector technique is counted in pure epsilons.")
        losses.append(max(_run_loss(run, again), _run_loss(again, run)))
    return float(sum(losses, Fraction(0)))  # rounded once: never above a claim that is kept


def moved_by(one: PlayedStream, other: PlayedStream) -> list[Shift]:
    """How far one unit moved every measurement and every question, and how far is allowed.

    The loss of a whole transcript has room for a measurement that is charged too little beside
    others that lose less than they might; this has none.
    """
    moved = shifts(one.steps, other.steps)
    for run, again in zip(one.runs, other.runs, strict=True):
        distances = [abs(a - b) for a, b in zip(run.behind, again.behind, strict=True)]
        moved.append(Shift(run.label, "question", max([0, *distances]), run.sensitivity))
    return moved


def _step_loss(a: Step, b: Step, pure: bool) -> Fraction:
    moved = (a.behind - b.behind).ravel().tolist()  # plain integers: no square overflows
    match a.event:
        case LaplaceEvent():
            loss = sum(abs(m) for m in moved) / Fraction(a.event.scale)
            return loss if pure else loss**2 / 2
        case GaussianEvent() if not pure:
            return sum(m * m for m in moved) / (2 * Fraction(a.event.sigma2))
        case BoundedRangeEvent():
            spread = (max(moved) - min(moved)) / Fraction(a.units)
            return spread if pure else spread**2 / 8
    raise UsageError("This measurement has no loss of that kind.")


def _run_loss(run: Questions, again: Questions) -> Fraction:
    """From the first input to the second: the threshold moves as far as the noes need."""
    moved = [b - a for a, b in zip(run.behind, again.behind, strict=True)]
    noes = [m for m, yes in zip(moved, run.answers, strict=True) if not yes]
    far = max([0, *noes])
    yeses = sum(max(0, far - m) for m, yes in zip(moved, run.answers, strict=True) if yes)
    return far / run.threshold_scale + yeses / run.query_scale


def neighbours(facts: StreamFacts, every: bool = False) -> Iterator[tuple[str, Counts]]:
    """What one unit can add to the counts: all in one cell, or in another cell every slot.

    Without `every` of a unit's many windows only two: one that meets two of the disjoint windows,
    and the last one, which may be shorter.
    """
    for when in _touched(facts) if every else _touched(facts, (3, -1))[-2:]:
        for where, cell in (("one cell", np.zeros_like(when)), ("moving", when % facts.cells)):
            added = np.zeros((facts.slots, facts.cells), dtype=np.int64)
            added[when, cell] = 1
            if facts.unit.kind is UnitKind.EVENT and cell.any():
                added[when, (cell + 1) % facts.cells] = -1  # another record of theirs counts
            yield f"{where}, slots {when[0]} to {when[-1]}", added


def opposed(facts: StreamFacts) -> Iterator[tuple[str, Counts]]:
    """The first unit, always in the one of two cells where the others are not."""
    when = _touched(facts)[0]
    for first in (0, 1):
        added = np.zeros((facts.slots, facts.cells), dtype=np.int64)
        added[when, (when + first) % 2] = 1
        yield f"against the crowd, slots {when[0]} to {when[-1]}", added


def _touched(facts: StreamFacts, begins: Sequence[int] | None = None) -> list[Counts]:
    """Slots that one unit can touch; of windows that slide, those that begin there."""
    slots = np.arange(facts.slots)
    if facts.unit.kind is UnitKind.USER_PERIOD:
        return [slots]
    if facts.unit.kind is UnitKind.USER_DAY:
        return [slots[facts.calendar.day == day] for day in np.unique(facts.calendar.day)]
    windows = [slots[at : at + facts.window] for at in range(facts.slots - facts.window + 1)]
    return windows if begins is None else [windows[min(at, len(windows) - 1)] for at in begins]


def crowds(facts: StreamFacts, seed: int) -> Iterator[tuple[str, Counts, int]]:
    """Everybody else, and whether the unit leaves them (-1) or joins them (1).

    A crowd that goes to and fro between two cells lies on either side of a unit that does not:
    distances between slots then move by two, which is as far as they can.
    """
    shape = (facts.slots, facts.cells)
    yield "people everywhere", np.random.default_rng(seed).integers(2, 60, shape), -1
    # Where one record less brings up another one, the cell it leaves is not empty.
    swinging = np.full(shape, int(facts.unit.kind is UnitKind.EVENT), dtype=np.int64)
    swinging[::2, 0], swinging[1::2, 1] = 40, 40
    yield "to and fro", swinging, 1


def stream_rows(
    scheme: StreamScheme, facts: StreamFacts, *, every: bool = False, seed: int = 0
) -> list[Row]:
    """The exact audit of a scheme under one unit.

    Args:
        scheme: What is audited.
        facts: The public facts, with unit, epsilon and delta; they are the claim.
        every: Try every window that one unit can touch, not only two.
        seed: The same seed gives the same rows.

    Returns:
        The largest loss of any neighbour against epsilon (or rho, where the plan is Gaussian);
        the shift of every kind of measurement that comes closest to its sensitivity, or goes
        furthest beyond; and how much of what is written differs under equal answers.
    """
    pure = is_pure(scheme, facts)
    noise = "pure" if pure else "Gaussian"
    name = f"{scheme.name}, {facts.unit}, {noise} at ε = {facts.epsilon:g}:"
    worst, loss = "all pairs", 0.0
    elsewhere, differences = "all pairs", list[str]()
    closest: dict[tuple[str, str], tuple[str, Shift]] = {}
    replays = 0
    for turn, (crowd, counts, sign) in enumerate(crowds(facts, seed)):
        key = release_key(seed, turn)
        run = play_stream(scheme, facts, counts, key)
        for unit, added in (*neighbours(facts, every), *opposed(facts)):
            replay = play_stream(scheme, facts, counts + sign * added, key, run)
            pair, names = f"{unit}, {crowd}", apart(run, replay)
            replays += 1
            if len(names) > len(differences):
                elsewhere, differences = pair, names
            if names:  # of different transcripts there is no shift
                continue
            lost = loss_between(run, replay, pure=pure)
            if lost > loss:
                worst, loss = pair, lost
            for shift in moved_by(run, replay):
                what = (shift.label.partition("@")[0], shift.norm)
                if what not in closest or _used(shift) > _used(closest[what][1]):
                    closest[what] = (pair, shift)
    how = f"exact, {replays} replays"
    claim: Claim = EpsilonClaim(facts.epsilon) if pure else RhoClaim(facts.rho)
    rows = [Row(f"{name} loss", worst, claim, loss, how, replays, 1.0)]
    if not scheme.declares.together:  # the loss alone holds those to the claim
        rows += [
            Row(
                f"{name} {label}",
                pair,
                SensitivityClaim(shift.allowed, norm),
                shift.moved,
                how,
                replays,
                1.0,
            )
            for (label, norm), (pair, shift) in closest.items()
        ]
    return [*rows, output_row(name, elsewhere, differences, how, replays)]


def _used(shift: Shift) -> float:
    return shift.moved / shift.allowed


def stream_audit(
    scheme: StreamScheme,
    epsilons: Sequence[float],
    delta: float,
    *,
    expected_users: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """`stream_rows` at every epsilon, for every unit that the scheme has, pure and with delta.

    Raises:
        UsageError: The scheme has none of the units.
    """
    rows: list[Row] = []
    refusal: UsageError | None = None
    people = min(expected_users or EXPECTED_USERS, math.floor(1 / delta))
    calendar = Calendar.regular(_DAYS * _PER_DAY, _PER_DAY)
    variants = [(scheme, delta), (scheme, 0.0)]
    if hasattr(scheme, "noise"):  # on short streams the smaller noise is always Laplace
        variants.append((replace(scheme, noise=NoiseKind.GAUSSIAN), delta))  # type: ignore[type-var]
    for epsilon, unit in product(epsilons, UNITS):
        if progress is not None:
            progress(f"replays of {unit} at ε = {epsilon:g}")
        tried: set[bool] = set()
        for variant, allowed in variants:
            facts = StreamFacts(
                _CELLS, calendar, epsilon, allowed, Unit.parse(unit), people, _COLUMNS
            )
            try:
                pure = is_pure(variant, facts)
            except UsageError as error:  # no sliding windows, or no noise without a delta
                refusal = error
                continue
            if pure not in tried:
                tried.add(pure)
                rows += stream_rows(variant, facts, seed=seed)
    if refusal is not None and not rows:
        raise refusal
    return rows


def stream_other_rows(
    name: str, epsilon: float, delta: float, expected_users: int | None = None, seed: int = 0
) -> list[Row]:
    """The audit of days with each parameter of a scheme at another value.

    One row for the loss at each; rows of sensitivities and outputs only where one is violated.
    """
    people = min(expected_users or EXPECTED_USERS, math.floor(1 / delta))
    calendar = Calendar.regular(_DAYS * _PER_DAY, _PER_DAY)
    facts = StreamFacts(_CELLS, calendar, epsilon, delta, Unit.parse("user-day"), people, _COLUMNS)
    rows: list[Row] = []
    for parameter, setting in stream_scheme(name).declares.parameters.items():
        scheme = stream_scheme(name, {parameter: setting.other})
        for number, row in enumerate(stream_rows(scheme, facts, seed=seed)):
            if number == 0 or row.violated:
                subject = f"{row.subject} with {parameter}={setting.other}"
                rows.append(replace(row, subject=subject))
    return rows


def is_pure(scheme: StreamScheme, facts: StreamFacts) -> bool:
    """Whether the plan is pure epsilon throughout; otherwise it is Gaussian throughout."""
    return all(account.pure for account in scheme.plan(facts).accounts)
