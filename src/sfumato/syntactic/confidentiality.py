"""p-confidentiality (Cicek, Nergiz & Saygin 2014): the map is anonymised, not the trajectories.

Given a map of places and roads, how likely people stop at each place, and which places are
sensitive: places are grouped around the sensitive ones, and a record that passes a group says that
and no more. The adversary knows the path, the stop probabilities and that there was one stop on
the way through the group. Then

    P(the stop was at a sensitive place | one stop, path)
        = stop mass of the sensitive places on the path / stop mass of all places on the path,

which must be at most p for **every** simple path through the group between any entry and any exit.

The groups here satisfy more. Take costs of places that are not sensitive (their stop mass), and
let S be the stop mass of a group's sensitive places. If the cheapest way from any of these to any
entry costs at least (1 - p) / p * S, then whatever walk touches the border and a sensitive place,
simple or not, ending inside or not, pays that much: its share is at most S / (S + (1 - p) S / p)
= p. The cheapest way is one search from all sensitive places at once (Dijkstra), so groups are
grown to exactly that distance and checked by the same number; groups that meet become one.

Dwell times are withheld, and so are all others: entry and exit times betray how long somebody
stayed, which tells a stop from a passage. A record that never leaves one group has no entry to
hide behind, and is left out and counted. Map and stop probabilities are public or made; the second
is stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import Delaunay, QhullError

from sfumato.errors import InputError, UsageError
from sfumato.io.names import Role, missing, pick
from sfumato.io.places import id_texts, load_places
from sfumato.model.places import Places
from sfumato.syntactic.published import Areas, Items

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NEIGHBOURS = "neighbours"
"""Word for roads that are made: between places whose cells touch."""
MARGIN = 1e-9
"""Relative rounding of sums of stop masses: a border so much too near is at its distance."""
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


def grow_groups(city: Map, p: float) -> Ints:
    """The group of every place: groups with sensitive places are p-confidential.

    Args:
        city: Places, roads, stops, and which places are sensitive.
        p: Largest probability that a stop was at a sensitive place.

    Returns:
        For every place the smallest number in its group; a place in no group has its own.

    Raises:
        UsageError: p is no probability.
        InputError: There is no road, or a group would hold half of the map.

    Example:
        >>> line = np.column_stack([np.arange(8), np.arange(1, 9)])
        >>> seen = Map(line, np.ones(9), np.arange(9) == 4)
        >>> grow_groups(seen, 0.5).tolist()
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
    matters = np.flatnonzero(city.sensitive & (city.stops > 0))
    core: Ints = np.arange(matters.size)  # which sensitive places are one group so far
    group = np.arange(city.stops.size)
    while True:
        members, owners = [], []
        for one in np.unique(core):
            inside = _around(costs, city, matters[core == one], p)
            members.append(inside)
            owners.append(np.full(inside.size, one))
        place = np.concatenate([*members, np.empty(0, np.int64)])
        owner = np.concatenate([*owners, np.empty(0, np.int64)])
        # Groups that share a place are one.
        order = np.argsort(place, kind="stable")
        again = np.flatnonzero(place[order][1:] == place[order][:-1])
        if not again.size:
            break
        links = (np.ones(again.size), (owner[order][again], owner[order][again + 1]))
        shape = (matters.size, matters.size)
        joined = connected_components(csr_array(links, shape=shape), directed=False)[1]
        core = np.asarray(joined[core], np.int64)
    for inside in members:
        group[inside] = inside.min()
        if inside.size > city.stops.size / 2:
            raise InputError(
                f"p = {p:g} would make one group of {inside.size:,} of the map's "
                f"{city.stops.size:,} places.",
                remedy="Raise `p`, name fewer sensitive places, or take a larger map.",
            )
    return group


def _around(costs: csr_array, city: Map, core: Ints, p: float) -> Ints:
    """All places whose cheapest way from the core is too short, and their neighbours."""
    need = (1 - p) / p * float(city.stops[core].sum()) * (1 - MARGIN)
    far = dijkstra(costs, indices=core, min_only=True, limit=need)
    near = np.flatnonzero(far < need)
    rim = np.concatenate([costs.indices[costs.indptr[one] : costs.indptr[one + 1]] for one in near])
    return np.unique(np.concatenate([near, rim]))


def worst_share(city: Map, group: Ints) -> Floats:
    """A bound of the sensitive share on every path through every group: the fast check.

    For each place that stands for its group; 0 where nothing sensitive is in it.
    """
    costs = city.costs()
    out = np.zeros(city.stops.size)
    coo = costs.tocoo()
    outside = np.zeros(group.size, np.bool_)
    np.logical_or.at(outside, coo.row, group[coo.row] != group[coo.col])
    for one in np.unique(group[city.sensitive & (city.stops > 0)]):
        here = np.flatnonzero(group == one)
        within = costs[here][:, here]
        core = np.flatnonzero((city.sensitive & (city.stops > 0))[here])
        mass = float(city.stops[here[core]].sum())
        far = dijkstra(within, indices=core, min_only=True)
        border = far[outside[here]]
        out[one] = 0.0 if not border.size else mass / (mass + float(border.min()))
    return out


def grouped_paths(offsets: Ints, place: Ints, group: Ints, hidden: NDArray[np.bool_]) -> Items:
    """Records as the groups they pass, in order, without times; nothing of who stays in one.

    Args:
        offsets: Person i has `offsets[i]:offsets[i + 1]` of `place`, in the order of time.
        place: The place of each.
        group: Of every place.
        hidden: Which groups hold something sensitive, by number.
    """
    at = group[place]
    people = offsets.size - 1
    person = np.repeat(np.arange(people), np.diff(offsets))
    new = np.r_[True, (at[1:] != at[:-1]) | (person[1:] != person[:-1])]
    steps = np.bincount(person[new], minlength=people)
    first = at[offsets[:-1]]
    stays = (steps == 1) & hidden[first]
    keep = new & ~stays[person]
    many = np.where(stays, 0, steps)
    bounds = np.r_[0, np.cumsum(many)].astype(np.int64)
    none = np.full(int(keep.sum()), -1, np.int32)
    empty = Areas((), np.zeros(1, np.int64), np.empty(0, np.int64))
    return Items(bounds, at[keep].astype(np.int32), none, none.copy(), empty)


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
