"""Every scheme attacked on the crowd: what recovery and membership inference make of it.

Density schemes publish one day as a whole, and so does `profile`, the default stream for a short
history; `rhythm`, the default where slots are still to come, has seven days behind it and is
attacked on the eighth. Accuracy is a mean over draws of noise, with its spread, beside
the baselines; the adversary is told how many people there are. Membership is played on one day,
which is then the whole record, so that the area has a ceiling in epsilon alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.membership import Game, Membership, play, publish_counts
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.recover import Method
from sfumato.attacks.recovery.study import Outcome, People, attack_table
from sfumato.attacks.recovery.tables import suppressed
from sfumato.attacks.studies.points import truth_of
from sfumato.attacks.studies.registered import Stage
from sfumato.attacks.studies.streamed import StreamStage
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.stream.registry import DEFAULT, FINISHED

UNPROTECTED = "no protection"
STREAM = DEFAULT
STREAMS = (DEFAULT, FINISHED)
"""What `sfumato stream` takes where nothing is chosen."""
DENSITY = ("laplace", "gaussian", "grouping", "paris", "bayes")
_PAST = 7
Rows = NDArray[np.int32]
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Protected:
    """Greedy accuracy after protection and what stands beside it: shares of 0 to 1."""

    scheme: str
    epsilon: float | None
    greedy: float
    spread: float
    """Standard deviation over draws of noise."""
    draws: int
    random: float
    stay: float
    map: float
    average: float
    learned: float
    chance: float

    @classmethod
    def of(cls, scheme: str, epsilon: float | None, runs: Sequence[Outcome]) -> Protected:
        def beside(name: str) -> float:
            return float(np.mean([run.baselines[name]["greedy"] for run in runs]))

        greedy = [run.scores["greedy"].mean for run in runs]
        known = [run.identified for run in runs if run.identified is not None]
        return cls(
            scheme,
            epsilon,
            float(np.mean(greedy)),
            float(np.std(greedy, ddof=1)) if len(greedy) > 1 else 0.0,
            len(greedy),
            beside("random"),
            beside("stay"),
            beside("map"),
            beside("average"),
            float(np.mean([found.learned for found in known])),
            float(np.mean([found.chance for found in known])),
        )

    @property
    def above(self) -> float:
        """Points above the baseline that knows nothing."""
        return 100 * (self.greedy - self.average)


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

    def published(self, scheme: str, epsilon: float, seed: int) -> Table:
        """The last day as the scheme publishes it, cell x slot."""
        if scheme in STREAMS:
            rows = self.days if scheme == STREAM else self.truth.cells
            whole = self.stream.published(rows, epsilon, self.delta, seed, scheme=scheme)
            return whole[:, -self.truth.clock.slots :]
        return self.stage.published(scheme, self.truth.cells, epsilon, self.delta, seed)

    def accuracy(
        self,
        scheme: str,
        epsilon: float,
        draws: Iterable[int],
        *,
        predict: bool = True,
    ) -> Protected:
        """Recovered from several draws of noise."""
        runs = [
            attacked(scheme, self.truth, self.published(scheme, epsilon, seed), predict=predict)
            for seed in draws
        ]
        return Protected.of(scheme, epsilon, runs)

    def unprotected(self, *, suppress: Sequence[int] = (), seeds: int = 3) -> list[Protected]:
        """True counts and suppressed ones, over tie-breaking seeds."""
        counts, tables = self.truth.counts, {UNPROTECTED: self.truth.counts}
        for k in suppress:
            tables[f"suppressed below {k}"] = suppressed(counts, k)
        return [
            Protected.of(
                name, None, [attacked(name, self.truth, table, seed) for seed in range(seeds)]
            )
            for name, table in tables.items()
        ]


def attacked(
    name: str,
    truth: People,
    table: Table | NDArray[np.int64],
    seed: int = 0,
    *,
    predict: bool = True,
) -> Outcome:
    """One run of the attack by an adversary who knows how many people there are."""
    people = None if table.dtype.kind == "i" else len(truth.cells)
    method = Method(predict=predict, solver=Solver.CELLS, people=people)
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
