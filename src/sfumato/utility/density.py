"""Metrics of a released density: how far it is from the truth. Tables are zone x slot.

All of these read the true counts, so their results are internal. Definitions follow
Acs & Castelluccia (2014, section 3.3) and Chen et al. (section 7); where the two differ
under one name, both are here under names of their own.
The earth mover's distance has a file of its own (`earth_mover`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.utility.earth_mover import earth_mover_series

Table = NDArray[np.float64]


def _pair(truth: Table, released: Table) -> tuple[Table, Table]:
    truth = np.asarray(truth, dtype=np.float64)
    released = np.asarray(released, dtype=np.float64)
    if truth.shape != released.shape or truth.ndim != 2 or truth.size == 0:
        raise UsageError("The two densities must be tables of the same zones and slots.")
    return truth, released


def relative_error(truth: Table, released: Table, sanity: float = 0.001) -> Table:
    """|released - truth| / max(gamma, truth) for every zone and slot.

    gamma is `sanity` times the zone's total over all slots (Xiao et al. 2011), so that
    empty hours do not decide the result. A zone that is empty throughout has gamma 1.
    """
    truth, released = _pair(truth, released)
    totals = truth.sum(axis=1, keepdims=True)
    gamma = np.where(totals > 0, sanity * totals, 1.0)
    result: Table = np.abs(released - truth) / np.maximum(gamma, truth)
    return result


def mean_relative_error(truth: Table, released: Table, sanity: float = 0.001) -> Table:
    """Mean relative error of each zone's series; average it over zones for the papers' MRE."""
    result: Table = relative_error(truth, released, sanity).mean(axis=1)
    return result


def slot_relative_error(
    truth: Table, released: Table, gamma: float = 0.001, noisy_denominator: bool = False
) -> Table:
    """Mean relative error over cells for each slot (Chen et al.).

    Their text prints the *noisy* count in the denominator; `noisy_denominator` follows it.
    With thousands of empty cells and gamma 0.001 the figure is decided by empty cells.
    """
    truth, released = _pair(truth, released)
    base = released if noisy_denominator else truth
    result: Table = (np.abs(released - truth) / np.maximum(gamma, base)).mean(axis=0)
    return result


def pearson(truth: Table, released: Table) -> Table:
    """Pearson correlation of each zone's series with the truth.

    Where either series is constant the correlation is undefined; it is 1 if both are
    constant (nothing to follow, nothing missed) and 0 otherwise.
    """
    truth, released = _pair(truth, released)
    a = truth - truth.mean(axis=1, keepdims=True)
    b = released - released.mean(axis=1, keepdims=True)
    size_a, size_b = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    flat_a = size_a <= 1e-12 * np.maximum(np.linalg.norm(truth, axis=1), 1e-300)
    flat_b = size_b <= 1e-12 * np.maximum(np.linalg.norm(released, axis=1), 1e-300)
    scale = np.where(flat_a | flat_b, 1.0, size_a * size_b)
    both_flat = np.where(flat_a & flat_b, 1.0, 0.0)
    result: Table = np.where(flat_a | flat_b, both_flat, (a * b).sum(axis=1) / scale)
    return result


def mean_absolute_error(truth: Table, released: Table) -> float:
    """Mean |released - truth| over all zones and slots."""
    truth, released = _pair(truth, released)
    return float(np.abs(released - truth).mean())


def root_mean_square_error(truth: Table, released: Table) -> float:
    """Square root of the mean squared difference over all zones and slots."""
    truth, released = _pair(truth, released)
    return float(np.sqrt(np.square(released - truth).mean()))


def jensen_shannon(truth: Table, released: Table) -> Table:
    """Jensen-Shannon divergence (bits) of the spatial distributions, for each slot.

    Negative released counts count as zero. NaN where either map is empty.
    """
    truth, released = _pair(truth, released)
    p, q = truth, np.maximum(released, 0.0)
    sum_p, sum_q = p.sum(axis=0), q.sum(axis=0)
    empty = (sum_p <= 0) | (sum_q <= 0)
    p = p / np.where(sum_p > 0, sum_p, 1.0)
    q = q / np.where(sum_q > 0, sum_q, 1.0)
    middle = (p + q) / 2

    def divergence(a: Table) -> Table:
        safe = np.where(a > 0, a, 1.0)
        below = np.where(middle > 0, middle, 1.0)
        terms: Table = np.where(a > 0, a * np.log2(safe / below), 0.0).sum(axis=0)
        return terms

    return np.where(empty, np.nan, (divergence(p) + divergence(q)) / 2)


def top_k_agreement(truth: Table, released: Table, k: int) -> Table:
    """Share of the k busiest zones of each slot that the release also ranks among its k.

    Ties are broken by zone order in both, so that the figure is reproducible.
    """
    truth, released = _pair(truth, released)
    if not 1 <= k <= truth.shape[0]:
        raise UsageError(f"k must lie between 1 and the number of zones, {truth.shape[0]}.")

    def chosen(table: Table) -> NDArray[np.bool_]:
        order = np.argsort(-table, axis=0, kind="stable")[:k]
        mask = np.zeros(table.shape, dtype=bool)
        np.put_along_axis(mask, order, True, axis=0)
        return mask

    result: Table = (chosen(truth) & chosen(released)).sum(axis=0) / k
    return result


def range_query_error(
    truth: Table, released: Table, ranges: NDArray[np.bool_], sanity: float = 0.001
) -> Table:
    """Relative error of sums over sets of zones, for each range and slot.

    `ranges` is range x zone. The sanity bound is `sanity` times the slot's city total. A slot in
    which nobody was anywhere has none (NaN): any error would be infinitely many times as much.
    """
    truth, released = _pair(truth, released)
    masks = ranges.astype(np.float64)
    wanted, got = masks @ truth, masks @ released
    total = truth.sum(axis=0)
    gamma = np.where(total > 0, sanity * total, np.nan)
    result: Table = np.abs(got - wanted) / np.maximum(wanted, gamma)
    return result


TOP = (10, 50, 100)


_RANGES = 200


_SEED = 20_070_910
"""Range queries are drawn once and for all, so that two evaluations ask the same ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Metrics of one released table."""

    name: str
    overall: dict[str, float]
    by_zone: dict[str, Table]
    by_slot: dict[str, Table]


def evaluate_table(
    name: str,
    truth: Table,
    released: Table,
    distances: Table,
    *,
    interval: tuple[Table, Table] | None = None,
    median: Table | None = None,
    earth_mover: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Judge one table; `distances` are metres between zone centres."""
    relative = relative_error(truth, released)
    by_zone = {
        "mean_relative_error": relative.mean(axis=1),
        "pearson": pearson(truth, released),
        "mean_count": truth.mean(axis=1),
    }
    by_slot = {
        "mean_relative_error": relative.mean(axis=0),
        "slot_relative_error": slot_relative_error(truth, released),
        "slot_relative_error_as_printed": slot_relative_error(
            truth, released, noisy_denominator=True
        ),
        "jensen_shannon": jensen_shannon(truth, released),
    }
    for k in TOP:
        if k < truth.shape[0]:
            by_slot[f"top_{k}"] = top_k_agreement(truth, released, k)
    if earth_mover:
        moved = earth_mover_series(truth, released, distances, progress)
        by_slot["earth_mover_m"] = moved.metres
        if moved.groups is not None:
            by_slot |= {"earth_mover_lower_m": moved.lower, "earth_mover_upper_m": moved.upper}
    ranged = range_query_error(truth, released, random_ranges(distances))
    overall = {
        "mean_relative_error": float(relative.mean()),
        "pearson": float(by_zone["pearson"].mean()),
        "mean_absolute_error": mean_absolute_error(truth, released),
        "root_mean_square_error": root_mean_square_error(truth, released),
        **({"range_query_error": float(np.nanmean(ranged))} if truth.any() else {}),
        "total_error": float(released.sum() / max(truth.sum(), 1e-9) - 1),
    }
    for key, series in by_slot.items():
        if key not in overall and np.isfinite(series).any():
            overall[key] = float(np.nanmean(series))
    if earth_mover and moved.groups is not None:
        overall["earth_mover_groups"] = float(moved.groups)
    if median is not None:
        overall["median_mean_absolute_error"] = mean_absolute_error(truth, median)
    if interval is not None:
        overall |= interval_coverage(truth, *interval, released)
    return Evaluation(name, overall, by_zone, by_slot)


