"""The recurrent classifier on people who are easy to tell apart, and its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato_lab.attacks.traces.classifier import (
    FEATURES,
    _nearest,
    available,
    balanced,
    choose_targets,
    evaluate,
    steps_for,
    windows_of,
)

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


def travellers(users: int, days: int, seed: int) -> Traces:
    """Each goes to one of three offices and back, at an hour of their own, 300 m off the line."""
    rng = np.random.default_rng(seed)
    home = rng.uniform(-0.05, 0.05, (users, 2))
    office = rng.uniform(-0.03, 0.03, (3, 2))[rng.integers(0, 3, users)]
    hour = rng.uniform(6, 10, users)
    user, day, back = (a.ravel() for a in np.indices((users, days, 2)))
    fixes = 30
    share = np.linspace(0, 1, fixes)[None, :, None]
    start, end = (
        np.where(back[:, None], office[user], home[user]),
        np.where(back[:, None], home[user], office[user]),
    )
    place = start[:, None] + (end - start)[:, None] * share
    place += rng.normal(0, 300 / 111e3, place.shape)
    first = 86_400 * day + 3600 * (hour[user] + 9 * back) + rng.normal(0, 900, user.size)
    time = first[:, None] + 10.0 * np.arange(fixes)
    return Traces(
        np.array([str(u) for u in range(users)], dtype=object),
        np.repeat(user, fixes),
        np.repeat(np.arange(user.size), fixes),
        NOON_US + (time.ravel() * MICROSECONDS).astype(np.int64),
        116.3 + place[..., 0].ravel(),
        39.9 + place[..., 1].ravel(),
        np.arange(time.size),
    )


def test_the_nearest_window_is_a_baseline_that_needs_no_training() -> None:
    traces = travellers(users=8, days=10, seed=5)
    made = windows_of(traces, choose_targets(traces, 5, targets=5), seed=5)
    truth = made.classes[~made.training]
    assert 0.5 < (truth == _nearest(made)).mean() <= 1.0


@pytest.mark.torch
@pytest.mark.skipif(not available(), reason="torch is not installed (extra rnn)")
def test_people_with_homes_hours_and_offices_are_recognised() -> None:
    """What can be learned is learned: seeds other than those it was tuned on."""
    traces = travellers(users=14, days=10, seed=6)
    made = windows_of(traces, choose_targets(traces, 6), seed=6, length=15)
    found = evaluate(made, seed=6, steps=150, units=32)
    assert found["majority"] < 0.35
    assert found["accuracy"] > 0.65
    assert found["balanced"] > 0.65
    confusion = np.array(found["confusion"])
    assert confusion.sum() == found["windows"]
    assert confusion.trace() / confusion.sum() == pytest.approx(found["accuracy"])


@pytest.mark.torch
@pytest.mark.skipif(not available(), reason="torch is not installed (extra rnn)")
def test_nobody_is_recognised_where_nothing_tells_people_apart() -> None:
    """Users are shuffled over trips: better than the largest class would be a leak in the split."""
    traces = travellers(users=6, days=12, seed=7)
    owner = np.repeat(np.random.default_rng(7).permutation(np.repeat(np.arange(6), 24)), 30)
    order = np.argsort(owner, kind="stable")
    shuffled = (column[order] for column in (traces.time, traces.lon, traces.lat))
    mixed = Traces(traces.names, owner[order], traces.trip, *shuffled, traces.row)
    made = windows_of(mixed, choose_targets(mixed, 7, targets=5), seed=7, length=15)
    found = evaluate(made, seed=7, steps=60, units=16)
    assert found["accuracy"] < 0.4
    assert found["balanced"] < 0.4


def test_known_trips_speak_for_who_goes_on_from_where_they_end() -> None:
    """Users walk on from where they stopped; nobody is in two places at once."""
    users, trips, fixes = 4, 6, 10
    rng = np.random.default_rng(3)
    paths = np.cumsum(rng.normal(0, 4e-4, (users, trips * fixes, 2)), axis=1)
    paths += rng.uniform(-0.05, 0.05, (users, 1, 2))
    time = np.tile(np.arange(trips * fixes), users) * 60 + np.tile(
        np.repeat(np.arange(trips) * 1200, fixes), users
    )
    traces = Traces(
        np.array([str(u) for u in range(users)], dtype=object),
        np.repeat(np.arange(users), trips * fixes),
        np.repeat(np.arange(users * trips), fixes),
        NOON_US + time * MICROSECONDS,
        116.3 + paths[..., 0].ravel(),
        39.9 + paths[..., 1].ravel(),
        np.arange(time.size),
    )
    made = windows_of(traces, np.arange(4), seed=3, length=fixes)
    score = made.context.reshape(users * trips, 4, 3)
    inner = np.flatnonzero(np.isin(np.arange(users * trips) % trips, (2, 3)))
    best = score[inner, :, :2].sum(axis=2).argmax(axis=1)
    assert (best == inner // trips).mean() > 0.7  # chance: a quarter
    assert not score[np.arange(users * trips), np.arange(users * trips) // trips, 2].any()
    elsewhere = score[~made.training][:, :, 2]
    assert elsewhere.any()  # others are known to be elsewhere at the time


def test_training_lasts_by_the_size_of_the_data() -> None:
    assert steps_for(10) == 400
    assert steps_for(3_000) == 24 * 3_000 // 64
    assert steps_for(10**6) == 2_000


def test_the_mean_over_classes_is_not_won_by_the_largest() -> None:
    truth = np.array([0] * 98 + [1, 2])
    assert balanced(truth, np.zeros(100, np.int64)) == pytest.approx(1 / 3)
    assert balanced(truth, truth) == 1.0


@pytest.mark.skipif(available(), reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    traces = commuters(users=3, trips=6, fixes=10)
    made = windows_of(traces, choose_targets(traces, 3), seed=3, length=6)
    with pytest.raises(UsageError, match=r"pip install 'torch"):
        evaluate(made, seed=3, steps=1)
