"""Doubt on the map, in each browser that is installed: what is uncertain is drawn so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.reports.browsing import Browser, Page
from tests.reports.conftest import city_release, made_posterior, write_release

from sfumato.model.places import PlaceKind, Places
from sfumato.published import Release, read_release
from sfumato.reports.classes import measured, sequential, shown_bounds
from sfumato.reports.figures import class_names
from sfumato.reports.page import write_page

pytestmark = pytest.mark.xdist_group("browser")
ABOUT = {
    "title": "Nights in Example City",
    "publisher": "Example Statistics",
    "licence": "CC-BY-4.0",
    "contact": "data@example.org",
}


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Errors that are large at night and small by day."""
    folder = tmp_path_factory.mktemp("doubt") / "week-37"
    city_release(folder, 60, sums=True, sd=60.0, manifest={"about": ABOUT})
    return read_release(folder)


@pytest.fixture(scope="module")
def page(week: Release) -> Path:
    return write_page(week.folder)


def doubtful_slot(week: Release) -> int:
    """A time slot of which some zones are uncertain and some are not."""
    assert week.uncertain is not None
    share = week.uncertain.mean(axis=0)
    slot = int(np.argmin(np.abs(share - 0.5)))
    assert 0.2 < share[slot] < 0.8
    return slot


def contrast(picture: np.ndarray, x: int, y: int) -> float:
    """Of the lightest and the darkest pixel around a spot."""
    part = picture[y - 5 : y + 6, x - 5 : x + 6].mean(axis=2)
    return float(part.max() - part.min())


def test_uncertain_counts_are_faded_and_a_switch_shows_them(
    reader: Page, page: Path, week: Release
) -> None:
    slot = doubtful_slot(week)
    reader.open(page)
    reader.js("sfumato.page.go(arguments[0])", slot)
    marked = reader.js("return [...sfumato.page.map.fills.marked]")
    assert week.uncertain is not None
    assert np.array_equal(np.array(marked, bool), week.uncertain[:, slot])
    assert reader.js("return sfumato.page.map.fills.fade") is True
    number = int(week.uncertain[:, slot].sum())
    assert reader.text("#uncertain-note") == f"{number} of 60 zones uncertain in this time slot"
    assert "uncertain" in reader.text("#legend")
    faded = reader.picture("#map")
    reader.click("#uncertain")
    assert reader.js("return sfumato.page.map.fills.fade") is False
    assert (np.abs(faded - reader.picture("#map")).max(axis=2) > 24).mean() > 0.02
    assert (reader.requests(), reader.complaints()) == ([], [])  # type: ignore[attr-defined]


@pytest.mark.parametrize("dark", [False, True])
def test_hatching_is_seen_on_every_class(reader: Page, page: Path, dark: bool) -> None:
    reader.open(page)
    if dark:
        reader.click("#theme")
    reader.click("#uncertain")
    reader.js(
        "const p = sfumato.page, n = p.map.fills.colours.length, z = p.release.zones;"
        "p.map.paint(Int8Array.from({length: z}, (_, k) => k % n), p.map.fills.colours,"
        "  new Uint8Array(z).fill(1), false, false)"
    )
    picture, box = reader.picture("#map"), reader.box("#map")
    kinds = reader.js("return sfumato.page.map.fills.colours.length")
    for kind in range(kinds):
        spots = [reader.at_zone(z) for z in range(kind, 60, kinds)]
        seen = [contrast(picture, int(x - box["left"]), int(y - box["top"])) for x, y in spots]
        assert np.median(seen) > 60, f"class {kind}"


def test_the_tip_follows_the_clock_and_changes_have_their_interval(
    reader: Page, page: Path, week: Release
) -> None:
    reader.open(page)
    reader.js("sfumato.page.go(12)")
    reader.move(*reader.at_zone(30))
    reader.until(lambda: reader.seen("#map-tip"))
    before = reader.text("#map-tip")
    assert "12:00" in before
    reader.js("sfumato.page.go(20)")
    assert "20:00" in reader.text("#map-tip") != before
    reader.js("sfumato.page.pin(4); sfumato.page.choose(30)")
    found = re.search(r"([+−])([\d,.]+) ± ([\d,.]+) against", reader.text("#map-tip"))
    assert found, reader.text("#map-tip")
    starts, ends = week.grid.starts(), week.grid.ends()
    zones = [str(week.ids[30])]
    compared = week.compare(
        {"zones": zones, "start": starts[20], "end": ends[20]},
        {"zones": zones, "start": starts[4], "end": ends[4]},
    )
    assert compared.difference.plus_minus is not None
    half = float(found[3].replace(",", ""))
    assert half == pytest.approx(compared.difference.plus_minus, rel=0.25)
    assert "±" in reader.text("#ranking")
    assert found[0].partition(" against")[0] in reader.text("#compared")
    assert re.fullmatch(
        r"(\d+ of 60 zones with an|No) uncertain changes?", reader.text("#uncertain-note")
    )


def test_a_link_brings_back_zone_hour_and_view(reader: Page, page: Path, week: Release) -> None:
    reader.open(page)
    reader.js("sfumato.page.go(33); sfumato.page.choose(7); sfumato.page.map.zoomBy(2.5)")
    reader.until(lambda: "view=" in reader.js("return location.hash"))
    link = reader.js("return location.hash")
    assert f"zone={week.ids[7]}" in link
    view = reader.js("return sfumato.page.map.looking()")
    reader.open(page, hash=link)
    assert reader.js("return [sfumato.page.slot, sfumato.page.chosen]") == [33, 7]
    again = reader.js("return sfumato.page.map.looking()")
    assert all(again[key] == pytest.approx(view[key], abs=0.01) for key in view)


