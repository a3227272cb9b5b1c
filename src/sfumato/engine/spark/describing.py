"""A Spark DataFrame as `Events`: the same recognition of columns, types and times as for files.

The frame's schema is translated into the names of types that `sfumato.io` judges, and the first
rows are looked at where text or numbers must tell how they are to be read. Spark gives rows in
no fixed order, so what is said about them names the column and no row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.words import quoted
from sfumato.io.aliases import check_keys
from sfumato.io.event_columns import (
    ROLES,
    check_degrees,
    check_place_types,
    event_roles,
    user_encoding,
)
from sfumato.io.event_time import read_time
from sfumato.io.schema import GLANCE, Column, Inspector, refuse_repeated
from sfumato.model.errors import InputError
from sfumato.model.events import EventColumns, Events, FileSource, TableSource

CORRUPT = "_sfumato_corrupt"
"""Column in which Spark puts a line of CSV that it cannot cut into fields."""

_TYPES = {
    "int": "INTEGER",
    "binary": "BLOB",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "decimal(20,0)": "UBIGINT",  # what Spark makes of unsigned 64-bit integers
}


def type_name(spark_type: str) -> str:
    """The name by which `sfumato.io` knows a Spark type."""
    if spark_type.startswith(("string", "varchar", "char")):
        return "VARCHAR"
    return _TYPES.get(spark_type, spark_type.upper())


@dataclass(frozen=True, slots=True, eq=False)
class _Glances:
    """Stands where `sfumato.io` expects to look at first rows."""

    frame: Any
    label: str

    def glance(self, _: FileSource | TableSource, column: str) -> list[Any]:
        with without_records(self.label):
            found = self.frame.selectExpr(quoted(column)).limit(GLANCE).toArrow()
        values: list[Any] = found.column(0).to_pylist()
        return values


def describe(
    frame: Any,
    *,
    label: str = "Spark DataFrame",
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
) -> Events:
    """Describe and check a Spark DataFrame; only its schema and its first rows are looked at."""
    chosen = dict(columns or {})
    check_keys(chosen, ROLES)
    with without_records(label):
        fields = [(str(f.name), f.dataType.simpleString()) for f in frame.schema.fields]
    names = [name for name, _ in fields if name != CORRUPT]
    if not names:
        raise InputError("there are no columns.", file=label)
    refuse_repeated(names, label)
    by_name = {name: Column(name, type_name(kind)) for name, kind in fields}
    roles = event_roles(names, chosen, label)
    user = user_encoding(by_name[roles.user], label)
    check_place_types(by_name, roles, label)
    where, look = TableSource(frame, label), _Glances(frame, label)
    with without_records(label):
        if not frame.selectExpr("1").limit(1).toArrow().num_rows:
            raise InputError("there are no rows.", file=label)
    try:
        roles, dropped = _usable(look, where, by_name, roles, chosen)
        time = read_time(
            by_name[roles.time],
            lambda: look.glance(where, roles.time),
            tz=tz,
            unit=time_unit,
            file=label,
        )
    except InputError as error:
        raise _without_row(error) from None
    notes = tuple(
        f"{name!r} is read as the {part}"
        for part in ("user", "time", "place", "lon", "lat")
        if (name := getattr(roles, part)) is not None and part not in chosen
    )
    return Events(
        where, roles, time.encoding, user, time.tz, notes + dropped + time.notes, time.is_text
    )


def _usable(
    look: _Glances,
    where: TableSource,
    by_name: Mapping[str, Column],
    roles: EventColumns,
    chosen: Mapping[str, str],
) -> tuple[EventColumns, tuple[str, ...]]:
    """Coordinates beside a place are a help, not a need: unusable ones are left out and noted."""
    try:
        check_degrees(cast(Inspector, look), where, by_name, roles, where.label)
    except InputError:
        if roles.place is None or {"lon", "lat"} & set(chosen):
            raise
        note = f"{roles.lon!r} and {roles.lat!r} are not degrees and are not used"
        return replace(roles, lon=None, lat=None, degrees_scale=1.0), (note,)
    return roles, ()


def _without_row(error: InputError) -> InputError:
    """The same error without a row number, which means nothing here."""
    if error.row is None:
        return error
    problem = re.sub(r"\A.*?row [0-9]+: ", "", error.problem)
    return InputError(problem, file=error.file, column=error.column, remedy=error.remedy)
