"""The manifest: strict, stable to the byte, with a published schema; and its plain words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from sfumato.model.formats import OtherFormat
from sfumato.published.manifest import (
    COMPUTATIONAL,
    NOT_COVERED,
    Manifest,
    UnitLoss,
    WholeRecords,
    json_schema,
    manifest_in,
    manifest_text,
    read_manifest,
)
from sfumato.published.statement import odds, statement

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "manifest.schema.json"


def test_what_is_written_is_read_back(manifest: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(manifest_text(manifest))
    assert read_manifest(path) == manifest
    assert manifest_text(read_manifest(path)) == manifest_text(manifest)


def test_unknown_fields_and_other_versions_are_refused(manifest: Manifest) -> None:
    data = json.loads(manifest_text(manifest))
    with pytest.raises(ValidationError):
        Manifest.model_validate(data | {"comment": "x"})
    with pytest.raises(OtherFormat):
        manifest_in(data | {"version": "2"})
    del data["privacy"]["unit"]
    with pytest.raises(ValidationError):
        Manifest.model_validate(data)


def test_the_published_schema_is_that_of_the_code() -> None:
    assert SCHEMA.read_text() == json_schema()


def test_the_schema_asks_for_all_that_a_reader_needs() -> None:
    schema = json.loads(json_schema())
    privacy = schema["$defs"]["Privacy"]["required"]
    assert set(privacy) >= {
        "unit",
        "neighbours",
        "bound",
        "counting",
        "measurements",
        "rho",
        "epsilon",
        "delta",
        "method",
        "cumulative",
    }
    assert set(schema["required"]) >= {"ledger", "grid", "scheme", "caveats", "not_covered"}


def test_the_statement_says_the_figures_and_what_is_not_promised(manifest: Manifest) -> None:
    text = " ".join(statement(manifest).split())
    assert "one person's whole record" in text
    assert "35 percent of itself (epsilon 0.3) plus 1 in 500,000 (delta 2e-06)" in text
    assert "a chance of 10 percent without them is concluded with a chance of at most 14" in text
    assert "standard deviation 13.5" in text
    assert "first release about these people" in text
    assert "What is not promised." in text
    assert "WARNING" not in text


def test_that_the_guarantee_is_computational_is_said_wherever_it_is_given(
    manifest: Manifest,
) -> None:
    assert COMPUTATIONAL in NOT_COVERED  # every publisher's list ends with these
    said = statement(manifest.model_copy(update={"not_covered": list(NOT_COVERED)}))
    page = (DOCS / "guarantees.md").read_text("utf-8")
    for text in (said, page):
        assert COMPUTATIONAL.rstrip(";") in " ".join(text.split())


def test_the_page_names_the_places_where_private_numbers_are_not_whole() -> None:
    page = (DOCS / "guarantees.md").read_text("utf-8")
    assert "no floating-point number lies on the path" not in page
    listed = page.partition("| place | what is computed in doubles |")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z_/]+[.]py)`", listed)
    assert len(listed.splitlines()) == 2 + 3, "a rule below the heading, and three places"
    assert all((DOCS.parent / "src" / "sfumato" / name).is_file() for name in named)


def test_the_statement_adds_up_other_releases(manifest: Manifest) -> None:
    life = manifest.privacy.cumulative.lifetime.model_copy(update={"releases": 4, "epsilon": 0.629})
    total = manifest.privacy.cumulative.model_copy(update={"lifetime": life})
    privacy = manifest.privacy.model_copy(update={"cumulative": total})
    text = " ".join(statement(manifest.model_copy(update={"privacy": privacy})).split())
    assert "4 releases about these people" in text
    assert "88 percent of itself (epsilon 0.629 at delta 2e-06)" in text


@pytest.mark.privacy
def test_the_statement_counts_releases_for_other_units_and_says_what_days_add_up_to(
    manifest: Manifest,
) -> None:
    alone = WholeRecords(releases=1, rho=None, epsilon=1.0, delta=2e-6)
    loss = UnitLoss(
        unit="user-period",
        neighbours="",
        epsilon=31.0,
        delta=2e-6,
        rho=None,
        releases=2,
        not_bounded_by=0,
        whole_records=alone,
    )
    total = manifest.privacy.cumulative.model_copy(update={"releases": 2, "per_unit": [loss]})
    privacy = manifest.privacy.model_copy(update={"cumulative": total})
    text = " ".join(statement(manifest.model_copy(update={"privacy": privacy})).split())
    assert "first release about these people" not in text
    assert "2 releases about these people" in text
    assert "epsilon 31 at delta 2e-06 for someone who is there all the time" in text
    assert "whole records alone, which a cap holds, come to epsilon 1" in text


@pytest.mark.parametrize("change", [{"tainted": True}, {"differential_privacy": False}])
def test_the_statement_warns_loudly(manifest: Manifest, change: dict[str, bool]) -> None:
    assert "WARNING" in statement(manifest.model_copy(update=change))
    assert "must not be published" in " ".join(
        statement(manifest.model_copy(update=change)).split()
    )


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (0.1, "11 percent of itself"),
        (0.3, "35 percent of itself"),
        (1.0, "a factor of 2.72"),
        (2.5, "a factor of 12.2"),
    ],
)
def test_odds_in_words(epsilon: float, words: str) -> None:
    assert odds(epsilon) == words


def test_a_promise_that_promises_nothing_is_called_that(manifest: Manifest) -> None:
    weak = manifest.privacy.model_copy(update={"epsilon": 3.0})
    text = " ".join(statement(manifest.model_copy(update={"privacy": weak})).split())
    assert "no protection worth the name" in text
