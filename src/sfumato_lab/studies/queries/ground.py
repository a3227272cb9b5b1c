"""The city that questions are asked of, and the questions: discs of places times runs of hours.

The people are made up (`sfumato.city`), call records by tower and hour. A question is about whole
towers, those whose cells have their middle in a disc of 0.5 to 3 km around a random one, in 1 to 48
hours that follow each other. Everything that holds the truth is here; results are internal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import Layout, layout_of_cells
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.masks import Masks, Measure
from sfumato.model.source import RememberingSource
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.queries.question import Frame, Question
from sfumato.queries.workload import Workload

Table = NDArray[np.float64]
LEAST = 10.0
"""Relative errors are of questions with at least so many true visits."""
_METRES, _HOURS = (500.0, 3_000.0), (1, 48)


@dataclass(frozen=True, eq=False)
class Ground:
    """A made-up city: counts that can be asked for, what is public, and the truth."""

    users: int
    source: RememberingSource
    grid: TimeGrid
    layout: Layout
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """Places and slots."""
        return int(self.source.place_ids.size), self.grid.slots

    @cached_property
    def frame(self) -> Frame:
        return Frame(self.source.place_ids, self.grid)

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """True visits, place x slot."""
        return open_private(self.source.exact(Counting.VISITS)).values

    @property
    def delta(self) -> float:
        """A tenth of one over the people."""
        return 0.1 / self._rough

    @property
    def _rough(self) -> int:
        return round(self.users, 1 - len(str(self.users)))

    def facts(self, epsilon: float, delta: float) -> PublicFacts:
        """What a scheme is told; the number of people is rounded, as a holder would."""
        return PublicFacts(
            self.source.place_ids,
            self.grid,
            epsilon,
            delta,
            self._rough,
            layout=self.layout,
        )

    def ranges(self, many: int, seed: int) -> list[Question]:
        """Random discs times random runs of hours; the first ones are the same for any `many`."""
        places, slots = self.shape
        centres, found = self.layout.centres, []
        for number in range(many):
            rng = np.random.default_rng([seed, number])
            middle, metres = int(rng.integers(places)), rng.uniform(*_METRES)
            away = np.hypot(*(centres - centres[middle]).T)
            hours = int(rng.integers(_HOURS[0], min(_HOURS[1], slots) + 1))
            first = int(rng.integers(slots - hours + 1))
            inside = np.flatnonzero(away <= metres).tolist()
            found.append(self.frame.question(Measure.VISITS, inside, range(first, first + hours)))
        return found

    def bounded(self, questions: Workload, limit: int) -> NDArray[np.int64]:
        """Each answer alone, every person at most `limit` times and at most once a slot."""
        found = []
        for sets, slots in zip(questions.sets, questions.slot_counts.tolist(), strict=True):
            masks = Masks.of(*self.shape, [sets])
            box = self.source.answers(masks, Measure.VISITS, min(limit, slots))
            found.append(open_private(box).values[0])
        return np.array(found, np.int64)


def made_city(users: int, seed: int, *, towers: int = 1_303, zones: int = 989) -> Ground:
    """A week of call records in a city of its own; the same arguments give the same people."""
    plan = CityPlan(users=users, towers=towers, zones=zones, seed=seed, start=date(2007, 9, 10))
    city = build_city(plan)
    table = pa.Table.from_batches(list(generate_events(city)))
    source = LocalSource(read_events(table), city.towers, plan.grid, threads=1)
    cells = voronoi_cells(city.towers, city.zones, period=plan.grid)
    return Ground(users, RememberingSource(source), plan.grid, layout_of_cells(cells), seed)


def relative_error(found: Table, truth: Table) -> float:
    """Mean error over the truth, of questions with at least a few visits."""
    many = truth >= LEAST
    return float((np.abs(found - truth)[many] / truth[many]).mean())
