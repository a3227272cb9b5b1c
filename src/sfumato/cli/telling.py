"""What a command says while it works, and what only the holder may hear.

What was computed from private rows and not paid for is for the holder's eyes only. On a terminal
it goes to standard error, each line marked `internal:`; in JSON it stands under the one key
`internal`. So everything else that a command prints may be kept with the release, and whoever
pipes or publishes it can drop this part without reading it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from sfumato.engine.local import DropLog
    from sfumato.stream.input import Unfit
    from sfumato.stream.slots import Dropped

KEY = "internal"


def tell(lines: Iterable[str]) -> None:
    """Lines for the holder, on standard error."""
    for line in lines:
        typer.echo(f"{KEY}: {line}", err=True)


def print_json(public: Mapping[str, Any], internal: Any = None, *, indent: int | None = 2) -> None:
    """One JSON object; what is private stands under `internal` and nowhere else."""
    assert KEY not in public
    whole = {**public, **({} if internal is None else {KEY: internal})}
    typer.echo(json.dumps(whole, indent=indent, sort_keys=True))


class RowsRead:
    """Takes what was read and dropped: tells it, and keeps the counts for `--json`."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent
        self.counts: dict[str, Any] = {}

    def __call__(self, log: DropLog | Dropped | Unfit) -> None:
        self.counts = log.internal_counts() or self.counts
        if not self._silent:
            tell(log.internal_lines())
