"""The loop between a stream and the compiled samplers, shared by both laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise.kernels import fill_noise
from sfumato.privacy.noise.scale import uniform_plan
from sfumato.privacy.noise.stream import BitStream, Digits


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
