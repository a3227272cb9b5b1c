"""Files, folders, patterns and partitions; and every way in which there is nothing to read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sfumato.errors import InputError, UsageError
from sfumato.io.events import format_of, read_events
from sfumato.io.files import Located, head, is_path, locate


def touch(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return paths


def paths(source: object) -> list[Path]:
    return [file.path for file in locate(source)]


def keys(source: object) -> list[tuple[tuple[str, str | None], ...]]:
    return [file.keys for file in locate(source)]


def test_a_folder_is_searched_in_a_fixed_order(tmp_path: Path) -> None:
    b, a = touch(tmp_path, "b.parquet", "a/part-0.parquet")
    touch(tmp_path, "_SUCCESS", ".a.parquet.crc", "_temporary/c.parquet", "notes.md")
    assert locate(tmp_path) == (Located(a, False), Located(b, False))
    assert locate(b) == (Located(b, True),)


def test_partition_folders_are_seen_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "run=7"
    day, other = touch(root, "year=2024/day=01/a.parquet", "year=2024/day=02/a.parquet")
    both = [(("year", "2024"), ("day", "01")), (("year", "2024"), ("day", "02"))]
    assert paths(root) == paths(f"{root}/*/*/*.parquet") == [day, other]
    assert keys(root) == keys(f"{root}/*/*/*.parquet") == both
    assert keys(f"{root}/year=2024/day=0[1]/*.parquet") == [(("day", "01"),)]
    assert keys(f"{root}/year=2024/day=01/*.parquet") == [()]
    assert keys(day) == [()]
    touch(root / "flat", "a.parquet")
    assert keys(root / "flat") == [()]


def test_partition_folders_are_each_files_own(tmp_path: Path) -> None:
    names = ("a.parquet", "day=01/b.parquet", "day=__HIVE_DEFAULT_PARTITION__/c.parquet")
    touch(tmp_path, *names, "name=x%2Fy/d.csv")
    assert keys(tmp_path) == [(), (("day", "01"),), (("day", None),), (("name", "x/y"),)]


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    a, b = touch(tmp_path, "a.csv", "b.csv")
    assert paths([str(b), a]) == [b, a]
    assert all(file.named for file in locate([b, a]))
    assert is_path([b, "a"])
    assert not is_path([b, 1])


def test_a_folder_or_a_pattern_may_hold_nothing(tmp_path: Path) -> None:
    assert locate(tmp_path) == ()
    assert locate(str(tmp_path / "*.csv")) == ()


def test_what_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        locate(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no such folder"):
        locate(str(tmp_path / "none" / "*.csv"))
    with pytest.raises(UsageError, match="No file"):
        locate([])
    with pytest.raises(UsageError, match="address"):
        locate("s3://bucket/events.parquet")
    with pytest.raises(UsageError, match="zero byte"):
        locate("a\0b")


def test_formats_may_be_mixed_and_files_found_once(tmp_path: Path) -> None:
    a, b = touch(tmp_path, "a.csv", "b.parquet")
    assert paths(tmp_path) == [a, b]
    assert sorted(paths([tmp_path, str(tmp_path / "*.csv")])) == [a, b]
    with pytest.raises(InputError, match="twice"):
        locate([a, tmp_path / "." / "a.csv"])
    (odd,) = touch(tmp_path, "c[1].csv")
    assert paths(odd) == [odd]


def test_formats_by_content(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    for content, problem in (
        (b"", "not a Parquet file"),
        (b"user,time\n", "not a Parquet file"),
        (b"PAREsomething", "encrypted"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=problem):
            read_events(path)
    path.write_bytes(b"PAR1....")
    moved = path.rename(tmp_path / "events.dat")
    assert format_of(Located(moved, named=True)).name == "parquet"
    packed = tmp_path / "events"
    packed.write_bytes(b"\x1f\x8b....")
    with pytest.raises(InputError, match=r"\.gz"):
        read_events(packed)


def test_the_first_bytes_of_a_record_say_nothing_about_its_file(tmp_path: Path) -> None:
    for start in (b"PARE", b"PAR1", b"\x1f\x8b", b""):
        for ending, kind in ((".ndjson", "ndjson"), (".csv", "csv")):
            path = tmp_path / f"events{ending}"
            path.write_bytes(start)
            assert format_of(Located(path, named=True)).name == kind


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


@pytest.mark.privacy
def test_what_lies_beside_a_file_does_not_decide_how_it_is_read(tmp_path: Path) -> None:
    """Links, pipes and links to nowhere in a folder: each file is known by its own name."""
    mine = tmp_path / "people.csv"
    mine.write_text("user,time,tower\n7,2024-03-04T00:00:00Z,a\n")
    (tmp_path / "a-link.txt").symlink_to(mine)
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "eve.csv")
    assert [file.path.name for file in locate(tmp_path)] == ["a-link.txt", "people.csv"]
