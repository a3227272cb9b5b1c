"""Temporal filters: known rhythms, unknown rhythms, and a Wiener filter for the rest.

**Known rhythms**: an orthonormal basis of what a city is expected to do with the clock. Weekday
against weekend, single days that differ, and waves of the day (24 h, 12 h, …), the
same for all days and apart for weekends, each under the envelope of the city's own activity.
The basis is built from the public calendar and noisy totals; features that the period does
not have (no weekend in it, one slot a day) drop out.

**Unknown rhythms**: the low-rank part of a noisy matrix, by singular values. A matrix of
independent noise with standard deviation sigma has its largest singular value
near sigma * (sqrt(n) + sqrt(m)); what rises above it is signal that many places share. Counts
vary by chance on top of the noise that was added, so the level of the noise is read from
the middle of the spectrum, which signal of low rank does not reach (Gavish & Donoho 2014).

**The rest in time**: a Wiener filter whose kernel is a likely mixture of known kernels. Rows
(places) are independent draws of a Gaussian process over slots plus white noise of
known variance. Its covariance is a non-negative mixture of kernels a city may have: daily
periodic, periodic within weekdays and weekends, the day as a whole, slow and fast changes,
and white variation of the counts themselves. The mixture is found by maximum likelihood (a
multiplicative fixed point that never leaves the positive orthant); the filter is then the
posterior mean, direction by direction of its own basis. Directions that were explained before
are taken out of the model. Where a direction stands out of the white variation, neighbours may
be asked too: a filter in space can be given for those.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.spatial import Filtered
from sfumato.model.matrices import firm
from sfumato.model.tiles import beside, is_large, tiles
from sfumato.model.time_grid import HourCalendar

WAVES = 4
"""Waves of the day. Two: error .0876 / .0672 / .0520 at epsilon 0.1 / 0.3 / 1; four: .0873 / .0646
/ .0516; six: .0895 / .0641 / .0514, worse where noise is strong (docs/decisions/bayes.md)."""
_INDEPENDENT = 1e-6
"""Share of its norm that a feature must have left beside the others: less is rounding."""


def rhythm_basis(calendar: HourCalendar, envelope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slots x features, orthonormal columns, at most half as many as there are slots."""
    slots = calendar.hour.size
    weekend = calendar.weekend.astype(np.float64)
    features = [weekend, calendar.weekday == 5, calendar.weekday == 4]
    waves = min(WAVES, int((calendar.slots_per_day - 1) // 2))
    for order in range(1, waves + 1):
        angle = 2 * np.pi * order * calendar.hour / 24
        for wave in (np.cos(angle), np.sin(angle)):
            features += [wave, weekend * wave]
    columns: list[NDArray[np.float64]] = []
    for feature in features:
        column = np.asarray(feature, dtype=np.float64) * envelope
        size = np.linalg.norm(column)
        for known in columns:  # Gram-Schmidt, twice is enough for rounding
            column = column - known * (known @ column)
        for known in columns:
            column = column - known * (known @ column)
        rest = np.linalg.norm(column)
        if size > 0 and rest > _INDEPENDENT * size and len(columns) < slots // 2:
            columns.append(column / rest)
    return np.column_stack(columns) if columns else np.zeros((slots, 0))


Matrix = NDArray[np.float64]
_MARGIN = 1.02
"""How far above the edge of pure noise a singular value must stand."""


def noise_edge(rows: int, columns: int, sigma: float) -> float:
    """Where the singular values of pure noise end."""
    return sigma * float(np.sqrt(rows) + np.sqrt(columns))


@functools.cache
def middle_of_noise(rows: int, columns: int) -> float:
    """Median singular value of unit noise of that shape (Marchenko & Pastur 1967)."""
    small, large = min(rows, columns), max(rows, columns)
    beta = small / large
    low, high = (1 - np.sqrt(beta)) ** 2, (1 + np.sqrt(beta)) ** 2
    x = np.linspace(low, high, 20_001)
    density = np.sqrt(np.maximum((high - x) * (x - low), 0.0)) / np.maximum(x, 1e-12)
    share = np.cumsum(density)
    return float(np.sqrt(np.interp(0.5, share / share[-1], x) * large))


class Spectrum:
    """Singular values (falling) and left vectors of a table; right vectors when asked for.

    Of a large table with more columns than rows they come from the eigenbasis of its rows' products
    (the method of snapshots; Sirovich 1987), which takes a fifth of the time and no table beside.
    That squares the condition: values below 1e-8 of the largest would be rounding, and what is read
    here lies at the level of the noise or above.
    """

    def __init__(self, table: NDArray[Any]) -> None:
        self._table: NDArray[Any] | None = None
        if not is_large(table.shape) or table.shape[0] > table.shape[1]:
            self.left, self.values, self._right = np.linalg.svd(table, full_matrices=False)
            return
        # In double precision whatever the table is kept in: values are roots of these.
        products, rows = np.zeros((table.shape[0], table.shape[0])), table.shape[0]
        for some in tiles((table.shape[1], rows)):
            part = table[:, some].astype(np.float64, copy=False)
            products += part @ part.T
        power, left = np.linalg.eigh(products)
        self.values = np.sqrt(np.maximum(power[::-1], 0.0))
        self.left, self._table = left[:, ::-1], table

    def right(self, which: NDArray[np.int64] | slice) -> Matrix:
        """Right vectors of these values, as rows."""
        if self._table is None:
            found: Matrix = self._right[which]
            return found
        some = np.maximum(self.values[which], 1e-300)[:, None]
        found = np.asarray(self.left[:, which].T.astype(self._table.dtype) @ self._table, float)
        found /= some
        return found


def effective_noise(
    matrix: Matrix, columns: int | None = None, parts: Spectrum | None = None
) -> float:
    """Standard deviation of everything in the matrix that has no low rank.

    `columns` is the number of dimensions left where some were projected out before; `parts` its
    spectrum, where it is known.
    """
    rows, width = matrix.shape
    alive = min(rows, columns or width)
    if alive < 1:
        return 0.0
    values = np.linalg.svd(matrix, compute_uv=False) if parts is None else parts.values
    return float(np.median(values[:alive])) / middle_of_noise(rows, columns or width)


def components(
    matrix: Matrix,
    sigma: float,
    columns: int | None = None,
    parts: Spectrum | None = None,
    most: int = 40,
) -> tuple[Matrix, Matrix, Matrix]:
    """Left vectors, noisy values and right vectors of what rises above the noise."""
    parts = parts or Spectrum(matrix)
    edge = _MARGIN * noise_edge(matrix.shape[0], columns or matrix.shape[1], sigma)
    rank = min(int((parts.values > edge).sum()), most)
    right = parts.right(slice(rank)).T
    sign = directed(right)
    return parts.left[:, :rank] * sign, parts.values[:rank], right * sign


def directed(columns: Matrix) -> NDArray[np.float64]:
    """1 or -1 for each column: which way a singular vector points is up to the processor, and
    what is drawn along it must not be."""
    fixed = np.random.default_rng(_SEED).standard_normal(columns.shape[0])
    return np.where(fixed @ columns < 0, -1.0, 1.0)


_SEED = 20170403
TILT = 1e-6
"""How much of the strongest direction is added to tell those of equal strength apart."""
_ROUNDS = 120
"""Steps of the multiplicative fixed point."""
_LARGEST = 400
"""Slots above which the filter works on equal spans of at most this length, one by one."""
_CLEARLY = 3.0
"""Difference of log likelihoods from which a mixture is more than noise."""
_SHARED = 0.05
"""Variance beyond the white one, in units of the noise, from which neighbours are asked."""

FieldFilter = Callable[[NDArray[np.float64], float], Filtered]
"""From a noisy field over places and its noise variance to its posterior."""


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Posterior mean and variance (rows x slots), and the mixture found."""

    mean: NDArray[Any]
    variance: NDArray[Any]
    mixture: NDArray[np.float64]
    errors: Callable[[np.random.Generator, int], Iterator[Matrix]]
    """Draws (rows x slots) of the posterior around its mean, one after the other: each is to be
    used before the next is asked for."""


def kernels(calendar: HourCalendar) -> list[Matrix]:
    """The kernels of the mixture, each with a unit diagonal; the last one is white."""
    at, hour = calendar.at, calendar.hour
    apart = np.abs(at[:, None] - at[None])
    on_clock = np.abs(hour[:, None] - hour[None])
    on_clock = np.minimum(on_clock, 24 - on_clock)
    daily = np.exp(-np.square(on_clock) / (2 * 1.5**2))
    same_kind = calendar.weekend[:, None] == calendar.weekend[None]
    same_day = calendar.day[:, None] == calendar.day[None]
    return [
        daily,
        daily * same_kind,
        same_day.astype(np.float64),
        np.exp(-np.square(apart) / (2 * 2.5**2)),
        np.exp(-apart / 36.0),
        np.eye(at.size),
    ]


def wiener(
    rows: Matrix,
    noise_variance: float,
    calendar: HourCalendar,
    removed: Matrix,
    in_space: FieldFilter | None = None,
    chance: float = 0.0,
) -> Smoothed:
    """Filter every row; `removed` (slots x k, orthonormal) spans what the rows lack, `chance` is
    the white variation that independent visits would have.

    A long period is filtered span by span. Where spans are alike (whole weeks), those of the
    commonest kind are draws of one process: the mixture is found once, from all of them.
    """
    spans = spans_of(calendar)
    if len(spans) == 1:
        return _wiener(rows, noise_variance, kernels(calendar), removed, in_space, chance)
    alike: dict[bytes, list[slice]] = {}
    for span in spans:
        alike.setdefault(_kind(_piece(calendar, span)), []).append(span)
    commonest = max(alike.values(), key=len)
    mixture = None
    if len(commonest) > 1 and noise_variance > 0.0:
        shapes = kernels(_piece(calendar, commonest[0]))
        each = rows.shape[0] * len(commonest)
        moments = sum((rows[:, span].T @ rows[:, span] for span in commonest), 0.0 * shapes[0])
        mixture = _mixture(moments / max(each, 1), shapes, noise_variance, chance, each)
    kind = beside(rows.shape)
    mean, variance = np.empty(rows.shape, dtype=kind), np.empty(rows.shape, dtype=kind)
    drawn, found = [], []
    for span in spans:
        part = _wiener(
            rows[:, span],
            noise_variance,
            kernels(_piece(calendar, span)),
            np.zeros((span.stop - span.start, 0)),
            in_space,
            chance,
            mixture,
        )
        mean[:, span], variance[:, span] = part.mean, part.variance
        drawn.append(part.errors)
        found.append(part.mixture)

    def errors(rng: np.random.Generator, count: int) -> Iterator[Matrix]:
        one = np.empty((drawn_rows, slots))
        for _ in range(count):
            for span, errors_of in zip(spans, drawn, strict=True):
                one[:, span] = next(errors_of(rng, 1))
            yield one

    drawn_rows, slots = rows.shape
    return Smoothed(mean, variance, found[0], errors)


def spans_of(calendar: HourCalendar) -> list[slice]:
    """Slots in spans of at most `_LARGEST`: halves, and from three on whole weeks (or days, where a
    week has more slots), so that most are alike; the last one takes what is left over."""
    slots = calendar.at.size
    count = -(-slots // _LARGEST)
    day = round(calendar.slots_per_day)
    step = next((unit * (_LARGEST // unit) for unit in (7 * day, day) if 0 < unit <= _LARGEST), 0)
    if count < 3 or not step:
        edges = [slots * k // count for k in range(count + 1)]
    else:
        edges = [*range(0, slots, step), slots]
        if edges[-1] - edges[-3] <= _LARGEST:
            del edges[-2]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _piece(calendar: HourCalendar, span: slice) -> HourCalendar:
    return HourCalendar(*(getattr(calendar, name)[span] for name in calendar.__slots__))


def _kind(piece: HourCalendar) -> bytes:
    """Equal for spans with equal kernels."""
    clock = (piece.at - piece.at[0], piece.hour, piece.weekend, piece.day - piece.day[0])
    return np.column_stack(clock).tobytes()


def _mixture(
    moments: Matrix, shapes: list[Matrix], noise: float, chance: float, rows: int
) -> NDArray[np.float64]:
    """Weights of the kernels; all zero where they explain the rows no better than noise does."""
    found = _likeliest(moments, shapes, noise, chance)
    return found if _stands_out(moments, shapes, found, noise, rows) else np.zeros(len(shapes))


def _wiener(
    rows: Matrix,
    noise: float,
    shapes: list[Matrix],
    removed: Matrix,
    in_space: FieldFilter | None,
    chance: float,
    mixture: NDArray[np.float64] | None = None,
) -> Smoothed:
    slots = rows.shape[1]
    if noise <= 0.0 or removed.shape[1] >= slots:
        return Smoothed(
            rows.copy(),
            np.zeros(rows.shape),
            np.zeros(len(shapes)),
            lambda rng, count: iter(np.zeros((count, *rows.shape))),  # noqa: ARG005 - no noise
        )
    whole = np.linalg.qr(np.column_stack((removed, np.eye(slots))))[0]
    rest = whole[:, removed.shape[1] : slots]
    inner = [rest.T @ shape @ rest for shape in shapes]
    if mixture is None:
        seen = rows @ rest
        moments = seen.T @ seen / max(rows.shape[0], 1)
        mixture = _mixture(moments, inner, noise, chance, rows.shape[0])
    nothing = np.zeros((rest.shape[1], rest.shape[1]))
    signal = sum((w * k for w, k in zip(mixture, inner, strict=True)), nothing)
    # Sine and cosine of a day are equally strong: without a tilt, rounding would choose the axes.
    tilt = TILT * float(np.abs(signal).max()) * np.linspace(0.0, 1.0, slots)
    power, directions = np.linalg.eigh(signal + rest.T @ (tilt[:, None] * rest))
    power = np.maximum(power, 0.0)
    lifted = rest @ directions
    lifted *= directed(lifted)
    along = rows @ lifted
    mean = along * (power / (power + noise))
    alone = power * noise / (power + noise)
    variance = np.broadcast_to(alone, along.shape).copy()
    fields: dict[int, Filtered] = {}
    if in_space is not None:
        for k in np.flatnonzero(power - mixture[-1] > _SHARED * noise):
            field = in_space(along[:, k], noise)
            mean[:, k], variance[:, k] = field.mean, field.variance
            fields[int(k)] = field

    shape = rows.shape

    def errors(rng: np.random.Generator, count: int) -> Iterator[Matrix]:
        found = rng.standard_normal((count, *shape)) @ lifted * np.sqrt(alone)
        for k, field in fields.items():
            found[:, :, k] = field.errors(rng, count).T
        return (one @ lifted.T for one in found)

    return Smoothed(mean @ lifted.T, variance @ np.square(lifted).T, mixture, errors)


def _stands_out(
    moments: Matrix, shapes: list[Matrix], mixture: NDArray[np.float64], noise: float, rows: int
) -> bool:
    """Whether the mixture explains the rows clearly better than noise alone.

    The fixed point never reaches zero, and the little that it leaves where nothing is seen is no
    signal: with 200,000 people at epsilon 0.1 it made intervals half as wide again.
    """
    size = moments.shape[0]
    white = noise * np.eye(size)
    total = firm(sum((w * k for w, k in zip(mixture, shapes, strict=True)), white), noise)
    fit = np.linalg.slogdet(total)[1] + float(np.trace(np.linalg.solve(total, moments)))
    alone = size * np.log(noise) + float(np.trace(moments)) / noise
    return bool(0.5 * rows * (alone - fit) > _CLEARLY)


def _likeliest(
    moments: Matrix, shapes: list[Matrix], noise: float, chance: float
) -> NDArray[np.float64]:
    """Weights of the kernels, by w <- w * sqrt(evidence / expectation) until they rest.

    White variation begins at chance: under strong noise likelihood is flat and hardly leaves where
    it begins, and with equal shares for all kernels intervals of 90 % held 95 %.
    """
    size = moments.shape[0]
    excess = max(float(np.trace(moments)) / size - noise, 1e-3 * noise)
    white = min(chance, excess)
    weights = np.full(len(shapes), max(excess - white, 3e-4 * noise) / len(shapes))
    weights[-1] += white
    white = noise * np.eye(size)
    for _ in range(_ROUNDS):
        total = sum((w * k for w, k in zip(weights, shapes, strict=True)), white)
        inverse = np.linalg.inv(firm(total, noise))
        evidence = inverse @ moments @ inverse
        ratio = [
            max(float(np.sum(evidence * k)), 0.0) / max(float(np.sum(inverse * k)), 1e-300)
            for k in shapes
        ]
        update = weights * np.sqrt(ratio)
        still = float(np.max(np.abs(update - weights))) < 1e-3 * float(update.max() + 1e-9 * noise)
        weights = update
        if still:
            break
    return weights
