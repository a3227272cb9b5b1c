"""`SparkSource`: bounded counts where the data is, the same bytes as on one machine.

    events ──> judged rows ──> exchange by user ──> blocks of users ──> compiled pass ──> sums
    (any table)   (SQL)          (one shuffle)      (kept for later)     (per task)     (integers)

*Why the bytes are the same.* A user's contribution to any answer is computed by the compiled pass
of the local engine from the set of the user's (slot, place) pairs, the bound, and for sampling
the key and the id's own bytes; no other row enters it. All rows of a user meet in one task, and
the set does not depend on the order in which they came. An answer is the sum over users of
integers, which partitions, retries, speculative copies (Spark takes one result of a task), lost
and recomputed blocks and the number of workers cannot change. The noise is drawn afterwards, on
the driver, from the release key: Spark never sees it and can never draw it again.

*The bound is checked on what was counted*: by the pass for each user, and for "all rows of a
user in one task" by the buckets that the tasks saw, summed in the same job as the counts.

Kept between questions are the blocks, in the cluster's memory and on its local disks; `close`
lets them go, as does the end of the session. Cost: three scans (two of them for the
fingerprint), one shuffle, then one pass over the blocks a question.
"""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import answers
from sfumato.engine.compiled import Compiled
from sfumato.engine.drops import DropLog, DropReason
from sfumato.engine.spark import blocks, passes, survey
from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.passes import Question
from sfumato.engine.spark.rows import Rows
from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.errors import UsageError
from sfumato.model.events import Events
from sfumato.model.places import Places
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
_NO_SECRET = bytes(32)


class SparkSource(Compiled):
    """Bounded counts of a described Spark DataFrame. Reads at the first question."""

    def __init__(
        self,
        events: Events,
        places: Places,
        grid: TimeGrid,
        *,
        closing: ExitStack | None = None,
        rows_per_task: int = ROWS_PER_TASK,
        crowded: int = CROWDED,
        progress: Progress | None = None,
    ) -> None:
        self._rows = Rows.of(events, places, grid)
        self._label = self._rows.label
        self._closing = closing or ExitStack()
        self._per_task = rows_per_task
        self._crowded = crowded
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
        return self._rows.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._rows.places.ids

    @property
    def drops(self) -> DropLog:
        """What was dropped and why, for the holder's internal log only. Reads everything."""
        found = self._surveyed()
        with without_records(self._label):
            noted = self._users().where("buckets IS NOT NULL").select("outside").toArrow()
        outside = sum(noted.column("outside").to_pylist())
        dropped = found.dropped | ({DropReason.OUTSIDE_ZONES: outside} if outside else {})
        return DropLog(found.rows, dropped, dict.fromkeys(dropped))

    def fingerprint(self, key: bytes) -> str:
        """Of the rows as they are now: every call scans them again."""
        self._tell("fingerprint of the input")
        self._survey = survey.survey(self._rows, key)
        return survey.fingerprint(self._rows, self._survey, key)

    def close(self) -> None:
        """Let the blocks go, and the session where it is ours."""
        held, self._blocks = self._blocks, None
        if held is not None:
            with contextlib.suppress(Exception):
                held.unpersist(blocking=True)
        self._closing.close()

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        limit = min(bound.slots, self.grid.slots)
        values = self._ask("sampled", self._shape, (limit, answers.checked_key(key)))
        return answers.sampled_counts(values, bound, self.grid)

    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        """The pass over all blocks, its sums checked and laid out."""
        question, user = Question(kernel, shape, arguments), self._rows.user
        users = self._users()
        self._tell("counting")

        def work(batches: Any) -> Any:
            return passes.counted(batches, question, user)

        with without_records(self._label):
            long = users.mapInArrow(blocks.guarded(work), passes.SCHEMA)
            found = long.groupBy("cell").sum("n").toArrow()
        cells, sums = (found.column(k).to_numpy() for k in (0, 1))
        if not bool((sums[cells < 0] == 1).all()):
            raise answers.BoundBroken("A user's rows met in two tasks; nothing is given.")
        values = np.zeros(shape, np.int64)
        values.reshape(-1)[cells[cells >= 0]] = sums[cells >= 0]
        return values

    def _surveyed(self) -> survey.Survey:
        if self._survey is None:
            self._survey = survey.survey(self._rows, _NO_SECRET)
        return self._survey

    def _users(self) -> Any:
        """The blocks, described once and kept by Spark when they are first made."""
        if self._blocks is None:
            found = self._surveyed()
            self._tell("reading events")
            with without_records(self._label):
                self._blocks = _kept(self._exchanged(found))
        return self._blocks

    def _exchanged(self, found: survey.Survey) -> Any:
        rows, by_position = self._rows, self._rows.by_coordinates
        tasks = tasks_for(found.kept, self._per_task)
        bits = self._bits
        bucket = f"shiftleft(CAST(pmod(hash(u), {tasks}) AS BIGINT), {blocks.BUCKET_SHIFT})"
        packed = f"{bucket} | shiftleft(slot, {bits})"
        where = ["lon", "lat"] if by_position else []
        packed += "" if by_position else " | CAST(place AS BIGINT)"
        frame = rows.judged().where("reason IS NULL")
        frame = frame.selectExpr("u", f"{packed} AS packed", *where)
        zones = rows.places if by_position else None
        if found.excess > self._crowded:
            # Someone has very many rows: drop repeats before they all go to one task.
            if zones is not None:
                frame, zones = _located(frame, zones), None
            frame = frame.groupBy("u", "packed").count().withColumnRenamed("count", "n")
        intake = blocks.Intake(rows.user, bits, self._slot_bits, zones)

        def work(batches: Any) -> Any:
            return blocks.blocks(batches, intake)

        return frame.repartition(tasks, "u").mapInArrow(blocks.guarded(work), blocks.SCHEMA)

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(what, -1.0)


def tasks_for(rows: int, per_task: int) -> int:
    """How many tasks group the users; no answer depends on it."""
    return min(max(2, -(-rows // per_task)), MOST_TASKS)


def _located(frame: Any, zones: Places) -> Any:
    """Positions to places before the exchange; what lies outside stays, as -1, to be counted."""

    def work(batches: Any) -> Any:
        return blocks.located(batches, zones)

    kind = frame.schema["u"].dataType.simpleString()
    return frame.mapInArrow(blocks.guarded(work), f"u {kind}, packed BIGINT")


def _kept(frame: Any) -> Any:
    """Kept for the next question, where the cluster allows it (some serverless ones do not)."""
    try:
        return frame.persist()
    except Exception:
        return frame
