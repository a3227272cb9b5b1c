"""The ledger as plain data, for people and for JSON: shown, quoted in manifests, and checked.

*Shown*: what `show`, `history` and `plan` say. *Quoted*: what every manifest says of its
reservation, the release, the row of the ledger and the spend so far, all as of the moment of the
reservation, so that a rerun writes the same bytes. *Checked*: the chain by itself, against the head
noted here, and against manifests.

The check finds any row that was edited, removed, reordered or inserted (the seals), rows cut off at
the end (the noted head, and every manifest's), a note of the head that is missing, and published
files that were changed after the commit. It cannot find that the whole ledger *with* its key and
noted head was replaced by an older copy, unless a manifest made since is at hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError, printable
from sfumato.model.counts import WEIGHT_UNITS
from sfumato.model.rounding import number_of
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent, PrivacyEvent, Unit, UnitKind
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.ledger import chain, records
from sfumato.privacy.ledger.accounts import clock_of
from sfumato.privacy.ledger.ledger import Ledger, Reservation
from sfumato.privacy.ledger.limits import (
    Loss,
    Room,
    events_of,
    how_many_more,
    largest_fit,
    loss_of,
    losses,
    standing,
    units_of,
    view_delta,
)
from sfumato.privacy.ledger.records import Book, Charge, Status
from sfumato.privacy.ledger.remembered import introduced, load
from sfumato.privacy.ledger.tally import tally_of
from sfumato.privacy.ledger.totals import Spend, Totals, compose
from sfumato.privacy.transaction import TEMPORARY, digests
from sfumato.published.manifest import (
    MANIFEST_NAME,
    Cumulative,
    LedgerRow,
    Manifest,
    Period,
    ReleaseFacts,
    Spent,
    UnitLoss,
    WholeRecords,
    manifest_bytes,
    read_manifest,
)

BY_RULES = "published by rules"
# What `plan` reckons with, since no release is at hand: a bound of weight:3 and so many numbers.
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
        "format": book.format,
        "datasets": [
            {
                "dataset": name,
                "linked": sorted(book.linked[name] - {name}),
                "by_rules": len(book.rules_about(name)),
                "units": [_unit(book, name, unit) for unit in units_of(book, name)],
                "analysts": [_analyst(book, name, who) for who in _analysts(book, name)],
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
    found = loss_of(unit, tally_of(book, dataset), delta)
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


def _analysts(book: Book, dataset: str) -> list[str]:
    """Everybody who has an allowance about these people or was charged for."""
    found = {c.claim.analyst for c in book.about(dataset) if c.claim.analyst is not None}
    return sorted(found.union(*(book.allowances.get(one, {}) for one in book.linked[dataset])))


def _analyst(book: Book, dataset: str, analyst: str) -> dict[str, Any]:
    """What was spent for an analyst alone, for each unit with an allowance or a charge."""
    tally, caps = tally_of(book, dataset, analyst), book.allowances_of(dataset, analyst)
    units = {str(unit): unit for unit in [*(unit for unit, _ in caps), *tally.periods]}
    found = []
    for unit in (units[name] for name in sorted(units)):
        own = [cap for of, cap in caps if of == unit]
        delta = view_delta(own, _delta(book, dataset, unit))
        found.append(
            {
                "unit": str(unit),
                "allowances": [cap.to_json() for cap in own],
                "spent": spend_view(loss_of(unit, tally, delta).spend),
            }
        )
    return {"analyst": analyst, "releases": len(tally), "units": found}


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
    """Every release in the order of the ledger, with its own cost and the clock of its data.

    Where a row does not prove its clock (questions), it is the one of the other
    releases about these people if they have one alone, else UTC. The period is in UTC either way.
    What was published by rules stands between them, without a cost: it has no bound.
    """
    group = None if dataset is None else book.linked[dataset]
    listed = [c for c in book.charges.values() if group is None or c.claim.dataset in group]
    proved: dict[str, str | None] = {}
    seen: dict[frozenset[str], tuple[str, ...]] = {}
    for charge in listed:
        claim, people = charge.claim, frozenset(book.linked[charge.claim.dataset])
        clock = proved[charge.id] = clock_of(claim.unit, claim.config)
        if clock is not None and clock not in seen.get(people, ()):
            seen[people] = (*seen.get(people, ()), clock)
    found = []
    for charge in listed:
        others = seen.get(frozenset(book.linked[charge.claim.dataset]), ())
        clock = proved[charge.id] or (others[0] if len(others) == 1 else "UTC")
        found.append(_release(charge, clock))
    of = book.by_rules if group is None else group
    by_rules = [row for one in of for row in book.by_rules.get(one, ())]
    return sorted([*found, *map(_by_rules, by_rules)], key=lambda entry: int(entry["row"]))


def _by_rules(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "publication": row["publication"],
        "dataset": row["dataset"],
        "name": row["name"],
        "status": BY_RULES,
        "reserved_at": row["time"],
        "row": row["row"],
        "period": [*map(instant, row["period"])],
        "clock": row["tz"],
        "cost": None,
        "method": row["method"],
        "settings": row["settings"],
        "out": row["out"],
    }


def _release(charge: Charge, clock: str) -> dict[str, Any]:
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
        "clock": clock,
        "cost": asdict(compose(events_of([charge]), claim.delta, 1)),
        "measurements": [label for label, _ in claim.events],
        "out": claim.out,
        "key_kept": charge.key_kept,
        "analyst": claim.analyst,
        "notes": len(charge.note_texts),
        "answer": charge.answer,
    }


def plan(
    book: Book, dataset: str, unit: Unit, epsilon: float, delta: float, releases: int | None
) -> dict[str, Any]:
    """How many more releases of (epsilon, delta) fit, and what `releases` more could cost each.

    Reckoned for one table of Gaussian noise under the bound weight:3 with 200,000 numbers.
    """
    caps = [cap for _, cap in book.caps_of(dataset, unit)]
    room, shown = Room.at_once(book, dataset, unit), view_delta(caps, delta)
    borne = [limit.spent for limit in room.limits]
    spent = max(borne, key=lambda one: one.spend(shown).epsilon, default=Totals.of((), 0))

    def one(asked: float) -> list[PrivacyEvent]:
        l2 = rounded_up(_TYPICAL_LIMIT * WEIGHT_UNITS)
        found = gaussian_sigma2_for(asked, delta, l2, _TYPICAL_CELLS)
        return [GaussianEvent(l2, found.sigma2[0], _TYPICAL_CELLS)]

    more = how_many_more(room, one(epsilon)) if caps else 0
    found: dict[str, Any] = {
        "dataset": dataset,
        "unit": str(unit),
        "caps": [cap.to_json() for cap in caps],
        "by_rules": len(book.rules_about(dataset)),
        "spent": spend_view(spent.spend(shown)),
        "each": {"epsilon": epsilon, "delta": delta},
        "more_releases": more,
        "then_spent": spend_view(spent.plus(one(epsilon) * more, more).spend(shown)),
    }
    if releases is not None:
        count = releases
        found["for_releases"] = {
            "releases": count,
            "largest_epsilon_each": largest_fit(room, lambda e: one(e) * count, count),
        }
    return found


def release_facts(reservation: Reservation) -> ReleaseFacts:
    """Which release it is."""
    row = reservation.charge_row
    return ReleaseFacts(
        id=row.id, name=row.claim.name, dataset=row.claim.dataset, reserved_at=row.time
    )


def ledger_row(reservation: Reservation) -> LedgerRow:
    """Where in which ledger it was charged."""
    return LedgerRow(id=reservation.ledger_id, row=reservation.charge_row.head.length)


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
        by_rules=state.by_rules,
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


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at and what is wrong. `notes` are worth knowing and not wrong."""

    rows: int
    manifests: int
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.findings


