"""The page of a stream that goes on, in Chromium: as of when, loaded again, and at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import shapely
from tests.reports.browsing import Browser
from tests.streams.stating import use_intervals

import sfumato
from sfumato.city import CityPlan, build_city
from sfumato.io.write import write_places
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger

pytestmark = pytest.mark.xdist_group("browser")
PARIS = ZoneInfo("Europe/Paris")


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A city of 40 zones; 6 slots of two hours are out."""
    use_intervals(monkeypatch)
    city = build_city(CityPlan(users=2_000, towers=60, zones=40, seed=7))
    write_places(tmp_path / "zones.geojson", city.zones)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("example subscribers", Cap(epsilon=9, delta=1e-4), Unit.parse("user-day"))
    middles = shapely.get_coordinates(shapely.centroid(city.zones.geometry))
    rng = np.random.default_rng(3)
    start = datetime(2024, 3, 4, tzinfo=PARIS)
    open_stream = sfumato.stream(
        zones=tmp_path / "zones.geojson", start="2024-03-04", end="2024-03-05", tz="Europe/Paris",
        slot="2h", dataset="example subscribers", epsilon=8.0, delta=1e-6, ledger=book,
        out=tmp_path / "live", name="Example City, live",
    )  # fmt: skip
    with open_stream as made:
        for slot in range(6):
            many = int(1500 + 1200 * np.sin((slot - 4) / 12 * 2 * np.pi))
            where = middles[rng.choice(40, many, p=rng.dirichlet(np.full(40, 3.0)))]
            when = (start + timedelta(hours=2 * slot, minutes=5)).isoformat()
            made.add([
                {"user": k, "time": when, "lon": lon, "lat": lat}
                for k, (lon, lat) in enumerate(where.tolist())
            ])  # fmt: skip
            made.close(slot)
        yield made


def test_a_live_page_says_as_of_when_and_is_whole_when_it_is_loaded_again(
    browser: Browser, publisher: Any
) -> None:
    page = publisher.folder / "index.html"
    browser.open(page)
    assert browser.text("#as-of").startswith("As of 2024-03-04 12:00 CET (Europe/Paris).")
    assert "6 time slots" in browser.text("#as-of")
    assert browser.find("#as-of").is_displayed()
    assert "10:00" in browser.text("#time-hours"), "it opens at the last slot that is out"
    assert "6 time slots" in browser.text("#subtitle")
    assert "stream.ndjson" in browser.text("#precision")
    assert "A slot closes" in browser.text("#caveats")
    browser.js("sfumato.page.selection.set([1, 2, 3])")
    browser.find("#sum-slot").click()
    summed = float(browser.text("#sum-value strong").split(" ")[0].replace(",", ""))
    assert summed == pytest.approx(publisher.release().values[1:4, -1].sum(), abs=1)
    browser.js("sfumato.page.selection.set([])")
    shown = browser.text("#zone-value")
    low, high = (float(end) for end in publisher.release().total_interval[-1])
    found = re.match(r"([\d,]+) ± ([\d,]+) people", shown)
    assert found, shown
    value, half = (float(text.replace(",", "")) for text in found.groups())
    assert half == pytest.approx((high - low) / 2, rel=0.06), "the sum has its interval"
    assert low <= value <= high
    assert "interval" in browser.text("#series-key")
    browser.js("sfumato.page.choose(1)")
    browser.settle()
    assert "±" in browser.text("#zone-value") or "to" in browser.text("#zone-value")
    assert (browser.requests(), browser.complaints()) == ([], [])
    publisher.close(6)
    browser.open(page)
    assert browser.text("#as-of").startswith("As of 2024-03-04 14:00 CET")
    assert "12:00" in browser.text("#time-hours")
    for slot in range(7, 12):
        publisher.close(slot)
    browser.open(page)
    assert not browser.find("#as-of").is_displayed()
    assert "12 time slots" in browser.text("#subtitle")
    assert browser.complaints() == []
