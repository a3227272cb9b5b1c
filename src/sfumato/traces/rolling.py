"""The rolling budget of a release of traces: what each person's reports cost in any window of time.

Left of the wall: users and instants decide, and what was reported before, never a location. Which
reports fit is decided twice, before anything is reserved (a refusal then costs nothing) and under
the reservation, and what the reports cost is noted before they are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetRefused, ReservationRefused
from sfumato.model.traces import Traces
from sfumato.privacy.events import UnitKind
from sfumato.privacy.ledger import Ledger, Reservation, Status
from sfumato.privacy.ledger.rolling import RollingBudget
from sfumato.traces.bounds import shown
from sfumato.traces.request import Kind, SanitiseRequest


def within_rolling(
    chosen: Traces, asked: SanitiseRequest, ledger: Ledger, reservation: Reservation
) -> Traces:
    """Fixes whose reports the rolling budget allows; what they cost is noted."""
    if asked.rolling_per_metre is None:
        return chosen
    _no_other_open(ledger, reservation)
    assert asked.strength is not None
    seq = reservation.charge_row.head.length
    # As linked when this was reserved: a rerun must decide alike.
    budget, tags, linked = _rolling(chosen, asked, ledger, reservation.standing.datasets)
    draws, which = _draws(chosen, asked)
    passed = budget.allowed(tags, draws.user, draws.time, asked.strength.per_metre, seq, linked)
    if asked.kind is Kind.CLOCK:
        # Every window has a report or there is no release: the rows must not tell who spent what.
        # Another release may have come between the look before the reservation and this one.
        if not passed.all():
            raise _spent_already("The reservation stays charged; give it up with ledger abandon.")
        kept = chosen
    else:
        kept = chosen.pick(passed[which])
    at = draws.pick(passed)
    budget.note(reservation.id, seq, tags, at.user, at.time, asked.strength.per_metre)
    return kept


def refuse_if_spent(chosen: Traces, asked: SanitiseRequest, ledger: Ledger) -> None:
    """Refuse, before anything is reserved, what the rolling budget does not allow."""
    if asked.rolling_per_metre is None:
        return
    assert asked.strength is not None
    budget, tags, linked = _rolling(chosen, asked, ledger, _linked(ledger, asked.dataset))
    draws, _ = _draws(chosen, asked)
    length = len(ledger.entries()) + 1
    passed = budget.allowed(tags, draws.user, draws.time, asked.strength.per_metre, length, linked)
    if passed.size and not (passed.all() if asked.kind is Kind.CLOCK else passed.any()):
        raise _spent_already("Nothing was charged.")


def _spent_already(charged: str) -> BudgetRefused:
    return BudgetRefused(
        "The rolling budget of these people is spent for this period.",
        remedy=f"Choose another period, more noise, or longer windows. {charged}",
    )


def _rolling(
    chosen: Traces, asked: SanitiseRequest, ledger: Ledger, group: Collection[str]
) -> tuple[RollingBudget, list[str], list[list[str]]]:
    """The budget, the users' tags in this data set, and those in the ones linked to it."""
    assert asked.rolling_per_metre is not None
    key = hashlib.sha256(b"rolling" + ledger.fingerprint_key()).digest()
    budget = RollingBudget(ledger.database, key, asked.rolling_per_metre, asked.rolling_window_s)
    names = chosen.names.tolist()

    def tags(dataset: str) -> list[str]:
        return [budget.tag(dataset, name) for name in names]

    others = sorted(set(group) - {asked.dataset})
    return budget, tags(asked.dataset), [tags(other) for other in others]


def _linked(ledger: Ledger, dataset: str) -> Collection[str]:
    return ledger.book().linked.get(dataset, frozenset({dataset}))


def _draws(chosen: Traces, asked: SanitiseRequest) -> tuple[Traces, NDArray[np.int64]]:
    """One row for every draw of noise, and which of them each fix depends on."""
    rows = shown(chosen, asked)
    if asked.kind is Kind.CLOCK:  # all or none: no fix has a draw of its own
        return rows.rows, np.zeros(len(chosen), np.int64)
    heads, which = np.unique(rows.by, return_inverse=True)
    return chosen.pick(heads), which.astype(np.int64)


def _no_other_open(ledger: Ledger, reservation: Reservation) -> None:
    """The budget of a window must not depend on which of two open releases is finished first."""
    book = ledger.book()
    for charge in book.about(reservation.charge_row.claim.dataset):
        others = charge.id != reservation.id and charge.claim.unit.kind is UnitKind.POINT
        if others and charge.status is Status.RESERVED:
            raise ReservationRefused(
                f"The release {charge.claim.name!r} about the same people is not finished.",
                remedy="Finish it, or give it up with sfumato ledger abandon, then run again.",
            )
