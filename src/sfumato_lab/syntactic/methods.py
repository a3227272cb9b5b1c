"""The methods of `anonymise traces` as functions of a task: from visits to what is published.

A method is given everybody's visits and returns what is published, who is which record, which
records are alike, and the words that go with it. The algorithms have files of their own; their
parameters are in `sfumato_lab.syntactic.registry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.geography.projection import Plane
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato_lab.syntactic import confidentiality, words
from sfumato_lab.syntactic.hierarchy import ItemTree, Times, Tree, items_tree
from sfumato_lab.syntactic.k_anonymity import Rows, choose_level, identical, small_groups, suppress
from sfumato_lab.syntactic.km import Tell, distance_km, global_km, local_km, rare_sets
from sfumato_lab.syntactic.never_walk_alone import cluster_paths, translate_in_place, widest
from sfumato_lab.syntactic.people import TRAJECTORIES, Held, enough_people, on_clock
from sfumato_lab.syntactic.probabilistic import Law, judge, probabilistic_km
from sfumato_lab.syntactic.published import Areas, Items, Paths, Promise, Table
from sfumato_lab.syntactic.wait_for_me import wait_for_me

Ints = NDArray[np.int64]
VISITS, PLACES = "visits", "places"
"""What an item is: a place at a time, or a place."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a method is given."""

    held: Held
    places: Places
    grid: TimeGrid
    plane: Plane
    centre: NDArray[np.float64]
    space: Tree
    k: int
    settings: Mapping[str, Any]
    rng: np.random.Generator
    city: confidentiality.Map | None = None
    made: tuple[str, ...] = ()
    """What of the map was made and not given."""
    tell: Tell = field(default=lambda *_: None)

    def mixed(self, kept: Ints) -> Ints:
        """People in an order by lot: that of the records."""
        return self.rng.permutation(kept)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a method made: the table, whose record each is, what is alike, and what is said."""

    table: Table
    who: Ints
    """The person of each record."""
    group: Ints
    """Of each record; -1 where nothing is alike."""
    promise: Promise
    facts: Mapping[str, Any]
    """Public: stands in the manifest."""
    figures: Mapping[str, Any]
    """Measured against the truth: the holder's own."""


def _items_of(task: Task) -> tuple[Rows, ItemTree]:
    """Records as sets of leaves, and the tree of these: places, or places at times."""
    held, space = task.held, task.space
    place = held.place.astype(np.int64)
    if task.settings["items"] == PLACES:
        rows = Rows.of(held.person, place, len(held))
        none = np.full(space.parent.size, -1)
        return rows, ItemTree(space, np.arange(space.parent.size), none, none)
    tree = items_tree(space, Times.of(task.grid))
    return Rows.of(held.person, place * task.grid.slots + held.slot, len(held)), tree


def _published(task: Task, rows: Rows, who: Ints, tree: ItemTree) -> Items:
    """Records of nodes of a tree, in this order of people, as areas with first and last slots."""
    records = rows.take(who)
    first, last = tree.first[records.items], tree.last[records.items]
    order = np.lexsort((tree.area[records.items], last, first, records.record))
    node = records.items[order]
    return _with_areas(
        task, records.offsets, tree.area[node], first[order], last[order], task.space
    )


def _with_areas(
    task: Task, offsets: Ints, node: Ints, first: Ints, last: Ints, space: Tree
) -> Items:
    # Leaves are always among the areas, so that every place is named in one of them.
    used = np.unique(np.concatenate([node, np.arange(len(task.places))]))
    area, place = space.cover_pairs(used)
    areas = Areas.of([space.labels[one] for one in used], area, place)
    number = np.searchsorted(used, node).astype(np.int32)
    return Items(offsets, number, first.astype(np.int32), last.astype(np.int32), areas)


def _loss(tree: Tree, at: Ints, rows: Rows) -> float:
    return round(float(tree.loss[at[rows.items]].mean()), 6)


def run_generalise(task: Task) -> Outcome:
    level, rows = choose_level(
        task.held, task.k, task.settings["trash"], task.space, times := Times.of(task.grid)
    )
    group = identical(rows)
    kept = task.mixed(np.flatnonzero(~small_groups(group, task.k)))
    records = rows.take(kept)
    interval, node = np.divmod(records.items, task.space.parent.size)
    low, high = times.bounds(level.time)
    table = _with_areas(task, records.offsets, node, low[interval], high[interval], task.space)
    facts = {"depth": level.depth, "time": times.names[level.time]}
    said = words.k_anonymity(task.k, f"areas of depth {level.depth}, times of {facts['time']}")
    return Outcome(table, kept, group[kept], said, facts, {"loss": round(level.loss, 6)})


