"""`sfumato.combine`: two operators, one release, and a promise that can be computed again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
from tests.people.conftest import Town
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import InputError, UsageError
from sfumato.people import folder as folder_module
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import event_from_json
from sfumato.published.manifest import ADDED, LARGEST, MANIFEST_NAME, Manifest
from sfumato.published.release import Release
from sfumato.published.statement import adds_up_to_claim, check_claim

pytestmark = pytest.mark.privacy


@pytest.fixture(scope="module")
def city(town: Town, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Red and blue with some people at both."""
    out = tmp_path_factory.mktemp("combined") / "city"
    return sfumato.combine([town.red, town.blue], shares=[0.5, 0.5], overlap=0.1, out=out)


def test_where_people_overlap_losses_add(town: Town, city: Release) -> None:
    found = sfumato.read_release(city.folder).manifest
    parts = [sfumato.read_release(one).manifest for one in (town.red, town.blue)]
    assert found.privacy.epsilon == pytest.approx(sum(one.privacy.epsilon for one in parts))
    assert found.privacy.delta == pytest.approx(sum(one.privacy.delta for one in parts))
    assert found.privacy.method == ADDED
    assert found.privacy.unit == "user-period"
    assert found.made_from is not None
    assert [one.id for one in found.made_from.sources] == [one.release.id for one in parts]
    assert [one.dataset for one in found.made_from.sources] == ["red", "blue"]
    number = sum(len(one.privacy.measurements) for one in parts)
    assert len(found.privacy.measurements) == number
    assert adds_up_to_claim(found)
    text = city.statement()
    assert "their losses add up" in text
    assert "red epsilon 2" in text


def test_where_nobody_is_at_two_the_promise_is_the_weakest(town: Town, tmp_path: Path) -> None:
    made = sfumato.combine(
        [town.red, town.blue], shares=[0.5, 0.5], overlap=0, out=tmp_path / "city"
    )
    blue = sfumato.read_release(town.blue).manifest.privacy
    assert made.manifest.privacy.epsilon == blue.epsilon
    assert made.manifest.privacy.delta == blue.delta
    assert made.manifest.privacy.method == LARGEST
    assert "that of the weakest" in " ".join(made.statement().split())
    assert adds_up_to_claim(made.manifest)


def test_one_data_set_is_not_two_operators_with_nobody_in_common(
    town: Town, tmp_path: Path
) -> None:
    """Two releases about the same people lose the sum, whatever overlap is stated."""
    red, blue = (sfumato.read_release(one) for one in (town.red, town.blue))
    ours, theirs = red.manifest, blue.manifest

    def under(dataset: str, datasets: list[str], ledger: str) -> Release:
        total = theirs.privacy.cumulative.model_copy(update={"datasets": datasets})
        changed = {
            "release": theirs.release.model_copy(update={"dataset": dataset}),
            "privacy": theirs.privacy.model_copy(update={"cumulative": total}),
            "ledger": theirs.ledger.model_copy(update={"id": ledger}),
        }
        return replace(blue, manifest=theirs.model_copy(update=changed))

    book = ours.ledger.id
    for other in (under("red", ["red"], book), under("blue", ["blue", "red"], book)):
        with pytest.raises(UsageError, match="about the same people"):
            folder_module.check_apart([red, other])
        with pytest.raises(UsageError, match="about the same people"):
            sfumato.combine([red, other], shares=[0.5, 0.5], overlap=0, out=tmp_path / "city")
    # Another ledger's data set of the same name is another operator's.
    folder_module.check_apart([red, blue])
    folder_module.check_apart([red, under("red", ["red"], "another")])


def test_shares_of_more_than_all_people_contradict_the_overlap(town: Town, tmp_path: Path) -> None:
    """Somebody must be at both, and without overlap the claim would leave them out."""
    for shares, overlap in (([0.9, 0.9], 0.0), ([0.9, 0.9], 0.5), ([0.6, 0.5], 0.05)):
        with pytest.raises(UsageError, match=r"more than \d+ % of the smaller one's people must"):
            sfumato.combine(
                [town.red, town.blue], shares=shares, overlap=overlap, out=tmp_path / "city"
            )
    assert not (tmp_path / "city").exists()
    sfumato.combine([town.red, town.blue], shares=[0.6, 0.5], overlap=0.2, out=tmp_path / "city")


