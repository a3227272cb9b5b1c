"""`sanitise`: from traces to published reports, charged to the ledger like every release.

Reserve, draw, persist, commit: killed at any instant and run again, the same reports are
made from the same key and paid once.

The manifest and the plain statement of a release of traces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.errors import BudgetRefused, ReservationRefused
from sfumato.io.traces import to_table
from sfumato.io.write import write_bytes, write_csv, write_parquet
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.privacy.events import MetricEvent, PrivacyEvent, Unit, UnitKind, event_to_json
from sfumato.privacy.ledger import Claim, Ledger, Reservation, Status
from sfumato.privacy.ledger.limits import compose
from sfumato.privacy.ledger.rolling import RollingBudget
from sfumato.privacy.ledger.views import cumulative, instant, ledger_head, release_facts
from sfumato.privacy.noise import KeyedStream
from sfumato.privacy.noise.planar import ELLIPSOID_FACTOR
from sfumato.privacy.transaction import digests, publish
from sfumato.published.manifest import (
    MANIFEST_NAME,
    NOT_COVERED,
    GridFacts,
    Manifest,
    Measured,
    PlacesFacts,
    Privacy,
    SchemeFacts,
    manifest_text,
    read_manifest,
)
from sfumato.published.statement import check_claim, per_unit_words
from sfumato.traces.mechanisms import printed_windows, true_on_clock
from sfumato.traces.request import LABEL, Kind, SanitiseRequest, draw_reports, eligible

TESTS = "tests"
_TIMES = (
    "time stamps are published as they were measured: when someone was on the move, how often "
    "a device reported and where a trip begins is not protected;"
)
_EXISTENCE = "that somebody is among the users, and how many they are;"
_AVERAGE = (
    "a place at which somebody stays: reports of one place average out, and 1,000 of them at "
    "100 m of noise show it to 2.7 m;"
)
_HABITS = (
    "who somebody is: whoever knows where a person often is may find the person's trace in spite "
    "of the noise (47 % of traces in a published experiment at 100 m);"
)


def traces_manifest(
    asked: SanitiseRequest, reservation: Reservation, reports: int, files: Mapping[str, str]
) -> Manifest:
    """Everything a reader needs to judge the release; the same bytes on every rerun."""
    row = reservation.charge_row
    claimed = compose([event for _, event in row.claim.events], asked.delta)
    start, end = (instant(edge) for edge in asked.period)
    lattice = f"{asked.lattice.per_degree} rows a degree"
    places = PlacesFacts(
        kind="lattice points",
        count=180 * asked.lattice.per_degree + 1,
        sha256=hashlib.sha256(lattice.encode()).hexdigest(),
    )
    return Manifest(
        tainted=False,
        release=release_facts(reservation),
        privacy=Privacy(
            unit=str(row.claim.unit),
            neighbours=row.claim.unit.neighbours,
            bound=_bound(asked),
            counting="reports of locations",
            measurements=_measurements(asked, reports),
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            method=claimed.method,
            cumulative=cumulative(reservation),
        ),
        counted=places,
        released=places,
        grid=GridFacts(
            start=start,
            end=end,
            step_seconds=float(
                asked.window_s or (asked.period[1] - asked.period[0]) / MICROSECONDS
            ),
            slots=int(asked.clock.size) if asked.kind is Kind.CLOCK else 1,
            tz="UTC",
            sha256=hashlib.sha256(f"{asked.period}{asked.window_s}".encode()).hexdigest(),
        ),
        scheme=SchemeFacts(
            name=f"traces/{asked.kind}", parameters=_facts(asked), interval_coverage=0
        ),
        public_inputs={"most_reports": asked.most_reports},
        software={"sfumato": __version__},
        ledger=ledger_head(reservation),
        files=dict(files),
        caveats=_caveats(asked),
        not_covered=[*_not_covered(asked), *NOT_COVERED],
    )


def _measurements(asked: SanitiseRequest, reports: int) -> list[Measured]:
    """What was paid for one person's whole trace: reports and, where they are made, tests."""
    noise = asked.expected_noise_m
    event, tests = asked.event, []
    if asked.prediction is not None and asked.kind is Kind.PREDICTIVE:
        by = asked.prediction
        event = MetricEvent(by.most_reports * by.report.per_metre, "planar Laplace")
        test = MetricEvent(by.most_tests * by.test.per_metre, "noisy tests of a prediction")
        tests = [_measured(TESTS, test, reports, None)]
    return [_measured(LABEL, event, reports, noise), *tests]


