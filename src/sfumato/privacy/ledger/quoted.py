"""What every manifest quotes of its reservation: the release, the ledger's head, the spend so far.

All of it is as of the moment of the reservation, so that a rerun writes the same bytes.
"""

from __future__ import annotations

import math

from sfumato.privacy.ledger.reservation import Reservation
from sfumato.privacy.ledger.spending import Loss, Spend
from sfumato.privacy.ledger.views import instant
from sfumato.privacy.manifest import (
    Cumulative,
    LedgerHead,
    Period,
    ReleaseFacts,
    Spent,
    UnitLoss,
    WholeRecords,
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
        per_unit=[_unit_loss(loss) for loss in state.losses],
    )


def _unit_loss(loss: Loss) -> UnitLoss:
    """What results for a unit. A whole record bears what its days and windows bear together: the
    account that is capped leaves those out, and quoting it alone would promise too much."""
    spend = loss.spend if loss.whole is None else loss.whole
    return UnitLoss(
        unit=str(loss.unit),
        neighbours=loss.unit.neighbours,
        epsilon=None if loss.unbounded else _finite(spend.epsilon),
        delta=spend.delta,
        rho=None if loss.unbounded else spend.rho,
        releases=spend.releases,
        not_bounded_by=loss.unbounded,
        whole_records=None if loss.whole is None else _whole_records(loss.spend),
    )


def _whole_records(spend: Spend) -> WholeRecords:
    return WholeRecords(
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
