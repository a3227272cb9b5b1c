"""`Ground`: where the cells are, how far apart, and a place for people who are not counted.

Cell `cells` (one past the last) is *nowhere*: people that a table does not show in a slot wait
there. It is half the map's diameter from every cell, the least distance that keeps the triangle
inequality, on which the stay-first reduction of `transport` rests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.model.errors import UsageError

Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Centres of the cells in metres, n x 2."""

    centres: NDArray[np.float64]
    far: float = field(init=False)
    """Metres from nowhere to anywhere."""
    _tree: cKDTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        at = np.ascontiguousarray(self.centres, dtype=np.float64)
        if at.ndim != 2 or at.shape[1] != 2 or not len(at) or not np.isfinite(at).all():
            raise UsageError("The attack needs the centre of every cell, in metres.")
        at.setflags(write=False)
        object.__setattr__(self, "centres", at)
        # The box's diagonal is at least the diameter, and a stated value needs no more.
        object.__setattr__(self, "far", max(float(np.hypot(*np.ptp(at, axis=0))) / 2, 1.0))
        object.__setattr__(self, "_tree", cKDTree(at))

    @property
    def cells(self) -> int:
        return len(self.centres)

    @property
    def nowhere(self) -> int:
        """Index of the cell that is none."""
        return len(self.centres)

    def metres(self, one: Cells, other: Cells) -> NDArray[np.float64]:
        """Distance of cells, element by element (arrays broadcast)."""
        lost, also = one == self.nowhere, other == self.nowhere
        a, b = self.centres[np.where(lost, 0, one)], self.centres[np.where(also, 0, other)]
        apart = np.hypot(a[..., 0] - b[..., 0], a[..., 1] - b[..., 1])
        return np.where(lost & also, 0.0, np.where(lost | also, self.far, apart))

    def predicted(self, before: Cells, now: Cells) -> Cells:
        """Where the last step, taken once more, leads: the nearest cell, inside the map.

        Xu et al. (2017) add the last displacement to the position and snap to a cell. Who
        stayed is predicted to stay, and so is who was or is nowhere.
        """
        guess = now.copy()
        moved = np.flatnonzero((before != now) & (before != self.nowhere) & (now != self.nowhere))
        if moved.size:
            pair = before[moved] * np.int64(self.cells) + now[moved]
            steps, which = np.unique(pair, return_inverse=True)
            was, is_ = self.centres[steps // self.cells], self.centres[steps % self.cells]
            guess[moved] = np.asarray(self._tree.query(2 * is_ - was)[1], dtype=np.int64)[which]
        return guess
