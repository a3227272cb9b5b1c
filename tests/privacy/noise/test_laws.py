"""Laplace and Gaussian side by side: goodness of fit with power, ratios, moments, an oracle."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import UsageError
from sfumato.privacy.noise import (
    BitStream,
    KeyedStream,
    SeededStream,
    SystemStream,
    discrete_gaussian,
    discrete_laplace,
)

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))
SCALES = [
    Fraction(1, 4),
    Fraction(1, 2),
    Fraction(1),
    Fraction(37, 10),
    Fraction(16),
    Fraction(1000),
    Fraction(1 << 20),
    Fraction(1 << 40),
]
LAWS = ["laplace", "gaussian"]
Fit = Callable[[NDArray[np.int64], str, Fraction], float]


def draw(name: str, size: int, scale: Fraction, stream: BitStream) -> NDArray[np.int64]:
    if name == "laplace":
        return discrete_laplace(size, scale, stream)
    return discrete_gaussian(size, scale * scale, stream)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_draws_fit_their_law_and_no_scale_five_percent_off(
    fit: Fit, name: str, scale: Fraction
) -> None:
    draws = draw(name, 100_000, scale, SeededStream(11))
    assert fit(draws, name, scale) > 1e-3
    assert fit(draws, name, scale * Fraction(105, 100)) < 1e-6
    assert fit(draws, name, scale * Fraction(95, 100)) < 1e-6


@pytest.mark.parametrize("sigma2", [Fraction(2), Fraction(183), Fraction(10**9 + 7, 3)], ids=str)
def test_draws_fit_where_the_variance_had_to_be_rounded(fit: Fit, sigma2: Fraction) -> None:
    draws = discrete_gaussian(100_000, sigma2, SeededStream(12))
    assert fit(draws, "gaussian", Fraction(float(sigma2) ** 0.5)) > 1e-3


@pytest.mark.parametrize("stream", [KeyedStream(KEY, "fit"), SystemStream()], ids=repr)
def test_every_kind_of_stream_gives_the_law(fit: Fit, stream: BitStream) -> None:
    for name in LAWS:
        # The operating system's bits differ every time: a threshold that chance never meets.
        assert fit(draw(name, 50_000, Fraction(5), stream), name, Fraction(5)) > 1e-9


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(7, 2)], ids=str)
def test_log_ratios_of_neighbouring_values(name: str, scale: Fraction) -> None:
    """log P(k)/P(k+1) is what privacy rests on: 1/t, and (2k+1)/(2 s^2)."""
    draws = draw(name, 1_000_000, scale, SeededStream(13))
    values, counts = np.unique(draws, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    tested = 0
    for k in range(-30, 30):
        here, there = seen.get(k, 0), seen.get(k + 1, 0)
        if min(here, there) < 200:
            continue
        far, near = (abs(k), abs(k + 1))
        exact = (near - far) / scale if name == "laplace" else (near**2 - far**2) / (2 * scale**2)
        error = (1 / here + 1 / there) ** 0.5
        assert abs(np.log(here / there) - float(exact)) < 4.5 * error
        tested += 1
    assert tested >= 2


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", [Fraction(16), Fraction(1 << 40)], ids=str)
def test_moments_and_symmetry(name: str, scale: Fraction) -> None:
    n = 400_000
    draws = draw(name, n, scale, SeededStream(14)) / float(scale)
    variance, kurtosis = (2.0, 6.0) if name == "laplace" else (1.0, 3.0)
    assert abs(draws.mean()) < 4.5 * (variance / n) ** 0.5
    assert abs(draws.var() - variance) < 4.5 * variance * ((kurtosis - 1) / n) ** 0.5 + 2e-3
    assert abs(np.sign(draws).sum()) < 4.5 * n**0.5
    later = draws[1:] * draws[:-1]
    assert abs(later.mean()) < 4.5 * variance / n**0.5
    reach = np.log(n) + 12 if name == "laplace" else (2 * (np.log(2 * n) + 12)) ** 0.5
    assert np.abs(draws).max() < reach


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", [0.5, 3.7, 1000.0])
def test_agreement_with_opendp(name: str, scale: float) -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if name == "laplace":
        oracle: Any = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        oracle = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
    n = 40_000
    theirs = np.array(oracle([0] * n))
    ours = draw(name, n, Fraction(str(scale)), SeededStream(15))
    off = draw(name, n, Fraction(str(scale)) * Fraction(11, 10), SeededStream(15))
    assert two_samples(ours, theirs) > 1e-6  # the oracle has no seed
    assert two_samples(off, theirs) < 1e-6


def two_samples(one: NDArray[np.int64], two: NDArray[np.int64]) -> float:
    both = np.concatenate([one, two])
    edges = np.unique(np.quantile(both, np.linspace(0.005, 0.995, 40)).round())
    if edges.size < 12:
        edges = np.arange(-5, 7)
    table = np.array([np.histogram(x, [-np.inf, *edges, np.inf])[0] for x in (one, two)])
    table = table[:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("name", LAWS)
def test_the_same_key_gives_the_same_integers(name: str) -> None:
    one = draw(name, 1000, Fraction(50), KeyedStream(KEY, "same"))
    assert (one == draw(name, 1000, Fraction(50), KeyedStream(KEY, "same"))).all()
    assert (one != draw(name, 1000, Fraction(50), KeyedStream(KEY, "other"))).mean() > 0.9
    assert (one != draw(name, 1000, Fraction(50), KeyedStream(KEY[::-1], "same"))).mean() > 0.9


GOLDEN = {
    "laplace 1/4": [0, 0, 0, 0, 0, 0, 0, 0],
    "gaussian 1/4": [0, 0, 0, 0, 0, 0, 0, 0],
    "laplace 37/10": [-5, 3, 1, 4, 7, 4, -2, 2],
    "gaussian 37/10": [-5, -3, 6, -4, -7, 6, 4, 2],
    "laplace 1099511627776": [
        144381424256,
        -763201090981,
        125798251171,
        -87413301372,
        1419994992345,
        218054731450,
        -119324252830,
        -396243869422,
    ],
    "gaussian 1099511627776": [
        -144381424256,
        125187628853,
        326666664977,
        -574975697879,
        -1077789669075,
        -1597528835498,
        810449633894,
        -612030490981,
    ],
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(37, 10), Fraction(1 << 40)], ids=str)
def test_golden_draws(name: str, scale: Fraction) -> None:
    """A change of these numbers breaks the rerun of every release that was interrupted."""
    draws = draw(name, 8, scale, KeyedStream(KEY, "golden"))
    assert draws.tolist() == GOLDEN[f"{name} {scale}"]


@settings(max_examples=30)
@given(
    name=st.sampled_from(LAWS),
    scale=st.sampled_from(SCALES),
    portions=st.lists(st.integers(0, 300), max_size=8),
)
def test_draws_do_not_depend_on_the_portions(
    name: str, scale: Fraction, portions: list[int]
) -> None:
    parts = KeyedStream(KEY, "portions")
    got = [draw(name, n, scale, parts) for n in portions]
    whole = draw(name, sum(portions), scale, KeyedStream(KEY, "portions"))
    assert (np.concatenate([np.empty(0, np.int64), *got]) == whole).all()


@pytest.mark.parametrize("run", [1, 7, 64, 1000])
def test_draws_do_not_depend_on_how_many_digits_are_fetched_at_a_time(
    monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    expected = [draw(name, 3000, Fraction(37, 10), KeyedStream(KEY, "run")) for name in LAWS]
    monkeypatch.setattr("sfumato.privacy.noise.bits._LARGEST_REQUEST", run)
    for name, numbers in zip(LAWS, expected, strict=True):
        assert (draw(name, 3000, Fraction(37, 10), KeyedStream(KEY, "run")) == numbers).all()


@pytest.mark.parametrize("name", LAWS)
def test_no_draws_spend_no_digits(name: str) -> None:
    stream = KeyedStream(KEY, "none")
    empty = draw(name, 0, Fraction(3), stream)
    assert empty.dtype == np.int64
    assert empty.shape == (0,)
    assert (stream.words(4) == KeyedStream(KEY, "none").words(4)).all()


@pytest.mark.parametrize("size", [-1, 1.5, None, True])
def test_a_size_that_is_no_count_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match="whole number"):
        discrete_laplace(size, Fraction(1), SeededStream(1))


def test_memory_is_the_result_and_little_more() -> None:
    draw("gaussian", 10, Fraction(1000), SeededStream(1))
    tracemalloc.start()
    draws = draw("gaussian", 1_000_000, Fraction(1000), SeededStream(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < draws.nbytes + (1 << 20)
