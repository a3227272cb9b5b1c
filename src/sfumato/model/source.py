"""`Source`: what a scheme is given instead of an engine. It asks, and gets private arrays.

Only the wall can open the arrays. Every query states what one user can change, and the arrays are
the same bytes on every engine for the same key, whatever the order of rows, the number of threads
or the way the files were split.

Six ways of counting, and what each estimates:

=====================  ===================================  ============  ====================
question               mass of one user that is kept        L2            estimates
=====================  ===================================  ============  ====================
`sampled(l)`           1 in each of at most l slots         sqrt(l)       `people`, thinned
`weighted`, `visits`   w in every place and slot visited    C             `visits`, shrunk
`weighted`, `people`   w in every slot, split over places   C             `people`, shrunk
`ladder`               its part in each step of activity    1 in all      activity, its law
`answers`              min(its visits inside, C), or w      C             visits, people
`exact`                all of it                            infinite      the truth
=====================  ===================================  ============  ====================

Sampling keeps one visit per slot, so a sampled count of visits is a thinned count of people:
only rescaling by a separately measured total (`capped_total`) brings the level back. Weights
w = min(1, C / norm) shrink busy users and leave the others whole; where a limit is fitted to
people whose activity was measured first, whole is `WeightBound.most`, not 1, and L2 is still C.

Two caches stand in front of a source, for whoever runs schemes many times on one input: counting
is the slow part, and most answers are the same every time. The boxes stay closed in both.

* `RememberingSource` asks each question once and remembers the answer by the question.
* `RecallingSource` serves repeated runs with fresh keys: an audit runs one scheme many thousand
  times on the same tiny input, a rehearsal some dozen times. Counting depends on the release key
  only through the sample of the sampling bound, so every other answer is the same in each run; of
  the samples a fixed number is kept and served in turn. They are drawn with keys of their own, the
  same for every source: on two neighbouring inputs everybody else's visits are then sampled alike.
  A promise that holds for each fixed sample holds for their mixture; two different handfuls of
  samples would lie apart whoever is in the data, and an honest scheme could be accused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counting, Counts, SampleBound, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid

NORM_UNITS = 1 << 8
"""Fixed-point units of an event norm."""

Progress = Callable[[str, float], None]
"""Called with what is being done and the share done, 0 to 1 (negative: not known).

What it is told depends on the files' public size and on elapsed work, never on a count.
"""


class Source(Protocol):
    """Bounded counts of one data set over `grid` and `place_ids` (public keys, fixed order).

    Arrays are place x slot in the order of `place_ids` and of the grid's slots; empty places
    and slots are there, as zeros. Sensitivities are for adding or removing one user's whole
    record, in lattice units of 1/`Counts.units_per_count`.
    """

    @property
    def grid(self) -> TimeGrid: ...

    @property
    def place_ids(self) -> NDArray[np.str_]: ...

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """Place x slot: one visit a slot, at most l slots a user. L1 l, L2 sqrt(l).

        Uniform among a slot's distinct places and among the user's slots, independently, by a
        keyed function of the user's id: the same key keeps the same visits, and no user's
        sample depends on another user.
        """

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """Place x slot, user u counting w_u = min(most, C / norm_u). L2 C, L1 C sqrt(slots).

        norm_u is taken over slots, of the number of places visited in the slot (`visits`) or of
        one (`people`); `people` then splits w_u over the k places as floor(w_u / k). Both hold
        after any non-negative map of places with column sums at most one.

        With `event_norms` (place x slot, public non-negative integers on the lattice of
        1/`NORM_UNITS`), a visit's mass in the norm is its entry there instead of one (`people`:
        the mean over the slot's places, rounded up), and the statement is about the counts
        multiplied by these norms: any linear map that sends one visit at (place, slot) to a
        vector of L2 norm at most its entry sends a user to a vector of L2 norm at most C.
        """

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        """Vector over places of each user's totals, scaled to L2 at most C; L1 C sqrt(places).

        A user's total at a place is the number of slots with a visit there (`visits`) or the
        sum over these slots of 1/k, k places in the slot (`people`, rounded down to 1/4096).
        The L2 statement does **not** survive a map that adds places up: add noise to these
        totals first and map the noisy ones.
        """

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        """Vector over slots of each user's mass, scaled to L2 at most C; L1 C sqrt(slots)."""

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        """One number, shape (1,): the sum over users of min(total mass, cap). Sensitivity cap."""

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        """Vector over the steps c_1 < ... < c_m of activity; L2 at most `LADDER_UNITS`.

        Entry k is g_k times the sum over users of clip(a_u - c_(k-1), 0, c_k - c_(k-1)), where
        a_u is the number of distinct (place, slot) pairs (`visits`) or of slots with any visit
        (`people`) and g_k = floor(`LADDER_UNITS` / ((c_k - c_(k-1)) sqrt(m))). Adding or
        removing one user's whole record moves every entry by at most LADDER_UNITS / sqrt(m),
        so the vector by at most LADDER_UNITS in L2 and sqrt(m) times that in L1 (proof:
        `sfumato.model.ladder`, whose `step_sums` undoes the gains of a measured ladder).
        """

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        """Vector over questions, each a set of places times a set of slots.

        With a whole number C, one question: the sum over users of min(v_u, C), where v_u is the
        number of distinct (place, slot) pairs inside; for `unique_people` C is 1. Sensitivity C.

        With `WeightBound(C)`, any number of questions: user u's vector (v_u for each question, or
        one where any pair is inside) times min(most, C / its L2 norm) on the 2^16 lattice. L2 C
        over *all questions together*, whatever they have in common, by construction; never the
        norm of a single visit's column, which says nothing about a user with many. L1
        C sqrt(questions).
        """

    def exact(self, counting: Counting) -> Private[Counts]:
        """Unbounded counts, the truth for `evaluate`. Sensitivity infinite: never measured.

        `visits`: distinct users per place and slot (for towers the truth of a zone is the
        overlay of these; for coordinates the places are the zones themselves). `people`: each
        user's unit per slot split over the k places, floor(2^16 / k) on the 2^16 lattice.
        """

    def fingerprint(self, key: bytes) -> str:
        """Keyed digest of the input's bytes, to bind a reservation to what it was made for."""


