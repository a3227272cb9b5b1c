"""What a command says while it works, and what only the holder may hear.

What was computed from private rows and not paid for is for the holder's eyes only. On a terminal
it goes to standard error, each line marked `internal:`; in JSON it stands under the one key
`internal`. So everything else that a command prints may be kept with the release, and whoever
pipes or publishes it can drop this part without reading it.

Work that lasts is named (`Working`): on a terminal by a line that moves, elsewhere by one line a
stage on standard error, once it has lasted for `PATIENCE_S`. What is told depends on public sizes
and on elapsed time, never on a count.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from sfumato.engine.local import DropLog
    from sfumato.streams.input import Unfit
    from sfumato.streams.slots import Dropped

KEY = "internal"
PATIENCE_S = 1.0
"""Stages that last longer are named where there is no terminal to draw on: two seconds after a
command began somebody wonders whether it does anything."""


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


class Working:
    """Says what is being done while it lasts; a `Progress` that is heard inside its `with`.

        with Working(quiet, "reading traces") as progress:
            …
            progress("adding noise", -1.0)

    Args:
        silent: Say nothing (`--quiet`, `--json`).
        stage: What is done first, until it is told of something else.
    """

    def __init__(self, silent: bool, stage: str) -> None:
        self._silent, self._first = silent, stage
        self._shown: _Bar | _Lines | None = None

    def __enter__(self) -> Working:
        if not self._silent:
            self._shown = _Bar() if sys.stderr.isatty() else _Lines()
            self(self._first, -1.0)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Say no more, whatever it is told."""
        shown, self._shown = self._shown, None
        if shown is not None:
            shown.close()

    def __call__(self, what: str, share: float) -> None:
        """A stage and the share of it that is done; negative where that is not known."""
        if self._shown is not None:
            self._shown.step(what, share)


class _Lines:
    """A line a stage that lasts, from a clock of its own: a stage may report only at its end."""

    def __init__(self) -> None:
        self._stage = ""
        self._begun = 0.0
        self._told = True
        self._clock: threading.Timer | None = None
        self._lock = threading.Lock()

    def step(self, what: str, share: float) -> None:
        del share
        if what == self._stage:
            return
        self.close()
        self._stage, self._begun, self._told = what, time.monotonic(), False
        self._clock = threading.Timer(PATIENCE_S, self._say, (what,))
        self._clock.daemon = True
        self._clock.start()

    def close(self) -> None:
        """End the stage; one whose clock could not speak in time is named now."""
        if self._clock is not None:
            self._clock.cancel()
        if time.monotonic() - self._begun > PATIENCE_S:
            self._say(self._stage)
        self._told = True

    def _say(self, what: str) -> None:
        with self._lock:
            if not self._told and what == self._stage:
                self._told = True
                typer.echo(f"{what} …", err=True)


class _Bar:
    """One line on the terminal: the stage, a bar where its share is known, the time it takes."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
        console = Console(stderr=True)
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._stage = ""
        self._task: Any = None
        self._bar.start()

    def step(self, what: str, share: float) -> None:
        if what != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = what, self._bar.add_task(what, total=None)
        if share >= 0:
            self._bar.update(self._task, completed=share, total=1.0)

    def close(self) -> None:
        self._bar.stop()
