"""Options that several commands share, and how their values are read.

What was computed from private rows and not paid for: the holder's eyes only.

On a terminal it goes to standard error, each line marked `internal:`; in JSON it stands under
the one key `internal`. So everything else that a command prints may be kept with the release,
and whoever pipes or publishes it can drop this part without reading it.

`--config sfumato.toml`: every flag has a place in the file, and the other way round.

    dataset = "metro subscribers"       # what stands above the tables holds for every command
    expected-users = 2_000_000

    [release]                           # what stands in a table holds for that command
    events = "events.parquet"
    from = 2007-09-10
    epsilon = 0.3
    column = { user = "imsi", time = "ts" }

Keys are the long flags without their dashes, and the names of arguments in small letters. A
flag on the command line wins over the file, a command's table over what stands above it.
Paths are read as on the command line, from the folder in which the command runs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.errors import InputError, UsageError

if TYPE_CHECKING:
    from sfumato.engine.local import DropLog
    from sfumato.io.events import Inputs
    from sfumato.model.source import Progress
    from sfumato.model.time_grid import TimeGrid
    from sfumato.privacy.ledger import Ledger
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


_NOT_IN_FILES = frozenset({"config", "help"})


def _use(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the command that is being read."""
    if path is not None and not context.resilient_parsing:
        name = str(context.info_name)
        found = settings(path, name, _commands(context, name))
        context.default_map = {**(context.default_map or {}), **found}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_use, is_eager=True, help="TOML file with any of these options."
    ),
]


