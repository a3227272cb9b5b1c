"""The manifest and the plain statement of a release of traces."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sfumato import __version__
from sfumato.model.rounding import number_of
from sfumato.model.traces import MICROSECONDS
from sfumato.privacy.events import MetricEvent, PrivacyEvent, event_to_json
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.ledger.totals import compose
from sfumato.privacy.ledger.views import cumulative, instant, ledger_row, release_facts
from sfumato.privacy.noise.planar import ELLIPSOID_FACTOR
from sfumato.published.manifest import (
    NOT_COVERED,
    GridFacts,
    Manifest,
    Measured,
    PlacesFacts,
    Privacy,
    SchemeFacts,
)
from sfumato.published.statement import by_rules_words, per_unit_words
from sfumato.traces.request import LABEL, LEVEL_RADIUS_M, Kind, SanitiseRequest

TESTS = "tests"
_LN_TEN = 2.31
"""ln 10, rounded up: a whole trace that is asked for at exactly this level has no caveat."""
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
        kind="traces",
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
        ledger=ledger_row(reservation),
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
        "Take note:",
        *(f"- {item}" for item in manifest.caveats),
        "",
        f"Mean distance between a place and its report: {asked.expected_noise_m:.0f} m.",
        f"At most {asked.reports:,} reports for each person. {_promise(asked)}",
        f"About these people's locations so far: {number_of(total.releases, 'releases')}. "
        f"{by_rules_words(privacy.cumulative.by_rules)}".rstrip(),
        "",
        per_unit_words(manifest),
        "",
        "Not protected:",
        *(f"- {item}" for item in manifest.not_covered),
        "",
        f"For checking. Unit: {privacy.unit}; neighbours: {privacy.neighbours}. Ledger row "
        f"{manifest.ledger.row} of {manifest.ledger.id}. manifest.json holds every figure.",
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
    if (
        isinstance(asked.event, MetricEvent)
        and asked.event.epsilon_per_metre * LEVEL_RADIUS_M > _LN_TEN
    ):
        found.append(
            "Over a whole trace the loss within 200 m is above ln 10: someone who sees all reports "
            "can tell places 200 m apart. Fewer reports or more noise would be needed."
        )
    if asked.kind is Kind.PRINTED_CLOCK:
        found.append("Windows begin at measured times; the public clock has no such condition.")
    return found
