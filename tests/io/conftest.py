"""Small files of events, towers and zones; where the real data is, if it is here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Written = Callable[..., Path]


@pytest.fixture
def csv_file(tmp_path: Path) -> Written:
    """Writes text as a file and gives its path."""

    def write(text: str | bytes, name: str = "events.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def parquet_file(tmp_path: Path) -> Written:
    """Writes columns as a Parquet file and gives its path."""

    def write(columns: dict[str, object] | pa.Table, name: str = "events.parquet") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    return write


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SFUMATO_DATA does not point to the public data sets")
    return Path(folder)
