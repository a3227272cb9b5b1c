"""`comb`: the live default of `sfumato stream`.

A few vectors (noisy counts of all cells) a day, taken at times that rotate from day to day like the
teeth of a comb, and every slot estimated from the last of them:

1. *Measured*: k vectors a day (`teeth`), each the mean over the slots that end at its own: a
   quarter of a day for k = 1, two hours for k = 2, one slot for more. No totals: a person is
   in every slot's, so measuring them did not pay.
2. *The city's profile* from the vectors' sums, pooled over days, and *the surroundings' profile*
   from each cell's neighbours (`profiles`).
3. *The cell's level and own profile*: a law of levels and one Gaussian process a level (`cells`).
4. *Published*: `count`, the posterior mean scaled to the city's total, which adds up; `median`, of
   the least absolute error, in which busy cells count more where that costs nothing
   (`rhythm.shrinkage`); a 90 % interval for every cell and for the sum, where cells hold two
   people and more.

**How many vectors**, and whether a stream begins with a look: `design`.

**Outages.** A vector whose sum is less than half its own forecast and four standard deviations
below it is not learned from. What is published falls to its share of the forecast and comes back
with a half-life of two hours, until the next vector settles it. After a day of it the past is
forgotten. Before the first people are seen nobody is published, and nothing learned.

**Earlier streams.** Their vectors (`streams.kept`) are what the first day begins with, if the first
vector says that it is the same city (`recalled`): it is foretold from them, and where the busy
places are others they are left out, where only the level is another they are scaled to it.

Claim: pure epsilon (or rho, where the noise is Gaussian) for one unit, neighbours by adding or
removing it. Under `user-day` a unit is one person's day: it adds at most n to the sum over n
slots of one day (L1; L2 if all fall into one cell), and the k vectors of a day have noise of scale
n k / epsilon each. Under the other units each vector is one slot with sensitivity 1 (2 for
`event`) and no window of W slots holds more than k of them; means over several slots
would reach beyond a sliding window, so there are none, and k follows from public facts alone. The
rest is post-processing. Memory: the last 42 vectors and one private sum, however long the stream.

Ablations, constants and what did not help: docs/decisions/streams.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Measurement, UnitKind
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts, due
from sfumato.streams.kept import Vectors, recalled
from sfumato.streams.parameters import NOISE, Declaration, Kind, Setting, States
from sfumato.streams.scheme import (
    Meter,
    Noise,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)
from sfumato.streams.schemes.comb import design
from sfumato.streams.schemes.comb.cells import FIRST_HABITS, STEADY_HABITS, Calibration, Cells
from sfumato.streams.schemes.comb.profiles import (
    HOLIDAY,
    CityProfile,
    Surroundings,
    Times,
    day_factor,
    standing_out,
    teeth,
    width,
)
from sfumato.streams.schemes.rhythm.scheme import samples

_COVERAGE, _REACH = 0.9, 1.6449
DENSE = 2.0
"""People a cell from which intervals are stated. On thinner maps those of busy cells held in 27 to
80 % of cases (docs/benchmarks/live.md)."""
_FAR, _LOW = 4.0, 0.5
"""Standard deviations and share of the forecast below which a sum is an outage."""
_HALF_LIFE = 1 / 12
"""Days after which an outage is as likely over as not."""
_FACTORS = (0.7, 1.4)
"""How far counts are scaled to the city's total."""
_UNWEIGHED = 2  # vectors from which habits cannot be weighed yet
_AT, _PHASE, _FREE, _FACTOR, _VARIANCE, _USED = range(6)  # columns of what is remembered


