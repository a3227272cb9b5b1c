"""FlowKit's tables in, from an export and from a server; a release; its aggregates out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.published.test_multimno import commands
from tests.published.told import FIRST, GRID, Town, flow_tables, write, write_export
from tests.statements import write_counts

from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting
from sfumato.model.time_grid import TimeGrid
from sfumato.published import read_release
from sfumato.published.export import (
    export as export_release,
)
from sfumato.published.export import (
    open_pipeline,
    read_aggregates,
    write_aggregates,
)

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "flowkit.md"


@pytest.fixture(scope="session")
def export(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flowkit") / "flowdb"
    write_export(town, folder)
    return folder


def fill(address: str, town: Town, prepare: str) -> None:
    """FlowDB's schemas and tables, geometry as bytes."""
    import adbc_driver_postgresql.dbapi as adbc

    with psycopg.connect(address, autocommit=True) as connection:
        for schema in ("events", "infrastructure", "geography"):
            connection.execute(f"CREATE SCHEMA {schema}")  # type: ignore[call-overload]
        connection.execute(prepare)  # type: ignore[call-overload]
    with adbc.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for name, table in flow_tables(town).items():
            schema, short = name.split(".")
            cursor.adbc_ingest(short, table, mode="create", db_schema_name=schema)


@pytest.fixture
def flowdb(town: Town, new_postgres: Callable[[], str]) -> str:
    """A server with FlowDB's tables; PostGIS is stood for by the one function that is asked."""
    address = new_postgres()
    function = (
        "CREATE FUNCTION ST_AsBinary(bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT $1'"
    )
    fill(address, town, function)
    return address


@pytest.fixture
def postgis(town: Town, new_postgres: Callable[[], str]) -> str:
    """The same with PostGIS itself, its geometry in FlowDB's types."""
    address = new_postgres()
    with psycopg.connect(address) as connection:
        known = connection.execute(
            "SELECT 1 FROM pg_available_extensions WHERE name = 'postgis'"
        ).fetchone()
    if known is None:
        pytest.skip("PostGIS is not installed beside the server (postgresql-NN-postgis-3)")
    fill(address, town, "CREATE EXTENSION postgis")
    with psycopg.connect(address, autocommit=True) as connection:
        for table, column, kind, shape in (
            ("infrastructure.cells", "geom_point", "Point", "{}"),
            ("geography.geoms", "geom", "MultiPolygon", "ST_Multi({})"),
        ):
            read = shape.format(f"ST_GeomFromWKB({column}, 4326)")
            connection.execute(
                f"ALTER TABLE {table} ALTER {column} TYPE geometry({kind}, 4326) "  # type: ignore[call-overload]
                f"USING {read}"
            )
    return address


def exact(source: LocalSource) -> Any:
    try:
        return source.exact(Counting.VISITS)._through_the_door().values
    finally:
        source.close()


def check_counts(town: Town, where: str) -> None:
    found = open_pipeline("flowkit", where, GRID, "admin3")
    towers = read_towers(town.folder / "towers.csv")
    events = found.open_events(None)
    ours = exact(LocalSource(events, found.towers, GRID))
    events.close()
    theirs = exact(LocalSource(read_events(town.folder / "events.parquet"), towers, GRID))
    assert ours.any()
    np.testing.assert_array_equal(ours, theirs)
    zones = read_zones(town.folder / "zones.geojson")
    assert found.zones is not None
    assert found.zones.ids.tolist() == zones.ids.tolist()
    assert shapely.equals(found.zones.geometry, zones.geometry).all()


def test_counts_from_an_export_are_those_of_the_city(town: Town, export: Path) -> None:
    check_counts(town, str(export))


@pytest.mark.postgres
def test_counts_from_flowdb_are_those_of_the_city(town: Town, flowdb: str) -> None:
    check_counts(town, flowdb)
    only = flowdb.replace("?", "/events.sms?")
    some = open_pipeline("flowkit", only, GRID)
    assert some.zones is None
    events = some.open_events(None)
    assert events.names == ("events.sms",)
    events.close()


@pytest.mark.postgres
def test_counts_from_flowdb_with_postgis_itself(town: Town, postgis: str) -> None:
    check_counts(town, postgis)


def test_antennas_have_their_dates_of_service(town: Town, tmp_path: Path) -> None:
    """Both days of service are included; sites stand in where there are no cells."""
    tables = flow_tables(town)
    sites = pa.table(
        {
            "id": ["s1", "s1"],
            "date_of_first_service": pa.array([None, date(2024, 3, 31)], pa.date32()),
            "date_of_last_service": pa.array([date(2024, 3, 30), None], pa.date32()),
            "geom_point": [shapely.to_wkb(shapely.Point(2.3, 48.8), hex=True)] * 2,
        }
    )
    write(tmp_path / "infrastructure/sites.parquet", sites)
    write(tmp_path / "infrastructure/cells.parquet", tables["infrastructure.cells"].slice(0, 0))
    write(tmp_path / "events/mds.parquet", tables["events.calls"])
    found = open_pipeline("flowkit", str(tmp_path), GRID).towers
    midnight = TimeGrid.between(date(2024, 3, 31), date(2024, 4, 1), "1d", "Europe/Paris").period[0]
    assert found.ids.tolist() == ["s1", "s1"]
    assert found.valid_to[0] == found.valid_from[1] == midnight


