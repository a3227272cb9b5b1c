"""The site's search as a reader uses it: its own scripts in node; where there is none, in Python.

The Python form follows `docs/site/static/search.js` on the same index; a test holds the two against
each other.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import snowballstemmer

NODE = shutil.which("node")


def found_pages(site: Path, queries: list[str]) -> list[list[str]]:
    """Pages for each query, best first."""
    if NODE is None:
        return in_python(site, queries)
    script = Path(__file__).with_name("search.js")
    done = subprocess.run(
        [NODE, script, site], input=json.dumps(queries), capture_output=True, text=True, check=True
    )
    found: list[list[str]] = json.loads(done.stdout)
    return found


def in_python(site: Path, queries: list[str]) -> list[list[str]]:
    text = (site / "searchindex.js").read_text("utf-8")
    index: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").rstrip(")"))
    data = (site / "_static" / "language_data.js").read_text("utf-8")
    listed = re.search(r"stopwords = new Set\((\[.*?\])\)", data)
    assert listed is not None
    ignored = set(json.loads(listed[1]))
    stem = snowballstemmer.stemmer("english").stemWord
    names = [{stem(word) for word in _words(title)} for title in index["titles"]]
    return [
        _ranked(index, names, {stem(word) for word in _words(query) if word not in ignored})
        for query in queries
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _listed(found: Any) -> list[int]:
    return [] if found is None else found if isinstance(found, list) else [found]


def _ranked(index: dict[str, Any], names: list[set[str]], words: set[str]) -> list[str]:
    pages = index["docnames"]
    scores = dict.fromkeys(range(len(pages)), 0.0)
    for word in words:
        titled = set(_listed(index["titleterms"].get(word)))
        holding = titled | set(_listed(index["terms"].get(word)))
        rarity = math.log(1 + len(pages) / (1 + len(holding)))
        for page in holding:
            scores[page] += rarity * (4 if word in names[page] else 2 if page in titled else 1)
    for page, name in enumerate(pages):
        if re.match("benchmarks|decisions|audit|fuzz", name):
            scores[page] *= 0.6
    best = sorted((page for page in scores if scores[page]), key=lambda one: -scores[one])
    return [pages[page] for page in best]
