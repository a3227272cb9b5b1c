"""A release as a publication package: what its validators say, and what GDAL opens."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import frictionless
import jsonschema
import numpy as np
import pyarrow as pa
import pyogrio
import pytest
import rdflib
import shapely
import yaml
from tests.published.told import Town

import sfumato as door
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.privacy.ledger import Cap
from sfumato.published import read_release
from sfumato.published.about import csv_name
from sfumato.published.geopackage import BY_SLOT, COLOURS, class_breaks

SPECS = Path(os.environ.get("SFUMATO_SPECS", "../shared/specs"))
WORDS = {"publisher": "Métro: Telecom", "licence": "cc-by-4.0", "contact": "data@example.org"}
DCAT = rdflib.Namespace("http://www.w3.org/ns/dcat#")
DCT = rdflib.Namespace("http://purl.org/dc/terms/")


def three_places(folder: Path) -> dict[str, Any]:
    """GPS-like: three zones, two slots, a handful of people; what a release is asked with."""
    folder.mkdir(parents=True, exist_ok=True)
    squares = [shapely.box(2.0 + 0.1 * k, 48.0, 2.1 + 0.1 * k, 48.1) for k in range(3)]
    features = [
        {
            "type": "Feature",
            "properties": {"zone_id": f"0{k}"},
            "geometry": json.loads(shapely.to_geojson(square)),
        }
        for k, square in enumerate(squares)
    ]
    zones = folder / "zones.geojson"
    zones.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    events = pa.table(
        {
            "user": [f"u{k}" for k in range(60)],
            "time": ["2024-03-04T06:00:00Z"] * 60,
            "lon": [2.05 + 0.1 * (k % 3) for k in range(60)],
            "lat": [48.05] * 60,
        }
    )
    book = door.Ledger(folder / "ledger.db")
    book.initialise()
    book.add_dataset("taxis", Cap(epsilon=3, delta=1e-4))
    days = {"start": "2024-03-04", "end": "2024-03-05", "slot": "12h", "tz": "Europe/Paris"}
    cost = {"dataset": "taxis", "epsilon": 1, "delta": 1e-5, "ledger": book}
    return {"events": events, "zones": zones, "zone_id": "zone_id", **days, **cost}


def three_zones(folder: Path, **more: Any) -> door.Release:
    asked = three_places(folder) | {"scheme": "gaussian", "out": folder / "few", "anyway": True}
    return door.release(**asked, **more)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> door.Release:
    return three_zones(tmp_path_factory.mktemp("few"), title="Cabs & <people>", **WORDS)


@pytest.fixture(scope="module")
def package(few: door.Release) -> Path:
    folder = few.folder.parent / "package"
    door.export(few, folder, to="package")
    return folder


def test_the_package_is_the_release_with_more_beside_it(few: door.Release, package: Path) -> None:
    again = read_release(package)
    assert np.array_equal(again.values, few.values)
    assert again.manifest == few.manifest
    more = {path.name for path in package.iterdir()} - set(few.manifest.files) - {"manifest.json"}
    assert more == {
        *("dcat.jsonld", "datapackage.json", "registry.yaml", "density.gpkg", "density.qml")
    }
    few_page = (few.folder / "index.html").read_text()
    assert "Cabs \\u0026 \\u003cpeople\\u003e" in few_page
    assert "<people>" not in few_page
    told = (few.folder / "README.txt").read_text()
    assert told.startswith("Cabs & <people>\n===============\n")
    assert "Métro: Telecom" in told
    assert "https://creativecommons.org/licenses/by/4.0/" in told
    assert few.manifest.about is not None
    assert few.manifest.about.licence == "CC-BY-4.0"


def test_the_same_release_gives_the_same_bytes(few: door.Release, package: Path) -> None:
    folder = few.folder.parent / "again"
    door.export(few, folder, to="package")
    for path in package.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.skipif(not SPECS.is_dir(), reason="SFUMATO_SPECS does not point to specifications")
def test_the_registry_takes_the_entry(package: Path, few: door.Release) -> None:
    schema = yaml.safe_load((SPECS / "dp-registry/deployments-schema.yaml").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    example = yaml.safe_load((SPECS / "dp-registry/example-google-mobility.yaml").read_text())
    assert not list(validator.iter_errors(example))
    entry = yaml.safe_load((package / "registry.yaml").read_text("utf-8"))
    assert not list(validator.iter_errors(entry))
    made = entry["deployment"]
    assert made["basic"]["name"] == "Cabs & <people>"
    assert made["basic"]["data_curators"] == ["Métro: Telecom"]
    said, claimed = made["privacy_loss"]["privacy_parameters"], few.manifest.privacy
    assert claimed.epsilon <= said["epsilon"] <= claimed.epsilon * 1.00001
    assert said["delta"] == 1e-5
    assert "2.000 to 2.300" in made["basic"]["data_product_region"]


def test_portals_read_the_catalogue_entry(package: Path) -> None:
    graph = rdflib.Graph().parse(package / "dcat.jsonld", format="json-ld")
    (data_set,) = graph.subjects(rdflib.RDF.type, DCAT.Dataset)
    (catalogue,) = graph.subjects(rdflib.RDF.type, DCAT.Catalog)
    assert graph.value(catalogue, DCAT.dataset) == data_set
    for node, mandatory in (
        (catalogue, (DCT.title, DCT.description, DCT.publisher)),
        (data_set, (DCT.title, DCT.description, DCT.publisher, DCAT.contactPoint, DCT.temporal)),
    ):
        assert all(graph.value(node, name) is not None for name in mandatory)
    files = set()
    for node in graph.objects(data_set, DCAT.distribution):
        licence = str(graph.value(node, DCT.license))
        assert licence.endswith("/authority/licence/CC_BY_4_0")
        address = graph.value(node, DCAT.accessURL)
        assert isinstance(address, rdflib.URIRef)
        files.add(Path(str(address)).name)
        assert Path(str(address).removeprefix("file://")).exists()  # relative to the document
        assert int(str(graph.value(node, DCAT.byteSize))) > 0
    assert {"density.parquet", "density.csv", "density.gpkg", "zones.geojson"} <= files
    for literal in graph.objects():
        if isinstance(literal, rdflib.Literal):
            assert not literal.ill_typed, literal


def test_frictionless_finds_nothing_wrong(package: Path) -> None:
    report = frictionless.validate(str(package / "datapackage.json"))
    assert report.valid, report.flatten(["rowNumber", "fieldName", "message"])
    shifted = package.parent / "altered"
    shutil.copytree(package, shifted)
    table = shifted / "density.csv"
    table.write_text(table.read_text().replace("2024-03-04T00", "yesterday", 1))
    assert not frictionless.validate(str(shifted / "datapackage.json")).valid


def test_gdal_opens_the_map_and_finds_its_style(package: Path, few: door.Release) -> None:
    path = package / "density.gpkg"
    layers = dict(pyogrio.list_layers(path))
    assert layers["zones"] == layers[BY_SLOT] == "Polygon"
    assert layers["density"] is None
    zones = pyogrio.read_dataframe(path, layer="zones")
    assert zones.crs.to_epsg() == 4326
    assert np.allclose(zones["count"], few.values.mean(axis=1), atol=1e-3)
    assert np.allclose(zones["km2"], 7.46 * 11.12, rtol=0.02)  # a tenth of a degree at 48° north
    rows = pyogrio.read_dataframe(path, layer=BY_SLOT)
    assert len(rows) == few.values.size
    assert np.allclose(rows["count"].to_numpy().reshape(3, 2), few.values)
    assert str(rows["time_start"][0].isoformat()) == "2024-03-03T23:00:00+00:00"
    box = (2.11, 48.01, 2.19, 48.09)  # inside the middle zone, by GDAL's own filter
    assert set(pyogrio.read_dataframe(path, layer=BY_SLOT, bbox=box)["zone_id"]) == {"01"}
    styles = pyogrio.read_dataframe(path, layer="layer_styles", read_geometry=False)
    assert set(styles["f_table_name"]) == {"zones", BY_SLOT}
    for text in (*styles["styleQML"], (package / "density.qml").read_text()):
        renderer = ElementTree.fromstring(text).find("renderer-v2")
        assert renderer is not None
        assert renderer.get("attr") == '"count" / "km2"'
        ranges = renderer.findall("ranges/range")
        ends = [(float(str(r.get("lower"))), float(str(r.get("upper")))) for r in ranges]
        assert ends[0][0] <= (few.values.min() / 83) + 1e-6
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
        assert len(renderer.findall("symbols/symbol")) == len(ranges)
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_classes_hold_every_value() -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(size=(40, 9)) - 0.2
    ends = class_breaks(values)
    assert ends[0] <= values.min()
    assert ends[-1] >= values.max()
    assert len(ends) == len(COLOURS) + 1
    assert class_breaks(np.zeros((2, 2))) == [0.0, 1.0]
    assert class_breaks(np.full((2, 2), np.nan)) == [0.0, 1.0]


def test_towers_are_points_and_large_tables_are_compressed(
    town: Town, sfumato: Callable[..., str]
) -> None:
    sfumato("ledger", "init", "--dataset", "d", "--cap-epsilon", "1", "--cap-delta", "1e-6")
    Path("sfumato.toml").write_text(
        'publisher = "Town"\nlicence = "https://example.org/terms"\ntitle = "A day"\n'
    )
    asked = ("--config", "sfumato.toml", "--towers", str(town.folder / "towers.csv"), "--csv", "gz")
    when = ("--from", "2024-03-30", "--to", "2024-04-01", "--tz", "Europe/Paris", "--slot", "6h")
    cost = ("--dataset", "d", "--epsilon", "0.5", "--delta", "1e-7", "--scheme", "laplace")
    events = str(town.folder / "events.parquet")
    sfumato("release", events, *asked, *when, *cost, "--out", "day")
    made = read_release("day")
    assert "density.csv.gz" in made.manifest.files
    assert "density.csv" not in made.manifest.files
    assert "density.csv.gz: the same as text, compressed" in Path("day/README.txt").read_text()
    said = sfumato("export", "day", "package", "--to", "package", "--config", "sfumato.toml")
    assert "files in package" in said
    assert frictionless.validate("package/datapackage.json").valid
    towers = pyogrio.read_dataframe("package/density.gpkg", layer="towers")
    assert set(towers.geom_type) == {"Point"}
    assert "km2" not in towers
    assert 'class="SimpleMarker"' in Path("package/density.qml").read_text()
    described = json.loads(Path("package/datapackage.json").read_text())
    assert described["licenses"] == [
        {"title": "https://example.org/terms", "path": "https://example.org/terms"}
    ]


def test_what_is_refused(few: door.Release, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a licence that sfumato knows"):
        door.export(few, tmp_path / "x", to="package", licence="free")
    with pytest.raises(UsageError, match="address that answers"):
        door.export(few, tmp_path / "x", to="package", contact="the office")
    with pytest.raises(UsageError, match="exists"):
        door.export(few, tmp_path, to="package")
    with pytest.raises(UsageError, match="no place for title"):
        door.export(few, tmp_path / "x", to="flowkit", title="x")
    plain = three_zones(tmp_path / "plain")
    with pytest.raises(UsageError, match="The publisher is missing"):
        door.export(plain, tmp_path / "x", to="package")
    with pytest.raises(UsageError, match="not a form of the text table"):
        three_zones(tmp_path / "other", csv="zip")
    (plain.folder / "density.csv").write_text("prettier")
    with pytest.raises(InputError, match="not as it was published"):
        door.export(plain, tmp_path / "x", to="package", **WORDS)
    assert not (tmp_path / "x").exists()


def test_the_form_of_the_text_table_is_decided_by_public_numbers() -> None:
    assert csv_name("auto", 1, 1_048_575) == "density.csv"
    assert csv_name("auto", 1, 1_048_576) == "density.csv.gz"
    assert csv_name("yes", 989, 8760) == "density.csv"


def test_a_release_without_a_text_table(tmp_path: Path) -> None:
    made = three_zones(tmp_path, csv="no", **WORDS)
    assert not any(name.startswith("density.csv") for name in made.manifest.files)
    assert made.manifest.public_inputs["csv"] == "no"
    door.export(made, tmp_path / "package", to="package")
    assert frictionless.validate(str(tmp_path / "package/datapackage.json")).valid


def test_a_stream_is_packed_when_it_is_complete(tmp_path: Path) -> None:
    asked = three_places(tmp_path) | {"unit": "user-period", "out": tmp_path / "day", "csv": "gz"}
    door.stream(**asked, title="A day", **WORDS)
    with pytest.raises(SfumatoError, match="about"):  # a rerun says the same words
        door.stream(**asked, title="Another", resume=True, **WORDS)
    made = read_release(tmp_path / "day")
    assert made.manifest.title == "A day"
    assert (tmp_path / "day/README.txt").read_text().startswith("A day\n=====\n")
    assert "density.csv.gz" in made.manifest.files
    header = (tmp_path / "day/density.csv.gz").read_bytes()[:10]
    assert header[3] == 0  # no name
    assert header[4:8] == bytes(4)  # no time
    door.export(made, tmp_path / "package", to="package")
    assert frictionless.validate(str(tmp_path / "package/datapackage.json")).valid
    entry = yaml.safe_load((tmp_path / "package/registry.yaml").read_text("utf-8"))
    assert entry["deployment"]["deployment_model"]["release_type"] == "Many releases"


@pytest.mark.privacy
def test_what_protects_nobody_is_not_packed(few: door.Release, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    shutil.copytree(few.folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"tainted": True}))
    with pytest.raises(InputError, match="protects nobody"):
        door.export(folder, tmp_path / "package", to="package")
    assert not (tmp_path / "package").exists()


@pytest.mark.privacy
def test_a_package_tells_nothing_that_the_release_does_not(package: Path, tmp_path: Path) -> None:
    """Made again from the published files alone, without ledger or events, it is the same."""
    published = json.loads((package / "manifest.json").read_text())["files"]
    for name in (*published, "manifest.json"):
        (tmp_path / "alone").mkdir(exist_ok=True)
        shutil.copy(package / name, tmp_path / "alone" / name)
    door.export(tmp_path / "alone", tmp_path / "again", to="package")
    for path in package.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
