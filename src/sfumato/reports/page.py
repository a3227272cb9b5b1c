"""`index.html`: the public page, made from release folders and nothing else.

    write_page("release/week-37")                          # one release, page beside its table
    build_page(["release/week-37", "release/week-38"])     # one page with a week chooser

The same folders give the same bytes. The manifest's list of file digests is left out, so that
the page's own digest can be added to that list afterwards.

The page is one HTML file: a template, the style, the data as inert JSON, the script, and a policy.
The content-security policy allows this style and this script by their hashes and nothing else: no
network, no other script, not even one that a hostile zone name would bring along. Libraries for
maps draw what they fetch, tiles, styles or workers, which this policy forbids: hence a map of our
own that needs nothing but the outlines in the page. The data is a JSON block in which every `<`,
`>` and `&` is escaped, so no text can end it, and the script puts texts on the page as text only.

The script is one inline module in which each source file becomes a closure, in order of its
imports. The files are ordinary ES modules, so that editors, type checkers and test runners read
them as they are. Only two forms are allowed, and checked: `import { a, b } from "./file.js";` and
`export` before `function`, `async function`, `class` or `const`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from sfumato.errors import UsageError
from sfumato.io.write import write_bytes
from sfumato.model.source import Progress
from sfumato.model.tiles import give_back
from sfumato.published.release import Release, as_release
from sfumato.reports.classes import encode_bits, sampled, shown_bounds
from sfumato.reports.encode import encode_numbers, encode_outlines
from sfumato.reports.privacy_label import (
    Words,
    encode_clock,
    fill,
    label_facts,
    load_words,
    number_of,
)
from sfumato.reports.sums import encode_factors
from sfumato.reports.synthetic import people_of_page

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b", re.MULTILINE)


@cache
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


@cache
def asset(path: str) -> str:
    """A file of the report's assets, as text."""
    return resources.files("sfumato.reports").joinpath(f"assets/{path}").read_text("utf-8")


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


_UNSAFE = "<>&\u2028\u2029"
"""What ends a script element or a line of it."""


