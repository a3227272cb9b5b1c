"""The manifest's own list of measurements amounts to what the manifest claims, for every scheme."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfumato.density.folder import density_manifest
from sfumato.density.registry import scheme_named
from sfumato.errors import SfumatoError
from sfumato.model.places import Places
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import event_from_json
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation
from sfumato.privacy.wall import Wall
from sfumato.published.manifest import Manifest
from sfumato.published.statement import check_claim, statement

pytestmark = pytest.mark.privacy

SCHEMES: list[tuple[str, dict[str, object]]] = [
    ("laplace", {}),
    ("gaussian", {}),
    ("grouping", {}),
    ("bayes", {}),
    ("paris", {}),
    ("paris", {"keep": "cut"}),
    ("paris", {"keep": "exponential"}),
    ("paris", {"keep": "exponential", "cut": "each"}),
    ("paris", {"noise": "laplace"}),
]


def manifest(town: Any, name: str, parameters: dict[str, object], home: Path) -> Manifest:
    scheme = scheme_named(name)
    facts = replace(town.facts(0.5, **parameters), expected_users=3000)
    plan = scheme.plan(facts)
    ledger = Ledger(home / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=9, delta=1e-5))
    period = (int(town.grid.edges[0]), int(town.grid.edges[-1]))
    events = tuple(plan.events.items())
    claim = Claim(
        "town", "day", facts.unit, facts.delta, period, events, {}, "f", "/out", plan.sums
    )
    reservation = ledger.reserve(claim)
    assert isinstance(reservation, Reservation)
    density = scheme.run(town.source, Wall(reservation, reservation.key), facts)
    places: Places = town.towers
    return density_manifest(facts, plan, density, reservation, places, places, {})


@pytest.mark.parametrize(("name", "parameters"), SCHEMES, ids=str)
def test_the_list_of_measurements_recomputes_to_the_claim(
    name: str, parameters: dict[str, object], town: Any, tmp_path: Path
) -> None:
    made = manifest(town, name, parameters, tmp_path)
    events = [event_from_json(measured.event) for measured in made.privacy.measurements]
    found = guarantee(events, made.privacy.delta)
    assert found.epsilon == pytest.approx(made.privacy.epsilon, rel=1e-9)
    assert found.rho == pytest.approx(made.privacy.rho, rel=1e-9)
    check_claim(made)
    if parameters.get("keep") == "exponential":
        assert "choice" in [measured.label for measured in made.privacy.measurements]
        assert "choice: a choice made at random" in " ".join(statement(made).split())


def test_a_measurement_that_is_left_out_is_noticed_before_publishing(
    town: Any, tmp_path: Path
) -> None:
    made = manifest(town, "paris", {"keep": "exponential"}, tmp_path)
    kept = [m for m in made.privacy.measurements if m.label != "choice"]
    less = made.model_copy(
        update={"privacy": made.privacy.model_copy(update={"measurements": kept})}
    )
    with pytest.raises(SfumatoError, match="do not add up to its claim"):
        check_claim(less)


def test_the_readme_says_the_loss_of_every_unit(town: Any, tmp_path: Path) -> None:
    made = manifest(town, "laplace", {}, tmp_path)
    losses = {loss.unit: loss.epsilon for loss in made.privacy.cumulative.per_unit}
    assert losses["user-period"] == pytest.approx(0.5)
    assert losses["user-day@UTC"] == pytest.approx(1.0)
    assert losses["event"] == pytest.approx(1.0)
    assert "user-day@UTC: epsilon 1 at delta" in statement(made)


def test_clipped_gaussian_sums_say_so_and_cost_a_day_less(town: Any, tmp_path: Path) -> None:
    made = manifest(town, "gaussian", {}, tmp_path)
    rho = {loss.unit: loss.rho for loss in made.privacy.cumulative.per_unit}
    assert rho["user-day@UTC"] == pytest.approx(2 * (rho["user-period"] or 0))
