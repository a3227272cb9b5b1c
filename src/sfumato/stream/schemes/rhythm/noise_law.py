"""The exact law of the noise in a mean of snapshots, for likelihoods of what lies under it."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, kve

from sfumato.stream.contract import Values

_LAPLACE_UP_TO = 12
"""Means of more Laplace draws than this are taken as Gaussian."""


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
