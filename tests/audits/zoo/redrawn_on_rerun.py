"""Noise drawn afresh when a killed release is run again.

Whoever saw the first output (a mail, a copied folder) now has two, and averages them. The
budget was charged once and is spent twice: 2 epsilon, or sqrt(2) mu.

Corrected: noise is a function of the release key, so the second run gives the same numbers.
"""

import hashlib
from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, MuClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace

RUNS = 20_000
CLAIMED, SIGMA = 1.0, 8


def twice(sampler, scale, shift, *, redrawn):
    def draw(with_user, runs, seed):
        outputs = []
        for attempt in ("first", "second"):
            label = attempt if redrawn else "release"
            digest = hashlib.sha256(f"{seed}/{label}".encode()).digest()
            stream = SeededStream(int.from_bytes(digest[:8], "little"))
            outputs.append(shift * int(with_user) + sampler(runs, scale, stream))
        return np.column_stack(outputs).astype(float)

    return draw


def subjects(word, *, redrawn):
    laplace = twice(discrete_laplace, Fraction(1), 1, redrawn=redrawn)
    gaussian = twice(discrete_gaussian, Fraction(SIGMA**2), SIGMA, redrawn=redrawn)
    return (
        Subject(f"Laplace {word}", "count 0 and 1", (EpsilonClaim(CLAIMED),), laplace),
        Subject(
            f"Gaussian {word}", "a shift of sigma", (MuClaim(1.0, 0.021 / SIGMA**2),), gaussian
        ),
    )


BROKEN = subjects("redrawn on rerun", redrawn=True)
CORRECTED = subjects("from the release key", redrawn=False)
