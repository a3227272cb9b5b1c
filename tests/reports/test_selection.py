"""Zones and hours that a reader selects on the page, and their sum: as the library says it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import shapely
from tests.reports.browsing import Browser
from tests.reports.conftest import city_release

from sfumato.model.places import PlaceKind, Places
from sfumato.published import Release, read_release
from sfumato.published.estimate import count_quantile
from sfumato.reports.encode import decode_numbers, encode_numbers
from sfumato.reports.page import write_page
from sfumato.reports.sums import decode_factors, encode_factors

pytestmark = pytest.mark.xdist_group("browser")
SCRIPTS = Path(__file__).parents[2] / "src/sfumato/reports/assets/js"
RIGHT, LEFT = "\ue014", "\ue012"


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Sixty zones, one week, with a posterior."""
    return read_release(city_release(tmp_path_factory.mktemp("sums") / "week-37", 60, sums=True))


@pytest.fixture(scope="module")
def page(week: Release) -> Path:
    return write_page(week.folder)


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


def shown(browser: Browser) -> tuple[float, float]:
    """The sum and its ± as the page prints them."""
    found = re.fullmatch(r"([\d,.]+) ± ([\d,.]+) visits", browser.text("#sum-value"))
    assert found, browser.text("#sum-value")
    value, half = (float(text.replace(",", "")) for text in found.groups())
    return value, half


def selected(browser: Browser) -> list[int]:
    return sorted(browser.js("return [...sfumato.page.selection.zones]"))


def assert_like_python(
    browser: Browser, week: Release, zones: list[int] | None, first: int = 0, last: int = 167
) -> None:
    """What is printed is what the library answers, rounded; ± to a twentieth."""
    starts, ends = week.grid.starts(), week.grid.ends()
    ids = None if zones is None else [str(week.ids[z]) for z in zones]
    wanted = week.sum(zones=ids, start=starts[first], end=ends[last])
    assert wanted.plus_minus is not None
    value, half = shown(browser)
    assert half == pytest.approx(wanted.plus_minus, rel=0.05)
    assert abs(value - wanted.value) <= 0.06 * wanted.plus_minus  # the digits that ± leaves


def drag(browser: Browser, points: list[tuple[float, float]]) -> None:
    browser.mouse("mousePressed", *points[0], button="left", clickCount=1)
    for x, y in points[1:]:
        browser.mouse("mouseMoved", x, y, button="left", buttons=1)
    browser.mouse("mouseReleased", *points[-1], button="left", clickCount=1)


def around(browser: Browser, zones: list[int], margin: float = 2.0) -> tuple[float, ...]:
    at = np.array([browser.at_zone(z) for z in zones])
    return (*(at.min(axis=0) - margin).tolist(), *(at.max(axis=0) + margin).tolist())


def inside(browser: Browser, shape: shapely.Geometry) -> list[int]:
    middles = shapely.points([browser.at_zone(z) for z in range(60)])
    return np.flatnonzero(shapely.contains(shape, middles)).tolist()


def test_without_a_selection_it_is_the_sum_of_everything(opened: Browser, week: Release) -> None:
    assert_like_python(opened, week, None)
    assert (
        opened.text("#sum-of")
        == "In all 60 zones, Mon 10, 00:00 to Sun 16, 24:00 (168 time slots)."
    )
    assert "90 % interval of the sum" in opened.text("#sum-sure")
    assert opened.complaints() == []


def test_the_total_of_every_hour_has_its_interval(opened: Browser, week: Release) -> None:
    assert week.posterior is not None
    _, low, high = week.posterior.estimates(np.ones((1, 60)), np.eye(168))
    ends = np.array(opened.js("return sfumato.page.release.cityEnds.map((e) => [...e])"))
    assert np.allclose(ends[1] - ends[0], high - low, rtol=0.05)
    assert re.search("± |–", opened.text("#zone-value"))


def test_zones_are_picked_by_clicks(opened: Browser, week: Release) -> None:
    opened.find("#tool-pick").click()
    for zone in (5, 17, 30):
        opened.click_at(*opened.at_zone(zone))
    assert selected(opened) == [5, 17, 30]
    assert_like_python(opened, week, [5, 17, 30])
    assert opened.text("#tool-sum").startswith("3 zones: ")
    opened.click_at(*opened.at_zone(17))
    assert selected(opened) == [5, 30]
    opened.find("#sum-zones button").click()
    assert selected(opened) == [30]
    assert_like_python(opened, week, [30])
    opened.find("#sum-clear").click()
    assert_like_python(opened, week, None)


def test_a_box_takes_the_zones_whose_middle_it_holds(opened: Browser, week: Release) -> None:
    before = opened.pixels("#map")
    view = opened.js("return {...sfumato.page.map.view}")
    opened.find("#tool-box").click()
    left, top, right, bottom = around(opened, [3, 20, 41])
    drag(opened, [(left, top), ((left + right) / 2, bottom), (right, bottom)])
    wanted = inside(opened, shapely.box(left, top, right, bottom))
    assert {3, 20, 41} <= set(wanted)
    assert selected(opened) == wanted
    assert_like_python(opened, week, wanted)
    assert opened.js("return {...sfumato.page.map.view}") == view, "drawing does not move the map"
    changed = np.abs(before - opened.pixels("#map")).max(axis=2) > 24
    assert changed.mean() > 0.01, "what is selected can be seen"


