"""Rhythms that places may have: a library of public ones, weighed against the noisy matrix.

How a place differs from the city with the clock is a field over places times a direction in time.
Which directions? Turned to where noisy numbers are largest, they follow the noise where the signal
is weak: with 200,000 people at epsilon 0.1 the maps were off by 1.3 to 1.6 times the earth mover's
distance of a filter that knows them. But cities are alike in this: working hours against
nights, weekends and late evenings, the ways between. So directions come from a prior
covariance in time, and data turn them as far as they can:

1. *Candidates*: contrasts of a made city, of a real one (C2TM), and an even mixture of all the
   features of the calendar (`temporal.rhythm_basis`), each with some of the last beside it.
2. *Evidence*: places are taken for independent draws with that covariance, times a size, plus the
   noise. Candidates and sizes are averaged by their marginal likelihood, with a wide prior of the
   size where rhythms are expected; where none is seen the layer is next to nothing.
3. *Turning*: what the noisy moments say beyond the prior is believed entry by entry, as far as it
   stands out of its own chance, for a prior whose width is chosen by likelihood as well. With a
   weak signal that is nothing; with a strong one the axes are those of the data.

The expected strength of an axis is its eigenvalue. An axis that data turned carries up to
(1 + sqrt(axes / places))^2 of the noise (Marchenko & Pastur 1967), a fixed one just its part.
Noisy and public numbers only: post-processing. Figures: docs/decisions/bayes.md, "Public rhythms".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sfumato.density.refine.temporal import TILT, directed, rhythm_basis
from sfumato.model.time_grid import HourCalendar

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

_CALENDAR = 0.1
"""Share of the calendar's features beside the contrasts of a library."""
_SIZES = np.geomspace(1e-3, 1e4, 71)
"""Sizes of a prior covariance tried, in units of the noise variance."""
_USUAL, _SURE_OF_SIZE = 0.08, 1.0
"""Variance of rhythms over the power of what the margins expect, and how sure that is (deviation of
the logarithm). Made cities of seeds 1 to 3 have .06, C2TM .24."""
_WIDTHS = np.geomspace(0.02, 0.7, 21)
"""How far a prior covariance may be off, relative to itself."""
_LEAST = 0.01
"""Least strength of an axis that is used, in units of the noise variance of a place."""


@dataclass(frozen=True, slots=True)
class Library:
    """Contrasts between places of one city, the strongest first.

    A profile says how far places that have more of it lie above the city's own course: 24 hours of
    Monday to Thursday, Friday, Saturday and Sunday, in per cent of its largest entry.
    """

    source: str
    shares: tuple[float, ...]
    """Of the variance between places."""
    profiles: tuple[tuple[str, ...], ...]


