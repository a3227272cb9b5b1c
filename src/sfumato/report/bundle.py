"""The scripts as one inline module: each file becomes a closure, in order of its imports.

The files are ordinary ES modules, so that editors, type checkers and test runners read them
as they are. Only two forms are allowed, and checked: `import { a, b } from "./file.js";` and
`export` before `function`, `async function`, `class` or `const`.
"""

from __future__ import annotations

import re
from importlib import resources

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b", re.MULTILINE)


def bundle(entry: str) -> str:
    """The text of one script that runs `entry` (a file's name without `.js`)."""
    order: list[str] = []
    texts: dict[str, str] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"scripts import each other in a circle: {name}")
        if name in texts and name in order:
            return
        texts[name] = asset(f"js/{name}.js")
        for match in _IMPORT.finditer(texts[name]):
            visit(match[2], (*above, name))
        order.append(name)

    visit(entry, ())
    return '"use strict";\n' + "\n".join(_closure(name, texts[name]) for name in order)


def asset(path: str) -> str:
    """A file of the report's assets, as text."""
    return resources.files("sfumato.report").joinpath(f"assets/{path}").read_text("utf-8")


def _closure(name: str, text: str) -> str:
    names = _EXPORT.findall(text)
    body = _IMPORT.sub(lambda m: f"const {{{m[1]}}} = module_{m[2]};\n", text)
    body = _EXPORT.sub("", body)
    if _LEFT.search(body):
        raise ValueError(f"{name}.js has an import or export of a form that is not allowed")
    if "</script" in body.lower() or "<!--" in body:
        raise ValueError(f"{name}.js holds text that would end the script element")
    body = re.sub(r"^\s*(//[^\n]*|/\*\*?(?:[^*]|\*(?!/))*\*/)\n", "", body, flags=re.MULTILINE)
    body = re.sub(r"\n\s*\n+", "\n", body)
    return f"const module_{name} = (() => {{\n{body}return {{ {', '.join(names)} }};\n}})();"
