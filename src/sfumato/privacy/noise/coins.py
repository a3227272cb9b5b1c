"""Exact coins with chance exp(-n/d) for arrays of integers n and d.

With n = a d + r, 0 <= r < d, the coin is a + 1 independent coins that must all succeed: exp(-1)
a times, exp(-r/d) once (Canonne, Kamath & Steinke 2020, algorithm 1). The first that fails ends
it, so the expected number of digits is below 8 however large n/d is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise.kernels import fill_coins
from sfumato.privacy.noise.stream import BitStream, Digits

LARGEST_DENOMINATOR = (1 << 47) - 1


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
