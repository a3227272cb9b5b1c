"""What a stream writes: consistent counts, partitions and lines, manifest and statement.

**Consistency**: non-negative whole numbers that keep the noisy total, Algorithm 3 of Chen et al.,
two ways. `random_decrements` has the distribution of the printed loop (pick a cell at random, take
one away if there is one, until the negatives' mass is gone) without the loop: unit picks that hit
an empty cell are simply drawn again, so whole batches of picks can be drawn at once. A batch
of r picks over the positive cells is multinomial; picks beyond what a cell holds are the ones
the loop would have rejected, and they are drawn again among the cells that still hold
something. A negative total cannot be kept; it becomes zeros. `nearest_counts` is the exact answer
to the same question: the closest non-negative histogram with that total (simplex projection), made
whole by largest remainders. Both read noisy numbers and their own coins only: post-processing.

**Files.** `slots/slot=00012/part-0.parquet` (zone_id, count) appears in one step; `stream.ndjson`
grows by a line a slot. Both are written from bytes that are already in the ledger's database, so
writing them again changes nothing. `places.json` names the zones in the order of the lines'
values; `README.txt` is for readers and `stream.json` holds the statement for machines, from the
first slot on.

A stream that is complete has the folder of a release: `density.parquet`, `density.csv`, the
outlines of its places, a page, and `manifest.json` with the digest of every file but the
partitions. All of it is made of the lines, so a run that was killed here makes the same bytes.

**Manifest and statement** depend on the reservation and the public settings alone, so they stand in
the folder from the first slot on and every start writes the same bytes. What was paid is the plan's
accounts: each is one event for one unit's window, on which measurements draw slot by slot (see
`scheme.Meter`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.density.refine.margins import project_to_simplex, round_keeping_totals
from sfumato.errors import SfumatoError
from sfumato.io.write import sweep_temporaries, write_places, write_places_parquet
from sfumato.model.places import Places
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, event_to_json
from sfumato.privacy.ledger.ledger import Reservation
from sfumato.privacy.ledger.limits import compose
from sfumato.privacy.ledger.views import cumulative, ledger_head, release_facts
from sfumato.privacy.mechanisms.additive import gaussian_variance, laplace_variance
from sfumato.published.folder import LINES, PLACES, STATEMENT, read_lines
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
)
from sfumato.published.release import Release
from sfumato.published.statement import adds_up, noise, statement
from sfumato.published.tables import readme, write_long_tables
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import in_force
from sfumato.streams.scheme import Account, Publication, Values
from sfumato.streams.state import Standing, chained

if TYPE_CHECKING:
    from sfumato.streams.live import StreamRequest


class Consistency(StrEnum):
    NONE = "none"
    RANDOM = "random"
    NEAREST = "nearest"


def random_decrements(values: Values, rng: np.random.Generator) -> NDArray[np.int64]:
    """Algorithm 3 as printed, in its vectorised form."""
    whole = np.rint(values).astype(np.int64)
    missing = int(-whole[whole < 0].sum())
    whole = np.maximum(whole, 0)
    if missing >= whole.sum():
        return np.zeros_like(whole)
    while missing > 0:
        positive = np.flatnonzero(whole)
        picks = rng.multinomial(missing, np.full(positive.size, 1 / positive.size))
        taken = np.minimum(picks, whole[positive])
        whole[positive] -= taken
        missing -= int(taken.sum())
    return whole


def nearest_counts(values: Values) -> NDArray[np.int64]:
    """The closest non-negative histogram of the same (rounded) total, in whole numbers."""
    total = np.array([max(np.rint(values.sum()), 0.0)])
    return round_keeping_totals(project_to_simplex(values[:, None], total))[:, 0]


def consistent(values: Values, how: Consistency, seed: bytes) -> Values:
    """The values made consistent; `seed` gives the coins of the random form."""
    if how is Consistency.NONE:
        return values
    if how is Consistency.NEAREST:
        return nearest_counts(values).astype(np.float64)
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    return random_decrements(values, rng).astype(np.float64)


README = "README.txt"
_PAGE_MOST = 20_000_000
"""Counts beyond which a page would be tens of megabytes, which no browser shows: none is made."""


def table_bytes(ids: NDArray[np.str_], values: Values) -> bytes:
    """The slot's partition as a Parquet file. Whole numbers are written as such."""
    whole = bool((values == np.rint(values)).all())
    column = pa.array(values.astype(np.int64) if whole else values)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"zone_id": pa.array(ids.tolist()), "count": column}), sink)
    return bytes(sink.getvalue())


