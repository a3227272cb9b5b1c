"""What every manifest quotes of its reservation: the release, the ledger's head, the spend so far.

All of it is as of the moment of the reservation, so that a rerun writes the same bytes.
"""

from __future__ import annotations

import math

from sfumato.privacy.ledger.reservation import Reservation
from sfumato.privacy.ledger.spending import Spend
from sfumato.privacy.ledger.views import instant
from sfumato.privacy.manifest import (
    AlwaysThere,
    Cumulative,
    LedgerHead,
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
        releases=state.releases,
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
                epsilon=None if loss.unbounded else _finite(loss.spend.epsilon),
                delta=loss.spend.delta,
                rho=None if loss.unbounded else loss.spend.rho,
                releases=loss.spend.releases,
                not_bounded_by=loss.unbounded,
                always_there=None if loss.whole is None else _always_there(loss.whole),
            )
            for loss in state.losses
        ],
    )


def _always_there(spend: Spend) -> AlwaysThere:
    return AlwaysThere(
        releases=spend.releases,
        rho=spend.rho,
        epsilon=_finite(spend.epsilon),
        delta=spend.delta,
    )


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _spent(spend: Spend) -> Spent:
    return Spent(
        releases=spend.releases,
        rho=spend.rho,
        epsilon=spend.epsilon,
        delta=spend.delta,
        method=spend.method,
    )
