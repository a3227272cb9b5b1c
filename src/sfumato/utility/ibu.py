"""Iterative Bayesian update on a grid: where people were, from noisy reports of it.

Expectation-maximisation for the cells' probabilities p given the shares q of noisy reports in
cells and the channel C (Agrawal & Aggarwal 2001). The likelihood is concave, never falls, and
its limits are maximum-likelihood estimates (ElSalamouny & Palamidessi 2020). Post-processing:
it reads published reports only.

The channel of planar Laplace noise on a grid is a convolution, so a step is four FFTs instead
of a product with a matrix of (cells)^2 entries; padding makes the convolution linear, not
periodic. Reports may fall outside the grid: those within `margin` cells are part of the
observation, those farther away (or all outside, with margin 0) are dropped, and *the rows of
the channel are divided by their sum inside the model*, because what is seen is a report
given that it was not dropped:

    den = forward(p / norm),   p <- (p / norm) * backward(q / den).

Normalising p only afterwards converges to something else. Note what is estimated: the
distribution of the *kept* reports' origins, which for p from all reports is p * norm,
renormalised; `origins` divides it out.

Acceleration: squared extrapolation (SQUAREM; Varadhan & Roland 2008) with a step length of
the third kind, and a plain step wherever the likelihood would fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.privacy.noise.planar import Strength
from sfumato.traces.cells import Cells, Convolution, noise_kernel

Floats = NDArray[np.float64]
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Channel:
    """One mechanism seen through a grid: from p on the inner to reports on the outer cells."""

    convolution: Convolution
    norm: Floats

    @classmethod
    def planar_laplace(cls, cells: Cells, strength: Strength, margin: int = 0) -> Channel:
        """The channel of planar Laplace noise; reports beyond `margin` cells are dropped."""
        inner = (cells.rows, cells.columns)
        reach = (inner[0] - 1 + margin, inner[1] - 1 + margin)
        kernel = noise_kernel(cells, strength.per_metre, reach)
        made = Convolution.of(inner, margin, kernel)
        return cls(made, np.maximum(made.backward(np.ones(made.outer)), _TINY))

    def forward(self, p: Floats) -> Floats:
        """Shares of reports in the outer cells, one in all."""
        return self.convolution.forward(p / self.norm)

    def backward(self, ratio: Floats) -> Floats:
        return self.convolution.backward(ratio) / self.norm


@dataclass(frozen=True, eq=False)
class Observation:
    """Counts of reports on the outer grid of the channel that made them."""

    channel: Channel
    counts: Floats

    def __post_init__(self) -> None:
        if self.counts.shape != self.channel.convolution.outer:
            raise UsageError("The counts do not lie on the channel's outer grid.")


@dataclass(frozen=True, eq=False)
class Update:
    """The estimate, and how it came about."""

    p: Floats
    log_likelihood: tuple[float, ...]
    """Per report, after every step."""
    steps: int
    """Applications of the update, the work done."""
    last_change: float
    """Sum of |change| in the last step: the stop rule's quantity."""
    stopped: bool
    """True where the stop rule held before the last step allowed."""


def margin_for(cells: Cells, strength: Strength) -> int:
    """Cells around the grid that hold 99.3 % of the noise of its edge: 7 / epsilon."""
    return math.ceil(7.0 / strength.per_metre / cells.side_m)


def early_steps(cells: Cells, strength: Strength) -> int:
    """When to stop where the map is wanted and not the maximum of the likelihood.

    Further steps fit the noise of single reports: cells with few visits go to nothing. Stopping
    after 4.5 steps for every cell side of expected noise (at least two) ranked cells no worse
    than the reports themselves at every noise from 50 m to 1 km, on cabs and on phones.
    """
    return max(2, round(4.5 * strength.expected_noise_m / cells.side_m))


def iterative_bayesian_update(
    observed: Observation | Sequence[Observation],
    *,
    steps: int = 50,
    stop_below: float = 1e-8,
    accelerate: bool = False,
    start: Floats | None = None,
    tick: Callable[[int, float], None] | None = None,
) -> Update:
    """The update from one or several mechanisms at once (the generalised form).

    Several observations, each with its own channel, share p: their likelihoods add.
    """
    groups = [observed] if isinstance(observed, Observation) else list(observed)
    total = sum(float(group.counts.sum()) for group in groups)
    if total <= 0:
        raise UsageError("There is not a single report to update from.")
    inner = groups[0].channel.convolution.inner
    shares = [group.counts / total for group in groups]
    p = np.full(inner, 1.0 / (inner[0] * inner[1])) if start is None else start / start.sum()

    def once(p: Floats) -> tuple[Floats, float]:
        """The next p, and the log-likelihood of this one."""
        new, likelihood = np.zeros(inner), 0.0
        for group, share in zip(groups, shares, strict=True):
            den = np.maximum(group.channel.forward(p), _TINY)
            seen = share > 0
            likelihood += float(np.sum(share[seen] * np.log(den[seen])))
            ratio = np.divide(share, den, out=np.zeros_like(den), where=seen)
            new += group.channel.backward(ratio)
        new = np.maximum(new * p, 0.0)
        return new / new.sum(), likelihood

    return (_squared if accelerate else _plain)(once, p, steps, stop_below, tick)


_Once = Callable[[Floats], tuple[Floats, float]]
_Tick = Callable[[int, float], None] | None


def _plain(once: _Once, p: Floats, steps: int, stop_below: float, tick: _Tick) -> Update:
    trail: list[float] = []
    change = np.inf
    for step in range(1, steps + 1):
        new, likelihood = once(p)
        trail.append(likelihood)
        change, p = float(np.abs(new - p).sum()), new
        if tick is not None:
            tick(step, likelihood)
        if change < stop_below:
            return Update(p, tuple(trail), step, change, True)
    return Update(p, tuple(trail), steps, change, False)


def _squared(once: _Once, p: Floats, steps: int, stop_below: float, tick: _Tick) -> Update:
    """Two steps and an extrapolated third; three applications of the update a round."""
    trail: list[float] = []
    used, change, longest = 0, np.inf, 4.0
    while used + 3 <= steps:
        one, likelihood = once(p)
        trail.append(likelihood)
        two, _ = once(one)
        r, v = one - p, (two - one) - (one - p)
        change = float(np.abs(two - one).sum())
        size = float(np.linalg.norm(v))
        used += 2
        if change < stop_below or size == 0.0:
            return Update(two, tuple(trail), used, change, True)
        length = min(max(float(np.linalg.norm(r)) / size, 1.0), longest)
        if length >= longest:
            longest *= 4.0
        ahead = p + 2.0 * length * r + length**2 * v
        ahead = np.where(ahead > 0.0, ahead, two * 1e-3)  # stay inside: zero is never left again
        new, reached = once(ahead / ahead.sum())
        used += 1
        if reached < likelihood:  # too far: what two plain steps reached is better
            new, longest = two, max(longest / 4.0, 1.0)
        p = new
        if tick is not None:
            tick(used, likelihood)
    return Update(p, tuple(trail), used, change, False)


def origins(update: Update, channel: Channel) -> Floats:
    """The distribution of all origins, where p is that of the origins of kept reports."""
    whole = update.p / channel.norm
    return np.asarray(whole / whole.sum(), np.float64)
