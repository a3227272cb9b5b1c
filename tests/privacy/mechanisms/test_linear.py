"""Linear queries in fixed point: exact sums, brute-force sensitivities, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.errors import InputError, UsageError
from sfumato.model.counts import WEIGHT_UNITS, Counting, Counts, norms_digest
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.privacy.door import open_private, public_facts
from sfumato.privacy.mechanisms.linear import (
    apply_map,
    apply_weighted_map,
    event_norms,
    quantise_map,
    round_aggregate,
)
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)
UNITS = 1 << 8


def boxed(values: NDArray[np.int64], l1: float = 4.0, l2: float = 2.0) -> Private[Counts]:
    return Private(Counts(values, 1, l1, l2, Counting.VISITS, "towers"), "towers")


def shares(rng: np.random.Generator, zones: int, towers: int) -> NDArray[np.float64]:
    """Areas of towers in zones; every tower gives away at most itself."""
    area = rng.random((zones, towers)) * (rng.random((zones, towers)) < 0.5)
    return np.asarray(area / np.maximum(area.sum(axis=0), 1e-9) * rng.choice([1.0, 0.8], towers))


@quick
@given(st.integers(0, 1000))
def test_the_map_is_exact_and_keeps_the_mass_bound(seed: int) -> None:
    """A person with one visit in each of four slots moves the zones by at most sqrt(4)."""
    rng = np.random.default_rng(seed)
    zones, towers, slots = 5, 7, 6
    whole = quantise_map(csr_array(shares(rng, zones, towers)), UNITS)
    crowd = rng.integers(0, 50, (towers, slots))
    person = np.zeros_like(crowd)
    person[rng.integers(0, towers, 4), rng.choice(slots, 4, replace=False)] = 1
    without = open_private(apply_map(boxed(crowd), whole, UNITS, "zones", mass_per_slot=True))
    with_ = open_private(
        apply_map(boxed(crowd + person), whole, UNITS, "zones", mass_per_slot=True)
    )
    assert np.array_equal(without.values, whole.toarray() @ crowd)
    change = (with_.values - without.values).astype(float)
    assert np.linalg.norm(change) <= without.l2 == 2.0 * UNITS
    assert np.abs(change).sum() <= without.l1 == 4.0 * UNITS
    assert without.units_per_count == UNITS


def test_gathering_a_vector_can_raise_its_norm() -> None:
    """Totals clipped to L2 2 over four places: gathered into one cell they move by 4."""
    whole = quantise_map(csr_array(np.ones((1, 4))), 1)
    facts = public_facts(apply_map(boxed(np.zeros(4, np.int64), l1=4.0, l2=2.0), whole, 1, "all"))
    assert facts.l2 == 4.0
    alone = quantise_map(csr_array(np.eye(4)), 1)
    facts = public_facts(apply_map(boxed(np.zeros(4, np.int64), l1=4.0, l2=2.0), alone, 1, "same"))
    assert facts.l2 == 2.0


@quick
@given(st.integers(0, 1000), st.booleans())
def test_without_a_mass_bound_the_norm_of_the_map_is_paid(seed: int, gathers: bool) -> None:
    """Any change of norm at most 2, spread as it likes."""
    rng = np.random.default_rng(seed)
    zones, towers, slots = (1 if gathers else 5), 7, 6
    whole = quantise_map(csr_array(shares(rng, zones, towers)), UNITS)
    move = rng.random((towers, slots)) * (rng.random((towers, slots)) < 0.3)
    move = np.floor(move / max(np.linalg.norm(move), 1e-9) * 2000).astype(np.int64)
    box = boxed(np.zeros((towers, slots), np.int64), l1=1e9, l2=2000.0)
    facts = public_facts(apply_map(box, whole, UNITS, "zones"))
    assert np.linalg.norm(whole.toarray() @ move) <= facts.l2


def test_a_vector_has_no_mass_per_slot() -> None:
    whole = quantise_map(csr_array(np.eye(4)), 1)
    with pytest.raises(UsageError, match="mass per slot"):
        apply_map(boxed(np.zeros(4, np.int64)), whole, 1, "zones", mass_per_slot=True)


def test_rounding_down_never_gives_more_than_a_whole() -> None:
    thirds = csr_array(np.full((3, 2), 1 / 3))
    assert quantise_map(thirds, 256).toarray().tolist() == [[85, 85]] * 3
    almost = csr_array(np.array([[0.1 * 3], [0.7]]))
    assert quantise_map(almost, 1000).sum() <= 1000


@pytest.mark.parametrize("bad", [[[0.7], [0.4]], [[-0.1], [0.3]], [[math.nan], [0.1]]])
def test_maps_that_give_more_than_they_have(bad: list[list[float]]) -> None:
    with pytest.raises(InputError):
        quantise_map(csr_array(np.array(bad)), 100)


def test_maps_and_counts_must_be_about_the_same_places() -> None:
    whole = quantise_map(csr_array(np.eye(3)), 4)
    with pytest.raises(UsageError):
        apply_map(boxed(np.zeros((4, 2), np.int64)), whole, 4, "zones")
    with pytest.raises(InputError):
        apply_map(boxed(np.zeros((3, 2), np.int64)), whole, 3, "zones")


def test_what_could_wrap_is_cut_because_a_refusal_would_tell() -> None:
    """Two neighbours on either side of the limit: both get an answer, no further apart."""
    whole = quantise_map(csr_array(np.ones((1, 2)) / 2), 1 << 20)
    below, above = (
        open_private(apply_map(boxed(np.full((2, 2), values)), whole, 1 << 20, "zones")).values
        for values in ((1 << 42) - 1, (1 << 42) + 1)
    )
    assert (below < above).all()
    assert (above == 1 << 62).all()
    assert ((above - below) <= 2 * (1 << 20)).all()


def test_empty_counts() -> None:
    whole = quantise_map(csr_array((0, 3)), 4)
    mapped = open_private(apply_map(boxed(np.zeros((3, 2), np.int64)), whole, 4, "zones"))
    assert mapped.shape == (0, 2)


@quick
@given(st.integers(0, 1000))
def test_weighted_maps_keep_the_bound_of_the_norms(seed: int) -> None:
    """Scale a person's visits as a source does; the query then moves by at most C."""
    rng = np.random.default_rng(seed)
    zones, towers, slots, limit = 5, 7, 6, 1.5
    area = csr_array(shares(rng, zones, towers))
    weights = rng.uniform(0.05, 3.0, (zones, slots))
    norms = event_norms(area, weights, UNITS)
    visits = rng.random((towers, slots)) < 0.4
    length = math.sqrt(float(((norms * visits).sum(axis=0) ** 2).sum()))
    weight = WEIGHT_UNITS
    if length > limit * NORM_UNITS:
        weight = math.floor(WEIGHT_UNITS * limit * NORM_UNITS / length)
    crowd = rng.integers(0, 50, (towers, slots)) * WEIGHT_UNITS

    def query(values: NDArray[np.int64]) -> Counts:
        l2, tag = limit * WEIGHT_UNITS, norms_digest(norms)
        box = Private(Counts(values, WEIGHT_UNITS, 1e9, l2, Counting.VISITS, "t", tag), "t")
        return open_private(apply_weighted_map(box, area, weights, norms, UNITS, "zones"))

    without, with_ = query(crowd), query(crowd + weight * visits)
    change = (with_.values - without.values).astype(float)
    assert np.linalg.norm(change) <= without.l2 == limit * WEIGHT_UNITS * UNITS
    assert np.abs(change).sum() <= without.l1
    assert without.units_per_count == WEIGHT_UNITS * UNITS
    truth = weights * (area.toarray() @ (crowd / WEIGHT_UNITS))
    assert np.abs(without.values / without.units_per_count - truth).max() <= 50 * towers / UNITS