def run_suppress(task: Task) -> Outcome:
    rows, tree = _items_of(task)
    left, group = suppress(rows, task.k)
    kept = task.mixed(np.flatnonzero(group >= 0))
    said = words.k_anonymity(task.k, "items that too few share are left out")
    share = left.items.size / max(1, rows.items.size)
    figures = {"items_published": round(share, 6)}
    return Outcome(_published(task, left, kept, tree), kept, group[kept], said, {}, figures)


def run_never_walk_alone(task: Task) -> Outcome:
    clock = on_clock(task.held, task.centre, task.grid.slots)
    enough_people(clock.who.size, task.k, TRAJECTORIES)
    task.tell("clustering trajectories", 0.0)
    found = cluster_paths(
        clock.at,
        task.k,
        trash=task.settings["trash"],
        block=max(task.settings["block"], 2 * task.k),
        seed=int(task.rng.integers(1 << 31)),
        progress=lambda share: task.tell("clustering trajectories", share),
    )
    delta = float(task.settings["delta"])
    mean = translate_in_place(clock.at, found.cluster, found.clusters, delta)
    least, wide = widest(clock.at, found.cluster)
    kept = task.mixed(np.flatnonzero(found.cluster >= 0))
    shown = clock.seen[kept].sum() / max(1, kept.size * task.grid.slots)
    facts = {
        "interpolated_share": round(float(1 - shown), 4),
        "checked": {"smallest_cluster": least, "widest_m": round(wide, 3)},
    }
    figures = {
        "mean_translation_m": round(mean, 3),
        "radius_m": round(found.radius_m, 1),
        "clusters": found.clusters,
        "trash": round(found.trash, 6),
        "without_a_trajectory": len(task.held) - int(clock.who.size),
    }
    said = words.k_delta("never-walk-alone", task.k, delta, clocked=True)
    table = _paths(task.plane, clock.at, kept)
    return Outcome(table, clock.who[kept], found.cluster[kept], said, facts, figures)


@dataclass(frozen=True, slots=True, eq=False)
class _Degrees:
    """One coordinate of paths in degrees with seven decimals, made when rows are asked for.

    A million people's week is 1.3 GiB in metres; both coordinates in degrees would be 2.5 more.
    """

    at: NDArray[Any]
    order: Ints
    side: int
    scale: float
    origin: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.order.size, self.at.shape[1]

    def __len__(self) -> int:
        return int(self.order.size)

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        metres = self.at[self.order[rows], :, self.side].astype(np.float64)
        return np.round(metres / self.scale + self.origin, 7)


def _paths(plane: Plane, at: NDArray[Any], order: Ints) -> Paths:
    """Positions of people in this order."""
    (east, north), (lon, lat) = plane.metres_per_degree, (plane.lon, plane.lat)
    sides: Any = (_Degrees(at, order, 0, east, lon), _Degrees(at, order, 1, north, lat))
    return Paths(*sides)


def run_wait_for_me(task: Task) -> Outcome:
    settings = task.settings
    delta = float(settings["delta"])
    found = wait_for_me(
        task.held,
        task.centre,
        task.grid.slots,
        task.k,
        delta_m=delta,
        near_m=float(settings["near"]),
        near_slots=int(settings["near_slots"]),
        trash=settings["trash"],
        block=max(settings["block"], 2 * task.k),
        seed=int(task.rng.integers(1 << 31)),
    )
    kept = task.mixed(np.flatnonzero(found.cluster >= 0))
    figures = {
        "mean_translation_m": round(found.moved_m, 3),
        "made_up": round(found.made_up, 4),
        "deleted": round(found.deleted, 4),
        "trash": round(float((found.cluster < 0).mean()), 6),
    }
    facts = {"made_up_share": round(found.made_up, 2)}
    said = words.k_delta("wait-for-me", task.k, delta, clocked=False)
    table = _paths(task.plane, found.at, kept)
    return Outcome(table, kept, found.cluster[kept], said, facts, figures)


def run_km(task: Task) -> Outcome:
    rows, tree = _items_of(task)
    m = task.settings["m"]
    at = global_km(rows, task.k, m, tree.tree, task.tell)
    made = rows.mapped(at)
    return _of_sets(task, "km", rows, made, tree, {"loss": _loss(tree.tree, at, rows)})


def run_km_local(task: Task) -> Outcome:
    rows, tree = _items_of(task)
    made, _ = local_km(rows, task.k, task.settings["m"], tree.tree, task.settings["part"])
    return _of_sets(task, "km-local", rows, made, tree, {})


def _of_sets(
    task: Task, method: str, rows: Rows, made: Rows, tree: ItemTree, figures: Mapping[str, Any]
) -> Outcome:
    """Sets of areas; records that are the same are a group."""
    m = task.settings["m"]
    rare = [int(rare_sets(made, task.k, size).support.size) for size in range(1, m + 1)]
    who = task.mixed(np.arange(len(rows)))
    said = words.km(method, task.k, m, task.settings["items"])
    facts = {"items": task.settings["items"], "checked": {"itemsets_too_rare": sum(rare)}}
    shorter = {"items_published": round(made.items.size / max(1, rows.items.size), 6)}
    table = _published(task, made, who, tree)
    return Outcome(table, who, identical(made)[who], said, facts, {**figures, **shorter})


