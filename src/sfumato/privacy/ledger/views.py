"""The ledger as plain data: what `show`, `history` and `plan` say, for people and for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sfumato.model.bound import WEIGHT_UNITS
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent, PrivacyEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.ledger.filter import Room, how_many_more, largest_fit
from sfumato.privacy.ledger.records import Book, Charge, Status
from sfumato.privacy.ledger.spending import (
    Loss,
    Spend,
    compose,
    events_of,
    loss_of,
    losses,
    standing,
    view_delta,
)
from sfumato.privacy.units import Unit, UnitKind

_TYPICAL_LIMIT = 3.0
_TYPICAL_CELLS = 200_000
_FALLBACK_DELTA = 1e-6
"""Delta of the view where neither a cap nor a release has one."""


def instant(microseconds: int) -> str:
    """An instant as text, in UTC."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(microseconds=microseconds)).isoformat()


def show(book: Book, dataset: str | None = None) -> dict[str, Any]:
    """For each data set and unit: the cap, what was spent, the worst period, what is open.

    `units` are the accounts with a cap or a charge; `losses` says what everything released
    amounts to for each unit, also for those without a cap.
    """
    names = sorted(book.caps) if dataset is None else [dataset]
    return {
        "ledger": book.ledger_id,
        "schema": book.schema,
        "datasets": [
            {
                "dataset": name,
                "linked": sorted(book.linked[name] - {name}),
                "units": [_unit(book, name, unit) for unit in book.units_of(name)],
                "losses": [
                    loss_view(loss) for loss in losses(book, name, _delta(book, name, None))
                ],
            }
            for name in names
        ],
    }


def _delta(book: Book, dataset: str, unit: Unit | None) -> float:
    """Delta of a view: the smallest of the caps', else of the releases'."""
    given = [c.claim.delta for c in book.about(dataset) if c.claim.delta > 0]
    caps = [cap for _, cap in book.caps_of(dataset, unit)]
    return view_delta(caps, min(given, default=_FALLBACK_DELTA))


def _unit(book: Book, dataset: str, unit: Unit) -> dict[str, Any]:
    caps = [cap for name, cap in book.caps_of(dataset) if name == unit]
    delta = view_delta(caps, _delta(book, dataset, unit))
    found = loss_of(unit, book.items(dataset), delta)
    worst, where = found.spend, found.where
    if unit.kind is UnitKind.USER_PERIOD:
        state = standing(book, dataset, unit, delta)
        worst, where = state.worst, state.worst_period
    charges = [c for c in book.about(dataset) if c.claim.unit.kind is unit.kind]
    return {
        "unit": str(unit),
        "caps": [cap.to_json() for cap in caps],
        "lifetime": spend_view(found.spend),
        "worst_period": {
            **spend_view(worst),
            "period": None if where is None else [*map(instant, where)],
        },
        "over_cap": not all(limit.kept for limit in Room.at_once(book, dataset, unit).limits),
        "not_bounded_by": found.unbounded,
        "by_status": {s.value: sum(c.status is s for c in charges) for s in Status},
    }


def spend_view(spend: Spend) -> dict[str, Any]:
    """A spend as JSON values; an epsilon without a bound is None."""
    shown = spend.epsilon if math.isfinite(spend.epsilon) else None
    return {**asdict(spend), "epsilon": shown}


def loss_view(loss: Loss) -> dict[str, Any]:
    """A loss as JSON values."""
    return {
        "unit": str(loss.unit),
        **spend_view(loss.spend),
        "period": None if loss.where is None else [*map(instant, loss.where)],
        "not_bounded_by": loss.unbounded,
        "with_days_and_windows": None if loss.whole is None else spend_view(loss.whole),
    }


def history(book: Book, dataset: str | None = None) -> list[dict[str, Any]]:
    """Every release in the order of the ledger, with its own cost."""
    group = None if dataset is None else book.linked[dataset]
    return [_release(c) for c in book.charges.values() if group is None or c.claim.dataset in group]


def _release(charge: Charge) -> dict[str, Any]:
    claim = charge.claim
    return {
        "release": charge.id,
        "dataset": claim.dataset,
        "name": claim.name,
        "status": charge.status.value,
        "reserved_at": charge.time,
        "row": charge.head.length,
        "unit": str(claim.unit),
        "period": [*map(instant, claim.period)],
        "cost": asdict(compose(events_of([charge]), claim.delta, 1)),
        "measurements": [label for label, _ in claim.events],
        "out": claim.out,
        "key_kept": charge.key_kept,
    }


def plan(
    book: Book, dataset: str, unit: Unit, epsilon: float, delta: float, releases: int | None
) -> dict[str, Any]:
    """How many more releases of (epsilon, delta) fit, and what `releases` more could cost each.

    Reckoned for one table of Gaussian noise under the bound weight:3 with 200,000 numbers.
    """
    caps = [cap for _, cap in book.caps_of(dataset, unit)]
    room, shown = Room.at_once(book, dataset, unit), view_delta(caps, delta)
    worst = max(room.limits, key=lambda limit: compose(limit.spent, shown).epsilon, default=None)
    spent, charges = ((), 0) if worst is None else (worst.spent, worst.releases)

    def one(asked: float) -> list[PrivacyEvent]:
        l2 = rounded_up(_TYPICAL_LIMIT * WEIGHT_UNITS)
        found = gaussian_sigma2_for(asked, delta, l2, _TYPICAL_CELLS)
        return [GaussianEvent(l2, found.sigma2[0], _TYPICAL_CELLS)]

    more = how_many_more(room, one(epsilon)) if caps else 0
    found: dict[str, Any] = {
        "dataset": dataset,
        "unit": str(unit),
        "caps": [cap.to_json() for cap in caps],
        "spent": spend_view(compose(spent, shown, charges)),
        "each": {"epsilon": epsilon, "delta": delta},
        "more_releases": more,
        "then_spent": spend_view(compose([*spent, *one(epsilon) * more], shown, charges + more)),
    }
    if releases is not None:
        count = releases
        found["for_releases"] = {
            "releases": count,
            "largest_epsilon_each": largest_fit(room, lambda e: one(e) * count, count),
        }
    return found
