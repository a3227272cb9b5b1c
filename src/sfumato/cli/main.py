"""`sfumato`: the command. Each command lives in a file of its own, loaded when it is run.

The table below is all that `sfumato --help` reads: importing every command would bring engines,
geometry and compilers with it, seconds before a line is printed.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato.errors import SfumatoError, presentable
from sfumato.model.extensions import Offer, Registry, offers

BEGIN = "begin"
PUBLISH = "publish with differential privacy, charged to the ledger"
USE = "use what is published"
INTERNAL = "internal: compares with the truth, never to be published"
LEDGER = "ledger"
LABORATORY = "laboratory: what the documents describe, to compare with"


class Entry(NamedTuple):
    """Where a command lives, what it is for, and the panel of the help that it stands in."""

    module: str
    help: str
    panel: str
    attribute: str = ""
    """Of the module; where it is empty, `app` or a function with the command's name."""


class Commands(Registry[Entry]):
    """The product's commands, and below them those that other distributions offer."""

    def __getitem__(self, name: str) -> Entry:
        if name in self.own:
            return super().__getitem__(name)
        offer = offers(self.kind)[name]
        return Entry(offer.module, offer.help, added_by(offer), offer.attribute)


def added_by(offer: Offer) -> str:
    """The panel of what is offered by a distribution, or by the laboratory of this one."""
    return LABORATORY if offer.distribution == "sfumato" else f"added by {offer.distribution}"


_OWN = {
    "demo": Entry("demo", "A synthetic city from records to a release, to look at.", BEGIN),
    "init": Entry("init", "Write a commented sfumato.toml after a few questions.", BEGIN),
    "doctor": Entry("doctor", "Check installation, ledger, keys, folders and clock.", BEGIN),
    "city": Entry("city", "Make a synthetic city and its people's records.", BEGIN),
    "inspect": Entry("inspect", "What is in event files, and how to read them (internal).", BEGIN),
    "plan": Entry("plan", "What a release will cost and how good it will be.", PUBLISH),
    "release": Entry("release", "Publish a density of people over places and time.", PUBLISH),
    "stream": Entry("stream", "Publish slot after slot, as time goes on.", PUBLISH),
    "sanitise": Entry("sanitise", "Publish traces with noise on every location.", PUBLISH),
    "synth": Entry("synth", "Publish records of people who do not exist.", PUBLISH),
    "query": Entry("query", "Ask the data itself: questions on a budget.", PUBLISH),
    "ask": Entry("ask", "Ask a release: any sum with its ±, rankings, unusual hours, SQL.", USE),
    "refine": Entry("refine", "Read a release's measurements again, by today's method.", USE),
    "weigh": Entry("weigh", "From an operator's customers to all people.", USE),
    "combine": Entry("combine", "Put releases of several operators together.", USE),
    "report": Entry("report", "Make the offline page of releases again, and figures.", USE),
    "export": Entry("export", "Write a release for a data portal, multimno or FlowKit.", USE),
    "hotspots": Entry("hotspots", "Where to place sites, from sanitised traces.", USE),
    "spread": Entry("spread", "Whom a message reaches, from sanitised traces.", USE),
    "evaluate": Entry("evaluate", "How good a release is, compared with the truth.", INTERNAL),
    "attack": Entry("attack", "What an adversary makes of a release.", INTERNAL),
    "audit": Entry("audit", "Test a scheme's guarantee on neighbouring data.", INTERNAL),
    "ledger": Entry("ledger", "What was ever released about whom, and what is left.", LEDGER),
}
COMMANDS = Commands(
    "command",
    {name: entry._replace(module=f"sfumato.cli.{entry.module}") for name, entry in _OWN.items()},
)

_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.:-]+):/\S*")


class Listed(TyperCommand):
    """Stands for a command in lists; becomes the command when it is run or completed."""

    def __init__(self, name: str, entry: Entry, load: Callable[[], Any]) -> None:
        super().__init__(name, help=entry.help, rich_help_panel=entry.panel)
        self._load = load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self._load().make_context(info_name, args, parent=parent, **extra)


