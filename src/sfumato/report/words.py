"""All words of the pages, from one JSON file; a translation is another file beside it."""

from __future__ import annotations

import json
import string
from importlib import resources
from typing import Any

Words = dict[str, Any]


def load_words(language: str = "en") -> Words:
    """The table of words of a language."""
    text = resources.files("sfumato.report").joinpath(f"words/{language}.json").read_text("utf-8")
    words: Words = json.loads(text)
    return words


def fill(template: str, **values: object) -> str:
    """A sentence with its {gaps} filled; a gap without a value stays as it is."""
    parts = []
    for literal, field, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if field is not None:
            parts.append(str(values.get(field, "{" + field + "}")))
    return "".join(parts)
