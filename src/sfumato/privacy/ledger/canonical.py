"""One text for one value: canonical JSON, the form that is hashed, chained and compared.

Keys sorted, no spaces, UTF-8, floats in Python's shortest form that reads back the same,
no NaN and no infinity. `spelled` is the frozen text of settings that are objects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from typing import Any


def canonical(value: Any) -> str:
    """The canonical JSON text of plain values."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


Frozen = Mapping[type, tuple[str, tuple[str, ...]]]
"""Class to the name and the fields it had in the first version, in their order."""


def spelled(value: object, frozen: Frozen) -> str:
    """The text that reservations hold of a setting, whatever its class is called today.

    A paid reservation is finished only by a run with the same settings, and settings are compared
    by this text. The first version wrote `repr`, so a class that is renamed or moved, or a field
    that gets a new name or neighbour, would have orphaned what was paid. The text is therefore
    put together from a table of the names of then. A field that came
    later is not in the table of its class: where it shapes the output, it needs a setting of its
    own in the reservation.
    """
    if isinstance(value, Enum):
        name = frozen[type(value)][0] if type(value) in frozen else type(value).__name__
        return f"<{name}.{value.name}: {value.value!r}>"
    if isinstance(value, Fraction):
        return f"Fraction({value.numerator}, {value.denominator})"
    if isinstance(value, tuple):
        inner = ", ".join(spelled(part, frozen) for part in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) not in frozen:
        return repr(value)
    name, fields = frozen[type(value)]
    parts = (f"{field}={spelled(getattr(value, field), frozen)}" for field in fields)
    return f"{name}({', '.join(parts)})"
