"""Every animal of the zoo is caught, and its corrected counterpart is left alone."""

import math

import numpy as np
import pytest

from sfumato.audits.bounds import exact_delta, exact_epsilon
from sfumato.audits.run import audit

pytestmark = pytest.mark.privacy

CONFIDENCE = 0.9999


@pytest.mark.parametrize("seed", [1, 2])
def test_broken_is_caught(broken, seed):
    subject, runs = broken
    result = audit([subject], runs=runs, confidence=CONFIDENCE, seed=seed)
    assert len(result.violations) == len(subject.claims), result.rows


@pytest.mark.parametrize("seed", [1, 2])
def test_corrected_is_not_accused(corrected, seed):
    subject, runs = corrected
    result = audit([subject], runs=runs, confidence=CONFIDENCE, seed=seed)
    assert not result.violations, result.rows


def test_broken_selections_by_their_exact_probabilities(exact_broken):
    p, q, claim = exact_broken
    assert exact_epsilon(p, q) > 2 * claim
    assert exact_delta(p, q, claim) > 0


def test_corrected_selections_by_their_exact_probabilities(exact_corrected):
    p, q, claim = exact_corrected
    assert exact_epsilon(p, q) <= claim


@pytest.mark.parametrize("visits", [1, 30])
def test_the_printed_cover_correction_moves_the_series_by_more_than_root_l(zoo, visits):
    """With Gaussian noise the slack of the printed variance hides what the sensitivity shows.

    One user, `visits` slots at a tower inside the zone: each slot moves by (1, -.9, -.9, -.9,
    -.9), 2.06 in L2 where 1 was claimed; the corrected form by 1.
    """
    module = zoo["cover_correction"]

    def moved(counts_of):
        inside = np.eye(module.OTHERS.size, dtype=int)[5]
        step = (counts_of(module.OTHERS + inside) - counts_of(module.OTHERS)) / module.UNITS
        return np.linalg.norm(np.tile(step, visits))

    assert moved(module.as_printed) == pytest.approx(math.sqrt(4.24 * visits))
    assert moved(module.as_printed) > 2 * math.sqrt(visits)
    assert moved(module.intended) == pytest.approx(math.sqrt(visits))