def run_km_distance(task: Task) -> Outcome:
    held, k, m = task.held, task.k, task.settings["m"]
    rows = Rows(held.offsets, held.place.astype(np.int64))
    group = distance_km(rows, k, m, task.centre, task.tell)
    made = Rows(rows.offsets, group[rows.items])
    rare = sum(rare_sets(made, k, s, ordered=True).support.size for s in range(1, m + 1))
    who = task.mixed(np.arange(len(rows)))
    records = made.take(who)
    table = _grouped(task, records.offsets, records.items, group)
    facts = {"items": "sequences of places", "checked": {"subsequences_too_rare": int(rare)}}
    apart = np.hypot(*(task.centre[rows.items] - _middles(task, group)[rows.items]).T)
    figures = {"groups": int(np.unique(group).size), "mean_distortion_m": round(apart.mean(), 1)}
    said = words.km("km-distance", k, m, "sequences of places")
    return Outcome(table, who, identical(made)[who], said, facts, figures)


def _middles(task: Task, group: Ints) -> NDArray[np.float64]:
    many = np.bincount(group, minlength=len(group))
    sums = [np.bincount(group, task.centre[:, side], len(group)) for side in (0, 1)]
    return np.column_stack(sums)[group] / many[group][:, None]


def _grouped(task: Task, offsets: Ints, at: Ints, group: Ints) -> Items:
    """Groups of places as areas, without times."""
    used, number = np.unique(group, return_inverse=True)
    many = np.bincount(number)
    labels = [
        str(task.places.ids[one]) if size == 1 else f"group of {size} with {task.places.ids[one]}"
        for one, size in zip(used.tolist(), many.tolist(), strict=True)
    ]
    areas = Areas.of(labels, number.astype(np.int64), np.arange(group.size))
    none = np.full(at.size, -1, np.int32)
    return Items(offsets, np.searchsorted(used, at).astype(np.int32), none, none.copy(), areas)


def run_probabilistic(task: Task) -> Outcome:
    rows, tree = _items_of(task)
    chosen = task.settings
    m, p, confidence = chosen["m"], chosen["p"], chosen["confidence"]
    law = Law(chosen["law"])
    seed = int(task.rng.integers(1 << 31))
    at, judged = probabilistic_km(
        rows, task.k, m, tree.tree, p=p, confidence=confidence, law=law, seed=seed, tell=task.tell
    )
    made = rows.mapped(at)
    other = judge(made, task.k, m, p, confidence, Law.PEOPLE, seed + 1)
    who = task.mixed(np.arange(len(rows)))
    said = words.probabilistic(task.k, m, p, confidence, law, chosen["items"])
    facts = {"items": chosen["items"], "law": str(law)}
    figures = {
        "loss": _loss(tree.tree, at, rows),
        "judged": {"law": str(law), "draws": judged.draws, "too_rare": judged.rare},
        "share_too_rare_at_most": round(judged.upper, 5),
        "law_of_people": {"draws": other.draws, "too_rare": other.rare},
        "law_of_people_too_rare_at_most": round(other.upper, 5),
    }
    table = _published(task, made, who, tree)
    return Outcome(table, who, identical(made)[who], said, facts, figures)


def run_p_confidentiality(task: Task) -> Outcome:
    assert task.city is not None
    p, walks = float(task.settings["p"]), task.settings["paths"] == "any"
    grown = confidentiality.grow_groups(task.city, p, walks=walks)
    group = grown.of
    hidden = np.zeros(len(task.places), np.bool_)
    hidden[group[task.city.sensitive]] = True
    place = task.held.place.astype(np.int64)
    offsets, at, gone = confidentiality.grouped_paths(
        task.held.offsets, place, group, hidden, walks=walks
    )
    rows = Rows(offsets, at)
    who = task.mixed(np.flatnonzero(np.diff(offsets) > 0))
    records = rows.take(who)
    table = _grouped(task, records.offsets, records.items, group)
    sizes = np.bincount(group)[np.unique(group[task.city.sensitive])]
    facts = {
        "checked": {"every_path_keeps_p": confidentiality.holds(task.city, grown, p, walks=walks)},
        "groups": {"sensitive": int(sizes.size), "largest": int(sizes.max())},
        "map": {"made": list(task.made), "sensitive_places": int(task.city.sensitive.sum())},
        "times": "withheld",
    }
    said = words.p_confidentiality(p, walks, task.made)
    return Outcome(table, who, identical(rows)[who], said, facts, {"parts_withheld": gone})
