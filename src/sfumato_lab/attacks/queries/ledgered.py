"""The private desk itself as what is attacked: records in a table, questions in JSON, a ledger.

`town.Private` draws the same noise from a seed and is fast; what it cannot show is that the desk
does what it says. Here every answer is given by `sfumato.Desk`: parsed, routed, reserved, drawn
from the reservation's own key, stored. The data set's cap is the whole budget, so that what is
asked when it is used up is refused by the ledger, and an equal question in other words has the
stored answer. A ledger lives in a temporary folder and is gone with its desk.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import shapely

from sfumato.errors import BudgetRefused
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.queries.desk import Desk
from sfumato.queries.pricing import HALF_WIDTH
from sfumato.queries.question import Frame, Question
from sfumato_lab.attacks.queries.town import Private
from sfumato_lab.syntactic.truth import Visits

PEOPLE = "townspeople"
_DAY = timedelta(days=1)


class Ledgered:
    """`sfumato.Desk` over records, with a cap of (epsilon, delta), planned for some questions.

    A question wants the noise that `questions` of them leave room for: with Gaussian noise a
    half-width, with delta 0 an epsilon of Laplace noise.

    Args:
        held: The records.
        frame: Places and days that questions are about.
        epsilon: Cap of the data set.
        delta: The same; 0 takes Laplace noise.
        questions: How many are planned.

    Example:
        >>> from sfumato_lab.attacks.queries.town import Town
        >>> town = Town.of(12)
        >>> desk = Ledgered(town.visits(np.ones(12, bool)), town.frame, 1.0, 1e-6, 1)
        >>> everybody = town.question(np.ones(12, bool))
        >>> [one is None for one in desk([everybody, everybody])]
        [False, False]
        >>> desk([town.question(np.arange(12) < 6)])
        [None]
    """

    def __init__(
        self, held: Visits, frame: Frame, epsilon: float, delta: float, questions: int
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sfumato-game-")
        self._frame = frame
        if delta:
            # A hair wider than the share of the budget: sums of shares are not exact.
            wide = HALF_WIDTH * math.sqrt(Private.variance(epsilon, delta, questions))
            self._want = {"plus_minus": wide * (1 + 1e-6)}
        else:
            self._want = {"epsilon": epsilon / questions * (1 - 1e-9)}
        book = Ledger(Path(self._folder.name) / "ledger.sqlite")
        book.initialise()
        book.add_dataset(PEOPLE, Cap(epsilon=epsilon, delta=delta))
        first = frame.grid.start(0)
        self._desk = Desk(
            _table(held, frame),
            dataset=PEOPLE,
            start=first.date(),
            end=(first + frame.slots * _DAY).date(),
            slot="1d",
            tz="UTC",
            delta=delta,
            mechanism="gaussian" if delta else "laplace",
            towers=_places(frame),
            ledger=book,
        )

    def __call__(self, questions: Sequence[Question]) -> list[float | None]:
        return [self._one(one) for one in questions]

    def _one(self, question: Question) -> float | None:
        asked = {
            "measure": str(question.measure),
            "zones": [str(self._frame.place_ids[place]) for place in question.places],
            "from": self._frame.grid.start(question.slots[0]).date().isoformat(),
            "to": self._frame.grid.end(question.slots[-1]).date().isoformat(),
            "want": self._want,
        }
        try:
            return float(self._desk.ask(asked).value)
        except BudgetRefused:
            return None

    def charged(self) -> int:
        """Measurements that the ledger was charged for."""
        return len(self._desk.asking.ledger.book().charges)


def _places(frame: Frame) -> Places:
    at = 2.0 + np.arange(frame.places) / 1000
    points = np.asarray(shapely.points(at, 48.0), np.object_)
    return Places.of(PlaceKind.TOWERS, frame.place_ids.tolist(), points)


def _table(held: Visits, frame: Frame) -> pa.Table:
    """A visit as a record in the first hour of its day."""
    instants = np.asarray(frame.grid.edges)[held.slots] + 3_600_000_000
    return pa.table(
        {
            "user": pa.array(held.users, pa.int64()),
            "time": pa.array(instants, pa.timestamp("us", "UTC")),
            "tower": pa.array(frame.place_ids[held.places].tolist(), pa.string()),
        }
    )
