"""One HTML file: a template, the style, the data as inert JSON, the script, and a policy.

The content-security policy allows this style and this script by their hashes and nothing
else: no network, no other script, not even one that a hostile zone name would bring along.
The data is a JSON block in which every `<`, `>` and `&` is escaped, so no text can end it, and
the script puts texts on the page as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import jinja2
from markupsafe import Markup

from sfumato.report.bundle import asset, bundle
from sfumato.report.words import Words

_INERT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}) | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class _ByKey(jinja2.Environment):
    """`words.page.copy` is the word, never a method of the dictionary that holds it."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)


def render(template: str, script: str, data: dict[str, Any], words: Words, **more: Any) -> str:
    """The whole file. `template` and `script` name assets; `data` is what the script reads."""
    style = "\n".join(asset(f"css/{name}.css") for name in more.pop("styles"))
    code = bundle(script)
    environment = _ByKey(
        loader=jinja2.FunctionLoader(lambda name: asset(f"html/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        words=words,
        policy=policy(style, code),
        style=Markup(style),
        script=Markup(code),
        data=Markup(inert_json({"words": words, **data})),
        **more,
    )


def policy(style: str, script: str) -> str:
    """Nothing from anywhere, this style and this script apart."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def inert_json(data: object) -> str:
    """JSON that may stand inside a script element whatever the texts in it are."""
    text = json.dumps(
        data, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.translate(_INERT)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
