"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.model.errors import UsageError

ZoneId = Annotated[str | None, typer.Option("--zone-id", help="Column of the zones' ids.")]
ZoneName = Annotated[str | None, typer.Option("--zone-name", help="Column of the zones' names.")]
Layer = Annotated[str | None, typer.Option("--layer", help="Layer of the zones' file.")]
RepairZones = Annotated[
    bool, typer.Option("--repair-zones", help="Make crossing outlines of zones valid.")
]
DropBadTowers = Annotated[
    bool, typer.Option("--drop-bad-towers", help="Leave towers without a usable position out.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Which column is what: user=imsi, time=ts, place=bs."),
]
TimeUnit = Annotated[
    str | None, typer.Option("--time-unit", help="Unit of epoch numbers: s, ms, us or ns.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", help="A setting of the scheme's own, such as tolerance=0.01."),
]


def pairs(given: list[str] | None, what: str, example: str) -> dict[str, str]:
    """`name=value` options as a mapping."""
    cut = [text.partition("=") for text in given or []]
    if any(not (name and sign and value) for name, sign, value in cut):
        raise UsageError(f"{what} is written as {example}.")
    return {name: value for name, _, value in cut}


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Role to column name."""
    return pairs(given, "A column, role=name,", "--column user=imsi")


def parameters_of(given: list[str] | None) -> dict[str, bool | int | float | str]:
    """Name to value: true and false, whole numbers, numbers, words."""
    found = pairs(given, "A parameter", "--parameter tolerance=0.01")
    return {name: _plain(value) for name, value in found.items()}


def _plain(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
