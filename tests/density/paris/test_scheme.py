"""The Paris release on a small town: what it charges, gives back and promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.density.paris import Paris
from sfumato.density.paris.scheme import threshold
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.io.events import read_events
from sfumato.model.counts import SampleBound
from sfumato.privacy.accounting import Method, guarantee
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall

VARIANTS: list[dict[str, object]] = [
    {},
    {"space": "zones"},
    {"space": "cover"},
    {"histogram": "one-visit"},
    {"total_share": 0.0},
    {"keep": "cut", "transform": "dft"},
    {"keep": "exponential"},
    {"keep": "exponential", "cut": "each", "space": "cover"},
    {"keep": "exponential", "cut": "each"},
    {"noise": "laplace"},
    {"noise": "laplace", "keep": "first", "k": 12, "transform": "dft"},
    {"keep": "first", "k": 20, "nights": False},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_bill_is_the_plan(variant: dict[str, object], town: Any) -> None:
    for facts in (
        town.facts(0.5, **variant),
        replace(town.facts(0.5, **variant), bound=SampleBound(4)),
    ):
        tab = Tab()
        density = Paris().run(town.source, Wall(tab, b"k" * 32), facts)
        plan = Paris().plan(facts)
        assert tab.charged == plan.events
        assert guarantee(plan.events.values(), facts.delta).epsilon <= 0.5
        assert density.place_ids.tolist() == ["z0", "z1", "z2", "z3"]
        assert (density.values >= 0).all()


def test_the_whole_budget_is_used_by_the_exact_curve(town: Any) -> None:
    found = guarantee(Paris().plan(town.facts(0.5)).events.values(), 1e-6)
    assert 0.499 < found.epsilon <= 0.5
    assert found.method is Method.GAUSSIAN


def test_a_choice_of_k_is_charged_its_share(town: Any) -> None:
    """eta^2 / 8 is three hundredths of rho, and everything together is rho."""
    plan = Paris().plan(town.facts(0.5, keep="exponential"))
    assert list(plan.events) == ["histogram", "total", "choice", "series"]
    whole = guarantee(plan.events.values(), 1e-6)
    choice = guarantee([plan.events["choice"]], 1e-6)
    assert choice.rho is not None
    assert whole.rho is not None
    assert choice.rho == pytest.approx(0.03 * whole.rho, rel=1e-6)


@pytest.mark.parametrize("space", ["towers", "zones", "cover"])
def test_with_little_noise_every_space_gives_the_density_back(space: str, town: Any) -> None:
    """No clusters, no shrinkage worth the name: only the contribution bound and rounding."""
    facts = town.facts(3000.0, space=space, nights=False, total_cap=100)
    density = Paris().run(town.source, Wall.seeded(1), facts)
    wanted = town.overlay.to_zones(town.truth)
    assert np.abs(density.values - wanted).sum() < 0.02 * wanted.sum()


def test_with_a_high_threshold_all_places_share_one_shape(town: Any) -> None:
    facts = town.facts(50.0, tolerance=1e-6, nights=False)
    values = Paris().run(town.source, Wall.seeded(1), facts).values
    shapes = values / values.sum(axis=1, keepdims=True)
    assert np.allclose(shapes, shapes[0], atol=1e-3)


def test_the_same_key_gives_the_same_release(town: Any) -> None:
    facts = town.facts(0.5)
    one, again, other = (
        Paris().run(town.source, Wall(Tab(), key * 32), facts).values for key in (b"a", b"a", b"b")
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_an_empty_town_is_released_too(town: Any) -> None:
    """Noise alone: nothing breaks, and the table is complete."""
    nobody = pa.table(
        {
            "user_id": pa.array([1], pa.int64()),
            "timestamp": pa.array([0], pa.timestamp("us", tz="UTC")),
            "cell_id": ["t0"],
        }
    )
    source = LocalSource(read_events(nobody), town.towers, town.grid, threads=1)
    for seed in range(6):
        density = Paris().run(source, Wall.seeded(seed), town.facts(0.5))
        assert np.isfinite(density.values).all()
        assert (density.values >= 0).all()


def test_tau_is_that_of_the_paper() -> None:
    """sqrt(168) * 393 / 0.01, the paper's threshold at epsilon 0.3."""
    assert threshold(393.0, 168, 0.01) == pytest.approx(509_384, rel=1e-3)


def test_shares_must_leave_something(town: Any) -> None:
    with pytest.raises(UsageError, match="nothing for the series"):
        Paris().plan(town.facts(1.0, histogram_share=0.5, total_share=0.5))
    with pytest.raises(UsageError, match="needs both towers and zones"):
        Paris().plan(replace(town.facts(1.0, space="cover"), overlay=None))
    with pytest.raises(UsageError, match="one of"):
        Paris().plan(town.facts(1.0, keep="most"))