_KEPT_NORMS = 1 << 12
"""Event norms come from noisy margins and seldom return: answers to larger ones are not kept."""


class RememberingSource:
    """The questions of `source`, each asked of it once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[object, Private[Counts]] = {}

    @property
    def grid(self) -> TimeGrid:
        return self._source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._source.place_ids

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        return self._once(("sampled", bound, key), lambda: self._source.sampled(bound, key))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        def ask() -> Private[Counts]:
            return self._source.weighted(bound, counting, event_norms)

        if event_norms is not None and event_norms.size > _KEPT_NORMS:
            return ask()
        norms = None if event_norms is None else event_norms.tobytes()
        return self._once(("weighted", bound, counting, norms), ask)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("place totals", bound, counting)
        return self._once(question, lambda: self._source.place_totals(bound, counting))

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("slot totals", bound, counting)
        return self._once(question, lambda: self._source.slot_totals(bound, counting))

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        question = ("capped total", cap, counting)
        return self._once(question, lambda: self._source.capped_total(cap, counting))

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        question = ("ladder", steps, counting)
        return self._once(question, lambda: self._source.ladder(steps, counting))

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        question = ("answers", masks.digest(), measure, bound)
        return self._once(question, lambda: self._source.answers(masks, measure, bound))

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._once(("exact", counting), lambda: self._source.exact(counting))

    def fingerprint(self, key: bytes) -> str:
        return self._source.fingerprint(key)

    def _once(self, question: object, ask: Callable[[], Private[Counts]]) -> Private[Counts]:
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]


SAMPLES = 16
"""Samples of a sampling bound that are kept and served in turn."""


class RecallingSource(RememberingSource):
    """A remembering source that also remembers samples, whatever their keys."""

    def __init__(self, source: Source, samples: int = SAMPLES) -> None:
        super().__init__(source)
        self._samples = samples

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """One of a few samples, picked by the key: fresh keys give all of them in turn."""
        turn = int.from_bytes(hashlib.sha256(key).digest()[:8], "little") % self._samples
        kept = hashlib.sha256(f"sfumato/recalled sample/{turn}".encode()).digest()
        return self._once(("sampled", bound, turn), lambda: self._source.sampled(bound, kept))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """Norms come from noisy margins and are new in every run: nothing to remember."""
        if event_norms is not None:
            return self._source.weighted(bound, counting, event_norms)
        return super().weighted(bound, counting)


def recalling(source: Source, samples: int = SAMPLES) -> RecallingSource:
    """The source behind a memory; one that has it already stays as it is."""
    return source if isinstance(source, RecallingSource) else RecallingSource(source, samples)
