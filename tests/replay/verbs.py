"""How each verb that publishes is run. Schemes, methods and units come from the registries.

A new scheme is covered without a line here. A new command that is given records needs a function
of its name in `VERBS`, which a test asks for (docs/decisions/audit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.replay.gate import Case
from tests.replay.people import COLUMNS, EXPECTED, REGION

from sfumato.density import registry as densities
from sfumato.privacy.events import UnitKind
from sfumato.streams import registry as streams

PERIOD = ("--from", "2024-03-04", "--to", "2024-03-06", "--tz", "UTC")
USERS = ("--expected-users", str(EXPECTED))
BUDGET = ("--dataset", "city", "--epsilon", "4", "--delta", "1e-6")
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
    return Case(name, words, unit)


UNITS = tuple(
    f"{kind}:6h" if kind is UnitKind.W_EVENT else str(kind)
    for kind in UnitKind
    if kind not in (UnitKind.POINT, UnitKind.TRAJECTORY)
)


def stream_cases() -> Iterator[Case]:
    """Every scheme, under every unit of a stream; one that it cannot have is refused alike."""
    for scheme in streams.NAMES:
        for unit in UNITS:
            yield stream(scheme, "towers and zones", unit)
        yield stream(scheme, "zones", "user-day", "--consistency", "nearest")


VERBS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "release": releases,
    "stream": stream_cases,
}


def quick() -> Iterator[tuple[Case, str, str, bool]]:
    """The product's own schemes, each with a person, a format and a kind of answers."""
    yield release(densities.DEFAULT, "towers and zones"), "everything", "csv", True
    yield release(densities.DEFAULT, "grid"), "everything", "folder of parquet", False
    own = (streams.DEFAULT, streams.THIN, streams.FINISHED, streams.THIN_FINISHED)
    for scheme in dict.fromkeys(own):
        yield stream(scheme, "towers and zones", "user-day", "--slot", "4h"), "heavy", "csv", True
    coarse = stream(streams.DEFAULT, "zones", "user-day", "--slot", "4h")
    yield coarse, "everything", "parquet", False
