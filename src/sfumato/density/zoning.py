"""From the places that were counted to the places that are released. Post-processing.

Rows of a tower that moved are added up; with an overlay, towers are spread over zones by the
public shares of their cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.wall import Wall

Table = NDArray[np.float64]


def released(facts: PublicFacts, table: Table) -> tuple[NDArray[np.str_], Table]:
    """Ids and rows of the released table."""
    if facts.overlay is not None:
        return facts.overlay.zone_ids, facts.overlay.to_zones(table)
    ids, row = np.unique(facts.place_ids, return_inverse=True)
    added = np.zeros((ids.size, table.shape[1]))
    np.add.at(added, row, table)
    return ids, added


def released_variance(facts: PublicFacts, variance: Table) -> Table:
    """Variance of the released rows, where the counted rows have independent noise."""
    if facts.overlay is not None:
        return np.asarray(facts.overlay.shares.power(2).T @ variance, dtype=np.float64)
    ids, row = np.unique(facts.place_ids, return_inverse=True)
    added = np.zeros((ids.size, variance.shape[1]))
    np.add.at(added, row, variance)
    return added


def bounded_counts(source: Source, wall: Wall, facts: PublicFacts, label: str) -> Private[Counts]:
    """Place x slot within the bound of the facts: a keyed sample, or weights."""
    if isinstance(facts.bound, SampleBound):
        return source.sampled(facts.bound, wall.sampling_key(label))
    return source.weighted(facts.bound, facts.counting)


def touched_cells(facts: PublicFacts) -> int:
    """The most cells of a place x slot table (or of sums of its rows) one user moves."""
    if isinstance(facts.bound, SampleBound):
        return min(facts.bound.slots, facts.grid.slots)
    return facts.cells
