"""`Compiled`: the questions that one compiled pass over users answers, wherever the pass runs.

A question is the name of a pass in `tally`, the shape of its sums and its arguments. On one
machine threads run it over blocks of users, on a cluster tasks do; the arguments are the same,
and so are the bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import answers
from sfumato.engine.weights import TOTAL_UNITS, WeightRule
from sfumato.model.bound import WEIGHT_UNITS, Counting, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.model.time_grid import TimeGrid

_NO_NORMS = np.zeros((1, 1), np.int64)


class Compiled(ABC):
    """Answers by passes over users; whoever inherits it runs them."""

    @property
    @abstractmethod
    def grid(self) -> TimeGrid: ...

    @property
    @abstractmethod
    def place_ids(self) -> NDArray[np.str_]: ...

    @abstractmethod
    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        """The sums of a pass over all users; it checks the bound on what it counts."""

    @property
    def _shape(self) -> tuple[int, int]:
        """Places and slots of every table."""
        return self.place_ids.size, self.grid.slots

    @property
    def _bits(self) -> int:
        """Width of a place in a packed row."""
        return max(1, (self.place_ids.size - 1).bit_length())

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        with_norms = event_norms is not None
        norms = _NO_NORMS
        if event_norms is not None:
            norms = answers.checked_norms(event_norms, *self._shape)
        units = NORM_UNITS if with_norms else 1
        rule = _rule(bound, units, WEIGHT_UNITS * bound.limit * units)
        arguments = (norms, with_norms, counting is Counting.PEOPLE, rule)
        values = self._ask("weighted", self._shape, arguments)
        return answers.weighted_counts(values, bound, counting, self.grid, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        people = counting is Counting.PEOPLE
        units = TOTAL_UNITS if people else 1
        arguments = (people, units, _rule(bound, units, WEIGHT_UNITS * bound.limit))
        values = self._ask("place_totals", self._shape[:1], arguments)
        return answers.place_total_counts(values, bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, _rule(bound, 1, WEIGHT_UNITS * bound.limit))
        values = self._ask("slot_totals", self._shape[1:], arguments)
        return answers.slot_total_counts(values, bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, answers.checked_cap(cap))
        values = self._ask("capped_total", (1,), arguments)
        return answers.capped_total_count(int(values[0]), cap, counting)

    def exact(self, counting: Counting) -> Private[Counts]:
        values = self._ask("exact", self._shape, (counting is Counting.PEOPLE,))
        return answers.exact_counts(values, counting)


def _rule(bound: WeightBound, units: int, ceiling: float) -> tuple[int, float, float]:
    rule = WeightRule.of(bound.limit, units)
    return rule.whole_up_to, rule.scale, ceiling
