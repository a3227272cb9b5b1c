"""Releases of several operators are packed like any other."""

from __future__ import annotations

import json
from pathlib import Path

import frictionless
import yaml
from tests.people.conftest import Town

import sfumato


def test_a_combined_release_is_packed_and_its_page_adds_up(town: Town, tmp_path: Path) -> None:
    made = sfumato.combine(
        [town.red, town.blue], shares=[0.5, 0.5], overlap=0.1, out=tmp_path / "both"
    )
    words = {"publisher": "Both", "licence": "CC0-1.0"}
    sfumato.export(made, tmp_path / "package", to="package", **words)  # type: ignore[arg-type]
    assert frictionless.validate(str(tmp_path / "package/datapackage.json")).valid
    entry = yaml.safe_load((tmp_path / "package/registry.yaml").read_text("utf-8"))
    loss = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert loss["epsilon"] >= made.manifest.privacy.epsilon
    page = (made.folder / "index.html").read_text("utf-8")
    data = json.loads(page.partition('<script id="data" type="application/json">')[2].split("<")[0])
    assert (made.posterior is not None) == ("sums" in data["releases"][0])
