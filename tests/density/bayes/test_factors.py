"""The posterior in factors: what readers get of the draws, against the draws themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.density.bayes.test_scheme import Small

from sfumato.density.folder import write_posterior
from sfumato.density.posterior import Posterior, Taken
from sfumato.density.scheme import Density
from sfumato.published.posterior import MOST_FIELDS, Factors, unpacked


@pytest.fixture(scope="module")
def made() -> Density:
    return Small().run(1.0, 3)


def stated(density: Density, alone: bool = False) -> tuple[Posterior, Factors]:
    """`alone`: the draws as they are, without what only sums show."""
    posterior = density.posterior
    assert posterior is not None
    if alone:
        posterior = Posterior(posterior.draws, posterior.chance, posterior.piece)
    counts = np.asarray(density.values, dtype=np.float64)
    return posterior, unpacked(posterior.factors(counts, 0.9), counts)


def ranges(
    shape: tuple[int, int], number: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    places = (rng.random((number, shape[0])) < rng.uniform(0.05, 0.6, (number, 1))).astype(float)
    places[:, 0] = 1.0
    first, long = rng.integers(0, shape[1] - 48, number), rng.integers(1, 49, number)
    slot = np.arange(shape[1])
    return places, ((slot >= first[:, None]) & (slot < (first + long)[:, None])).astype(float)


def test_sums_have_the_spread_of_the_full_draws(made: Density) -> None:
    posterior, factors = stated(made, alone=True)
    places, slots = ranges(made.values.shape, 200, 1)
    full = np.array(
        [
            posterior.total(0.9, np.outer(a, b)).ends[1]
            - posterior.total(0.9, np.outer(a, b)).value
            for a, b in zip(places, slots, strict=True)
        ]
    )
    value, _, upper = factors.estimates(places, slots)
    ratio = (upper - value) / full
    assert abs(np.median(ratio) - 1) < 0.03
    assert np.quantile(np.abs(ratio - 1), 0.9) < 0.12


def test_single_cells_and_the_total_agree_with_what_is_printed_beside(made: Density) -> None:
    posterior, factors = stated(made)
    total, whole = posterior.total(0.9), factors.estimate(*(np.ones(n) for n in made.values.shape))
    assert whole.value == pytest.approx(float(made.values.sum()))
    assert whole.ends == pytest.approx(total.ends, rel=0.005)
    assert made.upper is not None
    for place in (0, 7, 20):
        cells = np.eye(made.values.shape[1])
        _, _, upper = factors.estimates(np.eye(made.values.shape[0])[place], cells)
        wide = made.upper[place] - made.values[place]
        assert abs(np.median((upper - made.values[place]) / np.maximum(wide, 0.5)) - 1) < 0.25


def test_the_parts_are_few_and_come_in_opposite_pairs(made: Density) -> None:
    _, factors = stated(made)
    assert factors.fields <= MOST_FIELDS
    assert factors.pairs == 32
    draws, chance = factors.draws(np.ones(made.values.shape[0]), np.ones(made.values.shape[1]))
    assert draws.shape == (64, 1)
    np.testing.assert_allclose(draws[:32] + draws[32:], 2 * made.values.sum())
    assert chance.shape == (1,)


def test_totals_of_places_are_said_to_be_known_as_well_as_the_posterior_has_them(
    made: Density,
) -> None:
    """Their variances are those of questions; the figure, drawn by hand, holds so many visits."""
    _, factors = stated(made)
    rows, slots = made.values.shape
    totals, variance = factors.of_places()
    every = factors.variances(np.eye(rows), np.ones(slots))
    np.testing.assert_allclose(variance, every, rtol=1e-4)
    np.testing.assert_allclose(totals, made.values.sum(axis=1))
    rng = np.random.default_rng(4)
    which = rng.choice(rows, 200_000, p=totals / totals.sum())
    off = np.sqrt(variance[which]) / totals[which] * rng.standard_normal(which.size)
    for probability in (0.5, 0.9):
        known = factors.places_known(probability)
        assert known == pytest.approx(np.quantile(np.abs(off), probability), rel=0.02)


def test_what_is_said_of_places_hardly_changes_with_the_noise_and_holds(tmp_path: Path) -> None:
    """Three draws of the same data: about the same sentence, and errors that agree with it."""
    small, within, known = Small(), [], []
    truth = np.asarray(small.truth.sum(axis=1))
    for draw in range(3):
        density = small.run(1.0, 40 + draw)
        _, factors = stated(density)
        known.append(factors.places_known())
        off = np.abs(np.asarray(density.values, float).sum(axis=1) - truth)
        within.append(truth[off <= known[-1] * truth].sum() / truth.sum())
    assert max(known) < 1.3 * min(known)
    assert 0.75 <= np.mean(within) <= 1.0
    (said,) = write_posterior(
        tmp_path, density.values, density.posterior, density.coverage, "zones"
    )
    assert said == (
        f"Totals of zones are known to about {known[-1]:.0%} (90 %; each counts by its size)."
    ).replace("%", " %", 1)
    assert write_posterior(tmp_path, density.values, density.posterior, None, "zones") == ()


def test_the_same_draws_give_the_same_arrays(made: Density) -> None:
    posterior = made.posterior
    assert posterior is not None
    counts = np.asarray(made.values, dtype=np.float64)
    first, again = posterior.factors(counts, 0.9), posterior.factors(counts, 0.9)
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_questions_of_one_release_share_their_errors(made: Density) -> None:
    """A part and its whole: what they share cancels in their ratio, chance of common cells too."""
    _, factors = stated(made)
    rows, slots = made.values.shape
    places = np.ones((2, rows))
    places[1, rows // 2 :] = 0.0
    drawn = factors.samples(places, np.ones(slots))
    value = factors.values(places, np.ones(slots))
    np.testing.assert_allclose(drawn.mean(axis=0), value, rtol=0.01)
    ratio, alone = drawn[:, 1] / drawn[:, 0], drawn / drawn.mean(axis=0)
    assert ratio.std() / ratio.mean() < 0.7 * np.hypot(*alone.std(axis=0))
    common = factors.common_chance(places, np.ones(slots))
    assert common[0, 1] == pytest.approx(common[1, 1])
    apart = np.stack((places[1], 1 - places[1]))
    assert factors.common_chance(apart, np.ones(slots))[0, 1] == 0.0
    mixed = factors.common_chance(places, np.stack((np.ones(slots), np.eye(slots)[3])))
    assert mixed[0, 1] == pytest.approx(factors.chance[: rows // 2, 3].sum())


def test_the_last_slots_have_their_part_of_it(made: Density) -> None:
    _, factors = stated(made)
    rows, slots = made.values.shape
    late = np.zeros(slots)
    late[-5:] = 1.0
    part, whole = (
        f.estimate(np.ones(rows), w) for f, w in ((factors.last(5), np.ones(5)), (factors, late))
    )
    assert (part.value, *part.ends) == pytest.approx((whole.value, *whole.ends))


def test_other_arrays_are_refused(made: Density) -> None:
    posterior = made.posterior
    assert posterior is not None
    counts = np.asarray(made.values, dtype=np.float64)
    arrays = posterior.factors(counts, 0.9)
    with pytest.raises(ValueError, match="other places"):
        unpacked(arrays, counts[1:])
    with pytest.raises(ValueError, match="missing"):
        unpacked({k: v for k, v in arrays.items() if k != "rhythms"}, counts)
    with pytest.raises(ValueError, match="no numbers"):
        unpacked(arrays | {"level": arrays["level"] * np.nan}, counts)


def test_zones_of_one_tower_share_its_noise_and_quarters_what_the_bound_took(
    made: Density,
) -> None:
    """Neighbours are off together; far apart they are not, and single places hardly change."""
    posterior, factors = stated(made)
    assert posterior.sharing is not None
    assert posterior.taken is not None
    _, alone = stated(made, alone=True)
    shared = np.asarray((posterior.sharing @ posterior.sharing.T).todense())
    shared /= np.sqrt(np.outer(np.diag(shared), np.diag(shared)))
    one, two = np.nonzero(np.triu(shared > 0.5, 1))
    assert one.size

    def together(found: Factors) -> float:
        return float(np.corrcoef(found.places[:, one].ravel(), found.places[:, two].ravel())[0, 1])

    assert together(alone) < 0.2 < 0.4 < together(factors)
    ratio = factors.places.std(axis=0) / alone.places.std(axis=0)
    assert 0.8 < np.median(ratio) < 1.5


def test_what_was_not_taken_is_not_uneven() -> None:
    rng = np.random.default_rng(1)
    where, hour = rng.uniform(0, 5_000, (40, 2)), np.arange(48) % 24
    nothing = Taken(0.0, 0.0, 1e5, where, hour)
    assert not nothing.in_space(rng, 8).any()
    assert not nothing.in_time(rng, 8).any()
    few, many = (Taken(0.4, 0.2, people, where, hour) for people in (500.0, 200_000.0))
    assert few.in_space(rng, 32).std() > 10 * many.in_space(rng, 32).std()
    daily = many.in_time(rng, 8)
    np.testing.assert_array_equal(daily[:, :24], daily[:, 24:])
