"""multimno's data objects in, a release, and its present population per zone out."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.published.told import FIRST, GRID, Town, day_folder, write, write_lakehouse

from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.io.multimno import Zoning, day_for, midnight
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO
from sfumato.published.export import export, open_pipeline, read_population

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "multimno.md"
NETWORK = "silver/network_coverage/mno_network"


@pytest.fixture(scope="session")
def lakehouse(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multimno") / "lakehouse"
    write_lakehouse(town, folder)
    return folder


def test_what_is_counted_is_what_the_city_is(town: Town, lakehouse: Path) -> None:
    """Hashed ids, UTC times without a zone and days in folders change no count."""
    found = open_pipeline("multimno", str(lakehouse), GRID, "nuts:3")
    towers = read_towers(town.folder / "towers.csv")
    ours = LocalSource(found.open_events(None), found.towers, GRID)
    theirs = LocalSource(read_events(town.folder / "events.parquet"), towers, GRID)
    for counting in Counting:
        one, two = (s.exact(counting)._through_the_door().values for s in (ours, theirs))
        assert one.any()
        np.testing.assert_array_equal(one, two)
    assert found.towers.ids.tolist() == towers.ids.tolist()
    assert (found.towers.valid_from == ALWAYS_FROM).all()
    assert (found.towers.valid_to == ALWAYS_TO).all()


def test_zones_are_those_of_the_level_and_the_latest_before_the_period(
    town: Town, lakehouse: Path
) -> None:
    found = open_pipeline("multimno", str(lakehouse), GRID, "nuts:3").zones
    assert found is not None
    wanted = read_zones(town.folder / "zones.geojson")
    assert found.ids.tolist() == wanted.ids.tolist()
    assert found.names.tolist() == wanted.names.tolist()
    apart = [a.hausdorff_distance(b) for a, b in zip(found.geometry, wanted.geometry, strict=True)]
    assert max(apart) < 1e-6  # degrees: the way to metres and back
    city = open_pipeline("multimno", str(lakehouse), GRID, "nuts:1").zones
    assert city is not None
    assert city.ids.tolist() == ["city"]


def test_a_stated_projection_is_believed(town: Town, tmp_path: Path) -> None:
    write_lakehouse(town, tmp_path, shape_of_zones="EPSG:4326")
    found = open_pipeline("multimno", str(tmp_path), GRID, "nuts:3").zones
    assert found is not None
    assert abs(found.geometry[0].centroid.x - 2.35) < 0.2


@pytest.mark.parametrize("form", ["from an origin", "origin of a folder", "number", "text"])
def test_tiles_of_the_inspire_grid(lakehouse: Path, tmp_path: Path, form: str) -> None:
    north, east = 2889000 + np.arange(12) * 100, 3760000 + np.arange(15) * 100
    pairs = [(int(n), int(e)) for n in north for e in east]
    ids: list[object] = [n * 10**7 + e if form == "number" else f"100mN{n}E{e}" for n, e in pairs]
    grid = pa.table({"grid_id": ids})
    folder = "quadkey=12"
    if "origin" in form:
        low_north, low_east = 2889000, 3760000 - 100 * (1 << 15)  # signed 4 bytes: some below zero
        codes = [((e - low_east) // 100 << 16) + (n - low_north) // 100 for n, e in pairs]
        narrow = pa.array(np.array(codes, np.uint32).view(np.int32))
        origin = [(low_east // 100 << 32) + low_north // 100] * len(pairs)
        grid = pa.table({"grid_id": narrow, "origin": origin})
        if form == "origin of a folder":  # as its writer partitions the table today
            grid, folder = grid.select(["grid_id"]), f"origin={origin[0]}/quadkey=12"
    for place in ("silver/network_coverage", "silver/cleaning"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(lakehouse / place)
    write(tmp_path / "silver/setup/grid" / folder / "p.parquet", grid)
    fine = open_pipeline("multimno", str(tmp_path), GRID, "INSPIRE_100m").zones
    coarse = open_pipeline("multimno", str(tmp_path), GRID, "INSPIRE_1km").zones
    assert fine is not None
    assert coarse is not None
    assert len(fine) == 180
    assert "100mN28890E37600" in fine.ids
    assert sorted(coarse.ids) == [
        "1kmN2889E3760",
        "1kmN2889E3761",
        "1kmN2890E3760",
        "1kmN2890E3761",
    ]


def test_cells_that_move_and_come_have_their_time(town: Town, tmp_path: Path) -> None:
    """Three days of network, the middle one without a table: it takes the day before's."""
    cells = {"cell_id": ["a", "b"], "latitude": [48.0, 48.1], "longitude": [2.0, 2.1]}
    moved = {"cell_id": ["a", "c"], "latitude": [48.5, 48.2], "longitude": [2.0, 2.2]}
    home = tmp_path / "bronze/mno_network"
    write(home / day_folder(FIRST - timedelta(days=1)) / "p.parquet", pa.table(cells))
    write(home / day_folder(FIRST + timedelta(days=1)) / "p.parquet", pa.table(moved))
    zones = "bronze/spatial"
    write_lakehouse(town, tmp_path / "other")
    (tmp_path / zones).symlink_to(tmp_path / "other" / zones)
    found = open_pipeline("multimno", str(tmp_path), GRID, "nuts:3").towers
    change = midnight(FIRST + timedelta(days=1))
    rows = list(zip(found.ids.tolist(), found.valid_from, found.valid_to, strict=True))
    assert rows == [
        ("a", ALWAYS_FROM, change),
        ("a", change, ALWAYS_TO),
        ("b", ALWAYS_FROM, change),
        ("c", change, ALWAYS_TO),
    ]


