"""`Protected`: one scheme attacked in several runs, summed up beside every baseline. INTERNAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.attacks.recovery.beside import JUDGED_BY
from sfumato.attacks.recovery.study import Outcome

LINE = 3.0
"""Points above the baseline that knows everybody else which a protected table may reach."""


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
    """Points above the baseline that knows everybody else, run by run."""
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
        def beside(name: str) -> list[float]:
            missing = {"greedy": float("nan")}
            return [run.baselines.get(name, missing)["greedy"] for run in runs]

        greedy = [run.scores["greedy"].mean for run in runs]
        above = 100 * (np.array(greedy) - beside(JUDGED_BY))
        known = [run.identified for run in runs if run.identified is not None]
        return cls(
            scheme,
            epsilon,
            len(greedy),
            float(np.mean(greedy)),
            _deviation(greedy),
            float(above.mean()),
            _deviation(above.tolist()),
            random=float(np.mean(beside("random"))),
            stay=float(np.mean(beside("stay"))),
            map=float(np.mean(beside("map"))),
            others=float(np.mean(beside("others"))),
            census=float(np.mean(beside("census"))),
            halves=float(np.mean(beside("halves"))),
            learned=float(np.mean([found.learned for found in known])),
            chance=float(np.mean([found.chance for found in known])),
        )


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
