"""Which scales the samplers can hold exactly, and the nearest such scale above any other.

A scale is a rational p/q between 1/4 and 2^40 with p < 2^46. One with a longer numerator is
rounded *up* to a multiple of a power of two with a numerator of at most 44 bits: more noise,
never less, by a factor below 1 + 2^-42. The rounded value is what is drawn, so it is the
value to charge and to publish.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from sfumato.model.errors import UsageError
from sfumato.privacy.noise.kernels import DIGIT_BITS

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
