"""`recover`: trajectories from nothing but counts (Xu et al. 2017).

The adversary sees a table of place x slot and knows where the places are. Output: one
trajectory for each counted person, without names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.days import Solver, link_day
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.linking import Link, link_days
from sfumato.attacks.recovery.tables import Fill, whole_people
from sfumato.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Method:
    """How the attack is run."""

    predict: bool = True
    """By day, expect the last step to be taken once more."""
    link: Link = Link.ACCUMULATE
    solver: Solver = Solver.AUTO
    fill: Fill = Fill.AUTO
    people: int | None = None
    """How many people the adversary knows there are; `None`: what the table shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Person x slot cells, -1 for nowhere; people in no particular order."""

    cells: NDArray[np.int32]
    metres: float
    """Total distance that the matching within days needed."""
    gap: float
    """Largest share of a step's cost that was not proved necessary."""


def recover(
    table: NDArray[np.float64] | NDArray[np.int64],
    ground: Ground,
    clock: Clock,
    method: Method | None = None,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Recovered:
    """The attack. `seed` breaks ties: people whom the counts cannot tell apart."""
    how = method or Method()
    if table.shape != (ground.cells, clock.slots):
        raise UsageError("The table, the map and the clock do not belong together.")
    rng = np.random.default_rng([seed, 0x5F])
    counts = whole_people(table, rng, fill=how.fill, people=how.people)
    fragments = []
    for slots in clock.days:
        fragments.append(
            link_day(
                counts[:, slots],
                clock.night[slots],
                ground,
                rng,
                predict=how.predict,
                solver=how.solver,
            )
        )
        if progress is not None:
            progress(int(slots[-1] + 1) / clock.slots)
    cells = link_days([day.cells for day in fragments], how.link)
    cells[cells == ground.nowhere] = -1
    return Recovered(
        cells,
        float(sum(day.metres.sum() for day in fragments)),
        max(day.gap for day in fragments),
    )
