"""p-confidentiality (Cicek, Nergiz & Saygin 2014): the map is anonymised, not the trajectories.

Given a map of places and roads, how likely people stop at each place, and which places are
sensitive: places are grouped around the sensitive ones, and a record that passes a group says that
and no more. The adversary knows the path, the stop probabilities and that there was one stop on
the way through the group. Then

    P(the stop was at a sensitive place | one stop, path)
        = stop mass of the sensitive places on the path / stop mass of all places on the path,

which must be at most p for **every** simple path through the group between any entry and any exit.

Let places that are not sensitive cost their stop mass: a path that stopped at sensitive places of
total mass S must pay (1 - p) / p * S. That is bought by *moats*, as in the primal-dual method for
Steiner trees (Goemans & Williamson 1995): around every sensitive place rings of places grow, each
as wide as what the cheapest way across it costs. A simple path that visits a place inside crosses
each ring twice, by different places. Rings grow until the place's need is paid; rings that meet
become one, which goes on with the sum of what both still need. Rings share no place, so a path pays
each that it crosses. All places within an outermost ring are the group. The rings are kept, and
checked one by one (`holds`): disjoint, as wide as claimed (Dijkstra), and enough for every set of
sensitive places.

Paths that are not simple (in and out by the same road) and those that begin or end inside cross a
ring once: with `walks` rings are paid once, twice as far out, and the promise is about every walk.
Without it, what a record begins and ends with inside a group is withheld, and counted.

Dwell times are withheld, and so are all others: entry and exit times betray how long somebody
stayed, which tells a stop from a passage. A record that never leaves one group is left out. Map and
stop probabilities are public or made; the second is stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import Delaunay, QhullError, cKDTree

from sfumato.errors import InputError, UsageError
from sfumato.io.names import Role, missing, pick
from sfumato.io.places import id_texts, load_places
from sfumato.model.places import Places

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NEIGHBOURS = "neighbours"
"""Word for roads that are made: between places whose cells touch."""
MARGIN = 1e-9
"""Relative rounding of sums of stop masses: a ring so much too narrow is wide enough."""
_FROM = Role("from", frozenset({"from", "source", "start", "a", "u", "from_id", "node1"}))
_TO = Role("to", frozenset({"to", "target", "end", "b", "v", "to_id", "node2"}))
_PLACE = Role("place", frozenset({"place", "id", "tower", "zone", "tower_id", "zone_id", "node"}))
_STOPS = Role("stops", frozenset({"stops", "stop", "weight", "probability", "mass"}))


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Places and roads: what is public. Roads go both ways."""

    roads: Ints
    """Roads x 2 places."""
    stops: Floats
    """How likely people stop at each place, up to a factor."""
    sensitive: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.stops).all() and (self.stops >= 0).all()):
            raise UsageError("Stop probabilities are numbers that are not negative.")
        if not self.sensitive.any():
            raise UsageError(
                "No place is sensitive.", remedy="Name sensitive places with `sensitive`."
            )

    def costs(self) -> csr_array:
        """A step's cost is the stop mass of the place it leads to; sensitive ones are free."""
        ends = np.concatenate([self.roads, self.roads[:, ::-1]])
        ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
        price = np.where(self.sensitive, 0.0, self.stops)[ends[:, 1]]
        n = self.stops.size
        # A price of nothing is a road, not the lack of one: the smallest number there is.
        return csr_array((np.maximum(price, 5e-324), (ends[:, 0], ends[:, 1])), shape=(n, n))


@dataclass(frozen=True, slots=True, eq=False)
class Moat:
    """A ring: whoever leaves `outer` from within `inner` pays at least `width` in between."""

    inner: Ints
    outer: Ints
    width: float


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """For every place the smallest number in its group, and the rings that show that p holds."""

    of: Ints
    moats: tuple[Moat, ...]


def _needs(city: Map, p: float, walks: bool) -> dict[int, float]:
    """What the rings around each sensitive place must be wide together."""
    once = 1.0 if walks else 0.5
    matters = np.flatnonzero(city.sensitive & (city.stops > 0)).tolist()
    return {one: once * (1 - p) / p * float(city.stops[one]) for one in matters}


