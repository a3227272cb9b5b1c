"""A command that does not repeat a database's address when it complains about its arguments."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

_ADDRESS = re.compile(r"postgres(ql)?:/\S*", re.IGNORECASE)


class Quiet(TyperGroup):
    """The parser quotes what it cannot place, and an address may hold a password."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                error.message = _ADDRESS.sub("postgresql:…", message)  # type: ignore[attr-defined]
            raise
