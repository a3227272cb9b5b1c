"""Results on disk, one JSON line for each draw of a method: a killed run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sfumato.io.writers import write_bytes


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one draw; `emd`, `coverage` and `crowd` are None where there are none."""

    city: str
    users: int
    epsilon: float
    method: str
    draw: int
    mre: float
    pearson: float
    emd: float | None
    coverage: float | None
    crowd: float | None
    cpu: float

    @property
    def key(self) -> tuple[str, int, float, str, int]:
        return (self.city, self.users, self.epsilon, self.method, self.draw)


class Record:
    """All rows of a file; a line that was cut off by a kill is dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        if path.is_file():
            for line in path.read_text("utf-8").splitlines():
                try:
                    self.rows.append(Row(**json.loads(line)))
                except (ValueError, TypeError):
                    continue
            self._rewrite()

    def has(self, key: tuple[str, int, float, str, int]) -> bool:
        return any(row.key == key for row in self.rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Append, and be on the disk before the next draw begins."""
        new = [row for row in rows if not self.has(row.key)]
        self.rows += new
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in new)

    def forget(self, methods: Iterable[str], among: Callable[[Row], bool]) -> None:
        """Drop the rows of some methods, among those asked about, so that they are drawn again."""
        gone = set(methods)
        self.rows = [row for row in self.rows if row.method not in gone or not among(row)]
        self._rewrite()

    def _rewrite(self) -> None:
        text = "".join(json.dumps(asdict(row)) + "\n" for row in self.rows)
        write_bytes(self._path, text.encode())
