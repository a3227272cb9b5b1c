"""The exact discrete Gaussian: P(k) proportional to exp(-k^2 / (2 s^2)) on the integers.

Method: rejection from the discrete Laplace (Canonne, Kamath & Steinke 2020, algorithm 3), with
the Laplace scale equal to the standard deviation parameter s = p/q itself. For a Laplace draw k
with y = |k|,

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

s^2 must be the square of a rational on the lattice of `scale.py`; any other is rounded up to
the next such square, by a factor below 1 + 2^-41, and `representable_sigma2` says which.

Privacy: for an integer query of L2 sensitivity D, D^2 / (2 s^2)-zCDP (Canonne, Kamath & Steinke
2020), with the s that is really drawn.

Range: |k| <= s (2^16 + 1) < 2^57, as for the Laplace, so no draw can wrap. For everyday use
P(|k| >= s x) <= 2 exp(-x^2 / 2), because the discrete Gaussian is sub-Gaussian with
parameter s; its variance is at most s^2.

The time of a draw depends on its value; who can time single draws learns about the noise.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.noise.draw import draw
from sfumato.privacy.noise.scale import representable_sigma
from sfumato.privacy.noise.stream import BitStream


def discrete_gaussian(size: int, sigma2: Fraction | int, stream: BitStream) -> NDArray[np.int64]:
    """`size` exact draws with parameter `representable_sigma2(sigma2)`, at least `sigma2`."""
    return draw(size, representable_sigma(sigma2), stream, gaussian=True)
