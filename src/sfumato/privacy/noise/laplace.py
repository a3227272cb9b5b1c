"""The exact discrete Laplace: P(k) proportional to exp(-|k| / t) on the integers.

Method (Canonne, Kamath & Steinke 2020, algorithm 2). Let t = p/q.

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

The time of a draw depends on its value; who can time single draws learns about the noise.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.noise.draw import draw
from sfumato.privacy.noise.scale import representable_scale
from sfumato.privacy.noise.stream import BitStream


def discrete_laplace(size: int, scale: Fraction | int, stream: BitStream) -> NDArray[np.int64]:
    """`size` exact draws of scale `representable_scale(scale)`, which is at least `scale`."""
    return draw(size, representable_scale(scale), stream, gaussian=False)
