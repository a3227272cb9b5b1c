"""`weigh` and `combine` are made of public folders: nothing private is there to be opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from tests.people.conftest import Town

import sfumato
from sfumato.engine.local import LocalSource
from sfumato.model.events import Events
from sfumato.model.private import Private
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy


def test_no_ledger_no_events_no_wall(
    town: Town, census: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the published folders alone, elsewhere, and every private door shut."""
    folders = []
    for name in ("red", "blue"):
        folders.append(tmp_path / name)
        shutil.copytree(town.folder / name, folders[-1])

    def shut(*_: object, **__: object) -> None:
        raise AssertionError("something private was opened")

    for private in (Ledger, Wall, LocalSource, Events, Private):
        monkeypatch.setattr(private, "__init__", shut)
    people = sfumato.weigh(folders[0], census=census, out=tmp_path / "people")
    assert people.sum().lower is not None
    both = sfumato.combine(folders, shares=[0.3, 0.25], overlap=0.05, out=tmp_path / "both")
    assert both.sum().lower is not None
    with pytest.raises(AssertionError, match="private was opened"):
        Ledger(tmp_path / "ledger.sqlite")
