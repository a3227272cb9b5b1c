"""No mechanism of the wall loses more than it claims, and the audit would see it if one did."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato.privacy.mechanisms as wall_mechanisms
from sfumato.audits.bounds import exact_epsilon
from sfumato.audits.mechanisms import mechanism_subjects
from sfumato.audits.pipeline import release_key
from sfumato.audits.run import Subject, audit, claims_of
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy

SEEDS = range(20)
FAMILY_WISE = 0.999
AUDITED = {
    "measure_gaussian": "discrete Gaussian",
    "measure_laplace": "discrete Laplace",
    "exponential_choice": "exponential mechanism",
    "exponential_choices": "exponential mechanism in rows",
    "noisy_max": "report noisy max",
    "SparseVector": "sparse vector",
    "NoisyDistances": "noisy distances",
}


LOCATIONS = {"measure_planar", "measure_plane_gaussian", "measure_predictive"}
"""Noise on locations is audited exactly, along its law: tests/audits/test_traces.py."""


def test_every_mechanism_is_among_the_audited():
    assert set(wall_mechanisms.__all__) == set(AUDITED) | LOCATIONS
    assert set(AUDITED.values()) < {subject.name for subject in mechanism_subjects(1.0, 1e-6)}


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_no_mechanism_exceeds_its_claim(seed):
    """Short form, at an epsilon where few runs say much."""
    subjects = mechanism_subjects(4.0, 1e-6)
    result = audit(subjects, runs=250, confidence=1 - (1 - FAMILY_WISE) / len(SEEDS), seed=seed)
    assert not result.violations, result.violations


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_noise_on_arrays_is_measured_close_to_its_claim(epsilon):
    subjects = [s for s in mechanism_subjects(epsilon, 1e-6) if "discrete" in s.name]
    result = audit(subjects, runs=20_000, confidence=FAMILY_WISE, seed=7)
    assert not result.violations
    for row in result.rows:
        if row.if_normal is not None and "map" not in row.subject:
            assert row.measured > 0.7 * row.claim.value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_counts_that_understate_their_sensitivity_1_2_times_are_caught(kind, seed):
    """The real mechanisms, given a box that lies: one user moves 12, the box says 10."""

    def measure(wall, values):
        box = Private(Counts(values, 1, 10.0, 10.0, Counting.VISITS, "lie"), "lie")
        if kind == "gaussian":
            return wall.gaussian(box, sigma2=100, touched=1, label="x").values
        return wall.laplace(box, scale=Fraction(10), label="x").values

    def draw(with_user, runs, seed):
        values = np.full(runs, 12 * int(with_user), np.int64)
        return measure(Wall(Tab(), release_key(seed, 0)), values)

    tab = Tab()
    measure(Wall(tab, release_key(0, 0)), np.zeros(1, np.int64))
    claims = claims_of(tab.charged.values(), 1e-6 if kind == "gaussian" else 0.0)[-1:]
    result = audit([Subject(kind, "12 for 10", claims, draw)], runs=30_000, seed=seed)
    assert result.violations, result.rows


def test_the_exponential_mechanism_has_the_exact_law_that_its_claim_is_about():
    """20 cost units of range at softness 5: log 4 e at most, by exact probabilities."""
    laws = [np.exp(-np.array(costs) / 5.0) for costs in ([5, 0, 9, 0], [5, 20, 9, 0])]
    assert exact_epsilon(*(law / law.sum() for law in laws)) <= 20 / 5
    assert exact_epsilon(*(law / law.sum() for law in laws)) > 0.8 * 4 * math.log(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_mechanism_exceeds_its_claim_with_many_runs(seed):
    subjects = mechanism_subjects(2.0, 1e-6)
    level = 1 - (1 - FAMILY_WISE) / len(SEEDS)
    result = audit(subjects, runs=4_000, confidence=level, seed=1_000 + seed)
    assert not result.violations, result.violations
