"""Reference pages of the documentation site, made from the source so that they cannot lag behind.

`pages()` gives path to Markdown: the Python verbs and nouns from their docstrings, every command
with every option, every key of `sfumato.toml`, exit codes, and the manifest from its JSON schema.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import sfumato
import sfumato_lab
from sfumato import errors
from sfumato.cli.config import _options
from sfumato.cli.main import app
from sfumato.published.manifest import json_schema

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Examples?|Note):$", re.MULTILINE)
_ITEM = re.compile(r"^ {4}([\w*][\w*. ]*): ", re.MULTILINE)


def pages() -> dict[str, str]:
    """Path below `reference/` to its text."""
    return {
        "api.md": api(),
        "options.md": options(),
        "config.md": config(),
        "exit-codes.md": exit_codes(),
        "manifest.md": manifest(),
    }


def program() -> Any:
    """The group of all commands."""
    import typer

    return typer.main.get_command(app)


def commands(owner: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name: `ledger init`."""
    owner = program() if owner is None else owner
    inner = getattr(owner, "commands", None)
    if inner is None:
        yield name, owner
        return
    for word in inner:
        yield from commands(inner[word], f"{name} {word}".strip())


def cell(text: object) -> str:
    """A text for a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


# --- Python


def public_names(door: ModuleType = sfumato) -> list[str]:
    return [name for name in door.__all__ if not name.startswith("_")]


def methods(noun: type) -> dict[str, Any]:
    """Public methods and properties of a class, its own and those that it inherits from sfumato."""
    found: dict[str, Any] = {}
    for home in reversed(noun.__mro__):
        if home.__module__.startswith("sfumato"):
            found |= {k: v for k, v in vars(home).items() if not k.startswith("_")}
    return {
        k: v
        for k, v in found.items()
        if inspect.isfunction(v) or isinstance(v, property | classmethod | staticmethod)
    }


def api() -> str:
    parts = [
        "# Python: every verb and noun",
        "What `import sfumato` offers, and `import sfumato_lab`, from their docstrings. Verbs "
        "have the names and the words of the commands; only `--from` and `--to` are `start` "
        "and `end`. A walk through them: "
        "[In Python](../python.md). Examples are run in the tests; those marked `+SKIP` need files "
        "of yours and are run on the [pages of the commands](../commands/index.md) instead.",
        "## Verbs",
    ]
    nouns = []
    for door in (sfumato, sfumato_lab):
        for name in public_names(door):
            thing, full = getattr(door, name), f"{door.__name__}.{name}"
            if inspect.isclass(thing):
                nouns.append((name, full, thing))
            else:
                parts += [f"### `{full}`", *_described(thing, full)]
    parts.append("## Nouns")
    for name, full, noun in nouns:
        parts += [f"### `{full}`", *_sections(inspect.getdoc(noun) or "")]
        for method, value in methods(noun).items():
            parts.append(f"#### `{name}.{method}`")
            if isinstance(value, property):
                parts += _sections(inspect.getdoc(value) or "")
            else:
                called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                parts += _described(called, f"{name}.{method}")
    parts += [
        "## Errors",
        "All are in `sfumato.errors` and derive from `SfumatoError`; `problem` says what is wrong, "
        "`remedy` what to do. No message shows a record.",
        "| error | exit code | when |\n|---|---|---|\n"
        + "\n".join(
            f"| `{name}` | {one.exit_code} | {cell(_first(one))} |" for name, one in error_classes()
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _described(verb: Any, name: str) -> list[str]:
    taken, only = [], False
    for one in inspect.signature(verb).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not only:
            taken.append("*")
            only = True
        default = "" if one.default is one.empty else f"={one.default!r}"
        taken.append(f"{one.name}{default}")
    called = f"{name}({', '.join(taken)})"
    lines = textwrap.fill(called, 96, subsequent_indent="    ", break_long_words=False)
    return [f"```python\n{lines}\n```", *_sections(inspect.getdoc(verb) or "")]


def _sections(text: str) -> list[str]:
    """A Google docstring as Markdown: items of Args, Returns and Raises as lists."""
    parts = _SECTION.split(text)
    out = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        body = body.strip("\n")
        if title.startswith("Example"):
            code = textwrap.dedent(body).strip()
            out.append(f"**Example**\n\n```pycon\n{code}\n```" if ">>>" in code else code)
            continue
        pieces = _ITEM.split(body) if title in {"Args", "Attributes", "Raises"} else [body]
        if len(pieces) > 1:
            pairs = zip(pieces[1::2], pieces[2::2], strict=True)
            items = "\n".join(f"* `{name}`: {' '.join(said.split())}" for name, said in pairs)
        else:
            items = " ".join(body.split())
        out.append(f"**{title}**\n\n{items}")
    return [part for part in out if part]


def error_classes() -> list[tuple[str, Any]]:
    found = vars(errors).items()
    return [(k, v) for k, v in found if inspect.isclass(v) and issubclass(v, errors.SfumatoError)]


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0]


# --- the command line


def options() -> str:
    parts = [
        "# Every command and option",
        "As `sfumato COMMAND --help` says it; a page for each command, with examples, is in "
        "[commands](../commands/index.md). `--config FILE` is an option of all of them.",
    ]
    for name, command in commands():
        page = name.split()[0]
        parts.append(f"## `sfumato {name}`")
        parts.append(f"{_plain(command.help)} ([page](../commands/{page}.md))")
        rows = [
            f"| {_spelling(one)} | {_default(one)} | {_meaning(one)} |"
            for one in command.params
            if one.name not in {"config", "help"}
        ]
        parts.append("\n".join(["| option | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _plain(text: str | None) -> str:
    return re.sub(r"\[/?[a-z ]+\]", "", (text or "").split("\f")[0]).strip()


def _meaning(option: Any) -> str:
    return cell(_plain(getattr(option, "help", "") or ""))


def _spelling(option: Any) -> str:
    if option.param_type_name == "argument":
        return f"`{str(option.name).upper()}`"
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    if option.required:
        return "required"
    value = option.default
    if value is None or callable(value) or value in ((), []) or "Sentinel" in type(value).__name__:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{cell(getattr(value, 'value', value))}`"


def keys() -> dict[str, list[tuple[str, Any]]]:
    """Key of `sfumato.toml` to the commands that have it, with the option that it is."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for name, command in commands():
        for key, option in _options(command).items():
            found.setdefault(key, []).append((name, option))
    return dict(sorted(found.items()))


