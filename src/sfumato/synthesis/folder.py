"""The folder of synthetic people: events in chunks, what a page shows of them, the manifest.

`events.parquet` has the columns that `sfumato release` reads. `density.parquet` counts the made-up
people by place and slot, in the form of every release, so that the one reader reads it, too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.density.common import bound_in_words
from sfumato.density.folder import places_facts
from sfumato.geography.locate import Locator
from sfumato.io.write import (
    PARQUET,
    write_arrays,
    write_atomically,
    write_parquet,
    write_places,
    write_places_parquet,
)
from sfumato.model.lives import EXTENT
from sfumato.model.places import PlaceKind
from sfumato.model.traces import Box
from sfumato.people.folder import source_facts
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import GaussianEvent, event_from_json, event_to_json
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.ledger.views import cumulative, ledger_head, release_facts
from sfumato.published.folder import MEASUREMENTS, TABLE
from sfumato.published.manifest import (
    NOT_COVERED,
    GridFacts,
    MadeFrom,
    Manifest,
    Measured,
    PlacesFacts,
    Privacy,
    SchemeFacts,
)
from sfumato.published.tables import long_table
from sfumato.synthesis.method import LENGTHS_KM, Chunk, Figures, Noisy, SynthFacts
from sfumato.synthesis.regions import ground_of, length_class, own_point, points_inside
from sfumato.synthesis.request import SynthRequest

EVENTS = "events.parquet"
_GROUP = 1 << 20
"""Rows of a group of the Parquet file."""
Ints = NDArray[np.int64]

NOT_PEOPLE = (
    "Nobody in these files exists: every record is made up from noisy numbers. What the numbers "
    "did not measure is invented, and single records mean nothing."
)


class Writer:
    """Writes chunks as they come and counts what the page shows."""

    def __init__(self, facts: SynthFacts) -> None:
        self._facts = facts
        grid = facts.public.grid
        self._edges = grid.edges
        self.rows = 0
        places = facts.places
        self._density: Ints | None = None
        self._located: tuple[Locator, Ints] | None = None
        self._ids: NDArray[Any] | None = None
        if places is not None:
            self._ids = released_ids(facts)
            self._density = np.zeros((self._ids.size, grid.slots), np.int64)
            ground = ground_of(facts)
            self._metres = ground.at * (ground.span[2] / EXTENT)
            self._region = ground.region
            self._flows = np.zeros((ground.regions, ground.regions), np.int64)
            if facts.box is not None:
                self._located = Locator(places), np.searchsorted(self._ids, places.ids)
            elif places.kind is not PlaceKind.TOWERS:
                self._points = points_inside(places, facts.seed)
        self._lengths = np.zeros(len(LENGTHS_KM) + 1, np.int64)

    def write(self, path: Path, chunks: Iterator[Chunk]) -> Figures:
        """All records as one Parquet file."""
        first = next(chunks, None)
        if first is None:
            first = Chunk(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

        def fill(target: Path) -> None:
            table = self._table(first)
            with pq.ParquetWriter(target, table.schema, **PARQUET) as sink:
                sink.write_table(table, row_group_size=_GROUP)
                for chunk in chunks:
                    sink.write_table(self._table(chunk), row_group_size=_GROUP)

        write_atomically(path, fill)
        if self._density is None:
            return Figures(lengths=self._lengths.astype(np.float64))
        return Figures(
            self._density.astype(np.float64),
            self._lengths.astype(np.float64),
            self._flows.astype(np.float64),
        )

    def _table(self, chunk: Chunk) -> pa.Table:
        self.rows += chunk.user.size
        columns: dict[str, Any] = {
            "user_id": pa.array(chunk.user + 1, pa.int64()),
            "timestamp": pa.array(chunk.time, pa.int64()).view(pa.timestamp("us", tz="UTC")),
        }
        if chunk.place is not None and self._ids is not None:
            self._count(chunk, chunk.place)
            if self._facts.places is not None and self._facts.places.kind is PlaceKind.TOWERS:
                names = pa.array(self._ids.tolist(), pa.string())
                coded = pa.DictionaryArray.from_arrays(pa.array(chunk.place, pa.int32()), names)
                columns["tower_id"] = coded
            else:
                at = (chunk.place, own_point(chunk.user, chunk.place))
                columns["lon"], columns["lat"] = (pa.array(side[at]) for side in self._points)
        elif chunk.lon is not None and chunk.lat is not None:
            columns["lon"], columns["lat"] = pa.array(chunk.lon), pa.array(chunk.lat)
            if self._located is not None:
                locator, rank = self._located
                row = locator.locate(chunk.lon, chunk.lat)
                there = row >= 0
                self._count(Chunk(chunk.user[there], chunk.time[there]), rank[row[there]])
        if chunk.trip is not None:
            columns["trip"] = pa.array(chunk.trip, pa.int64())
        return pa.table(columns)

    def _count(self, chunk: Chunk, place: Ints) -> None:
        """Distinct (person, place, slot), moves of consecutive records."""
        assert self._density is not None
        slot = np.searchsorted(self._edges, chunk.time, side="right") - 1
        shape = self._density.shape
        key = (chunk.user * shape[1] + slot) * shape[0] + place
        once = np.unique(key)
        np.add.at(self._density, (once % shape[0], once // shape[0] % shape[1]), 1)
        same = np.flatnonzero((np.diff(chunk.user) == 0) & (np.diff(place) != 0))
        start, end = place[same], place[same + 1]
        size = self._flows.shape[0]
        pairs = self._region[start] * size + self._region[end]
        self._flows += np.bincount(pairs, minlength=size * size).reshape(size, size)
        length = np.hypot(*(self._metres[start] - self._metres[end]).T)
        self._lengths += np.bincount(length_class(length), minlength=self._lengths.size)


def released_ids(facts: SynthFacts) -> NDArray[np.str_]:
    """Ids of the places that made-up people are put at; a tower that moved stands once."""
    return np.unique(facts.public.released_ids)


def write_people(
    folder: Path, asked: SynthRequest, noisy: Noisy, chunks: Iterator[Chunk]
) -> Figures:
    """Events, their table, the places, and the noisy numbers that they were made from."""
    facts = asked.facts
    figures = Writer(facts).write(folder / EVENTS, chunks)
    if noisy:
        write_arrays(folder / MEASUREMENTS, noisy)
    if figures.density is not None and facts.places is not None:
        counts = figures.density.astype(np.int64)
        table = long_table(released_ids(facts), facts.public.grid, counts)
        write_parquet(folder / TABLE, table)
        write_places(folder / f"{facts.places.kind}.geojson", facts.places)
        write_places_parquet(folder / f"{facts.places.kind}.parquet", facts.places)
    return figures


def synthetic_manifest(
    asked: SynthRequest, reservation: Reservation, noisy: Noisy, files: Mapping[str, str]
) -> Manifest:
    """Everything a reader needs to judge the files; the same bytes on every rerun.

    On top of a release its measurements stand before the people's own, and the claim is about all.
    """
    row, public = reservation.charge_row, asked.facts.public
    own = own_measurements(asked, noisy)
    before = [] if asked.on is None else asked.on.manifest.privacy.measurements
    measured = [*(_renamed(one, "release/") for one in before), *own]
    events = [event_from_json(one.event) for one in measured]
    delta = max([public.delta, *([] if asked.on is None else [asked.on.manifest.privacy.delta])])
    claimed = guarantee(events, delta)
    return Manifest(
        kind="synthetic",
        tainted=False,
        release=release_facts(reservation),
        about=asked.about,
        privacy=Privacy(
            unit=str(row.claim.unit),
            neighbours=row.claim.unit.neighbours,
            bound=asked.plan().bound or bound_in_words(public.bound, public.counting),
            counting="records of made-up people",
            measurements=measured,
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            method=claimed.method.value,
            cumulative=cumulative(reservation),
        ),
        ledger=ledger_head(reservation),
        **made_facts(asked, files),
    )


def made_facts(
    asked: SynthRequest, files: Mapping[str, str], prefix: str = "release/"
) -> dict[str, Any]:
    """What the manifest says of the people themselves, however they were paid for."""
    facts = asked.facts
    where = [asked.counted, facts.places]
    box = PlacesFacts(
        kind="region", count=1, sha256="" if facts.box is None else _digest(facts.box)
    )
    counted, released = (box if one is None else places_facts(one) for one in where)
    return {
        "counted": counted,
        "released": released,
        "grid": GridFacts.of(facts.public.grid),
        "scheme": SchemeFacts(
            name=f"synthetic/{asked.method.name}",
            parameters=dict(facts.settings),
            interval_coverage=0,
        ),
        "public_inputs": {
            "expected_users": facts.public.expected_users,
            "people": facts.people,
            "seed": facts.seed,
            **({} if facts.box is None else {"region": _region(facts.box)}),
        },
        "software": {"sfumato": version("sfumato")},
        "files": dict(files),
        "caveats": [NOT_PEOPLE],
        "not_covered": list(NOT_COVERED),
        "made_from": None
        if asked.on is None
        else MadeFrom(
            how="synth",
            estimates="records of made-up people",
            overlap=None,
            sources=[
                source_facts(
                    asked.on,
                    [f"{prefix}{one.label}" for one in asked.on.manifest.privacy.measurements],
                )
            ],
        ),
    }


def own_measurements(asked: SynthRequest, noisy: Noisy) -> list[Measured]:
    """What the people's own measurements were charged as."""
    found = []
    for planned in asked.plan().measurements:
        values, event = noisy.get(planned.label), planned.event
        noise = float(event.sigma2) if isinstance(event, GaussianEvent) else None
        table = noise is not None and planned.sd > 0
        found.append(
            Measured(
                label=planned.label,
                event=event_to_json(event),
                cells=planned.cells if values is None else int(values.size),
                units_per_count=round(math.sqrt(noise) / planned.sd) if table and noise else 1,
                variance=noise,
                sd=planned.sd if table else None,
            )
        )
    return found


def _renamed(measured: Measured, before: str) -> Measured:
    return measured.model_copy(update={"label": f"{before}{measured.label}"})


def _region(box: Box) -> str:
    """As `--region` takes it."""
    return ",".join(f"{side:g}" for side in box.bounds)


def _digest(box: Box) -> str:
    return hashlib.sha256(repr(box.bounds).encode()).hexdigest()