def test_the_claim_is_never_less_than_what_all_measurements_lose(city: Release) -> None:
    """Neighbours differ by one person at both operators: every event of both lists happens."""
    privacy = city.manifest.privacy
    events = [event_from_json(one.event) for one in privacy.measurements]
    assert guarantee(events, privacy.delta).epsilon <= privacy.epsilon


def test_the_same_releases_give_the_same_bytes(town: Town, city: Release, tmp_path: Path) -> None:
    """Nothing but the folders is read: no record, no ledger, no clock, no chance."""
    again = sfumato.combine(
        [town.red, town.blue], shares=[0.5, 0.5], overlap=0.1, out=tmp_path / "city"
    )
    assert again.manifest == city.manifest


def test_a_package_of_several_operators(city: Release, tmp_path: Path) -> None:
    sfumato.export(city, tmp_path / "package", to="package", publisher="City", licence="CC-BY-4.0")
    assert sfumato.read_release(tmp_path / "package").manifest.privacy == city.manifest.privacy


def test_records_of_one_operator_are_no_truth_for_all_people(town: Town, city: Release) -> None:
    with pytest.raises(InputError, match="not the truth"):
        sfumato.evaluate(city, events=town.folder / "city" / "events.parquet", zones=town.zones)


def _changed(city: Release, **privacy: object) -> Manifest:
    old = city.manifest
    return old.model_copy(update={"privacy": old.privacy.model_copy(update=privacy)})


def test_a_list_that_leaves_something_out_does_not_give_the_claim(city: Release) -> None:
    """A reader computes the claim of every operator from the list, and then theirs together."""
    own = city.manifest.privacy
    assert adds_up_to_claim(city.manifest)
    assert not adds_up_to_claim(_changed(city, measurements=own.measurements[1:]))
    assert not adds_up_to_claim(_changed(city, epsilon=own.epsilon / 2))
    assert not adds_up_to_claim(_changed(city, delta=own.delta / 2))
    assert not adds_up_to_claim(_changed(city, method=LARGEST))
    assert not adds_up_to_claim(_changed(city, method=LARGEST, epsilon=3.0, delta=1e-6))
    made = city.manifest.made_from
    assert made is not None
    less = made.sources[0].model_copy(update={"epsilon": 0.1})
    told = made.model_copy(update={"sources": [less, *made.sources[1:]]})
    assert not adds_up_to_claim(city.manifest.model_copy(update={"made_from": told}))
    assert not adds_up_to_claim(city.manifest.model_copy(update={"made_from": None}))
    check_claim(city.manifest)


def test_an_overlap_of_zero_cannot_be_claimed_afterwards(city: Release, tmp_path: Path) -> None:
    """The weaker promise of an altered manifest is refused by the reader."""
    found = json.loads((city.folder / MANIFEST_NAME).read_text("utf-8"))
    found["privacy"] |= {"epsilon": 0.5}
    for file in city.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(found), "utf-8")
    with pytest.raises(InputError, match="does not give the loss"):
        sfumato.read_release(tmp_path)


def test_together_they_know_more(town: Town, city: Release, tmp_path: Path) -> None:
    alone = [
        sfumato.weigh(one, shares=0.5, out=tmp_path / one.name) for one in (town.red, town.blue)
    ]
    whole, parts = city.sum(), [one.sum() for one in alone]
    assert whole.plus_minus is not None
    assert whole.plus_minus < max(part.plus_minus or 0.0 for part in parts)
    low, high = sorted(part.value for part in parts)
    assert 0.9 * low <= whole.value <= 1.1 * high  # noise is fresh in every run
    assert city.lower is not None
    assert city.upper is not None
    assert (city.upper - city.lower).mean() < (alone[0].upper - alone[0].lower).mean()  # type: ignore[operator]


