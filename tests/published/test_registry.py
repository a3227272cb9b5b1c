"""The pipelines by name, and what the command refuses about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.published.told import Town, write_export

from sfumato.errors import InputError, UsageError
from sfumato.published.export import PIPELINES, export

WHEN = ("--from", "2024-03-30", "--to", "2024-04-01", "--tz", "Europe/Paris", "--slot", "6h")
WHAT = ("--dataset", "d", "--epsilon", "0.5", "--delta", "1e-7", "--expected-users", "2000")


@pytest.fixture
def flowdb(town: Town, tmp_path: Path, sfumato: Callable[..., str]) -> Path:
    """An export without events, and a ledger."""
    write_export(town, tmp_path / "flowdb")
    for name in ("sms", "calls"):
        (tmp_path / "flowdb/events" / f"{name}.parquet").unlink()
    (tmp_path / "flowdb/events/mds.parquet").write_bytes(b"these are not events")
    sfumato("ledger", "init", "--dataset", "d", "--cap-epsilon", "1", "--cap-delta", "1e-6")
    return tmp_path / "flowdb"


def test_an_address_is_no_lakehouse_and_is_not_repeated(sfumato: Callable[..., str]) -> None:
    address = "postgresql://me:secret@host/db"
    asked = ("release", address, "--pipeline", "multimno", "--zoning", "nuts:3", *WHEN, *WHAT)
    with pytest.raises(UsageError, match="lakehouse") as caught:
        sfumato(*asked, "--out", "x")
    assert "secret" not in str(caught.value)


def test_a_dry_run_reads_antennas_and_regions_but_no_events(
    flowdb: Path, sfumato: Callable[..., str]
) -> None:
    asked = ("release", str(flowdb), "--pipeline", "flowkit", "--zoning", "admin3", *WHEN, *WHAT)
    asked = (*asked, "--anyway")
    assert "It fits the budget." in sfumato(*asked, "--out", "x", "--dry-run")
    with pytest.raises(InputError, match=r"mds\.parquet"):
        sfumato(*asked, "--out", "x")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--zoning", "admin3"), "that of a --pipeline"),
        (("--pipeline", "flowkit", "--towers", "t.csv"), "places and columns of its own"),
        (("--pipeline", "flowkat"), "not a pipeline"),
        (("--pipeline", "multimno"), "data set and a level"),
    ],
)
def test_refusals_of_release(
    flowdb: Path, sfumato: Callable[..., str], more: tuple[str, ...], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        sfumato("release", str(flowdb), *more, *WHEN, *WHAT, "--out", "x")


def test_refusals_of_export(tmp_path: Path, sfumato: Callable[..., str]) -> None:
    with pytest.raises(UsageError, match="not a pipeline"):
        sfumato("export", "here", "there", "--to", "excel")
    with pytest.raises(InputError, match="not a release folder"):
        export(tmp_path, tmp_path / "out", to=PIPELINES[0], zoning="nuts:3")