def test_an_outline_by_finger_and_a_stretch_of_hours(opened: Browser, week: Release) -> None:
    opened.find("#tool-outline").click()
    box = opened.js("const b = sfumato.page.map.frame.getBoundingClientRect();"
                    "return [b.left, b.top, b.right, b.bottom]")  # fmt: skip
    middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    turn = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    ring = middle + 0.3 * (box[3] - box[1]) * np.column_stack([np.cos(turn), np.sin(turn)])
    touch = "Input.dispatchTouchEvent"
    opened.cdp(touch, type="touchStart", touchPoints=[{"x": ring[0, 0], "y": ring[0, 1]}])
    for x, y in ring[1:]:
        opened.cdp(touch, type="touchMove", touchPoints=[{"x": x, "y": y}])
    opened.cdp(touch, type="touchEnd", touchPoints=[])
    wanted = inside(opened, shapely.Polygon(ring))
    assert 3 < len(wanted) < 57
    assert selected(opened) == wanted
    opened.js("sfumato.page.go(32)")
    opened.find("#sum-day").click()
    assert_like_python(opened, week, wanted, 24, 47)
    assert "24 time slots" in opened.text("#sum-of")
    opened.find("#sum-slot").click()
    assert_like_python(opened, week, wanted, 32, 32)
    assert opened.text("#sum-mean") == ""


def test_all_of_it_by_keyboard(opened: Browser, week: Release) -> None:
    opened.js("sfumato.page.choose(12)")
    opened.press("s")
    assert selected(opened) == [12]
    assert opened.find("#zone-select").text == "Out of the sum"
    opened.js("sfumato.page.choose(13)")
    opened.press("\ue007", "#zone-select")
    assert selected(opened) == [12, 13]
    opened.press(RIGHT * 8, "#sum-from")
    opened.press(LEFT * 158, "#sum-to")
    assert_like_python(opened, week, [12, 13], 8, 9)
    assert "08:00" in opened.find("#sum-from").get_attribute("aria-valuetext")
    opened.press(LEFT * 5, "#sum-to")  # never before the beginning
    assert opened.js("const s = sfumato.page.selection; return [s.first, s.last]") == [4, 4]


def test_it_fits_a_phone_and_is_printed(opened: Browser) -> None:
    opened.js("sfumato.page.selection.set([1, 2, 3])")
    opened.size(390, 844, mobile=True)
    opened.settle()
    assert opened.js("return document.documentElement.scrollWidth") <= 390
    for css in ("#sum-value", "#tool-outline", "#sum-from"):
        assert opened.find(css).is_displayed()
    opened.cdp("Emulation.setEmulatedMedia", media="print")
    assert opened.find("#sum-value").is_displayed()
    assert not opened.find("#tool-outline").is_displayed()
    opened.cdp("Emulation.setEmulatedMedia", media="")


def test_a_release_without_a_posterior_says_so(
    browser: Browser, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    corners = shapely.points([[2.0, 48.0], [2.1, 48.0], [2.1, 48.1], [2.0, 48.1]])
    towers = Places.of(PlaceKind.TOWERS, ["t0", "t1", "t2", "t3"], list(corners))
    folder = make_release(tmp_path / "towers", towers, days=1, step="12h")
    week = read_release(folder)
    browser.open(write_page(folder))
    browser.find("#tool-pick").click()
    browser.click_at(*browser.at_zone(2))
    assert selected(browser) == [2]
    value = float(browser.text("#sum-value strong").replace(",", ""))
    assert value == pytest.approx(week.values[2].sum(), abs=1)
    assert "states no interval of sums" in browser.text("#sum-sure")
    assert browser.complaints() == []


def test_a_page_holds_the_posterior_to_a_few_percent(week: Release) -> None:
    assert week.posterior is not None
    shown_counts = decode_numbers(encode_numbers(week.values, week.lower, week.upper))[0]
    kept = decode_factors(encode_factors(week.posterior), shown_counts)
    rng = np.random.default_rng(5)
    zones = (rng.random((200, 60)) < rng.random((200, 1)) ** 2).astype(float)
    zones[np.arange(200), rng.integers(0, 60, 200)] = 1
    slots = np.abs(np.arange(168) - rng.uniform(0, 168, (200, 1))) < 84 * rng.random((200, 1))
    slots = np.maximum(slots, np.arange(168) == rng.integers(0, 168, (200, 1))).astype(float)
    _, low, high = week.posterior.estimates(zones, slots)
    _, low_kept, high_kept = kept.estimates(zones, slots)
    ratio = (high_kept - low_kept) / (high - low)
    assert np.quantile(np.abs(ratio - 1), 0.95) < 0.04
    assert abs(np.median(ratio) - 1) < 0.01


def test_the_page_knows_the_same_laws(node: str) -> None:
    rng = np.random.default_rng(8)
    mean = np.exp(rng.uniform(np.log(0.05), np.log(1e6), 400))
    variance = mean * np.exp(rng.uniform(-1.5, 6, 400))
    piece = rng.choice([1.0, 0.3, 0.05], 400)
    asked = np.column_stack([mean, variance, piece]).tolist()
    script = (
        f"import {{ quantile }} from '{SCRIPTS.as_posix()}/estimate.js';"
        f"const asked = {json.dumps(asked)};"
        "console.log(JSON.stringify(asked.flatMap(([m, v, p]) =>"
        " [0.05, 0.95].map((l) => quantile(m, v, p, l)))));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    found = np.array(json.loads(done.stdout)).reshape(-1, 2)
    for k, level in enumerate((0.05, 0.95)):
        wanted = count_quantile(mean, variance, piece, level)
        assert np.allclose(found[:, k], wanted, rtol=1e-4, atol=1e-4 * np.sqrt(variance).min())
