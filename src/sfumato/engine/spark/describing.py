"""A Spark schema in the words of `sfumato.io`, and a DataFrame as `Events`.

Types are translated into the names by which `sfumato.io.event_columns` judges them. Only the
schema is looked at: Spark may be lazy, and rows decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.engine.spark.errors import without_records
from sfumato.io.aliases import check_keys
from sfumato.io.event_columns import ROLES
from sfumato.io.event_columns import describe as reading_of
from sfumato.io.schema import Column, refuse_repeated
from sfumato.model.errors import InputError
from sfumato.model.events import Events, EventTable

_TYPES = {
    "int": "INTEGER",
    "binary": "BLOB",
    "void": "VARCHAR",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "decimal(20,0)": "UBIGINT",  # what Spark makes of unsigned 64-bit integers
}


def is_text(spark_type: str) -> bool:
    """Texts of any length and collation."""
    return spark_type.startswith(("string", "varchar", "char"))


def type_name(spark_type: str) -> str:
    """The name by which `sfumato.io` knows a Spark type."""
    return "VARCHAR" if is_text(spark_type) else _TYPES.get(spark_type, spark_type.upper())


def types_of(schema: Any) -> dict[str, str]:
    """Column to Spark type."""
    return {str(field.name): field.dataType.simpleString() for field in schema.fields}


def columns_of(schema: Any, label: str) -> tuple[Column, ...]:
    """The columns of a Spark schema; refused where two cannot be told apart."""
    names = [str(field.name) for field in schema.fields]
    if not names:
        raise InputError("there are no columns.", file=label)
    refuse_repeated(names, label)
    return tuple(Column(name, type_name(kind)) for name, kind in types_of(schema).items())


def describe(
    frame: Any,
    *,
    label: str = "Spark DataFrame",
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
) -> Events:
    """Describe a Spark DataFrame by its schema and the options."""
    chosen = dict(columns or {})
    check_keys(chosen, ROLES)
    with without_records(label):
        schema = frame.schema
    reading, notes = reading_of(columns_of(schema, label), chosen, label, tz=tz, unit=time_unit)
    return Events((EventTable(frame, reading, label),), notes, label=label)