def verify(ledger: Ledger, manifests: Path | None = None) -> Report:
    """Look at everything and report; nothing is changed and nothing raised for what is wrong."""
    ledger.database.require()
    noted, key = ledger.keyring.noted(), ledger.keyring.load()
    with ledger.database.reading() as connection:
        rows = load(connection, ledger.database)
    findings: list[str] = []
    notes: list[str] = []
    broken = chain.first_break(key, rows) if rows else "there are no rows at all"
    if broken is not None:
        findings.append(f"the ledger: {broken}")
    if noted is not None and not chain.is_prefix(noted, rows):
        findings.append(
            f"the ledger: {noted.length} rows were seen from this machine, and the ledger does not "
            "begin with them: rows were cut off or replaced"
        )
    if not introduced(noted, len(rows), ledger.keyring):
        findings.append(
            f"the ledger: there is no note of its head beside {ledger.keyring.path}: an older copy "
            "could not be told from it. Put the note back; on a machine that is new to this "
            "ledger accept it with sfumato ledger trust"
        )
    for path, who in ledger.keyring.readable_by_others():
        findings.append(
            f"{path} can be read by {who}, who could have forged rows and seals alike: chmod 600 it"
        )
    found = [] if manifests is None else _manifests(manifests)
    book = records.read(rows) if broken is None else None
    for path in found:
        _check_manifest(path, len(rows), book, findings, notes)
    for charge in book.charges.values() if book is not None else ():
        if charge.status is Status.RESERVED:
            notes.append(
                f"release {charge.claim.name!r} of {charge.claim.dataset!r} is reserved and not "
                "finished: run it again, or abandon it"
            )
    # They quote names of folders and words of manifests, which anybody may have written.
    shown = (tuple(map(printable, texts)) for texts in (findings, notes))
    return Report(len(rows), len(found), *shown)