def test_regions_of_a_table_of_their_own(town: Town, export: Path, tmp_path: Path) -> None:
    for name in ("events", "infrastructure"):
        (tmp_path / name).symlink_to(export / name)
    regions = flow_tables(town)["geography.geoms"]
    own = pa.table(
        {
            "admin2pcod": regions["short_name"],
            "admin2name": regions["long_name"],
            "geom": regions["geom"],
        }
    )
    write(tmp_path / "geography/admin2.parquet", own)
    found = open_pipeline("flowkit", str(tmp_path), GRID, "admin2").zones
    assert found is not None
    assert len(found) == regions.num_rows


def test_what_is_missing_is_named(export: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"infrastructure\.cells"):
        open_pipeline("flowkit", str(tmp_path), GRID)
    with pytest.raises(UsageError, match="admin regions"):
        open_pipeline("flowkit", str(export), GRID, "nuts:3")
    with pytest.raises(InputError, match="no regions of this level"):
        open_pipeline("flowkit", str(export), GRID, "admin7")
    with pytest.raises(UsageError, match="neither an address nor a folder"):
        open_pipeline("flowkit", str(export / "nowhere"), GRID)
    (tmp_path / "infrastructure").symlink_to(export / "infrastructure")
    with pytest.raises(InputError, match=r"none of events\.calls"):
        open_pipeline("flowkit", str(tmp_path), GRID)


@pytest.mark.postgres
def test_the_page_from_flowdb_to_its_aggregates_and_back(
    flowdb: str, tmp_path: Path, sfumato: Callable[..., str]
) -> None:
    """The commands of the page, as printed; what they write says what the release says."""
    ran = commands(PAGE)
    assert [line[1] for line in ran] == ["ledger", "release", "export"]
    for command, *arguments in ran:
        assert command == "sfumato"
        sfumato(*(flowdb if text == "$FLOWDB" else text for text in arguments))
    back = read_aggregates(tmp_path / "aggregates")
    density = pq.read_table(tmp_path / "weekend" / "density.parquet")
    assert back.column_names == ["pcod", "date", "hour", "value"]
    assert back["pcod"].to_pylist() == density["zone_id"].to_pylist()
    starts = density["time_start"].to_pylist()
    assert back["date"].to_pylist() == [moment.date().isoformat() for moment in starts]
    assert back["hour"].to_pylist() == [moment.hour for moment in starts]
    np.testing.assert_array_equal(back["value"].to_numpy(), density["count"].to_numpy())
    assert json.loads((tmp_path / "aggregates/sfumato-manifest.json").read_text())["privacy"]
    maps = sorted((tmp_path / "aggregates/geojson").iterdir())
    assert len(maps) == GRID.slots == 47
    assert maps[0].name == "2024-03-30T00.geojson"
    first = json.loads(maps[0].read_text())
    assert first["type"] == "FeatureCollection"
    assert first["properties"]["crs"].startswith("+proj=longlat")
    values = [feature["properties"]["value"] for feature in first["features"]]
    assert values == density["count"].to_numpy()[:: GRID.slots].tolist()
    feature = first["features"][0]
    assert {"pcod", "value", "centroid"} == set(feature["properties"])
    assert feature["geometry"]["type"] in ("Polygon", "MultiPolygon")
    told = "".join(p.read_text() for p in tmp_path.rglob("*.json")) + "".join(maps[0].read_text())
    assert "postgresql:/" not in told
    with pytest.raises(InputError, match="not empty"):
        export_release(tmp_path / "weekend", tmp_path / "aggregates", to="flowkit")
    with pytest.raises(UsageError, match="zoning"):
        export_release(tmp_path / "weekend", tmp_path / "x", to="flowkit", zoning="admin3")


def test_intervals_follow_the_clock(tmp_path: Path) -> None:
    """Days have no hour, quarters have minutes, and a repeated hour is the sum of both."""

    def rows(grid: TimeGrid, kind: str = "zones") -> list[dict[str, Any]]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        counts = np.arange(grid.slots, dtype=float)[None] + 0.5
        made = write_counts(folder / "release", ["a"], grid, counts, released={"kind": kind})
        write_aggregates(read_release(made), folder / "out")
        table: list[dict[str, Any]] = read_aggregates(folder / "out").to_pylist()
        return table

    autumn = TimeGrid.between(date(2024, 10, 27), date(2024, 10, 28), "1h", "Europe/Paris")
    told = rows(autumn)
    assert autumn.slots == 25
    assert [row["hour"] for row in told] == list(range(24))
    assert told[2] == {"pcod": "a", "date": "2024-10-27", "hour": 2, "value": 2.5 + 3.5}
    daily = TimeGrid.between(FIRST, FIRST + timedelta(days=3), "1d", "UTC")
    assert rows(daily, "towers")[1] == {"location_id": "a", "date": "2024-03-31", "value": 1.5}
    quarters = TimeGrid.between(FIRST, FIRST + timedelta(days=1), "15min", "UTC")
    fifth = {"pcod": "a", "date": "2024-03-30", "hour": 1, "min": 15, "value": 5.5}
    assert rows(quarters)[5] == fifth