def test_other_zones(town: Town, tmp_path: Path) -> None:
    whole = geopandas.GeoDataFrame(
        {"zone_id": ["all"]}, geometry=[town.zones.union_all().buffer(0.001)], crs="OGC:CRS84"
    )
    whole.to_file(tmp_path / "whole.geojson")
    made = sfumato.combine(
        [town.red, town.blue], shares=[0.5, 0.5], overlap=0.1, zones=tmp_path / "whole.geojson",
        out=tmp_path / "city",
    )  # fmt: skip
    assert made.ids.tolist() == ["all"]
    red = sfumato.read_release(town.red).values.sum()
    blue = sfumato.read_release(town.blue).values.sum()
    assert 2 * min(red, blue) < made.values.sum() * 1.01
    assert made.values.sum() < 2.02 * max(red, blue)
    far = geopandas.GeoDataFrame(
        {"zone_id": ["far"]}, geometry=whole.geometry.translate(20, 0), crs="OGC:CRS84"
    )
    with pytest.raises(InputError, match="anything in common"):
        sfumato.combine(
            [town.red, town.blue], shares=[0.5, 0.5], overlap=0, zones=far, out=tmp_path / "far"
        )


def test_what_cannot_be_combined_is_refused(town: Town, city: Release, tmp_path: Path) -> None:
    out = tmp_path / "city"

    def refused(kind: type[Exception], says: str, *releases: object, **words: object) -> None:
        told = {"shares": [0.5, 0.5], "overlap": 0.1, "out": out} | words
        with pytest.raises(kind, match=says) as caught:
            sfumato.combine(list(releases), **told)  # type: ignore[arg-type]
        assert getattr(caught.value, "remedy", "")
        assert not out.exists()

    refused(UsageError, "One release", town.red, shares=[0.5])
    refused(UsageError, "market shares", town.red, town.blue, shares=[0.5])
    refused(UsageError, "overlap", town.red, town.blue, overlap=1.5)
    refused(UsageError, "overlap", town.red, town.blue, overlap=-0.1)
    refused(UsageError, "given twice", town.red, town.red)
    refused(UsageError, "already", town.red, city)
    refused(InputError, "time slots are others", town.red, town.slots)
    refused(InputError, "counts visits", town.red, town.visits)
    refused(InputError, "not a share", town.red, town.blue, shares=[0.5, 1.5])
    red = sfumato.read_release(town.red)
    tainted = replace(red, manifest=red.manifest.model_copy(update={"tainted": True}))
    refused(InputError, "test seed", tainted, town.blue)
    refused(InputError, "without its manifest", replace(red, how="unsealed"), town.blue)
    other = red.manifest.privacy.model_copy(update={"unit": "user-day"})
    daily = replace(red, manifest=red.manifest.model_copy(update={"privacy": other}))
    refused(InputError, "no common unit", town.blue, daily)


def test_killed_half_way_no_half_folder_is_left(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_module, "write_csv", die)
    with pytest.raises(KeyboardInterrupt):
        sfumato.combine([town.red, town.blue], shares=[0.5, 0.5], overlap=0, out=tmp_path / "city")
    assert not list(tmp_path.iterdir())


def test_from_the_command_line(
    town: Town, shares: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shares.assign(sd=0.02).to_csv("red.csv", index=False)
    words = [
        "combine", str(town.red), str(town.blue), "--shares", "red.csv", "--shares", "0.4",
        "--overlap", "0.05", "--out", "city", "--json",
    ]  # fmt: skip
    said = CliRunner().invoke(app, words, catch_exceptions=False)
    assert said.exit_code == 0
    told = json.loads(said.stdout)
    assert told["made_from"]["overlap"] == 0.05
    table = pd.read_csv("city/weights.csv")
    assert sorted(set(table["release"])) == ["blue", "red"]
    np.testing.assert_allclose(table["weight"][:16], 1 / shares["share"], rtol=1e-3)
    assert (Path("city") / "index.html").is_file()
    readme = Path("city/README.txt").read_text("utf-8")
    assert "red + blue" in readme
