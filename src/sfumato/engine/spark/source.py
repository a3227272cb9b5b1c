"""`SparkSource`: bounded counts where the data is, the same bytes as on one machine.

    events ──> judged rows, ──> exchange by user ──> blocks of users ──> compiled pass ──> sums
    (scans)    in parcels        (one shuffle)       (kept for later)     (per task)    (integers)

*Why the bytes are the same.* Every row is read by its own file's schema and judged by the code
of one machine, each by itself (`sfumato.engine.spark.rows`). A user's contribution to any answer
is computed by the compiled pass of the local engine from the set of the user's (slot, place)
pairs, the bound, and for sampling the key and the id's own bytes; no other row enters it. All
rows of a user meet in one task, and the set does not depend on the order in which they came. An
answer is the sum over users of integers, which partitions, retries, speculative copies (Spark
takes one result of a task), lost and recomputed blocks and the number of workers cannot change.
The noise is drawn afterwards, on the driver, from the release key: Spark never sees it and can
never draw it again.

*The bound is checked on what was counted*: by the pass for each user, and for "all rows of a
user in one task" by the buckets that the tasks saw, summed in the same job as the counts.

Kept between questions are the blocks, in the cluster's memory and on its local disks; `close`
lets them go, as does the end of the session. Cost: three scans (two of them for the
fingerprint), one shuffle, then one pass over the blocks a question. A file that was found in a
folder and turns out to be damaged in a scan is left out and counted.

`open_source` makes one of what the user points at: a frame, a table's name, or paths. A frame keeps
its own session. A name such as `catalog.db.table` is a table of the session's catalogue, and so is
a path that ends in `.orc`, a format that only Spark reads; every other path means files
(`sfumato.engine.spark.files`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import base
from sfumato.engine.base import Compiled
from sfumato.engine.fingerprint import fingerprint
from sfumato.engine.local import DropLog
from sfumato.engine.spark import blocks, survey
from sfumato.engine.spark import blocks as passes
from sfumato.engine.spark.blocks import Question
from sfumato.engine.spark.files import (
    Store,
    address_of,
    describe,
    is_little,
    read_files,
    shown,
    stored,
    texts_of,
)
from sfumato.engine.spark.here import survey_here
from sfumato.engine.spark.parcels import SCHEMA as PARCELS
from sfumato.engine.spark.parcels import Addresses, parcels
from sfumato.engine.spark.rows import TALLIES, Recipe, Scan, alike, judged, log_of, scans_of
from sfumato.engine.spark.session import guarded, open_session, unmeasured, without_records
from sfumato.errors import UsageError
from sfumato.io.events import resolved
from sfumato.io.files import Damaged
from sfumato.io.formats import ReadOptions
from sfumato.io.tables import is_spark_frame
from sfumato.model.counts import Counts, SampleBound
from sfumato.model.events import EventFile, Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

ROWS_PER_TASK = 1 << 21
"""Rows that one task groups: about 25 MB beside the table of ids."""
MOST_TASKS = 1 << 13
"""More tasks would shuffle too many small pieces: above 2^34 rows, tasks grow instead."""
CROWDED = 4 * ROWS_PER_TASK
"""Where one bucket has so many rows more than the others, one user has: repeats are dropped
before rows are sent to their user."""
SAMPLE = 1 << 20
"""Rows by which the size of the largest user is found."""
SHORT_ROW = 1 << 11
"""Bytes of a row's texts: 2^15 rows, a batch of ours, then stay below 64 MiB, Spark's own limit."""
MOST_PARCELLED = 1 << 30
"""Bytes that the largest task may get at once, half of what a column of Arrow holds. Most get a
tenth of it: it is reached where a user has nearly as many rows as make him crowded."""
_BUCKETS = 4096
_NO_KEY = bytes(32)


class SparkSource(Compiled):
    """Bounded counts of described events on Spark. Reads at the first question."""

    def __init__(
        self,
        events: Events,
        places: Places,
        grid: TimeGrid,
        *,
        store: Store | None = None,
        closing: ExitStack | None = None,
        rows_per_task: int = ROWS_PER_TASK,
        crowded: int = CROWDED,
        least_tasks: int = 2,
        progress: Progress | None = None,
    ) -> None:
        self.events = events
        self._resolved = resolved(events, places.kind is PlaceKind.ZONES)
        self._places, self._grid = places, grid
        self._store = store or Store()
        self._label = events.names[0]
        self._scans = scans_of(self._resolved, self._store)
        self._closing = closing or ExitStack()
        self._per_task = rows_per_task
        self._crowded = crowded
        self._least = least_tasks
        self._progress = progress
        self._survey: survey.Survey | None = None
        self._blocks: Any = None
        self._slot_bits = max(1, (grid.slots - 1).bit_length())
        if self._bits + self._slot_bits > blocks.BUCKET_SHIFT:
            raise UsageError(
                "There are too many places and slots for one table.",
                remedy="Release fewer places, or a shorter period at a time.",
            )

    @property
    def grid(self) -> TimeGrid:
        return self._grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._places.ids

    @property
    def drops(self) -> DropLog:
        """What was dropped and why, for the holder's internal log only. Reads everything."""
        total = np.zeros(TALLIES, np.int64)
        users = self._users()
        if users is not None:
            with self._running():
                noted = users.where("tally IS NOT NULL").select("tally").toArrow().column(0)
            for tally in noted.to_pylist():
                total += np.frombuffer(tally, np.int64)
        return log_of(total, len(self._resolved.unfit))

    def fingerprint(self, key: bytes) -> str:
        """Of the rows as they are now: every call scans them again."""
        self._tell("fingerprint of the input")
        self._survey = self._scanned(key)
        return survey.fingerprint(self._survey, self._places, self._grid, key)

    def fingerprints_elsewhere(self, key: bytes) -> frozenset[str]:
        """What a reservation that was made on one machine holds for this input."""
        if not self._store.seen_here(self._resolved):
            return frozenset()
        return frozenset({fingerprint(self._resolved, self._places, self._grid, key)})

    def close(self) -> None:
        """Let the blocks go, and the session where it is ours."""
        held, self._blocks = self._blocks, None
        if held is not None:
            with contextlib.suppress(Exception):
                held.unpersist(blocking=True)
        self._closing.close()

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        limit = min(bound.slots, self.grid.slots)
        values = self._ask("sampled", self._shape, (limit, base.checked_key(key)))
        return base.sampled_counts(values, bound, self.grid)

    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        """The pass over all blocks, its sums checked and laid out."""
        question, user = Question(kernel, shape, arguments), self._resolved.user
        users = self._users()
        values = np.zeros(shape, np.int64)
        if users is None:
            return values
        self._tell("counting")

        def work(batches: Any) -> Any:
            return passes.counted(batches, question, user)

        with self._running():
            long = users.mapInArrow(guarded(work), passes.SUMS_SCHEMA)
            summed = long.groupBy("cell").sum("n").toArrow()
        cells, sums = (summed.column(k).to_numpy() for k in (0, 1))
        if not bool((sums[cells < 0] == 1).all()):
            raise base.BoundBroken("A user's rows met in two tasks; nothing is given.")
        values.reshape(-1)[cells[cells >= 0]] = sums[cells >= 0]
        return values

    def _scanned(self, key: bytes) -> survey.Survey:
        """The survey, of what is left when damaged files of a folder are taken out."""
        if self._store.small_here(self._resolved):
            found = survey_here(self._resolved.parts, key)
            if found is not None:
                return found
        try:
            return survey.survey(self._scans, key)
        except Damaged:
            gone = self._damaged()
            if not gone:
                raise
        kept = tuple(part for part in self._resolved.parts if part.label not in gone)
        unfit = (*self._resolved.unfit, *((label, "damaged") for label in sorted(gone)))
        self._resolved = replace(self._resolved, parts=kept, unfit=unfit)
        self._scans = scans_of(self._resolved, self._store)
        return survey.survey(self._scans, key)

    def _damaged(self) -> frozenset[str]:
        """Files that cannot be read to their end; the error itself where the holder named one."""

        def search(parts: tuple[Any, ...]) -> frozenset[str]:
            try:
                survey.survey(scans_of(replace(self._resolved, parts=parts), self._store), _NO_KEY)
            except Damaged:
                if len(parts) > 1:
                    half = len(parts) // 2
                    return search(parts[:half]) | search(parts[half:])
                if not isinstance(parts[0], EventFile) or parts[0].named:
                    raise
                return frozenset({parts[0].label})
            return frozenset()

        return search(self._resolved.parts)

    def _users(self) -> Any:
        """The blocks, described once and kept by Spark when they are first made; or nothing."""
        if self._survey is None:
            self._survey = self._scanned(_NO_KEY)
        if self._blocks is None and self._scans:
            self._tell("reading events")
            with self._running():
                self._blocks = _kept(self._exchanged(self._survey.rows))
        return self._blocks

    @contextmanager
    def _running(self) -> Iterator[None]:
        """While Spark works on the rows that the survey saw."""
        with ExitStack() as stack:
            stack.enter_context(without_records(self._label))
            if self._survey is not None and are_short(self._survey, self._per_task, self._crowded):
                stack.enter_context(unmeasured(self._scans[0].frame.sparkSession))
            yield

    def _recipes(self) -> Iterator[tuple[Scan, Recipe]]:
        for scan in self._scans:
            yield (
                scan,
                Recipe(
                    alike(scan.parts),
                    scan.stored if not scan.is_lines else (),
                    scan.is_lines,
                    scan.by_file,
                    self._resolved.user,
                    self._places,
                    self._grid,
                    self._bits,
                    self._slot_bits,
                ),
            )

    def _judged(self, fraction: float = 1.0) -> Any:
        """(u, cell) of all scans."""
        return _together([judged(scan, recipe, fraction) for scan, recipe in self._recipes()])

    def _exchanged(self, rows: int) -> Any:
        tasks = tasks_for(rows, self._per_task, self._least)
        intake = blocks.Intake(self._resolved.user, self._bits, self._slot_bits)

        def work(batches: Any) -> Any:
            return blocks.blocks(batches, intake)

        if rows > self._crowded and self._largest(rows) > self._crowded:
            # Someone has very many rows: drop repeats before they all go to one task.
            bucket = f"shiftleft(CAST(pmod(hash(u), {tasks}) AS BIGINT), {blocks.BUCKET_SHIFT})"
            packed = f"IF(cell < 0, cell, {bucket} | cell) AS packed"
            frame = self._judged().selectExpr("u", packed).groupBy("u", "packed").count()
            sent = frame.withColumnRenamed("count", "n").repartition(tasks, "u")
        else:
            sent = self._parcels(tasks).repartition(tasks, "address")
        return sent.mapInArrow(guarded(work), blocks.SCHEMA)

    def _parcels(self, tasks: int) -> Any:
        """The judged rows of all scans, in parcels for these tasks."""
        to = Addresses.of(tasks)

        def packing(recipe: Recipe) -> Callable[[Any], Any]:
            return lambda batches: parcels(batches, recipe, to)

        return _together(
            [
                scan.sent().mapInArrow(guarded(packing(recipe)), PARCELS)
                for scan, recipe in self._recipes()
            ]
        )

    def _largest(self, rows: int) -> int:
        """About how many rows the largest user has, by a sample. No answer depends on it."""
        fraction = min(1.0, SAMPLE / rows)
        sample = self._judged(fraction).where("cell >= 0")
        sizes = sample.selectExpr(f"pmod(hash(u), {_BUCKETS}) AS b").groupBy("b").count()
        counts = sizes.toArrow().column("count").to_pylist()
        return excess(counts, fraction)

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(what, -1.0)


