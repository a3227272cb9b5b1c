"""What every command has in common: `-h`, `--config`, panels of options, an example, its words.

A command is a function with a docstring and annotated options. Everything that the commands
share is added here, by the class that typer builds from such a function: a new command gets it
without saying so.

* `--config FILE` (`sfumato.cli.config`).
* Options stand in panels, always in the same order, required ones first.
* The part of the docstring that begins with `Example:` ends the help text.
* Errors raised in Python name parameters in backticks; the command line names flags instead.
"""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato.cli.config import WRITTEN, Config, long_flag
from sfumato.cli.options import PANELS
from sfumato.errors import TOO_LONG, SfumatoError, UsageError

_EXAMPLE = re.compile(r"^Examples?:\n", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_SHOWN = {"name", "title", "edition", "analyst"}
"""What is written into files and ledgers as it is said: a byte that is no character cannot be."""
_SAME = {
    "columns": "column",
    "parameters": "parameter",
    "spark": "spark_conf",
    "counting": "count",
    "key": "ledger_key",
    "tz": "events_tz",
}
"""Words of Python for which a command has another, where it does not have the word itself."""


class Command(TyperCommand):
    """A command as typer builds it, with what all commands share."""

    def __init__(self, name: str | None, **attributes: Any) -> None:
        text, example = _cut_example(attributes.get("help") or "")
        attributes |= {"help": text, "epilog": example or attributes.get("epilog")}
        super().__init__(name, **attributes)
        self.params.append(_config_option())
        for parameter in self.params:
            _put_in_panel(parameter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """An empty value is refused: as a path it would mean the folder one happens to be in."""
        if "" in args:
            before = args[args.index("") - 1] if args.index("") else ""
            what = f"The value of {before}" if before.startswith("-") else "A value"
            raise UsageError(f"{what} is empty.", remedy="Leave it out, or write what it is.")
        values, _, _ = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[WRITTEN] = {name for name, value in values.items() if value not in (None, ())}
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Options in the order of their panels; arguments keep theirs."""
        found = super().get_params(ctx)
        for parameter in found:
            _put_in_panel(parameter)  # also -h, which the parser makes when it is asked for
        return sorted(found, key=_panel_number)

    def invoke(self, ctx: Any) -> Any:
        try:
            for name in _SHOWN & ctx.params.keys():
                if any("\ud800" <= letter <= "\udfff" for letter in str(ctx.params[name])):
                    raise UsageError(f"`{name}` holds something that is no character.")
            return super().invoke(ctx)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise UsageError(TOO_LONG) from None
        except SfumatoError as error:
            say_in_flags(error, self.params)
            raise


def built(command: Callable[..., Any] | typer.Typer) -> TyperCommand | TyperGroup:
    """The command of a function, or the group of an app, with what all commands share."""
    if not isinstance(command, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command()(command)
        command = app
    for info in command.registered_commands:
        if info.cls is None or not issubclass(info.cls, Command):
            info.cls = Command
    # Completion is the program's, not the part's.
    command._add_completion = False
    made = typer.main.get_command(command)
    assert isinstance(made, TyperCommand | TyperGroup)
    return made


def _cut_example(text: str) -> tuple[str, str]:
    """The text in paragraphs without its example, and the example as one command to be copied."""
    found = _EXAMPLE.search(text)
    said = text if found is None else text[: found.start()].rstrip()
    said = "\n\n".join(" ".join(part.split()) for part in said.split("\n\n"))
    if found is None:
        return said, ""
    lines = [line.strip() for line in text[found.end() :].strip().splitlines()]
    return said, "Example:\n\n" + " \\\n    ".join(lines)


def _config_option() -> Any:
    """The option as typer builds it from an annotation; each command has its own."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def holder(config: Config = None) -> None:
        del config

    return typer.main.get_command(app).params[0]


def _put_in_panel(parameter: Any) -> None:
    if parameter.param_type_name != "option":
        return
    if parameter.required:
        parameter.rich_help_panel = "required"
    elif getattr(parameter, "rich_help_panel", None) is None:
        parameter.rich_help_panel = "more"


def _panel_number(parameter: Any) -> int:
    if parameter.param_type_name != "option":
        return -1
    panel = parameter.rich_help_panel
    return PANELS.index(panel) if panel in PANELS else len(PANELS)


def say_in_flags(error: SfumatoError, parameters: list[Any]) -> None:
    """Turn what an error says in backticks about Python's parameters into a command's flags.

    `start` becomes --from; `bound="sample:30"` becomes --bound sample:30; a mapping such as
    `columns={"user": "imsi"}` becomes --column user=imsi. What the command does not have, and
    what is no parameter at all, stays as it is.

    Args:
        error: Changed in place, so that it is raised again as what it was.
        parameters: Those of the command that was run.
    """
    error.problem = in_flags(error.problem, parameters)
    error.remedy = in_flags(error.remedy, parameters)
    error.args = (f"{error.problem} {error.remedy}".strip(),)


def in_flags(text: str, parameters: list[Any]) -> str:
    """A text with what stands in backticks said in flags, as `say_in_flags` has it."""
    flags = {str(one.name): one for one in parameters if one.param_type_name == "option"}
    arguments = {str(one.name): one for one in parameters if one.param_type_name == "argument"}

    def said(found: re.Match[str]) -> str:
        return _in_flags(found[1], flags, arguments) or found[0]

    return _QUOTED.sub(said, text)


def _in_flags(text: str, flags: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """The command line's words for one piece in backticks; none where there are no such words."""
    if found := re.fullmatch(r"sfumato(?:_lab)?\.([a-z_]+)(\(.*\))?", text):
        switches = re.findall(r"\b([a-z_]+)=True", found[2] or "")
        words = [found[1].replace("_", " "), *(f"--{one.replace('_', '-')}" for one in switches)]
        return f"`sfumato {' '.join(words)}`"
    if text.isidentifier():
        if text in arguments:
            return text.upper()
        known = _named(text, flags)
        return None if known is None else long_flag(known)
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(call, ast.Call)
    if call.args or not call.keywords:
        return None
    parts: list[str] = []
    for keyword in call.keywords:
        known = _named(str(keyword.arg), flags)
        if known is None:
            return None
        parts += _spelled(known, _plain(keyword.value))
    return " ".join(parts)


def _named(word: str, flags: Mapping[str, Any]) -> Any:
    """The option of a word; `epsilon` of a cap is `--cap-epsilon` where there is no other."""
    names = (word, _SAME.get(word, word), f"cap_{word}")
    return next((flags[name] for name in names if name in flags), None)


def _plain(node: ast.expr | None) -> Any:
    """A literal's value; a name such as NAME, which stands for the reader's own, as its text."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_plain(key): _plain(value) for key, value in pairs}
    if isinstance(node, ast.List | ast.Tuple):
        return [_plain(part) for part in node.elts]
    return "" if node is None else ast.unparse(node)


def _spelled(option: Any, value: object) -> Iterator[str]:
    flag = long_flag(option)
    if isinstance(value, dict):
        yield from (f"{flag} {quote(f'{key}={part}')}" for key, part in value.items())
    elif isinstance(value, list):
        yield from (f"{flag} {quote(str(part))}" for part in value)
    elif value is True:
        yield flag
    elif value is False:
        yield option.secondary_opts[0] if option.secondary_opts else f"no {flag}"
    else:
        yield flag if value in (None, ...) else f"{flag} {quote(str(value))}"
