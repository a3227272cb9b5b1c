"""`sfumato`: the command. Each command lives in a file of its own.

A command that does not repeat an address when it complains about its arguments.
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from sfumato import __version__
from sfumato.cli.attack import app as attack
from sfumato.cli.audit import audit
from sfumato.cli.city import city
from sfumato.cli.demo import demo
from sfumato.cli.evaluate import evaluate
from sfumato.cli.export import export
from sfumato.cli.inspect import inspect
from sfumato.cli.ledger import app as ledger
from sfumato.cli.plan import plan
from sfumato.cli.release import release
from sfumato.cli.report import report
from sfumato.cli.reproduce import app as reproduce
from sfumato.cli.sanitise import sanitise
from sfumato.cli.stream import stream
from sfumato.errors import SfumatoError

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


app = typer.Typer(
    name="sfumato",
    cls=Quiet,
    help="Publish what crowds do without giving away what any person did.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    del version


app.command()(audit)
app.command()(city)
app.command()(demo)
app.command()(evaluate)
app.command()(export)
app.command()(inspect)
app.command()(plan)
app.command()(release)
app.command()(report)
app.command()(sanitise)
app.command()(stream)
app.add_typer(attack, name="attack")
app.add_typer(ledger, name="ledger")
app.add_typer(reproduce, name="reproduce")


def run() -> None:
    """Entry point: turn our own errors into a message and an exit code, never a traceback."""
    try:
        app()
    except SfumatoError as error:
        console = Console(stderr=True)
        console.print(
            f"[bold red]error:[/] {escape(error.problem)}", highlight=False, soft_wrap=True
        )
        if error.remedy:
            console.print(f"[bold]do:[/] {escape(error.remedy)}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run()
