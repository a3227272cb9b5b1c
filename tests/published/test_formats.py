"""The mark of the formats in what is published: turned where steps lead here, refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.published.hostile import ERRORS, TABLE, folder, reseal

import sfumato
from sfumato.errors import InputError
from sfumato.io import write
from sfumato.io.foreign import arrays
from sfumato.io.write import mark_of, write_arrays, write_parquet
from sfumato.model import formats
from sfumato.model.formats import FORMAT, OtherFormat, current
from sfumato.published import manifest
from sfumato.published.manifest import Manifest


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return folder(tmp_path / "release")


def in_manifest(path: Path, mark: str) -> None:
    reseal(path, lambda stated: stated.update(version=mark))


def in_table(path: Path, mark: str) -> None:
    table = pq.read_table(path / TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "FORMAT", mark)
        write_parquet(path / TABLE, table)
    reseal(path)


def in_posterior(path: Path, mark: str) -> None:
    numbers = arrays((path / ERRORS).read_bytes())
    write_arrays(path / ERRORS, numbers | {"format": np.array(mark)})
    reseal(path)


PLACES: dict[str, Callable[[Path, str], None]] = {
    "manifest": in_manifest,
    "table": in_table,
    "posterior": in_posterior,
}


def read(path: Path) -> Any:
    found = sfumato.read_release(path)
    return found.values, found.posterior


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("0", "development version"),
        ("7", "has format 7"),
    ],
)
def test_another_mark_is_refused_in_a_sentence_that_says_what_to_do(
    release: Path, place: str, mark: str, words: str
) -> None:
    PLACES[place](release, mark)
    with pytest.raises(InputError, match=words) as refused:
        read(release)
    assert refused.value.exit_code == 1
    assert refused.value.remedy


def test_a_mark_that_no_number_holds_is_refused_like_any_other() -> None:
    with pytest.raises(OtherFormat, match="has format 9999"):
        current("stream", "9" * 5000, {})


def test_no_mark_is_that_of_a_development_version(release: Path) -> None:
    table = pq.read_table(release / TABLE).replace_schema_metadata(None)
    pq.write_table(table, release / TABLE)
    reseal(release)
    with pytest.raises(InputError, match="development version"):
        read(release)
    reseal(release, lambda stated: stated.update(version=1))  # a number, as it was before
    with pytest.raises(InputError, match="development version"):
        read(release)


def test_every_document_bears_the_mark(release: Path) -> None:
    assert Manifest.model_json_schema()["properties"]["version"]["const"] == FORMAT
    assert mark_of(pq.read_schema(release / TABLE)) == FORMAT
    assert str(arrays((release / ERRORS).read_bytes())["format"]) == FORMAT


def test_steps_turn_what_was_written_before(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy: format 2 counts in tens, states a level twice as large and calls the title name."""
    before, _ = read(release)
    level = sfumato.read_release(release).posterior.level  # type: ignore[union-attr]

    def tens(table: Any) -> Any:
        at = table.schema.get_field_index("count")
        counts = np.asarray(table["count"]) * 10.0
        return table.set_column(at, "count", [counts])

    def named(stated: dict[str, Any]) -> dict[str, Any]:
        return stated | {"version": "2", "release": stated["release"] | {"name": "turned"}}

    steps: dict[Any, tuple[str, Callable[[Any], Any]]] = {
        ("manifest", FORMAT): ("2", named),
        ("table", FORMAT): ("2", tens),
        ("posterior", FORMAT): ("2", lambda a: a | {"level": a["level"] * 2}),
    }
    for module in (formats, manifest, write):
        monkeypatch.setattr(module, "FORMAT", "2")
    for place, step in steps.items():
        monkeypatch.setitem(formats.STEPS, place, step)
    found = sfumato.read_release(release)
    assert found.manifest.release.name == "turned"
    np.testing.assert_array_equal(found.values, before * 10)
    np.testing.assert_allclose(found.posterior.level, level * 2)  # type: ignore[union-attr]


def test_steps_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMAT", "3")
    monkeypatch.setitem(formats.STEPS, ("table", "1"), ("2", lambda text: text + "b"))
    monkeypatch.setitem(formats.STEPS, ("table", "2"), ("3", lambda text: text + "c"))
    assert [current("table", mark, "a") for mark in ("1", "2", "3")] == ["abc", "ac", "a"]
    for mark in ("0", None, 3, "4"):
        with pytest.raises(OtherFormat):
            current("table", mark, "a")
