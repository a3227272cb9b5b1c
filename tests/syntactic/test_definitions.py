"""Every method against the definition it claims, by brute force on hundreds of small instances."""

from __future__ import annotations

import doctest
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from scipy.stats import binom
from tests.syntactic import definitions as by_hand

from sfumato.errors import InputError
from sfumato_lab.syntactic.checks import diversity
from sfumato_lab.syntactic.confidentiality import Map, grouped_paths, grow_groups, holds
from sfumato_lab.syntactic.counts import (
    determined,
    different_people,
    protect,
    suppress_counts,
    with_totals,
)
from sfumato_lab.syntactic.hierarchy import Times, Tree, halved, items_tree
from sfumato_lab.syntactic.k_anonymity import Rows, choose_level, identical, small_groups, suppress
from sfumato_lab.syntactic.km import distance_km, global_km, local_km, rare_sets
from sfumato_lab.syntactic.never_walk_alone import cluster_paths, translate, widest
from sfumato_lab.syntactic.people import Held, on_clock
from sfumato_lab.syntactic.probabilistic import Index, Law, draw_sets, probabilistic_km
from sfumato_lab.syntactic.wait_for_me import wait_for_me

pytestmark = pytest.mark.privacy
INSTANCES = 500
SLOTS = 4
TIMES = Times(
    ("slot", "half", "all"), tuple(np.array(x) for x in ([0, 1, 2, 3], [0, 0, 1, 1], [0] * 4))
)


def town(seed: int, people: int = 14, places: int = 6) -> tuple[Held, np.ndarray, Tree]:
    """A few people with a few visits in a few places."""
    rng = np.random.default_rng([23, seed])
    people = int(rng.integers(6, people + 1))
    rows = int(rng.integers(2 * people, 4 * people))
    person = np.r_[np.arange(people), rng.integers(people, size=rows)]
    place = np.minimum(rng.geometric(0.3, person.size) - 1, places - 1)
    held = Held.of(person, place, rng.integers(SLOTS, size=person.size))
    centre = rng.uniform(0, 5_000, (places, 2))
    return held, centre, halved(centre, [str(n) for n in range(places)])


def sets_of(rows: Rows) -> list[set[int]]:
    bounds = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    return [set(rows.items[low:high].tolist()) for low, high in bounds]


TOPICS = ["checks", "confidentiality", "counts", "hierarchy", "k_anonymity", "km", "people"]
TOPICS.append("never_walk_alone")


@pytest.mark.parametrize("name", TOPICS)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(import_module(f"sfumato_lab.syntactic.{name}"))
    assert found.failed == 0
    assert found.attempted


def test_records_are_the_same_as_k_others() -> None:
    """Definition 1, by generalisation and by suppression."""
    for seed in range(INSTANCES):
        held, _, tree = town(seed)
        k = 2 + seed % 3
        level, rows = choose_level(held, k, 0.2, tree, TIMES)
        group = identical(rows)
        kept = np.flatnonzero(~small_groups(group, k))
        assert by_hand.k_anonymous(sets_of(rows.take(kept)), k)
        assert len(held) - kept.size <= 0.2 * len(held)
        assert level.left_out == pytest.approx(1 - kept.size / len(held))
        whole = Rows.of(held.person, held.place.astype(np.int64) * SLOTS + held.slot, len(held))
        left, group = suppress(whole, k)
        kept = np.flatnonzero(group >= 0)
        assert by_hand.k_anonymous(sets_of(left.take(kept)), k)
        for before, after in zip(sets_of(whole), sets_of(left), strict=True):
            assert after <= before  # what is left is true


