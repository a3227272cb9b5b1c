"""`SlotSource`: from events to the private counts of each slot, one position a person and slot.

A finished history is counted once, cell x slot, by the engine's sampled counts with as many
slots as there are: one visit a slot, chosen by a keyed order, in every slot that the person
was seen in. A slot is then a column, and its sensitivities are those of one slot: the other
slots are other measurements, and the meter adds them up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.stream.facts import StreamFacts


class SlotSource:
    """Slots of a source's counts, for the unit of `facts`."""

    def __init__(self, source: Source, facts: StreamFacts, key: bytes) -> None:
        self._facts = facts
        self._whole = source.sampled(SampleBound(source.grid.slots), key)

    def slot(self, slot: int) -> Private[Counts]:
        """The histogram of one slot."""
        return one_slot(
            self._whole.map(lambda counts: _columns(counts, slot, slot + 1)), self._facts
        )

    def window(self, first: int, stop: int) -> Private[Counts]:
        """Cell x slot of several slots, with the sensitivities of all of them together."""
        slots, facts = stop - first, self._facts

        def cut(counts: Counts) -> Counts:
            part = _columns(counts, first, stop)
            return replace(part, l1=float(facts.l1 * slots), l2=facts.l2 * slots**0.5)

        return self._whole.map(cut, "window")


def one_slot(box: Private[Counts], facts: StreamFacts) -> Private[Counts]:
    """Sampled counts of a grid of one slot, as a vector with the unit's sensitivities."""

    def flat(counts: Counts) -> Counts:
        values = np.ascontiguousarray(counts.values[:, 0])
        return replace(counts, values=values, l1=float(facts.l1), l2=facts.l2, what="slot")

    return box.map(flat, "slot")


def _columns(counts: Counts, first: int, stop: int) -> Counts:
    return replace(counts, values=np.ascontiguousarray(counts.values[:, first:stop]))