def grow_groups(city: Map, p: float, *, walks: bool = False) -> Groups:
    """Groups of places under which every path is p-confidential.

    Args:
        city: Places, roads, stops, and which places are sensitive.
        p: Largest probability that a stop was at a sensitive place.
        walks: Whether the promise is about every walk that leaves a group, not simple paths alone.

    Returns:
        The groups; a place in no group is one of its own.

    Raises:
        UsageError: p is no probability.
        InputError: There is no road, or a group would hold half of the map.

    Example:
        >>> line = np.column_stack([np.arange(8), np.arange(1, 9)])
        >>> seen = Map(line, np.ones(9), np.arange(9) == 4)
        >>> grow_groups(seen, 0.5).of.tolist()
        [0, 1, 2, 3, 3, 3, 6, 7, 8]
    """
    if not 0 < p < 1:
        raise UsageError("`p` is a probability between 0 and 1.")
    if not city.roads.size:
        raise InputError(
            "the map has no roads: nobody can pass a place that no road leads to.",
            remedy=f"Give `roads`, or `roads={NEIGHBOURS!r}` to make them from the places.",
        )
    costs = city.costs()
    need = _needs(city, p, walks)
    owner = np.full(city.stops.size, -1, np.int64)  # of every place whose rings it is in
    owner[list(need)] = list(need)
    whole = sum(need.values())
    moats = []
    while any(left > MARGIN * whole for left in need.values()):
        for one in [n for n, left in need.items() if left > MARGIN * whole]:
            if one not in need:  # it was met by another in this turn
                continue
            inner = np.flatnonzero(owner == one)
            outer, width = _ring(costs, city, inner, need[one])
            met = np.unique(owner[outer])
            met = met[(met >= 0) & (met != one)]
            if met.size:
                need[one] += sum(need.pop(int(other)) for other in met)
                owner[np.isin(owner, met)] = one
                continue
            if outer.size > city.stops.size / 2:
                raise InputError(
                    f"p = {p:g} would make one group of half of the map's "
                    f"{city.stops.size:,} places.",
                    remedy="Raise `p`, name fewer sensitive places, or take a larger map.",
                )
            owner[outer] = one
            need[one] -= width
            moats.append(Moat(inner, outer, width))
    of = np.arange(city.stops.size)
    for one in np.unique(owner[owner >= 0]):
        of[owner == one] = np.flatnonzero(owner == one)[0]
    return Groups(of, tuple(moats))


def _ring(costs: csr_array, city: Map, inner: Ints, need: float) -> tuple[Ints, float]:
    """The next ring around some places, and how wide it is: one place, or a part of the need."""
    around = np.setdiff1d(_neighbours_of(costs, inner), inner)
    price = np.where(city.sensitive, 0.0, city.stops)[around]
    if not around.size:  # nothing lies beyond: no entry and no exit, nothing to pay
        return inner, need
    # A sixteenth of the need at least, lest places where hardly anybody stops cost a turn each.
    width = min(need, max(float(price.min()), need / 16))
    far = dijkstra(costs, indices=inner, min_only=True, limit=width)
    near = np.flatnonzero(far < width * (1 - MARGIN))
    return np.unique(np.concatenate([near, _neighbours_of(costs, near)])), width


def _neighbours_of(costs: csr_array, places: Ints) -> Ints:
    reached = [costs.indices[costs.indptr[one] : costs.indptr[one + 1]] for one in places]
    return np.unique(np.concatenate(reached)).astype(np.int64)


def holds(city: Map, groups: Groups, p: float, *, walks: bool = False) -> bool:
    """Whether the rings show that every path through every group keeps p: the fast check.

    Rings share no place; crossing each costs what it claims; every sensitive place lies in one
    group with its rings; and of every set of sensitive places the rings that any of them is in
    pay the need of all. Rings are nested or apart, so the worst set is found from inside out.
    """
    costs = city.costs()
    n = city.stops.size
    used = np.zeros(n, np.bool_)
    # Of the sensitive places met so far: the most that any set of them is short of.
    short = {frozenset([one]): need for one, need in _needs(city, p, walks).items()}
    whole = sum(short.values())
    for moat in sorted(groups.moats, key=lambda one: one.inner.size):
        ring = np.setdiff1d(moat.outer, moat.inner)
        if used[ring].any() or np.unique(groups.of[moat.outer]).size != 1:
            return False
        used[ring] = True
        beyond = np.setdiff1d(_neighbours_of(costs, moat.outer), moat.outer)
        if beyond.size:
            # Only places of the ring cost anything; what lies inside is free.
            free = costs.copy()
            free.data = np.where(np.isin(free.indices, ring), free.data, 5e-324)
            far = dijkstra(free, indices=moat.inner, min_only=True)
            if far[beyond].min() < moat.width * (1 - 2 * MARGIN):
                return False
        inside = set(moat.inner.tolist())
        parts = [one for one in short if one <= inside]
        worst = [short.pop(one) for one in parts]
        together = sum(left for left in worst if left > 0) or max(worst, default=0.0)
        short[frozenset().union(*parts)] = together - moat.width
    return all(left <= 2 * MARGIN * whole for left in short.values())


