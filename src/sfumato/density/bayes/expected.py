"""How well the total of a release will be known, before anything is measured.

The width of a total's interval follows from the ladder alone (`bayes.ladder`): from its steps and
noise, which are planned, and from how active people are, which nobody knows yet. So activities are
taken from the prior that a release starts from, at a stated mean; their steps are summed up; and
`read_ladder` reads the sums as the release will. How much people differ, how the two sides of the
law differ and how heavy its tail is are integrated over that prior by the rule of third degree on
three axes: the points one root of three away from the middle on each (McNamee & Stenger 1967).

Public facts alone: nothing here has seen a record.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from sfumato.density.bayes.ladder import VISITS_SD, Vector, _Model, read_ladder

_SHAPES = (2, 3, 5)
"""Latent numbers of the prior that say how people differ: width, its two sides, the tail …"""
_MIDDLE, _CEILING = 1, 4
"""… where the middle of the law lies, and how many places a slot may have for one person."""
_AWAY = math.sqrt(len(_SHAPES))
_MIDDLES = np.linspace(-12.0, 12.0, 241)
"""Logarithms of the middle over what is expected, among which the one of a mean lies."""
_POINTS = 3000
"""A spread is known to a twentieth from half of the points that a release takes; from a fourth of
them those of check-ins came out a fifth too narrow."""
_CEILINGS = np.arange(0.0, 8.5, 0.5)


def half_width(
    coverage: float,
    visits: float,
    sds: Vector,
    steps: tuple[int, ...],
    users: float,
    expected: float,
    stated: bool,
    slots: int,
) -> float:
    """Half of the interval of that coverage over the total, as a release is expected to print it.

    Args:
        coverage: Of the interval.
        visits: Mean visits of a person.
        sds: Standard deviations of the noise on the sums of the ladder.
        steps: Of the ladder.
        users: About how many people, as `read_ladder` is told.
        expected: Visits that `read_ladder` is told of.
        stated: Whether the holder says so.
        slots: How many the period has.
    """
    model = _Model(np.zeros(sds.size), sds, steps, users, expected, VISITS_SD, slots)
    width = float(ndtri(0.5 + coverage / 2))
    widths = []
    for axis in _SHAPES:
        for side in (-_AWAY, _AWAY):
            latent = np.zeros(model.size)
            latent[axis] = side
            sums = _sums_at(model, latent, users, visits)
            measured = (tuple(sums.tolist()), tuple(sds.tolist()), steps)
            totals = read_ladder(*measured, users, expected, stated, slots, _POINTS).totals
            widths.append(width * float(totals.std() / totals.mean()))
    return float(np.mean(widths))


def _sums_at(model: _Model, latent: Vector, users: float, visits: float) -> Vector:
    """Sums of the ladder for people of that shape who make that many visits on average; of people
    who make more than slots at one place hold, slots have more places."""
    tried = np.tile(latent, (_MIDDLES.size, 1))
    tried[:, _MIDDLE] = _MIDDLES / VISITS_SD
    for ceiling in _CEILINGS:
        tried[:, _CEILING] = ceiling
        sums = model.expected(tried)
        means = sums.sum(axis=1) / users
        if means[-1] >= visits:
            break
    means = np.maximum.accumulate(means)
    above = max(int(np.searchsorted(means, min(visits, float(means[-1])))), 1)
    share = (visits - means[above - 1]) / max(float(means[above] - means[above - 1]), 1e-12)
    share = min(max(float(share), 0.0), 1.0)
    mixed: Vector = (1 - share) * sums[above - 1] + share * sums[above]
    return mixed
