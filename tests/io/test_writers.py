"""A file is whole or not there, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from sfumato.errors import SfumatoError, UsageError
from sfumato.io.write import (
    TEMPORARY,
    sweep_temporaries,
    write_atomically,
    write_bytes,
    write_csv,
    write_parquet,
)

TABLE = pa.table({"zone_id": ["007", 'a "b", c', "é"], "count": [1, None, 3]})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_temporary_file_is_private_and_beside_its_target(tmp_path: Path) -> None:
    seen: list[Path] = []

    def writer(path: Path) -> None:
        seen.append(path)
        assert path.parent == tmp_path
        assert path.name.startswith(TEMPORARY)
        assert mode(path) == 0o600
        path.write_text("new")

    target = tmp_path / "table.csv"
    target.write_text("old")
    write_atomically(target, writer, mode=0o640)
    assert target.read_text() == "new"
    assert mode(target) == 0o640
    assert os.listdir(tmp_path) == ["table.csv"]
    assert seen[0].suffix == ".csv"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SfumatoError("no")])
def test_a_writer_that_fails_changes_nothing(error: BaseException, tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    write_bytes(target, b"old")

    def writer(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(type(error)):
        write_atomically(target, writer)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_full_disk_is_said_so(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full on this system")
    with pytest.raises(SfumatoError, match="the disk is full"):
        write_atomically(tmp_path / "a", lambda _: full.write_bytes(b"x" * 10) and None)
    assert os.listdir(tmp_path) == []


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder does not exist"):
        write_bytes(tmp_path / "none" / "a", b"")
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError, match="folder stands where a file should"):
        write_bytes(tmp_path / "taken", b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="or the reverse"):
        write_bytes(tmp_path / "file" / "a", b"")
    assert sorted(os.listdir(tmp_path)) == ["file", "taken"]


def test_what_a_killed_run_leaves_is_private_and_swept(tmp_path: Path) -> None:
    target = tmp_path / "release.parquet"
    write_bytes(target, b"old")
    script = (
        "import os, signal, sys\n"
        "from sfumato.io.write import write_atomically\n"
        "def writer(path):\n"
        "    path.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], writer)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    (left,) = tmp_path.glob(f"{TEMPORARY}*")
    assert mode(left) == 0o600
    (tmp_path / ".sfumato.toml").write_text("")
    (tmp_path / f"{TEMPORARY}folder").mkdir()
    assert sweep_temporaries(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == [f"{TEMPORARY}folder", ".sfumato.toml", target.name]
    with pytest.raises(UsageError, match="does not exist"):
        sweep_temporaries(tmp_path / "none")


def test_tables_come_back(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", TABLE)
    assert pq.read_table(tmp_path / "a.parquet").equals(TABLE)
    write_parquet(tmp_path / "b.parquet", TABLE)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    write_csv(tmp_path / "a.csv", TABLE)
    types = pacsv.ConvertOptions(column_types={"zone_id": pa.string()})
    assert pacsv.read_csv(tmp_path / "a.csv", convert_options=types).equals(TABLE)
