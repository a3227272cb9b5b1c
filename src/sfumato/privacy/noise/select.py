"""Exact choice of an index with probability proportional to exp(-cost_i / b).

The exponential mechanism (McSherry & Talwar 2007) without floating point: draw an index
uniformly, keep it with probability exp(-(cost_i - least cost) / b), else draw again. The kept
index has exactly the stated law; subtracting the least cost changes no probability and makes
the best index certain to be kept when drawn.

Cost: the expected number of trials is n / sum_i exp(-(cost_i - least) / b), at most n, with
fewer than a dozen digits each: some 30 ms for a hundred thousand candidates in the worst case
(one good candidate among hopeless ones). The number of trials depends on the costs, so who can
time a choice learns about them.

b = p/q is held as in `scale.py`: rounded up (a flatter choice, hence a more private one)
where p has more than 46 bits. The exponents (cost_i - least) q / p are computed in integers of
any length. Their whole part is cut at 2^62, which changes a probability by less than
exp(-2^62).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise.kernels import fill_choices
from sfumato.privacy.noise.scale import representable_scale, uniform_plan
from sfumato.privacy.noise.stream import BitStream, Digits

SMALLEST_SOFTNESS = Fraction(1, 1 << 40)
_LARGEST_WHOLE = 1 << 62


def representable_softness(softness: Fraction | int) -> Fraction:
    """The b that is really used: at least the one asked for, below (1 + 2^-42) of it."""
    return representable_scale(softness, SMALLEST_SOFTNESS)


def choose(
    size: int, costs: NDArray[np.int64], softness: Fraction | int, stream: BitStream
) -> NDArray[np.int64]:
    """`size` independent indices, i with probability proportional to exp(-costs[i] / b).

    `costs` are non-negative integers (scaled, negated utilities), b the representable softness.
    """
    costs = np.asarray(costs)
    if costs.ndim != 1 or costs.size == 0 or costs.dtype != np.int64 or costs.min() < 0:
        raise UsageError("A choice needs one non-negative 64-bit integer cost per candidate.")
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise UsageError("The number of choices is a whole number, zero or more.")
    b = representable_softness(softness)
    exponents = (costs - costs.min()).astype(object) * b.denominator
    whole = np.minimum(exponents // b.numerator, _LARGEST_WHOLE).astype(np.uint64)
    rest = (exponents % b.numerator).astype(np.uint64)
    width, limit = uniform_plan(costs.size)
    out = np.empty(int(size), np.int64)
    d, top = np.uint64(b.numerator), np.uint64(limit)

    def step(digits: Digits, at: NDArray[np.int64], done: int) -> int:
        return int(fill_choices(out, done, whole, rest, d, width, top, digits, at))

    stream.consume(out.size, step)
    return out