MADE = Library(
    "right singular vectors of a week of the synthetic city of 2 million people, seed 1",
    (0.67, 0.19, 0.14),
    (
        (
            "-92 -91 -87 -83 -74 -83 -77 -49 4 51 82 80 76 76 84 81 55 20 -15 -35 -49 -54 -68 -80",
            "-89 -90 -86 -83 -76 -83 -79 -49 4 51 82 80 76 75 84 81 55 21 -15 -29 -35 -35 -54 -66",
            "-75 -79 -82 -86 -76 -86 -94 -98 -86 -67 -50 -42 "
            "-40 -35 -30 -27 -30 -35 -42 -44 -44 -38 -42 -54",
            "-67 -81 -88 -97 -96 -97 -98 -100 -92 -76 -61 -56 "
            "-52 -49 -45 -44 -47 -55 -65 -74 -83 -85 -93 -98",
        ),
        (
            "-81 -91 -96 -98 -96 -88 -70 -49 -30 -23 -20 -4 4 3 -12 -17 -6 12 23 28 21 14 -17 -50",
            "-81 -94 -96 -98 -100 -89 -70 -49 -29 -23 -19 -5 3 3 -13 -18 -7 12 24 47 57 63 21 -13",
            "-37 -46 -64 -82 -91 -95 -93 -89 -67 -32 3 23 33 42 52 62 61 56 49 51 58 69 54 32",
            "0 -24 -51 -78 -90 -96 -94 -89 -72 -42 -13 7 17 25 31 33 28 16 -4 -22 -40 -50 -66 -76",
        ),
        (
            "48 52 53 52 45 21 -46 -100 -92 -39 17 33 33 32 29 20 -17 -66 -77 -41 13 38 43 45",
            "46 52 57 50 49 25 -46 -95 -94 -39 17 30 34 33 28 20 -19 -67 -79 -35 24 51 54 50",
            "47 48 49 50 51 43 49 34 27 18 13 15 17 17 18 20 19 16 17 25 40 47 51 52",
            "51 54 57 52 52 48 46 37 27 13 10 9 13 13 13 13 11 3 1 4 12 16 18 17",
        ),
    ),
)
REAL = Library(
    "right singular vectors of the hourly users of 87 zones, 19 to 25 August 2012, of C2TM (Chen "
    "et al. 2015), without the second, which is of one Saturday; folded to kinds of days and "
    "rounded: a summary that holds no count of it (the data themselves: GPL-3)",
    (0.89, 0.11),
    (
        (
            "-64 -59 -63 -69 -75 -78 -73 -31 21 31 36 34 38 41 45 43 38 31 30 8 -4 -21 -47 -65",
            "-51 -57 -53 -63 -73 -77 -77 -36 18 26 30 34 44 48 50 47 43 33 32 13 4 -11 -39 -57",
            "-57 -52 -72 -79 -91 -99 -100 -89 -59 -39 -30 -28 "
            "-23 -10 -8 -6 -7 -20 -25 -25 -28 -39 -62 -79",
            "-58 -51 -49 -53 -64 -71 -77 -58 -34 -20 -6 2 3 6 9 12 10 7 -1 -9 -13 -30 -44 -64",
        ),
        (
            "57 43 40 22 18 12 -56 -100 -83 -13 28 66 44 31 43 51 27 -2 -41 -21 13 32 49 65",
            "55 34 34 37 24 12 -48 -85 -38 11 51 41 20 6 19 3 -7 -31 -73 -49 -14 5 29 35",
            "27 17 59 33 44 39 -9 -35 -70 -61 -47 1 -19 -49 -48 -40 -38 -5 -9 18 42 64 84 83",
            "62 57 35 27 14 4 -17 -48 -64 -59 -53 -34 -25 -50 -45 -52 -54 -63 -48 -33 7 31 40 41",
        ),
    ),
)
LIBRARIES = (MADE, REAL)


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Directions in time, and what is expected of a field along each."""

    basis: Table
    """Slots x axes, orthonormal."""
    expected: Vector
    """Prior variance of a place's strength."""
    noise: Vector
    """Variance of the noise in it."""


