"""Every scheme attacked on the crowd: what recovery and membership inference make of it.

Density schemes publish one day as a whole, and so do `smoother` and `profile`, the default streams
for a history; `comb` and `rhythm`, the defaults where slots are still to come, have seven days
behind them and are attacked on the eighth. Accuracy is a mean over draws of noise, with its spread,
beside the baselines; the adversary is told how many people there are. Membership is played on one
day, which is then the whole record, so that the area has a ceiling in epsilon alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.membership import Game, Membership, play, publish_counts
from sfumato.attacks.recovery.attack import Method, Solver
from sfumato.attacks.recovery.study import Outcome, attack_table
from sfumato.attacks.republish import Stage, StreamStage
from sfumato.attacks.trajectories import People, suppressed
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.streams.registry import DEFAULT, FINISHED, THIN, THIN_FINISHED
from sfumato_lab.studies.recovery.figure6 import Protected
from sfumato_lab.studies.recovery.points import truth_of

UNPROTECTED = "no protection"
LIVE = (DEFAULT, THIN)
STREAMS = (*LIVE, FINISHED, THIN_FINISHED)
"""What `sfumato stream` takes where nothing is chosen, by how many people a cell holds."""
DENSITY = ("laplace", "gaussian", "grouping", "paris", "bayes")
_PAST = 7
Rows = NDArray[np.int32]
Table = NDArray[np.float64]


class Attacked:
    """A crowd, and whatever a scheme publishes of it."""

    def __init__(self, plan: CrowdPlan, delta: float) -> None:
        days = generate(replace(plan, days=_PAST + 1)).cells
        self.days: Rows = days.reshape(len(days), -1)
        self.truth = replace(truth_of(replace(plan, days=1)), cells=days[:, _PAST].copy())
        self.delta = delta
        self.stage = Stage.of_crowd(plan)
        weekday = plan.start.weekday()
        self.stream = StreamStage(plan.cells, plan.columns, plan.slots, weekday)

    def published(
        self, scheme: str, epsilon: float, seed: int, *, who: NDArray[np.bool_] | None = None
    ) -> Table:
        """The last day as the scheme publishes it, cell x slot; of some people, or of all.

        How many people are expected is public and does not change with who takes part.
        """
        rows = self.days if scheme in LIVE else self.truth.cells
        people = len(rows)
        rows = rows if who is None else rows[who]
        if scheme in STREAMS:
            whole = self.stream.published(
                rows, epsilon, self.delta, seed, scheme=scheme, expected=people
            )
            return whole[:, -self.truth.clock.slots :]
        return self.stage.published(scheme, rows, epsilon, self.delta, seed, expected=people)

    def accuracy(self, scheme: str, epsilon: float, draws: Iterable[int]) -> Protected:
        """Recovered from several draws of noise."""
        return pooled([self], scheme, epsilon, draws)

    def unprotected(self, *, suppress: Sequence[int] = (), seeds: int = 3) -> list[Protected]:
        """True counts and suppressed ones, over tie-breaking seeds."""
        return pooled_unprotected([self], suppress=suppress, seeds=seeds)


def pooled(
    towns: Sequence[Attacked], scheme: str, epsilon: float, draws: Iterable[int]
) -> Protected:
    """Every crowd with every draw of noise; no two runs share their noise."""
    seeds = list(draws)
    step = max(seeds, default=0) + 1
    runs = [
        attacked(scheme, town.truth, town.published(scheme, epsilon, seed), seed)
        for k, town in enumerate(towns)
        for seed in (k * step + each for each in seeds)
    ]
    return Protected.of(scheme, epsilon, runs)


def pooled_unprotected(
    towns: Sequence[Attacked], *, suppress: Sequence[int] = (), seeds: int = 3
) -> list[Protected]:
    """True counts of every crowd and suppressed ones, over tie-breaking seeds."""
    found = []
    for k in (0, *suppress):
        name = f"suppressed below {k}" if k else UNPROTECTED
        runs = [
            attacked(name, town.truth, suppressed(town.truth.counts, k), seed)
            for town in towns
            for seed in range(seeds)
        ]
        found.append(Protected.of(name, None, runs))
    return found


def attacked(
    name: str,
    truth: People,
    table: Table | NDArray[np.int64],
    seed: int = 0,
) -> Outcome:
    """One run of the attack by an adversary who knows how many people there are."""
    people = None if table.dtype.kind == "i" else len(truth.cells)
    method = Method(solver=Solver.CELLS, people=people)
    return attack_table(name, truth, table, method, seeds=1, limit=0, first=seed)


def membership_ways(
    plan: CrowdPlan, epsilon: float, delta: float, schemes: Sequence[str], suppress: Sequence[int]
) -> dict[str, Callable[[Rows, np.random.Generator], Table]]:
    """Ways to publish a group: true counts, suppressed ones, density schemes and the stream."""
    cells, stage = plan.cells, Stage.of_crowd(plan)
    stream = StreamStage(cells, plan.columns, plan.slots, plan.start.weekday())
    expected = plan.people // 2

    def by(scheme: str) -> Callable[[Rows, np.random.Generator], Table]:
        def publish(rows: Rows, rng: np.random.Generator) -> Table:
            seed = int(rng.integers(1 << 31))
            if scheme in STREAMS:
                return stream.published(
                    rows, epsilon, delta, seed, scheme=scheme, expected=expected
                )
            return stage.published(scheme, rows, epsilon, delta, seed, expected=expected)

        return publish

    def below(k: int) -> Callable[[Rows, np.random.Generator], Table]:
        return publish_counts(cells, lambda counts, _: suppressed(counts, k).astype(np.float64))

    return (
        {UNPROTECTED: publish_counts(cells)}
        | {f"suppressed below {k}": below(k) for k in suppress}
        | {name: by(name) for name in schemes}
    )


def play_schemes(
    plan: CrowdPlan,
    epsilon: float,
    delta: float,
    game: Game,
    *,
    schemes: Sequence[str] = (*DENSITY, *STREAMS),
    suppress: Sequence[int] = (5,),
    progress: Callable[[float], None] | None = None,
) -> dict[str, Membership]:
    """The membership game against each way; groups are half of the crowd's people or fewer."""
    truth = truth_of(replace(plan, days=1)).cells
    found = {}
    ways = membership_ways(replace(plan, people=2 * game.group), epsilon, delta, schemes, suppress)
    for k, (name, publish) in enumerate(ways.items()):
        found[name] = play(truth, game, publish)
        if progress is not None:
            progress((k + 1) / len(ways))
    return found
