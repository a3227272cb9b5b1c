"""Results survive a kill: whole lines count, a torn one is drawn again."""

from __future__ import annotations

from pathlib import Path

from sfumato_lab.studies.frontier.output import Record, Row


def row(method: str, draw: int = 0) -> Row:
    return Row("ordinary", 100, 0.3, method, draw, 0.1, 0.9, 50.0, None, None, 1.5)


def test_a_record_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Record(path).add([row("a"), row("a", 1), row("b")])
    again = Record(path)
    assert again.rows == [row("a"), row("a", 1), row("b")]
    assert again.has(row("b").key)
    assert not again.has(row("b", 1).key)


def test_a_line_cut_off_by_a_kill_is_dropped_and_can_be_added_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Record(path).add([row("a"), row("b")])
    path.write_text(path.read_text()[:-20])
    record = Record(path)
    assert record.rows == [row("a")]
    record.add([row("a"), row("b")])  # what is known is not written twice
    assert Record(path).rows == [row("a"), row("b")]


def test_methods_can_be_forgotten_among_the_rows_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    record = Record(path)
    record.add([row("a"), row("a", 1), row("b")])
    record.forget(["a"], lambda one: one.draw == 0)
    assert Record(path).rows == [row("a", 1), row("b")]