def _together(frames: list[Any]) -> Any:
    return reduce(lambda one, other: one.unionAll(other), frames)


def tasks_for(rows: int, per_task: int, least: int = 2) -> int:
    """How many tasks group the users; no answer depends on it."""
    return min(max(least, -(-rows // per_task)), MOST_TASKS)


def are_short(found: survey.Survey, per_task: int, crowded: int) -> bool:
    """Whether no batch can be large, be it of rows or of all parcels that a task gets."""
    parcelled = min(found.rows, max(per_task, found.rows // MOST_TASKS) + crowded)
    return found.longest <= SHORT_ROW and parcelled * (found.longest + 16) <= MOST_PARCELLED


def excess(sizes: list[int], fraction: float) -> int:
    """Rows of the largest bucket above the mean: about those of its largest user.

    Where there are very many rows every bucket is large, and no user need be.
    """
    return int((max(sizes, default=0) - sum(sizes) / _BUCKETS) / fraction)


def _kept(frame: Any) -> Any:
    """Kept for the next question, where the cluster allows it (some serverless ones do not)."""
    try:
        return frame.persist()
    except Exception:
        return frame


_TABLE = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")


def open_source(
    events: object,
    places: Places,
    grid: TimeGrid,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    progress: Progress | None = None,
) -> SparkSource:
    """Open and describe the events; close the source to let the session go where it is ours."""
    closing, short = ExitStack(), False
    options = ReadOptions(dict(columns or {}), tz, time_unit)
    try:
        if is_spark_frame(events):
            if master is not None or settings:
                raise UsageError(
                    "A Spark DataFrame has its session already, with its own settings.",
                    remedy="Leave the master and Spark's settings out.",
                )
            described, store = describe(events, options), Store()
        else:
            short = is_little(events)
            session, closing = open_session(master, settings, short=short)
            described, store = _read(session, events, options, format)
        return SparkSource(
            described,
            places,
            grid,
            store=store,
            closing=closing,
            # A second Python worker would cost more to start than it counts.
            least_tasks=1 if short else 2,
            progress=progress,
        )
    except BaseException:
        closing.close()
        raise


def _read(
    session: Any, events: object, options: ReadOptions, format: str | None
) -> tuple[Events, Store]:
    if isinstance(events, Events):  # described on this machine: what a pipeline holds
        return events, stored(session, events)
    texts = texts_of(events)
    first = texts[0]
    label = shown(first)
    if len(texts) == 1 and _TABLE.fullmatch(first) and not Path(first).exists():
        with without_records(label):
            frame = session.table(first)
        return describe(frame, options, label), Store()
    if first.lower().rstrip("/").endswith(".orc"):
        with without_records(label):
            here = [address_of(Path(text)) if Path(text).exists() else text for text in texts]
            frame = session.read.orc(here)
        return describe(frame, options, label), Store()
    return read_files(session, texts, options, format)
