"""What the noise tests share: exact laws, a test of fit, and freshly compiled samplers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from sfumato.privacy.noise import kernels


@dataclass(frozen=True)
class Law:
    """One of the two laws on the integers: interval probabilities, correct to ten digits."""

    name: str
    scale: float

    def below(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(K < k) for integers k."""
        if self.name == "laplace":
            # P(K >= j) = exp(-j/t) / (1 + exp(-1/t)) for j >= 1, and the law is symmetric.
            j = np.where(k > 0, k, 1 - k)
            tail = np.exp(-j / self.scale) / (1 + np.exp(-1 / self.scale))
            return np.where(k > 0, 1 - tail, tail)
        if self.scale > 500:
            # The sum over integers is the integral to the half-integers within 1/(24 s^2).
            return special.ndtr((k - 0.5) / self.scale)
        support = np.arange(-int(40 * self.scale) - 5, int(40 * self.scale) + 6)
        mass = np.exp(-(support**2) / (2 * self.scale**2))
        cumulated = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
        return cumulated[np.clip(k - support[0], 0, support.size).astype(int)]

    def mass(self, k: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.name == "laplace":
            ratio = np.exp(-1 / self.scale)
            return (1 - ratio) / (1 + ratio) * np.exp(-np.abs(k) / self.scale)
        reach = np.arange(-int(40 * self.scale) - 5, int(40 * self.scale) + 6)
        total = np.exp(-(reach**2) / (2 * self.scale**2)).sum()
        return np.exp(-(np.asarray(k) ** 2) / (2 * self.scale**2)) / total


def p_value(draws: NDArray[np.int64], law: Law) -> float:
    """Chi-square of the draws against the law, in about forty cells of at least 10 expected."""
    if law.scale < 8:
        edges = np.arange(-60, 61).astype(float)
    else:
        edges = np.unique(np.round(np.linspace(-4, 4, 41) * law.scale))
    expected = draws.size * np.diff(law.below(edges), prepend=0.0, append=1.0)
    observed = np.bincount(np.searchsorted(edges, draws, "right"), minlength=edges.size + 1)
    keep = expected >= 10
    expected = np.append(expected[keep], expected[~keep].sum())
    observed = np.append(observed[keep], observed[~keep].sum())
    if expected[-1] < 10:
        expected, observed = (
            np.append(cells[:-2], cells[-2:].sum()) for cells in (expected, observed)
        )
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.fixture(scope="session")
def fit() -> Callable[[NDArray[np.int64], str, Fraction], float]:
    """p-value of draws against the named law with this scale."""

    def test(draws: NDArray[np.int64], name: str, scale: Fraction) -> float:
        return p_value(draws, Law(name, float(scale)))

    return test


def fresh(digit_bits: int) -> ModuleType:
    """The samplers compiled anew, without the cache, with digits of another width."""
    source = Path(kernels.__file__).read_text()
    assert source.count("DIGIT_BITS = 16") == 1
    decorator = "from sfumato.model.compiled import compiled"
    assert source.count(decorator) == 1
    source = source.replace(decorator, "from numba import njit as compiled")
    source = source.replace("DIGIT_BITS = 16", f"DIGIT_BITS = {digit_bits}")
    module = ModuleType(f"kernels_of_{digit_bits}_bits")
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


@pytest.fixture(scope="session")
def compiled() -> ModuleType:
    """The samplers as they are, compiled anew so that their code can be read."""
    return fresh(kernels.DIGIT_BITS)


@pytest.fixture(scope="session")
def one_bit() -> ModuleType:
    """The samplers with digits of one bit, whose coin trees can be enumerated."""
    return fresh(1)


@pytest.fixture(scope="session")
def law() -> type[Law]:
    return Law
