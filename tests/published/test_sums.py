"""Sums of a release: what may be asked, how it is told, and what cannot be answered."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import shapely
from tests.published.told import FIRST, Town

import sfumato
from sfumato.errors import InputError, UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published import Release, read_release
from sfumato.published.estimate import Estimate
from sfumato.published.posterior import POSTERIOR
from sfumato.published.selection import as_polygon, slot_weights

PARIS = ZoneInfo("Europe/Paris")
MONTH = TimeGrid.between(date(2024, 3, 1), date(2024, 4, 5), "1h", "Europe/Paris")


@pytest.fixture(scope="module")
def published(town: Town, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """The town's weekend, by a scheme that states a posterior and one that cannot."""
    home = tmp_path_factory.mktemp("sums")
    book = Ledger(home / "books" / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=3.0, delta=1e-3), Unit.parse("user-period"))
    return {
        scheme: sfumato.release(
            town.folder / "events.parquet",
            out=home / scheme,
            dataset="town",
            epsilon=1.0,
            delta=1e-5,
            start=FIRST,
            end=FIRST + timedelta(days=2),
            tz="Europe/Paris",
            towers=town.folder / "towers.csv",
            zones=town.folder / "zones.geojson",
            expected_users=1200,
            anyway=True,
            scheme=scheme,
            ledger=book,
        )
        for scheme in ("bayes", "gaussian")
    }


@pytest.fixture(scope="module")
def weekend(published: dict[str, Release]) -> Release:
    return read_release(published["bayes"].folder)


def test_everything_is_the_stated_total(weekend: Release) -> None:
    found, total = weekend.sum(), weekend.manifest.total
    assert total is not None
    assert found.value == pytest.approx(total.value, abs=0.01)
    assert (found.plus_minus or 0.0) == pytest.approx((total.upper - total.lower) / 2, rel=0.03)
    assert found.ends == pytest.approx((total.lower, total.upper), rel=0.01)
    assert found.coverage == total.coverage
    assert weekend.manifest.posterior is not None
    assert weekend.manifest.posterior.stated
    assert "posterior.npz: how errors" in (weekend.folder / "README.txt").read_text()


def test_what_is_printed_with_an_interval_keeps_it(weekend: Release) -> None:
    """A cell's own ends, which a sum of one cell would miss by a step here and there."""
    assert weekend.lower is not None
    assert weekend.upper is not None
    first, then = "2024-03-30T18:00", "2024-03-30T20:00"
    for k, zone in enumerate(weekend.ids.tolist()):
        cell = weekend.sum(zones=zone, start=first, end="2024-03-30T19:00")
        assert cell.ends == (weekend.lower[k, 18], weekend.upper[k, 18])
        rows = weekend.profile("slot", zones=zone, start=first, end=then).rows
        printed = zip(weekend.lower[k, 18:20], weekend.upper[k, 18:20], strict=True)
        assert [row["average"].ends for row in rows] == list(printed)
        both = weekend.sum(zones=zone, start=first, end=then)
        assert both.ends[1] - both.ends[0] > 0, "more than one cell has the posterior's"


def test_the_estimation_error_is_that_of_one_cell_without_chance(weekend: Release) -> None:
    factors, error = weekend.posterior, weekend.estimation_error
    assert factors is not None
    assert error is not None
    for place, slot in ((0, 0), (2, 17), (len(weekend.ids) - 1, 40)):
        cell = (np.eye(len(weekend.ids))[[place]], np.eye(error.shape[1])[[slot]])
        alone = factors.variances(*cell) - factors.chance_of(*cell)
        assert error[place, slot] == pytest.approx(np.sqrt(alone[0]), rel=1e-3, abs=1e-3)
    assert weekend.uncertain is not None
    assert np.array_equal(weekend.uncertain, error > np.abs(weekend.values) / 2)


def test_sums_add_up_and_their_errors_do_not(weekend: Release) -> None:
    each = [weekend.sum(zones=zone) for zone in weekend.ids.tolist()]
    whole = weekend.sum()
    assert sum(one.value for one in each) == pytest.approx(whole.value)
    halves = [one.plus_minus or 0.0 for one in each]
    # Neither independent nor of one piece.
    assert np.hypot.reduce(halves) < (whole.plus_minus or 0.0) < sum(halves)


