"""Nothing after the charge can fail: whatever integers the wall hands over are read to the end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.total.handed import FAMILIES, HANDS, LIKELY, MOST, handed

from sfumato.density.refine.levels import levels_of_day
from sfumato.density.refine.margins import round_keeping_totals
from sfumato.errors import UsageError
from sfumato.model import matrices
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.published.posterior import packed, unpacked
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import Consistency, consistent
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato.streams.schemes.comb.mixture import laplace_logs

pytestmark = pytest.mark.filterwarnings("error")
ALL = {**HANDS, **LIKELY}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(2))
def test_every_publisher_reads_what_the_wall_hands_over(family: str, seed: int) -> None:
    """Each once a seed, the hands in turn; `make fuzz` runs all of them with all of them."""
    hands = itertools.cycle(ALL)
    for _ in range(seed * 7):
        next(hands)
    for reading, hand in zip(FAMILIES[family](np.random.default_rng(seed)), hands, strict=False):
        reading.finite(ALL[hand], seed)


@pytest.mark.slow
@pytest.mark.parametrize("hand", ALL)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_publisher_under_every_hand(family: str, hand: str) -> None:
    for seed in range(3):
        for reading in FAMILIES[family](np.random.default_rng(seed)):
            reading.finite(ALL[hand], seed)


def _spiked(size: int, height: float, seed: int) -> np.ndarray:
    """The unit matrix and one direction of that height."""
    axis = np.random.default_rng(seed).standard_normal(size)
    return np.eye(size) + height * np.outer(axis, axis)


@pytest.mark.parametrize("power", range(0, 64, 4))
def test_what_is_the_unit_matrix_and_more_has_an_inverse_and_a_root(power: int) -> None:
    for seed in range(20):
        curvature = _spiked(12, 10.0**power, seed)
        within = matrices.inverse(curvature)
        assert np.linalg.eigvalsh(0.5 * (within + within.T))[-1] <= 1 + 1e-6
        lower = matrices.root(0.5 * (within + within.T))
        assert np.isfinite(lower).all()
        right = np.ones(12)
        found = matrices.solved(curvature, right)
        assert np.isfinite(found).all()
        assert np.linalg.norm(found) <= np.linalg.norm(right) * (1 + 1e-6)


@pytest.mark.parametrize("power", range(0, 40, 4))
def test_a_covariance_with_parts_of_its_own_has_a_factor(power: int) -> None:
    """One thing in common and little for each: singular to the last digit, never to the code."""
    alike = 10.0**power * np.ones((3, 40, 40))
    stack = alike + np.eye(40)
    firm = matrices.firm(stack, 1.0)
    for one in firm:
        assert np.linalg.cholesky(one).shape == (40, 40)
        assert matrices.factor(one) is not None or power > 12
    assert np.isfinite(np.linalg.inv(firm)).all()
    if power <= 4:
        assert firm is stack  # far from singular: as it is, to the last bit


def test_a_pivot_that_rounding_could_take_is_no_factor() -> None:
    """Whichever way a processor rounds: a matrix is taken only well above it."""
    near = np.array([[1.0, 1.0], [1.0, 1.0 + 4e-16]])
    assert matrices.factor(near) is None
    assert matrices.factor(near + 1e-10 * np.eye(2)) is not None
    assert matrices.factor(-np.eye(2)) is None


def test_times_of_day_known_beyond_rounding_have_errors() -> None:
    """Levels that stand 10^9 deviations above their noise: the curvature's one is lost in it."""
    hours = np.arange(24.0)
    for size in (1e3, 1e9, 1e15):
        noisy = size * (2 + np.sin(hours))
        found = levels_of_day(noisy, np.ones(24), hours, np.zeros(24))
        assert np.isfinite(found.draw(np.ones((2, 24)))).all()
        assert np.isfinite(found.mean).all()


@pytest.mark.parametrize("name", ["static-hybrid", "dynamic-hybrid"])
def test_a_window_of_one_slot_has_no_distances(name: str) -> None:
    """Nothing lies between its slots: a measurement of nothing is none, and was refused by the
    events after it was paid."""
    for unit in ("user-period", "w-event:5", "event"):
        calendar = Calendar.regular(6 if unit == "w-event:5" else 1, 6 if unit != "event" else 1)
        facts = StreamFacts(3, calendar, 1.0, 1e-6, Unit.parse(unit), 1000)
        try:
            stream_scheme(name).plan(facts)
        except UsageError:
            continue
        made = run_scheme(stream_scheme(name), facts, np.ones((facts.slots, 3), np.int64), 1)
        assert np.isfinite(made.values).all()


def test_what_stands_beyond_a_table_of_densities_is_read_at_its_end() -> None:
    """An index beyond 2^63 is any number to a processor, and was looked up in memory."""
    table = np.linspace(0.0, 1.0, 240)[None]
    found = laplace_logs(np.array([[1e30], [0.5]]), np.ones(1), table, 20.0)
    assert np.isfinite(found).all()
    assert found[0] > 1e20


def test_sums_beyond_64_bits_are_rounded_and_made_consistent() -> None:
    cells = np.array([float(MOST), -float(MOST), 3.2, float(MOST)])
    for how in Consistency:
        assert np.isfinite(consistent(cells, how, b"coins")).all()
    found = round_keeping_totals(np.full((3, 2), 2.0**63))
    assert (found > 0).all()


def test_one_place_of_any_doubt_is_known_to_something() -> None:
    """The root of one place's share lies at the very end of what is searched."""
    for doubt in (0.0, 1e-9, 1.0, 3e4, 1e9):
        none = np.zeros((4, 1))
        arrays = packed(
            np.zeros(4),
            np.full((4, 1), doubt),
            none,
            np.zeros((4, 1, 0), np.float32),
            np.zeros((1, 0)),
            np.zeros((1, 1)),
            np.ones(1),
            0.9,
        )
        known = unpacked(arrays, np.ones((1, 1))).places_known()
        assert np.isfinite(known)


def test_the_hands_are_the_wall_s() -> None:
    """What they hand over is of the wall's shape and within what it can be."""
    noise = np.arange(-3, 3).reshape(2, 3)
    rng = np.random.default_rng(1)
    for name, hand in ALL.items():
        found = hand(noise, rng)
        assert found.shape == noise.shape, name
        assert found.dtype == np.int64, name
        assert np.abs(found).max() <= MOST, name
    with handed(HANDS["nothing"], 1):
        pass
