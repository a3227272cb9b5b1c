"""Empirical-Bayes law of cell levels: spatial prior, noise likelihood, and each cell's posterior.

Fits gamma, non-parametric (NPMLE) and Gaussian laws to the noisy means, penalised as in BIC
(Schwarz 1978); returns each cell's posterior. A cell's level is a multiple of what its surroundings
say. Of the law of these multiples we know little, so several compete, and each pays for its
freedom:

* *gamma*: multiples of mean 1 and any spread, from nearly equal to nearly all empty, averaged
  by how well they fit. Extreme ones must be borne out; where noise is all there is, a city is
  taken to vary as cities do, and the median of what may be there is low;
* *npmle*: the law of the largest likelihood, without a form (Robbins 1956; Kiefer & Wolfowitz
  1956), by expectation maximisation from the gamma law, which counts as some cells of its own;
* *gaussian*: Gaussian levels whose variance is in proportion to the surroundings.

The likelihood has the exact law of the noise in a mean of snapshots (`log_density`): a Gaussian's
tails would take single draws of Laplace noise for crowds.

The spatial prior of a cell is foretold by the level of the cells around it, without its own: a
blur of the width, of a few tried, that foretells the cells best by a line, which is flat where
surroundings say nothing; or the city's mean where the cells are no grid. `cell_scale` is the
cell's own mean shrunk towards that, as much as the noise asks for (James & Stein 1961).
`median_counts` makes whole counts at the end. All of it is computed from noisy numbers:
post-processing.

Constants were settled on development data that no table shows: crowds of 500 to 130,000 people,
two weeks of taxis, half of the Hangzhou days (docs/streams.md, "How good is the default?"; what was
tried and dropped is in docs/decisions/streams.md). No sweep over single constants is recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import erfcx, gammainc, kve, ndtr

from sfumato.streams.scheme import Values

_LAPLACE_UP_TO = 12
"""Means of more Laplace draws than this are taken as Gaussian (central limit theorem)."""


def log_density(apart: Values, variance: float, draws: int, laplace: bool) -> Values:
    """Log density of the mean of so many noise draws; `variance` is that of the mean."""
    if not laplace or draws > _LAPLACE_UP_TO:
        return np.asarray(-0.5 * (np.square(apart) / variance + math.log(2 * math.pi * variance)))
    # The sum of n Laplace numbers: (|x|/2b)^(n-1/2) K_(n-1/2)(|x|/b), which is smooth in |x|.
    scale = math.sqrt(variance * draws / 2) / draws
    top = float(np.abs(apart).max()) / scale
    x = np.linspace(1e-3, max(top, 1.0), 600)
    order = draws - 0.5
    table = order * np.log(x / 2) + np.log(kve(order, x)) - x
    table -= math.log(scale * math.sqrt(math.pi)) + math.lgamma(draws)
    return np.interp(np.abs(apart) / scale, x, table)


def log_normal_plus(x: Values, sd: Values, scale: float) -> Values:
    """Log density of a Gaussian number plus a Laplace one (Reed 2006)."""
    sd = np.maximum(sd, 0.05 * scale)
    sides = []
    for sign in (-1.0, 1.0):
        u = (sd / scale + sign * x / sd) / math.sqrt(2)
        # log erfcx(u), which is log 2 + u^2 far to the left, where erfcx itself overflows.
        log = np.log(erfcx(np.maximum(u, -5.0)))
        sides.append(np.where(u < -5.0, math.log(2) + np.square(u), log))
    together = np.logaddexp(sides[0], sides[1]) - 0.5 * np.square(x / sd)
    return np.asarray(together - math.log(4 * scale))


_GRID, _LEAST, _TOP = 48, 0.05, 4.0
"""How many multiples are told apart, the smallest that is not 0, and the least largest one. Where
the noise is finer than this grid, `shrinkage` keeps the Gaussian level instead."""
_FLOOR = 0.2
"""Surroundings are taken as at least this share of their mean."""
_SHAPES = {
    0.03: 8.0, 0.06: 7.0, 0.12: 6.0, 0.25: 4.0, 0.5: 1.0, 1.0: 0.0, 2.0: 0.0, 4.0: 1.0,
    8.0: 2.0, 16.0: 3.0, 64.0: 4.0,
}  # fmt: skip
"""Shapes of the gamma laws, and the log likelihood by which each must be borne out.

