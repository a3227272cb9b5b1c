"""`internal.html`: original, private and error side by side, for the holder's eyes only.

The page shows true counts, so it says INTERNAL in its title, on a banner that stays in sight
and across every printed sheet. It works offline like the public page and from the same parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.io.writers import write_bytes
from sfumato.report.clock import encode_clock
from sfumato.report.document import render
from sfumato.report.internal_data import Contender, InternalEvaluation
from sfumato.report.numbers import encode_numbers
from sfumato.report.outlines import encode_outlines
from sfumato.report.words import load_words

INTERNAL_NAME = "internal.html"
Table = NDArray[np.float64]
_WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)
_SIZES = 10


def build_internal_page(evaluation: InternalEvaluation, language: str = "en") -> str:
    """The page of an evaluation. The same evaluation gives the same bytes."""
    words = load_words(language)
    truth = evaluation.truth
    sizes, edges = size_groups(truth)
    data = {
        "title": evaluation.title,
        "map": {
            "ids": list(evaluation.zone_ids),
            "names": list(evaluation.zone_names),
            "districts": list(evaluation.districts or [""] * len(evaluation.zone_ids)),
            "outlines": None
            if evaluation.geometry is None
            else encode_outlines(evaluation.geometry),
        },
        "clock": encode_clock(evaluation.edges, evaluation.edges[1:], evaluation.tz),
        "counting": evaluation.counting,
        "truth": encode_numbers(truth, truth, truth),
        "sizes": [_short(size) for size in edges],
        "bar": evaluation.quality_bar,
        "contenders": [_contender(one, evaluation, sizes) for one in evaluation.contenders],
        "attacks": [
            {
                "attack": a.attack,
                "contender": a.contender,
                "measure": a.measure,
                "reached": _short(a.reached),
                "guessing": _short(a.guessing),
                "bound": None if a.bound is None else _short(a.bound),
                "note": a.note,
            }
            for a in evaluation.attacks
        ],
        "tracks": [
            {
                "contender": one.contender,
                "right": _list(np.asarray(one.by_slot)),
                "guessing": _list(np.asarray(one.guessing)),
                "true": [list(row) for row in one.true],
                "found": [list(row) for row in one.found],
            }
            for one in evaluation.tracks
        ],
    }
    return render(
        "internal.html",
        "internal",
        data,
        words,
        styles=("page", "internal"),
        title=f"{words['internal']['mark']} · {evaluation.title}",
    )


def write_internal_page(evaluation: InternalEvaluation, folder: str | Path) -> Path:
    """Write `internal.html`, readable by its owner alone."""
    path = Path(folder) / INTERNAL_NAME
    write_bytes(path, build_internal_page(evaluation).encode(), mode=0o600)
    return path


def size_groups(truth: Table) -> tuple[NDArray[np.int64], list[float]]:
    """Zones in up to ten groups of equal number by their true mean count, and each group's mean."""
    means = np.nanmean(truth, axis=1)
    order = np.argsort(means, kind="stable")
    groups = np.empty(len(order), np.int64)
    pieces = np.array_split(order, min(_SIZES, len(order)))
    for k, piece in enumerate(pieces):
        groups[piece] = k
    return groups, [float(means[piece].mean()) for piece in pieces]


def cell_errors(one: Contender, truth: Table) -> Table:
    """The errors an evaluation gave, or the plain relative ones."""
    if one.error is not None:
        return one.error
    plain: Table = np.abs(one.values - truth) / np.maximum(1.0, truth)
    return plain


def _contender(
    one: Contender, evaluation: InternalEvaluation, sizes: NDArray[np.int64]
) -> dict[str, Any]:
    errors = cell_errors(one, evaluation.truth)
    zones = np.nanmean(errors, axis=1)
    lower = one.values if one.lower is None else one.lower
    upper = one.values if one.upper is None else one.upper
    groups = range(int(sizes.max()) + 1)
    return {
        "label": one.label,
        "note": one.note,
        "numbers": encode_numbers(one.values, lower, upper),
        "interval": one.lower is not None and one.upper is not None,
        "error": {
            "hour": _list(np.nanmean(errors, axis=0)),
            "zone": _list(zones),
            "size": [_list(np.nanquantile(zones[sizes == k], _WHISKERS)) for k in groups],
            "box": _list(np.nanquantile(zones, _WHISKERS)),
            "mean": _short(float(np.nanmean(errors))),
        },
        "hours": {name: _list(values) for name, values in sorted(one.by_hour.items())},
        "overall": {name: _short(value) for name, value in sorted(one.overall.items())},
    }


def _list(values: Table) -> list[float | None]:
    return [_short(float(value)) for value in values]


def _short(value: float) -> float | None:
    """Five figures are more than the eye needs; what is not finite is absent."""
    return float(f"{value:.5g}") if np.isfinite(value) else None
