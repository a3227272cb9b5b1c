"""Metrics of synthetic trips beside true ones, as the field judges them. INTERNAL results.

Definitions are those of Gursoy et al. (AdaTrace, CCS 2018), so that figures stand beside published
ones, with one slip of their code left out: there a segment that does not move counts as inside
every query. Everything is computed on a plane in kilometres inside the box of the *true* trips,
which is private; so are all figures.

==================  =====================================================================
`query_R/3`, …      mean |true - synthetic| / max(true, 1 % of trips) over 200 discs: trips
                    that pass within the radius, R the longer side of the box
`trip_jsd`          (first, last) cell on 6 x 6
`length_jsd`        length of the path, 20 classes of the true range
`diameter_jsd`      largest distance of two points of a trip, alike
`pattern_f1`        share of the 100 most frequent runs of 2 to 8 cells (6 x 6) found again
`pattern_support`   mean relative error of their numbers
`kendall_tau`       ranks of cells (15 x 15) by trips that pass them
`density_jsd`       cells of 32 x 32, every trip weighing one
`hotspot_ndcg`      its five fullest cells
==================  =====================================================================

Jensen-Shannon divergences are in bits. A trip between two fixes is a straight line, followed at
quarter-cell steps. The synthetic trips are scaled to the number of true ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RADII = {"R/3": 1 / 3, "R/10": 1 / 10, "R/30": 1 / 30}
"""Radii of queries as shares of the longer side; the first two are those of published tables."""
_QUERIES = 200
_SEED = 7
"""Discs are drawn once and for all, so that two evaluations ask the same ones."""
_SANITY = 0.01
_TRIPS, _COVER, _DENSITY = 6, 15, 32
_CLASSES = 20
_TOP = 100
_LONGEST = 8
_HOT = 5
Box = tuple[float, float, float, float]
"""West, east, south, north on the plane."""


@dataclass(frozen=True, slots=True, eq=False)
class Trips:
    """Points of trips on a plane, one trip after the other; `starts` ends with their number."""

    x: Floats
    y: Floats
    starts: Ints

    def __post_init__(self) -> None:
        sizes = np.diff(self.starts)
        if self.starts.size < 2 or sizes.min() < 1 or self.starts[-1] != self.x.size:
            raise UsageError("Judging trips needs at least one trip, and no trip without a point.")

    def __len__(self) -> int:
        return int(self.starts.size - 1)

    @property
    def box(self) -> Box:
        """The smallest box around all points."""
        low_x, high_x = float(self.x.min()), float(self.x.max())
        low_y, high_y = float(self.y.min()), float(self.y.max())
        return low_x, max(high_x, low_x + 1e-9), low_y, max(high_y, low_y + 1e-9)

    def pick(self, which: Ints) -> Trips:
        """Some of the trips, in the order given."""
        sizes = np.diff(self.starts)[which]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(starts[-1]) + np.repeat(self.starts[which] - starts[:-1], sizes)
        return Trips(self.x[at], self.y[at], starts)


@compiled
def _passing(x: Floats, y: Floats, starts: Ints, cx: Floats, cy: Floats, r2: Floats) -> Ints:
    """Radius x disc: trips that come as near as the radius to the middle of the disc."""
    found = np.zeros((r2.size, cx.size), np.int64)
    for trip in range(starts.size - 1):
        first, last = starts[trip], starts[trip + 1] - 1
        for disc in range(cx.size):
            near = (x[first] - cx[disc]) ** 2 + (y[first] - cy[disc]) ** 2
            for k in range(first, last):
                dx, dy = x[k + 1] - x[k], y[k + 1] - y[k]
                square = dx * dx + dy * dy
                share = 0.0
                if square > 0:
                    share = ((cx[disc] - x[k]) * dx + (cy[disc] - y[k]) * dy) / square
                    share = min(max(share, 0.0), 1.0)
                ex, ey = x[k] + share * dx - cx[disc], y[k] + share * dy - cy[disc]
                near = min(near, ex * ex + ey * ey)
            for radius in range(r2.size):
                found[radius, disc] += near <= r2[radius]
    return found


@compiled
def _walk(x: Floats, y: Floats, starts: Ints, box: Floats, side: int, out: Ints) -> Ints:
    """Cells along every trip, each run of one cell once; where trips begin. Counts if `out` is
    empty."""
    wide, high = box[1] - box[0], box[3] - box[2]
    step = min(wide, high) / side / 4
    begins = np.zeros(starts.size, np.int64)
    n = 0
    for trip in range(starts.size - 1):
        before = -1
        for k in range(starts[trip], starts[trip + 1]):
            pieces, dx, dy = 1, 0.0, 0.0
            if k > starts[trip]:
                dx, dy = x[k] - x[k - 1], y[k] - y[k - 1]
                pieces = max(1, int(np.ceil(np.sqrt(dx * dx + dy * dy) / step)))
            for piece in range(1, pieces + 1):
                back = 1.0 - piece / pieces
                a = int((x[k] - back * dx - box[0]) / wide * side)
                b = int((y[k] - back * dy - box[2]) / high * side)
                cell = min(max(a, 0), side - 1) * side + min(max(b, 0), side - 1)
                if cell != before:
                    if out.size:
                        out[n] = cell
                    n += 1
                    before = cell
        begins[trip + 1] = n
    return begins


def cells_along(trips: Trips, box: Box, side: int) -> tuple[Ints, Ints]:
    """The cells of a `side` x `side` grid that each trip passes, in order, and their offsets."""
    bounds = np.array(box)
    begins = _walk(trips.x, trips.y, trips.starts, bounds, side, np.empty(0, np.int64))
    cells = np.empty(int(begins[-1]), np.int64)
    _walk(trips.x, trips.y, trips.starts, bounds, side, cells)
    return cells, begins


@compiled
def _grams(cells: Ints, begins: Ints, base: int, longest: int, out: Ints) -> int:
    """All runs of 2 to `longest` cells as one number each; a digit is never zero."""
    n = 0
    for trip in range(begins.size - 1):
        first, last = begins[trip], begins[trip + 1]
        for length in range(2, longest + 1):
            for k in range(first, last - length + 1):
                if out.size:
                    key = 0
                    for j in range(k, k + length):
                        key = key * base + cells[j] + 1
                    out[n] = key
                n += 1
    return n


@compiled
def _spans(x: Floats, y: Floats, starts: Ints) -> Floats:
    """Length and diameter of every trip."""
    found = np.zeros((2, starts.size - 1))
    for trip in range(starts.size - 1):
        widest = 0.0
        for k in range(starts[trip], starts[trip + 1]):
            if k > starts[trip]:
                found[0, trip] += np.sqrt((x[k] - x[k - 1]) ** 2 + (y[k] - y[k - 1]) ** 2)
            for j in range(starts[trip], k):
                widest = max(widest, (x[k] - x[j]) ** 2 + (y[k] - y[j]) ** 2)
        found[1, trip] = np.sqrt(widest)
    return found


def jensen_shannon_bits(p: Floats, q: Floats, *, normalise: bool = True) -> float:
    """Of two vectors of not negative numbers; 1 where one of them is empty and the other not."""
    if normalise:
        if p.sum() <= 0 or q.sum() <= 0:
            return 0.0 if p.sum() <= 0 and q.sum() <= 0 else 1.0
        p, q = p / p.sum(), q / q.sum()
    middle = np.where(p + q > 0, (p + q) / 2, 1.0)
    sides = [np.where(a > 0, a * np.log2(np.where(a > 0, a, 1.0) / middle), 0.0) for a in (p, q)]
    return float(sides[0].sum() + sides[1].sum()) / 2


@dataclass(frozen=True, slots=True, eq=False)
class _Profile:
    """Everything that is compared of one set of trips."""

    passing: Ints
    ends: Floats
    spans: Floats
    grams: tuple[Ints, Ints]
    """The most frequent first: runs of cells, and how often each occurs."""
    covered: Ints
    density: Floats


def _profile(trips: Trips, box: Box) -> _Profile:
    rng = np.random.default_rng(_SEED)
    cx, cy = rng.uniform(box[0], box[1], _QUERIES), rng.uniform(box[2], box[3], _QUERIES)
    radius = max(box[1] - box[0], box[3] - box[2]) * np.array(list(RADII.values()))
    coarse, begins = cells_along(trips, box, _TRIPS)
    ends = coarse[begins[:-1]] * _TRIPS**2 + coarse[begins[1:] - 1]
    base = _TRIPS**2 + 1
    keys = np.empty(_grams(coarse, begins, base, _LONGEST, np.empty(0, np.int64)), np.int64)
    if keys.size:
        _grams(coarse, begins, base, _LONGEST, keys)
    key, first, often = np.unique(keys, return_index=True, return_counts=True)
    order = np.lexsort((first, -often))  # of equally frequent ones the first seen
    cells, begins = cells_along(trips, box, _COVER)
    trip = np.repeat(np.arange(len(trips)), np.diff(begins))
    once = np.unique(trip * _COVER**2 + cells) % _COVER**2
    fine, begins = cells_along(trips, box, _DENSITY)
    weight = np.repeat(1 / np.diff(begins), np.diff(begins))
    return _Profile(
        _passing(trips.x, trips.y, trips.starts, cx, cy, np.square(radius)),
        np.bincount(ends, minlength=_TRIPS**4).astype(np.float64),
        _spans(trips.x, trips.y, trips.starts),
        (key[order], often[order]),
        np.bincount(once, minlength=_COVER**2),
        np.bincount(fine, weight, minlength=_DENSITY**2).astype(np.float64),
    )


class TripJudge:
    """Judges any number of synthetic sets against one set of true trips.

    Example:
        >>> import numpy as np
        >>> from sfumato.utility.trips import TripJudge, Trips
        >>> line = Trips(np.arange(6.0), np.arange(6.0), np.array([0, 3, 6]))
        >>> TripJudge(line).judge(line)["trip_jsd"]
        0.0
    """

    def __init__(self, truth: Trips, box: Box | None = None) -> None:
        self.box = box or truth.box
        self._size = len(truth)
        self._true = _profile(truth, self.box)

    def judge(self, synthetic: Trips) -> dict[str, float]:
        """The figures of the module's table."""
        one, other = self._true, _profile(synthetic, self.box)
        scale = self._size / len(synthetic)
        wanted = np.maximum(one.passing, _SANITY * self._size)
        error = (np.abs(one.passing - other.passing * scale) / wanted).mean(axis=1)
        found = {f"query_{name}": float(error[k]) for k, name in enumerate(RADII)}
        found["trip_jsd"] = jensen_shannon_bits(one.ends, other.ends)
        for k, name in enumerate(("length_jsd", "diameter_jsd")):
            found[name] = _classes_jsd(one.spans[k], other.spans[k])
        found |= _patterns(one.grams, other.grams, scale)
        found["kendall_tau"] = kendall_tau(one.covered, other.covered)
        found["density_jsd"] = jensen_shannon_bits(one.density, other.density)
        found["hotspot_ndcg"] = hotspot_ndcg(one.density, other.density)
        return found