def test_times_are_local_and_fall_on_slots(weekend: Release) -> None:
    """The clocks go forward in the night to Sunday: that day has 23 hours."""
    day = weekend.sum(start="2024-03-31")
    assert day.value == pytest.approx(float(weekend.values[:, 24:].sum()))
    noon = datetime(2024, 3, 31, 12, tzinfo=PARIS)
    assert weekend.sum(end=noon).value == pytest.approx(float(weekend.values[:, :35].sum()))
    assert weekend.select(hours="2").slots.sum() == 1, "two o'clock was left out on Sunday"
    assert weekend.select(weekdays="sunday").slots.sum() == 23
    for wrong in ("2024-03-30T08:30", datetime(2024, 4, 7)):
        with pytest.raises(InputError, match="47 slots of 1h from Sat 2024-03-30 00:00"):
            weekend.sum(start=wrong)
    with pytest.raises(UsageError, match="neither a date"):
        weekend.sum(start="morning")
    with pytest.raises(InputError, match="not after"):
        weekend.sum(start="2024-03-31", end="2024-03-31")
    with pytest.raises(InputError, match="no such hours"):
        weekend.sum(weekdays="mon-fri")


def test_hours_and_weekdays_in_any_words() -> None:
    def chosen(**words: object) -> np.ndarray:
        return slot_weights(MONTH, **words)  # type: ignore[arg-type]

    eight = chosen(hours="8-10")
    assert eight.sum() == 2 * 35
    for same in ([8, 9], range(8, 10), "8,9"):
        np.testing.assert_array_equal(chosen(hours=same), eight)
    assert chosen(hours=8).sum() == 35
    assert chosen(hours="22-6").sum() == 8 * 35 - 1, "the hour that the clocks skipped"
    assert chosen(hours="0-24").sum() == MONTH.slots
    work = chosen(weekdays="mon-fri", hours="12-13")
    np.testing.assert_array_equal(work, chosen(weekdays=[0, 1, 2, 3, 4], hours=12))
    np.testing.assert_array_equal(work, chosen(weekdays="mon,tue,wed,thu,Friday", hours=12))
    assert chosen(weekdays="fri-mon", hours=12).sum() == 20
    for wrong in ("8-25", "ten", -1, [], "", 24):
        with pytest.raises(UsageError, match="hours are not understood"):
            chosen(hours=wrong)
    for wrong in ("day", "t", 7, [], ["mon", "x"]):
        with pytest.raises(UsageError, match="days of the week"):
            chosen(weekdays=wrong)


def test_slots_are_not_cut() -> None:
    thirds = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 11), "8h", "Europe/Paris")
    assert slot_weights(thirds, hours="8-16").sum() == 7
    with pytest.raises(UsageError, match="21 slots of 8h"):
        slot_weights(thirds, hours="8-10")
    days = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 11), "1d", "Europe/Paris")
    assert slot_weights(days, weekdays="sat-sun").sum() == 2
    halves = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "30min", "Europe/Paris")
    assert slot_weights(halves, hours="8-10").sum() == 4


def test_a_polygon_takes_shares_of_area(weekend: Release, tmp_path: Path) -> None:
    assert weekend.geometry is not None
    shape = weekend.geometry[3]
    west, south, east, north = shapely.bounds(shape)
    half = shapely.box(west, south, (west + east) / 2, north)
    weights = weekend.select(polygon=half).places
    assert weights[3] == pytest.approx(shapely.area(half & shape) / shapely.area(shape))
    assert 0 < weights[3] < 1
    every = shapely.union_all(weekend.geometry).buffer(0.01)
    assert weekend.sum(polygon=every) == weekend.sum()
    file = tmp_path / "half.geojson"
    said = json.loads(shapely.to_geojson(half))
    file.write_text(json.dumps({"type": "Feature", "properties": {}, "geometry": said}))
    box = f"{west},{south},{(west + east) / 2},{north}"
    for same in (said, json.dumps(said), half.wkt, str(file), file, box):
        found = weekend.select(polygon=same).places
        np.testing.assert_allclose(found, weights, atol=1e-6)


def test_what_is_not_there_is_named(weekend: Release) -> None:
    with pytest.raises(InputError, match="Did you mean Z000"):
        weekend.sum(zones="Z0000")
    with pytest.raises(InputError, match=r"no zone 'nowhere' and 1 others\. There are Z00001, Z0"):
        weekend.sum(zones=["nowhere", "somewhere"])
    with pytest.raises(UsageError, match="No zone is named"):
        weekend.sum(zones=[])
    with pytest.raises(InputError, match=r"outside of the release\. Its places lie between 2"):
        weekend.sum(polygon="POLYGON((10 10,11 10,11 11,10 10))")
    with pytest.raises(UsageError, match="one of the two"):
        weekend.sum(zones="Z00001", polygon="0,0,1,1")
    for empty in ("POLYGON EMPTY", shapely.Point(2, 48), {"type": "x"}, "POLYGON((", "{"):
        with pytest.raises(UsageError, match="polygon"):
            as_polygon(empty)