@pytest.mark.parametrize(
    "link", ["#zone=nowhere&time=soon&view=9,9,9", "#%E0%A4%A", "#<script>", "#view=0.5,0.5,1e9"]
)
def test_links_that_say_nothing_are_ignored(reader: Page, page: Path, link: str) -> None:
    reader.open(page, hash=link)
    assert reader.js("return [sfumato.page.chosen, sfumato.page.map.looking()]") == [-1, None]
    assert reader.complaints() == []  # type: ignore[attr-defined]


def test_who_publishes_it_and_caveats_stand_above_the_map(reader: Page, page: Path) -> None:
    reader.open(page)
    assert reader.text("#title") == ABOUT["title"]
    said = "Published by Example StatisticsLicence: CC-BY-4.0Contact: data@example.org"
    assert reader.text("#about") == said
    assert reader.js("return document.querySelector('#about a').href").startswith("mailto:")
    assert reader.box("#caveats-box")["top"] < reader.box("#map")["top"]
    assert reader.text("#label-box").count("ε") == 1
    assert "ε = 0.3, δ = 2×10⁻⁷" in reader.text("#label-box")


@pytest.mark.parametrize("width", [390, 820, 1024, 1400])
def test_it_reflows(reader: Page, page: Path, width: int) -> None:
    reader.open(page, width, 900)
    assert reader.js("return document.documentElement.scrollWidth") <= width
    chosen, ranking = reader.box("#zone-box"), reader.box("#map-box")
    below = chosen["top"] >= ranking["top"] + ranking["height"]
    assert below is (width < 1080), "on narrow screens what is chosen is told below the map"


def test_towers_are_points_with_their_own_word(reader: Page, tmp_path: Path) -> None:
    corners = shapely.points([[2.0, 48.0], [2.1, 48.0], [2.1, 48.1], [2.0, 48.1]])
    towers = Places.of(PlaceKind.TOWERS, ["t0", "t1", "t2", "t3"], list(corners))
    manifest: dict[str, Any] = {"released": {"kind": "towers", "count": 4}}
    folder = write_release(tmp_path / "towers", towers, days=1, manifest=manifest)
    reader.open(write_page(folder))
    assert reader.text("#subtitle").startswith("Estimated visits at 4 towers, 24 time slots")
    assert "zone" not in reader.js("return document.querySelector('main').innerText").lower()


def test_one_zone_and_one_time_slot(reader: Page, tmp_path: Path) -> None:
    place = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2, 48, 2.1, 48.1)], ["Old town"])
    reader.open(write_page(write_release(tmp_path / "one", place, days=1, step="24h")))
    assert reader.text("#subtitle").startswith("Estimated visits in 1 zone, 1 time slot, Monday")
    assert reader.text("#zone-name") == "Old town"
    assert not reader.seen("#play")
    assert not reader.seen("#compare")


def test_figures_have_the_classes_and_colours_of_the_page(
    reader: Page, page: Path, week: Release
) -> None:
    reader.open(page)
    bounds = shown_bounds([measured(week)])["density"]
    assert reader.js("return sfumato.page.breaks") == bounds
    assert reader.js("return sfumato.page.map.fills.colours") == sequential(len(bounds) + 1)
    shown = reader.js(
        "return [...document.querySelectorAll('#legend li:not(.wide)')].map(e => e.textContent)"
    )
    assert shown == class_names(bounds)[::-1]


SPARSE = {
    "ones": (np.full((20, 24), 1.0), (0.6, 0.9, 1.4)),
    "sure": (np.full((20, 24), 1.0), (1.0, 1.0, 1.0)),
    "thousandths": (np.full((20, 24), 0.004), (0.001, 0.003, 0.009)),
    "nobody": (np.zeros((20, 24)), (0.0, 0.0, 0.4)),
}


@pytest.mark.parametrize("name", SPARSE)
def test_a_nearly_empty_map_claims_no_certainty(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    """All numbers alike and small: no interval is rounded away, every class has a name."""
    counts, ends = SPARSE[name]
    cells = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.02) for k in range(20)]
    places = Places.of(PlaceKind.ZONES, [f"z{k:02}" for k in range(20)], cells)
    layers = [np.full((20, 24), end) for end in ends]
    rng = np.random.default_rng(1)
    sums = made_posterior(counts, 0.3, rng)
    folder = write_release(
        tmp_path / "r", places, counts=counts, intervals=layers, sums=sums, days=1
    )
    browser.open(write_page(folder))
    browser.move(*browser.at_zone(3))
    browser.settle()
    said = browser.js("return document.body.innerText")
    assert not re.search(r"± 0(?![.,\d])", said), re.findall(r".*± 0(?![.,\d]).*", said)
    classes = browser.js(
        "return [...document.querySelectorAll('#legend li')].map((e) => e.textContent)"
    )
    assert classes
    assert all(classes)
    assert ("one class: the numbers hardly differ" in classes) == (name == "nobody")
    assert browser.complaints() == []
    assert class_names([]) == ["one class: the numbers hardly differ"]
