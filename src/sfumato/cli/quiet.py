"""A command that does not repeat an address when it complains about its arguments."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.:-]+):/\S*")
_PASSWORD = re.compile(r"(password\s*=).*", re.IGNORECASE | re.DOTALL)


class Quiet(TyperGroup):
    """The parser quotes what it cannot place, and an address may hold a password."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                told = _PASSWORD.sub(r"\1…", _ADDRESS.sub(r"\1:…", message))
                error.message = told  # type: ignore[attr-defined]
            raise
