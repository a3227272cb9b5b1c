"""Totals, spaces and clusters, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.density.paris.scheme import cluster_counts
from sfumato.density.paris.settings import Space
from sfumato.density.paris.totals import scaled_totals, working_space
from sfumato.model.counts import WeightBound
from sfumato.privacy.door import open_private
from sfumato.privacy.events import GaussianEvent, Measurement


def measured(values: list[int], sd: float) -> Measurement:
    from fractions import Fraction

    event = GaussianEvent(1.0, Fraction(sd**2), 1)
    return Measurement("toy", np.array(values, np.int64), sd**2, 1, event)


def test_totals_are_shares_of_the_grand_total() -> None:
    totals = scaled_totals(measured([10, 30, 60], 2.0), measured([1000], 10.0))
    assert totals.values.tolist() == [100.0, 300.0, 600.0]


def test_negative_totals_become_zero_and_the_sum_stays() -> None:
    totals = scaled_totals(measured([-10, 30, 80], 2.0), measured([100], 1.0))
    assert totals.values.tolist() == pytest.approx([0.0, 25.0, 75.0])


def test_noise_alone_is_spread_evenly() -> None:
    totals = scaled_totals(measured([-5, 1, 2], 9.0), measured([30], 1.0))
    assert totals.values.tolist() == [10.0, 10.0, 10.0]
    assert scaled_totals(measured([1, 1], 1.0), measured([-4], 1.0)).values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("space", list(Space))
def test_one_visit_adds_at_most_one_in_every_space(space: Space, town: Any) -> None:
    found = working_space(town.facts(), space)
    columns = np.asarray(found.forward.sum(axis=0)).ravel()
    assert columns.max() <= found.units
    assert columns.min() > 0.99 * found.units


@pytest.mark.parametrize("space", list(Space))
def test_there_and_back_is_the_overlay(space: Space, town: Any) -> None:
    facts = town.facts()
    found = working_space(facts, space)
    cells = np.stack([found.totals(row) for row in town.truth.T], axis=1)
    ids, table = found.released(facts, cells)
    assert ids.tolist() == ["z0", "z1", "z2", "z3"]
    assert np.allclose(table, town.overlay.to_zones(town.truth), rtol=2e-3)


def test_clusters_add_up_and_keep_the_sensitivity(town: Any) -> None:
    facts = town.facts()
    counts = town.source.weighted(WeightBound(4.0), facts.counting)
    for space in Space:
        found = working_space(facts, space)
        label = np.arange(found.cells) % 2
        boxed = cluster_counts(counts, found, label)
        joint = open_private(boxed)
        assert joint.shape == (2, 48)
        assert joint.l2 == 4.0 * 2**16 * found.units
        assert joint.values.sum() / joint.units_per_count == pytest.approx(
            open_private(counts).values.sum() / 2**16, rel=2e-3
        )
