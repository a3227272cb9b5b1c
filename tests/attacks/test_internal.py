"""What was measured against the truth stays out of what is uploaded whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.attacks import report
from sfumato.attacks.queries import logged_page
from sfumato.attacks.traces import run as traces
from sfumato.density.evaluate import write_comparison
from sfumato.errors import UsageError
from sfumato_lab.attacks.anonymised import report as anonymised
from sfumato_lab.attacks.queries import run as queries

NOTHING: Any = None
WRITERS: dict[str, Callable[[Path], object]] = {
    "attack": lambda folder: report.write(NOTHING, {}, {}, folder, None),
    "attack anonymised": lambda folder: anonymised.write(NOTHING, folder),
    "attack traces": lambda folder: traces.write(NOTHING, folder),
    "attack queries": lambda folder: queries.write(NOTHING, folder),
    "attack queries --log": lambda folder: logged_page.write(NOTHING, NOTHING, folder),
    "evaluate": lambda folder: write_comparison(NOTHING, folder),
}


@pytest.mark.privacy
@pytest.mark.parametrize("who", WRITERS)
@pytest.mark.parametrize("holds", ["manifest.json", "stream.json"])
def test_internal_results_do_not_go_into_a_published_folder(
    tmp_path: Path, who: str, holds: str
) -> None:
    (tmp_path / holds).write_text("{}")
    with pytest.raises(UsageError, match="do not go into a published folder"):
        WRITERS[who](tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [holds]
