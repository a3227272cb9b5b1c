"""The definitions as they are written down, by brute force: what the methods are held against.

Nothing here imports the package: each is read off the definition, for small instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import dist, isnan

Point = tuple[float, float]


def k_anonymous(records: Sequence[object], k: int) -> bool:
    """Definition 1: for each record there are at least k - 1 others that are the same."""
    return all(sum(other == one for other in records) >= k for one in records)


def km_anonymous(records: Sequence[set[object]], k: int, m: int) -> bool:
    """Definition 2: for any m items (and so for fewer) 0 or at least k records contain them."""
    universe = sorted(set().union(*records), key=repr) if records else []
    for size in range(1, m + 1):
        for items in combinations(universe, size):
            containing = sum(set(items) <= record for record in records)
            if 0 < containing < k:
                return False
    return True


def _has_subsequence(record: Sequence[object], wanted: Sequence[object]) -> bool:
    rest = iter(record)
    return all(any(one == other for other in rest) for one in wanted)


def km_anonymous_in_order(records: Sequence[Sequence[object]], k: int, m: int) -> bool:
    """Definition 2 where items have an order: any m places of a record, in its order."""
    for size in range(1, m + 1):
        known = {part for record in records for part in combinations(record, size)}
        for wanted in known:
            if sum(_has_subsequence(record, wanted) for record in records) < k:
                return False
    return True


def k_delta_anonymous(records: Sequence[Sequence[Point]], k: int, delta: float) -> bool:
    """(k, delta): each trajectory is in a set of k of which any two are within delta, always.

    Trajectories are within delta if they have positions at the same instants and are never
    farther apart there.
    """

    def close(one: Sequence[Point], other: Sequence[Point]) -> bool:
        for here, there in zip(one, other, strict=True):
            if isnan(here[0]) != isnan(there[0]):
                return False
            if not isnan(here[0]) and dist(here, there) > delta + 1e-3:
                return False
        return True

    near = [{j for j, other in enumerate(records) if close(one, other)} for one in records]

    def clique(chosen: list[int], candidates: set[int]) -> bool:
        if len(chosen) == k:
            return True
        return any(
            clique([*chosen, one], candidates & near[one] - {one}) for one in sorted(candidates)
        )

    return all(clique([i], near[i] - {i}) for i in range(len(records)))


def shares_in_k_records(
    records: Sequence[set[object]], k: int, m: int
) -> tuple[Fraction, Fraction]:
    """Probabilistic k^m: the exact share of m-itemsets in at least k records, by either law.

    First uniformly over the distinct m-itemsets that occur; then a record uniformly and m of its
    items uniformly (all of them where it has fewer).
    """

    def enough(items: Iterable[object]) -> bool:
        return sum(set(items) <= record for record in records) >= k

    occurring = {frozenset(part) for record in records for part in combinations(record, m)}
    of_sets = Fraction(sum(map(enough, occurring)), len(occurring)) if occurring else Fraction(1)
    own = []
    for record in records:
        parts = list(combinations(record, min(m, len(record))))
        own.append(Fraction(sum(map(enough, parts)), len(parts)))
    return of_sets, sum(own, Fraction(0)) / len(own)


def _simple_paths(
    roads: Mapping[int, set[int]], inside: set[int], path: list[int]
) -> Iterable[list[int]]:
    yield path
    for there in roads[path[-1]] & inside - set(path):
        yield from _simple_paths(roads, inside, [*path, there])


def p_confidential(
    roads: Mapping[int, set[int]],
    stops: Sequence[Fraction],
    sensitive: set[int],
    groups: Sequence[set[int]],
    p: Fraction,
) -> bool:
    """Sensitive over all stop mass is at most p on every simple path from an entry to an exit."""
    for group in groups:
        doors = {one for one in group if roads[one] - group}
        for entry in doors:
            for path in _simple_paths(roads, group, [entry]):
                if path[-1] not in doors:
                    continue
                mass = sum((stops[one] for one in path), Fraction(0))
                bad = sum((stops[one] for one in path if one in sensitive), Fraction(0))
                if bad > p * mass:
                    return False
    return True


def confidential_on_walks(
    roads: Mapping[int, set[int]],
    stops: Sequence[Fraction],
    sensitive: set[int],
    groups: Sequence[set[int]],
    p: Fraction,
) -> bool:
    """The same for every walk that leaves a group: any connected part of it with a door."""
    for group in groups:
        doors = {one for one in group if roads[one] - group}
        for size in range(1, len(group) + 1):
            for part in map(set, combinations(sorted(group), size)):
                if not part & doors or not _connected(roads, part):
                    continue
                mass = sum((stops[one] for one in part), Fraction(0))
                if sum((stops[one] for one in part & sensitive), Fraction(0)) > p * mass:
                    return False
    return True


def _connected(roads: Mapping[int, set[int]], part: set[int]) -> bool:
    seen = {min(part)}
    todo = [min(part)]
    while todo:
        more = roads[todo.pop()] & part - seen
        seen |= more
        todo += more
    return seen == part


def determined_cells(
    table: Sequence[Sequence[int]], hidden: set[tuple[int, int]], most: int
) -> set[tuple[int, int]]:
    """Hidden cells of a table with sums that are the same in every table that fits what is shown.

    All tables of whole numbers up to `most` are tried; the last row and column are the sums.
    """
    rows, columns = len(table) - 1, len(table[0]) - 1
    inner = [(r, c) for r in range(rows) for c in range(columns)]
    values: dict[tuple[int, int], set[int]] = {cell: set() for cell in hidden}
    trial = [[0] * (columns + 1) for _ in range(rows + 1)]

    def fits() -> bool:
        for r in range(rows):
            trial[r][columns] = sum(trial[r][:columns])
        for c in range(columns + 1):
            trial[rows][c] = sum(trial[r][c] for r in range(rows))
        sums = [(r, columns) for r in range(rows)] + [(rows, c) for c in range(columns + 1)]
        return all(trial[r][c] == table[r][c] for r, c in sums if (r, c) not in hidden)

    def fill(at: int) -> None:
        if at == len(inner):
            if fits():
                for r, c in hidden:
                    values[r, c].add(trial[r][c])
            return
        r, c = inner[at]
        for value in range(most + 1) if (r, c) in hidden else (table[r][c],):
            trial[r][c] = value
            fill(at + 1)

    fill(0)
    return {cell for cell, found in values.items() if len(found) == 1}
