"""The page against its folder: the same numbers, the same bytes, and nothing but text."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
from tests.reports.conftest import made_posterior, week
from tests.statements import seal

from sfumato.errors import InputError, UsageError, printable
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.published import read_release
from sfumato.published.estimate import smooth_quantile
from sfumato.published.posterior import unpacked
from sfumato.reports.encode import decode_numbers
from sfumato.reports.page import build_page, write_page
from sfumato.reports.sums import decode_factors, encode_factors

Maker = Callable[..., Path]
Reader = Callable[[Path], list[dict[str, Any]]]
HOSTILE = [
    '</script><script>document.title="owned"</script>',
    '"><img src=x onerror=alert(1)>',
    "O'Neill & <b>Söhne</b>",
    "مدينة القدس",
    "🏙️ Centre \u202egnitrevni",
    "=1+1",
    "{{ 7*7 }} ${7*7} \\u003c",
    "line\u2028separator",
]


def squares(names: list[str], ids: list[str] | None = None) -> Places:
    shapes = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.02) for k in range(len(names))]
    return Places.of(PlaceKind.ZONES, ids or [f"z{k}" for k in range(len(names))], shapes, names)


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_holds_the_numbers_of_the_table(release: Path) -> None:
    entry = embedded(build_page(release))["releases"][0]
    table = pq.read_table(release / "density.parquet")
    for decoded, name in zip(
        decode_numbers(entry["numbers"]), ("count", "lower", "upper"), strict=True
    ):
        exact = table[name].to_numpy().reshape(decoded.shape)
        assert np.abs(decoded - exact).max() <= entry["numbers"]["step"] / 2 * (1 + 1e-9)


def test_the_script_decodes_what_the_table_says(release: Path, read_page: Reader) -> None:
    write_page(release)
    (shown,) = read_page(release / "index.html")
    table = pq.read_table(release / "density.parquet")
    step = 10.0 ** -shown["decimals"]
    for name in ("count", "lower", "upper"):
        error = np.abs(np.array(shown[name]) - table[name].to_numpy())
        assert error.max() <= step / 2 * (1 + 1e-9)
    assert shown["ids"] == list(dict.fromkeys(table["zone_id"].to_pylist()))
    starts = [t.isoformat() for t in table["time_start"].to_pylist()[: len(shown["starts"])]]
    assert shown["starts"] == starts
    ends = [t.isoformat() for t in table["time_end"].to_pylist()[: len(shown["ends"])]]
    assert shown["ends"] == ends


def test_the_downloads_agree_with_the_folder(release: Path, read_page: Reader) -> None:
    write_page(release)
    (shown,) = read_page(release / "index.html")
    rows = list(csv.DictReader(io.StringIO(shown["csv"])))
    table = read_release(release)
    assert [row["zone_id"] for row in rows] == table.ids.tolist()
    assert np.abs(np.array([float(r["count"]) for r in rows]) - table.values[:, 0]).max() <= 0.51
    originals = json.loads((release / "zones.geojson").read_text())["features"]
    for drawn, original in zip(shown["geojson"]["features"], originals, strict=True):
        assert drawn["properties"]["zone_id"] == original["properties"]["zone_id"]
        here, there = (shapely.from_geojson(json.dumps(f["geometry"])) for f in (drawn, original))
        assert shapely.is_valid(here)
        assert here.exterior.is_ccw
        assert shapely.symmetric_difference(here, there).area < 0.02 * there.area


def test_a_median_stands_in_table_and_downloads(
    make_release: Maker, tmp_path: Path, read_page: Reader
) -> None:
    folder = make_release(tmp_path / "r", squares(["a", "b"]), days=1, medians=True)
    page = write_page(folder)
    (shown,) = read_page(page)
    median = read_release(folder).median
    assert median is not None
    assert np.abs(np.array(shown["median"]) - median.ravel()).max() <= 0.51
    first = next(csv.DictReader(io.StringIO(shown["csv"])))
    assert list(first)[4:] == ["count", "median", "lower", "upper"]
    assert float(first["median"]) == shown["geojson"]["features"][0]["properties"]["median"]
    assert "only counts add up" in page.read_text("utf-8")
    without = make_release(tmp_path / "without", squares(["a", "b"]), days=1)
    assert "median" not in embedded(build_page(without))["releases"][0]["numbers"]
    (plain,) = read_page(write_page(without))
    assert set(plain["median"]) == {None}
    assert "median" not in plain["csv"].splitlines()[0]


def test_the_same_folder_gives_the_same_bytes_wherever_it_stands(
    release: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(release, tmp_path / "elsewhere")
    page = build_page(release)
    (other / "index.html").write_text(page, "utf-8")
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["files"]["index.html"] = hashlib.sha256(page.encode()).hexdigest()
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert build_page(other) == page


def test_a_page_that_was_published_is_not_replaced_by_another(
    release: Path, tmp_path: Path
) -> None:
    """Its digest is in the manifest: a newer page in its place would make the folder altered."""
    other = shutil.copytree(release, tmp_path / "older")
    (other / "index.html").write_text("<p>an older page</p>")
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["files"]["index.html"] = hashlib.sha256(b"<p>an older page</p>").hexdigest()
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="published with the release"):
        write_page(other)
    assert write_page(other, tmp_path / "new.html").read_text("utf-8") == build_page(release)


def test_names_and_ids_are_text_wherever_they_stand(
    make_release: Maker, tmp_path: Path, read_page: Reader
) -> None:
    ids = [f"{k}{printable(name)}" for k, name in enumerate(HOSTILE)]  # others are no keys
    folder = make_release(tmp_path / "r", squares(HOSTILE, ids), HOSTILE, days=1)
    zones = json.loads((folder / "zones.geojson").read_text())
    for feature in zones["features"]:
        feature["properties"]["onload"] = "alert(1)"
        feature["properties"]["__proto__"] = {"polluted": True}
    (folder / "zones.geojson").write_text(json.dumps(zones))
    seal(folder, json.loads((folder / "manifest.json").read_text()))
    page = build_page(folder)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<img" not in page
    assert "onerror=" not in page.replace(r"\u003cimg src=x onerror=alert(1)\u003e", "")
    assert "polluted" not in page
    (folder / "index.html").write_text(page, "utf-8")
    (shown,) = read_page(folder / "index.html")
    assert sorted(shown["names"]) == sorted(map(printable, HOSTILE))
    assert sorted(shown["ids"]) == sorted(ids)


def test_a_hostile_release_name_is_text(make_release: Maker, tmp_path: Path) -> None:
    manifest = {"release": {"name": HOSTILE[0]}}
    page = build_page(make_release(tmp_path / "r", squares(["a", "b"]), days=1, manifest=manifest))
    assert page.count("<script") == 2
    assert "&lt;/script&gt;" in page


def test_weeks_share_a_map_and_stand_in_order(make_release: Maker, tmp_path: Path) -> None:
    places = squares(["a", "b", "c"])
    second = make_release(tmp_path / "b", places, start=date(2007, 9, 17), seed=2)
    first = make_release(tmp_path / "a", places, start=date(2007, 9, 10))
    data = embedded(build_page([second, first]))
    assert len(data["maps"]) == 1
    starts = [r["clock"]["first"] for r in data["releases"]]
    assert starts == sorted(starts)
    assert starts[1] - starts[0] == 7 * 86400
    with pytest.raises(UsageError, match="several releases"):
        write_page([first, second])


def test_clock_changes_missing_numbers_and_missing_maps(
    make_release: Maker, tmp_path: Path, read_page: Reader
) -> None:
    counts = np.arange(3 * 25, dtype=float).reshape(3, 25)
    counts[1, 4] = np.nan
    folder = make_release(
        tmp_path / "r", squares(["a", "b", "c"]), start=date(2007, 10, 28), days=1,
        counts=counts, with_zones=False,
    )  # fmt: skip
    write_page(folder)
    (shown,) = read_page(folder / "index.html")
    assert len(shown["starts"]) == 25
    assert shown["starts"][2:4] == ["2007-10-28T02:00:00+02:00", "2007-10-28T02:00:00+01:00"]
    assert [k for k, v in enumerate(shown["count"]) if v is None] == [29]
    assert all(feature["geometry"] is None for feature in shown["geojson"]["features"])


def test_without_intervals_none_is_shown(
    make_release: Maker, tmp_path: Path, read_page: Reader
) -> None:
    """As of a stream: no column, no row of the label, no list of all cells without one."""
    scheme = {"name": "stream/rhythm", "interval_coverage": 0}
    folder = make_release(
        tmp_path / "r", squares(["a", "b"]), days=1, intervals=False,
        manifest={"kind": "stream", "scheme": scheme, "privacy": {"unit": "w-event:48"}},
    )  # fmt: skip
    page = write_page(folder)
    entry = embedded(page.read_text("utf-8"))["releases"][0]
    assert entry["numbers"]["up"] is entry["numbers"]["low"] is None
    assert entry["numbers"]["no_interval"] == []
    terms = {row["term"]: row["value"] for row in entry["facts"]["rows"]}
    assert "Interval" not in terms
    assert terms["Protects"] == "what one person did in any 48 successive time slots"
    (shown,) = read_page(page)
    assert shown["csv"].splitlines()[0] == "zone_id,name,time_start,time_end,count"
    assert "lower" not in shown["geojson"]["features"][0]["properties"]
    assert set(shown["lower"]) == {None}
    counts = read_release(folder).values.ravel()
    assert np.abs(np.array(shown["count"]) - counts).max() <= 0.5


def test_a_folder_that_is_no_release_is_named(tmp_path: Path, release: Path) -> None:
    with pytest.raises(InputError, match="not a release folder"):
        build_page(tmp_path)
    broken = shutil.copytree(release, tmp_path / "broken")
    (broken / "density.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"density\.parquet: it is not as it was published"):
        build_page(broken)
    seal(broken, json.loads((broken / "manifest.json").read_text()))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        build_page(broken)
    with pytest.raises(UsageError, match="at least one"):
        build_page([])


def test_a_week_of_989_zones_with_its_sums_fits_the_size(
    make_release: Maker, tmp_path: Path
) -> None:
    """Rough numbers, medians, lopsided intervals and forty fields, most of them faint: as of a
    city of 150,000 people at epsilon 1, whose page is as large."""
    cells = [shapely.box(2 + x / 400, 48 + y / 400, 2 + (x + 1) / 400, 48 + (y + 1) / 400)
             for x in range(43) for y in range(23)]  # fmt: skip
    places = Places.of(PlaceKind.ZONES, [f"Z{k:05}" for k in range(989)], cells)
    rng = np.random.default_rng(1)
    counts = week(989, TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "UTC"), 1)
    counts *= 0.08 * np.exp(0.3 * rng.standard_normal(counts.shape))
    errors = made_posterior(counts, 3.0, rng, fields=40)
    factors = unpacked(errors, counts)
    variance = np.square(factors.spread()) + factors.chance
    ends = [smooth_quantile(counts, variance, level) for level in (0.05, 0.5, 0.95)]
    folder = make_release(tmp_path / "r", places, counts=counts, intervals=ends, sums=errors)
    page = build_page(folder)
    assert "sums" in embedded(page)["releases"][0]
    assert len(page.encode()) <= 1_100 * 1024


def test_a_page_adds_up_as_the_release_does(make_release: Maker, tmp_path: Path) -> None:
    """Forty fields, of which the page holds fourteen: widths stay within what it says."""
    cells = [shapely.box(2 + k / 400, 48, 2 + (k + 1) / 400, 48.1) for k in range(120)]
    places = Places.of(PlaceKind.ZONES, [f"Z{k:05}" for k in range(120)], cells)
    rng = np.random.default_rng(2)
    counts = week(120, TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "UTC"), 1)
    errors = made_posterior(counts, 12.0, rng, fields=40)
    own = read_release(make_release(tmp_path / "r", places, counts=counts, sums=errors)).posterior
    assert own is not None
    held = decode_factors(encode_factors(own), counts)
    assert held.fields == 14
    zones = (rng.random((200, 120)) < rng.random((200, 1)) ** 4).astype(float)
    zones[np.arange(200), rng.integers(0, 120, 200)] = 1
    middle, wide = rng.uniform(0, 168, (200, 1)), 84 * rng.random((200, 1))
    slots = (np.abs(np.arange(168) - middle) <= np.maximum(wide, 0.5)).astype(float)
    value, low, high = own.estimates(zones, slots)
    shown, below, above = held.estimates(zones, slots)
    assert np.allclose(value, shown)
    assert np.quantile(np.abs((above - below) / (high - low) - 1), 0.95) < 0.06
