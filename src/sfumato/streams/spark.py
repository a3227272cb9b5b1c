"""From Spark Structured Streaming to a stream: every micro-batch becomes one file of a folder.

    query = (
        frame.writeStream.foreachBatch(sfumato.foreach_batch("inbox"))
        .option("checkpointLocation", "checkpoints/inbox").start()
    )

and beside it `sfumato stream inbox --follow …`. The cluster reads the source (Kafka, files, a
lakehouse), decodes, joins and cleans; the columns that say who, when and where come to the driver
and are written there. Slots are closed by the stream's own clock: Spark makes no batch where
nothing came, and a batch that comes must not be what closes a slot.

**Exactly once.** Spark repeats a batch whose function did not return, with the same number and the
same rows, as long as its source can be read again and the checkpoint is kept. A file is named for
the query and the batch, appears whole and synced before the function returns, and is left alone
if it is there already. So however often driver, workers or stream are killed, the folder holds
the rows of every batch once. A query with a new checkpoint is another query, with files of its
own: rows that it brings again count once, since a person counts once a slot.

**The same bytes as one machine**: the rows are those of the source, and they are counted by the
code that counts files of a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.engine.spark.files import collected
from sfumato.engine.spark.session import without_records
from sfumato.errors import InputError, UsageError
from sfumato.io.formats import ReadOptions
from sfumato.io.write import write_parquet
from sfumato.model.events import EventTable

_QUERY_ID = "sql.streaming.queryId"
"""Where Spark tells a batch's jobs whose they are; the id stands in the checkpoint."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_OWNER_ALONE = 0o600
"""Records are for the holder's eyes: the stream reads them under the same account."""


def foreach_batch(
    folder: str | os.PathLike[str],
    *,
    column: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    query: str | None = None,
) -> Callable[[Any, int], None]:
    """A function for Spark's `foreachBatch` that puts each micro-batch into a folder, once.

    Args:
        folder: Where the driver writes; `sfumato.stream(folder, follow=True, …)` reads it.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`; no other leaves Spark.
        time_unit: Unit of epoch numbers: s, ms, us or ns. Say it to the stream too.
        events_tz: Clock of times that carry no offset. Say it to the stream too.
        query: Name of the query, the same whenever it is started again from its checkpoint;
            default: Spark's own id of it, which Spark Connect does not tell.

    Returns:
        A function of a DataFrame and the number of its batch.

    Raises:
        InputError: The folder is none.
        UsageError: The name holds more than letters, digits and dashes.

    Example:
        >>> frame.writeStream.foreachBatch(sfumato.foreach_batch("inbox"))     # doctest: +SKIP
    """
    home = Path(folder).absolute()
    if not home.is_dir():
        raise InputError("this is not a folder.", file=str(home), remedy="Make it first.")
    if query is not None and not _PLAIN.fullmatch(query):
        raise UsageError(
            f"{query!r} cannot be part of a file's name.", remedy="Take letters, digits and dashes."
        )
    options = ReadOptions(dict(column or {}), events_tz, time_unit)

    def put(frame: Any, batch: int) -> None:
        path = home / f"batch-{query or _query_id(frame)}-{batch:012d}.parquet"
        if path.exists():  # written before a kill, and perhaps read already
            return
        (part,) = collected(frame, options).parts
        assert isinstance(part, EventTable)
        write_parquet(path, part.table, mode=_OWNER_ALONE)

    return put


def _query_id(frame: Any) -> str:
    """Spark's id of the query that makes the batch; the same as long as its checkpoint is."""
    try:
        with without_records("micro-batch"):
            found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except Exception:  # Spark Connect has no such thing
        found = None
    if not isinstance(found, str) or not _PLAIN.fullmatch(found):
        raise UsageError(
            "Spark does not tell which query this batch is of.",
            remedy="Name it: `foreach_batch(folder, query='positions')`, the same at every start.",
        )
    return found