def test_norms_of_another_map_are_refused() -> None:
    area = csr_array(np.eye(3))
    weights = np.ones((3, 2))
    norms = event_norms(area, weights, UNITS)
    plain = boxed(np.zeros((3, 2), np.int64))
    box = plain.map(lambda counts: replace(counts, norms=norms_digest(norms)))
    apply_weighted_map(box, area, weights, norms, UNITS, "zones")
    with pytest.raises(InputError, match="not those of this map"):
        apply_weighted_map(box, area, 1.1 * weights, norms, UNITS, "zones")
    with pytest.raises(InputError):
        apply_weighted_map(box, area, -weights, norms, UNITS, "zones")
    with pytest.raises(UsageError, match="not weighted for these"):
        apply_weighted_map(plain, area, weights, norms, UNITS, "zones")
    with pytest.raises(UsageError, match="not weighted for these"):
        apply_weighted_map(box, area, weights, norms + 1, UNITS, "zones")


def test_counts_weighted_for_norms_pass_in_no_other_way() -> None:
    """Their stated sensitivity is that of the mapped counts; they themselves have none."""
    norms = np.ones((3, 2), np.int64)
    box = boxed(np.zeros((3, 2), np.int64)).map(
        lambda counts: replace(counts, norms=norms_digest(norms))
    )
    wall = Wall.seeded(1)
    with pytest.raises(UsageError, match="no bound"):
        wall.gaussian(box, sigma2=100, label="a")
    with pytest.raises(UsageError, match="no bound"):
        wall.laplace(box, scale=100, label="b")
    with pytest.raises(UsageError, match="the map of the norms"):
        apply_map(box, quantise_map(csr_array(np.eye(3)), 4), 4, "zones", mass_per_slot=True)