def grouped_paths(
    offsets: Ints, place: Ints, group: Ints, hidden: NDArray[np.bool_], *, walks: bool = False
) -> tuple[Ints, Ints, int]:
    """Records as the groups they pass, in order, without times.

    Args:
        offsets: Person i has `offsets[i]:offsets[i + 1]` of `place`, in the order of time.
        place: The place of each.
        group: Of every place.
        hidden: Which groups hold something sensitive, by number.
        walks: Whether a record may begin or end in such a group; else that part is withheld.

    Returns:
        Offsets and groups of the records, none where nothing is left; and how many parts of
        records were withheld.
    """
    at = group[place]
    people = offsets.size - 1
    person = np.repeat(np.arange(people), np.diff(offsets))
    new = np.r_[True, (at[1:] != at[:-1]) | (person[1:] != person[:-1])]
    at, person = at[new], person[new]
    first = np.r_[True, person[1:] != person[:-1]]
    last = np.r_[first[1:], True]
    gone = hidden[at] & ((first & last) if walks else (first | last))
    many = np.bincount(person[~gone], minlength=people)
    return np.r_[0, np.cumsum(many)].astype(np.int64), at[~gone], int(gone.sum())


def read_roads(given: object, places: Places, centre: Floats) -> Ints:
    """Roads between places: from a table of pairs of ids, or made between neighbours.

    Raises:
        UsageError: There is nothing to read.
        InputError: The table names a place that is not there.
    """
    if given is None:
        raise UsageError(
            "The method needs a map of roads: a record passes places along them.",
            remedy=f"Give `roads`: a table of two places a row, or {NEIGHBOURS!r} to make them.",
        )
    if isinstance(given, str) and given == NEIGHBOURS:
        return _neighbours(centre)
    table = load_places(given, roles=(_FROM, _TO))
    ends = []
    for role in (_FROM, _TO):
        name = pick(table.names, role, {}, table.label)
        if name is None:
            raise missing(table.names, role, table.label)
        ends.append(_numbers(id_texts(table.attributes[name], name, table.label), places, table))
    return np.column_stack(ends)


def _neighbours(centre: Floats) -> Ints:
    try:
        corners = Delaunay(centre).simplices
        pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])
        # Gabriel's graph: nothing else in the circle over a road. It is connected, and has no
        # long roads around the rim of the map.
        ends = centre[pairs]
        half = np.hypot(*(ends[:, 1] - ends[:, 0]).T) / 2
        near = np.asarray(cKDTree(centre).query(ends.mean(axis=1))[0])
        pairs = pairs[near >= half * (1 - MARGIN)]
    except (QhullError, ValueError):  # fewer than three places, or all on a line
        order = np.lexsort((centre[:, 1], centre[:, 0]))
        pairs = np.column_stack([order[:-1], order[1:]])
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)


def read_stops(given: object, places: Places) -> Floats:
    """Stop probabilities of places from a table; equal ones where there is none."""
    if given is None:
        return np.ones(len(places))
    table = load_places(given, roles=(_PLACE, _STOPS))
    found = [pick(table.names, role, {}, table.label) for role in (_PLACE, _STOPS)]
    for name, role in zip(found, (_PLACE, _STOPS), strict=True):
        if name is None:
            raise missing(table.names, role, table.label)
    where = _numbers(
        id_texts(table.attributes[str(found[0])], str(found[0]), table.label), places, table
    )
    try:
        weight = np.array([float(v) for v in table.attributes[str(found[1])].to_pylist()])
    except (TypeError, ValueError):
        raise InputError(
            "stop probabilities are numbers.", file=table.label, column=str(found[1])
        ) from None
    if np.unique(where).size != len(places) or where.size != len(places):
        raise InputError(
            "every place has one stop probability, and some have none or two.",
            file=table.label,
            remedy="Give every place one row; 0 where nobody stops.",
        )
    out = np.empty(len(places))
    out[where] = weight
    return out


def _numbers(names: list[str], places: Places, table: object) -> Ints:
    known = {str(one): number for number, one in enumerate(places.ids)}
    absent = sorted({name for name in names if name not in known})
    if absent:
        raise InputError(
            f"{len(absent):,} places are not among those given, such as {absent[0][:40]!r}.",
            file=getattr(table, "label", None),
        )
    return np.array([known[name] for name in names], np.int64)


def named_places(given: object, places: Places) -> NDArray[np.bool_]:
    """Which places are named: ids in a list, between commas, or in a table with a column of ids."""
    out = np.zeros(len(places), np.bool_)
    if given is None:
        return out
    ids = {str(one) for one in places.ids}
    said = list(given) if isinstance(given, list | tuple | set) else None
    if (
        said is None
        and isinstance(given, str)
        and all(one.strip() in ids for one in given.split(","))
    ):
        said = [one.strip() for one in given.split(",")]
    if said is None:
        table = load_places(given, roles=(_PLACE,))
        name = pick(table.names, _PLACE, {}, table.label)
        if name is None:
            raise missing(table.names, _PLACE, table.label)
        said = id_texts(table.attributes[name], name, table.label)
        out[_numbers(said, places, table)] = True
        return out
    out[_numbers([str(one) for one in said], places, None)] = True
    return out