def settings(path: Path, command: str, known: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Parameter to value for a command; `known` is command to key to parameter."""
    data = _read(path)
    above = {key: value for key, value in data.items() if key not in known}
    everywhere = {key for keys in known.values() for key in keys}
    for key in above:
        if _dashed(key) not in everywhere:
            raise _unknown(path, key, everywhere | set(known))
    own = _table(path, command, data.get(command, {}))
    for name in known:
        for key in _table(path, name, data.get(name, {})):
            if _dashed(key) not in known[name]:
                raise _unknown(path, f"{name}.{key}", set(known[name]))
    mine = known[command]
    return {
        mine[_dashed(key)]: _value(value)
        for part in (above, own)
        for key, value in part.items()
        if _dashed(key) in mine
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise InputError("the file cannot be read.", file=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"this is not TOML: {error}.", file=str(path)) from None


def _table(path: Path, name: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise UsageError(f"{path}: {name!r} is a table of options, written as [{name}].")
    return found


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _value(value: object) -> Any:
    """As it would stand on the command line."""
    if isinstance(value, dict):
        return [f"{key}={_text(part)}" for key, part in value.items()]
    if isinstance(value, list):
        return [_text(part) for part in value]
    return value if isinstance(value, bool) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _unknown(path: Path, key: str, known: set[str]) -> UsageError:
    return UsageError(
        f"{path}: there is no option {key!r}.", remedy=f"There are {', '.join(sorted(known))}."
    )


def _commands(context: typer.Context, name: str) -> dict[str, dict[str, str]]:
    """Key to parameter for this command and all others that read a configuration."""
    parent = context.parent
    siblings = getattr(parent.command, "commands", {}) if parent is not None else {}
    commands = {**siblings, name: context.command}
    every = {key: dict(_keys(command)) for key, command in commands.items()}
    return {
        key: {flag: at for flag, at in flags.items() if flag not in _NOT_IN_FILES}
        for key, flags in every.items()
        if "config" in flags
    }


def _keys(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        flags = [opt for opt in parameter.opts if opt.startswith("--")]
        key = max(flags, key=len)[2:] if flags else str(parameter.name)
        yield _dashed(key), str(parameter.name)


Grid = Annotated[
    str | None,
    typer.Option("--grid", help="Cells instead of zones: 500m, 1km@EPSG:3035, h3:8, geohash:6."),
]
Region = Annotated[
    str | None,
    typer.Option("--region", help="What the grid covers: a file, or west,south,east,north."),
]
ZoneId = Annotated[str | None, typer.Option("--zone-id", help="Column of the zones' ids.")]
ZoneName = Annotated[str | None, typer.Option("--zone-name", help="Column of the zones' names.")]
Layer = Annotated[str | None, typer.Option("--layer", help="Layer of the zones' file.")]
RepairZones = Annotated[
    bool, typer.Option("--repair-zones", help="Make crossing outlines of zones valid.")
]
DropBadTowers = Annotated[
    bool, typer.Option("--drop-bad-towers", help="Leave towers without a usable position out.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Which column is what: user=imsi, time=ts, place=bs."),
]
TimeUnit = Annotated[
    str | None, typer.Option("--time-unit", help="Unit of epoch numbers: s, ms, us or ns.")
]
EventsTz = Annotated[
    str | None,
    typer.Option(
        "--events-tz", help="Clock of event times that carry no offset; default: that of --tz."
    ),
]
ReleaseName = Annotated[
    str | None, typer.Option("--name", help="Name of the release; default: that of the folder.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would cost; read and spend nothing.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", help="A setting of the scheme's own, such as tolerance=0.01."),
]

Engine = Annotated[str | None, typer.Option(help="Where to count: local (default) or spark.")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's master: local[2], yarn, spark://HOST:PORT, sc://HOST:PORT."),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", help="A setting of Spark: spark.executor.memory=8g."),
]
Pipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline", help="EVENTS is the lakehouse of multimno, or the FlowDB of flowkit."
    ),
]
ZoningOf = Annotated[
    str | None,
    typer.Option("--zoning", help="Zones of the pipeline: nuts:3, INSPIRE_1km, admin3."),
]


def pipeline_inputs(
    name: str | None,
    zoning: str | None,
    where: str,
    settings: dict[str, Any],
    grid: Callable[[], TimeGrid],
) -> Inputs | None:
    """What a pipeline holds about a period; its towers and zones go into the settings."""
    if name is None:
        if zoning is not None:
            raise UsageError("--zoning goes with --pipeline.", remedy="Give --zones FILE instead.")
        return None
    if settings["towers"] is not None or settings["zones"] is not None:
        raise UsageError("A pipeline brings its own towers and zones.", remedy="Leave them out.")
    from sfumato.published.export import open_pipeline

    found = open_pipeline(name, where, grid(), zoning)
    settings |= {"towers": found.towers, "zones": found.zones}
    return found


@contextmanager
def opened(found: Inputs | None, events: str, progress: Progress | None) -> Iterator[object]:
    """The events of a pipeline, let go of at the end; without one, what the user named."""
    if found is None:
        yield events
    else:
        with closing(found.open_events(progress)) as described:
            yield described


def pairs(given: list[str] | None, what: str, example: str) -> dict[str, str]:
    """`name=value` options as a mapping."""
    cut = [text.partition("=") for text in given or []]
    if any(not (name and sign and value) for name, sign, value in cut):
        raise UsageError(f"{what} is written as {example}.")
    return {name: value for name, _, value in cut}


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Role to column name."""
    return pairs(given, "A column, role=name,", "--column user=imsi")


def spark_settings(given: list[str] | None) -> dict[str, str]:
    """Name of a setting to its value."""
    return pairs(given, "A setting of Spark", "--spark-conf spark.executor.memory=8g")


def parameters_of(given: list[str] | None) -> dict[str, bool | int | float | str]:
    """Name to value: true and false, whole numbers, numbers, words."""
    found = pairs(given, "A parameter", "--parameter tolerance=0.01")
    return {name: _typed_value(value) for name, value in found.items()}


def _typed_value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


Where = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="File or postgresql:// address. Default: a file in your data folder."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--ledger-key", help="File of the ledger's key. Default: beside the ledger."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_ledger(where: str | None, key: Path | None) -> Ledger:
    """The ledger that the options name."""
    from sfumato.privacy.ledger import Ledger

    return Ledger(where, key)
