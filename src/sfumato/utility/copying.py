"""Does synthetic data copy people? Three checks against people who were held back. INTERNAL.

They illustrate a guarantee and replace none: a low figure means that *these* attacks failed. And
they are **never a gate**. Whether they pass depends on the private records, so to regenerate until
they do is another release, of one bit at least, that nobody charged.

Before the synthetic data was made, a fair coin was tossed for each person: *members* went in, the
others were *held back*. Members and held-back people then differ in nothing but having been
read. Every person (or trip) is a point; how far apart two of them are is the Euclidean distance.

* **Nearest neighbours.** `synthetic_nearer_members`: share of synthetic points whose nearest true
  point is a member, of as many members as held-back people: one half where nothing was copied.
  `distance_members`, `distance_held_back`: median distance from a person to the nearest synthetic
  point. `copies`: share of synthetic points that are some member exactly.
* **Membership.** The adversary says that somebody is a member where a synthetic point lies near.
  How near is chosen on one half of the people, and the advantage, true positive rate less false
  positive rate, is counted on the other half, both ways round. In a game with coins a round with
  the target and one without differ by one record added or removed, so no adversary's expected
  advantage exceeds `bound` = (e^eps - 1 + 2 delta) / (e^eps + 1) (Kairouz, Oh & Viswanath 2015;
  Humphries et al. 2023). The interval is Newcombe's (1998, method 10) at 95 %.
* **Outliers** (after Gursoy et al. 2018): the 5 % of people that lie farthest from their nearest
  true neighbour. `outliers_found`: advantage of the same adversary on them alone: people who stand
  out are the first to be recognised. Few people, so a wide interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.errors import UsageError
from sfumato.utility.mobility import Lives
from sfumato.utility.trips import Trips

Floats = NDArray[np.float64]
_SEED = 20_180_815
MOST = 5_000
"""People, and synthetic points, that are compared at most: searching takes seconds."""
_ALONG = 8
"""Points of a trip that it is compared by."""
_OUTLYING = 0.05
_Z = 1.959963984540054
"""Of a 95 % interval."""
NEVER_A_GATE = (
    "These checks are not a gate. Whether they pass depends on private records: to make the data "
    "again until they do is a release that nobody charged. The guarantee is the statement's; a "
    "low figure here only says that these attacks failed."
)


@dataclass(frozen=True, slots=True)
class Advantage:
    """True positive rate less false positive rate, with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Copying:
    """What the checks found; `bound` is what the guarantee allows the advantages to be."""

    synthetic_nearer_members: Advantage
    """One half where nothing was copied: a share, with its interval."""
    distance_members: float
    distance_held_back: float
    copies: float
    membership: Advantage
    outliers_found: Advantage
    bound: float
    people: int
    """Of members and of held-back people each."""

    def figures(self) -> dict[str, float]:
        """Plain numbers by name."""
        found = {
            "copy_distance_members": self.distance_members,
            "copy_distance_held_back": self.distance_held_back,
            "copies": self.copies,
            "membership_bound": self.bound,
            "copying_people": float(self.people),
        }
        parts = {
            "synthetic_nearer_members": self.synthetic_nearer_members,
            "membership_advantage": self.membership,
            "outlier_advantage": self.outliers_found,
        }
        for name, one in parts.items():
            found |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
        return found


def advantage_bound(epsilon: float, delta: float) -> float:
    """The most that (epsilon, delta), adding or removing one record, lets an advantage be."""
    if not math.isfinite(epsilon):
        return 1.0
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700)) + 1))


def trip_points(trips: Trips) -> Floats:
    """Each trip as its places after equal parts of its length: 2 x 8 numbers, in km.

    The distance of two trips is divided by the root of 8: the root mean square of theirs.
    """
    step = np.hypot(np.diff(trips.x), np.diff(trips.y))
    step[trips.starts[1:-1] - 1] = 0.0  # from one trip to the next nobody goes
    along = np.concatenate([[0.0], np.cumsum(step)])
    first, last = along[trips.starts[:-1]], along[trips.starts[1:] - 1]
    wanted = first[:, None] + (last - first)[:, None] * np.linspace(0, 1, _ALONG)
    at = np.searchsorted(along, wanted.ravel(), side="right") - 1
    trip = np.repeat(np.arange(len(trips)), _ALONG)
    low, high = trips.starts[trip], trips.starts[trip + 1] - 1
    at = np.clip(at, low, np.maximum(high - 1, low))
    after = np.minimum(at + 1, high)
    gap = along[after] - along[at]
    share = np.where(gap > 0, (wanted.ravel() - along[at]) / np.where(gap > 0, gap, 1.0), 0.0)
    share = np.clip(share, 0.0, 1.0)
    sides = [(side[at] + share * (side[after] - side[at])) for side in (trips.x, trips.y)]
    return np.stack(sides, axis=1).reshape(len(trips), 2 * _ALONG) / math.sqrt(_ALONG)


