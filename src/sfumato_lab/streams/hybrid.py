"""Hybrid perturbation (Chen et al., Algorithms 4 and 5), corrected.

By day, when much moves, every slot is published with a share of the day's budget; by night
only what has moved is (see `threshold`). Where the day begins and ends:

* `static-hybrid`: the distances between successive slots of the finished window are measured
  and the division follows from them; the night's threshold is a quarter of their mean, which
  the paper takes from the raw data for nothing. Or the division is chosen by the exponential
  mechanism on a score of bounded range (`by_score`, see `hybrid_division`), the threshold being
  public.
* `dynamic-hybrid`: each day's distances are measured as the day goes by; today's division
  is predicted from the past days' by a line through each end. Every day is charged: under the
  unit `user-day` to the day, under `user-period` to the one budget of all days. That days are
  "parallel", as the paper has it, holds for different people, not for different days. Days that
  were published before (`facts.past_days`) were paid for then: their divisions are free, the
  first day's division is predicted from them, and the night's first threshold is theirs. With
  `division=0` they alone are used, and nothing is spent on dividing: Algorithm 5 as it is printed,
  but for the raw data that it reads.

Shares of a day's budget, which the paper does not print: division 1/20, night distances 1/20,
day 1/2, and the night has the rest. Each part is an account of its own that holds an amount of
epsilon or of rho, however it is divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale, selection_softness
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, UnitKind
from sfumato.privacy.exact import exact
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, window_begin, window_end
from sfumato.streams.parameters import NOISE, Declaration, Kind, Need, Setting, share
from sfumato.streams.scheme import (
    Account,
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
from sfumato.streams.schemes.counters import PrivateHistogram, histogram
from sfumato_lab.streams.hybrid_division import (
    Window,
    candidates,
    distance,
    from_distances,
    predicted,
    successive,
    window_costs,
)
from sfumato_lab.streams.threshold import (
    CUTOFF,
    MOVED,
    Asking,
    Test,
    public_threshold,
    within_one_window,
)

_A_LITTLE_LESS = 1 - Fraction(1, 1 << 40)
"""What is charged for a choice or a run is rounded up; all days' must fit into the account."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a day may spend, and on what. `days` share one budget under `user-period`."""

    facts: StreamFacts
    kind: NoiseKind
    days: int
    length: int
    cutoff: int
    test: Test
    shares: dict[str, Fraction]

    @classmethod
    def of(cls, facts: StreamFacts, scheme: Hybrid) -> Terms:
        within_one_window(facts, scheme.name)
        shares, noise = scheme.shares(), scheme.noise
        whole = facts.unit.kind is UnitKind.USER_PERIOD and not scheme.finished
        days = int(facts.calendar.day.max()) + 1 if whole else 1
        length = facts.calendar.longest_day if whole else facts.window
        cutoff = scheme.cutoff or max(2, math.ceil(length / 8))
        # Half of the slots are by day, on every day that shares the budget.
        kind = noise_of(facts, noise, max(days * length // 2, 1), shares["day"]).kind
        share = cls._amount(facts, kind) * shares["distance"] / days * _A_LITTLE_LESS
        make = Test.gaussian if kind is NoiseKind.GAUSSIAN else Test.pure
        test = make(facts, max(length - 1, 1), cutoff, share)
        return cls(facts, kind, days, length, cutoff, test, shares)

    @staticmethod
    def _amount(facts: StreamFacts, kind: NoiseKind) -> Fraction:
        return Fraction(repr(facts.rho if kind is NoiseKind.GAUSSIAN else facts.epsilon))

    def part(self, name: str) -> Fraction:
        """One day's epsilon or rho for a part."""
        return self._amount(self.facts, self.kind) * self.shares[name] / self.days

    def division_noise(self) -> Noise:
        """On each of a day's distances, sensitivity 2 l1 apiece."""
        most = max(self.length - 1, 1)
        if self.kind is NoiseKind.LAPLACE:
            scale = laplace_scale(2.0 * self.facts.l1 * most, self.part("division"))
            return Noise(self.kind, scale)
        l2 = 2.0 * self.facts.l1 * most**0.5
        return Noise(self.kind, gaussian_sigma2(l2, self.part("division")))

    def division_range(self) -> Fraction:
        """The bounded range of one choice of a window: eta-DP, or eta^2/8 in rho."""
        if self.kind is NoiseKind.LAPLACE:
            return self.part("division") * _A_LITTLE_LESS
        return exact(math.sqrt(8 * float(self.part("division")))) * _A_LITTLE_LESS

    def histogram_noise(self, name: str, times: int) -> Noise:
        share = self.part(name) / max(times, 1)
        if self.kind is NoiseKind.LAPLACE:
            return Noise(self.kind, laplace_scale(self.facts.l1, share))
        return Noise(self.kind, gaussian_sigma2(self.facts.l2, share))

    def accounts(self) -> tuple[Account, ...]:
        whole = [
            _lump(name, self.part(name) * self.days, self.kind)
            for name in ("division", "day", "night")
            if self.shares[name]
        ]
        if self.kind is NoiseKind.GAUSSIAN:
            return (*whole, _lump("distance", self.part("distance") * self.days, self.kind))
        return (*whole, _lump("distance", self.part("distance") * self.days, self.kind, run=True))


def _lump(name: str, amount: Fraction, kind: NoiseKind, run: bool = False) -> Account:
    """An account that holds an amount of epsilon or rho, however it is divided."""
    if kind is NoiseKind.LAPLACE:
        return Account(name, LaplaceEvent(1.0, 1 / amount), run)
    return Account(name, GaussianEvent(1.0, 1 / (2 * amount), 1 << 20), run)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """`finished` makes the static form. `cutoff` is the most histograms of a night."""

    finished: bool
    cutoff: int | None = None
    noise: NoiseKind = NoiseKind.BEST
    by_score: bool = False
    """Static form only: choose the division by its score instead of from noisy distances."""
    threshold: int | None = None
    """T of the night in people; None takes `quiet` times the mean of the noisy distances."""
    quiet: float = 0.25
    past: int = 28
    """H: the days that a division is predicted from, at most."""
    division: Fraction = Fraction(1, 20)
    distance: Fraction = Fraction(1, 20)
    day: Fraction = Fraction(1, 2)

    @property
    def declares(self) -> Declaration:
        both = {
            "cutoff": replace(CUTOFF, unset="an eighth of a day's slots"),
            "threshold": replace(MOVED, unset="`quiet` times the mean of the noisy distances"),
            "quiet": Setting(
                "quiet", Kind.NUMBER, "T of the night, in mean noisy distances", 0.5, 0.001, 100
            ),
            "division": share("division", "share of the budget for dividing the day", 0.2),
            "distance": share("distance", "share for the night's comparisons", 0.1),
            "day": share("day", "share for the day's histograms; the night has the rest", 0.3),
            **NOISE,
        }
        if self.finished:
            meaning = "divide by the exponential mechanism, T being public"
            score = Setting("by_score", Kind.FLAG, meaning, True)
            return Declaration(
                parameters={**both, "by_score": score},
                needs=(Need.APART,),
            )
        words = "share for dividing the days; 0 with `earlier` days alone, as printed"
        division = replace(both["division"], low=0, meaning=words)
        words = "H: past days that the division is predicted from"
        past = Setting("past", Kind.WHOLE, words, 2, 1, 3660)
        return Declaration(
            parameters={**both, "division": division, "past": past},
            reads=("earlier",),
            needs=(Need.APART,),
        )

    @property
    def name(self) -> str:
        return "static-hybrid" if self.finished else "dynamic-hybrid"

    def plan(self, facts: StreamFacts) -> StreamPlan:
        terms = self.terms(facts)
        source = "the noisy distances" if self.finished else "past days’ noisy distances"
        if self.by_score:
            source = "an exponential mechanism"
        line = (
            f"By day every slot, by night at most {terms.cutoff} histograms, {terms.kind} noise; "
            f"the division from {source}."
        )
        return StreamPlan(self.name, terms.accounts(), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Hybrid(facts, self.terms(facts), self)

    def terms(self, facts: StreamFacts) -> Terms:
        if self.by_score and not self.finished:
            raise UsageError("Only the static form chooses by score: it sees the whole window.")
        if not self.division and not facts.past_days:
            raise UsageError(
                "Without a share for the division, days are divided as earlier ones were.",
                remedy="Give `earlier`, or the `parameter` division above 0.",
            )
        return Terms.of(facts, self)

    def shares(self) -> dict[str, Fraction]:
        """Of a day's budget, by part; the night has what the others leave."""
        parts = {"division": self.division, "distance": self.distance, "day": self.day}
        night = 1 - self.division - self.distance - self.day
        if night <= 0:
            raise UsageError(
                "Division, distance and day leave nothing of the budget for the night.",
                remedy="Choose shares that add up to less than 1.",
            )
        return parts | {"night": night}


class _Hybrid(Repeating):
    def __init__(self, facts: StreamFacts, terms: Terms, scheme: Hybrid) -> None:
        super().__init__(facts)
        self._terms = terms
        self._scheme = scheme
        self._static = scheme.finished
        self._by_score = scheme.by_score
        self._learns = not scheme.finished and scheme.division > 0
        self._daytime: Window = (0, 0)
        self._threshold = 1 if scheme.threshold is None else scheme.threshold
        self._past: list[Window] = []
        for day in () if self._static else facts.past_days[-scheme.past :]:
            self._divide(day)
            self._past.append(self._daytime)
        self._distances: list[float] = []
        self._nights = 0
        self._asking: Asking | None = None
        self._reference: PrivateHistogram | None = None
        self._before: PrivateHistogram | None = None

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        """Static: measure the finished window's distances and divide it, or choose by score."""
        if self._by_score:
            self._choose(whole, first, wall)
            return
        if window_end(self.facts, first) - first < 2:
            self._divide(np.empty(0))  # nothing lies between the slots of one
            return
        noise, apart = self._terms.division_noise(), successive(whole, self.facts.l1)
        between = window_end(self.facts, first) - first - 1
        found = noise.measure(wall, apart, f"division@{first}", touched=between)
        self._divide(found.estimate())

    def _choose(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        """Bounded range 2 l1 (S - 1) over every daytime; theta and threshold are public."""
        slots = window_end(self.facts, first) - first
        self._threshold = public_threshold(self._scheme.threshold, self.facts)
        if slots < 2:
            self._daytime = (0, 0)
            return
        theta, windows = 2 * self._threshold, candidates(slots)
        costs = successive(whole, self.facts.l1).map(
            lambda apart: window_costs(apart.values, theta, windows), "costs of divisions"
        )
        most = 2 * self.facts.l1 * (slots - 1)
        softness = selection_softness(most, self._terms.division_range())
        found = wall.select(costs, softness=softness, range_units=most, label=f"division@{first}")
        self.tainted = self.tainted or found.tainted
        self._daytime = windows[found.index]

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        begin = self._begin(slot)
        if slot == begin:
            self._begin_day(slot)
        elif self._learns and self._before is not None:
            self._measure_distance(slot, box, wall)
        self._before = histogram(box) if self._learns else None
        first, last = self._daytime
        if first <= slot - begin <= last:
            noise = self._terms.histogram_noise("day", last - first + 1)
            return self._anew(slot, box, wall, noise, "day")
        return self._night(slot, begin, box, wall)

    def _begin(self, slot: int) -> int:
        if self._static:
            return window_begin(self.facts, slot)
        return int(np.searchsorted(self.facts.calendar.day, self.facts.calendar.day[slot]))

    def _begin_day(self, slot: int) -> None:
        if not self._static:
            if self._distances:
                self._divide(np.array(self._distances))
                self._past = [*self._past, self._daytime][-self._scheme.past :]
            self._daytime = predicted(self._past, self._terms.length)
            self._distances = []
        self._nights, self._reference = 0, None
        self._asking = Asking(self._terms.test, "distance", slot)

    def _divide(self, distances: Values) -> None:
        self._daytime = from_distances(distances) if distances.size else (0, 0)
        if self._scheme.threshold is not None:
            self._threshold = self._scheme.threshold
        elif distances.size:
            self._threshold = max(1, int(np.rint(distances.mean() * self._scheme.quiet)))
        else:
            self._threshold = 1

    def _measure_distance(self, slot: int, box: Private[Counts], wall: Wall) -> None:
        assert self._before is not None
        l1 = 2 * self.facts.l1

        def as_counts(apart: int, now: Counts) -> Counts:
            values = np.array([apart], dtype=np.int64)
            return Counts(values, 1, float(l1), float(l1), now.counting, "distance")

        apart = distance(box, self._before).map_with(box, as_counts, "distance")
        found = self._terms.division_noise().measure(wall, apart, f"division@{slot}")
        self._distances.append(float(found.estimate()[0]))

    def _night(self, slot: int, begin: int, box: Private[Counts], wall: Wall) -> Publication:
        noise = self._terms.histogram_noise("night", self._terms.cutoff)
        if slot == begin:
            self._nights += 1
            self._reference = histogram(box)
            return self._anew(slot, box, wall, noise, "night")
        if self._nights >= self._terms.cutoff or self._asking is None or self._reference is None:
            return self.repeat()
        if self._asking.moved(slot, box, self._reference, self._threshold, wall):
            self._nights += 1
            return self._anew(slot, box, wall, noise, "night")
        return self.repeat()

    def _anew(
        self, slot: int, box: Private[Counts], wall: Wall, noise: Noise, account: str
    ) -> Publication:
        self._reference = histogram(box)
        found = noise.measure(wall, box, f"{account}@{slot}")
        return self.renew(found.estimate(), noise.sd, found.tainted)

    def state(self) -> State:
        more: dict[str, Any] = {
            "daytime": list(self._daytime),
            "threshold": self._threshold,
            "past": [list(window) for window in self._past],
            "distances": self._distances,
            "nights": self._nights,
        }
        if self._asking is not None:
            more |= {"first": self._asking.first, "answers": list(self._asking.answers)}
        if self._reference is not None:
            more["reference"] = self._reference
        if self._before is not None:
            more["before"] = self._before
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        first, last = state["daytime"]
        self._daytime = (int(first), int(last))
        self._threshold, self._nights = int(state["threshold"]), int(state["nights"])
        self._past = [(int(i), int(j)) for i, j in state["past"]]
        self._distances = [float(d) for d in state["distances"]]
        self._reference, self._before = state.get("reference"), state.get("before")
        if "first" in state:
            answers = [bool(answer) for answer in state["answers"]]
            self._asking = Asking(self._terms.test, "distance", int(state["first"]), answers)


static = Hybrid(finished=True)
dynamic = Hybrid(finished=False)
