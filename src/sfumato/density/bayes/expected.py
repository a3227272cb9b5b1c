"""How well the total of a release will be known, before anything is measured.

The width of a total's interval follows from the ladder alone (`bayes.ladder`): from its steps and
noise, which are planned, and from how active people are, which nobody knows yet. So activities are
taken from the prior that a release starts from, at a stated mean; their steps are summed up; and
`read_ladder` reads the sums as the release will. How much people differ, how the two sides of the
law differ and how heavy its tail is are integrated over that prior by the rule of third degree on
three axes: the points one root of three away from the middle on each (McNamee & Stenger 1967).
Where the middle of the law lies, and the ceiling where it binds, is the likeliest pair with that
mean.

Vehicles of a fleet differ little, and few of them reach the last, coarse step: its noise decides
how wide an interval comes out (four times as wide in one draw as in another). Their width is that
of cabs, two axes are left, and noise is drawn.

Public facts alone: nothing here has seen a record.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from sfumato.density.bayes.ladder import FLEET_WIDTH, VISITS_SD, Vector, _Model, read_ladder

_WIDTH_AXIS, _SIDES_AXIS, _TAIL_AXIS = 2, 3, 5
"""Latent numbers of the prior that say how people differ: width, its two sides, the tail …"""
_MIDDLE, _CEILING = 1, 4
"""… where the middle of the law lies, and how many places a slot may have for one person."""
_OFFSETS = np.linspace(-12.0, 12.0, 241)
"""Logarithms of the middle over the mean, among which the one of that mean lies …"""
_CEILINGS = np.arange(0.0, 8.5, 0.1)
"""… and the ceilings that are tried with them."""
_POINTS = 3000
"""A spread is known to a twentieth from half of the points that a release takes; from a fourth of
them those of check-ins came out a fifth too narrow."""
_NOISES = 4
"""Draws of the noise for each shape of a fleet."""
_SEED = 20080202


def half_width(
    coverage: float,
    visits: float,
    sds: Vector,
    steps: tuple[int, ...],
    users: float,
    expected: float,
    stated: bool,
    slots: int,
    fleet: bool = False,
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
        fleet: Whether they are vehicles of a fleet, which differ little.
    """
    model = _Model(np.zeros(sds.size), sds, steps, users, visits, VISITS_SD, slots)
    base = np.zeros(model.size)
    axes: tuple[int, ...] = (_WIDTH_AXIS, _SIDES_AXIS, _TAIL_AXIS)
    noises = np.zeros((1, sds.size))
    if fleet:
        base[_WIDTH_AXIS], axes = FLEET_WIDTH, axes[1:]
        noises = np.random.default_rng(_SEED).standard_normal((_NOISES, sds.size))
    width = float(ndtri(0.5 + coverage / 2))
    widths = []
    for axis in axes:
        for side in (-math.sqrt(len(axes)), math.sqrt(len(axes))):
            latent = base.copy()
            latent[axis] += side
            for sums in _sums_at(model, latent, users, visits) + sds * noises:
                measured = (tuple(sums.tolist()), tuple(sds.tolist()), steps)
                totals = read_ladder(*measured, users, expected, stated, slots, _POINTS).totals
                widths.append(width * float(totals.std() / totals.mean()))
    return float(np.mean(widths))


def _sums_at(model: _Model, latent: Vector, users: float, visits: float) -> Vector:
    """Sums of the ladder for people of that shape who make that many visits on average: of the
    likeliest middle and ceiling with that mean; the most there can be, where none has it."""
    tried = np.tile(latent, (_OFFSETS.size, 1))
    tried[:, _MIDDLE] = _OFFSETS / VISITS_SD
    likeliest, least = np.empty(0), math.inf
    for ceiling in _CEILINGS:
        if ceiling**2 >= least:
            break
        tried[:, _CEILING] = ceiling
        sums = model.expected(tried)
        means = np.maximum.accumulate(sums.sum(axis=1)) / users
        above = int(np.searchsorted(means, visits))
        if above == means.size:
            likeliest = sums[-1] if least == math.inf else likeliest
            continue
        above = max(above, 1)
        unlikely = float(tried[above, _MIDDLE] ** 2 + ceiling**2)
        if unlikely < least:
            share = (visits - means[above - 1]) / max(means[above] - means[above - 1], 1e-12)
            share = min(max(float(share), 0.0), 1.0)
            likeliest, least = (1 - share) * sums[above - 1] + share * sums[above], unlikely
    return likeliest
