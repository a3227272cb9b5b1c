"""`sfumato release`, from files to a published folder, and everything it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner, Result

from sfumato.cli.main import app
from sfumato.density.publish import release as release_in_python
from sfumato.errors import BudgetRefused, InputError, ReservationRefused, SfumatoError, UsageError
from sfumato.privacy.ledger import Ledger


class Shop:
    """A folder with events, towers, zones and a ledger, and the command run in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        rng = np.random.default_rng(5)
        rows = [
            f"{rng.integers(0, 200)},2024-03-{4 + rng.integers(0, 2):02d}"
            f"T{rng.integers(0, 24):02d}:10:00Z,t{rng.integers(0, 4)}\n"
            for _ in range(3000)
        ]
        self.events = home / "events.csv"
        self.events.write_text("user_id,timestamp,cell_id\n" + "".join(rows))
        towers = [f"t{i},{2.30 + 0.01 * i},{48.85}\n" for i in range(4)]
        (home / "towers.csv").write_text("cell_id,lon,lat\n" + "".join(towers))
        zones = {
            "west": shapely.box(2.28, 48.8, 2.31, 48.9),
            "east": shapely.box(2.31, 48.8, 2.34, 48.9),
        }
        features = [
            {
                "type": "Feature",
                "properties": {"zone_id": name},
                "geometry": json.loads(shapely.to_geojson(shape)),
            }
            for name, shape in zones.items()
        ]
        collection = {"type": "FeatureCollection", "features": features}
        (home / "zones.geojson").write_text(json.dumps(collection))
        self.ledger = home / "books" / "ledger.sqlite"
        self.run("ledger", "init", "--dataset", "city", "--cap-epsilon", "1", "--cap-delta", "1e-5")

    def run(self, *arguments: str) -> Result:
        result = CliRunner().invoke(app, [*arguments, "--ledger", str(self.ledger)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def release(self, *more: str, name: str = "day", epsilon: str = "0.5") -> Result:
        settings = {
            "--towers": str(self.home / "towers.csv"),
            "--from": "2024-03-04",
            "--to": "2024-03-06",
            "--slot": "6h",
            "--tz": "UTC",
            "--epsilon": epsilon,
            "--delta": "1e-6",
            "--dataset": "city",
            "--expected-users": "1000",
            "--scheme": "gaussian",
            "--out": str(self.home / "out" / name),
        }
        flags = [text for pair in settings.items() for text in pair]
        return self.run("release", str(self.events), *flags, "--anyway", *more)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_release_from_files_to_a_folder(shop: Shop) -> None:
    result = shop.release()
    assert result.exit_code == 0
    assert "Published" in result.output
    folder = shop.home / "out" / "day"
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        *("README.txt", "density.csv", "density.parquet", "index.html", "manifest.json"),
        *("towers.geojson", "towers.parquet"),
    ]
    with (folder / "density.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["zone_id", "time_start", "time_end", "count"]
    assert len(rows) == 4 * 8
    assert {row["zone_id"] for row in rows} == {"t0", "t1", "t2", "t3"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["privacy"]["epsilon"] <= 0.5
    assert manifest["public_inputs"] == {"expected_users": 1000}
    assert "What is promised." in (folder / "README.txt").read_text()


def test_running_it_again_does_and_charges_nothing(shop: Shop) -> None:
    shop.release()
    before = (shop.home / "out" / "day" / "density.csv").read_bytes()
    again = json.loads(shop.release("--json").output)
    assert again["how"] == "already"
    assert again["lifetime"]["releases"] == 1
    assert (shop.home / "out" / "day" / "density.csv").read_bytes() == before
    assert len(Ledger(shop.ledger).book().charges) == 1


def test_towers_and_zones_together_release_zones(shop: Shop) -> None:
    result = shop.release("--zones", str(shop.home / "zones.geojson"), "--json")
    assert result.exit_code == 0
    manifest = json.loads((shop.home / "out" / "day" / "manifest.json").read_text())
    assert manifest["counted"]["kind"] == "towers"
    assert manifest["released"] | {"sha256": ""} == {"kind": "zones", "count": 2, "sha256": ""}
    text = (shop.home / "out" / "day" / "density.csv").read_text()
    assert "east" in text


def test_coordinates_are_counted_in_zones(shop: Shop) -> None:
    rows = [f"{u},2024-03-04T08:00:00Z,{2.29 + 0.04 * (u % 2):.2f},48.85\n" for u in range(400)]
    shop.events.write_text("uid,datetime,lng,lat\n" + "".join(rows))
    result = shop.run(
        *("release", str(shop.events), "--zones", str(shop.home / "zones.geojson")),
        *("--from", "2024-03-04", "--to", "2024-03-05", "--slot", "1d", "--tz", "UTC"),
        *("--epsilon", "1", "--delta", "1e-6", "--dataset", "city", "--scheme", "gaussian"),
        *("--out", str(shop.home / "out" / "gps"), "--quiet"),
    )
    assert result.output == ""
    with (shop.home / "out" / "gps" / "density.csv").open() as file:
        found = {row["zone_id"]: float(row["count"]) for row in csv.DictReader(file)}
    assert found.keys() == {"east", "west"}
    assert all(abs(count - 200) < 100 for count in found.values())


def test_the_budget_is_refused_with_exit_code_3(shop: Shop) -> None:
    shop.release()
    with pytest.raises(BudgetRefused, match="would still fit") as refused:
        shop.release(name="more", epsilon="1.5")
    assert refused.value.exit_code == 3
    assert not (shop.home / "out" / "more").exists()
    fit = refused.value.would_fit_epsilon
    assert fit is not None
    assert shop.release(name="fits", epsilon=str(fit)).exit_code == 0


def test_a_dry_run_reads_and_spends_nothing(shop: Shop) -> None:
    shop.events.unlink()
    result = shop.release("--dry-run")
    assert result.exit_code == 0
    assert "It fits the budget." in result.output
    assert Ledger(shop.ledger).book().charges == {}
    with pytest.raises(BudgetRefused):
        shop.release("--dry-run", epsilon="9")


def test_a_dry_run_takes_columns_as_a_release_does(shop: Shop) -> None:
    """Of events that are there, whose names do not tell their columns."""
    shop.events.write_text("imsi,ts,bs\n7,2007-09-10T08:00:00Z,a\n")
    columns = ("--column", "user=imsi", "--column", "time=ts", "--column", "place=bs")
    assert "It fits the budget." in shop.release("--dry-run", *columns).output


def test_other_settings_under_the_same_name_are_refused(shop: Shop) -> None:
    shop.release()
    with pytest.raises(ReservationRefused, match="bound"):
        shop.release("--bound", "weight:2")
    with pytest.raises(UsageError, match="not empty"):
        shop.release("--name", "another", "--bound", "weight:2")
    shop.events.write_text(shop.events.read_text() + "1,2024-03-04T00:00:00Z,t0\n")
    with pytest.raises(ReservationRefused, match="the events"):
        shop.release()


@pytest.mark.privacy
def test_a_bad_row_stops_nothing_and_is_not_shown(shop: Shop) -> None:
    shop.events.write_text(shop.events.read_text() + "4711,not a time,t0\n")
    told = shop.release().output
    assert "4711" not in told
    assert "internal: 1 row dropped: not a time" in told
    assert len(Ledger(shop.ledger).book().charges) == 1


def test_delta_must_be_below_one_over_the_users(shop: Shop) -> None:
    with pytest.raises(UsageError, match="expected users"):
        shop.release("--expected-users", "10000000")


def test_a_data_set_must_be_named_first(shop: Shop) -> None:
    with pytest.raises(UsageError, match="knows no data set"):
        shop.release("--dataset", "town")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--bound", "sum:3"], "not a bound"),
        (["--count", "cars"], "cannot be counted"),
        (["--scheme", "magic"], "no scheme"),
        (["--from", "monday"], "not a date"),
        (["--column", "user"], "role=name"),
    ],
)
def test_wrong_usage_is_said(shop: Shop, flags: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        shop.release(*flags)


def test_sampling_is_told_as_what_it_is(shop: Shop) -> None:
    shop.release("--bound", "sample:3", "--quiet")
    manifest = json.loads((shop.home / "out" / "day" / "manifest.json").read_text())
    assert "thinned" in " ".join(manifest["caveats"])


def test_the_key_is_kept_on_request(shop: Shop) -> None:
    shop.release("--keep-key")
    assert len(list(shop.ledger.with_suffix(".keys").iterdir())) == 1


def test_the_same_from_python(shop: Shop) -> None:
    shop.release()
    made = release_in_python(
        shop.events,
        towers=shop.home / "towers.csv",
        start="2024-03-04",
        end="2024-03-06",
        slot="6h",
        tz="UTC",
        dataset="city",
        epsilon=0.5,
        delta=1e-6,
        expected_users=1000,
        scheme="gaussian",
        out=shop.home / "out" / "day",
        ledger=shop.ledger,
    )
    assert made.how == "already"
    assert made.table().num_rows == 32
    assert "first release about these people" in " ".join(made.statement().split())


def test_output_that_was_deleted_cannot_be_made_again(shop: Shop) -> None:
    shop.release()
    (shop.home / "out" / "day" / "density.csv").unlink()
    with pytest.raises(SfumatoError, match="charged again"):
        shop.release()


def test_an_earlier_release_is_read_together_with_the_next(shop: Shop) -> None:
    bayes = ("--scheme", "bayes")
    assert shop.release(*bayes, name="first", epsilon="0.2").exit_code == 0
    first = shop.home / "out" / "first"
    assert (
        shop.release(*bayes, "--earlier", str(first), name="second", epsilon="0.2").exit_code == 0
    )
    manifest = json.loads((shop.home / "out" / "second" / "manifest.json").read_text())
    assert len(manifest["public_inputs"]["earlier"]) == 64


def test_an_earlier_release_must_be_about_the_same_places_and_slots(shop: Shop) -> None:
    zones = ("--zones", str(shop.home / "zones.geojson"))
    assert shop.release("--scheme", "bayes", *zones, name="first", epsilon="0.2").exit_code == 0
    earlier = ("--earlier", str(shop.home / "out" / "first"))
    with pytest.raises(InputError, match="other places"):
        shop.release("--scheme", "bayes", *earlier, name="second")
    with pytest.raises(InputError, match="other time slots"):
        shop.release("--scheme", "bayes", *earlier, *zones, "--slot", "3h", name="second")
    with pytest.raises(UsageError, match="does not learn"):
        shop.release(*earlier, name="second")


def test_an_earlier_release_must_be_as_it_was_published(shop: Shop) -> None:
    """Its numbers are used without a charge, so nobody may have put others in their place."""
    assert shop.release("--scheme", "bayes", name="first", epsilon="0.2").exit_code == 0
    first = shop.home / "out" / "first"
    table = pq.read_table(first / "density.parquet")
    raised = table.column("count").to_numpy() + 1.0
    position = table.schema.get_field_index("count")
    pq.write_table(table.set_column(position, "count", pa.array(raised)), first / "density.parquet")
    with pytest.raises(InputError, match="not as it was published"):
        shop.release("--scheme", "bayes", "--earlier", str(first), name="second")
