"""Files, folders, patterns and partitions; and every way in which there is nothing to read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sfumato.io.locate import format_of, head, is_path, locate
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import FileFormat


def touch(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return paths


def test_a_folder_is_searched_in_a_fixed_order(tmp_path: Path) -> None:
    b, a = touch(tmp_path, "b.parquet", "a/part-0.parquet")
    touch(tmp_path, "_SUCCESS", ".a.parquet.crc", "_temporary/c.parquet", "notes.md")
    assert locate(tmp_path) == ((a, b), False)


def test_partition_folders_are_seen_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "run=7"
    day, other = touch(root, "year=2024/day=01/a.parquet", "year=2024/day=02/a.parquet")
    assert locate(root) == ((day, other), True)
    assert locate(f"{root}/*/*/*.parquet") == ((day, other), True)
    assert locate(f"{root}/year=2024/day=0[1]/*.parquet") == ((day,), True)
    assert locate(f"{root}/year=2024/day=01/*.parquet") == ((day,), False)
    assert locate(day) == ((day,), False)
    (plain,) = touch(root / "flat", "a.parquet")
    assert locate(root / "flat") == ((plain,), False)


def test_partition_folders_are_the_same_for_all_files(tmp_path: Path) -> None:
    touch(tmp_path, "a.parquet", "day=01/b.parquet")
    with pytest.raises(InputError, match="other partition folders"):
        locate(tmp_path)


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    a, b = touch(tmp_path, "a.csv", "b.csv")
    assert locate([str(b), a]) == ((b, a), False)
    assert is_path([b, "a"])
    assert not is_path([b, 1])


def test_what_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        locate(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no file matches"):
        locate(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="no Parquet or CSV"):
        locate(tmp_path)
    with pytest.raises(UsageError, match="No file"):
        locate([])
    with pytest.raises(UsageError, match="address"):
        locate("s3://bucket/events.parquet")
    with pytest.raises(UsageError, match="zero byte"):
        locate("a\0b")


def test_what_must_not_be_mixed_or_doubled(tmp_path: Path) -> None:
    a, _ = touch(tmp_path, "a.csv", "b.parquet")
    with pytest.raises(InputError, match="both Parquet and CSV"):
        locate(tmp_path)
    with pytest.raises(InputError, match="twice"):
        locate([a, tmp_path / "." / "a.csv"])
    (odd,) = touch(tmp_path, "c[1].csv")
    with pytest.raises(InputError, match="pattern"):
        locate(odd)


def test_formats_by_content(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    for content, problem in (
        (b"", "empty"),
        (b"user,time\n", "not a Parquet file"),
        (b"PAREsomething", "encrypted"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=problem):
            format_of(path)
    path.write_bytes(b"PAR1....")
    assert format_of(path.rename(tmp_path / "events.dat")) is FileFormat.PARQUET
    packed = tmp_path / "events.csv"
    packed.write_bytes(b"\x1f\x8b....")
    with pytest.raises(InputError, match=r"\.gz"):
        format_of(packed)


def test_no_permission_is_said_so() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (secret,) = touch(folder, "a.csv")
    (locked,) = touch(folder / "locked", "a.csv")
    secret.chmod(0)
    locked.parent.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # root may read everything, so be nobody for a moment
    try:
        for call in (
            lambda: head(secret, 4),
            lambda: locate(locked.parent),
            lambda: locate(folder),  # a part that cannot be listed is not skipped
            lambda: locate(locked),
        ):
            with pytest.raises(InputError, match="no permission"):
                call()
    finally:
        if root:
            os.seteuid(0)
        locked.parent.chmod(0o700)
        for path in (locked, locked.parent, secret, folder):
            path.rmdir() if path.is_dir() else path.unlink()
