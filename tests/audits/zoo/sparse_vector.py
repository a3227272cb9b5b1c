"""Three sparse vectors that are not, each with a correct one beside it.

* Without query noise: once the threshold noise is fixed, two queries that trade places can
  produce an output on one input that is impossible on the other.
* Cut-off ignored: noise for one positive answer, but the run goes on after it.
* Sensitivity "fixed" to 1: in the threshold scheme of Chen et al. the sensitivity is
  overstated (2 for 1) and the scales are halved; the two errors cancel, and repairing only
  the first doubles the loss of every segment.

Corrected: threshold noise D/eT, query noise 2cD/eQ, stop after c positives (Lyu, Su & Li
2017; loss eT + eQ).
"""

import numpy as np

from sfumato.audits.run import EpsilonClaim, Subject

RUNS = 100_000
CLAIMED = 1.0


def drawing(without_user, with_user, threshold_scale, query_scale, stop_after):
    """Answers (1 above, 0 below, -1 not asked any more) to queries given relative to T."""

    def draw(is_with, runs, seed):
        rng = np.random.default_rng(seed)
        queries = np.array(with_user if is_with else without_user, dtype=float)
        bar = rng.laplace(0, threshold_scale, (runs, 1))
        noise = rng.laplace(0, 1, (runs, queries.size)) * query_scale
        above = queries + noise >= bar
        asked = np.cumsum(above, axis=1) - above < stop_after
        return np.where(asked, above, -1).astype(float)

    return draw


def subject(name, pair, *how):
    return Subject(name, pair, (EpsilonClaim(CLAIMED),), drawing(*how))


SWAP = ([0, 1], [1, 0])
MANY = ([0] * 20 + [1] * 20, [1] * 20 + [0] * 20)
LATE = ([-1] * 10 + [1], [0] * 10 + [0])
EVERY = 10**6

BROKEN = (
    subject("SVT without query noise", "two queries trade places", *SWAP, 1 / CLAIMED, 0.0, 1),
    subject("SVT, cut-off ignored", "20 queries up, 20 down", *MANY, 2.0, 4.0, EVERY),
    subject("SVT, Δ fixed to 1", "ten queries up, the last down", *LATE, 1.0, 2.0, 1),
)
CORRECTED = (
    subject("SVT with query noise", "two queries trade places", *SWAP, 2.0, 4.0, 1),
    subject("SVT that stops", "20 queries up, 20 down", *MANY, 2.0, 4.0, 1),
    subject("SVT, both scales doubled", "ten queries up, the last down", *LATE, 2.0, 4.0, 1),
)
