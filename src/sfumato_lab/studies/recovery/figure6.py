"""Figure 6 of Chen et al.: their schemes as printed, attacked, under every reading of the text.

*Accuracy against epsilon.* Thresholds and cut-offs are not printed; taken here: a quarter of the
day's mean distance, as their text has it for the dynamic scheme, and four publications. Their
consistency step (non-negative whole numbers that keep the noisy total) is applied to each, as in
their experiments. `Protected` is one scheme attacked in several runs, summed up beside every
baseline. INTERNAL.

*Why they report 10 to 20 % after protection.* Three things are not said. *Cells*: whether the
histogram has every cell of the map or only those
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

from sfumato.attacks.recovery.attack import Method, Solver, recover
from sfumato.attacks.recovery.baselines import JUDGED_BY, accuracy, reusing
from sfumato.attacks.recovery.study import Outcome
from sfumato.attacks.trajectories import Fill, Ground, People, counts_of
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.streams.output import random_decrements
from sfumato_lab.as_printed.streams import (
    direct,
    distances,
    dynamic_hybrid,
    static_hybrid,
    threshold,
)
from sfumato_lab.studies.recovery.points import truth_of

CUTOFF = 4
Printed = Callable[[NDArray[np.int64], float, np.random.Generator], NDArray[np.float64]]


def printed_schemes(past: NDArray[np.int64]) -> dict[str, Printed]:
    """By the paper's names; `past` is day x slot x cell, for the dynamic scheme alone."""

    def limit(raw: NDArray[np.int64]) -> float:
        return float(distances(raw).mean()) / 4

    return {
        "dir-P": lambda raw, epsilon, rng: direct(raw, epsilon, rng),
        "th-P": lambda raw, epsilon, rng: threshold(raw, epsilon, limit(raw), CUTOFF, rng)[0],
        "sta-HP": lambda raw, epsilon, rng: static_hybrid(raw, epsilon, limit(raw), CUTOFF, rng)[0],
        "dy-HP": lambda raw, epsilon, rng: dynamic_hybrid(
            past, raw, epsilon, limit(raw), (CUTOFF, CUTOFF), rng
        )[0],
    }


def publish_printed(
    scheme: Printed,
    counts: NDArray[np.int64],
    epsilon: float,
    seed: int,
    *,
    consistent: bool = True,
) -> NDArray[np.float64]:
    """Cell x slot of one run, made consistent slot by slot unless it is to stay as it is."""
    rng = np.random.default_rng([seed, 0xC4])
    noisy = scheme(np.ascontiguousarray(counts.T), epsilon, rng)
    if not consistent:
        return np.ascontiguousarray(noisy.T)
    out = np.empty_like(noisy)
    for t, values in enumerate(noisy):
        # A histogram that is only repeated stays what it was made the first time.
        same = t > 0 and np.array_equal(values, noisy[t - 1])
        out[t] = out[t - 1] if same else random_decrements(values, rng)
    return np.ascontiguousarray(out.T)


LINE = 3.0
"""Points above the baseline that knows all others which a protected table may reach."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Greedy accuracy and what stands beside it: shares of 0 to 1, means over runs."""

    scheme: str
    epsilon: float | None
    runs: int
    """Crowds times draws of noise (or tie-breaking seeds, where there is no noise)."""
    greedy: float
    spread: float
    """Standard deviation over runs."""
    above: float
    """Points above the baseline that knows all others, run by run."""
    above_spread: float
    random: float
    stay: float
    map: float
    others: float
    census: float
    halves: float
    learned: float
    chance: float

    @classmethod
    def of(cls, scheme: str, epsilon: float | None, runs: Sequence[Outcome]) -> Protected:
        def of_baseline(name: str) -> list[float]:
            missing = {"greedy": float("nan")}
            return [run.baselines.get(name, missing)["greedy"] for run in runs]

        greedy = [run.scores["greedy"].mean for run in runs]
        above = 100 * (np.array(greedy) - of_baseline(JUDGED_BY))
        known = [run.identified for run in runs if run.identified is not None]
        return cls(
            scheme,
            epsilon,
            len(greedy),
            float(np.mean(greedy)),
            _deviation(greedy),
            float(above.mean()),
            _deviation(above.tolist()),
            random=float(np.mean(of_baseline("random"))),
            stay=float(np.mean(of_baseline("stay"))),
            map=float(np.mean(of_baseline("map"))),
            others=float(np.mean(of_baseline("others"))),
            census=float(np.mean(of_baseline("census"))),
            halves=float(np.mean(of_baseline("halves"))),
            learned=float(np.mean([found.learned for found in known])),
            chance=float(np.mean([found.chance for found in known])),
        )


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


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