def interval_coverage(
    truth: Table, lower: Table, upper: Table, released: Table
) -> dict[str, float]:
    """Share of true counts inside their interval, where 20 and more was published, and less.

    Told apart by the true count, large ones are those that the noise or the prior lowered, and an
    exact posterior of 90 % would hold 85 %.
    """
    inside, large = (truth >= lower) & (truth <= upper), released >= 20
    found = {"interval_width": float((upper - lower).mean()), "coverage": float(inside.mean())}
    for key, where in (("coverage_from_20", large), ("coverage_below_20", ~large)):
        if where.any():
            found[key] = float(inside[where].mean())
    return found


OFF = 0.1
"""A zone whose sum over the period is off by more than this counts as off."""


def judged_by_formula_1(
    judged: Evaluation, formula_1: Table, truth: Table, released: Table
) -> Evaluation:
    """The evaluation with its figures against formula (1), and what the border alone costs."""
    errors, sums = relative_error(formula_1, released), formula_1.sum(axis=1)
    off = np.abs(released.sum(axis=1) - sums) > OFF * sums
    overall = {
        "formula_1_mean_relative_error": float(errors.mean()),
        "formula_1_border_error": float(relative_error(formula_1, truth).mean()),
        "formula_1_zones_off": float(off.mean()),
        "formula_1_total_error": float(released.sum() / max(formula_1.sum(), 1e-9) - 1),
    }
    by_zone = {"formula_1_mean_relative_error": errors.mean(axis=1)}
    return replace(judged, overall=judged.overall | overall, by_zone=judged.by_zone | by_zone)


def random_ranges(distances: Table) -> NDArray[np.bool_]:
    """Discs around random zones that hold between one zone and a third of them."""
    n = distances.shape[0]
    rng = np.random.default_rng(_SEED)
    centre = rng.integers(n, size=_RANGES)
    size = np.exp(rng.uniform(0, np.log(max(n / 3, 2)), _RANGES)).astype(np.int64)
    order = np.argsort(distances[centre], axis=1, kind="stable")
    masks = np.zeros((_RANGES, n), dtype=bool)
    for row, (zones, count) in enumerate(zip(order, np.maximum(size, 1), strict=True)):
        masks[row, zones[:count]] = True
    return masks


def spread(runs: Sequence[Evaluation]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of each overall figure over several noise draws."""
    keys = [key for key in runs[0].overall if all(key in run.overall for run in runs)]
    table = {key: np.array([run.overall[key] for run in runs]) for key in keys}
    return {
        key: (float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0)
        for key, values in table.items()
    }
