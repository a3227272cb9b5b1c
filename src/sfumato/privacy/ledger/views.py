"""The ledger as plain data: what `show`, `history` and `plan` say, for people and for JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sfumato.model.bound import WEIGHT_UNITS
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent, PrivacyEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.ledger.filter import how_many_more, largest_fit
from sfumato.privacy.ledger.records import Book, Charge, Status
from sfumato.privacy.ledger.spending import compose, events_of, standing, view_delta
from sfumato.privacy.units import Unit

_TYPICAL_LIMIT = 3.0
_TYPICAL_CELLS = 200_000
_FALLBACK_DELTA = 1e-6
"""Delta of the view where neither a cap nor a release has one."""


def instant(microseconds: int) -> str:
    """An instant as text, in UTC."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(microseconds=microseconds)).isoformat()


def show(book: Book, dataset: str | None = None) -> dict[str, Any]:
    """For each data set and unit: the cap, what was spent, the worst period, what is open."""
    names = sorted(book.caps) if dataset is None else [dataset]
    return {
        "ledger": book.ledger_id,
        "datasets": [
            {
                "dataset": name,
                "linked": sorted(book.linked[name] - {name}),
                "units": [_unit(book, name, unit) for unit in book.units_of(name)],
            }
            for name in names
        ],
    }


def _unit(book: Book, dataset: str, unit: str) -> dict[str, Any]:
    charges = book.about(dataset, Unit.parse(unit))
    delta = min((charge.claim.delta for charge in charges), default=_FALLBACK_DELTA)
    state = standing(book, dataset, Unit.parse(unit), delta)
    return {
        "unit": unit,
        "caps": [cap.to_json() for cap in state.caps],
        "lifetime": asdict(state.lifetime),
        "worst_period": {
            **asdict(state.worst),
            "period": None if state.worst_period is None else [*map(instant, state.worst_period)],
        },
        "by_status": {s.value: sum(c.status is s for c in charges) for s in Status},
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
    caps = book.caps_of(dataset, unit)
    charges = book.about(dataset, unit)
    spent = events_of(charges)
    shown = view_delta(caps, delta)

    def one(asked: float) -> list[PrivacyEvent]:
        l2 = rounded_up(_TYPICAL_LIMIT * WEIGHT_UNITS)
        found = gaussian_sigma2_for(asked, delta, l2, _TYPICAL_CELLS)
        return [GaussianEvent(l2, found.sigma2[0], _TYPICAL_CELLS)]

    more = how_many_more(spent, caps, one(epsilon)) if caps else 0
    found: dict[str, Any] = {
        "dataset": dataset,
        "unit": str(unit),
        "caps": [cap.to_json() for cap in caps],
        "spent": asdict(compose(spent, shown, len(charges))),
        "each": {"epsilon": epsilon, "delta": delta},
        "more_releases": more,
        "then_spent": asdict(compose([*spent, *one(epsilon) * more], shown, len(charges) + more)),
    }
    if releases is not None:
        count = releases
        found["for_releases"] = {
            "releases": count,
            "largest_epsilon_each": largest_fit(spent, caps, lambda e: one(e) * count, count),
        }
    return found
