"""What a mechanism says about itself, as statements that runs can contradict.

`claims_of` reads them off the privacy events that were charged, through the same accounting
that the manifest uses: the epsilon at delta, and for purely Gaussian releases mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sfumato.privacy.accounting.compose import guarantee, total_rho
from sfumato.privacy.accounting.discrete import LEAST_SIGMA2, variation
from sfumato.privacy.events import GaussianEvent, PrivacyEvent

_TOO_COARSE = 0.2
"""Above this total variation from continuous noise a test of mu could accuse nobody."""


@dataclass(frozen=True, slots=True)
class EpsilonClaim:
    """(epsilon, delta)-DP."""

    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        return self.epsilon

    def __str__(self) -> str:
        at = f" at δ = {self.delta:.2g}" if self.delta else ""
        return f"ε ≤ {self.epsilon:.4g}{at}"


@dataclass(frozen=True, slots=True)
class MuClaim:
    """mu-GDP up to a total variation of `slack` on each input (see `mu`)."""

    mu: float
    slack: float = 0.0

    @property
    def value(self) -> float:
        return self.mu

    def __str__(self) -> str:
        return f"μ ≤ {self.mu:.4g}"


@dataclass(frozen=True, slots=True)
class SensitivityClaim:
    """One person moves a measurement by at most `limit` in its norm."""

    limit: float
    norm: str

    @property
    def value(self) -> float:
        return self.limit

    def __str__(self) -> str:
        return f"{self.norm} ≤ {self.limit:.5g}"


@dataclass(frozen=True, slots=True)
class SameOutputClaim:
    """Under equal answers of the wall everything that is published is the same, byte for byte."""

    differing: int = 0
    """Parts (columns, remarks, files) that may differ: none."""

    @property
    def value(self) -> float:
        return float(self.differing)

    def __str__(self) -> str:
        return "same bytes under equal answers"


Claim = EpsilonClaim | MuClaim | SensitivityClaim | SameOutputClaim


def claims_of(events: Iterable[PrivacyEvent], delta: float) -> tuple[Claim, ...]:
    """All that these events claim together at this delta."""
    listed = list(events)
    claims: list[Claim] = [EpsilonClaim(guarantee(listed, delta).epsilon, delta)]
    gaussians = [event for event in listed if isinstance(event, GaussianEvent)]
    if listed and len(gaussians) == len(listed):
        slack = math.fsum(_from_continuous(event) for event in gaussians)
        if slack < _TOO_COARSE:
            claims.append(MuClaim(math.sqrt(2 * float(total_rho(gaussians))), slack))
    return tuple(claims)


def _from_continuous(event: GaussianEvent) -> float:
    """Total variation from rounded continuous noise: the proved bound, or summed up exactly.

    The bound is proved for fine lattices only. A manifest keeps to it; an audit may compute the
    same distance number by number where the noise is small.
    """
    if event.sigma2 >= LEAST_SIGMA2:
        return variation(event.sigma2, event.touched)
    sigma = math.sqrt(event.sigma2)
    k = np.arange(-60.0, 61.0)
    discrete = np.exp(-(k**2) / (2 * sigma**2))
    rounded = ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma)
    apart = float(np.abs(discrete / discrete.sum() - rounded).sum()) / 2
    return min(1.0, event.touched * (apart + 1e-12))
