"""The page as a reader meets it: opened from a file in Chromium, with the network cut."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
from PIL import Image
from tests.reports.test_internal import evaluation
from tests.synthesis.trips.made_up import BOX, towns_trips, traces_of

import sfumato
from sfumato.io.traces import to_table
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published import read_release
from sfumato.reports.internal import write_internal_page
from sfumato.reports.page import write_page

pytestmark = pytest.mark.xdist_group("browser")  # one costly fixture, made once

HERE = Path(__file__).parent
SPACE, DOWN, ENTER, ESCAPE, RIGHT = " ", "\ue015", "\ue007", "\ue00c", "\ue014"


@pytest.fixture(scope="module")
def page(release: Path) -> Path:
    return write_page(release)


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    browser.open(page)
    return browser


def changed(before: np.ndarray, after: np.ndarray) -> float:
    """Share of pixels that look different."""
    return float((np.abs(before - after).max(axis=2) > 24).mean())


def cell(release: Path, zone: int, slot: int) -> dict[str, float]:
    table = pq.read_table(release / "density.parquet").slice(zone * 168 + slot, 1)
    return {name: table[name][0].as_py() for name in ("count", "lower", "upper")}


def test_made_up_trips_stand_beside_what_was_released(browser: Any, tmp_path: Path) -> None:
    """The page of a folder of `synth`: squares, hours, lengths and ends, made up and measured."""
    sides = ",".join(f"{side}" for side in BOX.bounds)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("trips", Cap(4.0, 1e-3), Unit.parse("trajectory"))
    pq.write_table(to_table(traces_of(towns_trips(200))), tmp_path / "trips.parquet")
    made = sfumato.synth(
        tmp_path / "trips.parquet", out=tmp_path / "made", dataset="trips", method="adatrace",
        start="2024-03-04", end="2024-03-06", tz="Europe/Paris", epsilon=2.0, delta=1e-3,
        expected_users=200, region=sides, ledger=ledger, anyway=True,
    )  # fmt: skip
    browser.open(made.folder / "index.html")
    count = "return document.querySelectorAll('#people-box {}').length"
    assert browser.js(count.format(".made-map rect")) == 36
    assert browser.js(count.format(".released-map rect")) == 36
    assert browser.js(count.format(".released-bar")) == browser.js(count.format(".made-bar")) > 9
    assert browser.js(count.format(".released-line")) == 1
    rows = "return [...document.querySelectorAll('#people-box tbody tr')].map(r => r.innerText)"
    assert all("column" in row and row.count("%") == 2 for row in browser.js(rows))
    assert browser.complaints() == []


def test_it_asks_the_network_for_nothing_and_complains_of_nothing(opened: Any) -> None:
    opened.js("document.getElementById('play').click()")
    opened.js("document.getElementById('table-box').open = true")
    opened.settle()
    assert opened.requests() == []
    assert opened.complaints() == []
    assert opened.js("return performance.getEntriesByType('resource').length") == 0


def test_the_policy_stops_what_a_hole_would_let_in(opened: Any) -> None:
    opened.js(
        "const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        "document.body.append(s); new Image().src = 'https://example.org/x.png';"
        "const d = document.createElement('div'); d.innerHTML = '<b onclick=\"window.owned=1\">';"
        "document.body.append(d); d.firstChild.click();"
    )
    opened.settle()
    assert opened.js("return typeof window.owned") == "undefined"
    assert opened.requests() == ["https://example.org/x.png"], "the count sees refused ones too"
    refused = [text for text in opened.complaints() if "Content Security Policy" in text]
    assert len(refused) >= 3
    assert any("example.org" in text for text in refused)


def test_the_slider_changes_map_time_and_ranking(opened: Any) -> None:
    opened.js("sfumato.page.go(3)")
    night = opened.pixels("#map")
    assert opened.text("#time-hours") == "03:00–04:00"
    assert opened.text("#time-day") == "Monday 10 September 2007"
    assert opened.text("#time-zone") == "CEST, UTC+2"
    for _ in range(9):
        opened.press(RIGHT, "#slider")
    assert opened.text("#time-hours") == "12:00–13:00"
    assert changed(night, opened.pixels("#map")) > 0.1
    assert "12:00" in opened.find("#slider").get_attribute("aria-valuetext")
    opened.find("#next").click()
    assert opened.text("#time-hours") == "13:00–14:00"


def test_play_runs_through_the_hours_and_pauses(opened: Any) -> None:
    before = opened.js("return sfumato.page.slot")
    opened.find("#play").click()
    assert opened.find("#play").get_attribute("aria-label") == "Pause"
    opened.until(lambda: opened.js("return sfumato.page.slot") >= before + 2)
    opened.find("#play").click()
    halted = opened.text("#time-hours")
    opened.driver.execute_async_script("setTimeout(arguments[0], 600)")
    assert opened.text("#time-hours") == halted


def test_hovering_shows_the_tables_number_with_its_interval(opened: Any, release: Path) -> None:
    opened.js("sfumato.page.go(20)")
    x, y = opened.at_zone(30)
    opened.mouse("mouseMoved", x, y)
    opened.until(lambda: opened.find("#map-tip").is_displayed())
    exact = cell(release, 30, 20)
    shown = opened.text("#map-tip")
    assert f"{round(exact['count']):,}" in shown
    assert "±" in shown
    assert str(round(exact["upper"] - exact["count"]))[:2] in shown
    assert "ε 0.3" in shown
    assert "per km²" in shown
    opened.mouse("mouseMoved", 5, 5)
    assert not opened.find("#map-tip").is_displayed()


def test_clicking_a_zone_shows_its_hours_against_city_and_kind_of_day(opened: Any) -> None:
    city = opened.pixels("#series")
    opened.click_at(*opened.at_zone(12))
    name = opened.js("return sfumato.page.release.map.names[12]")
    assert opened.text("#zone-name") == name
    assert changed(city, opened.pixels("#series")) > 0.02
    keys = opened.text("#series-key")
    for word in ("this zone", "95 % interval", "days of this kind", "whole city"):
        assert word in keys
    assert "±" in opened.text("#zone-value")
    opened.click_at(*opened.at_zone(12))
    assert opened.text("#zone-name") == "All zones together"


def test_the_map_pans_and_zooms_and_comes_back(opened: Any) -> None:
    whole = opened.pixels("#map")
    opened.find("#zoom-in").click()
    opened.find("#zoom-in").click()
    near = opened.pixels("#map")
    assert changed(whole, near) > 0.2
    box = opened.js(
        "const b = arguments[0].getBoundingClientRect(); return [b.x, b.y]", opened.find("#map")
    )
    opened.mouse("mousePressed", box[0] + 200, box[1] + 200, button="left", clickCount=1)
    opened.mouse("mouseMoved", box[0] + 300, box[1] + 240, button="left", buttons=1)
    opened.mouse("mouseReleased", box[0] + 300, box[1] + 240, button="left", clickCount=1)
    assert changed(near, opened.pixels("#map")) > 0.1
    assert opened.text("#zone-name") == "All zones together", "a drag is no click"
    opened.find("#zoom-all").click()
    opened.mouse("mouseMoved", 5, 5)
    assert changed(whole, opened.pixels("#map")) < 0.005


def test_a_zone_is_found_by_name_from_the_keyboard(opened: Any) -> None:
    opened.press("/")
    assert opened.js("return document.activeElement.id") == "search"
    opened.press("QUARTER 17", "#search")
    assert opened.js("return document.querySelectorAll('#search-list li').length") >= 1
    assert opened.find("#search").get_attribute("aria-expanded") == "true"
    opened.press(ENTER, "#search")
    assert "quarter 17" in opened.text("#zone-name")
    opened.js("document.activeElement.select()")
    opened.press("nowhere at all", "#search")
    assert "No zone is called" in opened.text("#search-none")


def test_two_hours_are_compared(opened: Any) -> None:
    opened.js("sfumato.page.go(4)")
    opened.find("#compare").click()
    opened.js("sfumato.page.go(20)")
    assert "Change since Mon 10, 04:00–05:00" in opened.text("#compared")
    assert "Change" in opened.text("#legend")
    assert "+" in opened.text("#legend")
    assert "−" in opened.text("#legend")
    assert opened.text("#ranking-title") == "Largest changes"
    compared = opened.pixels("#map")
    opened.find("#compare").click()
    assert changed(compared, opened.pixels("#map")) > 0.1
    assert opened.text("#ranking-title") == "Busiest zones"


def test_the_hour_is_downloaded_as_shown(opened: Any, release: Path) -> None:
    opened.js("sfumato.page.go(20)")
    opened.find("#csv-hour").click()
    rows = list(csv.DictReader(io.StringIO(opened.downloaded(".csv"))))
    assert len(rows) == 60
    for k in (0, 31, 59):
        for name, value in cell(release, k, 20).items():
            assert abs(float(rows[k][name]) - value) <= 0.51
    assert rows[0]["time_start"] == "2007-09-10T20:00:00+02:00"
    opened.find("#geojson-hour").click()
    shapes = json.loads(opened.downloaded(".geojson"))
    assert len(shapes["features"]) == 60
    assert shapes["epsilon"] == "0.3"
    assert opened.complaints() == []


def test_dark_colours_by_button_and_by_preference(opened: Any) -> None:
    light = opened.pixels("#map")
    opened.find("#theme").click()
    dark = opened.pixels("#map")
    assert light[2:12, 2:12].mean() > 200
    assert dark[2:12, 2:12].mean() < 60
    opened.find("#theme").click()
    assert opened.pixels("#map")[2:12, 2:12].mean() > 200
    opened.js("delete document.documentElement.dataset.theme")
    opened.prefer("dark")
    opened.until(lambda: opened.pixels("body")[0, 0].mean() < 60)
    assert opened.pixels("#map")[2:12, 2:12].mean() < 60


def test_everything_is_reached_by_keys_and_said_aloud(opened: Any) -> None:
    opened.js("sfumato.page.go(10)")
    opened.press(".")
    assert opened.text("#time-hours") == "11:00–12:00"
    opened.press(">")
    assert opened.text("#time-day") == "Tuesday 11 September 2007"
    assert opened.text("#time-hours") == "11:00–12:00"
    opened.press("c")
    assert opened.find("#compare").get_attribute("aria-pressed") == "true"
    opened.press("c")
    opened.until(lambda: "Busiest" in opened.text("#live"))
    assert opened.find("#live").get_attribute("aria-live") == "polite"
    opened.press("+", "#map")
    assert opened.js("return sfumato.page.map.view.scale > sfumato.page.map.least")
    opened.press(SPACE)
    assert opened.find("#play").get_attribute("aria-pressed") == "true"
    opened.press(SPACE)
    opened.js("sfumato.page.choose(3)")
    opened.press(ESCAPE)
    assert opened.text("#zone-name") == "All zones together"
    nameless = opened.js(
        "return [...document.querySelectorAll('button,input,select,[role=img]')].filter(e => "
        "!(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).length"
    )
    assert nameless == 0


def test_the_table_holds_every_zone_of_the_hour(opened: Any, release: Path) -> None:
    opened.js("sfumato.page.go(20); document.getElementById('table-box').open = true")
    opened.until(
        lambda: opened.js("return document.querySelectorAll('#table-body tr').length") == 60
    )
    shown = opened.js(
        "return [...document.querySelectorAll('#table-body tr:nth-child(8) td')]"
        ".map(t => t.textContent)"
    )
    exact = cell(release, 7, 20)
    *numbers, doubt = shown[1:]
    assert [int(t.replace(",", "")) for t in numbers] == [round(v) for v in exact.values()]
    uncertain = read_release(release).uncertain
    assert uncertain is not None
    assert doubt == ("yes" if uncertain[7, 20] else "")
    assert "20:00–21:00 (CEST, UTC+2)" in opened.text("#table-caption")


def test_the_label_and_the_strip_stay_in_sight(opened: Any) -> None:
    label = opened.text(".label")
    for word in (
        "ε",
        "0.3",
        "2×10⁻⁷",
        "one person's whole record",
        "3 about these people",
        "bayes",
        "2026-05-04",
    ):
        assert word in label
    opened.js("window.scrollTo(0, 900)")
    opened.settle()
    top = opened.js("return document.getElementById('strip').getBoundingClientRect().top")
    assert top == 0
    assert "ε = 0.3" in opened.text("#strip")


def test_the_strip_of_hours_leads_to_zone_and_hour(opened: Any) -> None:
    opened.js("document.getElementById('heat').scrollIntoView({block: 'center'})")
    x, y, width = opened.js(
        "const b = document.getElementById('heat').getBoundingClientRect();"
        "return [b.left, b.top, b.width]"
    )
    opened.click_at(x + width * 0.5, y + 8)
    slot, zone = opened.js("return [sfumato.page.slot, sfumato.page.chosen]")
    assert 82 <= slot <= 86
    totals = opened.js("return Array.from({length: 60}, (_, z) => sfumato.page.release.total(z))")
    assert zone == int(np.argmax(totals))


def test_weeks_are_chosen_and_compared_by_weekday(
    browser: Any, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    cells = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.03) for k in range(4)]
    places = Places.of(PlaceKind.ZONES, list("abcd"), cells)
    weeks = [
        make_release(tmp_path / name, places, start=start, seed=k)
        for k, (name, start) in enumerate(
            [("one", date(2007, 10, 22)), ("two", date(2007, 10, 29))]
        )
    ]
    browser.open(write_page(weeks, tmp_path / "weeks.html"))
    assert browser.find("#week").is_displayed()
    browser.js("sfumato.page.choose(2); sfumato.page.go(168)")
    assert browser.text("#time-zone") == "CET, UTC+1", "a week of 169 hours ends in winter time"
    assert "same weekday" in browser.text("#series-key")
    browser.js(
        "const w = document.getElementById('week'); w.value = '1';"
        "w.dispatchEvent(new Event('change'))"
    )
    assert browser.text("#time-day").endswith("November 2007")
    assert browser.complaints() == []


HOSTILE = [
    "</script><script>window.owned = 1</script>", '"><img src=x onerror="window.owned=1">',
    "<svg onload=window.owned=1>", "O'Neill & Söhne", "مدينة", "🏙️ Centre", "javascript:owned=1",
]  # fmt: skip


def test_hostile_names_are_shown_as_text(
    browser: Any, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    cells = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.03) for k in range(len(HOSTILE))]
    places = Places.of(PlaceKind.ZONES, HOSTILE, cells, [f"{n} ~" for n in HOSTILE])
    manifest = {
        "release": {"name": HOSTILE[0], "dataset": HOSTILE[1], "id": HOSTILE[2]},
        "privacy": {"bound": HOSTILE[1], "unit": HOSTILE[2]},
        "caveats": HOSTILE,
    }
    folder = make_release(tmp_path / "r", places, HOSTILE, days=1, manifest=manifest)
    browser.open(write_page(folder))
    browser.js("document.getElementById('table-box').open = true")
    names = browser.js("return sfumato.page.release.map.names")
    for k, name in enumerate(names):
        browser.js("sfumato.page.choose(arguments[0])", k)
        assert browser.text("#zone-name") == name
    assert sorted(names) == sorted(f"{n} ~" for n in HOSTILE)
    browser.until(lambda: HOSTILE[0] in browser.text("#table-body"))
    assert browser.text("#title") == HOSTILE[0]
    assert browser.js("return typeof window.owned") == "undefined"
    assert browser.js("return document.querySelectorAll('img, svg[onload]').length") == 0
    assert browser.requests() == []
    assert browser.complaints() == []


def test_without_outlines_there_is_no_map_but_every_number(
    browser: Any, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    towers = Places.of(PlaceKind.TOWERS, ["t1", "t2"], [shapely.Point(2, 48), shapely.Point(3, 48)])
    browser.open(write_page(make_release(tmp_path / "r", towers, days=1, with_zones=False)))
    assert browser.find(".map-none").is_displayed()
    assert not browser.find("#map").is_displayed()
    assert browser.js("return document.querySelectorAll('#ranking li').length") == 2
    browser.open(write_page(make_release(tmp_path / "dots", towers, days=1)))
    browser.click_at(*browser.at_zone(1))
    assert browser.text("#zone-name") == "t2"
    assert browser.complaints() == []


def test_the_internal_page_shows_three_maps_in_step(browser: Any, tmp_path: Path) -> None:
    browser.open(write_internal_page(evaluation(), tmp_path))
    assert (tmp_path / "internal.html").stat().st_mode & 0o077 == 0, "for its owner alone"
    assert browser.driver.title.startswith("INTERNAL")
    browser.js("window.scrollTo(0, 1200)")
    browser.settle()
    assert browser.js("return document.getElementById('banner').getBoundingClientRect().top") == 0
    browser.js("window.scrollTo(0, 0)")
    panes = [browser.pixels(f"#{name}") for name in ("original", "private", "error")]
    assert changed(panes[0], panes[2]) > 0.2
    browser.js("sfumato.page.maps[1].zoomBy(2)")
    views = browser.js("return sfumato.page.maps.map(m => m.view.scale)")
    assert len(set(views)) == 1
    assert changed(panes[0], browser.pixels("#original")) > 0.1
    before = browser.pixels("#private")
    browser.js(
        "const j = document.getElementById('judged'); j.value = '1';"
        "j.dispatchEvent(new Event('change'))"
    )
    assert changed(before, browser.pixels("#private")) > 0.02
    assert "as printed" in browser.text("#note")
    assert "laplace, ε 1" in browser.text("#fails-note")
    assert "membership" in browser.text("#attacks")
    assert "right in" in browser.text("#tracks-person")
    lines = browser.pixels("#tracks-map")
    browser.js(
        "const t = document.getElementById('tracks-table'); t.value = '1';"
        "t.dispatchEvent(new Event('change'))"
    )
    assert changed(lines, browser.pixels("#tracks-map")) > 0.005, "another table, another way"
    assert browser.find("#by-slot").is_displayed()
    assert browser.find("#hours-emd").is_displayed()
    assert browser.requests() == []
    assert browser.complaints() == []


def test_paper_is_light_and_marked(browser: Any, page: Path, tmp_path: Path) -> None:
    browser.open(page)
    browser.find("#theme").click()
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.pixels("#time-day")[0, 0].mean() > 200
    assert not browser.find("#play").is_displayed()
    flat = browser.js(
        "const m = sfumato.page.map, a = m.map.anchors[30];"
        "return m.above.getContext('2d').getImageData("
        "m.view.x + m.view.scale * a[0], m.view.y + m.view.scale * a[1], 1, 1).data[3]"
    )
    assert flat == 255, "colours and lines are on one canvas, as printers need them"
    assert browser.find(".label").is_displayed()
    browser.open(write_internal_page(evaluation(), tmp_path))
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    mark = browser.js("return getComputedStyle(document.body, '::after').content")
    assert mark == '"INTERNAL"'
    browser.cdp("Emulation.setEmulatedMedia", media="screen")


@pytest.mark.parametrize("name", ["light", "dark", "phone", "compare"])
def test_it_looks_as_it_did(browser: Any, page: Path, name: str) -> None:
    """Set SFUMATO_ACCEPT_IMAGES=1 to store what is seen after looking at it."""
    browser.open(page, *((390, 800) if name == "phone" else (1000, 760)))
    browser.js("sfumato.page.go(36)")
    browser.js("document.getElementById('caveats-box').hidden = true")  # pushes the map out of view
    if name == "dark":
        browser.find("#theme").click()
    if name == "compare":
        browser.js("sfumato.page.pin(27)")
    seen = browser.pixels("#map-box")
    stored = HERE / "images" / f"{name}.png"
    if os.environ.get("SFUMATO_ACCEPT_IMAGES"):
        stored.parent.mkdir(exist_ok=True)
        Image.fromarray(seen.astype(np.uint8)).quantize(200).save(stored, optimize=True)
    wanted = Image.open(stored).convert("RGB")
    assert abs(wanted.height - seen.shape[0]) <= 40, "the layout moved"
    height = min(wanted.height, seen.shape[0])
    small = (seen.shape[1] // 4, height // 4)
    images = [
        np.asarray(image.crop((0, 0, seen.shape[1], height)).resize(small), dtype=np.int16)
        for image in (wanted, Image.fromarray(seen.astype(np.uint8)))
    ]
    assert changed(*images) < 0.06, "fonts and edges may differ, the picture may not"


def test_without_intervals_the_page_says_so_once_and_shows_none(
    browser: Any, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    """As of a stream: no band, no columns of ends, nothing to hatch, no word beside each number."""
    cells = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.03) for k in range(3)]
    folder = make_release(
        tmp_path / "r", Places.of(PlaceKind.ZONES, ["a", "b", "c"], cells), days=1, intervals=False,
        manifest={"kind": "stream", "scheme": {"name": "stream/rhythm", "interval_coverage": 0}},
    )  # fmt: skip
    browser.open(write_page(folder))
    browser.js("document.getElementById('table-box').open = true")
    browser.js("sfumato.page.choose(1)")
    browser.settle()
    assert "no interval stated" in browser.text("#strip")
    assert not browser.find("#uncertain-box").is_displayed()
    assert "interval" not in browser.text("#series-key")
    for shown in ("#ranking", "#zone-value", "#table-body"):
        assert browser.text(shown).strip()
        assert not any(word in browser.text(shown) for word in ("±", "interval", "no number"))
    heads = browser.js("return [...document.querySelectorAll('th')].filter(h => !h.hidden).length")
    assert heads == 3 + 3, "zone, id and estimate; three rows are headed by their zones"
    assert browser.complaints() == []