@dataclass(frozen=True, slots=True)
class Comb:
    """`vectors` a window; None lets what was published decide. `memory`: vectors kept."""

    vectors: int | None = None
    memory: int = 42
    noise: NoiseKind = NoiseKind.BEST
    name: str = "comb"
    finished: bool = False
    declares: ClassVar = Declaration(
        "The default from two expected people a cell on.",
        {
            "vectors": Setting(
                *("vectors", Kind.WHOLE, "vectors that are measured in a window", 2, 1, 100_000),
                unset="from what was published of busy cells; first from public facts",
            ),
            "memory": Setting("memory", Kind.WHOLE, "vectors that are kept", 16, 8, 96),
            **NOISE,
        },
        reads=("earlier", "holidays", "begins"),
        states=(States.MEDIAN, States.INTERVALS),
        judged=True,
    )

    def most(self, facts: StreamFacts) -> int:
        """Vectors in a window, as far as public facts tell: what the ledger's account lists."""
        if self.vectors is not None:
            return min(self.vectors, facts.window)
        if facts.unit.kind is not UnitKind.USER_DAY:
            return samples(facts)
        return design.expected_vectors(facts)

    def first(self, facts: StreamFacts) -> int:
        """Vectors on the first day: with 3 instead of 7 a crowd's had 13 % less error over all
        cells. Fewer would overlook a feed that begins at noon."""
        most = self.most(facts)
        return most if not self.adapts(facts) else max(most // 3, 1 if most < 3 else 3)

    def adapts(self, facts: StreamFacts) -> bool:
        """Whether midnights choose anew. Shares of rho would not add up exactly."""
        daily = facts.unit.kind is UnitKind.USER_DAY and self.vectors is None
        return daily and self.kind(facts) is NoiseKind.LAPLACE

    def looks(self, facts: StreamFacts) -> bool:
        """Whether a stream begins with a look (`design`); by public facts alone."""
        begins = facts.past is None and int(facts.calendar.phase[0]) == 0
        several = self.adapts(facts) and self.first(facts) >= design.SPLIT
        return begins and several and design.look_tells(facts, self.kind(facts))

    def kind(self, facts: StreamFacts) -> NoiseKind:
        return noise_of(facts, self.noise, self.most(facts)).kind

    def states_intervals(self, facts: StreamFacts) -> bool:
        """By public facts alone: never by what was seen."""
        return (facts.expected_users or 0) >= DENSE * facts.cells

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most, first = self.most(facts), self.first(facts)
        noise = noise_of(facts, self.noise, most)
        past = "" if facts.past is None else f"{len(facts.past)} vectors of earlier streams and "
        if facts.past is not None and facts.past.laplace != (noise.kind is NoiseKind.LAPLACE):
            raise UsageError(
                "Earlier streams were measured with another kind of noise than this one.",
                remedy="Leave `earlier` out, or choose their kind: `parameter={'noise': …}`.",
            )
        sd = noise_of(facts, noise.kind, first).sd
        chosen = (
            " on the first day, then as many as busy cells ask for," if self.adapts(facts) else ""
        )
        line = (
            f"{first} vectors a window{chosen} with {noise.kind} noise, sd {sd:.3g} for each "
            f"of {first}; all slots are estimated from {past}the last {self.memory}, "
            + ("with 90 % intervals." if self.states_intervals(facts) else "without intervals.")
        )
        account = noise.account("vector", most, facts.l1, facts.l2, _touched(self, facts))
        stated = _COVERAGE if self.states_intervals(facts) else 0.0
        return StreamPlan(self.name, (account,), (line,), coverage=stated, median=True, keeps=True)

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Comb(facts, self)


def _touched(scheme: Comb, facts: StreamFacts) -> int:
    """The most cells that a unit moves in one vector."""
    if facts.unit.kind is not UnitKind.USER_DAY:
        return 2
    return 2 * width(scheme.most(facts), facts.calendar.longest_day)


class _Comb(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Comb) -> None:
        super().__init__(facts)
        self._daily = facts.unit.kind is UnitKind.USER_DAY
        self._adapts, self._kind = scheme.adapts(facts), scheme.kind(facts)
        self._memory, self._public = scheme.memory, scheme.first(facts)
        self._k = self._public
        self._wide: int | None = None
        self._looked = False
        self._looks = scheme.looks(facts)
        self._stated = scheme.states_intervals(facts)
        self._seen = np.zeros((0, facts.cells))
        self._rows = np.zeros((0, 6))
        self._sum: Private[NDArray[np.int64]] | None = None
        self._outage: tuple[float, float] | None = None
        self._waits = False  # nobody was seen before today: measure from its first slot on
        self._habits = FIRST_HABITS
        self._errors = Calibration()
        self._city: CityProfile | None = None
        self._cells: Cells | None = None
        if self._adapts and facts.past is not None:
            self._choose(False)
            self._k = min(self._k, self._public)  # it may be another city

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        phase = int(self.facts.calendar.phase[slot])
        if phase == 0 and self._daily:
            self._looked = False
            self._sum = None  # a tooth beyond the end of a short day
            self._waits = len(self._rows) > 0 and self._city is None
            if self._adapts and slot > 0:
                self._choose(bool(self.facts.calendar.free[slot]))
            steady = self._adapts and self._city is not None and self._city.complete
            self._wide = 1 if steady else None
        if slot == self.facts.begins and self._looks:
            self._look(slot, box, wall)
        taken = self._gathered(slot, phase, box)
        if taken is None:
            return self._estimate(slot, fresh=False)
        summed, slots = taken
        noise = self._noise(slots)
        if not meter.affords(
            "vector", slot, noise.event(slots * self.facts.l1, slots * self.facts.l2)
        ):
            return self._estimate(slot, fresh=False)
        found = noise.measure(wall, summed, f"vector@{slot}", touched=2 * slots)
        self._learn(slot, found, slots, noise.variance / slots**2)
        return self._estimate(slot, fresh=True)

    def _look(self, slot: int, box: Private[Counts], wall: Wall) -> None:
        """Buy the first slot for a small share: its sum tells whether everybody is there."""
        noise = noise_of(self.facts, self._kind, 1, design.LOOK)
        found = noise.measure(wall, box, f"vector@{slot}/look", touched=2)
        self._learn(slot, found, 1, noise.variance)
        self._looked = True
        if self._city is not None and self._city.complete:
            self._k, self._wide = max(self._k // 3, 1), 1

    def _noise(self, slots: int) -> Noise:
        """The noise in the sum over so many slots."""
        share = 1 - design.LOOK if self._looked else 1
        one = noise_of(self.facts, self._kind, self._k, share)
        power = 1 if self._kind is NoiseKind.LAPLACE else 2
        return Noise(self._kind, one.parameter * slots**power)

    def _gathered(
        self, slot: int, phase: int, box: Private[Counts]
    ) -> tuple[Private[Counts], int] | None:
        """The sum to be measured now, and over how many slots it is; by public times alone."""
        facts, length = self.facts, self.facts.calendar.longest_day
        if not self._daily:
            return (box, 1) if due(facts, slot, self._k) else None
        turn = 0 if self._waits else int(facts.calendar.day[slot])
        first = facts.begins if facts.same_window(0, slot) else 0
        wide = self._wide or width(self._k, length)
        wide = min(wide, max((length - first) // self._k, 1))  # teeth may lie closer
        ahead = [at for at in teeth(turn, self._k, length, first) if at >= phase]
        if not ahead or phase < first or phase <= ahead[0] - wide:
            return None
        values, what = box.map(lambda counts: counts.values, "slot"), "sum over a window"
        self._sum = values if self._sum is None else self._sum.map_with(values, np.add, what)
        if phase < ahead[0]:
            return None
        slots = min(wide, ahead[0] + 1 - first)
        l1, l2 = float(facts.l1 * slots), facts.l2 * slots

        def whole(summed: NDArray[np.int64], counts: Counts) -> Counts:
            values = np.ascontiguousarray(summed)
            return replace(counts, values=values, l1=l1, l2=l2, what=what)

        found, self._sum = self._sum.map_with(box, whole, what), None
        return found, slots

    def _choose(self, free: bool) -> None:
        """Tomorrow's number of vectors, from yesterday's; on the first day from earlier streams."""
        used, past = self._rows[:, _USED] > 0, self.facts.past
        seen, noise_of_each = self._seen[used], self._rows[used, _VARIANCE]
        if not used.any():
            if past is None:
                return
            seen, noise_of_each = past.seen, past.variance
        dense = design.company(seen, noise_of_each)
        if self._city is not None and self._city.complete:
            dense *= design.staying(self._rows[used, _PHASE], self._rows[used, _FREE] > 0, free)
        self._k = design.vectors_for(dense, self.facts)

    def _now(self, slot: int, wide: int = 1) -> Times:
        calendar = self.facts.calendar
        phase = (float(calendar.phase[slot]) - (wide - 1) / 2) / calendar.longest_day
        at = np.array([float(calendar.day[slot]) + phase])
        factor = np.array([HOLIDAY if int(calendar.day[slot]) in calendar.holidays else 1.0])
        return Times(at, np.array([phase]), calendar.free[slot : slot + 1], factor)

    def _learn(self, slot: int, found: Measurement, slots: int, variance: float) -> None:
        self.tainted = self.tainted or found.tainted
        noisy = found.estimate() / slots
        now = self._now(slot, slots)
        used = self._believed(now, float(noisy.sum()), variance * noisy.size)
        if used and self._city is None and self.facts.past is not None:
            self._recall(self.facts.past, now, noisy, variance)
        if used and self._cells is not None and self._city is not None:
            self._errors.learn(self._cells.at(now), noisy, variance)
            mean, spread = (float(part[0]) for part in self._city.total(now))
            self._errors.learn_total(noisy.sum() - mean, spread + variance * noisy.size)
        row = [now.at[0], now.phase[0], float(now.free[0]), 1.0, variance, float(used)]
        self._rows = np.concatenate((self._rows, np.array([row])))[-self._memory :]
        self._seen = np.concatenate((self._seen, noisy[None]))[-self._memory :]
        if not used and self._outage is not None and self._city is not None:
            self._forget(float(now.at[0]))
        self._arrange(new=used)

    def _recall(self, past: Vectors, now: Times, noisy: Values, variance: float) -> None:
        """Begin with what earlier streams measured, if the first vector is of the same city."""
        rows, seen = self._rows, self._seen
        before = np.stack((past.at, past.phase, past.free, past.factor, past.variance), axis=1)
        self._rows = np.concatenate((np.insert(before, _USED, 1.0, axis=1), rows))
        self._seen = np.concatenate((past.seen, seen))
        self._arrange(new=False)
        assert self._cells is not None
        level = recalled(self._cells.at(now).mean, noisy, variance)
        if level is None:
            self._rows, self._seen, self._city, self._cells = rows, seen, None, None
            self._k = max(self._k, self._public)  # what is left of the day goes as far
        elif level != 1.0:
            self._rows[: len(past), _VARIANCE] *= level**2
            self._seen[: len(past)] *= level
            self._arrange(new=False)

    def kept(self) -> Vectors:
        """The vectors that were learned from, for streams to come."""
        used = self._rows[:, _USED] > 0
        at, phase, free, factor, variance = self._rows[used, :_USED].T.copy()
        laplace = self._kind is NoiseKind.LAPLACE
        return Vectors(at, phase, free > 0, factor, variance, self._seen[used], laplace)

    def _believed(self, now: Times, total: float, noise: float) -> bool:
        """Whether a vector of that sum is learned from; otherwise an outage goes on."""
        sd = math.sqrt(noise)
        self._outage = None
        if self._city is None:
            if 2 * _FAR * sd < design.people_of(self.facts) and not self._begun(total, noise):
                self._outage = (0.0, math.inf)
        elif (self._rows[:, _USED] > 0).sum() >= 3:
            mean, spread = (float(part[0]) for part in self._city.total(now))
            if total < _LOW * mean and mean - total > _FAR * math.sqrt(spread + noise):
                self._outage = (max(total, 0.0) / max(mean, 1e-9), float(now.at[0]))
        return self._outage is None

    def _begun(self, total: float, noise: float) -> bool:
        """Whether the last vectors show that people are there; those that do are learned from."""
        sums = np.append(self._seen.sum(axis=1), total)
        noises = np.append(self._rows[:, _VARIANCE] * self.facts.cells, noise)
        together = standing_out(sums, noises, _FAR)
        self._rows[len(sums) - max(together, 1) :, _USED] = 1.0
        return together > 0

    def _forget(self, now: float) -> None:
        """After a whole day of outage the feed has changed: start from what it is now."""
        used = np.flatnonzero(self._rows[:, _USED] > 0)
        since = self._rows[used[-1] + 1 :]
        if len(since) >= 2 and now - since[0, _AT] >= 1.0:
            self._rows[:, _USED] = 0.0
            self._rows[used[-1] + 1 :, _USED] = 1.0
            self._outage = None

    def _arrange(self, new: bool) -> None:
        """What serves all slots until the next vector."""
        used = self._rows[:, _USED] > 0
        if not used.any():
            return
        rows, seen = self._rows[used], self._seen[used]
        times = Times(rows[:, _AT], rows[:, _PHASE], rows[:, _FREE] > 0, rows[:, _FACTOR])
        sums, noise = seen.sum(axis=1), rows[:, _VARIANCE]
        expected, columns = float(design.people_of(self.facts)), self.facts.grid_columns
        if new:
            holiday = int(times.day[-1]) in self.facts.calendar.holidays
            times, self._city = day_factor(times, sums, noise * seen.shape[1], expected, holiday)
            self._rows[used, _FACTOR] = times.factor
        else:
            self._city = CityProfile.of(times, sums, noise * seen.shape[1], expected)
        if len(rows) <= _UNWEIGHED:
            self._habits = STEADY_HABITS if self._city.complete else FIRST_HABITS
        around = Surroundings(self._city, times, seen, noise, columns)
        laplace, people = self._kind is NoiseKind.LAPLACE, self.facts.expected_users
        few = len(rows) < 6 or bool(times.day[-1] != times.day[-2])  # then once a day
        weigh = new and len(rows) > _UNWEIGHED and few
        self._cells = Cells(
            times, seen, noise, laplace, around, columns, people, self._habits, weigh
        )
        self._habits = self._cells.at_habits

    def _estimate(self, slot: int, fresh: bool) -> Publication:
        if self._cells is None or self._city is None:
            return self._nobody(fresh)
        now = self._now(slot)
        last = self._rows[self._rows[:, _USED] > 0][-1]
        if int(last[_AT] + 1e-9) == int(now.at[0] + 1e-9):
            now = replace(now, factor=last[_FACTOR : _FACTOR + 1])
        made = self._cells.at(now, self._errors.wider)
        total = float(self._city.total(now)[0][0])
        low, high = self._city.interval(now, self._errors.wider_total)
        if (known := self._city.one_number) is not None:
            total, reach = known[0], _REACH * math.sqrt(known[1])
            low, high = max(total - reach, 0.0), total + reach
        values = np.clip(total / max(float(made.mean.sum()), 1e-9), *_FACTORS) * made.mean
        median, lower, upper = made.median, made.lower, made.upper
        if self._outage is not None:
            ratio, since = self._outage
            still = 2.0 ** (-(float(now.at[0]) - since) / _HALF_LIFE)
            values = values * (1 - (1 - ratio) * still)
            median = np.rint(ratio * median) if still > 0.5 else median
            lower, low = np.floor(ratio * lower), ratio * low
            if still > _COVERAGE:
                upper, high = np.ceil(ratio * upper), ratio * high
        sd = float(np.sqrt(made.variance.mean()))
        whole = Estimate(float(values.sum()), low, high, _COVERAGE)
        return self._made(Publication(values, fresh, sd, self.tainted, median, lower, upper, whole))

    def _nobody(self, fresh: bool) -> Publication:
        """Before anybody was seen: zeros, and as many as may have been overlooked."""
        none, everybody = np.zeros(self.facts.cells), float(design.people_of(self.facts))
        seen = math.sqrt(float(self._rows[-1, _VARIANCE])) if len(self._rows) else math.inf
        upper = np.full(none.size, min(_FAR * seen, everybody))
        total = Estimate(0.0, 0.0, min(_FAR * seen * math.sqrt(none.size), everybody), _COVERAGE)
        sd = self._noise(1).sd
        return self._made(Publication(none, fresh, sd, self.tainted, none, none, upper, total))

    def _made(self, found: Publication) -> Publication:
        return found if self._stated else replace(found, lower=None, upper=None, total=None)

    def state(self) -> State:
        more: dict[str, Any] = {
            "seen": self._seen,
            "rows": self._rows,
            "k": self._k,
            "habits": list(self._habits),
            "errors": self._errors.sums,
            "totals": self._errors.totals,
            "waits": self._waits,
            "looked": self._looked,
            "wide": self._wide or 0,
        }
        if self._sum is not None:
            more["sum"] = self._sum
        if self._outage is not None:
            more["outage"] = [repr(part) for part in self._outage]
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._seen, self._rows, self._k = state["seen"], state["rows"], int(state["k"])
        first, second, third = (int(part) for part in state["habits"])
        self._habits = (first, second, third)
        self._errors = Calibration(state["errors"], state["totals"])
        self._sum, self._waits = state.get("sum"), bool(state["waits"])
        self._looked, self._wide = bool(state["looked"]), int(state["wide"]) or None
        if "outage" in state:
            self._outage = (float(state["outage"][0]), float(state["outage"][1]))
        self._arrange(new=False)
