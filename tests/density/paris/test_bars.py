"""What is asked of the corrected release, on a town that it was not tuned on."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.density.paris import Paris
from sfumato.privacy.wall import Wall
from sfumato.utility.density import mean_relative_error, pearson
from sfumato_lab.as_printed.paris import PublishedParis
from sfumato_lab.studies.paris.setup import Stage

DRAWS = 3


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.5, 1.0])
def test_it_is_at_least_as_good_as_the_published_calibration(
    epsilon: float, held_out: Stage
) -> None:
    """Mean relative error and correlation, the published scheme at its own settings."""
    facts, printed = held_out.facts(epsilon, 2e-6), PublishedParis(epsilon)
    ours, theirs = [], []
    for draw in range(DRAWS):
        density = Paris().run(held_out.source, Wall.seeded(draw), facts)
        ours.append(np.asarray(density.values))
        rng = np.random.default_rng([1, draw])
        theirs.append(printed.run(held_out.opened(30), held_out.ground, rng))
    truth = held_out.truth
    for metric, sign in ((mean_relative_error, 1.0), (pearson, -1.0)):
        own, other = (np.mean([metric(truth, t).mean() for t in ts]) for ts in (ours, theirs))
        assert sign * own <= sign * other
