"""A release against the truth: every metric by zone, by slot and overall. INTERNAL.

What is computed here tells about real people and stays with the holder; whatever writes it
to a file says so in the file's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.utility import metrics
from sfumato.utility.earth_mover import earth_mover_series

Table = NDArray[np.float64]
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
    earth_mover: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Judge one table; `distances` are metres between zone centres."""
    relative = metrics.relative_error(truth, released)
    by_zone = {
        "mean_relative_error": relative.mean(axis=1),
        "pearson": metrics.pearson(truth, released),
        "mean_count": truth.mean(axis=1),
    }
    by_slot = {
        "mean_relative_error": relative.mean(axis=0),
        "slot_relative_error": metrics.slot_relative_error(truth, released),
        "slot_relative_error_as_printed": metrics.slot_relative_error(
            truth, released, noisy_denominator=True
        ),
        "jensen_shannon": metrics.jensen_shannon(truth, released),
    }
    for k in TOP:
        if k < truth.shape[0]:
            by_slot[f"top_{k}"] = metrics.top_k_agreement(truth, released, k)
    if earth_mover:
        by_slot["earth_mover_m"] = earth_mover_series(truth, released, distances, progress)
    overall = {
        "mean_relative_error": float(relative.mean()),
        "pearson": float(by_zone["pearson"].mean()),
        "mean_absolute_error": metrics.mean_absolute_error(truth, released),
        "root_mean_square_error": metrics.root_mean_square_error(truth, released),
        "range_query_error": float(
            metrics.range_query_error(truth, released, random_ranges(distances)).mean()
        ),
        "total_error": float(released.sum() / max(truth.sum(), 1e-9) - 1),
    }
    for key, series in by_slot.items():
        if key not in overall and np.isfinite(series).any():
            overall[key] = float(np.nanmean(series))
    if interval is not None:
        overall |= interval_coverage(truth, *interval)
    return Evaluation(name, overall, by_zone, by_slot)


def interval_coverage(truth: Table, lower: Table, upper: Table) -> dict[str, float]:
    """Share of true counts inside their interval: counts of 20 and more, and smaller ones."""
    inside, large = (truth >= lower) & (truth <= upper), truth >= 20
    found = {"interval_width": float((upper - lower).mean())}
    for key, where in (("coverage_from_20", large), ("coverage_below_20", ~large)):
        if where.any():
            found[key] = float(inside[where].mean())
    return found


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
