"""What commit 4627417 left behind is opened, verified and finished: same numbers, paid once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from sfumato.cli.main import app
from sfumato.privacy.ledger import Ledger, Status
from sfumato.privacy.ledger.views import verify

V1 = Path(__file__).parents[2] / "fixtures" / "v1"
EXPECTED: dict[str, dict[str, Any]] = json.loads((V1 / "expected.json").read_text())

pytestmark = pytest.mark.privacy


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A copy that may be written to, with the modes that keys have."""
    shutil.copytree(V1, tmp_path / "v1", ignore=shutil.ignore_patterns("make.py", "__pycache__"))
    for path in (tmp_path / "v1" / "books").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "v1"


@pytest.fixture(autouse=True)
def later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package has gone on since: its version is on record and keeps nothing from finishing."""
    for module in ("streams.live", "density.request", "traces.request"):
        monkeypatch.setattr(f"sfumato.{module}.__version__", "99.1")


def run(home: Path, *arguments: str) -> Result:
    where = ("--ledger", str(home / "books" / "ledger.sqlite"))
    result = CliRunner().invoke(app, [*arguments, *where])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def finish(home: Path, name: str) -> Path:
    """Run the command that was killed once more, as its holder would."""
    given = [text.replace("HOME", str(home)) for text in EXPECTED[name]["command"]]
    more = ["--resume"] if given[0] == "stream" else []
    assert run(home, *given, "--quiet", *more).exit_code == 0
    return home / "out" / name


def test_the_old_ledger_is_sound(home: Path) -> None:
    ledger = Ledger(home / "books" / "ledger.sqlite")
    report = verify(ledger)
    assert report.sound, report.findings
    charges = ledger.book().charges.values()
    assert sum(c.status is Status.COMMITTED for c in charges) == 6
    assert sum(c.status is Status.RESERVED for c in charges) == len(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_killed_run_of_the_old_version_is_finished(home: Path, name: str) -> None:
    ledger, wanted = Ledger(home / "books" / "ledger.sqlite"), EXPECTED[name]
    before = len(ledger.book().charges)
    stood = {p: p.read_bytes() for p in (home / "out" / "written").iterdir()}
    folder = finish(home, name)
    # A result that stood in place is committed as it is.
    assert {p: p.read_bytes() for p in (home / "out" / "written").iterdir()} == stood
    if "counts" in wanted:
        lines = (folder / "stream.ndjson").read_text().splitlines()
        found = [json.loads(line)["counts"] for line in lines]
        for slot, (mine, theirs) in enumerate(zip(found, wanted["counts"], strict=True)):
            assert mine == pytest.approx(theirs, abs=2e-3), slot
    else:
        kind = "density" if (folder / "density.parquet").exists() else "traces"
        table = pq.read_table(folder / f"{kind}.parquet")
        for column, values in wanted["columns"].items():
            if column in ("lower", "upper"):  # these schemes no longer state intervals
                assert column not in table.column_names or name == "written"
                continue
            theirs = table[column].to_pylist()
            if isinstance(values[0], str):
                assert [str(value) for value in theirs] == values
            else:
                # One published digit: thousandths of a count, 1e-5 degrees of the lattice.
                digit = 2e-5 if kind == "traces" else 2e-3
                assert theirs == pytest.approx(values, rel=0, abs=digit)
    (charge,) = [c for c in ledger.book().charges.values() if c.claim.name == name]
    assert charge.status is Status.COMMITTED
    assert len(ledger.book().charges) == before, "it was paid a second time"
    assert not list((home / "books" / "ledger.keys").glob(f"{charge.id}*"))
    assert verify(ledger).sound
