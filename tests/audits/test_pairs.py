"""Neighbouring tables differ in exactly one user, and reach the bounds they are made for."""

import numpy as np
import pytest

from sfumato.audits.pairs import Stage, array_pairs, traces
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.source import RecallingSource
from sfumato.privacy.door import open_private

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))


def counted(stage, events, ask):
    return open_private(ask(LocalSource(events, stage.places, stage.grid, threads=1))).values


def test_tables_differ_in_one_user():
    stage = Stage.for_bound(SampleBound(4))
    pairs = stage.pairs(crowd=3)
    assert len({pair.name for pair in pairs}) == len(pairs) > 20
    for pair in pairs:
        more, less = (e.parts[0].table.to_pylist() for e in (pair.with_user, pair.without_user))
        assert more[: len(less)] == less
        others = {row["user"] for row in less}
        added = {row["user"] for row in more[len(less) :]}
        assert len(added) == 1
        assert not added & others


@pytest.mark.parametrize("counting", Counting)
def test_end_to_end_no_pair_moves_weighted_counts_beyond_the_bound_and_some_reach_it(counting):
    bound = WeightBound(3)
    stage = Stage.for_bound(bound)
    limit = bound.l2(stage.grid.slots)
    moved = []
    for pair in [p for p in stage.pairs(crowd=3) if "nobody" in p.name or "id " in p.name]:
        more, less = (
            counted(stage, events, lambda source: source.weighted(bound, counting))
            for events in (pair.with_user, pair.without_user)
        )
        moved.append(np.linalg.norm(more - less))
    assert 0.999 * limit < max(moved) <= limit
    assert min(moved) > 0


def test_end_to_end_no_pair_moves_sampled_counts_beyond_the_bound_and_some_reach_it():
    bound = SampleBound(4)
    stage = Stage.for_bound(bound)
    moved = []
    for pair in [p for p in stage.pairs(crowd=2) if "some" in p.name or "id " in p.name]:
        more, less = (
            counted(stage, events, lambda source: source.sampled(bound, KEY))
            for events in (pair.with_user, pair.without_user)
        )
        moved.append(((more - less) ** 2).sum())
        assert (more >= less).all()  # nobody else's sample changed
    assert max(moved) == 4


def test_the_stage_is_long_enough_for_the_bound_or_says_so():
    assert Stage.for_bound(WeightBound(3)).grid.slots == 24
    assert Stage.for_bound(SampleBound(30)).grid.slots == 96
    with pytest.raises(UsageError, match="too large"):
        Stage.for_bound(WeightBound(100))


def test_arrays_keep_one_visit_a_slot_and_at_most_l():
    for pair in array_pairs(3, 8, limit=4):
        step = pair.with_user - pair.without_user
        assert step.sum(axis=0).max() == 1
        assert 1 <= step.sum() <= 4


def test_traces_cover_the_extremes():
    found = traces(3, 8, 4)
    assert len(found["every place in every slot"]) == 24
    assert set(found["one place all the time"][:, 0]) == {0}
    assert len(set(found["a new place in every slot"][:, 0])) == 3
    assert len(found["one visit"]) == 1


class Asked:
    """A source that counts how often it is asked."""

    def __init__(self, source):
        self.source, self.asked = source, 0

    def __getattr__(self, name):
        self.asked += 1
        return getattr(self.source, name)


def test_a_recalling_source_asks_once_and_gives_the_same_answers():
    stage = Stage.for_bound(SampleBound(4))
    events = stage.pairs(crowd=2)[0].with_user
    local = LocalSource(events, stage.places, stage.grid, threads=1)
    asked = Asked(local)
    recalling = RecallingSource(asked, samples=3)
    questions = [
        lambda s: s.weighted(WeightBound(2), Counting.VISITS),
        lambda s: s.place_totals(WeightBound(2), Counting.PEOPLE),
        lambda s: s.slot_totals(WeightBound(2), Counting.PEOPLE),
        lambda s: s.capped_total(5, Counting.VISITS),
        lambda s: s.ladder((1, 2, 4), Counting.VISITS),
    ]
    for _ in range(2):
        for ask in questions:
            assert (open_private(ask(recalling)).values == open_private(ask(local)).values).all()
    assert asked.asked == len(questions)
    norms = np.full((3, 12), 300, np.int64)  # new in every run, so never remembered
    for _ in range(2):
        recalling.weighted(WeightBound(2), Counting.VISITS, norms)
    assert asked.asked == len(questions) + 2
    keys = [bytes([i]) * 32 for i in range(40)]
    drawn = {open_private(recalling.sampled(SampleBound(4), k)).values.tobytes() for k in keys}
    assert asked.asked == len(questions) + 5
    assert len(drawn) == 3
    assert recalling.fingerprint(KEY) == local.fingerprint(KEY)
    assert (recalling.place_ids == local.place_ids).all()
    assert recalling.grid is local.grid


def test_recalled_samples_of_neighbours_differ_in_one_user_alone():
    """Whatever the keys: otherwise two handfuls of samples lie apart whoever is in the data."""
    stage = Stage.for_bound(SampleBound(2))
    (pair,) = [p for p in stage.pairs(crowd=2) if p.name == "one visit, some others"]
    one, other = (
        RecallingSource(LocalSource(events, stage.places, stage.grid, threads=1), samples=3)
        for events in (pair.with_user, pair.without_user)
    )
    drawn = [
        {
            open_private(source.sampled(SampleBound(2), bytes([start + i]) * 32)).values.tobytes()
            for i in range(40)
        }
        for source, start in ((one, 0), (other, 100))
    ]
    more, less = (
        sorted(np.frombuffer(sample, np.int64).tolist() for sample in samples) for samples in drawn
    )
    apart = [[sum(abs(a - b) for a, b in zip(m, n, strict=True)) for n in less] for m in more]
    assert [min(row) for row in apart] == [1, 1, 1]