def test_a_scheme_without_posterior_says_why(published: dict[str, Release]) -> None:
    plain = read_release(published["gaussian"].folder)
    found = plain.sum(hours="8-10")
    assert (found.lower, found.upper, found.coverage) == (None, None, None)
    assert str(found).endswith("(no interval)")
    assert plain.posterior is None
    assert plain.manifest.posterior is not None
    assert "left out" in plain.manifest.posterior.why_not


def test_folders_of_earlier_versions_have_sums_without_interval(
    weekend: Release, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(weekend.folder, old)
    said = json.loads((old / "manifest.json").read_text())
    del said["posterior"], said["files"][POSTERIOR]
    (old / "manifest.json").write_text(json.dumps(said))
    release = read_release(old)
    assert release.manifest.posterior is None
    assert release.sum(hours=8).value == pytest.approx(weekend.sum(hours=8).value)
    assert release.sum(hours=8).plus_minus is None


def test_an_altered_posterior_is_refused(weekend: Release, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(weekend.folder, copy)
    damaged = bytearray((copy / POSTERIOR).read_bytes())
    damaged[100] ^= 1
    (copy / POSTERIOR).write_bytes(damaged)
    with pytest.raises(InputError, match="not as it was published"):
        read_release(copy)
    other = (copy / "measurements.npz").read_bytes()
    (copy / POSTERIOR).write_bytes(other)
    text = (copy / "manifest.json").read_text()
    digest = weekend.manifest.files[POSTERIOR]
    (copy / "manifest.json").write_text(text.replace(digest, hashlib.sha256(other).hexdigest()))
    with pytest.raises(InputError, match="does not hold the posterior"):
        read_release(copy).sum()


def test_the_last_slots_alone_can_be_asked(weekend: Release) -> None:
    late = read_release(weekend.folder, last=6)
    asked = weekend.sum(start="2024-03-31T18:00")
    assert (late.sum().value, *late.sum().ends) == pytest.approx((asked.value, *asked.ends))


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(12_337.2, 11_930.0, 12_750.0, 0.9), "12,340 ± 410 (90 %)"),
        (Estimate(12_337.2), "12,337 (no interval)"),
        (Estimate(0.3456, 0.33, 0.36, 0.95), "0.346 ± 0.015 (95 %)"),
        (Estimate(3.14, 0.6, 8.2, 0.9), "3.1 (0.6 to 8.2, 90 %)"),
        (Estimate(-512.0, -1300.0, 280.0, 0.9), "-510 ± 790 (90 %)"),
        (Estimate(5.0, 5.0, 5.0, 0.9), "5 ± 0 (90 %)"),
        (Estimate(0.0), "0 (no interval)"),
    ],
)
def test_estimates_print_as_far_as_they_are_known(estimate: Estimate, text: str) -> None:
    assert str(estimate) == text


def test_several_polygons_are_one_area_and_the_answer_says_so(
    weekend: Release, tmp_path: Path
) -> None:
    west, south, east, north = shapely.total_bounds(weekend.geometry)
    middle = (west + east) / 2
    halves = [shapely.box(west, south, middle, north), shapely.box(middle, south, east, north)]
    features = [
        {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(half))}
        for half in halves
    ]
    both = {"type": "FeatureCollection", "features": features}
    (tmp_path / "districts.geojson").write_text(json.dumps(both))
    for given in (both, json.dumps(both), tmp_path / "districts.geojson"):
        found = sfumato.ask(weekend, polygon=given)
        assert found.rows[0]["total"].value == pytest.approx(weekend.sum().value)
        assert "one sum over 2 polygons together" in str(found).splitlines()[0]
        assert found.numbers()["rows"][0]["polygons"] == 2
        assert any("one of them at a time" in note for note in found.notes)
        for by in ({"by": "hour"}, {"rank": "zone"}, {"share_of": {"zones": "all"}}):
            assert "2 polygons together" in str(sfumato.ask(weekend, polygon=given, **by))
    for one in (halves[0], shapely.MultiPolygon([shapely.box(*half.bounds) for half in halves])):
        assert "polygons" not in str(sfumato.ask(weekend, polygon=one))


def test_a_file_may_be_called_polygon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what goes on as a shape does is one: a name that begins like one is a name."""
    square = shapely.box(2.3, 48.8, 2.4, 48.9)
    feature = {"type": "Feature", "properties": {}, "geometry": shapely.geometry.mapping(square)}
    (tmp_path / "polygon.geojson").write_text(json.dumps(feature))
    monkeypatch.chdir(tmp_path)
    for given in (
        "polygon.geojson",
        square.wkt,
        square.wkt.replace(" ((", "(("),
        square.wkt.lower(),
    ):
        assert shapely.area(as_polygon(given)) == pytest.approx(square.area)
