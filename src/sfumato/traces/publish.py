"""`sanitise`: from traces to published reports, charged to the ledger like every release.

Reserve, draw, persist, commit: killed at any instant and run again, the same reports are
made from the same key and paid once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.io.writers import write_bytes, write_csv, write_parquet
from sfumato.model.errors import BudgetRefused
from sfumato.privacy.claims import check_claim
from sfumato.privacy.ledger import Claim, Ledger, Reservation, ReservationRefused, Status
from sfumato.privacy.manifest import MANIFEST_NAME, Manifest, manifest_text, read_manifest
from sfumato.privacy.noise import KeyedStream
from sfumato.privacy.transaction import digests, publish
from sfumato.privacy.units import Unit, UnitKind
from sfumato.traces.budget import RollingBudget
from sfumato.traces.disclosure import traces_manifest, traces_statement
from sfumato.traces.draw import LABEL, draw_reports, eligible
from sfumato.traces.frames import to_table
from sfumato.traces.mechanisms.windows import printed_windows, true_on_clock
from sfumato.traces.model import Traces
from sfumato.traces.request import Kind, SanitiseRequest

UNIT = Unit(UnitKind.POINT)


@dataclass(frozen=True, slots=True)
class Sanitised:
    """Published reports: where they are, their statement, and how this run ended."""

    folder: Path
    manifest: Manifest
    how: str
    withheld: int
    """Fixes left out by the public bounds and the rolling budget; for the holder's eyes."""


def sanitise(
    traces: Traces, asked: SanitiseRequest, ledger: Ledger, out: Path, *, keep_key: bool = False
) -> Sanitised:
    """Publish sanitised traces in the folder `out`."""
    chosen = eligible(traces, asked)
    secret = ledger.fingerprint_key()
    withheld = len(traces) - len(chosen)

    def fingerprint() -> str:
        return traces_fingerprint(traces, secret)

    def persist(reservation: Reservation, folder: Path) -> None:
        nonlocal withheld
        kept = _within_rolling(chosen, asked, ledger, reservation)
        withheld = len(traces) - len(kept)
        stream = KeyedStream(reservation.key, "traces")
        reports = draw_reports(kept, asked, reservation, stream)
        table = to_table(reports)
        write_parquet(folder / "traces.parquet", table)
        write_csv(folder / "traces.csv", table)
        manifest = traces_manifest(asked, reservation, len(reports), digests(folder))
        check_claim(manifest)
        write_bytes(folder / "README.txt", traces_statement(asked, manifest).encode())
        manifest = traces_manifest(asked, reservation, len(reports), digests(folder))
        write_bytes(folder / MANIFEST_NAME, manifest_text(manifest).encode())

    claim = Claim(
        dataset=asked.dataset,
        name=asked.name,
        unit=UNIT,
        delta=asked.delta,
        period=asked.period,
        events=((LABEL, asked.event),),
        config=asked.config(),
        fingerprint=fingerprint(),
        out=str(out),
        radius_m=None if asked.gaussian is None else asked.gaussian.radius_m,
        least_m=asked.lattice.step_m,
    )
    outcome = publish(
        ledger,
        claim,
        out,
        fingerprint,
        persist,
        check_input=lambda: _something_left(chosen, asked, ledger),
        keep_key=keep_key,
    )
    return Sanitised(out, read_manifest(out / MANIFEST_NAME), outcome.how, withheld)


def traces_fingerprint(traces: Traces, key: bytes) -> str:
    """A keyed digest of the fixes and whose they are."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)
    digest.update(b"sfumato-traces/1")
    digest.update(repr(traces.names.tolist()).encode())
    for column in (traces.user, traces.trip, traces.time, traces.lon, traces.lat):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _within_rolling(
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
    made, which = _reports(chosen, asked)
    passed = budget.allowed(tags, made.user, made.time, asked.strength.per_metre, seq, linked)
    if asked.kind is Kind.CLOCK:
        # Every window has a report or there is no release: the rows must not tell who spent what.
        # Another release may have come between the look before the reservation and this one.
        if not passed.all():
            raise _spent_already("The reservation stays charged; give it up with ledger abandon.")
        kept = chosen
    else:
        kept = chosen.pick(passed[which])
    at = made.pick(passed)
    budget.note(reservation.id, seq, tags, at.user, at.time, asked.strength.per_metre)
    return kept


def _something_left(chosen: Traces, asked: SanitiseRequest, ledger: Ledger) -> None:
    """Refuse, before anything is reserved, what the rolling budget does not allow."""
    if asked.rolling_per_metre is None:
        return
    assert asked.strength is not None
    budget, tags, linked = _rolling(chosen, asked, ledger, _linked(ledger, asked.dataset))
    made, _ = _reports(chosen, asked)
    length = len(ledger.entries()) + 1
    passed = budget.allowed(tags, made.user, made.time, asked.strength.per_metre, length, linked)
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

    def old(dataset: str) -> list[list[str]]:
        spelled = [budget.old_tags(dataset, name) for name in names]
        most = max(map(len, spelled), default=0)
        return [[each[min(k, len(each) - 1)] for each in spelled] for k in range(most)]

    others = sorted(set(group) - {asked.dataset})
    further = [tags(other) for other in others]
    return (
        budget,
        tags(asked.dataset),
        [
            *further,
            *(names for one in (asked.dataset, *others) for names in old(one)),
        ],
    )


def _linked(ledger: Ledger, dataset: str) -> Collection[str]:
    return ledger.book().linked.get(dataset, frozenset({dataset}))


def _reports(chosen: Traces, asked: SanitiseRequest) -> tuple[Traces, NDArray[np.int64]]:
    """One row for every draw of noise, and which of them each fix depends on."""
    if asked.kind is Kind.CLOCK:
        assert asked.window_s is not None
        whole = true_on_clock(chosen, asked.clock, asked.window_s)
        return whole, np.zeros(len(chosen), np.int64)
    if asked.kind is Kind.PRINTED_CLOCK:
        assert asked.window_s is not None
        heads, which = np.unique(printed_windows(chosen, asked.window_s), return_inverse=True)
        return chosen.pick(heads), which.astype(np.int64)
    return chosen, np.arange(len(chosen), dtype=np.int64)


def _no_other_open(ledger: Ledger, reservation: Reservation) -> None:
    """The budget of a window must not depend on which of two open releases is finished first."""
    book = ledger.book()
    for charge in book.about(reservation.charge_row.claim.dataset):
        others = charge.id != reservation.id and charge.claim.unit.kind is UNIT.kind
        if others and charge.status is Status.RESERVED:
            raise ReservationRefused(
                f"The release {charge.claim.name!r} about the same people is not finished.",
                remedy="Finish it, or give it up with sfumato ledger abandon, then run again.",
            )