Shapes near one are free: where noise is all there is, a city is taken to vary as cities do. Why
laws pay at all: docs/decisions/streams.md, "Laws of how full cells are".
"""
_STEPS, _PSEUDO = 20, 50.0
"""Steps of expectation maximisation, and how many cells the law it starts from is worth. From a
flat start the NPMLE kept mass at levels that only noise supported (docs/decisions/streams.md)."""
_GAUSSIAN_PRICE, _NPMLE_PRICE = 1.0, 2.0
"""Logs of the number of cells that Gaussian levels and the NPMLE must gain over the gamma laws:
BIC counts half a log for each parameter (Schwarz 1978; docs/decisions/streams.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelPosterior:
    """Posterior of every cell's level: `chance` (cell x multiple), and the levels themselves."""

    base: Values
    multiples: Values
    chance: Values
    name: str

    @property
    def levels(self) -> Values:
        return self.base[:, None] * self.multiples

    @property
    def expected(self) -> Values:
        """The mean of what each level may be."""
        return np.asarray(self.base * (self.chance @ self.multiples))

    def doubt(self, level: Values) -> Values:
        """The mean square by which each level may differ from this one."""
        second = np.square(self.base) * (self.chance @ np.square(self.multiples))
        return np.maximum(second - 2 * level * self.expected + np.square(level), 0.0)

    @property
    def step(self) -> float:
        """Ratio of neighbouring multiples: finer than that the grid cannot see."""
        return float(self.multiples[-1] / self.multiples[-2])


def fit_levels(
    mean: Values, prior: Values, variance: float, draws: int, laplace: bool, chance: float = 0.0
) -> LevelPosterior:
    """The posterior under the law that fits the noisy means best for its price.

    `chance` is the variance per person by which a count may differ from its level.
    """
    base = np.maximum(prior, max(_FLOOR * float(prior.mean()), 1e-6))
    law, fit = _fit_multiples(mean, base, variance, draws, laplace, chance)
    signal, gaussian_fit = gaussian_levels(mean, prior, variance, draws, laplace)
    gaussian_fit -= _GAUSSIAN_PRICE * math.log(mean.size)
    if gaussian_fit > fit:
        return law.gaussian_posterior(prior, signal)
    return law.posterior()


@dataclass(frozen=True, slots=True, eq=False)
class _FittedLaw:
    """A law of multiples and the likelihood of each, cell by cell."""

    base: Values
    edges: Values
    multiples: Values
    likelihood: Values
    law: Values
    name: str

    def posterior(self) -> LevelPosterior:
        return self._of(self.law, self.name)

    def gaussian_posterior(self, prior: Values, signal: Values) -> LevelPosterior:
        sd = np.sqrt(np.maximum(signal, 1e-12))[:, None]
        below = ndtr((self.base[:, None] * self.edges[1:-1] - prior[:, None]) / sd)
        return self._of(np.diff(below, axis=1, prepend=0.0, append=1.0), "gaussian")

    def _of(self, law: Values, name: str) -> LevelPosterior:
        chance = self.likelihood * (law + 1e-30)
        chance /= chance.sum(axis=1, keepdims=True)
        chance[chance < 1e-12] = 0.0  # denormal numbers are slow
        return LevelPosterior(self.base, self.multiples, chance, name)


def _fit_multiples(
    mean: Values, base: Values, variance: float, draws: int, laplace: bool, chance: float
) -> tuple[_FittedLaw, float]:
    """The better of the gamma laws and the NPMLE, and its log likelihood less its price."""
    steps = np.geomspace(_LEAST, max(float((mean / base).max()), _TOP), _GRID - 1)
    multiples = np.concatenate(([0.0], steps))
    levels = base[:, None] * multiples
    wider = np.sqrt(1 + chance * levels / variance)
    logs = log_density((mean[:, None] - levels) / wider, variance, draws, laplace) - np.log(wider)
    highest = logs.max(axis=1)
    likelihood = np.exp(np.maximum(logs - highest[:, None], -80.0))
    between = np.sqrt(steps[1:] * steps[:-1])
    edges = np.concatenate(([0.0, 0.5 * steps[0]], between, [np.inf]))
    gamma, fit = gamma_average(likelihood, edges)
    free, npmle_fit = npmle(likelihood, gamma)
    npmle_fit -= _NPMLE_PRICE * math.log(mean.size)
    name, law = ("npmle", free) if npmle_fit > fit else ("gamma", gamma)
    fitted = _FittedLaw(base, edges, multiples, likelihood, law, name)
    return fitted, max(fit, npmle_fit) + float(highest.sum())


def gamma_average(likelihood: Values, edges: Values) -> tuple[Values, float]:
    """The average of gamma laws of mean 1, and its log likelihood less the penalty of its shape."""
    shapes, penalties = np.array(list(_SHAPES)), np.array(list(_SHAPES.values()))
    laws = np.diff(gammainc(shapes[:, None], shapes[:, None] * edges), axis=1)
    laws = np.maximum(laws, 1e-12)
    laws /= laws.sum(axis=1, keepdims=True)
    fits = np.log(likelihood @ laws.T).sum(axis=0) - penalties
    shares = np.exp(fits - fits.max())
    return np.asarray(shares @ laws / shares.sum()), float(fits.max())


def npmle(likelihood: Values, start: Values) -> tuple[Values, float]:
    """The non-parametric maximum likelihood law, drawn to `start`, and its log likelihood."""
    law = start
    for _ in range(_STEPS):
        counted = law * (likelihood.T @ (1 / (likelihood @ law)))
        law = (counted + _PSEUDO * start) / (likelihood.shape[0] + _PSEUDO)
    return law, float(np.log(likelihood @ law).sum())


def gaussian_levels(
    mean: Values, prior: Values, variance: float, draws: int, laplace: bool
) -> tuple[Values, float]:
    """Variances of Gaussian levels around the surroundings, and their log likelihood.

    They vary in proportion to the surroundings, which do not contain the cell itself. A single
    draw of Laplace noise has tails that no Gaussian has, and is taken as what it is.
    """
    scale = np.clip(prior / max(float(prior.mean()), 1e-9), 0.05, None)
    apart = mean - prior
    signal = max(float(np.square(apart).mean()) - variance, 0.0) * scale / float(scale.mean())
    best_fit, best = -math.inf, signal
    for share in (1.0, 0.5):  # second moments are no firm ground where tails are heavy
        if laplace and draws == 1:
            logs = log_normal_plus(apart, np.sqrt(share * signal), math.sqrt(variance / 2))
        else:
            whole = share * signal + variance
            logs = -0.5 * (np.square(apart) / whole + np.log(2 * math.pi * whole))
        if (fit := float(logs.sum())) > best_fit:
            best_fit, best = fit, share * signal
    return best, best_fit


_BLURS = (0.7, 1.5, 3.0, 6.0)
"""Widths, in cells, of the neighbourhoods tried."""
_LEAST_RELATIVE = 0.05
"""No cell's level is below this share of the mean."""
_SHARE, _FEW = 0.1, 50
"""Share of the cells that count as busy, and the fewest of them."""
_MORE = 1.5
"""Times the publicly expected people that there may be."""
_DOUBT = 2.0
"""Standard errors of the city's mean below which it is taken as 0: a city that may well be empty is
empty. That the default does not lose to zeros is held by tests/streams/test_never_loses.py."""
_PRICE = 3.0
"""Twice the log likelihood that surroundings must gain, in logs of the number of cells, of which
BIC asks one for each parameter (Schwarz 1978)."""
_FIRM = 0.5
"""Share of the cells' spread that must be more than noise for their own means to be levels."""


def spatial_prior(
    mean: Values, columns: int | None, variance: float = 0.0, people: int | None = None
) -> Values:
    """What the cells around foretell of each cell; `variance` is the noise in a mean.

    The city's mean is itself noisy, and is taken to be lower by as much as it is uncertain: a
    city that may well be empty is empty. And there are not many more people than are expected.
    """
    prior = _from_neighbours(mean, columns, variance)
    if people is not None:
        prior = prior * min(1.0, _MORE * people / max(float(prior.sum()), 1e-9))
    return prior


def _from_neighbours(mean: Values, columns: int | None, variance: float) -> Values:
    middle = float(mean.mean())
    doubt = _DOUBT**2 * variance / mean.size
    middle = max(middle - doubt / middle, 0.0) if middle > 0 else 0.0
    best, error = np.full(mean.size, middle), float(np.square(mean - middle).mean())
    first, price = error, _PRICE * math.log(mean.size)
    if columns is None:
        return best
    grid = mean.reshape(-1, columns)
    here = np.zeros((13, 13))
    here[6, 6] = 1.0
    for width in _BLURS:
        own = float(gaussian_filter(here, width, mode="constant", truncate=3.0)[6, 6])
        around = gaussian_filter(grid, width, mode="nearest", truncate=3.0)
        blurred = ((around - own * grid) / (1 - own)).ravel()
        # A blur of noise foretells nothing: its slope is near 0, and so is what is left of it.
        apart = blurred - blurred.mean()
        slope = float(apart @ (mean - middle)) / max(float(apart @ apart), 1e-12)
        guess = np.maximum(middle + min(max(slope, 0.0), 1.0) * apart, 0.0)
        reached = float(np.square(mean - guess).mean())
        if reached < error and mean.size * math.log(first / max(reached, 1e-300)) > price:
            best, error = guess, reached
    return best


def cell_scale(mean: Values, prior: Values, variance: float) -> Values:
    """Every cell's level as a multiple of the mean level; `variance` is the noise in a mean.

    While most of what sets cells apart is noise, levels are those of the surroundings, which do
    not contain the cell: its own noise would pass for how much it varies.
    """
    spread = float(np.square(mean - prior).mean())
    trust = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    level = prior + trust * (mean - prior) if trust > _FIRM else prior
    return np.asarray(np.clip(level / max(float(level.mean()), 1e-9), _LEAST_RELATIVE, None))


def busiest(level: Values) -> NDArray[np.int64]:
    """Indices of the cells with the highest levels, on which covariances are learned."""
    return np.argsort(-level, kind="stable")[: max(int(_SHARE * level.size), _FEW)]


def median_counts(mean: Values, variance: Values) -> Values:
    """Whole people: the median of a count with that mean, as uncertain as that.

    A count around an uncertain intensity is skewed (negative binomial), and what has the least
    absolute error is its median, not its mean: mean - skew / 6 (Cornish & Fisher 1938). Nearly
    empty cells become zeros by this, full ones stay what they are.
    """
    mean = np.maximum(mean, 1e-3)
    third = mean + 3.0 * variance + 2.0 * np.square(variance) / mean
    return np.asarray(np.rint(np.maximum(mean - third / (mean + variance) / 6.0, 0.0)))
