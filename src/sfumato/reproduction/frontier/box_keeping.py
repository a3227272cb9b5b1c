"""A wall that remembers what it measured: how an oracle sees the clean side of a measurement.

For studies on made-up people alone. The boxes stay closed here; whoever opens them answers
for it.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.noise import BitStream
from sfumato.privacy.wall import Wall


class BoxKeepingWall(Wall):
    """The same noise and charges as any wall; `boxes` and `taken` by label."""

    boxes: dict[str, Private[Counts]]
    taken: dict[str, Measurement]

    @classmethod
    def seeded(cls, seed: int, charger: Charger | None = None) -> BoxKeepingWall:
        wall = super().seeded(seed, charger)
        assert isinstance(wall, cls)
        return wall

    def _set_up(self, charger: Charger, root: BitStream) -> None:
        super()._set_up(charger, root)
        self.boxes, self.taken = {}, {}

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        found = super().gaussian(box, sigma2=sigma2, label=label, touched=touched)
        self.boxes[label], self.taken[label] = box, found
        return found
