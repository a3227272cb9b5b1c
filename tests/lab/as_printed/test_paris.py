"""The Paris pipeline as printed: its constants, its noise-free limit, its broken parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.geography.cover import minimum_cover
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato_lab.as_printed.baselines import (
    PublishedChapter,
    PublishedGaussian,
    PublishedLaplace,
    Route,
)
from sfumato_lab.as_printed.paris import (
    CHOICE_NOT_CHARGED,
    CoverForm,
    Ground,
    Noise,
    OpenedCounts,
    PublishedParis,
    cover_counts,
)


def test_both_readings_of_the_budget_give_the_known_sigma_and_threshold() -> None:
    written, other = PublishedParis(0.3), PublishedParis(0.3, share_of_series=1.0)
    assert written.series_sigma(30, 168) == pytest.approx(393.394, abs=1e-3)
    assert written.threshold(30, 168) == pytest.approx(509897.2, abs=0.1)
    assert other.series_sigma(30, 168) == pytest.approx(196.697, abs=1e-3)
    assert other.threshold(30, 168) == pytest.approx(254948.6, abs=0.1)
    literal = PublishedParis(0.3, line_4=True)
    assert literal.series_sigma(30, 168) == pytest.approx(196.697, abs=1e-3)
    assert CHOICE_NOT_CHARGED in literal.caveats
    assert CHOICE_NOT_CHARGED not in written.caveats


def test_fpa_pays_for_the_coefficients_that_it_keeps() -> None:
    # Laplace noise of scale sqrt(k) sqrt(l) / (epsilon / 2), a standard deviation of sqrt 2 times.
    assert PublishedParis(0.3, noise=Noise.FPA, kept=20).series_sigma(30, 168) == pytest.approx(
        np.sqrt(2 * 20 * 30) / 0.15
    )


def test_the_chapters_constants() -> None:
    assert PublishedGaussian(0.3).sigma(30) == pytest.approx(94.3239, abs=1e-4)
    assert PublishedChapter(0.3).totals_sigma(30) == pytest.approx(193.485, abs=1e-3)


@pytest.mark.parametrize("improved", [True, False])
@pytest.mark.parametrize("noise", list(Noise))
def test_without_noise_the_zones_come_back(
    ground: Ground, counts: OpenedCounts, noise: Noise, improved: bool
) -> None:
    scheme = PublishedParis(1e9, noise=noise, improved=improved, kept=168)
    got = scheme.run(counts, ground, np.random.default_rng(0))
    truth = ground.overlay.shares.T @ counts.sampled
    # One visit per user rounds each tower's share; smoothing bends the curve at hour four.
    np.testing.assert_allclose(got, truth, rtol=0.25 if improved else 1e-3, atol=1)


@pytest.mark.parametrize("route", list(Route))
def test_every_route_of_the_laplace_baseline_is_the_overlay_without_noise(
    ground: Ground, counts: OpenedCounts, route: Route
) -> None:
    got = PublishedLaplace(1e9, route).run(counts, ground, np.random.default_rng(0))
    np.testing.assert_allclose(got, ground.overlay.shares.T @ counts.sampled, atol=1e-3)


def test_the_chapters_baseline_without_noise_is_the_overlay(
    ground: Ground, counts: OpenedCounts
) -> None:
    got = PublishedGaussian(1e9).run(counts, ground, np.random.default_rng(0))
    np.testing.assert_allclose(got, ground.overlay.shares.T @ counts.sampled, atol=1e-3)


@pytest.mark.parametrize("kept", [168, None])
def test_the_chapter_without_noise_keeps_the_totals(
    ground: Ground, counts: OpenedCounts, kept: int | None
) -> None:
    scheme = PublishedChapter(1e9, kept=kept, improved=False)
    got = scheme.run(counts, ground, np.random.default_rng(0))
    np.testing.assert_allclose(got, ground.overlay.shares.T @ counts.sampled, rtol=1e-3)


def test_the_printed_cover_correction_moves_one_visit_by_four(ground: Ground) -> None:
    # Four towers lie to 90 % in zone 0 and to 5 % in two outer zones each; two lie inside it.
    shares = np.zeros((6, 9))
    shares[:4, 0] = 0.9
    for tower in range(4):
        shares[tower, [1 + 2 * tower, 2 + 2 * tower]] = 0.05
    shares[4:, 0] = 1.0
    overlay = Overlay(
        ground.overlay.place_ids,
        np.array([f"z{i}" for i in range(9)]),
        exact_shares(sp.csr_array(shares)),
    )
    toy = replace(ground, overlay=overlay, cover=minimum_cover(overlay))
    inner_visit = np.eye(6, dtype=np.int64)[:, 4:5]
    assert toy.cover.size == 5
    assert np.abs(cover_counts(inner_visit, toy, CoverForm.MEANT)).sum() == pytest.approx(1.0)
    printed = cover_counts(inner_visit, toy, CoverForm.PRINTED)
    assert np.abs(printed).sum() == pytest.approx(4.60)
    assert np.linalg.norm(printed) == pytest.approx(2.059, abs=1e-3)


def test_every_printed_form_says_what_it_does_not_guarantee() -> None:
    schemes = (
        PublishedParis(0.3),
        PublishedParis(0.3, noise=Noise.EFPA, cover=CoverForm.PRINTED),
        PublishedLaplace(0.3),
        PublishedGaussian(0.3),
        PublishedChapter(0.3),
    )
    assert all(scheme.caveats for scheme in schemes)
    assert len({scheme.name for scheme in schemes}) == len(schemes)
