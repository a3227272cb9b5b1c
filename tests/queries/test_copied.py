"""Folders of a ledger that were copied or restored: budget may be lost with them, noise may not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.queries.conftest import MakeDesk
from tests.queries.test_one_draw import TOWERS, opened

from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Tab
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.remembered import forget
from sfumato.privacy.wall import Wall
from sfumato.queries.workload import Row
from sfumato_lab.queries.online import Session, plan_session


@pytest.fixture
def copies(ledger: Ledger, new_desk: MakeDesk, tmp_path: Path) -> Iterator[list[Ledger]]:
    """Two ledgers of one past, each with the key of a session that was open then."""
    opened(new_desk(), updates=50, epsilon=10.0)
    shutil.copytree(tmp_path / "ledger", tmp_path / "restored")
    forget()
    yield [ledger, Ledger(tmp_path / "restored" / "ledger.sqlite")]
    forget()


@pytest.mark.privacy
def test_a_session_that_is_gone_back_to_has_other_noise_for_other_questions(
    copies: list[Ledger], new_desk: MakeDesk, drawn_blocks: Any
) -> None:
    """One noise under two answers would show the difference of two counts as it is."""
    for ledger, questions in zip(copies, (TOWERS[:3], TOWERS[3:]), strict=True):
        sitting = opened(new_desk(ledger=ledger), updates=50, epsilon=10.0)
        for question in questions * 4:
            sitting.ask(question)
        assert any(turn.updated for turn in sitting.turns)
    turns = [block for block in drawn_blocks.asked if b"question " in block or b"update " in block]
    assert turns
    assert len(set(turns)) == len(turns)


@pytest.mark.privacy
def test_a_session_that_is_gone_back_to_repeats_itself(
    copies: list[Ledger], new_desk: MakeDesk
) -> None:
    """The same turns again are the same numbers: nothing is learnt from them twice."""
    found = []
    for ledger in copies:
        sitting = opened(new_desk(ledger=ledger), updates=50, epsilon=10.0)
        found.append([sitting.ask(question).value for question in TOWERS])
    assert found[0] == found[1]


@pytest.mark.privacy
def test_noise_of_a_turn_is_bound_to_all_that_is_tested(drawn_blocks: Any) -> None:
    """Places, slots, and what the hypothesis said of them: each alone tells two turns apart."""
    flat, other = np.full((3, 4), 50.0), np.full((3, 4), 80.0)
    far = Private(Counts(np.array([9_000]), 1, 1.0, 1.0, Counting.VISITS, "one"), "one")
    terms = plan_session(epsilon=3.0, clip=1, updates=2, threshold=0)
    for start, question in (
        (flat, Row((0,), (0, 1))),
        (flat, Row((1,), (0, 1))),
        (flat, Row((0,), (1, 2))),
        (other, Row((0,), (0, 1))),
    ):
        session = Session(terms, start, Wall(Tab(), bytes(32)), bound=True)
        assert session.ask(question, lambda: far).updated
    turns = [block for block in drawn_blocks.asked if b"question " in block or b"update " in block]
    assert len(set(turns)) == len(turns) == 8
