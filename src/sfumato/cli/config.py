"""`--config sfumato.toml`: every flag has a place in the file, and the other way round.

    dataset = "metro subscribers"       # what stands above the tables holds for every command
    expected-users = 2_000_000

    [release]                           # what stands in a table holds for that command
    events = "events.parquet"
    from = 2007-09-10
    epsilon = 0.3
    column = { user = "imsi", time = "ts" }

    [attack.recovery]                   # a command of a group
    suppress = [5, 15]

Keys are the long flags without their dashes, and the names of arguments in small letters. A
flag on the command line wins over the file, a command's table over its group's, and that over
what stands above. One file serves all commands: the tables of others are checked and left
alone, and what is no command or no option of one is refused by its name.

Paths are read as on the command line, from the folder in which the command runs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.errors import InputError, UsageError

WRITTEN = "sfumato.written"
"""Where a command's context keeps the parameters that its command line states."""
_NOT_IN_FILES = frozenset({"config", "help"})
_LARGEST = 1 << 20
"""Bytes of a configuration file: thousands of times what one needs."""
_HEADER = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")
_DEEPEST = 16
"""Tables in tables; a command of a group with a dotted column needs five."""
_BOOK = "ledger"
"""An option and a command. TOML has one place for a name, so where there is a table `[ledger]`
the option that holds for every command is written inside it: `ledger.ledger`."""


