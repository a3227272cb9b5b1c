"""The documentation site: built without a warning, whole, complete, readable without a network."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.docs.pages import ROOT
from tests.docs.searching import NODE, found_pages, in_python
from tools import docs_notebooks, docs_reference, docs_site

pytestmark = [
    pytest.mark.xdist_group("site"),
    pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app"),  # theirs to mend
]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

QUESTIONS = {
    "a tower moved during the period": "howto/towers-that-moved",
    "towers that moved": "howto/towers-that-moved",
    "antenna was relocated": "howto/towers-that-moved",
    "which epsilon and cap": "choosing",
    "which epsilon should I choose": "choosing",
    "how many people are enough": "choosing",
    "how many people do I need": "choosing",
    "can I publish next month too": "howto/next-month",
    "next month": "howto/next-month",
    "we have two operators in one city": "people",
    "two operators": "people",
    "zones were added later": "howto/zones-added-later",
    "what if a zone is split": "howto/zones-added-later",
    "what do I tell our lawyer": "howto/dpia",
    "what to tell a data protection officer": "howto/dpia",
    "DPIA GDPR": "howto/dpia",
    "how do I open it in QGIS": "howto/qgis",
    "qgis": "howto/qgis",
    "how do I get the population": "people",
    "population instead of subscribers": "people",
    "UTC or local": "howto/clocks",
    "are times in UTC or local time?": "howto/clocks",
    "what does a kill do": "howto/killed",
    "what happens if the process is killed": "howto/killed",
    "how to move a ledger": "howto/move-ledger",
    "move the ledger to another machine": "howto/move-ledger",
}
"""What people type, and the page that answers it: the twelve questions, most of them twice."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Built once a run: a second process waits and takes what the first has built.

    The group alone does not see to it: pytest-xdist 3.8 loses groups under pytest 9.2.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of this run, and common to its processes
    site, said = folder / "docs-site", folder / "docs-warnings.json"
    with (folder / "docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            warnings = docs_site.build(docs_site.lay_out(folder / "docs-source"), site)
            said.write_text(json.dumps(warnings), "utf-8")
    return site, json.loads(said.read_text("utf-8"))


@pytest.fixture(scope="session")
def site(built: tuple[Path, list[str]]) -> Path:
    return built[0]


def test_built_without_a_warning(built: tuple[Path, list[str]]) -> None:
    assert built[1] == []


def test_a_wrong_link_would_be_a_warning(tmp_path: Path) -> None:
    """A page that is nowhere, an anchor that is not there, a page that no list has."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "static").symlink_to(ROOT / "docs" / "site" / "static")
    page = "# One\n\n[no page](two.md) [no anchor](#three) [other](four.md#five)\n"
    (source / "index.md").write_text(page)
    (source / "four.md").write_text("# Four\n")
    said = "\n".join(docs_site.build(source, tmp_path / "site"))
    for wrong in ("two.md", "three", "five", "four.md"):
        assert wrong in said, said


class _Page(HTMLParser):
    """Ids, links and what is loaded."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.ids |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        elif tag in {"script", "img", "iframe"} and "src" in said:
            self.loaded.append(said["src"])
        elif tag == "link" and said.get("rel") not in {"canonical", "search"}:
            self.loaded.append(said.get("href", ""))


@pytest.fixture(scope="session")
def parsed(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_and_anchor_leads_somewhere(parsed: dict[Path, _Page]) -> None:
    for path, page in parsed.items():
        for link in (*page.links, *page.loaded):
            if re.match(r"[a-z]+:", link) or not link:
                continue
            target, _, anchor = unquote(link).partition("#")
            where = (path.parent / target.partition("?")[0]).resolve() if target else path
            assert where.exists(), (path.name, link)
            if anchor and where.suffix == ".html":
                assert anchor in parsed[where].ids, (path.name, link)


def test_nothing_is_fetched_from_elsewhere(site: Path, parsed: dict[Path, _Page]) -> None:
    for path, page in parsed.items():
        assert not [one for one in page.loaded if re.match(r"(?:https?:)?//", one)], path.name
    for sheet in site.rglob("*.css"):
        text = sheet.read_text("utf-8")
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", text), sheet.name


def test_every_page_of_docs_is_reached_from_the_first(
    site: Path, parsed: dict[Path, _Page]
) -> None:
    seen, ahead = set(), [site / "index.html"]
    while ahead:
        path = ahead.pop()
        if path in seen or path not in parsed:
            continue
        seen.add(path)
        targets = [unquote(link).partition("#")[0] for link in parsed[path].links]
        ahead += [(path.parent / target).resolve() for target in targets if target]
    for page in (ROOT / "docs").rglob("*.md"):
        made = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert made in seen, page.name


def text_of(site: Path, page: str) -> str:
    """What a reader sees of a page's article."""
    html = (site / f"{page}.html").read_text("utf-8").partition("<article")[2]
    return unescape(re.sub(r"<[^>]+>", "", html.partition("</article>")[0]))


def whole(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def flags(command: Any) -> Iterator[str]:
    for one in command.params:
        if one.param_type_name == "option" and one.name != "help":
            yield from (*one.opts, *one.secondary_opts)


def test_every_command_flag_key_function_field_and_exit_code_is_on_a_page(site: Path) -> None:
    """Counted, so that an empty list does not pass for a complete one."""
    counted = dict.fromkeys(("commands", "flags", "keys", "names", "methods", "codes"), 0)
    options, config = text_of(site, "reference/options"), text_of(site, "reference/config")
    api, codes = text_of(site, "reference/api"), text_of(site, "reference/exit-codes")
    parts = re.split(r"\n(?=sfumato [a-z])", options)
    for name, command in docs_reference.commands():
        (mine,) = [part for part in parts if part.startswith(f"sfumato {name}¶")]
        counted["commands"] += 1
        for flag in flags(command):
            assert whole(flag, mine if flag != "--config" else options), (name, flag)
            counted["flags"] += 1
    listed = docs_reference.keys()
    for key in listed:
        assert whole(key, config), key
        counted["keys"] += 1
    for name in docs_reference.public_names(docs_reference.sfumato_lab):
        assert whole(f"sfumato_lab.{name}", api), name
    for name in docs_reference.public_names():
        assert whole(f"sfumato.{name}", api), name
        counted["names"] += 1
        noun = getattr(docs_reference.sfumato, name)
        for method in docs_reference.methods(noun) if isinstance(noun, type) else ():
            assert whole(f"{name}.{method}", api), method
            counted["methods"] += 1
    for code in {0, *(one.exit_code for _, one in docs_reference.error_classes())}:
        assert re.search(rf"^{code}$", codes, re.MULTILINE), code
        counted["codes"] += 1
    least = {"commands": 30, "flags": 400, "keys": 150, "names": 20, "methods": 40, "codes": 4}
    assert all(counted[kind] >= least[kind] for kind in least), counted


def test_every_field_of_the_manifest_is_on_its_page(site: Path) -> None:
    from sfumato.published.manifest import Manifest

    text = text_of(site, "reference/manifest")
    schema = Manifest.model_json_schema(by_alias=True)
    kinds = {"Manifest": schema, **schema["$defs"]}
    for kind in kinds.values():
        for field in kind.get("properties", {}):
            assert whole(field, text), field


def test_the_sites_own_search_finds_the_answers(site: Path) -> None:
    """Among the first three; by the site's scripts in node, or the same ranking in Python."""
    found = dict(zip(QUESTIONS, found_pages(site, list(QUESTIONS)), strict=True))
    missed = {q: found[q][:4] for q, page in QUESTIONS.items() if page not in found[q][:3]}
    assert not missed, missed


def test_both_ways_of_searching_agree(site: Path) -> None:
    """On the best page; ties and Sphinx's own scores for titles may order the next otherwise."""
    if NODE is None:
        pytest.skip(
            "node is not installed: the site's scripts were not run, only their Python form"
        )
    asked = list(QUESTIONS)
    by_node, by_python = found_pages(site, asked), in_python(site, asked)
    for query, left, right in zip(asked, by_node, by_python, strict=True):
        assert left[0] in right[:3], query
        assert right[0] in left[:3], query
        assert QUESTIONS[query] in right[:3], query


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_page_shows_what_it_gave(path: Path, tmp_path: Path) -> None:
    cells = docs_notebooks.execute(path)
    stored = [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    for now, then in zip(cells, stored, strict=True):
        kinds = [sorted(one.get("data", ())) for one in now["outputs"]]
        assert kinds == [sorted(one.get("data", ())) for one in then["outputs"]]
    page = docs_notebooks.page(path, tmp_path)
    assert "```python" in page
    assert list(tmp_path.glob("*.png")), "a notebook without a picture"


def test_there_are_notebooks_for_three_kinds_of_readers() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["operator", "researcher", "statistician"]