def rhythm_axes(
    rest: Table, sigma: float, calendar: HourCalendar, envelope: Vector, power: float | None = None
) -> Axes:
    """Axes of the rhythms in a noisy residual.

    Args:
        rest: places x slots, what the margins expect taken out.
        sigma: standard deviation of its noise, the same everywhere.
        calendar: of the slots.
        envelope: square root of the city's own course, with a mean square of one.
        power: sum of squares of what the margins expect of a place, in the mean over places. With
            it, rhythms of the usual strength are what is expected where noise hides them.

    Returns:
        The strongest axis first; none where nothing is seen.
    """
    features = _without(rhythm_basis(calendar, envelope), envelope)
    contrasts = [contrast_basis(library, calendar, envelope) for library in LIBRARIES]
    most = max(calendar.hour.size // 2, 1)
    space = _orthonormal(np.column_stack((*contrasts, features)))[:, :most]
    places, count = rest.shape[0], space.shape[1]
    if count == 0 or sigma <= 0.0:
        return Axes(np.zeros((calendar.hour.size, 0)), np.zeros(0), np.zeros(0))
    moments = np.square(1.0 / sigma) / places * ((rest @ space).T @ (rest @ space))
    likely = None if power is None else _USUAL * power / sigma**2
    prior = _prior(moments, _candidates(space, features, contrasts), places, likely)
    strength, turned, data = _turned(moments, prior, places)
    kept = strength > _LEAST
    noise = np.square(sigma * (1.0 + np.sqrt(count / places) * data[kept]))
    basis = space @ turned[:, kept]
    return Axes(basis * directed(basis), strength[kept] * sigma**2, noise)


def contrast_basis(library: Library, calendar: HourCalendar, envelope: Vector) -> Table:
    """Slots x contrasts, orthonormal: the profiles read at the slots, under the envelope."""
    kind = np.array([0, 0, 0, 0, 1, 2, 3])[calendar.weekday]
    parts = max(int(np.ceil(float(calendar.length.max()))), 1)
    within = (np.arange(parts) + 0.5) / parts - 0.5
    hour = np.mod(calendar.hour[:, None] + calendar.length[:, None] * within, 24.0)
    table = np.array([[day.split() for day in kinds] for kinds in library.profiles], dtype=float)
    course = table[:, kind[:, None], hour.astype(np.int64)].mean(axis=2)
    return _without((course * envelope).T, envelope)


def _without(columns: Table, envelope: Vector) -> Table:
    """Orthonormal columns that the envelope itself is taken out of.

    Along it lies what a place has too much or too little of at all times. Its total says that
    better; and left in, it was the strongest axis of real aggregates (C2TM), and turned the others.
    """
    whole = envelope / float(np.linalg.norm(envelope))
    return _orthonormal(columns - np.outer(whole, whole @ columns))


def _orthonormal(columns: Table) -> Table:
    """Gram-Schmidt in the order given; what the columns before explain drops out."""
    found: list[Vector] = []
    for column in columns.T:
        size = float(np.linalg.norm(column))
        left = column.astype(np.float64)
        for _ in range(2):  # twice is enough for rounding
            for known in found:
                left = left - known * (known @ left)
        rest = float(np.linalg.norm(left))
        if size > 0.0 and rest > 1e-6 * size:
            found.append(left / rest)
    return np.column_stack(found) if found else np.zeros((columns.shape[0], 0))


def _candidates(space: Table, features: Table, contrasts: list[Table]) -> list[Table]:
    """Covariances of trace about one, in coordinates of `space`."""
    inside = space.T @ features
    even = inside @ inside.T / max(features.shape[1], 1)
    found = [even]
    for library, columns in zip(LIBRARIES, contrasts, strict=True):
        along = space.T @ columns
        shares = np.array(library.shares[: along.shape[1]])
        found.append((1.0 - _CALENDAR) * (along * shares) @ along.T + _CALENDAR * even)
    return found


def _prior(moments: Table, candidates: list[Table], places: int, likely: float | None) -> Table:
    """The candidates at all sizes, averaged by their evidence and what is expected of the size."""
    scores = np.empty((len(candidates), _SIZES.size))
    for row, shape in zip(scores, candidates, strict=True):
        values, basis = np.linalg.eigh(shape)
        along = np.einsum("ij,ik,kj->j", basis, moments, basis)
        total = 1.0 + _SIZES[:, None] * np.maximum(values, 0.0)
        row[:] = -0.5 * places * (np.log(total) + along / total).sum(axis=1)
        if likely is not None:
            row -= 0.5 * np.square(np.log(_SIZES / likely) / _SURE_OF_SIZE)
    weights = softmax(scores) @ _SIZES
    found: Table = np.einsum("i,ijk->jk", weights, np.array(candidates))
    return found


def _turned(moments: Table, prior: Table, places: int) -> tuple[Vector, Table, Vector]:
    """Strengths (falling), axes as columns, and how far data decided each.

    In the eigenbasis of the prior an entry of the moments' excess has the variance of a Wishart
    law, and its prior one that of the prior's own size there, times a width.
    """
    # Features that nothing tells apart are equally strong: rounding would turn them.
    tilt = TILT * float(prior.max()) * np.linspace(0.0, 1.0, prior.shape[0])
    values, basis = np.linalg.eigh(prior + np.diag(tilt))
    values = np.maximum(values, 1e-9)
    excess = basis.T @ (moments - np.eye(values.size) - prior) @ basis
    chance = np.outer(1.0 + values, 1.0 + values) * (1.0 + np.eye(values.size)) / places
    size = np.outer(values, values)
    upper = np.triu_indices(values.size)
    scores = []
    for width in _WIDTHS:
        total = (width**2 * size + chance)[upper]
        scores.append(-0.5 * float((np.log(total) + np.square(excess[upper]) / total).sum()))
    square = float(_WIDTHS[int(np.argmax(scores))]) ** 2
    believed = np.diag(values) + excess * (square * size / (square * size + chance))
    strength, axes = np.linalg.eigh(believed)
    strength, axes = np.maximum(strength[::-1], 0.0), axes[:, ::-1]
    own = square * np.square(strength)
    data = own / (own + 2.0 * np.square(1.0 + strength) / places)
    return strength, basis @ axes, data
