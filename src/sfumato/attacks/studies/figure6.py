"""Why Chen et al. report 10 to 20 % after protection (Figure 6): the readings their text allows.

Three things are not said. *Cells*: whether the histogram has every cell of the map or only those
in which one of the 1,000 people was ever seen. *Whole counts*: whether negative counts are taken
off at random (their Algorithm 3) or set to zero, before each slot is scaled to the people there
are. *Pairing*: whether a recovered trajectory may be used for several people. Each combination is
attacked, and beside it stands a control: the same scheme on a map without anybody. Where both
agree, nothing of the people was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.accuracy import accuracy, reusing
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.people import People
from sfumato.attacks.recovery.recover import Method, recover
from sfumato.attacks.recovery.tables import Fill, counts_of
from sfumato.attacks.studies.points import truth_of
from sfumato.attacks.studies.printed import Printed, printed_schemes, publish_printed
from sfumato.city.crowd import CrowdPlan, generate

Counts = NDArray[np.int64]
_PAST = 7


@dataclass(frozen=True, slots=True)
class Reading:
    """Accuracy under one reading: means over draws of noise, shares of 0 to 1."""

    cells: str
    whole: str
    scheme: str
    epsilon: float
    draws: int
    greedy: float
    reusing: float
    """Each person against the best trajectory, none used up."""
    best: float
    """Each trajectory against the best person, none used up."""
    nobody: float
    """Greedy accuracy of the control: noise on an empty map, scored on the same people."""
    spread: float
    """Standard deviation of `greedy` over draws."""
    nobody_spread: float


def with_past(plan: CrowdPlan) -> tuple[People, Counts]:
    """The eighth day of a crowd, and counts of the seven before, day x slot x cell."""
    days = generate(replace(plan, days=_PAST + 1)).cells
    past = np.stack([counts_of(days[:, day], plan.cells).T for day in range(_PAST)])
    return replace(truth_of(replace(plan, days=1)), cells=days[:, _PAST].copy()), past


def only_seen(people: People, past: Counts) -> tuple[People, Counts]:
    """The map without the cells that nobody was ever in. That list is itself private."""
    used = np.unique(people.cells)
    to = np.full(people.ground.cells, -1, np.int32)
    to[used] = np.arange(used.size)
    ground = Ground(people.ground.centres[used])
    few = replace(people, cells=to[people.cells], ground=ground, others=None)
    return few, past[:, :, used]


def readings(
    plan: CrowdPlan,
    budgets: Sequence[float],
    draws: int,
    *,
    only: Sequence[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Reading]:
    """Every reading of every printed scheme; `only` names some of them."""
    everywhere = with_past(plan)
    found = []
    maps = {"all": everywhere, "seen": only_seen(*everywhere)}
    jobs = [
        (where, name, whole)
        for where, (_, past) in maps.items()
        for name in printed_schemes(past)
        for whole in ("decrements", "clipped")
        if only is None or name in only
    ]
    for k, (where, name, whole) in enumerate(jobs):
        people, past = maps[where]
        scheme = printed_schemes(past)[name]
        for epsilon in budgets:
            runs = [_run(people, scheme, whole, epsilon, seed) for seed in range(draws)]
            means = np.mean(runs, axis=0).tolist()
            spread = np.std(runs, axis=0, ddof=1) if draws > 1 else np.zeros(4)
            ends = spread[[0, 3]].tolist()
            found.append(Reading(where, whole, name, epsilon, draws, *means, *ends))
        if progress is not None:
            progress((k + 1) / len(jobs))
    return found


def _run(people: People, scheme: Printed, whole: str, epsilon: float, seed: int) -> list[float]:
    method = Method(solver=Solver.CELLS, fill=Fill.SCALE, people=len(people.cells))
    scores = []
    for counts in (people.counts, np.zeros_like(people.counts)):
        table = publish_printed(scheme, counts, epsilon, seed, consistent=whole == "decrements")
        got = recover(table, people.ground, people.clock, method, seed=seed).cells
        score = accuracy(people.cells, got, people.ground, assignment_limit=0)
        scores.append((score.greedy, reusing(people.cells, got, people.ground), score.best))
    return [*scores[0], scores[1][0]]
