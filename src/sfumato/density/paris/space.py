"""Where the Paris release works: towers, zones, or the smallest cover of both.

Noise at towers needs no geometry in its privacy argument and comes out smaller per zone than
noise at zones or on the cover; the other two are here for comparison. Each gives a public
integer map from the counted places to its cells and the way back to what is released.

Sensitivity: the integer columns sum to at most `units` (shares of a cell sum to at most one;
for the cover see `geography.cover`), so one visit adds at most one in all and the bound on
mass per slot goes through the map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from sfumato.density.layout import Layout
from sfumato.density.paris.budget import MAP_UNITS
from sfumato.density.paris.settings import Space
from sfumato.density.scheme import PublicFacts
from sfumato.density.zoning import Table, released, released_variance
from sfumato.model.errors import UsageError
from sfumato.privacy.mechanisms.linear import quantise_map


@dataclass(frozen=True, slots=True, eq=False)
class WorkingSpace:
    """Cells to work on: the map to them in whole `units`, where they are, the way back."""

    forward: csr_array
    units: int
    layout: Layout
    back: csr_array | None
    """Zone x cell; None where the cells are the counted places themselves."""

    @property
    def cells(self) -> int:
        return int(self.forward.shape[0])

    def totals(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Noisy totals of the cells from those of the places."""
        return np.asarray(self.forward @ places, dtype=np.float64) / self.units

    def variances(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of these totals, the places' noise being independent."""
        squares = self.forward.astype(np.float64).power(2)
        return np.asarray(squares @ places, dtype=np.float64) / float(self.units) ** 2

    def released(self, facts: PublicFacts, table: Table) -> tuple[NDArray[np.str_], Table]:
        """Ids and rows of the released table."""
        if self.back is None:
            return released(facts, table)
        assert facts.overlay is not None
        return facts.overlay.zone_ids, np.asarray(self.back @ table, dtype=np.float64)

    def released_variance(self, facts: PublicFacts, variance: Table) -> Table:
        """Variance of the released rows, the cells' errors being independent."""
        if self.back is None:
            return released_variance(facts, variance)
        return np.asarray(self.back.power(2) @ variance, dtype=np.float64)


def working_space(facts: PublicFacts, space: Space) -> WorkingSpace:
    """The cells of the chosen space."""
    towers = facts.layout or Layout.in_order(facts.places)
    if space is Space.TOWERS:
        same = csr_array(eye_array(facts.places, dtype=np.int64, format="csr"))
        return WorkingSpace(same, 1, towers, None)
    if facts.overlay is None:
        raise UsageError(f"The space {space} needs both towers and zones.")
    zones = facts.zone_layout or Layout.in_order(facts.overlay.zone_ids.size)
    if space is Space.ZONES:
        shares = csr_array(facts.overlay.shares.T)
        back = csr_array(eye_array(shares.shape[0], format="csr"))
        return WorkingSpace(quantise_map(shares, MAP_UNITS), MAP_UNITS, zones, back)
    from sfumato.geography.cover import minimum_cover

    cover = minimum_cover(facts.overlay)
    layout = zones.take(cover.zones).then(towers.take(cover.towers))
    return WorkingSpace(quantise_map(cover.forward, MAP_UNITS), MAP_UNITS, layout, cover.back)