def config() -> str:
    rows = []
    for key, homes in keys().items():
        texts = {_meaning(one): name for name, one in homes}
        where = ", ".join(f"`{name}`" for name, _ in homes)
        rows.append(f"| `{key}` | {' / '.join(texts)} | {where} |")
    return (
        "# Every key of `sfumato.toml`\n\n"
        "Every option of every command is a key: its long flag without the dashes, or the name of "
        "an argument in small letters. What stands above the tables holds for every command that "
        "has the option; `[release]` holds for that command, `[ledger.init]` for one of a group. "
        "A flag on the command line wins over the file, a command's table over what stands above. "
        "A key that no command has is refused by name, with the nearest ones. Options that may be "
        "given again and again are lists or tables: `suppress = [5, 15]`, "
        '`column = { user = "imsi" }`. '
        "Where the file has a table `[ledger]`, the path of the ledger is written inside it, as "
        "`ledger.ledger`. How the file is read: [release](../commands/release.md"
        "#the-configuration-file); `sfumato init` writes a commented one.\n\n"
        "| key | meaning | commands |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def exit_codes() -> str:
    by_code: dict[int, list[str]] = {}
    for name, one in error_classes():
        by_code.setdefault(one.exit_code, []).append(f"`{name}`")
    said = {
        0: "Done. A release that was finished before is found intact: also 0, nothing is charged.",
        1: "The data or the request is at fault, a file cannot be read, a release would be of no "
        "use, or a check did not pass: `doctor` finds something missing, `ledger verify` a broken "
        "chain, `audit` a broken guarantee. Something unexpected is 1, too.",
        2: "Wrong usage: an unknown, missing or contradictory option, a key that no command has.",
        3: "The ledger refuses: the release would pass a cap. Nothing was spent.",
    }
    assert set(by_code) <= set(said)
    rows = "\n".join(f"| {k} | {v} | {', '.join(by_code.get(k, []))} |" for k, v in said.items())
    return (
        "# Exit codes\n\n"
        "Every command ends with one of these. A message on standard error says what is wrong, "
        "where and what to do (`error:`, `do:`); no message shows a record.\n\n"
        f"| exit code | meaning | error in Python |\n|---|---|---|\n{rows}\n\n"
        "Ended by a signal, a command has the shell's code for it (130 after Ctrl-C, 137 after "
        "`kill -9`). [What a kill does](../howto/killed.md).\n"
    )


# --- what is published


def manifest() -> str:
    schema = json.loads(json_schema())
    kinds = schema["$defs"]
    parts = [
        "# The manifest, field by field",
        "`manifest.json` is the privacy statement of a release, for machines; `README.txt` says "
        "the same in words. This page is made from its "
        "[JSON schema](../schema/manifest.schema.json). "
        "`sfumato.read_release(DIR).manifest` gives it as an object. Columns of the tables: "
        "[tables](tables.md).",
        "## Manifest",
        *_fields(schema),
    ]
    for name in sorted(kinds):
        parts += [f"## {name}", cell(kinds[name].get("description", "")), *_fields(kinds[name])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(kind: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{name}` | {_type(field)} | {'yes' if name in kind.get('required', []) else ''} "
        f"| {cell(field.get('description', ''))} |"
        for name, field in kind.get("properties", {}).items()
    ]
    if not rows:
        return []
    return ["\n".join(["| field | type | always | meaning |", "|---|---|---|---|", *rows])]


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))
