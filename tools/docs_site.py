"""The documentation site: lays out its source in `out/docs`, builds it to `out/site` (`make docs`).

    python -m tools.docs_site            # the whole site; any warning is an error
    python -m tools.docs_site --run      # executes the notebooks first and writes their outputs

Pages of `docs/` are taken as they are. What is made here: the reference (`tools.docs_reference`),
the notebooks as pages (`tools.docs_notebooks`), and the lists of contents: a page that nobody has
put in a section is added to the explanations, so that none is ever out of reach.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools import docs_notebooks, docs_reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTIONS = {
    "Begin": [
        "Tutorial <tutorial>", "notebooks/index", "howto/index", "Choosing <choosing>", "glossary",
    ],
    "How to": [
        "files", "UTC or local time <howto/clocks>", "Towers that moved <howto/towers-that-moved>",
        "Zones added later <howto/zones-added-later>",
        "Next month, too <howto/next-month>", "What a kill does <howto/killed>",
        "Move a ledger <howto/move-ledger>", "For the data protection officer <howto/dpia>",
        "QGIS <howto/qgis>",
        "Data portals <publishing>", "Population, two operators <people>", "asking", "querying",
        "scale", "adapters/multimno", "adapters/flowkit",
    ],
    "Explanation": [
        "guarantees", "ledger", "schemes", "streams", "traces", "attacks", "auditing", "frontier",
        "reproduction-paris", "The chapter <chapter>", "Every document <documents>",
    ],
    "Reference": [
        "commands/index", "python", "reference/api", "reference/options", "reference/config",
        "reference/exit-codes", "reference/manifest", "reference/tables",
        "formats",
    ],
    "Evidence": ["audit", "audit-streams", "fuzz", "faults", "benchmarks/index", "decisions/index"],
}  # fmt: skip
"""Captions of the side bar, and the pages below each."""
OTHERS = "Explanation"
LISTS = {
    "commands": "",
    "benchmarks": "# Benchmarks\n\nSpeed and utility, with the commands that measure them.\n\n",
    "decisions": "# Decisions\n\nWhat was weighed, also when the answer was no.\n\n",
}
"""Folders whose pages are listed on a page of their own, and not in the side bar, which every page
has; how those pages begin. Commands are listed by what they are for."""
LEFT_OUT = {"site", "notebooks"}


def sections() -> dict[str, list[str]]:
    """Caption to pages, with those of `docs/` that no section names."""
    made = {name: list(pages) for name, pages in SECTIONS.items()}
    named = {page.rstrip(">").split("<")[-1] for pages in made.values() for page in pages}
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS).with_suffix("").as_posix()
        if page.split("/")[0] not in {*LISTS, *LEFT_OUT} and page not in {*named, "index"}:
            made[OTHERS].append(page)
    return made


def lay_out(to: Path, *, notebooks: bool = True) -> Path:
    """The source of the site: pages, pictures, reference, notebooks, lists of contents."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(DOCS, to, ignore=lambda folder, names: _ignored(Path(folder), names))
    for name, text in docs_reference.pages().items():
        _write(to / "reference" / name, text)
    for folder, index in LISTS.items():
        titles = {}
        for path in sorted((to / folder).glob("*.md")):
            text = path.read_text("utf-8")
            titles[path.name] = text.lstrip().partition("\n")[0].removeprefix("# ")
            _write(path, f"---\norphan: true\n---\n{text}")
        listed = "".join(f"* [{title}]({name})\n" for name, title in titles.items())
        _write(to / folder / "index.md", index + listed if index else _commands())
    if notebooks:
        docs_notebooks.write_pages(DOCS / "notebooks", to / "notebooks")
    trees = [_contents(pages, caption) for caption, pages in sections().items()]
    _write(to / "index.md", "\n".join([(DOCS / "index.md").read_text("utf-8"), *trees]))
    return to


def build(source: Path, site: Path) -> list[str]:
    """Build with warnings as errors.

    Returns:
        The warnings; an empty list is a site that is whole, every link and anchor of it.
    """
    from io import StringIO

    from sphinx.application import Sphinx
    from sphinx.util.console import nocolor

    nocolor()
    said = StringIO()
    shutil.rmtree(site, ignore_errors=True)
    app = Sphinx(
        source, DOCS / "site", site, site / ".doctrees", "html",
        status=None, warning=said, freshenv=True,
    )  # fmt: skip
    app.build()
    shutil.rmtree(site / ".doctrees")
    return [line for line in said.getvalue().splitlines() if line.strip()]


def _ignored(folder: Path, names: list[str]) -> set[str]:
    here = folder == DOCS
    return {
        name
        for name in names
        if (here and name in LEFT_OUT)
        or (folder.name == "benchmarks" and name.endswith(".json"))
        or name == "__pycache__"
    }


def _commands() -> str:
    """All commands by what they are for, as `sfumato --help` lists them."""
    from sfumato.cli.main import COMMANDS

    parts = ["# Commands", "A page for each, with examples that run. `sfumato -h` lists them, too."]
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
        here = [(k, v.help) for k, v in COMMANDS.items() if v.panel == panel]
        rows = [f"| [`sfumato {name}`]({name}.md) | {said} |" for name, said in here]
        title = panel[0].upper() + panel[1:]
        parts.append(
            "\n".join([f"## {title}", "", "| command | what it does |", "|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _contents(pages: list[str], caption: str) -> str:
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def main() -> int:
    if "--run" in sys.argv[1:]:
        for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
            docs_notebooks.execute(notebook, write=True)
    site = ROOT / "out" / "site"
    found = build(lay_out(ROOT / "out" / "docs"), site)
    print(*found, sep="\n", file=sys.stderr)
    print(f"{site / 'index.html'}: {len(list(site.rglob('*.html')))} pages, {len(found)} warnings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
