"""What every manifest quotes of its reservation: the release, the ledger's head, the spend so far.

And a check, run on every manifest before it is published, that it recomputes.

All of it is as of the moment of the reservation, so that a rerun writes the same bytes.
"""

from __future__ import annotations

import math

from sfumato.model.errors import SfumatoError
from sfumato.privacy.accounting import guarantee, total_per_metre
from sfumato.privacy.events import MetricEvent, event_from_json
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.ledger.reservation import Reservation
from sfumato.privacy.ledger.spending import Spend
from sfumato.privacy.ledger.views import instant
from sfumato.privacy.manifest import (
    Cumulative,
    LedgerHead,
    Manifest,
    Period,
    ReleaseFacts,
    Spent,
    UnitLoss,
)


def release_facts(reservation: Reservation) -> ReleaseFacts:
    """Which release it is."""
    row = reservation.charge_row
    return ReleaseFacts(
        id=row.id, name=row.claim.name, dataset=row.claim.dataset, reserved_at=row.time
    )


def ledger_head(reservation: Reservation) -> LedgerHead:
    """Where in which ledger it was charged."""
    head = reservation.charge_row.head
    return LedgerHead(id=reservation.ledger_id, length=head.length, hash=head.hash)


def cumulative(reservation: Reservation) -> Cumulative:
    """What everything released about these people amounts to, this release included."""
    state = reservation.standing
    worst = state.worst_period
    return Cumulative(
        datasets=list(state.datasets),
        lifetime=_spent(state.lifetime),
        worst_period=_spent(state.worst),
        worst_period_is=None
        if worst is None
        else Period(start=instant(worst[0]), end=instant(worst[1])),
        caps=[str(cap) for cap in state.caps],
        per_unit=[
            UnitLoss(
                unit=str(loss.unit),
                neighbours=loss.unit.neighbours,
                epsilon=loss.spend.epsilon if math.isfinite(loss.spend.epsilon) else None,
                delta=loss.spend.delta,
                rho=loss.spend.rho,
                releases=loss.spend.releases,
                not_bounded_by=loss.unbounded,
            )
            for loss in state.losses
        ],
    )


def check_claim(manifest: Manifest) -> Manifest:
    """The manifest, if its own list of measurements amounts to what it claims.

    Run before anything is published: a paid measurement that is missing from the list, or one
    with other noise than was charged, would leave readers with a claim they cannot recompute.
    """
    privacy = manifest.privacy
    events = [event_from_json(measured.event) for measured in privacy.measurements]
    if events and all(isinstance(event, MetricEvent) for event in events):
        epsilon = decimal_up(total_per_metre(events))
    else:
        epsilon = guarantee(events, privacy.delta).epsilon
    if not math.isclose(epsilon, privacy.epsilon, rel_tol=1e-9):
        raise SfumatoError(
            "The manifest's list of measurements does not amount to what it claims (epsilon "
            f"{epsilon:.6g} and {privacy.epsilon:.6g}), so nothing was published.",
            remedy="This is a fault of the scheme; please report it.",
        )
    return manifest


def _spent(spend: Spend) -> Spent:
    return Spent(
        releases=spend.releases,
        rho=spend.rho,
        epsilon=spend.epsilon,
        delta=spend.delta,
        method=spend.method,
    )
