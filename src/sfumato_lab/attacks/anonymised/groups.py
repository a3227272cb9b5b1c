"""Groups of people whose records are alike: what they have in common, and what two releases leave.

* *Homogeneity* (Machanavajjhala et al. 2007): whoever finds the group of a person learns what all
  of its members did, however large it is (Acs, Biczók & Castelluccia 2018, section 2.2).
* *Composition* (Ganta, Kasiviswanathan & Smith 2008): two independent k-anonymous releases that
  share people. The adversary knows the target's group in each; who is left are the people in
  both, of whom there may be one, however large k was.
* Suppressed tables (`derived`): what is left out follows from the sums that were published with
  it, and `shown_by_leaving`: from the table that was published before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.reidentify import wilson
from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.attacks.anonymised.visited import Floats, Ints, Visited

NO_GROUP = -1
ANY = 1 << 40
"""More than any count."""


@dataclass(frozen=True, slots=True)
class Homogeneity:
    """What a group gives away of its members; shares of 0 to 1."""

    people: int
    """In a group."""
    groups: int
    certain: float
    """Share of people with a visit that every member of their group made, in the same slot."""
    pairs: float
    """Share of visits that every member of the group made."""
    guess: float
    """Mean share of a group's members that made a visit of one of them."""


def homogeneity(group: Ints, held: Visited) -> Homogeneity:
    """Of groups by person, -1 for who is in none; a person alone is a group of one."""
    group = np.asarray(group, np.int64)
    if group.size != held.people:
        raise UsageError("Every person has one group, or none.")
    inside = group[held.user] != NO_GROUP
    who, pair = held.user[inside], held.pairs[inside]
    members = np.bincount(group[group != NO_GROUP])
    key = group[who] * np.int64(held.places * held.slots) + pair
    _, which, many = np.unique(key, return_inverse=True, return_counts=True)
    share = many[which] / members[group[who]]
    whole = share >= 1.0
    people = int((group != NO_GROUP).sum())
    return Homogeneity(
        people,
        int((members > 0).sum()),
        np.unique(who[whole]).size / max(people, 1),
        float(whole.mean()) if whole.size else 0.0,
        float(share.mean()) if share.size else 0.0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """People consistent with a target's groups in two releases, for everybody in both."""

    sizes: Ints
    k: int

    @property
    def median(self) -> float:
        return float(np.median(self.sizes)) if self.sizes.size else float("nan")

    def share_at_most(self, number: int) -> float:
        """Share of people with so few left; with 1 nobody but the target is."""
        return float((self.sizes <= number).mean()) if self.sizes.size else float("nan")


def left_after(one: Ints, other: Ints, *, k: int) -> Left:
    """Anonymity left of people who are in both releases.

    Args:
        one: Group of each common person in the first release, -1 for none.
        other: In the second one.
        k: That each release promises.

    Returns:
        For each of them who is in a group of both, how many common people share both groups. Those
        who are in one release alone fit neither pair.

    Example:
        >>> left_after(np.array([0, 0, 1]), np.array([5, 5, 5]), k=2).sizes.tolist()
        [2, 2, 1]
    """
    both = (one != NO_GROUP) & (other != NO_GROUP)
    pairs = np.column_stack((one[both], other[both]))
    _, which, many = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    return Left(many[which.ravel()].astype(np.int64), k)


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Bounds of what a table left out, from the sums published with it."""

    low: Ints
    high: Ints
    hidden: NDArray[np.bool_]

    @property
    def exact(self) -> float:
        """Share of the left-out counts that follow exactly."""
        same = self.low == self.high
        return float(same[self.hidden].mean()) if self.hidden.any() else 0.0

    @property
    def narrower(self) -> float:
        """Share of them that are not as uncertain as they were left."""
        wide = self.high - self.low
        most = wide[self.hidden].max(initial=0)
        return float((wide[self.hidden] < most).mean()) if self.hidden.any() else 0.0


def derived(
    table: Ints,
    k: int,
    *,
    of_place: Ints | None = None,
    of_slot: Ints | None = None,
    blocks: list[tuple[Ints, int]] | None = None,
    rounded: int = 0,
    others: bool = False,
) -> Derived:
    """Differencing of a suppressed table: what sums tell about the counts that are left out.

    Bounds are tightened sum by sum until nothing changes. Sound: the truth lies within them; an
    integer program might narrow some further.

    Args:
        table: Place x slot, -1 where a count is below k.
        k: Left-out counts are 0 to k - 1, published ones at least k.
        of_place: The published sum of each place, -1 where it is left out too.
        of_slot: The published sum of each slot.
        blocks: Other published sums, such as those of larger zones or longer slots: numbers of
            cells (place * slots + slot) and their sum.
        rounded: By how much published numbers, sums among them, may be off.
        others: Whether larger counts are left out, too, to protect the small ones.

    Returns:
        The bounds.

    Raises:
        UsageError: The sums contradict the table.
    """
    table = np.asarray(table, np.int64)
    places, slots = table.shape
    hidden = table < 0
    low = np.where(hidden, 0, np.maximum(table - rounded, k) if rounded else table).ravel()
    high = np.where(hidden, ANY if others else k - 1, table + rounded).ravel()
    cells = np.arange(table.size).reshape(places, slots)
    sums: list[tuple[Ints, int]] = list(blocks or [])
    for rows, totals in ((cells, of_place), (cells.T, of_slot)):
        if totals is not None:
            sums += [(row, int(t)) for row, t in zip(rows, totals, strict=True) if t >= 0]
    if sums:
        offsets = np.cumsum([0, *(members.size for members, _ in sums)]).astype(np.int64)
        members = np.concatenate([members for members, _ in sums]).astype(np.int64)
        totals = np.array([total for _, total in sums], np.int64)
        if not _tightened(low, high, offsets, members, totals - rounded, totals + rounded):
            raise UsageError(
                "The sums contradict the table.", remedy="Give sums of the same people and slots."
            )
    return Derived(low.reshape(table.shape), high.reshape(table.shape), hidden)


@compiled
def _tightened(
    low: Ints, high: Ints, offsets: Ints, members: Ints, above: Ints, below: Ints
) -> bool:
    """Sums lie from `above` to `below`. False where they contradict the bounds."""
    changed = True
    while changed:
        changed = False
        for s in range(above.size):
            least, most = np.int64(0), np.int64(0)
            for m in range(offsets[s], offsets[s + 1]):
                least += low[members[m]]
                most += high[members[m]]
            if least > below[s] or most < above[s]:
                return False
            for m in range(offsets[s], offsets[s + 1]):
                cell = members[m]
                up, down = low[cell] + below[s] - least, high[cell] - (most - above[s])
                if up < high[cell]:
                    most -= high[cell] - up
                    high[cell] = up
                    changed = True
                if down > low[cell]:
                    least += down - low[cell]
                    low[cell] = down
                    changed = True
    return True


@dataclass(frozen=True, slots=True)
class Shown:
    """Share of a person's visits that two tables give away, one with and one without them."""

    share: float
    low: float
    high: float
    visits: int


def shown_by_leaving(held: Visited, k: int, *, targets: int = 1_000, seed: int = 1) -> Shown:
    """Differencing of two suppressed tables, before and after a person has left.

    A visit shows where the earlier table has the count: the later one is smaller by one there, or
    lacks it.
    """
    counts = held.counts()
    who = np.random.default_rng([seed, k]).permutation(held.people)[:targets]
    own = held.take(np.sort(who))
    shown = counts[own.place, own.slot] >= k
    low, high = wilson(int(shown.sum()), shown.size)
    return Shown(float(shown.mean()) if shown.size else 0.0, low, high, shown.size)


def as_floats(table: Ints) -> Floats:
    """A suppressed table as the question of `visited` reads it: NaN where nothing is published."""
    return np.where(table < 0, np.nan, table.astype(np.float64))
