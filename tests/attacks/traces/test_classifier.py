"""The recurrent classifier on people who are easy to tell apart, and its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.traces.classifier import available, evaluate
from sfumato.attacks.traces.windows_of_trips import FEATURES, choose_targets, windows_of
from sfumato.model.errors import UsageError
from sfumato.traces.model import MICROSECONDS, Traces

NOON_US = 1_225_540_800 * MICROSECONDS


def commuters(users: int, trips: int, fixes: int) -> Traces:
    """Every user walks around a home of their own, several times."""
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(users), trips * fixes)
    trip = np.repeat(np.arange(users * trips), fixes)
    home = rng.uniform(-0.05, 0.05, (users, 2))
    return Traces(
        np.array([str(u) for u in range(users)], dtype=object),
        user,
        trip,
        NOON_US + np.arange(user.size) * 5 * MICROSECONDS,
        116.3 + home[user, 0] + rng.normal(0, 1e-3, user.size),
        39.9 + home[user, 1] + rng.normal(0, 1e-3, user.size),
        np.arange(user.size),
    )


def test_windows_are_split_by_trip() -> None:
    traces = commuters(users=6, trips=5, fixes=45)
    targets = choose_targets(traces, seed=2, targets=4)
    made = windows_of(traces, targets, seed=2, length=20)
    assert made.values.shape == (6 * 5 * 2, 20, FEATURES)
    # Both windows of a trip are on the same side.
    assert (made.training.reshape(-1, 2).std(axis=1) == 0).all()
    assert set(made.classes.tolist()) == {0, 1, 2, 3, 4}
    assert (np.bincount(made.classes)[1:] == 10).all()
    short = windows_of(traces, targets, seed=2, length=100)
    assert short.values.shape[0] == 30


def test_two_users_with_two_trips_are_needed() -> None:
    with pytest.raises(UsageError):
        choose_targets(commuters(users=5, trips=1, fixes=5), seed=1)


@pytest.mark.skipif(not available(), reason="torch is not installed (extra rnn)")
def test_easy_people_are_recognised() -> None:
    traces = commuters(users=5, trips=24, fixes=6)
    made = windows_of(traces, choose_targets(traces, 3, targets=4), seed=3, length=6)
    found = evaluate(made, seed=3, epochs=30, units=24)
    assert found["accuracy"] > found["majority"] + 0.2
    assert found["balanced"] > 0.5
    confusion = np.array(found["confusion"])
    assert confusion.sum() == found["windows"]
    assert confusion.trace() / confusion.sum() == pytest.approx(found["accuracy"])


@pytest.mark.skipif(available(), reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    traces = commuters(users=3, trips=6, fixes=10)
    made = windows_of(traces, choose_targets(traces, 3), seed=3, length=6)
    with pytest.raises(UsageError, match=r"sfumato\[rnn\]"):
        evaluate(made, seed=3, epochs=1)