def _measured(label: str, event: PrivacyEvent, cells: int, noise: float | None) -> Measured:
    return Measured(
        label=label,
        event=event_to_json(event),
        cells=cells,
        units_per_count=1,
        variance=None if noise is None else noise**2 / 2,
        sd=None if noise is None else noise / 2**0.5,
    )


def traces_statement(asked: SanitiseRequest, manifest: Manifest) -> str:
    """The statement in plain words."""
    privacy, total = manifest.privacy, manifest.privacy.cumulative.lifetime
    lines = [
        f"{manifest.release.name}: reports of where people were, each moved at random "
        f"({manifest.release.dataset}).",
        "",
        f"Mean distance between a place and its report: {asked.expected_noise_m:.0f} m.",
        f"At most {asked.reports:,} reports for each person. {_promise(asked)}",
        f"Everything about these people's locations so far: {total.releases} release(s).",
        "",
        per_unit_words(manifest),
        "",
        "Not protected:",
        *(f"- {item}" for item in manifest.not_covered),
        "",
        "Take note:",
        *(f"- {item}" for item in manifest.caveats),
        "",
        f"For checking. Unit: {privacy.unit}; neighbours: {privacy.neighbours}. Ledger row "
        f"{manifest.ledger.length} of {manifest.ledger.id}. manifest.json holds every figure.",
    ]
    return "\n".join(lines) + "\n"


def _promise(asked: SanitiseRequest) -> str:
    event = asked.event
    if isinstance(event, MetricEvent):
        each = (
            ""
            if asked.strength is None
            else (
                "One report: two places 100 m apart change the probability of any report by at "
                f"most e^{100 * asked.strength.per_metre:.3g}. "
            )
        )
        return (
            f"{each}A whole trace: e^{100 * event.epsilon_per_metre:.4g} for two traces that are "
            "never more than 100 m apart. Large numbers promise nothing."
        )
    assert asked.gaussian is not None
    return (
        f"Two traces that are never more than {asked.gaussian.radius_m:g} m apart: epsilon "
        f"{asked.gaussian.epsilon:g} at delta {asked.gaussian.delta:g} for the whole trace."
    )


def _bound(asked: SanitiseRequest) -> str:
    if asked.kind is Kind.CLOCK:
        return f"Of each person one report in each of {asked.reports} windows of a public clock."
    if asked.kind is Kind.PREDICTIVE:
        return f"Of each person at most {asked.reports} fresh reports; the last one is repeated."
    return f"Of each person at most the first {asked.reports} reports of the period were kept."


def _facts(asked: SanitiseRequest) -> dict[str, bool | int | float | str]:
    facts = {k: v for k, v in asked.config().items() if isinstance(v, bool | int | float | str)}
    facts["expected_noise_m"] = asked.expected_noise_m
    facts["earth"] = "sphere of mean radius"
    if asked.strength is not None:
        facts["finite_precision_eta"] = asked.lattice.excess(asked.strength.per_metre)
        facts["lattice_step_m"] = asked.lattice.step_m
        facts["ellipsoid_factor"] = ELLIPSOID_FACTOR
    return facts


def _not_covered(asked: SanitiseRequest) -> list[str]:
    times = [] if asked.kind is Kind.CLOCK else [_TIMES]
    return [_EXISTENCE, *times, _AVERAGE, _HABITS]


def _caveats(asked: SanitiseRequest) -> list[str]:
    found = [
        "This protects places, not people: for numbers about crowds publish a density instead."
    ]
    if isinstance(asked.event, MetricEvent) and asked.event.epsilon_per_metre * 200 > 2.31:
        found.append(
            "Over a whole trace the loss within 200 m is above ln 10: someone who sees all reports "
            "can tell places 200 m apart. Fewer reports or more noise would be needed."
        )
    if asked.kind is Kind.PRINTED_CLOCK:
        found.append("Windows begin at measured times; the public clock has no such condition.")
    return found


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