def life_points(lives: Lives, centres: Floats) -> Floats:
    """Each person as home, work and middle of all records (km), and the logarithm of activity.

    Where a person has no home or no work, the middle stands for it.
    """
    n = np.bincount(lives.user, minlength=lives.people)
    middle = np.stack(
        [np.bincount(lives.user, centres[lives.place, side], lives.people) / n for side in (0, 1)],
        axis=1,
    )
    parts = [middle]
    for place in (lives.homes(centres.shape[0]), lives.works(centres.shape[0])):
        parts.append(np.where(place[:, None] >= 0, centres[place], middle))
    return np.concatenate([*parts, np.log2(1.0 + n)[:, None]], axis=1)


def newcombe(hits: int, of: int, false_hits: int, false_of: int) -> Advantage:
    """Difference of two shares with its interval from Wilson's intervals of both."""
    p, low_p, high_p = _wilson(hits, of)
    q, low_q, high_q = _wilson(false_hits, false_of)
    low = p - q - math.sqrt((p - low_p) ** 2 + (high_q - q) ** 2)
    high = p - q + math.sqrt((high_p - p) ** 2 + (q - low_q) ** 2)
    return Advantage(p - q, low, high)


def _wilson(hits: int, of: int) -> tuple[float, float, float]:
    p, z2 = hits / of, _Z * _Z
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
    return p, max(0.0, middle - half), min(1.0, middle + half)


def copying_checks(
    members: Floats, held_back: Floats, synthetic: Floats, epsilon: float, delta: float
) -> Copying:
    """The checks of the module on points of people, person x feature.

    Args:
        members: People whose records went in.
        held_back: People like them whose records did not, by the toss of a coin each.
        synthetic: The made-up people.
        epsilon: Of the claim.
        delta: Of the claim.

    Returns:
        What was found, beside what the claim allows.

    Raises:
        UsageError: There are fewer than 40 people on a side, or no synthetic ones.

    Example:
        >>> import numpy as np
        >>> from sfumato.utility.copying import copying_checks
        >>> rng = np.random.default_rng(1)
        >>> inside, outside = rng.normal(size=(2, 400, 4))
        >>> copying_checks(inside, outside, inside, 1.0, 1e-6).membership.value > 0.9
        True
    """
    rng = np.random.default_rng(_SEED)
    size = min(members.shape[0], held_back.shape[0], MOST)
    if size < 40 or synthetic.shape[0] == 0:
        raise UsageError(
            "Copying checks need 40 people who went in, 40 who were held back, and synthetic ones.",
            remedy="Hold back more people, or leave `held_back` out.",
        )
    inside, outside = (
        some[rng.choice(some.shape[0], size, replace=False)] for some in (members, held_back)
    )
    made = synthetic[rng.choice(synthetic.shape[0], min(synthetic.shape[0], MOST), replace=False)]
    # Every synthetic point counts for the adversary: a copy of a member may be any of them.
    near = cKDTree(synthetic)
    people = np.concatenate([inside, outside])
    is_member = np.arange(2 * size) < size
    distance = _to_nearest(near, people)
    nearest = [_to_nearest(cKDTree(side), made) for side in (inside, outside)]
    ties = nearest[0] == nearest[1]
    decided = int((~ties).sum())
    share = _wilson(int((nearest[0] < nearest[1]).sum()), decided) if decided else (0.5, 0.0, 1.0)
    fold = rng.random(2 * size) < 0.5
    apart = _to_nearest(cKDTree(people), people, 2)
    outlying = apart >= np.quantile(apart, 1 - _OUTLYING)
    everybody = np.ones(2 * size, np.bool_)
    return Copying(
        Advantage(*share),
        float(np.median(distance[is_member])),
        float(np.median(distance[~is_member])),
        float((nearest[0] == 0).mean()),
        _played(distance, is_member, fold, everybody),
        _played(distance, is_member, fold, outlying),
        advantage_bound(epsilon, delta),
        size,
    )


def _to_nearest(tree: cKDTree, points: Floats, k: int = 1) -> Floats:
    """Distance from each point to the nearest in the tree, or to the k-th nearest."""
    return np.asarray(tree.query(points, k=[k])[0], np.float64)[:, 0]


def _played(
    distance: Floats, member: NDArray[np.bool_], fold: NDArray[np.bool_], who: NDArray[np.bool_]
) -> Advantage:
    """Advantage on each fold with the threshold of the other."""
    hits = false_hits = of = false_of = 0
    for test in (fold & who, ~fold & who):
        rest = who & ~test
        if not (member[test].any() and (~member[test]).any() and rest.any()):
            continue
        near = distance[test] <= _threshold(distance[rest], member[rest])
        hits, of = hits + int((near & member[test]).sum()), of + int(member[test].sum())
        false_hits += int((near & ~member[test]).sum())
        false_of += int((~member[test]).sum())
    return newcombe(hits, of, false_hits, false_of) if of and false_of else Advantage(0, -1, 1)


def _threshold(distance: Floats, member: NDArray[np.bool_]) -> float:
    """The distance up to which "a member" is right most often."""
    order = np.argsort(distance, kind="stable")
    gain = np.where(member, 1 / max(int(member.sum()), 1), -1 / max(int((~member).sum()), 1))
    total = np.cumsum(gain[order])
    ends = np.append(np.diff(distance[order]) > 0, True)  # equal distances go together
    return float(distance[order][np.argmax(np.where(ends, total, -np.inf))])