def _use(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the command that is being read."""
    if path is not None and not context.resilient_parsing:
        names: list[str] = []
        here: Any = context
        while here.parent is not None:
            names.insert(0, str(here.info_name))
            here = here.parent
        written = context.meta.get(WRITTEN, frozenset())
        found = settings(path, names, here.command, written)
        context.default_map = {**(context.default_map or {}), **found}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=_use,
        is_eager=True,
        expose_value=False,
        help="TOML file with any of these options, and those of other commands.",
    ),
]


def settings(
    path: Path, names: list[str], program: Any, written: Collection[str] = frozenset()
) -> dict[str, Any]:
    """What a file says to a command.

    Args:
        path: The file.
        names: Of the command, after those of the groups that it is in: `["ledger", "init"]`.
        program: The group of all commands.
        written: Parameters that the command line states, so that the file need not.

    Returns:
        Parameter to value, as it would stand on the command line.

    Raises:
        InputError: The file cannot be read or is not TOML.
        UsageError: It names a table or an option that does not exist, or leaves one empty that
            the command takes.
    """
    data = _read(path)
    book = data.get(_BOOK)
    if isinstance(book, dict):
        above = {key: book[key] for key in (_BOOK, "ledger-key", "ledger_key") if key in book}
    else:
        above = {}
    _check(path, data, program, [])
    tables: list[tuple[Any, dict[str, Any]]] = [(program, above)]
    group, table = program, data
    for name in names:
        tables.append((group, _values(table, group)))
        group, table = group.commands[name], table.get(name, {})
        if not isinstance(table, dict):  # the option `ledger`, not the table
            table = {}
    mine = _options(group)
    found: dict[str, Any] = {}
    for owner, values in tables:
        for key, value in values.items():
            option = mine.get(_dashed(key))
            if option is not None and not (owner is program and _homonym(option)):
                found[str(option.name)] = _value(path, key, value, option)
    for key, value in table.items():
        option = mine[_dashed(key)]
        found[str(option.name)] = _value(path, key, value, option)
    empty = {name for name, value in found.items() if value == ""}
    needed = empty - set(written)
    # A plan may be made before there are events.
    without = {"events"} - {str(one.name) for one in mine.values() if one.required}
    if missing := [long_flag(one) for one in mine.values() if one.name in needed - without]:
        raise _left_empty(path, missing)
    return {name: value for name, value in found.items() if name not in empty}


def _left_empty(path: Path, flags: list[str]) -> UsageError:
    """All of them at once, so that the file is opened once."""
    keys = ", ".join(flag.removeprefix("--") for flag in flags)
    given = ", ".join(flag if flag.startswith("--") else flag.upper() for flag in flags)
    return UsageError(
        f"{path}: nothing is written yet for {keys}.",
        remedy=f"Write it there, or give {given}. What has a default may be left out.",
    )


def long_flag(parameter: Any) -> str:
    """`--from` of the parameter `start`; the name of an argument."""
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    return max(flags, key=len) if flags else str(parameter.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError:
        raise InputError("the file cannot be read.", file=str(path)) from None
    if len(raw) > _LARGEST:
        raise InputError("this is larger than a configuration can be.", file=str(path))
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            _refuse_twice(path, raw.decode("utf-8"))
        raise InputError(f"this is not TOML: {error}.", file=str(path)) from None
    except ValueError:  # an integer of thousands of digits
        raise InputError("a number has too many digits.", file=str(path)) from None
    except RecursionError:
        data = {}
        too_deep = True
    else:
        too_deep = _deeper(data, _DEEPEST)
    if too_deep:
        raise InputError(
            f"arrays or tables stand more than {_DEEPEST} deep in one another.", file=str(path)
        )
    return data


def _refuse_twice(path: Path, text: str) -> None:
    """Name what stands twice in a text that is not TOML: the parser gives a column and no key."""
    values: dict[str, int] = {}
    tables: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if (key := _KEY.match(line)) is not None:
            whole = f"{table}.{key[1]}" if table else key[1]
            if whole in values:
                raise InputError(
                    f"{whole!r} is written twice, in lines {values[whole]} and {number}.",
                    file=str(path),
                    remedy="Keep the line that is meant.",
                )
            values[whole] = number
        elif (header := _HEADER.match(line)) is not None:
            table = header[1]
            if table in tables:
                raise InputError(
                    f"[{table}] is written twice, in lines {tables[table]} and {number}.",
                    file=str(path),
                    remedy="Put all that stands in it under one.",
                )
            if outer := [name for name in _outer(table) if name in values]:
                raise InputError(
                    f"{outer[0]!r} has a value in line {values[outer[0]]}, and [{table}] in line "
                    f"{number} makes a table of it.",
                    file=str(path),
                    remedy=f"A name has one place in TOML: move line {values[outer[0]]} into a "
                    f"table [{outer[0]}], or write what stands in [{table}] above the tables.",
                )
            tables[table] = number


def _outer(whole: str) -> Iterator[str]:
    """The names that a dotted name stands in, and itself."""
    parts = whole.split(".")
    yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _deeper(data: object, most: int) -> bool:
    """Whether anything stands deeper in one another than `most`, without recursion."""
    layer = [data]
    for _ in range(most):
        layer = [
            part
            for whole in layer
            for part in (whole.values() if isinstance(whole, dict) else whole)  # type: ignore[attr-defined]
            if isinstance(part, dict | list)
        ]
        if not layer:
            return False
    return True


def _check(path: Path, table: Mapping[str, Any], owner: Any, names: list[str]) -> None:
    """Refuse what no command has, wherever it stands."""
    from sfumato.cli.options import TABLE

    commands: Mapping[str, Any] = getattr(owner, "commands", {})
    for key, value in table.items():
        if key in commands and isinstance(value, dict):
            _check(path, value, commands[key], [*names, key])
        elif key in commands and f"--{key}" not in TABLE:
            # Some are also an option of one other command and belong in its table: --plan.
            whole = ".".join([*names, key])
            raise UsageError(f"{path}: {whole!r} is a table of options, written as [{whole}].")
        elif not any(_dashed(key) in _options(command) for command in _leaves(owner)):
            raise _unknown(path, key, isinstance(value, dict), owner, names)


def _unknown(path: Path, key: str, table: bool, owner: Any, names: list[str]) -> UsageError:
    where = f"in [{'.'.join(names)}]" if names else "above the tables"
    what = "no command and no option" if table else "no option"
    known = {*getattr(owner, "commands", ()), *(k for c in _leaves(owner) for k in _options(c))}
    near = get_close_matches(_dashed(key), sorted(known), n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else ""
    if not near and names:
        hint = f"There are {', '.join(sorted(known))}."
    return UsageError(
        f"{path}: there is {what} {'.'.join([*names, key])!r} ({where}).",
        remedy=hint or "See sfumato COMMAND -h for the options of a command.",
    )


def _leaves(owner: Any) -> Iterator[Any]:
    """A command, or all commands below a group."""
    commands = getattr(owner, "commands", None)
    if commands is None:
        yield owner
        return
    for name in commands:
        with suppress(UsageError):  # of a distribution that does not load: `doctor` says so
            yield from _leaves(commands[name])


def _options(command: Any) -> dict[str, Any]:
    """Key of the file to parameter."""
    keys = {_dashed(long_flag(one).removeprefix("--")): one for one in command.params}
    return {key: one for key, one in keys.items() if key not in _NOT_IN_FILES}


def _values(table: Mapping[str, Any], owner: Any) -> dict[str, Any]:
    """What stands in a table besides the tables of commands."""
    return {
        key: value
        for key, value in table.items()
        if not (key in owner.commands and isinstance(value, dict))
    }


def _homonym(option: Any) -> bool:
    """An option of one command that others have in another sense: `towers` of a city, a number."""
    from sfumato.cli.options import TABLE

    shared = TABLE.get(long_flag(option))
    return shared is not None and option.help not in shared


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _value(path: Path, key: str, value: object, option: Any) -> Any:
    """As it would stand on the command line; one value of many is written alone."""
    several = getattr(option, "multiple", False) or option.nargs != 1
    if isinstance(value, bool) and not getattr(option, "is_flag", False):
        raise UsageError(
            f"{path}: {key!r} is not a switch.", remedy="Write its value, not true or false."
        )
    if value == "":
        return value
    if isinstance(value, dict | list) and not several:
        raise UsageError(f"{path}: {key!r} has one value, not several.")
    if isinstance(value, dict):
        return [f"{key}={_text(part)}" for key, part in _flat(value).items()]
    if isinstance(value, list):
        return [_text(part) for part in value]
    if several:
        return [_text(value)]
    return value if isinstance(value, bool) else _text(value)


def _flat(table: Mapping[str, object]) -> dict[str, object]:
    """`towers.id` of `{ towers = { id = … } }`, which TOML makes of a dotted key."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": part for inner, part in _flat(value).items()}
        else:
            flat[key] = value
    return flat


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
