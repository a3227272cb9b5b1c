"""Which district each zone belongs to: a table of its own, or a column of the zones' file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.io import aliases
from sfumato.io.place_table import id_texts, load_places
from sfumato.model.errors import InputError, UsageError

ZONE, PARENT = "zone_id", "parent_id"


def read_parents(source: object, zone_ids: NDArray[np.str_]) -> NDArray[np.str_]:
    """The parent of every zone, in the order of `zone_ids`, from columns zone_id and parent_id."""
    table = load_places(source)
    for name in (ZONE, PARENT):
        if name not in table.names:
            raise InputError(
                "the column is missing.",
                file=table.label,
                column=name,
                remedy="A hierarchy has the columns zone_id and parent_id.",
            )
    return _in_order(
        id_texts(table.attributes[ZONE], ZONE, table.label),
        id_texts(table.attributes[PARENT], PARENT, table.label),
        zone_ids,
        table.label,
    )


def read_parent_column(
    source: object,
    column: str,
    zone_ids: NDArray[np.str_],
    *,
    id_column: str | None = None,
    layer: str | None = None,
) -> NDArray[np.str_]:
    """The same from a column of the file that holds the zones."""
    table = load_places(source, layer)
    if column not in table.names:
        raise InputError(
            "the column is missing.",
            file=table.label,
            column=column,
            remedy=f"The zones have {', '.join(table.names)}.",
        )
    chosen = {} if id_column is None else {aliases.ZONE.key: id_column}
    key = aliases.pick(table.names, aliases.ZONE, chosen, table.label)
    if key is None:
        raise aliases.missing(table.names, aliases.ZONE, table.label)
    return _in_order(
        id_texts(table.attributes[key], key, table.label),
        id_texts(table.attributes[column], column, table.label),
        zone_ids,
        table.label,
    )


def _in_order(
    zones: list[str], parents: list[str], wanted: NDArray[np.str_], label: str
) -> NDArray[np.str_]:
    found: dict[str, str] = {}
    for zone, parent in zip(zones, parents, strict=True):
        if found.setdefault(zone, parent) != parent:
            raise UsageError(
                f"{label}: zone {zone!r} has two parents.",
                remedy="A zone belongs to one district, so that levels add up.",
            )
    missing = [str(zone) for zone in wanted if str(zone) not in found]
    if missing:
        raise UsageError(
            f"{label}: zone {missing[0]!r} has no parent ({len(missing)} zones have none).",
            remedy="Give every zone a parent.",
        )
    return np.array([found[str(zone)] for zone in wanted], dtype=np.str_)