def test_m_items_are_in_k_records_or_none() -> None:
    """Definition 2 on sets of places, on places at times, and in parts."""
    for seed in range(INSTANCES):
        held, _, tree = town(seed)
        k, m = 2 + seed % 3, 1 + seed % 3
        if seed % 2:
            items = items_tree(tree, TIMES)
            leaf, tree = held.place.astype(np.int64) * SLOTS + held.slot, items.tree
        else:
            leaf = held.place.astype(np.int64)
        rows = Rows.of(held.person, leaf, len(held))
        made = rows.mapped(global_km(rows, k, m, tree))
        assert by_hand.km_anonymous(sets_of(made), k, m)
        made, _ = local_km(rows, k, m, tree, max(k, len(held) // 2))
        assert by_hand.km_anonymous(sets_of(made), k, m)


def test_m_places_in_order_are_in_k_records_or_none() -> None:
    """Definition 2 on sequences, by distance; what cannot be had is refused."""
    refused = 0
    for seed in range(INSTANCES):
        held, centre, _ = town(seed)
        k, m = 2 + seed % 3, 1 + seed % 3
        rows = Rows(held.offsets, held.place.astype(np.int64))
        try:
            group = distance_km(rows, k, m, centre)
        except InputError:
            long = np.diff(held.offsets) >= m
            assert 0 < long.sum() < k or m > 1
            refused += 1
            continue
        records = [group[part].tolist() for part in np.split(rows.items, rows.offsets[1:-1])]
        assert by_hand.km_anonymous_in_order(records, k, m)
    assert refused < INSTANCES / 10


def test_rare_sets_are_those_that_too_few_have() -> None:
    for seed in range(100):
        held, _, _ = town(seed)
        rows = Rows.of(held.person, held.place.astype(np.int64), len(held))
        for size in (1, 2, 3):
            found = rare_sets(rows, 3, size)
            sets = sets_of(rows)
            for items, support in zip(found.sets.tolist(), found.support.tolist(), strict=True):
                assert sum(set(items) <= one for one in sets) == support < 3
            assert (not found.support.size) == by_hand.km_anonymous(
                [one for one in sets if len(one) >= size] if size > 1 else sets, 3, size
            ) or size > 1


def test_nobody_walks_alone() -> None:
    """(k, delta) of Never Walk Alone and Wait for Me; with delta = 0 that is Definition 1."""
    for seed in range(INSTANCES):
        held, centre, _ = town(seed, people=12)
        k, delta = 2 + seed % 2, [0.0, 500.0, 2_000.0][seed % 3]
        clock = on_clock(held, centre, SLOTS)
        if len(clock.at) < k:
            continue
        found = cluster_paths(clock.at, k, trash=0.3, block=8 if seed % 4 else 64, seed=seed)
        made, _ = translate(clock.at, found.cluster, found.clusters, delta)
        records = [[(float(x), float(y)) for x, y in one] for one in made]
        assert by_hand.k_delta_anonymous(records, k, delta)
        assert len(made) >= 0.7 * len(clock.at)
        if len(made):
            least, wide = widest(made, found.cluster[found.cluster >= 0])
            assert least >= k
            assert wide <= delta + 1e-3
        if delta == 0:
            assert by_hand.k_anonymous(records, k)
        edited = wait_for_me(
            held, centre, SLOTS, k, delta_m=delta, near_m=1_500, near_slots=1, trash=0.3, seed=seed
        )
        kept = edited.at[edited.cluster >= 0]
        records = [[(float(x), float(y)) for x, y in one] for one in kept]
        assert by_hand.k_delta_anonymous(records, k, delta)


def test_most_sets_are_in_k_records() -> None:
    """Probabilistic k^m: the exact share keeps p but for the mistakes that confidence allows."""
    wrong = judged = 0
    for seed in range(INSTANCES):
        held, _, tree = town(seed)
        rows = Rows.of(held.person, held.place.astype(np.int64), len(held))
        k, m, law = 2 + seed % 2, 2 + seed % 2, Law.SETS if seed % 3 else Law.PEOPLE
        if not (np.diff(rows.offsets) >= m).any():
            continue
        at, _ = probabilistic_km(rows, k, m, tree, p=0.8, confidence=0.9, law=law, seed=seed)
        shares = by_hand.shares_in_k_records(sets_of(rows.mapped(at)), k, m)
        judged += 1
        wrong += shares[law is Law.PEOPLE] < Fraction(8, 10)
    assert judged > 0.95 * INSTANCES
    # Each is wrong with probability 0.1 at most: more than this many by chance is one in a million.
    assert wrong <= binom.ppf(1 - 1e-6, judged, 0.1)


def test_sets_are_drawn_by_their_law() -> None:
    """Uniform over distinct m-sets, whatever their supports; by people as people have them."""
    held, _, _ = town(5)
    rows = Rows.of(held.person, held.place.astype(np.int64), len(held))
    index, draws = Index.of(rows), 20_000
    sets = sets_of(rows)
    occurring = {frozenset({a, b}) for one in sets for a in one for b in one if a < b}
    found, times = draw_sets(index, 2, draws, 99, Law.SETS, np.random.default_rng(1))
    seen: dict[frozenset[int], int] = {}
    for one, support in zip(found.tolist(), times.tolist(), strict=True):
        assert support == sum(set(one) <= record for record in sets)
        seen[frozenset(one)] = seen.get(frozenset(one), 0) + 1
    assert seen.keys() == occurring
    expected = draws / len(occurring)
    chi = sum((many - expected) ** 2 / expected for many in seen.values())
    assert chi < 3 * len(occurring) + 20


def test_sets_that_many_share_are_thrown_away_as_often_as_the_law_asks() -> None:
    """Support far above k: a set that a hundred share is as likely as one of a single person's."""
    records = [[0, 1]] * 100 + [[2, 3], [4, 5], [6, 7]]
    rows = Rows(np.arange(0, 2 * len(records) + 1, 2), np.concatenate(records).astype(np.int64))
    drawn = draw_sets(Index.of(rows), 2, 4_000, 5, Law.SETS, np.random.default_rng(1))
    sets, many = np.unique(drawn[0], axis=0, return_counts=True)
    assert sets.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert abs(many / 4_000 - 0.25).max() < 0.04  # six standard deviations
    assert set(drawn[1].tolist()) == {1, 5}


def random_map(seed: int) -> tuple[Map, dict[int, set[int]]]:
    rng = np.random.default_rng([7, seed])
    n = int(rng.integers(8, 15))
    line = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    more = rng.integers(n, size=(int(rng.integers(0, 6)), 2))
    roads = np.concatenate([line, more[more[:, 0] != more[:, 1]]])
    stops = rng.integers(1, 4, n) / 4 if seed % 2 else np.ones(n)
    stops = np.where(rng.random(n) < 0.1, 0.0, stops)
    sensitive = np.zeros(n, bool)
    sensitive[rng.choice(n, int(rng.integers(1, 4)), replace=False)] = True
    nearby: dict[int, set[int]] = {one: set() for one in range(n)}
    for a, b in roads.tolist():
        nearby[a].add(b)
        nearby[b].add(a)
    return Map(roads, stops, sensitive), nearby


def test_stops_are_confidential_on_every_path() -> None:
    """p-confidentiality: every simple path between doors; with `walks`, every walk."""
    made = seed = 0
    while made < INSTANCES:
        seed += 1
        city, roads = random_map(seed)
        p = [0.3, 0.5, 0.7][seed % 3]
        walks = seed % 2 == 0
        try:
            found = grow_groups(city, p, walks=walks)
        except InputError:
            continue
        made += 1
        assert holds(city, found, p, walks=walks)
        groups = [set(np.flatnonzero(found.of == one).tolist()) for one in np.unique(found.of)]
        exact = [Fraction(float(one)) for one in city.stops]
        check = by_hand.confidential_on_walks if walks else by_hand.p_confidential
        secret = set(np.flatnonzero(city.sensitive).tolist())
        assert check(roads, exact, secret, groups, Fraction(int(10 * p + 0.5), 10))
        # A place alone is no group around a sensitive place: the check has power.
        if seed < 50 and any(city.stops[one] > 0 for one in secret):
            alone = [{one} for one in roads]
            assert not by_hand.p_confidential(roads, exact, secret, alone, Fraction(1, 2))


def test_groups_are_passed_without_times() -> None:
    offsets, place = np.array([0, 4, 6, 8]), np.array([0, 1, 2, 5, 1, 2, 3, 1])
    group = np.array([0, 1, 1, 3, 4, 5])
    hidden = np.arange(6) == 1
    bounds, at, gone = grouped_paths(offsets, place, group, hidden)
    assert (bounds.tolist(), at.tolist(), gone) == ([0, 3, 3, 4], [0, 1, 5, 3], 2)
    bounds, at, gone = grouped_paths(offsets, place, group, hidden, walks=True)
    assert (bounds.tolist(), at.tolist(), gone) == ([0, 3, 3, 5], [0, 1, 5, 3, 1], 1)


def test_no_hidden_count_follows_from_the_sums() -> None:
    """Secondary suppression; and what follows is decided as trying every table does."""
    rng = np.random.default_rng(3)
    for turn in range(INSTANCES):
        people = rng.integers(0, 4, (2, 2 + (turn > 40)))
        table = with_totals(people)
        hidden = table < 2
        if turn % 3 == 0:
            hidden |= rng.random(table.shape) < 0.2
        cells = {(int(r), int(c)) for r, c in zip(*np.nonzero(hidden), strict=True)}
        if turn < 41:
            exact = by_hand.determined_cells(table.tolist(), cells, 8)
            follows = np.argwhere(determined(table, hidden)).tolist()
            assert {(row, column) for row, column in follows} == exact
        whole = protect(table, hidden)
        assert (whole | hidden).sum() == whole.sum()
        assert not determined(table, whole).any()
        _, _, counted = suppress_counts(table, 2, totals=True, secondary=True)
        assert counted.determined == 0


def test_a_total_of_one_person_is_no_total() -> None:
    """Somebody alone at a place all day makes a large sum, which is about one person."""
    for seed in range(50):
        rng = np.random.default_rng([11, seed])
        hermit, crowd = np.zeros(8, np.int64), np.repeat(np.arange(1, 13), 8)
        place = np.r_[np.zeros(8, np.int64), rng.integers(1, 3, crowd.size)]
        slot = np.tile(np.arange(8), 13)
        held = Held.of(np.r_[hermit, crowd], place, slot)
        different = different_people(held, 3, 8)
        assert different[-1, -1] == 13
        assert different[1, -1] == np.unique(crowd[place[8:] == 1]).size
        assert with_totals(different[:-1, :-1])[0, -1] == 8
        for secondary in (False, True):
            _, hidden, _ = suppress_counts(different, 5, totals=True, secondary=secondary)
            assert hidden[0].all()
            assert hidden[different < 5].all()


def test_diversity_is_that_of_the_definitions() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        group, value = rng.integers(4, size=30), rng.integers(3, size=30)
        found = diversity(group, value)
        kinds = [set(value[group == one].tolist()) for one in np.unique(group)]
        assert found["l_least"] == min(map(len, kinds))
        everybody = np.bincount(value, minlength=3) / 30
        apart = [
            np.abs(
                np.bincount(value[group == one], minlength=3) / (group == one).sum() - everybody
            ).sum()
            / 2
            for one in np.unique(group)
        ]
        assert found["t_largest"] == pytest.approx(max(apart), abs=1e-4)