def _classes_jsd(true: Floats, synthetic: Floats) -> float:
    """By classes from 0 to the true range; what lies outside is in neither histogram."""
    edges = np.linspace(0, max(float(np.ptp(true)), 1e-9), _CLASSES + 1)
    shares = [np.histogram(some, edges)[0] / some.size for some in (true, synthetic)]
    return jensen_shannon_bits(*shares, normalise=False)


def _patterns(true: tuple[Ints, Ints], made: tuple[Ints, Ints], scale: float) -> dict[str, float]:
    top, often = true[0][:_TOP], true[1][:_TOP]
    if top.size == 0:  # no trip leaves its cell
        return {"pattern_f1": float(made[0].size == 0), "pattern_support": 0.0}
    both = np.intersect1d(top, made[0][:_TOP]).size
    order = np.argsort(made[0])
    at = np.minimum(np.searchsorted(made[0][order], top), max(made[0].size - 1, 0))
    got = np.zeros(top.size)
    if made[0].size:
        same = made[0][order][at] == top
        got[same] = made[1][order][at][same] * scale
    f1 = 2 * both / (top.size + min(made[0].size, _TOP))
    return {"pattern_f1": f1, "pattern_support": float((np.abs(often - got) / often).mean())}


def kendall_tau(true: Ints, made: Ints) -> float:
    """Pairs in one order less pairs in the other, of all pairs.

    As in public code of the field, a pair that is tied in the made counts alone is reversed, and
    one that is tied in the true counts is neither: not SciPy's tau-b.
    """
    i, j = np.triu_indices(true.size, 1)
    one, other = np.sign(true[i] - true[j]), np.sign(made[i] - made[j])
    kept = one * other > 0
    return float(kept.sum() - ((one != 0) & ~kept).sum()) / max(i.size, 1)


def hotspot_ndcg(true: Floats, made: Floats, k: int = _HOT) -> float:
    """NDCG of the k fullest cells: the true rank r of a cell found is worth 1 / r."""
    wanted, got = (np.argsort(-some, kind="stable")[:k] for some in (true, made))
    gain = 1 / np.log2(np.arange(2, wanted.size + 2))
    rank = np.where(got[:, None] == wanted[None, :], 1 / np.arange(1, wanted.size + 1), 0.0)
    return float((rank.sum(axis=1) * gain).sum() / (gain / np.arange(1, wanted.size + 1)).sum())


def exact_repeats(trips: Trips, decimals: int = 4) -> float:
    """Share of trips that are the same, to a tenth of a metre, as an earlier one."""
    words = np.round(np.stack([trips.x, trips.y], axis=1) * 10**decimals).astype(np.int64)
    seen = {words[a:b].tobytes() for a, b in zip(trips.starts, trips.starts[1:], strict=False)}
    return 1 - len(seen) / len(trips)
