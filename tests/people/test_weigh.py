"""`sfumato.weigh`: a release of people that the one reader reads, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
from tests.people.conftest import Town, publish
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import InputError, UsageError
from sfumato.people import folder as folder_module
from sfumato.privacy.ledger import Ledger
from sfumato.published.manifest import MANIFEST_NAME

pytestmark = pytest.mark.privacy


def test_people_are_a_release_with_the_same_promise(
    town: Town, census: pd.DataFrame, tmp_path: Path
) -> None:
    before = (town.folder / "ledger.sqlite").read_bytes()
    made = sfumato.weigh(town.red, census=census, out=tmp_path / "people")
    assert made.how == "weighed"
    found = sfumato.read_release(tmp_path / "people")
    old = sfumato.read_release(town.red)
    assert found.manifest.privacy == old.manifest.privacy
    assert found.manifest.release.id == old.manifest.release.id
    assert (town.folder / "ledger.sqlite").read_bytes() == before  # nothing was charged
    assert found.manifest.made_from is not None
    (source,) = found.manifest.made_from.sources
    assert source.epsilon == old.manifest.privacy.epsilon
    assert source.scheme == "bayes"
    zone = found.sum(zones=[town.ids[3]], hours="8-18")
    assert zone.lower is not None
    assert zone.upper is not None
    assert zone.lower < zone.value < zone.upper
    assert (found.lower <= found.values + 1e-9).all()  # type: ignore[operator]
    assert (found.values <= found.upper + 1e-9).all()  # type: ignore[operator]
    text = (found.folder / "README.txt").read_text("utf-8")
    assert "count estimates all people present" in text
    assert "the people in the records, not about" not in text
    assert "all people present" in found.statement()
    weights = pd.read_csv(found.folder / "weights.csv", dtype={"area": str})
    assert weights["area"].tolist() == town.ids
    assert (weights["lower"] < weights["weight"]).all()
    assert "weights.csv" in found.manifest.files


def test_at_night_people_are_those_of_the_census(
    town: Town, census: pd.DataFrame, tmp_path: Path
) -> None:
    made = sfumato.weigh(town.red, census=census, out=tmp_path / "people", reach=0)
    counted = sfumato.read_release(town.red).values[:, 1:5].mean(axis=1)
    some = counted > 1  # below half a person the weight is that of half a person
    assert some.any()
    people = made.values[:, 1:5].mean(axis=1)
    np.testing.assert_allclose(people[some], census["people"][some], rtol=1e-3)


def test_one_share_for_all_divides_by_it(town: Town, tmp_path: Path) -> None:
    made = sfumato.weigh(town.red, shares=0.25, out=tmp_path / "people", reach=0)
    old = sfumato.read_release(town.red)
    np.testing.assert_allclose(made.values, 4 * old.values, atol=1e-3)
    whole, part = made.sum(), old.sum()
    assert whole.plus_minus is not None
    assert part.plus_minus is not None
    assert whole.plus_minus / whole.value < 1.5 * part.plus_minus / part.value


def test_areas_with_outlines_of_their_own(town: Town, tmp_path: Path) -> None:
    whole = town.zones.union_all()
    west, south, east, north = whole.bounds
    middle = (west + east) / 2
    halves = geopandas.GeoDataFrame(
        {"area": ["west", "east", "beyond"], "people": [3_000, 1_000, 500]},
        geometry=[
            whole.intersection(geopandas.GeoSeries.from_wkt([box]).iloc[0])
            for box in (
                f"POLYGON(({west} {south},{middle} {south},{middle} {north},{west} {north},"
                f"{west} {south}))",
                f"POLYGON(({middle} {south},{east} {south},{east} {north},{middle} {north},"
                f"{middle} {south}))",
            )
        ]
        + [geopandas.GeoSeries.from_wkt(["POLYGON((9 9,9.1 9,9.1 9.1,9 9))"]).iloc[0]],
        crs="OGC:CRS84",
    )
    halves.to_file(tmp_path / "halves.geojson")
    made = sfumato.weigh(
        town.red, census=tmp_path / "halves.geojson", out=tmp_path / "people", reach=0
    )
    counted = sfumato.read_release(town.red).values[:, 1:5].mean(axis=1)
    ratio = made.values[:, 1:5].mean(axis=1)[counted > 1] / counted[counted > 1]
    table = pd.read_csv(made.folder / "weights.csv")
    low, high = sorted(table["weight"][:2])
    assert ((ratio > 0.99 * low) & (ratio < 1.01 * high)).all()
    assert any("no zone of the release" in line for line in made.manifest.caveats)
    table = pd.read_csv(made.folder / "weights.csv")
    assert table["flags"][2] == "no zone of the release"


def test_visits_are_weighed_by_shares_and_never_by_a_census(
    town: Town, census: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="counts visits") as caught:
        sfumato.weigh(town.visits, census=census, out=tmp_path / "people")
    assert "count" in caught.value.remedy
    made = sfumato.weigh(town.visits, shares=0.5, out=tmp_path / "people")
    assert made.manifest.made_from is not None
    assert made.manifest.made_from.estimates == "visits of all people"
    assert any("counts twice" in line for line in made.manifest.caveats)


def test_a_release_without_a_posterior_gives_people_without_intervals(
    town: Town, tmp_path: Path
) -> None:
    old = sfumato.read_release(town.plain)
    if old.posterior is not None:
        pytest.skip("the scheme states one")
    made = sfumato.weigh(town.plain, shares=0.5, out=tmp_path / "people")
    assert made.lower is None
    assert made.sum().lower is None
    assert made.manifest.posterior is not None
    assert made.manifest.posterior.why_not
    assert any("no interval can be stated" in line for line in made.manifest.caveats)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("people", -1.0, "missing or negative"),
        ("people", np.nan, "missing or negative"),
        ("zone_id", "nowhere", "no zone or district 'nowhere'"),
        ("zone_id", "first", "stands twice"),
    ],
)
def test_a_census_that_cannot_be_is_refused(
    town: Town, census: pd.DataFrame, tmp_path: Path, column: str, value: object, says: str
) -> None:
    census.loc[4, column] = town.ids[0] if value == "first" else value
    with pytest.raises(InputError, match=says) as caught:
        sfumato.weigh(town.red, census=census, out=tmp_path / "people")
    assert caught.value.remedy
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("share", [0.0, 1.01, -0.2])
def test_shares_are_shares(town: Town, shares: pd.DataFrame, tmp_path: Path, share: float) -> None:
    with pytest.raises(InputError, match="not a share"):
        sfumato.weigh(town.red, shares=share, out=tmp_path / "people")
    shares.loc[2, "share"] = share
    with pytest.raises(InputError, match="not a share"):
        sfumato.weigh(town.red, shares=shares, out=tmp_path / "people")


def test_what_cannot_be_weighed_is_refused(
    town: Town, census: pd.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "people"
    with pytest.raises(UsageError, match="shares or from a census"):
        sfumato.weigh(town.red, out=out)
    with pytest.raises(UsageError, match="shares or from a census"):
        sfumato.weigh(town.red, out=out, shares=0.5, census=census)
    with pytest.raises(UsageError, match="not a number"):
        sfumato.weigh(town.red, out=out, census=17.0)
    with pytest.raises(UsageError, match="distance"):
        sfumato.weigh(town.red, out=out, census=census, reach=-1)
    with pytest.raises(UsageError, match="column to choose"):
        sfumato.weigh(town.red, out=out, census=census, column={"user": "x"})
    with pytest.raises(UsageError):
        sfumato.weigh(town.red, out=out, census=census, night="late")
    with pytest.raises(UsageError, match="exists"):
        sfumato.weigh(town.red, out=town.red, census=census)
    made = sfumato.weigh(town.red, out=out, census=census)
    with pytest.raises(UsageError, match="already"):
        sfumato.weigh(made, out=tmp_path / "again", shares=0.5)
    release = sfumato.read_release(town.red)
    manifest = release.manifest.model_copy(update={"kind": "synthetic"})
    with pytest.raises(UsageError, match="made-up people"):
        sfumato.weigh(replace(release, manifest=manifest), out=tmp_path / "none", shares=0.5)
    with pytest.raises(InputError, match="nobody in its areas"):
        sfumato.weigh(town.red, out=tmp_path / "none", census=census.assign(people=0.0))


def test_an_altered_folder_and_one_that_protects_nobody_are_refused(
    town: Town, tmp_path: Path
) -> None:
    shutil.copytree(town.red, tmp_path / "red")
    manifest = json.loads((tmp_path / "red" / MANIFEST_NAME).read_text("utf-8"))
    for key, value in (("tainted", True), ("differential_privacy", False)):
        text = json.dumps(manifest | {key: value})
        (tmp_path / "red" / MANIFEST_NAME).write_text(text, "utf-8")
        with pytest.raises(InputError, match="cannot be weighed"):
            sfumato.weigh(tmp_path / "red", shares=0.5, out=tmp_path / "people")
    (tmp_path / "red" / MANIFEST_NAME).write_text(json.dumps(manifest), "utf-8")
    table = tmp_path / "red" / "density.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(InputError, match="not as it was published"):
        sfumato.weigh(tmp_path / "red", shares=0.5, out=tmp_path / "people")


def test_killed_half_way_no_half_folder_is_left(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_module, "seal", die)
    with pytest.raises(KeyboardInterrupt):
        sfumato.weigh(town.red, shares=0.5, out=tmp_path / "people")
    assert not (tmp_path / "people").exists()
    assert not list(tmp_path.iterdir())


def test_from_the_command_line(
    town: Town, census: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    census.rename(columns={"people": "P2020"}).to_csv("census.csv", index=False)
    Path("sfumato.toml").write_text('[weigh]\ncensus = "census.csv"\nreach = 1.5\n', "utf-8")
    words = ["weigh", str(town.red), "--config", "sfumato.toml", "--column", "people=P2020"]
    said = CliRunner().invoke(app, [*words, "--out", "one", "--json"], catch_exceptions=False)
    assert said.exit_code == 0
    told = json.loads(said.stdout)
    assert told["made_from"]["estimates"] == "all people present"
    made = sfumato.read_release("one")
    assert made.manifest.public_inputs["reach_km"] == 1.5
    said = CliRunner().invoke(app, [*words, "--out", "two"], catch_exceptions=False)
    assert "Nothing was charged." in said.stdout
    assert (tmp_path / "one" / "density.parquet").read_bytes() == (
        tmp_path / "two" / "density.parquet"
    ).read_bytes()


def test_a_stream_that_is_not_sealed_is_refused(town: Town, tmp_path: Path) -> None:
    found = sfumato.read_release(town.red)
    unsealed = sfumato.Release(found.folder, found.manifest, "unsealed")
    with pytest.raises(InputError, match="without its manifest"):
        sfumato.weigh(unsealed, shares=0.5, out=tmp_path / "people")


def test_a_release_without_a_night_has_no_census(
    town: Town, census: pd.DataFrame, tmp_path: Path
) -> None:
    ledger = Ledger(town.folder / "ledger.sqlite")
    events = town.folder / "city" / "events.parquet"
    day = publish(
        tmp_path / "red", events, ledger, zones=town.zones, slot="6h", name="day",  # type: ignore[arg-type]
        dataset="red",
    )  # fmt: skip
    with pytest.raises((InputError, UsageError)):
        sfumato.weigh(day, census=census, out=tmp_path / "people")
    made = sfumato.weigh(day, shares=0.5, out=tmp_path / "people")
    assert any("not by where they live" in line for line in made.manifest.caveats)
