"""How each verb that publishes is run. Schemes, methods and units come from the registries.

A new scheme is covered without a line here. A new command that is given records needs a function
of its name in `VERBS`, which a test asks for (docs/decisions/audit.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from inspect import signature

from tests.replay.gate import LEARNT, LENGTHS, ZONED, Case
from tests.replay.people import COLUMNS, EXPECTED, REGION

from sfumato.density import registry as densities
from sfumato.model.masks import Measure
from sfumato.privacy.events import UnitKind
from sfumato.queries.pricing import Mechanism
from sfumato.queries.together import METHODS as TOGETHER
from sfumato.streams import registry as streams
from sfumato.streams.output import Consistency
from sfumato.synthesis import registry as people
from sfumato.synthesis.method import Reads
from sfumato.traces.request import Kind, Outside
from sfumato_lab.cli import anonymise as rules
from sfumato_lab.syntactic.counts import Rounding
from sfumato_lab.syntactic.registry import METHODS
from sfumato_lab.syntactic.statement import AuditorName

PERIOD = ("--from", "2024-03-04", "--to", "2024-03-06", "--tz", "UTC")
USERS = ("--expected-users", str(EXPECTED))
BUDGET = ("--epsilon", "4", "--delta", "1e-6")
PLACES: Mapping[str, tuple[str, ...]] = {
    "towers": ("--towers", "towers.csv"),
    "towers and zones": ("--towers", "towers.csv", "--zones", "zones.geojson"),
    "zones": ("--zones", "zones.geojson"),
    "grid": ("--grid", "2km", "--region", REGION),
}


def roles(*names: str) -> tuple[str, ...]:
    """Which column is what."""
    return tuple(word for name in names for word in ("--column", f"{name}={COLUMNS[name]}"))


def located(places: str) -> tuple[str, ...]:
    """The places of a run, and the columns that name them."""
    by_tower = places.startswith("towers")
    columns = roles("user", "time", *(("place",) if by_tower else ("lon", "lat")))
    return (*PLACES[places], *columns)


def release(scheme: str, places: str, *more: str) -> Case:
    """A density of these people by a scheme."""
    name = " ".join(("release", scheme, places, *more))
    fixed = (*PERIOD, *BUDGET, *USERS, "--anyway", "--out", "out", "--scheme", scheme)
    return Case(name, ("release", "EVENTS", *fixed, *located(places), *more))


def releases() -> Iterator[Case]:
    """Every scheme; every kind of place and form of counting by the default one."""
    for scheme in densities.SCHEMES:
        for places in PLACES:
            yield release(scheme, places)
        for more in (("--count", "people"), ("--fold", "day"), ("--json",)):
            yield release(scheme, "towers and zones", *more)


def stream(scheme: str, places: str, unit: str, *more: str) -> Case:
    """A history published slot after slot."""
    name = " ".join(("stream", scheme, places, unit, *more))
    fixed = (*PERIOD, *BUDGET, *USERS, "--anyway", "--out", "out", "--scheme", scheme)
    words = ("stream", "EVENTS", *fixed, "--unit", unit, *located(places), *more)
    return Case(name, words, unit, together=streams.SCHEMES[scheme].declares.together)


UNITS = tuple(
    f"{kind}{LENGTHS.get(kind, '')}"
    for kind in UnitKind
    if kind not in (UnitKind.POINT, UnitKind.TRAJECTORY)
)


def stream_cases() -> Iterator[Case]:
    """Every scheme, under every unit of a stream; one that it cannot have is refused alike."""
    for scheme in streams.SCHEMES:
        for unit in UNITS:
            yield stream(scheme, "towers and zones", unit, "--slot", "2h")
        yield stream(scheme, "zones", "user-day", "--slot", "4h")
        for whole in Consistency if scheme == streams.DEFAULT else ():
            yield stream(scheme, "grid", "user-day", "--slot", "4h", "--consistency", whole)
        yield stream(scheme, "zones", "user-day", "--slot", "4h", "--json")


REPORTS: Mapping[str, tuple[str, ...]] = {
    Kind.CLOCK: ("--expected-noise", "200m", "--window", "1h"),
    Kind.PRINTED_CLOCK: ("--expected-noise", "200m", "--window", "1h", "--most-reports", "40"),
    Kind.PREDICTIVE: ("--expected-noise", "200m", "--threshold", "500m", "--most-reports", "9"),
    Kind.GAUSSIAN: (
        *("--radius", "200m", "--epsilon", "4", "--delta", "1e-6", "--region", REGION),
        *("--most-reports", "40"),
    ),
}
"""What a kind of report needs besides its name; the words of a new one are those of the default."""
DAILY = ("--daily-level", "ln10")
PLAIN = ("--expected-noise", "200m", "--most-reports", "40")


def sanitise(kind: str, *more: str) -> Case:
    """Traces with noise on every location."""
    name = " ".join(("sanitise", kind, *more))
    fixed = ("--from", "2024-03-04", "--to", "2024-03-06", "--out", "out")
    columns = roles("user", "time", "lon", "lat")
    words = ("sanitise", "EVENTS", *fixed, "--kind", kind, *REPORTS.get(kind, PLAIN))
    return Case(name, (*words, *columns, *more), "point")


def sanitised() -> Iterator[Case]:
    """Every kind of report; what happens outside of a region."""
    for kind in Kind:
        yield sanitise(kind)
    for outside in Outside:
        yield sanitise(Kind.INDEPENDENT, "--region", REGION, "--outside", outside)
    yield sanitise(Kind.INDEPENDENT, *DAILY)
    yield sanitise(Kind.INDEPENDENT, "--json")


MANY = 10_000
"""Parameters that are larger ask for work alone: they are at their least here."""


def synth(method: str, *more: str) -> Case:
    """Records of people who do not exist."""
    declares = people.method_named(method).declares
    name = " ".join(("synth", method, *more))
    budget = ("--epsilon", "40", "--delta", "1e-6", "--people", "200")
    fixed = (*PERIOD, *budget, *USERS, "--anyway", "--out", "out", "--method", method)
    traces = declares.reads is Reads.TRACES
    columns = roles("user", "time", "lon", "lat")
    where = ("--region", REGION, *columns) if traces else located("towers and zones")
    small = tuple(
        word
        for parameter, setting in declares.parameters.items()
        if isinstance(setting.default, int) and setting.default > MANY
        for word in ("--parameter", f"{parameter}={setting.low:.0f}")
    )
    return Case(name, ("synth", "EVENTS", *fixed, *where, *small, *more), str(declares.unit))


def synthesised() -> Iterator[Case]:
    """Every method that reads people."""
    for method in people.METHODS:
        declares = people.method_named(method).declares
        if declares.reads is not Reads.NOTHING:
            yield synth(method)
            if declares.on_release:
                yield synth(method, "--on", ZONED)


def query(*more: str, **question: object) -> Case:
    """A question to the data, or several that are asked alike."""
    hours = (
        [("visits", "0-24")] if question else [("visits", f"{h}-{h + 6}") for h in range(0, 24, 6)]
    )
    asked = [{"measure": measure, "hours": when} | question for measure, when in hours]
    texts = [word for each in asked for word in ("--question", json.dumps(each))]
    name = " ".join(("query", *more, *(str(value) for value in question.values())))
    fixed = (*PERIOD, "--delta", "1e-7", *located("towers"))
    return Case(name, ("query", "EVENTS", *fixed, *texts, *more))


def queries() -> Iterator[Case]:
    """Every measure under every noise, clipped or not; all ways to ask several."""
    for mechanism in Mechanism:
        for measure in Measure:
            for want in ({"epsilon": 1}, {"plus_minus": 20}):
                yield query("--mechanism", mechanism, measure=measure, want=want)
        yield query("--mechanism", mechanism, measure="visits", clip=2, want={"epsilon": 1})
    for method in TOGETHER:
        yield query("--together", method, "--epsilon", "1")
    session = ("--session", "s", "--epsilon", "2", "--threshold", "5", "--release", LEARNT)
    yield query(*session)
    yield query("--release", LEARNT, measure="visits", want={"epsilon": 1})
    yield query("--plan", measure="visits", want={"epsilon": 1})
    yield query("--json", measure="visits", want={"epsilon": 1})


KNOWN = {AuditorName.ANYONE: USERS, AuditorName.KNOWN: ("--known", "50")}


def anonymise(how: str, *more: str) -> Case:
    """Tables by rules, which are not private: beside them nothing tells who was there."""
    fixed = (*PERIOD, "--slot", "4h", *located("towers"))
    if how == "answers":
        question = json.dumps({"measure": "visits", "hours": "0-24"})
        own = ("--question", question, "--log", "log.internal.jsonl", "--least", "3")
        own += ("--out", "out")
    else:
        own = ("--out", "out", "--seed", "3")
    name = " ".join(("anonymise", how, *more))
    words = ("anonymise", how, "EVENTS", *own, *fixed, *more)
    booked = "dataset" in signature(getattr(rules, how)).parameters
    return Case(name, words, by_rules=True, booked=booked)


def anonymised() -> Iterator[Case]:
    """Every method, every auditor, every form of counts."""
    for rounding in Rounding:
        yield anonymise("counts", "-k", "3", "--totals", "--rounding", rounding)
    for name, method in METHODS.items():
        more = ("-k", "3") if method.needs_k else ()
        city = ("--roads", "neighbours", "--sensitive", "t0", "--parameter", "p=0.6")
        yield anonymise("traces", "--method", name, *more, *(city if method.needs_map else ()))
    for auditor in AuditorName:
        yield anonymise("answers", "--auditor", auditor, *KNOWN.get(auditor, ()))


VERBS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "release": releases,
    "stream": stream_cases,
    "sanitise": sanitised,
    "synth": synthesised,
    "query": queries,
    "anonymise": anonymised,
}


def quick() -> Iterator[tuple[Case, str, str, bool]]:
    """The product's own schemes, each with a person, a format and a kind of answers."""
    yield release(densities.DEFAULT, "towers and zones"), "everything", "csv", True
    yield release(densities.DEFAULT, "grid"), "everything", "folder of parquet", False
    own = (streams.DEFAULT, streams.THIN, streams.FINISHED, streams.THIN_FINISHED)
    for scheme in dict.fromkeys(own):
        yield stream(scheme, "towers and zones", "user-day", "--slot", "4h"), "heavy", "csv", True
    for k, whole in enumerate(Consistency):
        case = stream("direct", "zones", "user-day", "--slot", "4h", "--consistency", whole)
        yield case, "everything", ("parquet", "csv", "ndjson")[k % 3], k % 2 == 0
    for kind in Kind:
        yield sanitise(kind), "nearby", "csv", True
    yield sanitise(Kind.INDEPENDENT, *DAILY), "anywhere", "parquet", False
    yield synth(people.DEFAULT, "--slot", "4h"), "everything", "ndjson", True
    yield query(measure=Measure.VISITS, want={"epsilon": 1}), "heavy", "csv", False
    yield query("--together", "batch", "--epsilon", "1"), "everything", "csv.gz", True
    yield anonymise("counts", "-k", "3", "--totals"), "everything", "csv", False
    yield anonymise("answers", "--auditor", AuditorName.SIMULATABLE), "heavy", "csv", False
    yield anonymise("traces", "--method", "never-walk-alone", "-k", "3"), "heavy", "csv", False
