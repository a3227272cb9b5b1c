"""Statistics: ways of turning what was released into one number that betrays a user.

A released output is a row of numbers; NaN says that this row of the table is absent. A
statistic is fitted on runs that are used for nothing else afterwards, so it may learn
anything from them: the confidence of a bound never depends on how its statistic was found,
only its power does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Released = NDArray[np.float64]
"""Runs x released numbers."""
Score = Callable[[Released], NDArray[np.float64]]
_RUNS_PER_COLUMN = 2
_RIDGE = 1e-10


@dataclass(frozen=True, slots=True)
class Statistic:
    """`fit(with_user, without_user)` learns a score that is larger where the user is in."""

    name: str
    fit: Callable[[Released, Released], Score]


def as_released(values: NDArray[np.float64] | NDArray[np.int64]) -> Released:
    """Runs x numbers in float64; one number a run may come as a plain vector."""
    rows = np.asarray(values, dtype=np.float64)
    return rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1)


def known_direction(direction: NDArray[np.float64]) -> Statistic:
    """Project on a shift the auditor knows, having made both inputs: the Gaussian LR test."""
    axis = np.asarray(direction, dtype=np.float64).ravel()

    def score(rows: Released) -> NDArray[np.float64]:
        return np.nan_to_num(rows) @ axis

    return Statistic("projection on the known shift", lambda _one, _other: score)


def _fit_projection(one: Released, other: Released) -> Score:
    first, second = np.nan_to_num(one), np.nan_to_num(other)
    spread = (first.var(axis=0) + second.var(axis=0)) / 2
    shift = first.mean(axis=0) - second.mean(axis=0)
    axis = np.divide(shift, spread, out=np.zeros_like(shift), where=spread > 0)
    constant = (spread == 0) & (shift != 0)
    axis[constant] = np.sign(shift[constant]) * 1e6
    return lambda rows: np.nan_to_num(rows) @ axis


def _fit_discriminant(one: Released, other: Released) -> Score:
    """Fisher's direction: the shift, whitened by the covariance of the noise.

    With too few runs to know a covariance it is the plain projection.
    """
    first, second = np.nan_to_num(one), np.nan_to_num(other)
    if len(first) < _RUNS_PER_COLUMN * first.shape[1]:
        return _fit_projection(one, other)
    shift = first.mean(axis=0) - second.mean(axis=0)
    away = np.concatenate((first - first.mean(axis=0), second - second.mean(axis=0)))
    scale = np.sqrt(np.square(away).mean(axis=0))
    live = scale > 0
    if not live.any() or (shift[~live] != 0).any():
        return _fit_projection(one, other)
    unit = away[:, live] / scale[live]
    together = unit.T @ unit / len(unit) + _RIDGE * np.eye(int(live.sum()))
    axis = np.zeros(shift.size)
    axis[live] = np.linalg.solve(together, shift[live] / scale[live]) / scale[live]
    return lambda rows: np.nan_to_num(rows) @ axis


def column(number: int, name: str) -> Statistic:
    """One released number as it is: for a score that was worked out beforehand."""
    return Statistic(name, lambda _one, _other: lambda rows: np.nan_to_num(rows)[:, number])


def best_of(*statistics: Statistic) -> Statistic:
    """Fits each on half of the fitting runs and keeps what separates the other half best."""

    def fit(one: Released, other: Released) -> Score:
        half = len(one) // 2
        found: list[tuple[float, Score]] = []
        for statistic in statistics:
            score = statistic.fit(one[:half], other[:half])
            a, b = score(one[half:]), score(other[half:])
            spread = float(np.sqrt((a.var() + b.var()) / 2))
            found.append((float(a.mean() - b.mean()) / spread if spread > 0 else 0.0, score))
        return max(found, key=lambda pair: pair[0])[1]

    return Statistic(" or ".join(s.name for s in statistics), fit)


def _fit_atoms(one: Released, other: Released) -> Score:
    """Log ratio of the frequencies of each distinct output; 0 for outputs never seen."""
    keys_one, keys_other = _row_keys(one), _row_keys(other)
    known, index = np.unique(np.concatenate((keys_one, keys_other)), return_inverse=True)
    in_one = np.bincount(index[: keys_one.size], minlength=known.size)
    in_other = np.bincount(index[keys_one.size :], minlength=known.size)
    ratio = np.log((in_one + 0.5) / (in_other + 0.5))

    def score(rows: Released) -> NDArray[np.float64]:
        keys = _row_keys(rows)
        place = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return np.where(known[place] == keys, ratio[place], 0.0)

    return score


def _on_atoms_of(feature: Callable[[Released], Released]) -> Callable[[Released, Released], Score]:
    def fit(one: Released, other: Released) -> Score:
        score = _fit_atoms(feature(one), feature(other))
        return lambda rows: score(feature(rows))

    return fit


def _row_keys(rows: Released) -> NDArray[np.uint64]:
    """A 64-bit key of each row's bytes; a collision costs power, never validity."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # + 0.0: no minus zero
    odd = np.random.default_rng(1).integers(0, 1 << 63, bits.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (bits ^ (bits >> np.uint64(29))) * odd
    total: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64)
    return total


def _low_bits(rows: Released) -> Released:
    """Exponent and trailing zeros of the mantissa (up to 3), of the first four numbers."""
    head = np.ascontiguousarray(np.nan_to_num(rows[:, :4]))
    bits = head.view(np.uint64)
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.float64)
    zeros = sum(((bits & np.uint64(mask)) == 0).astype(np.float64) for mask in (0b1, 0b11, 0b111))
    return np.asarray(exponent * 4 + zeros, dtype=np.float64)


def _absent(rows: Released) -> Released:
    return np.isnan(rows).astype(np.float64)


projection = Statistic("projection on the learnt shift", _fit_projection)
"""Mean difference over variance, number by number: finds a shift of the whole vector."""
discriminant = Statistic("linear discriminant", _fit_discriminant)
"""Finds sums in which the noise cancels: the same noise used twice, or on two inputs."""
atoms = Statistic("frequencies of distinct outputs", _fit_atoms)
"""For outputs with a small support: selections, transcripts, lattices that differ."""
low_bits = Statistic("lowest bits of the floating-point numbers", _on_atoms_of(_low_bits))
"""Mironov 2012: textbook noise in doubles leaves the count in the lowest bits."""
absent_rows = Statistic("rows that are absent", _on_atoms_of(_absent))
"""A table whose set of rows depends on the data."""

EVERYTHING = (projection, atoms, low_bits, absent_rows)
