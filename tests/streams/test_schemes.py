"""What every scheme owes: its budget in every window, its state, and the truth without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.parameters import Need
from sfumato.streams.registry import SCHEMES, default_name, stream_scheme
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.scheme import Finished, Meter
from sfumato.streams.vault import packed, unpacked

pytestmark = pytest.mark.privacy

Facts = Callable[..., StreamFacts]
Adversarial = Callable[[str, StreamFacts], NDArray[np.int64]]
UNITS = ("user-period", "user-day", "w-event:5", "event")
KINDS = ("constant", "alternating", "spike", "empty", "one user")
ONE_WINDOW = {name for name in SCHEMES if Need.APART in SCHEMES[name].declares.needs}
PURE = [(name, 0.0) for name in SCHEMES if name not in ("tree", "toeplitz")]
"""Counters are Gaussian: they need a delta."""
BOTH = [*PURE, *((name, 1e-6) for name in SCHEMES)]


@pytest.mark.parametrize(("name", "delta"), BOTH)
@pytest.mark.parametrize("unit", UNITS)
def test_no_window_spends_more_than_it_has(
    name: str, unit: str, delta: float, facts: Facts, adversarial: Adversarial
) -> None:
    known = facts(unit, delta=delta)
    sliding = ("w-event:5",) if name == "profile" else ("w-event:5", "event")
    if name in ONE_WINDOW and unit in sliding:
        with pytest.raises(UsageError, match="sliding window"):
            stream_scheme(name).plan(known)
        return
    # What these measure hardly depends on the counts, and they take their time.
    for kind in (
        KINDS if delta and name not in ("comb", "rhythm", "profile", "smoother") else KINDS[1:3]
    ):
        run = run_scheme(stream_scheme(name), known, adversarial(kind, known), seed=1)
        assert run.share <= 1.0
        assert np.isfinite(run.values).all()


@pytest.mark.parametrize(("name", "delta"), BOTH)
def test_the_plan_keeps_epsilon_and_delta(name: str, delta: float, facts: Facts) -> None:
    from sfumato.privacy.accounting import guarantee

    for unit in ("user-period", "user-day"):
        known = facts(unit, epsilon=0.7, delta=delta)
        events = [account.event for account in stream_scheme(name).plan(known).accounts]
        assert guarantee(events, delta).epsilon <= 0.7 * (1 + 1e-9)


@pytest.mark.parametrize(
    "name", [n for n in SCHEMES if n not in ("zeros", "sample", "mean", "profile", "smoother")]
)
def test_with_hardly_any_noise_changes_are_followed(name: str, facts: Facts) -> None:
    known = facts("user-period", epsilon=2000.0, days=2)
    rng = np.random.default_rng(3)
    counts = rng.integers(20, 200, (known.slots, known.cells))
    run = run_scheme(stream_scheme(name), known, counts, seed=1)
    truth = np.cumsum(counts, axis=0) if name in ("tree", "toeplitz") else counts
    first = np.abs(run.values[0] - truth[0]).max()
    allowed = 200.0 if name in ("fan-spatial", "rescuedp") else 2.0
    assert first <= allowed
    if name in ("direct", "uniform", "tree", "toeplitz", "fan-temporal"):
        assert np.abs(run.values - truth).max() <= 12.0


@pytest.mark.parametrize(("name", "delta"), BOTH)
def test_a_publisher_taken_up_again_goes_on_as_it_would_have(
    name: str, delta: float, facts: Facts
) -> None:
    known = facts("user-day", delta=delta)
    counts = np.random.default_rng(5).integers(0, 90, (known.slots, known.cells))
    undisturbed = _publish(name, known, counts, stop_after=())
    for stop in (0, 7, 13) if name != "comb" else ():  # which takes its time
        assert np.array_equal(_publish(name, known, counts, (stop,)), undisturbed)
    assert np.array_equal(_publish(name, known, counts, (2, 3, 9, 17)), undisturbed)


def _publish(
    name: str, facts: StreamFacts, counts: NDArray[np.int64], stop_after: tuple[int, ...]
) -> NDArray[np.float64]:
    """All slots; after those named, everything is put away as bytes and a new publisher made."""
    scheme = stream_scheme(name)

    def fresh() -> tuple[Any, Meter]:
        return scheme.publisher(facts), Meter(scheme.plan(facts).accounts, facts)

    publisher, meter = fresh()
    out = []
    for slot in range(facts.slots):
        wall = Wall.seeded(9, meter)
        if scheme.finished:
            assert isinstance(publisher, Finished)
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        out.append(publisher.publish(slot, boxed(counts[slot], facts), wall, meter).values)
        if slot in stop_after:
            kept = {key: packed(value) for key, value in publisher.state().items()}
            spent = meter.state()
            publisher, meter = fresh()
            meter.restore(spent)
            publisher.restore({key: unpacked(data) for key, data in kept.items()})
    return np.array(out)


def test_the_default_for_a_short_history_is_one_that_its_unit_allows(facts: Facts) -> None:
    assert default_name(facts("user-day", days=1), finished=True) == "smoother"
    assert default_name(facts("w-event:20", days=1), finished=True) == "comb"


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="Choose from"):
        stream_scheme("magic")
