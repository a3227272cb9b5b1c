"""`sfumato inspect`: what is in the files, and the lines of `sfumato.toml` that state it.

With `--as VERB` the words after it are those of the verb's own command, from the command line or
the file of settings, and the verb is carried out for the holder alone (`sfumato.preview`).
"""

from __future__ import annotations

import copy
import json
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.command import Command, built, in_flags
from sfumato.cli.options import (
    DATA,
    AsJson,
    Columns,
    DropBadTowers,
    Format,
    Grid,
    Layer,
    Region,
    RepairZones,
    TimeUnit,
    Towers,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import Working, print_json
from sfumato.errors import UsageError

_BANNER = (
    "internal: this is about people's records. Do not publish it, nor let a script decide by it."
)
_AS = "--as"
_NOT_OF_A_LOOK = frozenset({"dry_run", "keep_key", "follow", "resume", "schemes"})
"""Options of verbs that say how a publication is made or goes on."""


class Inspecting(Command):
    """`inspect`, which with `--as` becomes the verb's command with another end."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        verb, rest = _verb_of(args)
        if verb is None:
            return super().make_context(info_name, args, parent=parent, **extra)
        return _as_verb(verb).make_context(verb, rest, parent=parent, **extra)


def _verb_of(args: list[str]) -> tuple[str | None, list[str]]:
    """The verb after `--as`, and the arguments without both."""
    for at, word in enumerate(args):
        if word == _AS:
            return (args[at + 1] if at + 1 < len(args) else ""), args[:at] + args[at + 2 :]
        if word.startswith(f"{_AS}="):
            return word.partition("=")[2], args[:at] + args[at + 1 :]
    return None, args


def _as_verb(verb: str) -> Any:
    """The command of a verb: its options, which end in a look."""
    from sfumato.preview import PREVIEWED

    if verb not in PREVIEWED:
        raise UsageError(
            f"{verb!r} cannot be looked at beforehand.",
            remedy=f"Choose {_AS} from {', '.join(PREVIEWED)}.",
        )
    command: Any = copy.copy(built(getattr(import_module(f"sfumato.cli.{verb}"), verb)))
    command.name = verb
    command.help = (
        f"What `{verb}` would do with these events, for the holder alone: what would count, what "
        "it would cost and how good it would be. Nothing is published or charged."
    )
    command.params = [_optional(one) for one in command.params if one.name not in _NOT_OF_A_LOOK]
    command.callback = lambda **options: _look_as(verb, options)
    return command


def _optional(parameter: Any) -> Any:
    """The folder need not be named: nothing is put there."""
    if parameter.name != "out":
        return parameter
    other = copy.copy(parameter)
    other.required = False
    other.help = "Where it would be published: the findings go beside it, marked internal."
    other.rich_help_panel = "output"
    return other


def _look_as(verb: str, options: dict[str, Any]) -> None:
    quiet = bool(options.get("as_json") or options.get("quiet"))
    with Working(quiet, "opening events and places") as progress:
        import sfumato
        from sfumato.preview import FILE, preview

        publisher = getattr(sfumato, verb)

        @wraps(publisher)
        def words(**given: Any) -> dict[str, Any]:
            return given

        asked = called(words, options | {"out": options["out"] or Path(verb)})
        events = asked.pop("traces" if verb == "sanitise" else "events", None)
        outcome = preview(verb, events, asked, progress)
    folder = Path(asked["out"]).absolute()
    written = folder.parent / f"internal-{folder.name}" / FILE
    if options.get("as_json"):
        print_json({}, outcome.numbers())
        return
    typer.echo(_BANNER)
    parameters = _as_verb(verb).params
    for line in outcome.lines():
        typer.echo(f"internal: {in_flags(line, parameters)}")
    typer.echo(f"internal: written to {written}; do not publish it")


def inspect(
    context: typer.Context,
    events: Annotated[
        list[str],
        typer.Argument(
            help="Files or folders: CSV, Parquet, NDJSON, GPX, T-Drive, Geolife, Cabspotting."
        ),
    ],
    towers: Towers = None,
    zones: Zones = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: Annotated[
        str | None, shared(DATA, "--events-tz", "Clock of times that carry no offset.")
    ] = None,
    format: Format = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    as_: Annotated[
        str | None,
        typer.Option(
            _AS,
            help="Carry out release, stream, sanitise or synth, with its own options or settings, "
            "for the holder alone: what would count, what it would cost, how good it would be.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at event files before they are released: columns, clock, span, what would be dropped.

    It says how the files can be read, as lines of sfumato.toml. With --as it carries a verb out on
    them, publishes nothing and charges nothing. Internal: it is about records.

    Example:
        sfumato inspect events.parquet --towers towers.csv --zones zones.geojson
    """
    options = dict(locals())
    if as_ is not None:
        raise UsageError(
            f"{_AS} stands on the command line.", remedy=f"Write it there: {_AS} {as_}."
        )
    from sfumato.io.inspection import Inspection
    from sfumato.preview import inspect as look

    with Working(as_json, "looking at the events") as progress:
        findings = called(
            look, options, events=events[0] if len(events) == 1 else events, progress=progress
        )
    assert isinstance(findings, Inspection)
    if as_json:
        typer.echo(json.dumps({"internal": findings.numbers()}, indent=2, sort_keys=True))
        return
    typer.echo(_BANNER)
    for line in findings.lines():
        typer.echo(in_flags(line, list(context.command.params)))
    if not findings.usable:
        typer.echo("\nRead like this, NOTHING would be counted: see above what is missing.")
    typer.echo(
        "\nIf that is how they are to be read, write it down in sfumato.toml, above its [tables]:\n"
    )
    for line in findings.toml():
        typer.echo(line)


app = typer.Typer(add_completion=False)
app.command(cls=Inspecting)(inspect)
