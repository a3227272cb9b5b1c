"""The manifest of a density release, from public facts, the measurements and the reservation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from sfumato.density.bound_words import bound_in_words
from sfumato.density.refine.earlier import pattern_digest
from sfumato.density.scheme import Density, Plan, PublicFacts
from sfumato.model.bound import SampleBound
from sfumato.model.places import Places
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import event_to_json
from sfumato.privacy.ledger import Claim
from sfumato.privacy.ledger.quoted import cumulative, ledger_head, release_facts
from sfumato.privacy.ledger.reservation import Reservation
from sfumato.privacy.manifest import (
    NOT_COVERED,
    GridFacts,
    Manifest,
    Measured,
    PlacesFacts,
    Privacy,
    SchemeFacts,
)


def places_facts(places: Places) -> PlacesFacts:
    """Kind, number and hash of a list of places."""
    return PlacesFacts(
        kind=places.kind.value, count=len(set(places.ids.tolist())), sha256=places.fingerprint()
    )


def _measured(claim: Claim, plan: Plan, density: Density) -> list[Measured]:
    """Everything that was paid for, in the order of the plan: tables, and choices without one."""
    tables = {measured.label: measured for measured in density.measurements}
    cells = {planned.label: planned.cells for planned in plan.measurements}
    found = []
    for label, event in claim.events:
        table = tables.get(label)
        found.append(
            Measured(
                label=label,
                event=event_to_json(event),
                cells=cells[label] if table is None else int(table.values.size),
                units_per_count=1 if table is None else table.units_per_count,
                variance=None if table is None else table.variance,
                sd=None if table is None else table.sd,
            )
        )
    return found


def density_manifest(
    facts: PublicFacts,
    plan: Plan,
    density: Density,
    reservation: Reservation,
    counted: Places,
    released: Places,
    files: Mapping[str, str],
    further_inputs: Mapping[str, bool | int | float | str | None] | None = None,
) -> Manifest:
    """Everything a reader needs to judge the release; the same bytes on every rerun.

    The plan's own words on the bound win over the facts': a scheme may bound each of its
    measurements in another way.
    """
    row = reservation.charge_row
    claimed = guarantee([event for _, event in row.claim.events], facts.delta)
    return Manifest(
        tainted=density.tainted,
        release=release_facts(reservation),
        privacy=Privacy(
            unit=str(facts.unit),
            neighbours=facts.unit.neighbours,
            bound=plan.bound or bound_in_words(facts.bound, facts.counting),
            counting=facts.counting.value,
            measurements=_measured(row.claim, plan, density),
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            method=claimed.method.value,
            cumulative=cumulative(reservation),
        ),
        counted=places_facts(counted),
        released=places_facts(released),
        grid=GridFacts.of(facts.grid),
        scheme=SchemeFacts(
            name=plan.scheme,
            parameters=dict(facts.parameters),
            interval_coverage=density.coverage,
        ),
        public_inputs={
            "expected_users": facts.expected_users,
            **({} if facts.expected is None else {"earlier": pattern_digest(facts.expected)}),
            **(further_inputs or {}),
        },
        software={"sfumato": version("sfumato")},
        ledger=ledger_head(reservation),
        files=dict(files),
        caveats=[*_caveats(facts, plan), *density.remarks],
        not_covered=list(NOT_COVERED),
    )


def _caveats(facts: PublicFacts, plan: Plan) -> list[str]:
    found = []
    if isinstance(facts.bound, SampleBound) and not plan.bound:  # nothing restores the level
        found.append(
            "Sampling keeps one visit per person and time slot and only some of the slots, so the "
            "numbers are a thinned count of people, below the true level by an unknown factor."
        )
    if facts.expected_users is None:
        found.append(
            "Nobody said how many people are in the data, so it was not checked that delta is "
            "below one over their number."
        )
    if facts.overlay is not None:
        found.append(
            "Visits were counted at antennas and spread over zones by area, as if people stood "
            "anywhere around an antenna with equal chance."
        )
    return found