def test_raw_events_are_read_on_the_clock_of_the_release(
    town: Town, lakehouse: Path, tmp_path: Path
) -> None:
    """Bronze times are text; the city's own, written as the clocks of Paris show them."""
    for place in ("silver/network_coverage", "bronze/spatial"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(lakehouse / place)
    local = town.events["timestamp"].cast(pa.timestamp("us", "UTC")).to_pandas()
    shown = local.dt.tz_convert("Europe/Paris").dt.strftime("%Y-%m-%d %H:%M:%S.%f")
    raw = pa.table(
        {
            "user_id": [str(user).encode() for user in town.events["user_id"].to_pylist()],
            "timestamp": shown.tolist(),
            "cell_id": town.events["tower"].cast(pa.string()),
        }
    )
    write(tmp_path / "bronze/mno_events/p.parquet", raw)
    found = open_pipeline("multimno", str(tmp_path), GRID, "nuts:3")
    ours = LocalSource(found.open_events(None), found.towers, GRID)
    theirs = LocalSource(read_events(town.folder / "events.parquet"), found.towers, GRID)
    one, two = (s.exact(Counting.VISITS)._through_the_door().values for s in (ours, theirs))
    np.testing.assert_array_equal(one, two)


@pytest.mark.privacy
def test_a_damaged_file_and_days_without_files_stop_nothing(
    lakehouse: Path, tmp_path: Path
) -> None:
    """The holder named a lakehouse, not its files: none of them may decide about the release."""
    for place in ("silver/network_coverage", "bronze/spatial"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(lakehouse / place)
    home = tmp_path / "silver/cleaning/mno_events"
    home.mkdir(parents=True)
    found = open_pipeline("multimno", str(tmp_path), GRID, "nuts:3")
    nobody = LocalSource(found.open_events(None), found.towers, GRID)
    assert not nobody.exact(Counting.VISITS)._through_the_door().values.any()
    shutil.copytree(lakehouse / "silver/cleaning/mno_events", home, dirs_exist_ok=True)
    before = LocalSource(found.open_events(None), found.towers, GRID)
    one = before.exact(Counting.VISITS)._through_the_door().values
    assert one.any()
    (home / day_folder(FIRST) / "u.parquet").write_bytes(b"PAR1")
    write(home / day_folder(FIRST) / "v.parquet", pa.table({"user_id": [b"u"]}))
    after = LocalSource(found.open_events(None), found.towers, GRID)
    two = after.exact(Counting.VISITS)._through_the_door().values
    np.testing.assert_array_equal(one, two)
    assert after.drops.unfit == 2


def test_which_day_stands_for_which() -> None:
    days = [date(2024, 1, 2), date(2024, 1, 5)]
    wanted = [date(2024, 1, d) for d in (1, 2, 4, 5, 9)]
    assert [day_for(day, days).day for day in wanted] == [2, 2, 2, 5, 5]


@pytest.mark.parametrize("text", [None, "", "nuts:", "nuts:x", "a/b:1", "nuts:333"])
def test_a_zoning_that_cannot_be_read(text: str | None) -> None:
    if text == "nuts:":
        assert Zoning.parse(text) == Zoning("nuts", 1)
        return
    with pytest.raises(UsageError, match="data set and a level"):
        Zoning.parse(text)


def test_what_is_missing_is_named(lakehouse: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="geographic_zones"):
        open_pipeline("multimno", str(tmp_path), GRID, "nuts:3")
    with pytest.raises(InputError, match="no zoning data set 'lau'"):
        open_pipeline("multimno", str(lakehouse), GRID, "lau:1")
    with pytest.raises(InputError, match="no level 2"):
        open_pipeline("multimno", str(lakehouse), GRID, "nuts:2")
    with pytest.raises(UsageError, match="not a pipeline"):
        open_pipeline("multimini", str(lakehouse), GRID)


def commands(page: Path) -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines]


def test_the_page_from_lakehouse_to_gold_and_back(
    lakehouse: Path, tmp_path: Path, sfumato: Callable[..., str]
) -> None:
    """The commands of the page, as printed; what they write says what the release says."""
    (tmp_path / "lakehouse").symlink_to(lakehouse)
    ran = commands(PAGE)
    assert [line[1] for line in ran] == ["ledger", "release", "export"]
    for command, *arguments in ran:
        assert command == "sfumato"
        sfumato(*arguments)
    told = sfumato(
        *("evaluate", "weekend", "--events", "lakehouse", "--pipeline", "multimno", "--json"),
        *("--zoning", "nuts:3", "--no-earth-mover"),
    )
    assert -1 <= json.loads(told)["internal"][0]["pearson"] <= 1  # the noise is fresh every time
    out = tmp_path / "gold" / "present_population_zone_gold"
    back = read_population(out)
    density = pq.read_table(tmp_path / "weekend" / "density.parquet")
    assert back["zone_id"].to_pylist() == density["zone_id"].to_pylist()
    assert back["timestamp"].cast(pa.int64()) == density["time_start"].cast(pa.int64())
    wanted = density["count"].to_numpy().astype(np.float32)
    np.testing.assert_array_equal(back["population"].to_numpy(), wanted)
    assert set(back["dataset_id"].to_pylist()) == {"nuts"}
    assert set(back["level"].to_pylist()) == {3}
    utc = {
        (y, m, d)
        for y, m, d in zip(*(back[k].to_pylist() for k in ("year", "month", "day")), strict=True)
    }
    assert utc == {(2024, 3, 29), (2024, 3, 30), (2024, 3, 31)}
    statement = json.loads((out / "_sfumato-weekend.json").read_text())
    assert statement["privacy"]["epsilon"] <= 1.0
    schema = pq.read_schema(next(out.rglob("part-*.parquet")))
    assert [(f.name, str(f.type)) for f in schema] == [
        ("zone_id", "string"),
        ("population", "float"),
        ("timestamp", "timestamp[us, tz=UTC]"),
    ]
    with pytest.raises(InputError, match="there already"):
        export(tmp_path / "weekend", out, to="multimno", zoning="nuts:3")
    with pytest.raises(UsageError, match="GeoJSON"):
        export(tmp_path / "weekend", out, to="multimno", zoning="nuts:3", geojson=True)
    table = tmp_path / "weekend" / "density.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(InputError, match="not as it was published"):
        export(tmp_path / "weekend", tmp_path / "x", to="multimno", zoning="nuts:3")
