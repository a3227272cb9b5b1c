"""Members of the first objects of an NDJSON file, for `inspect` alone. **Internal.**

The reader looks members up by their names and never decides by what a file holds. Here names are
gathered, so that the holder can be told which `--column` lines would find them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sfumato.io import aliases
from sfumato.io.csv_dialect import open_text, read_piece

_SAMPLE_BYTES = 1 << 18


def members(path: Path) -> tuple[list[str], list[str]]:
    """Names of members in the order they are met; then those that hold objects themselves."""
    with open_text(path) as file:
        lines = read_piece(file, path, _SAMPLE_BYTES).splitlines()
    names: dict[str, None] = {}
    nested: dict[str, None] = {}
    for line in lines[: 1 if len(lines) == 1 else -1]:  # the last one may be cut
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            names |= dict.fromkeys(found)
            nested |= dict.fromkeys(key for key, value in found.items() if isinstance(value, dict))
    return list(names), list(nested)


def roles_of(names: list[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Members that a usual name gives a part, where the part's own name is not among them."""
    found = {}
    for role in (aliases.USER, aliases.TIME, aliases.PLACE, aliases.LON, aliases.LAT):
        if role.key in chosen or role.key in names:
            continue
        named = [name for name in names if aliases.plays(name, role)]
        if len(named) == 1:
            found[role.key] = named[0]
    if "lon" in found or "lon" in names:
        found.pop("place", None)  # coordinates are there: which of the two is the holder's to say
    return found
