"""`--config sfumato.toml`: every flag has a place in the file, and the other way round.

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

import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.model.errors import InputError, UsageError

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
        if _plain(key) not in everywhere:
            raise _unknown(path, key, everywhere | set(known))
    own = _table(path, command, data.get(command, {}))
    for name in known:
        for key in _table(path, name, data.get(name, {})):
            if _plain(key) not in known[name]:
                raise _unknown(path, f"{name}.{key}", set(known[name]))
    mine = known[command]
    return {
        mine[_plain(key)]: _value(value)
        for part in (above, own)
        for key, value in part.items()
        if _plain(key) in mine
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


def _plain(key: str) -> str:
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
        yield _plain(key), str(parameter.name)
