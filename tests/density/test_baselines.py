"""`laplace` and `grouping`: pure epsilon, exact bills, numbers that are the counts plus noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.density.baselines import Laplace
from sfumato.density.registry import SCHEMES, scheme_named
from sfumato.density.scheme import Scheme
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.io.events import read_events
from sfumato.model.counts import Counting, Counts, SampleBound
from sfumato.model.private import Private
from sfumato.privacy.accounting import Method, guarantee
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Tab, Unit
from sfumato.privacy.wall import Wall
from sfumato_lab.density.grouping import Grouping, group_sums, groups_of

BASELINES: list[Scheme] = [Laplace(), Grouping()]
NOBODY = pa.table(
    {
        "user_id": pa.array([], pa.int64()),
        "timestamp": pa.array([], pa.timestamp("us", tz="UTC")),
        "cell_id": pa.array([], pa.string()),
    }
)


def test_the_schemes_have_names() -> None:
    assert {"laplace", "gaussian", "grouping", "paris"} <= set(SCHEMES)
    assert all(scheme_named(name).name == name for name in SCHEMES)


@pytest.mark.parametrize("scheme", BASELINES, ids=lambda s: s.name)
def test_the_bill_is_the_plan_and_the_plan_is_epsilon(scheme: Scheme, town: Any) -> None:
    for facts in (town.facts(0.5), replace(town.facts(0.5), bound=SampleBound(3))):
        tab = Tab()
        density = scheme.run(town.source, Wall(tab, b"k" * 32), facts)
        plan = scheme.plan(facts)
        assert tab.charged == plan.events
        found = guarantee(plan.events.values(), 0.0)
        assert found.method is Method.PURE
        assert 0.4999 < found.epsilon <= 0.5
        assert density.values.shape == (4, 48)


def test_laplace_noise_is_as_wide_as_planned(town: Any) -> None:
    """Sample of 3 slots at epsilon 0.5: scale 6, standard deviation 6 sqrt(2) nearly."""
    facts = replace(town.facts(0.5, clip=False), bound=SampleBound(3), overlay=None)
    plan = Laplace().plan(facts)
    assert plan.measurements[0].sd == pytest.approx(6 * 2**0.5, rel=0.01)
    one = Laplace().run(town.source, Wall.seeded(1), facts).values
    other = Laplace().run(town.source, Wall.seeded(2), facts).values
    assert np.std(one - other) == pytest.approx(12, rel=0.2)  # noise twice, and two samples


def test_with_little_noise_laplace_gives_the_counts_back(town: Any) -> None:
    facts = replace(town.facts(5000.0), bound=SampleBound(48))
    values = Laplace().run(town.source, Wall.seeded(1), facts).values
    wanted = town.overlay.to_zones(town.truth)
    # One visit a slot is kept, and hardly anybody is in two places in one hour.
    assert np.abs(values - wanted).sum() < 0.06 * wanted.sum()


@pytest.mark.privacy
@pytest.mark.parametrize("name", ["laplace", "gaussian", "grouping", "paris"])
def test_whether_intervals_are_stated_hangs_on_the_scheme_alone(name: str, town: Any) -> None:
    """Whatever the records, the noise and the settings: these state none and say why, first."""
    nobody = LocalSource(read_events(NOBODY), town.towers, town.grid, threads=1)
    said = set()
    for source in (town.source, nobody):
        for facts in (town.facts(0.3), replace(town.facts(5.0), bound=SampleBound(48))):
            made = scheme_named(name).run(source, Wall.seeded(3), facts)
            assert (made.lower, made.upper, made.coverage, made.median) == (None,) * 4
            said.add(made.remarks)
    ((first, *_),) = said
    assert first.startswith("No interval is stated: ")


def test_groups_follow_the_guide() -> None:
    guide = np.array([[5, 0, 9], [1, 8, 4]])
    assert groups_of(guide, 2).tolist() == [1, 0, 2, 0, 2, 1]
    assert groups_of(guide, 4).tolist() == [0, 0, 0, 0, 0, 0]  # 6 = 4 and a rest of 2
    assert groups_of(guide, 100).tolist() == [0] * 6


def test_group_sums_keep_l1() -> None:
    counts = Counts(np.arange(6).reshape(2, 3), 1, 4.0, 2.0, Counting.VISITS, "toy")
    sums = open_private(group_sums(Private(counts, "toy"), np.array([1, 0, 2, 0, 2, 1])))
    assert sums.values.tolist() == [1 + 3, 0 + 5, 2 + 4]
    assert (sums.l1, sums.l2) == (4.0, 4.0)


def test_with_little_noise_groups_of_one_give_the_counts_back(town: Any) -> None:
    facts = replace(town.facts(5000.0, group=1), bound=SampleBound(48))
    values = Grouping().run(town.source, Wall.seeded(1), facts).values
    wanted = town.overlay.to_zones(town.truth)
    assert np.abs(values - wanted).sum() < 0.06 * wanted.sum()


@pytest.mark.parametrize("scheme", [*BASELINES, scheme_named("paris")], ids=lambda s: s.name)
def test_what_a_scheme_does_not_have_is_refused(scheme: Scheme, town: Any) -> None:
    with pytest.raises(UsageError, match="no parameter colour"):
        scheme.plan(town.facts(1.0, colour="red"))
    with pytest.raises(UsageError, match="whole record"):
        scheme.plan(replace(town.facts(), unit=Unit.parse("event")))
