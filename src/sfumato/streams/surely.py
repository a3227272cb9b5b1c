"""`Surely`: a scheme's publisher that publishes every slot, come what may of arithmetic.

Where arithmetic on noisy numbers fails in a slot (`privacy.last_resort`), the slot's noisy sum is
spread evenly over the cells, each within the widest interval, and the scheme goes on with the next
slot. It is never taken back to what it was before: what it remembers of questions that were
answered and of budget that was spent holds, and a run that forgot an answer would give one more
than was charged. A finished scheme whose window could not be worked out begins anew with the next
window, which nobody shares with it; one that reads windows ahead does not, and the rest of its
stream is spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.last_resort import HearingWall, everything, numbers, refined
from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import (
    Finished,
    Joint,
    Keeping,
    Meter,
    Publication,
    Publisher,
    State,
    Stating,
    StreamScheme,
)

_RESORT = "resort"
"""Part of the state that is the last resort's own; there once it was used."""
_WIDEST = 1e4
"""Largest factor of a slot that a posterior keeps."""


class Surely:
    """Publishes slot after slot, in order, each once."""

    def __init__(self, scheme: StreamScheme, facts: StreamFacts) -> None:
        self._scheme, self._facts = scheme, facts
        self._inner: Publisher = scheme.publisher(facts)
        self._lost, self._total = False, 0.0
        self.spread = 0
        """Slots that came from the last resort."""

    @property
    def ahead(self) -> int:
        """Windows beyond the published one that the scheme must see first."""
        return int(getattr(self._inner, "ahead", 0))

    def prepare(self, whole: Private[Counts], first: int, wall: HearingWall) -> None:
        """Show a finished scheme a window, unless one before is missing to it."""
        if self._lost and not self.ahead:
            self._inner, self._lost = self._scheme.publisher(self._facts), False
        inner = self._inner
        if self._lost or not isinstance(inner, Finished):
            return

        def otherwise() -> None:
            self._lost = True

        refined("stream", lambda: inner.prepare(whole, first, wall), otherwise)

    def publish(
        self, slot: int, box: Private[Counts], wall: HearingWall, meter: Meter
    ) -> Publication:
        """The slot, as the scheme reads it or spread."""
        if self._lost:
            return self._spread(wall)

        def read() -> Publication:
            made = self._inner.publish(slot, box, wall, meter)
            ends = () if made.total is None else (made.total.value, *made.total.ends)
            numbers(made.values, made.median, made.lower, made.upper, *ends)
            return made

        made = refined("stream", read, lambda: self._spread(wall))
        self._total = float(made.values.sum())
        return made

    def state(self) -> State:
        if not self.spread:
            return self._inner.state()
        return {**self._inner.state(), _RESORT: [self.spread, self._lost, self._total]}

    def restore(self, state: State) -> None:
        inner = {name: part for name, part in state.items() if name != _RESORT}
        if _RESORT in state:
            spread, lost, total = state[_RESORT]
            self.spread, self._lost, self._total = int(spread), bool(lost), float(total)
        self._inner.restore(inner)

    def kept(self) -> Mapping[str, NDArray[Any]] | None:
        """Noisy measurements that serve streams to come, where the scheme has such."""
        inner = self._inner
        if not isinstance(inner, Keeping):
            return None
        found: Mapping[str, NDArray[Any]] | None = refined(
            "stream", lambda: inner.kept().arrays(), lambda: None
        )
        return found

    def joint(self) -> Joint | None:
        """How errors hang together, where the scheme knows; as wide as can be after a last
        resort."""
        inner = self._inner
        if not isinstance(inner, Stating):
            return None
        if self.spread:
            return self._wide()
        return refined("stream", inner.joint, self._wide)

    def _spread(self, wall: HearingWall) -> Publication:
        """The noisy sum of the slot, or that of the slot before, the same for every cell."""
        facts, plan = self._facts, self._scheme.plan(self._facts)
        heard = [one for one in wall.heard.values() if one.rows.size == facts.cells]
        most = everything(facts.expected_users, self._total, *(one.highest for one in heard))
        total = min(max(heard[-1].total, 0.0) if heard else self._total, most)
        values = np.full(facts.cells, total / facts.cells)
        lower, upper = np.zeros(facts.cells), np.full(facts.cells, np.ceil(most))
        coverage = plan.coverage or plan.sums
        self.spread += 1
        return Publication(
            values,
            bool(heard),
            float(np.ceil(most)),
            any(one.measured.tainted for one in heard),
            np.rint(values) if plan.median else None,
            lower if plan.coverage else None,
            upper if plan.coverage else None,
            Estimate(total, 0.0, float(np.ceil(most)), coverage) if coverage else None,
        )

    def _wide(self) -> Joint:
        cells, slots = self._facts.cells, self._facts.slots
        return Joint(
            np.full((1, slots), _WIDEST),
            np.zeros((1, cells, 0), dtype=np.float32),
            np.zeros((slots, 0)),
            np.full((cells, slots), everything(self._facts.expected_users) ** 2),
        )
