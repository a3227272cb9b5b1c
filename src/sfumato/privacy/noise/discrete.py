"""Exact integer noise: discrete Laplace, discrete Gaussian, and choices, without floating point.

The time of a draw or a choice depends on its value and on the costs; who can time single draws
learns about the noise.

*Scales.* A scale is a rational p/q between 1/4 and 2^40 with p < 2^46. One with a longer
numerator is rounded *up* to a multiple of a power of two with a numerator of at most 44 bits:
more noise, never less, by a factor below 1 + 2^-42. The rounded value is what is drawn, so it is
the value to charge and to publish.

*Coins* of chance exp(-n/d), for arrays of integers n and d (`bernoulli_exp`). With n = a d + r, 0
<= r < d, the coin is a + 1 independent coins that must all succeed: exp(-1) a times, exp(-r/d)
once (Canonne, Kamath & Steinke 2020, algorithm 1). The first that fails ends it, so the expected
number of digits is below 8 however large n/d is.

*Discrete Laplace*: P(k) proportional to exp(-|k| / t) on the integers. Method (Canonne, Kamath &
Steinke 2020, algorithm 2). Let t = p/q.

1. x >= 0 with P(x) proportional to exp(-x/p). Write x = p v + u with 0 <= u < p; then
   exp(-x/p) = exp(-v) exp(-u/p), so v and u are independent: u is uniform and kept with
   probability exp(-u/p), and v counts successes of exp(-1)-coins.
2. y = floor(x / q). The q values of x with the same y have together a probability proportional
   to exp(-q y / p) = exp(-y / t).
3. A random sign; minus zero is drawn again, so that zero is not counted twice.

Every step is an exact coin or an exact uniform (see `kernels.py`), so k has exactly the stated
law, as far as the stream's bits are uniform. Added to an integer query of L1 sensitivity D it
gives pure (D/t)-DP.

Range: v stops at 2^16, which it reaches with probability exp(-65536) < 2^-94000. So |k| is at
most t (2^16 + 1) < 2^57 and no draw can wrap. For everyday use: P(|k| > t x) <= exp(-x).

*Discrete Gaussian*: P(k) proportional to exp(-k^2 / (2 s^2)) on the integers. Method: rejection
from the discrete Laplace (Canonne, Kamath & Steinke 2020, algorithm 3), with the Laplace scale
equal to the standard deviation parameter s = p/q itself. For a Laplace draw k with y = |k|,

    exp(-y/s) * exp(-(y - s)^2 / (2 s^2)) = exp(-y^2 / (2 s^2)) * exp(-1/2),

so keeping k with probability exp(-(y - s)^2 / (2 s^2)) leaves exactly the Gaussian. As
printed (Laplace scale floor(s) + 1, a fraction of s^2) the exponent's numerator and denominator
need several times 64 bits. With scale s they come apart. Put |q y - p| = a p + r, 0 <= r < p.
Then

    (y - s)^2 / (2 s^2) = (q y - p)^2 / (2 p^2) = (a + r/p)^2 / 2
                        = a^2 / 2  +  a * (r/p)  +  (r/p)^2 / 2,

and the coin is the conjunction of independent coins: exp(-1) floor(a^2 / 2) times, exp(-1/2)
once where a is odd, exp(-r/p) a times, and exp(-(r/p)^2 / 2) once. Their inner coins have the
denominators k, p and 2 k, never products of them; p < 2^46 and one 16-bit digit make every
product fit into 63 bits. About 76 of 100 Laplace draws are kept where s is large.

s^2 must be the square of a rational on the lattice of scales; any other is rounded up to
the next such square, by a factor below 1 + 2^-41, and `representable_sigma2` says which.

Privacy: for an integer query of L2 sensitivity D, D^2 / (2 s^2)-zCDP (Canonne, Kamath & Steinke
2020), with the s that is really drawn.

Range: |k| <= s (2^16 + 1) < 2^57, as for the Laplace, so no draw can wrap. For everyday use
P(|k| >= s x) <= 2 exp(-x^2 / 2), because the discrete Gaussian is sub-Gaussian with
parameter s; its variance is at most s^2.

*Choice* of an index with probability proportional to exp(-cost_i / b): the exponential mechanism
(McSherry & Talwar 2007). Draw an index uniformly, keep it with probability exp(-(cost_i - least
cost) / b), else draw again. The kept index has exactly the stated law; subtracting the least cost
changes no probability and makes the best index certain to be kept when drawn.

Cost: the expected number of trials is n / sum_i exp(-(cost_i - least) / b), at most n, with
fewer than a dozen digits each: some 30 ms for a hundred thousand candidates in the worst case
(one good candidate among hopeless ones).

b = p/q is held as a scale is: rounded up (a flatter choice, hence a more private one)
where p has more than 46 bits. The exponents (cost_i - least) q / p are computed in integers of
any length. Their whole part is cut at 2^62, which changes a probability by less than
exp(-2^62).
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.privacy.noise.bits import BitStream, Digits
from sfumato.privacy.noise.kernels import DIGIT_BITS, fill_choices, fill_coins, fill_noise

# Why these: docs/decisions/exact-noise.md. Below a quarter nearly every draw is zero and the claim
# rests on the rarest events; above 2^40 sums come near the end of 64 bits. A numerator below 2^46
# and one 16-bit digit make every product of the samplers fit into 63 bits.
SMALLEST_SCALE = Fraction(1, 4)
LARGEST_SCALE = Fraction(1 << 40)
NUMERATOR_BITS = 46
_ROUNDED_BITS = 44


def representable_scale(scale: Fraction | int, smallest: Fraction = SMALLEST_SCALE) -> Fraction:
    """The scale itself where it can be drawn exactly, else the next one above it."""
    scale = _rational(scale)
    if not smallest <= scale <= LARGEST_SCALE:
        raise _outside(smallest)
    if scale.numerator.bit_length() <= NUMERATOR_BITS:
        return scale
    return _root_above(scale * scale)


def representable_sigma(sigma2: Fraction | int) -> Fraction:
    """The smallest standard deviation on the lattice whose square is at least `sigma2`."""
    sigma2 = _rational(sigma2)
    if not SMALLEST_SCALE**2 <= sigma2 <= LARGEST_SCALE**2:
        raise _outside(SMALLEST_SCALE)
    root = Fraction(isqrt(sigma2.numerator), isqrt(sigma2.denominator))
    if root * root == sigma2 and root.numerator.bit_length() <= NUMERATOR_BITS:
        return root
    return _root_above(sigma2)


def representable_sigma2(sigma2: Fraction | int) -> Fraction:
    """The variance parameter that is really drawn: at least `sigma2`, below (1 + 2^-41) of it.

    This is the value to charge, to put in the manifest and to call the sampler with;
    applying the function twice changes nothing more.
    """
    root = representable_sigma(sigma2)
    return root * root


def uniform_plan(p: int, digit_bits: int = DIGIT_BITS) -> tuple[int, int]:
    """How to draw uniformly below p: the number of digits and the largest value kept.

    As many digits as make a second try rarer than 1 in 16; p < 2^60 keeps them in a word.
    """
    width = 0
    while p > 1 and 1 << (width * digit_bits) < 16 * p:
        width += 1
    return width, ((1 << (width * digit_bits)) // p) * p - 1


def _root_above(square: Fraction) -> Fraction:
    """The smallest n / 2^s that is at least the root of `square`, with n of at most 44 bits.

    s is the largest that gives n so few bits, hence n >= 2^43 and n exceeds the root by a
    factor of at most n / (n - 1) < 1 + 2^-42.
    """
    halves = square.numerator.bit_length() - square.denominator.bit_length()
    shift = _ROUNDED_BITS + 1 - halves // 2
    while True:
        n = _ceil_root(square * Fraction(4) ** shift)
        if n.bit_length() <= _ROUNDED_BITS:
            return n * Fraction(2) ** -shift
        shift -= 1


def _ceil_root(square: Fraction) -> int:
    """The smallest integer whose square is at least `square` > 0."""
    whole = -(-square.numerator // square.denominator)
    return isqrt(whole - 1) + 1


def _rational(value: Fraction | int) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise UsageError(
            "A noise scale is an exact fraction, so that what is drawn is what is claimed.",
            remedy="Give a fractions.Fraction or an int, not a float.",
        )
    return Fraction(value)


def _outside(smallest: Fraction) -> UsageError:
    return UsageError(
        f"The noise scale lies outside {smallest} to 2^40 lattice units.",
        remedy="Choose another lattice (units per count) or another budget.",
    )


LARGEST_DENOMINATOR = (1 << 47) - 1
"""What a coin of the kernels can hold: `_chance` needs d < 2^47."""


def bernoulli_exp(
    numerators: NDArray[np.int64], denominators: NDArray[np.int64] | int, stream: BitStream
) -> NDArray[np.bool_]:
    """One coin for each pair, true with probability exactly exp(-numerator/denominator)."""
    n, d = (_integers(part) for part in (numerators, denominators))
    if n.size and n.min() < 0:
        raise UsageError("A chance exp(-n/d) needs n of zero or more.")
    if d.size and (d.min() < 1 or d.max() > LARGEST_DENOMINATOR):
        raise UsageError(
            "A chance exp(-n/d) needs d between 1 and 2^47 - 1.",
            remedy="Cancel the fraction, or round it on a coarser lattice.",
        )
    try:
        n, d = np.broadcast_arrays(n, d)
    except ValueError:
        raise UsageError("Numerators and denominators have different shapes.") from None
    whole, rest = (part.ravel().astype(np.uint64) for part in np.divmod(n, d))
    flat = d.ravel().astype(np.uint64)
    out = np.empty(n.size, np.bool_)

    def step(digits: Digits, at: NDArray[np.int64], done: int) -> int:
        return int(fill_coins(out, done, whole, rest, flat, digits, at))

    stream.consume(out.size, step)
    return out.reshape(n.shape)


def _integers(values: NDArray[np.int64] | int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise UsageError("Exact chances are made of integers.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise UsageError("A chance exp(-n/d) needs n below 2^63.")
    return array.astype(np.int64)


def draw(size: int, scale: Fraction, stream: BitStream, *, gaussian: bool) -> NDArray[np.int64]:
    """Integers of a representable scale; the Gaussian is the Laplace with a step of rejection.

    Memory is the result and one block of digits, however many draws are asked for.
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise UsageError("The number of draws is a whole number, zero or more.")
    out = np.empty(int(size), np.int64)
    p, q = np.uint64(scale.numerator), np.uint64(scale.denominator)
    width, limit = uniform_plan(scale.numerator)

    def step(digits: Digits, at: NDArray[np.int64], done: int) -> int:
        return int(fill_noise(out, done, gaussian, p, q, width, np.uint64(limit), digits, at))

    stream.consume(out.size, step)
    return out


def discrete_gaussian(size: int, sigma2: Fraction | int, stream: BitStream) -> NDArray[np.int64]:
    """`size` exact draws with parameter `representable_sigma2(sigma2)`, at least `sigma2`."""
    return draw(size, representable_sigma(sigma2), stream, gaussian=True)


def discrete_laplace(size: int, scale: Fraction | int, stream: BitStream) -> NDArray[np.int64]:
    """`size` exact draws of scale `representable_scale(scale)`, which is at least `scale`."""
    return draw(size, representable_scale(scale), stream, gaussian=False)


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