class Loaded(MutableMapping[str, Any]):
    """Commands by name; a command's module is imported when the command itself is taken."""

    def __init__(self, entries: Commands, ready: Mapping[str, Any]) -> None:
        self._entries, self._ready = entries, dict(ready)
        self._built = dict(ready)

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            from sfumato.cli.command import built

            entry = self._entries[name]
            if entry.attribute:
                command = offers(self._entries.kind)[name].load()
            else:
                module = import_module(entry.module)
                command = getattr(module, "app", None) or getattr(module, name)
            self._built[name] = built(command)
            self._built[name].name = name
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._ready
        yield from (name for name in self._entries if name not in self._ready)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._ready or name in self._entries

    def listed(self, name: str) -> Any:
        """What stands in lists for a command; nothing where there is none of that name."""
        if name in self._ready:
            return self._ready[name]
        if name not in self._entries:
            return None
        return Listed(name, self._entries[name], lambda: self[name])


class Menu(TyperGroup):
    """Commands of its own and those of a table, which it lists without importing them."""

    entries: Commands

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = self._loaded = Loaded(self.entries, self.commands)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self._loaded)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        return self._loaded.listed(cmd_name)


class Program(Menu):
    """The group of all commands.

    The parser quotes what it cannot place, and an address may hold a password: that part of a
    complaint is left out.
    """

    entries = COMMANDS

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        for one in found:
            # A flag that was not given is off; typer loads its validator to make that of None.
            if one.default is None and getattr(one, "is_flag", False):
                one.default = False
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                told = presentable(_ADDRESS.sub(r"\1:…", message))
                error.message = told  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="sfumato",
    cls=Program,
    help="Publish what crowds do without giving away what any person did.",
    epilog="Begin with: sfumato demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from sfumato import __version__

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


def run() -> None:
    """Entry point: turn our own errors into a message and an exit code, never a traceback."""
    # Loading a thousand modules makes no garbage, and looking for it took a tenth of that time. A
    # release ends with a quarter of a million objects: twice as many are a sign of garbage.
    gc.set_threshold(500_000, 20, 20)
    try:
        app(prog_name="sfumato")
    except SfumatoError as error:
        from rich.console import Console
        from rich.markup import escape

        console = Console(stderr=True)
        console.print(
            f"[bold red]error:[/] {escape(error.problem)}", highlight=False, soft_wrap=True
        )
        if error.remedy:
            console.print(f"[bold]do:[/] {escape(error.remedy)}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except MemoryError:
        typer.echo("error: there is not enough memory for this.", err=True)
        typer.echo("do: Ask for fewer slots or places at once, or take a larger machine.", err=True)
        sys.exit(1)
    except Exception as error:
        if os.environ.get("SFUMATO_TRACEBACK"):
            raise
        # A message or a traceback of a library may quote a record or a person's file.
        typer.echo(f"error: sfumato stopped unexpectedly ({type(error).__name__}).", err=True)
        typer.echo(
            "do: Please report it. SFUMATO_TRACEBACK=1 shows where; that may show records, too.",
            err=True,
        )
        sys.exit(1)


def program() -> None:
    """`run` as a process of its own, which is gone when it is done.

    Python ends by taking all modules apart, object by object: a quarter of a CPU-second after a
    release. All that comes before that is done as ever: threads are waited for, whoever asked to be
    called at the end is called, what was printed is flushed. Exit functions are called from the
    last to the first, so ours must be the first, or nothing is cut short.
    """
    ended: list[int] = []

    def gone() -> None:
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or nobody reads: Python's to tell
            return
        if ended:
            os._exit(ended[0])

    if not atexit._ncallbacks():
        atexit.register(gone)
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            ended.append(end.code or 0)
        raise


if __name__ == "__main__":
    program()
