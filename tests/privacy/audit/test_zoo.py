"""Every animal of the zoo is caught, and its corrected counterpart is left alone."""

import pytest

from sfumato.privacy.audit.exact import exact_delta, exact_epsilon
from sfumato.privacy.audit.run import audit

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
