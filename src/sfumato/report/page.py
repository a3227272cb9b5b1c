"""`index.html`: the public page, made from release folders and nothing else.

    write_page("release/week-37")                          # one release, page beside its table
    build_page(["release/week-37", "release/week-38"])     # one page with a week chooser

The same folders give the same bytes. The manifest's list of file digests is left out, so that
the page's own digest can be added to that list afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.io.writers import write_bytes
from sfumato.model.errors import UsageError
from sfumato.report.clock import encode_clock
from sfumato.report.document import inert_json, render
from sfumato.report.facts import label_facts
from sfumato.report.folder import ReleaseFolder, read_folder
from sfumato.report.numbers import encode_numbers
from sfumato.report.outlines import encode_outlines
from sfumato.report.words import Words, load_words

PAGE_NAME = "index.html"
Folders = str | Path | Sequence[str | Path]


def build_page(folder: Folders, language: str = "en") -> str:
    """The page of one release, or of several that are shown by turns, oldest first."""
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise UsageError("A page needs at least one release.", remedy="Name its folder.")
    words = load_words(language)
    releases = sorted((read_folder(f) for f in folders), key=lambda r: int(r.edges[0]))
    data = encode_releases(releases, words)
    first = data["releases"][0]["facts"]
    return render(
        "public.html",
        "main",
        data,
        words,
        styles=("page", "public"),
        title=first["name"] or words["page"]["untitled"],
    )


def write_page(folder: Folders, out: str | Path | None = None, language: str = "en") -> Path:
    """Write the page beside the table of a single release, or where `out` says."""
    if out is None:
        if not isinstance(folder, str | Path):
            raise UsageError(
                "A page of several releases belongs to none of their folders.",
                remedy="Say where to write it with --out FILE.",
            )
        out = Path(folder) / PAGE_NAME
    write_bytes(out, build_page(folder, language).encode())
    return Path(out)


def encode_releases(releases: Sequence[ReleaseFolder], words: Words) -> dict[str, Any]:
    """What the page's script reads; equal maps are held once."""
    maps: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    entries = []
    for release in releases:
        drawn = {
            "ids": list(release.zone_ids),
            "names": list(release.shapes.names),
            "districts": list(release.shapes.districts),
            "outlines": None
            if release.shapes.geometry is None
            else encode_outlines(release.shapes.geometry),
        }
        key = inert_json(drawn)
        if key not in known:
            known[key] = len(maps)
            maps.append(drawn)
        entries.append(
            {
                "map": known[key],
                "clock": encode_clock(release.edges, release.ends, release.tz),
                "numbers": encode_numbers(release.count, release.lower, release.upper),
                "city": [round(float(total), 2) for total in np.nansum(release.count, axis=0)],
                "facts": label_facts(release.manifest, words),
            }
        )
    return {"maps": maps, "releases": entries}