class _ByKey(jinja2.Environment):
    """`words.page.copy` is the word, never a method of the dictionary that holds it."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)


@cache
def _environment() -> _ByKey:
    """Templates are compiled once: a live stream writes its page again with every slot."""
    return _ByKey(
        loader=jinja2.FunctionLoader(lambda name: asset(f"html/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, script: str, data: dict[str, Any], words: Words, **more: Any) -> str:
    """The whole file. `template` and `script` name assets; `data` is what the script reads."""
    style = "\n".join(asset(f"css/{name}.css") for name in more.pop("styles"))
    code = bundle(script)
    return (
        _environment()
        .get_template(template)
        .render(
            words=words,
            policy=policy(style, code),
            style=Markup(style),
            script=Markup(code),
            data=Markup(inert_json({"words": words, **data})),
            **more,
        )
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
    for sign in _UNSAFE:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


PAGE_NAME = "index.html"
Given = str | Path | Release
Folders = Given | Sequence[Given]


def build_page(folder: Folders, language: str = "en") -> str:
    """The page of one release or stream, or of several that are shown by turns, oldest first."""
    given = [folder] if isinstance(folder, Given) else list(folder)
    if not given:
        raise UsageError("A page needs at least one release.", remedy="Name its folder.")
    releases = sorted(map(as_release, given), key=lambda r: int(r.grid.edges[0]))
    words = load_words(language, {r.manifest.released.kind for r in releases})
    data = encode_releases(releases, words)
    first = data["releases"][0]["facts"]
    people = people_of_page(releases[0]) if len(releases) == 1 else None
    return render(
        "public.html",
        "main",
        data,
        words,
        styles=("page", "public") if people is None else ("page", "public", "people"),
        people=people,
        title=first["name"] or words["page"]["untitled"],
    )


def write_page(folder: Folders, out: str | Path | None = None, language: str = "en") -> Path:
    """Write the page beside the table of a single release, or where `out` says.

    Raises:
        UsageError: The release has another page, for whose digest its manifest vouches.
    """
    if out is not None:
        write_bytes(out, build_page(folder, language).encode())
        return Path(out)
    if not isinstance(folder, Given):
        raise UsageError(
            "A page of several releases belongs to none of their folders.",
            remedy="Say where to write it: give `out`.",
        )
    release = as_release(folder)
    page = build_page(release, language).encode()
    listed = release.manifest.files.get(PAGE_NAME)
    if listed is not None and hashlib.sha256(page).hexdigest() != listed:
        # Replaced, it would no longer be the file that was published, and every reader refuse it.
        raise UsageError(
            f"{release.folder / PAGE_NAME} was published with the release and is another page than "
            "this version makes.",
            remedy="Say where to write the new one: give `out`.",
        )
    write_bytes(release.folder / PAGE_NAME, page)
    return release.folder / PAGE_NAME


def encode_releases(releases: Sequence[Release], words: Words) -> dict[str, Any]:
    """What the page's script reads; equal maps are held once."""
    maps: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    entries: list[dict[str, Any]] = []
    for release in releases:
        drawn = release.geometry
        places = {
            "ids": release.ids.tolist(),
            "names": list(release.names),
            "districts": list(release.districts),
            "outlines": None if drawn is None else encode_outlines(drawn),
        }
        key = inert_json(places)
        if key not in known:
            known[key] = len(maps)
            maps.append(places)
        edges = release.grid.edges
        entries.append(
            {
                "map": known[key],
                "clock": encode_clock(edges, edges[1:], release.grid.tz),
                "numbers": encode_numbers(
                    release.values, release.lower, release.upper, release.median
                ),
                "city": [round(float(total), 2) for total in np.nansum(release.values, axis=0)],
                "facts": label_facts(release.manifest.model_dump(mode="json"), words)
                | _how_far(release, words),
            }
        )
        faded = release.uncertain
        if faded is not None:
            entries[-1]["uncertain"] = encode_bits(faded)
        give_back(release.values.shape)
        if release.posterior is not None:
            entries[-1]["sums"] = encode_factors(release.posterior)
            give_back(release.values.shape)
        if release.total_interval is not None:
            entries[-1]["city_ends"] = [
                [round(float(end), 2) if np.isfinite(end) else None for end in ends]
                for ends in release.total_interval.T
            ]
    held = (maps[entry["map"]]["outlines"] or {} for entry in entries)
    tables = [sampled(r, map.get("km2")) for r, map in zip(releases, held, strict=True)]
    bounds = shown_bounds(tables)
    return {"maps": maps, "releases": entries, "bounds": bounds}


def _how_far(release: Release, words: Words) -> dict[str, str]:
    """As of when the page of a stream that goes on is; of a very long one, what it shows."""
    grid, last = release.grid, release.grid.end(-1)
    if release.kind != "stream":
        return {}
    slots = number_of("slots", grid.slots, words)
    if not release.sealed and last < datetime.fromisoformat(release.manifest.grid.end):
        time = f"{last:%Y-%m-%d %H:%M} {last.tzname()}"
        return {"as_of": fill(words["page"]["as_of"], time=time, tz=grid.tz, slots=slots)}
    if grid.slots < release.manifest.grid.slots:
        return {"last": fill(words["page"]["last"], slots=slots)}
    return {}


def report(
    releases: Folders,
    *,
    out: str | Path | None = None,
    figures: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Make the offline page from releases or streams alone, and figures for papers.

    Args:
        releases: One, or several (weeks), which give one page with a chooser.
        out: File of the page; default: index.html in the folder of a single release.
        figures: Folder for figures, PNG and SVG; none: no figures.
        progress: Told the stage and its share.

    Returns:
        The files that were written.

    Raises:
        InputError: A release is not as it was published.
        UsageError: Several releases and no `out`.

    Example:
        >>> sfumato.report(["releases/week-37", "releases/week-38"], out="weeks.html")
        ... # doctest: +SKIP
    """
    found = [as_release(one) for one in ([releases] if isinstance(releases, Given) else releases)]
    written = [write_page(found[0] if len(found) == 1 else found, out)]
    if figures is not None:
        from sfumato.reports.figures import write_figures  # matplotlib is an extra

        if progress is not None:
            progress("drawing figures", -1.0)
        bounds = shown_bounds([sampled(r) for r in found])  # those of the page
        for release in found:
            home = Path(figures)
            target = home if len(found) == 1 else home / release.folder.absolute().name
            written += write_figures(release, target, bounds)
    return written
