"""Training under differential privacy (DP-SGD; Abadi et al. 2016), in whole numbers.

Unit and neighbours: adding or removing one unit, whatever the model calls a row (a person with all
trips, or a trip). Each step:

1. every row joins by a coin of its own, of chance q, from secret bits of the release key;
2. the model gives the gradient of each row that joined, *summed over all the row holds*;
3. it is scaled to a length of at most one and cut towards zero to the lattice of 1 / `UNITS`:
   v = trunc(g UNITS / max(1, |g|) (1 - 2^-30)). Its length is then compared in exact integers,
   sum v^2 <= UNITS^2, so that no rounding of floating point can make it longer; one that is, and
   one that is not finite, counts as nothing;
4. the integer sum gets exact discrete Gaussian noise of deviation sigma UNITS, and is divided by
   the *expected* number of rows, q N, N public: how many joined stays private.

Sensitivity: a row moves the integer sum by at most `UNITS` in L2, in the steps that it joins.
Cost: one (epsilon, delta) event for the whole run (`accounting.sampled`), charged before the
first coin; steps, chance, noise and the rule of descent are fixed beforehand, nothing is tuned,
stopped early or chosen by a loss on private data. Everything made from the noisy sums, the model
included, is post-processing. The noise itself has no floating-point deviation; that of discrete
from continuous noise is part of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.private import Private
from sfumato.privacy.accounting import sampled_epsilon
from sfumato.privacy.door import open_private
from sfumato.privacy.events import ApproximateEvent, Charger
from sfumato.privacy.noise import BitStream, discrete_gaussian, representable_sigma2

UNITS = 1 << 30
"""Lattice units of a gradient of length one: so fine that a few thousand numbers and steps add less
than 1e-13 to delta before the factor 1 + e^epsilon."""
_AT_ONCE = 256
"""Gradients held at a time."""
Floats = NDArray[np.float64]


class Learner(Protocol):
    """What is trained: public in all but the rows it is given."""

    @property
    def size(self) -> int:
        """How many numbers it has."""

    def rows(self, data: Any) -> int:
        """How many units the data hold."""

    def gradients(self, data: Any, rows: NDArray[np.int64], at: Floats) -> Floats:
        """Row x number: each row's gradient of the loss, hanging on that row alone."""

    def begin(self) -> Floats:
        """The numbers before the first step."""

    def descend(self, at: Floats, gradient: Floats, step: int) -> Floats:
        """The numbers after a step with this noisy mean gradient; may keep moments of its own."""


@dataclass(frozen=True, slots=True)
class Run:
    """The public plan of a training: fixed before the data is seen."""

    chance: float
    steps: int
    sigma: float
    expected: int
    """Rows, from public knowledge."""
    delta: float

    def __post_init__(self) -> None:
        if self.expected < 1 or not 0 < self.chance < 1 or self.steps < 1 or not self.sigma > 0:
            raise UsageError("A run has steps, a chance below one, noise and expected rows.")

    @property
    def sigma2(self) -> Fraction:
        """Variance of the noise in lattice units squared, as it is drawn."""
        return representable_sigma2(Fraction(self.sigma) ** 2 * UNITS * UNITS)

    def event(self, cells: int) -> ApproximateEvent:
        """What the whole run is charged as."""
        epsilon = sampled_epsilon(
            self.chance, self.sigma, self.steps, self.delta, cells=cells, units=UNITS
        )
        what = f"DP-SGD: {self.steps} steps, chance {self.chance:g}, noise {self.sigma:g}"
        return ApproximateEvent(epsilon, self.delta, what)


@compiled
def clipped_sum(gradients: Floats, units: int, total: NDArray[np.int64]) -> None:
    """Add every row, scaled to a length of at most one and cut towards zero, to the total."""
    rows, size = gradients.shape
    cut = np.empty(size, np.int64)
    for row in range(rows):
        square = 0.0
        for k in range(size):
            square += gradients[row, k] * gradients[row, k]
        if not np.isfinite(square):
            continue
        scale = units * (1.0 - 2.0**-30) / max(1.0, np.sqrt(square))
        length = 0
        for k in range(size):
            cut[k] = int(gradients[row, k] * scale)
            length += cut[k] * cut[k]
        if length <= units * units:
            for k in range(size):
                total[k] += cut[k]


def joined(stream: BitStream, step: int, rows: int, chance: float) -> NDArray[np.int64]:
    """The rows whose secret coins let them join a step."""
    coins = stream.child("coins").child(f"step {step}").words(rows)
    below = np.uint64(min(math.floor(Fraction(chance) * (1 << 64)), (1 << 64) - 1))
    return np.flatnonzero(coins < below)


def train(
    box: Private[Any],
    learner: Learner,
    *,
    run: Run,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Floats:
    """The learner's numbers after the last step: paid for, so public."""
    charger.charge(label, run.event(learner.size))
    data = open_private(box)
    rows, at = learner.rows(data), learner.begin()
    for step in range(run.steps):
        total = np.zeros(learner.size, np.int64)
        who = joined(stream, step, rows, run.chance)
        for k in range(0, who.size, _AT_ONCE):
            clipped_sum(learner.gradients(data, who[k : k + _AT_ONCE], at), UNITS, total)
        noise = discrete_gaussian(learner.size, run.sigma2, stream.child(f"noise {step}"))
        mean = (total + noise) / (run.chance * run.expected * UNITS)
        at = learner.descend(at, mean, step)
    return at