def test_a_pair_that_is_listed_twice_is_refused() -> None:
    twice = csr_array((np.array([0.5, 0.5]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    with pytest.raises(UsageError, match="twice"):
        event_norms(twice, np.ones((1, 1)), UNITS)


def test_rounding_an_aggregate_is_paid_for() -> None:
    values = np.array([0.24, 1.51, -0.3])
    found = open_private(
        round_aggregate(
            Private(values, "means"),
            units=16,
            l1=3.0,
            l2=1.0,
            touched=4,
            counting=Counting.PEOPLE,
            what="means",
        )
    )
    assert found.values.tolist() == [3, 24, -5]
    assert (found.l1, found.l2) == (52.0, 18.0)


@quick
@given(st.integers(0, 1000))
def test_the_rounding_that_was_paid_covers_what_happens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = rng.uniform(-5, 5, 4)
    after = before + rng.uniform(-1, 1, 4)
    l1, l2 = np.abs(after - before).sum(), np.linalg.norm(after - before)
    one, other = (
        open_private(
            round_aggregate(
                Private(values, "x"),
                units=4,
                l1=float(l1),
                l2=float(l2),
                touched=4,
                counting=Counting.PEOPLE,
                what="x",
            )
        )
        for values in (before, after)
    )
    change = (one.values - other.values).astype(float)
    assert np.linalg.norm(change) <= one.l2
    assert np.abs(change).sum() <= one.l1


def test_aggregates_beyond_the_lattice_are_cut_because_a_refusal_would_tell() -> None:
    """Also with a lattice that is no power of two: its scaling would round a second time."""

    def rounded(value: float, units: int = 4) -> int:
        box = round_aggregate(
            Private(np.array([value]), "x"),
            units=units,
            l1=1.0,
            l2=1.0,
            touched=1,
            counting=Counting.PEOPLE,
            what="x",
        )
        return int(open_private(box).values[0])

    assert rounded(math.inf) == rounded(1e300) == rounded(2.0**50) == 1 << 52
    assert rounded(-math.inf) == -(1 << 52)
    assert rounded(2.0**50 - 1) == (1 << 52) - 4
    with pytest.raises(UsageError, match="power of two"):
        rounded(1.0, units=3)
