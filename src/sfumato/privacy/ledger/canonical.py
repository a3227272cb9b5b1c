"""One text for one value: canonical JSON, the form that is hashed, chained and compared.

Keys sorted, no spaces, UTF-8, floats in Python's shortest form that reads back the same,
no NaN and no infinity.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """The canonical JSON text of plain values."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
