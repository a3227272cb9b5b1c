"""The folder of synthetic people: events in chunks, what a page shows of them, the manifest.

`events.parquet` has the columns that `sfumato release` reads. `density.parquet` counts the made-up
people by place and slot, in the form of every release, so that the one reader reads it, too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.density.common import bound_in_words
from sfumato.density.folder import places_facts
from sfumato.io.write import (
    PARQUET,
    marked,
    write_arrays,
    write_atomically,
    write_bytes,
    write_parquet,
    write_places,
    write_places_parquet,
)
from sfumato.model.places import PlaceKind
from sfumato.model.traces import Box, Traces
from sfumato.people.folder import source_facts
from sfumato.privacy.events import GaussianEvent, event_from_json, event_to_json
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.ledger.totals import compose
from sfumato.privacy.ledger.views import cumulative, ledger_row, release_facts
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
from sfumato.synthesis.figures import FIGURES, Tally, figures_text
from sfumato.synthesis.fitness import forecast
from sfumato.synthesis.method import Chunk, CountsTrips, Figures, Noisy, SynthFacts
from sfumato.synthesis.regions import own_point, points_inside, with_cells
from sfumato.synthesis.request import SynthRequest
from sfumato.synthesis.trips.trajectories import timed_trips

EVENTS = "events.parquet"
_GROUP = 1 << 20
"""Rows of a group of the Parquet file."""

NOT_PEOPLE = (
    "Nobody in these files exists: every record is generated from noisy numbers. What the numbers "
    "did not measure is invented, and single records mean nothing."
)


class Writer:
    """Writes chunks as they come and counts them for the page."""

    def __init__(
        self,
        facts: SynthFacts,
        as_lives: bool = False,
        trips: Callable[[Traces], Noisy] | None = None,
    ) -> None:
        facts = with_cells(facts)
        self._tally = Tally(facts, as_lives, trips)
        places = facts.places
        assert places is not None
        self._towers = places.kind is PlaceKind.TOWERS
        self._points = None if self._towers else points_inside(places, facts.seed)

    def write(self, path: Path, chunks: Iterator[Chunk]) -> Figures:
        """All records as one Parquet file."""
        none = np.empty(0, np.int64)
        first = next(chunks, None) or Chunk(none, none, none)

        def fill(target: Path) -> None:
            table = self._table(first)
            with pq.ParquetWriter(target, marked(table.schema), **PARQUET) as sink:
                sink.write_table(table, row_group_size=_GROUP)
                for chunk in chunks:
                    sink.write_table(self._table(chunk), row_group_size=_GROUP)

        write_atomically(path, fill)
        return self._tally.made()

    @property
    def tables(self) -> Noisy:
        """What `trips` counted."""
        return self._tally.tables

    def _table(self, chunk: Chunk) -> pa.Table:
        self._tally.add(chunk)
        columns: dict[str, Any] = {
            "user_id": pa.array(chunk.user + 1, pa.int64()),
            "timestamp": pa.array(chunk.time, pa.int64()).view(pa.timestamp("us", tz="UTC")),
        }
        if chunk.place is not None and self._points is None:
            names = pa.array(self._tally.ids.tolist(), pa.string())
            which = pa.array(chunk.place, pa.int32())
            columns["tower_id"] = pa.DictionaryArray.from_arrays(which, names)
        elif chunk.place is not None and self._points is not None:
            at = (chunk.place, own_point(chunk.user, chunk.place))
            columns["lon"], columns["lat"] = (pa.array(side[at]) for side in self._points)
        else:
            columns["lon"], columns["lat"] = pa.array(chunk.lon), pa.array(chunk.lat)
        if chunk.trip is not None:
            columns["trip"] = pa.array(chunk.trip, pa.int64())
        return pa.table(columns)


def write_people(folder: Path, asked: SynthRequest, noisy: Noisy, chunks: Iterator[Chunk]) -> None:
    """Events, their table, the places, the page's figures, and the noisy numbers behind them."""
    facts = asked.facts
    assert facts.places is not None
    method = asked.method
    trips = None
    if isinstance(method, CountsTrips):
        box, begin, counted = facts.box, facts.public.grid.period[0], method.counted
        assert box is not None

        def trips(traces: Traces) -> Noisy:
            return counted(timed_trips(traces, box, begin), noisy, facts)

    writer = Writer(facts, method.declares.lives, trips)
    made = writer.write(folder / EVENTS, chunks)
    if isinstance(method, CountsTrips):
        made = replace(made, trips=method.shown(writer.tables, noisy, facts))
    if noisy:
        write_arrays(folder / MEASUREMENTS, noisy)
    assert made.density is not None
    ids = np.unique(facts.public.released_ids)
    table = long_table(ids, facts.public.grid, made.density.astype(np.int64))
    write_parquet(folder / TABLE, table)
    write_places(folder / f"{facts.places.kind}.geojson", facts.places)
    write_places_parquet(folder / f"{facts.places.kind}.parquet", facts.places)
    released = method.released(noisy, facts)
    write_bytes(folder / FIGURES, figures_text(made, released, facts))


def synthetic_manifest(
    asked: SynthRequest,
    reservation: Reservation,
    noisy: Noisy,
    files: Mapping[str, str],
    remarks: tuple[str, ...] = (),
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
    # The people's budget may have been chosen in the light of the release: sums alone hold then.
    claimed = compose(events, delta, 1 if asked.on is None else 2)
    expected, made = forecast(asked.method, asked.facts), made_facts(asked, files)
    made["caveats"] = [*remarks, *made["caveats"]]
    if expected is not None:
        made["caveats"] += expected.caveats
    return Manifest(
        kind="synthetic",
        tainted=False,
        release=release_facts(reservation),
        about=asked.about,
        privacy=Privacy(
            unit=str(row.claim.unit),
            neighbours=row.claim.unit.neighbours,
            bound=asked.plan().bound or bound_in_words(public.bound, public.counting),
            counting=public.counting.value,
            measurements=measured,
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            method=claimed.method,
            cumulative=cumulative(reservation),
        ),
        ledger=ledger_row(reservation),
        **made,
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
            estimates="records of synthetic people",
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