def _manifests(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", remedy="Name the folder of the releases.")
    paths = sorted(folder.rglob(MANIFEST_NAME))
    return [p for p in paths if not any(part.startswith(TEMPORARY) for part in p.parts)]


def _check_manifest(
    path: Path, rows: int, book: Book | None, findings: list[str], notes: list[str]
) -> None:
    try:
        manifest: Manifest = read_manifest(path)
    except (OSError, ValueError):
        if not _by_rules_alone(path, rows, book, findings, notes):
            findings.append(f"{path}: it is not a manifest that this version can read")
        return
    if book is None:
        return
    if manifest.ledger.id != book.ledger_id:
        notes.append(f"{path}: it belongs to another ledger ({manifest.ledger.id})")
        return
    row, charge = manifest.ledger.row, book.charges.get(manifest.release.id)
    if charge is None or charge.head.length != row:
        findings.append(
            f"{path}: the ledger's row {row} does not reserve this release (it has "
            f"{number_of(rows, 'rows')}): rows were cut off or replaced"
        )
    elif charge.status is Status.COMMITTED:
        here = digests(path.parent)
        changed = sorted(n for n, digest in charge.files.items() if here.get(n) != digest)
        if changed:
            findings.append(f"{path.parent}: changed since it was published: {', '.join(changed)}")
    elif charge.status is Status.RESERVED:
        findings.append(
            f"{path}: it is published, but the ledger has no row that commits it: that row was cut "
            "off, or the run was interrupted at the last step and should be run again"
        )
    else:
        findings.append(f"{path}: it is published, but the ledger says it was abandoned")


def _by_rules_alone(
    path: Path, rows: int, book: Book | None, findings: list[str], notes: list[str]
) -> bool:
    """Look at the row that a publication by rules names; whether the manifest is of one."""
    try:
        told = json.loads(manifest_bytes(path))
        if told["privacy"]["differential_privacy"] is not False:
            return False
        dataset, ledger, row = told["dataset"], str(told["ledger"]["id"]), told["ledger"]["row"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    if book is None:
        return True
    if ledger != book.ledger_id:
        notes.append(f"{path}: it belongs to another ledger ({ledger})")
    elif row not in [known["row"] for known in book.by_rules.get(str(dataset), ())]:
        findings.append(
            f"{path}: the ledger's row {row} is not about this publication by rules (it has "
            f"{number_of(rows, 'rows')}): rows were cut off or replaced"
        )
    else:
        notes.append(
            f"{path}: published by rules: its row was checked and its files were not, since the "
            "ledger has no digests of them"
        )
    return True
