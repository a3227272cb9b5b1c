"""Between which instants a tower's row holds: dates, timestamps or text to epoch microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io import aliases
from sfumato.io.place_table import PlaceTable
from sfumato.model.errors import InputError
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO
from sfumato.model.time_grid import zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def validity(
    table: PlaceTable, chosen: Mapping[str, str], tz: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start (included) and end (excluded) of each row; open where nothing is said."""
    rows = table.attributes.num_rows or (0 if table.shapes is None else table.shapes.size)
    start = _instants(table, aliases.VALID_FROM, chosen, tz, ALWAYS_FROM, rows)
    end = _instants(table, aliases.VALID_TO, chosen, tz, ALWAYS_TO, rows)
    backwards = end <= start
    if backwards.any():
        raise InputError(
            "the tower's validity ends before it starts.",
            file=table.label,
            row=int(np.argmax(backwards)) + 1,
        )
    return start, end


def _instants(
    table: PlaceTable,
    role: aliases.Role,
    chosen: Mapping[str, str],
    tz: str | None,
    empty: int,
    rows: int,
) -> NDArray[np.int64]:
    found = np.full(rows, empty, np.int64)
    name = aliases.pick(table.names, role, chosen, table.label)
    if name is None:
        return found
    column = table.attributes[name]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    known: dict[Any, int] = {}
    for row, value in enumerate(column.to_pylist()):
        if value is None or value == "":
            continue
        if value not in known:
            known[value] = _instant(value, tz, table.label, name, row + 1)
        found[row] = known[value]
    return found


def _instant(value: Any, tz: str | None, label: str, name: str, row: int) -> int:
    moment: Any = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise InputError(
            "the validity is not a date.",
            file=label,
            column=name,
            row=row,
            remedy="Write it as 2024-01-31 or 2024-01-31T00:00:00Z.",
        )
    if moment.tzinfo is None:
        if tz is None:
            raise InputError(
                "the validity dates carry no time zone.",
                file=label,
                column=name,
                remedy="Say whose clock they are with --tz, for example --tz Europe/Paris.",
            )
        moment = moment.replace(tzinfo=zone(tz))
    try:
        return int((moment.astimezone(UTC) - _EPOCH) // _TICK)
    except OverflowError:
        raise InputError(
            "the validity is outside the calendar.", file=label, column=name, row=row
        ) from None