def line_bytes(slot: int, start: str, end: str, publication: Publication, values: Values) -> bytes:
    """The slot as one line: when, whether it was measured anew, and the counts in order."""
    whole = bool((values == np.rint(values)).all())
    record: dict[str, Any] = {
        "slot": slot,
        "start": start,
        "end": end,
        "fresh": publication.fresh,
        "sd": None if not np.isfinite(publication.sd) else round(publication.sd, 6),
        "counts": (values.astype(np.int64) if whole else np.round(values, 3)).tolist(),
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


class Outputs:
    """The folder of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, ids: NDArray[np.str_], statement: str) -> dict[str, str]:
        """Make the folder, its places and its plain words, and return their digests.

        The same bytes on every start.
        """
        made = {PLACES: _json({"zones": ids.tolist()}), README: statement.encode()}
        try:
            (self.folder / "slots").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(error) from error
        said: dict[str, str] = {}
        for name, content in made.items():
            said |= self._put(name, content)
        return said

    def state(self, statement: dict[str, Any]) -> None:
        """The statement for machines, before the first slot leaves."""
        self._put(STATEMENT, _json(statement))

    def end(self, manifest: Manifest, places: Places | None) -> dict[str, str]:
        """The folder of a stream whose last slot is out; returns all digests, the manifest's too.

        The manifest comes last: until it is there, the stream is not complete for any reader.
        """
        from sfumato.reports.page import PAGE_NAME, build_page

        sweep_temporaries(self.folder)  # what a run that was killed here left behind
        try:
            lines, ids = ((self.folder / name).read_bytes() for name in (LINES, PLACES))
            numbers = read_lines(lines, ids, manifest.grid, self.folder)
            write_long_tables(self.folder, numbers.ids, numbers.grid, numbers.values)
            if places is not None:
                write_places(self.folder / f"{places.kind}.geojson", places)
                write_places_parquet(self.folder / f"{places.kind}.parquet", places)
            names = final_names(manifest, places)
            files = {name: self._digest(name) for name in sorted(names - {PAGE_NAME})}
        except OSError as error:
            raise self._failed(error) from error
        if PAGE_NAME in names:
            vouched = manifest.model_copy(update={"files": files})
            files |= self._put(PAGE_NAME, build_page(Release(self.folder, vouched)).encode())
        whole = manifest.model_copy(update={"files": files})
        return files | self._put(MANIFEST_NAME, manifest_text(whole).encode())

    def chain(self) -> bytes:
        """The hash of all lines, each on top of those before it."""
        with (self.folder / "stream.ndjson").open("rb") as lines:
            return reduce(chained, lines, b"")

    def in_use(self) -> bool:
        """Whether lines of some stream are here."""
        return (self.folder / LINES).exists()

    def check(self, standing: Standing) -> None:
        """Refuse to go on from a standing that is older than what was published.

        Files are written after the database, so they never hold more than it knows, unless the
        database was put back to an earlier copy. Going on from there would draw the noise of
        slots that are out already once more, for what may be other events.
        """
        path = self.folder / LINES
        with path.open("rb") if path.exists() else io.BytesIO() as file:
            file.seek(standing.offset)
            written = file.read(len(standing.line) + 1)
        if not standing.line.startswith(written):
            raise SfumatoError(
                f"{path} holds slots that the ledger's database does not know: the database was "
                "put back to an earlier copy, or the file belongs to another stream.",
                remedy="Restore the newest copy of the database. If there is none, give the stream "
                "up with sfumato ledger abandon: a published slot is never drawn again.",
            )

    def write(self, standing: Standing) -> None:
        """Write the last slot's output, whatever of it is there already."""
        if standing.next_slot == 0:
            return
        try:
            home = self.folder / "slots" / f"slot={standing.next_slot - 1:05d}"
            home.mkdir(exist_ok=True)
            self._replace(home / "part-0.parquet", standing.table)
            path = self.folder / LINES
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if os.fstat(handle).st_size < standing.offset:
                    raise SfumatoError(
                        f"{path} is shorter than it was: lines were cut off.",
                        remedy="Restore it from a copy; published slots cannot be made again.",
                    )
                os.ftruncate(handle, standing.offset)
                os.pwrite(handle, standing.line, standing.offset)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise self._failed(error) from error

    def _digest(self, name: str) -> str:
        with (self.folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _put(self, name: str, content: bytes) -> dict[str, str]:
        """Write one file in one step; its name and digest."""
        try:
            self._replace(self.folder / name, content)
        except OSError as error:
            raise self._failed(error) from error
        return {name: hashlib.sha256(content).hexdigest()}

    def _replace(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".sfumato-{path.name}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _failed(self, error: OSError) -> SfumatoError:
        return SfumatoError(
            f"{self.folder} could not be written: {error.strerror}.",
            remedy="Make room and run again with `resume=True`: nothing is paid twice.",
        )


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"


_BOUND = (
    "In every time slot each person counts once, in one place; of several places one was chosen "
    "at random."
)
_MORE = "more of somebody's record than the unit, but for what several units add up to;"
_FLOOD = (
    "rows that come too late: a slot closes by the clock, so whoever floods the feed can make rows "
    "of others come after it, and those are not counted;"
)
_SAME_KEY = (
    "a restored copy: this stream was bound to its settings and not to its events, which were yet "
    "to come. Resumed on other events it draws with the same key. Each slot leaves once, and the "
    "published lines are checked for that; where ledger and folder are both put back to an "
    "earlier copy, two versions of a slot would have the same noise, and their difference none;"
)


def stream_manifest(
    asked: StreamRequest, reservation: Reservation, files: Mapping[str, str]
) -> Manifest:
    """Everything a reader needs to judge the stream.

    The claim is that of the ledger's row and the list that of the plan, so that one checks the
    other. Pure sums and rho may be spent adaptively; curves of fixed events are not claimed
    beyond what `compose` allows one release.
    """
    facts = asked.facts
    plan = asked.scheme.plan(facts)
    charged = [event for _, event in reservation.charge_row.claim.events]
    claimed = compose(charged, facts.delta)
    return Manifest(
        kind="stream",
        tainted=False,
        release=release_facts(reservation),
        privacy=Privacy(
            unit=str(facts.unit),
            neighbours=facts.unit.neighbours,
            bound=_BOUND,
            counting="people",
            measurements=[_measured(account, facts) for account in plan.accounts],
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=facts.delta,
            method=claimed.method,
            cumulative=cumulative(reservation),
        ),
        counted=_places(asked),
        released=_released(asked),
        grid=GridFacts.of(asked.grid),
        scheme=SchemeFacts(
            name=f"stream/{asked.scheme.name}",
            parameters={**in_force(asked.scheme), "slots in a window": facts.window},
            interval_coverage=0,
        ),
        public_inputs={
            "expected_users": facts.expected_users,
            "delay_seconds": asked.delay_seconds,
            "consistency": asked.consistency.value,
            "live": asked.live,
            **dict(asked.reading),
        },
        software={"sfumato": __version__},
        ledger=ledger_head(reservation),
        files=dict(files),
        caveats=_caveats(asked),
        not_covered=_not_covered(asked),
    )


def stream_statement(asked: StreamRequest, manifest: Manifest) -> str:
    """The manifest in words."""
    lines = " ".join(asked.scheme.plan(asked.facts).lines)
    listed = noise(manifest)
    paid = f" Noise at least: {listed}." if listed else ""
    how = (
        "Whole-number random noise was added to what was measured before anything else was done "
        f"with it. {lines}{paid} Which slots were measured depended on public facts and on "
        "numbers with noise alone. Every place is listed in every time slot, also where nobody was."
    )
    exactness = (
        "Each line of stream.ndjson holds sd, the standard deviation of the noise in one of its "
        "numbers as far as public facts and earlier slots tell, and whether the slot was measured "
        "anew (fresh) or estimated from earlier ones."
    )
    figures = "stream.json holds, and manifest.json when the last slot is out,"
    return statement(manifest, how=how, exactness=exactness, figures=figures)


def stream_readme(asked: StreamRequest, manifest: Manifest) -> str:
    """`README.txt`: the same from the first slot to the last, so it lists what will be there."""
    names = {"slots", *final_names(manifest, asked.released)}
    return readme(manifest, names, stream_statement(asked, manifest))


def final_names(manifest: Manifest, places: Places | None) -> set[str]:
    """What a complete stream's folder holds beside its partitions and its manifest."""
    shapes = () if places is None else (f"{places.kind}.geojson", f"{places.kind}.parquet")
    small = manifest.released.count * manifest.grid.slots <= _PAGE_MOST
    live = (PLACES, README, STATEMENT, LINES)
    return {*live, "density.parquet", "density.csv", *shapes, *(["index.html"] if small else [])}


def _measured(account: Account, facts: StreamFacts) -> Measured:
    variance = None
    if isinstance(account.event, LaplaceEvent):
        variance = laplace_variance(account.event.scale)
    elif isinstance(account.event, GaussianEvent):
        variance = gaussian_variance(account.event.sigma2)
    return Measured(
        label=account.label,
        event=event_to_json(account.event),
        cells=facts.cells,
        units_per_count=1,
        variance=variance,
        sd=None if variance is None else variance**0.5,
    )


def _places(asked: StreamRequest) -> PlacesFacts:
    ids = asked.place_ids.tolist()
    lie = dict(asked.reading).get("where places lie")
    return PlacesFacts(
        kind=asked.place_kind,
        count=len(ids),
        sha256=lie or hashlib.sha256("\n".join(ids).encode()).hexdigest(),
    )


def _released(asked: StreamRequest) -> PlacesFacts:
    if asked.shares is None or asked.released is None:
        return _places(asked)
    places = asked.released
    return PlacesFacts(kind=places.kind.value, count=len(places), sha256=places.fingerprint())


def _caveats(asked: StreamRequest) -> list[str]:
    found = []
    if asked.facts.delta > 0 and asked.facts.expected_users is None:
        found.append(
            "Nobody said how many people are in the data, so it was not checked that delta is "
            "below one over their number."
        )
    if asked.live:
        found.append(
            f"A slot closes {asked.delay_seconds} seconds after its end by the clock; what comes "
            "later is not counted."
        )
    if asked.consistency is not Consistency.NONE:
        found.append("Numbers were made whole and non-negative after the noise was added.")
    return found


def _not_covered(asked: StreamRequest) -> list[str]:
    further = [_MORE] if adds_up(str(asked.facts.unit)) else []
    return [*further, *((_FLOOD, _SAME_KEY) if asked.live else ()), *NOT_COVERED]
