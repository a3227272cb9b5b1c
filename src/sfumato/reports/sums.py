"""What a page needs to add up any zones and hours and say how sure the sum is.

The posterior in factors (`published.posterior`) is as large as the table. A page holds it in whole
numbers of steps, coarse enough that it doubles the page and no more:

* **Strengths** of a place by one step for all its fields and draws, after rhythms were brought to
  the same size. Equal steps are what costs least for a given error: weak fields become zeros. The
  step is chosen so that what rounding changes is a fortieth of the fields' variance.
* **Places and slots** by a step of a fifth of their deviation, as in the file.
* **Chance** as in the file.

Scales are powers of two in eighths, so that both sides compute them alike. The page's own script
reads it (`assets/js/factors.js`); `decode_factors` does the same for tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.tiles import tiles
from sfumato.published.posterior import Factors
from sfumato.reports.encode import layer, unlayer

Table = NDArray[np.float64]
_LOSS = 0.025
"""Share of the fields' variance that rounding may change. On 300 random sums of a made city (989
zones, 168 hours, 4 fields) 95 % of widths came out within 2.6 %; at .01 within 2.0 % for a tenth
more bytes, at .1 within 5.1 %."""
_STEP = 0.2
_RHYTHM = 1 / 512
_CHANCE_STEP, _CHANCE_LEAST = 0.125, float(np.log(1e-6))
"""Of logarithms of variances."""


def encode_factors(found: Factors) -> dict[str, Any]:
    """The posterior as base64 text with what is needed to read it."""
    pairs, fields = found.pairs, found.fields
    zones = found.counts.shape[0]
    size = np.sqrt(np.square(found.rhythms).mean(axis=0)) if fields else np.empty(0)
    size = np.maximum(size, 1e-12)
    strengths = found.strengths.reshape(zones, pairs, fields) * size
    power = np.square(strengths).sum(axis=2).mean(axis=1)
    step, steps = _scaled(np.sqrt(12 * _LOSS * power / max(fields, 1)))
    codes = np.empty(found.chance.shape, np.uint8)
    for rows in tiles(codes.shape):
        log = np.log(np.maximum(found.chance[rows], 1e-30))
        code = np.clip(1 + np.rint((log - _CHANCE_LEAST) / _CHANCE_STEP), 1, 255)
        codes[rows] = np.where(found.chance[rows] > 0, code, 0)
    made: dict[str, Any] = {
        "coverage": found.coverage,
        "pairs": pairs,
        "fields": fields,
        "level": [float(f"{value:.6g}") for value in found.level],
        "piece": [round(float(value), 4) for value in found.piece],
        "places": _rows(found.places.T),
        "slots": _rows(found.slots.T),
        "chance": layer(codes),
    }
    if len(set(made["piece"])) == 1:
        made["piece"] = made["piece"][:1]
    if fields:
        whole = np.rint(strengths / step[:, None, None]).astype(np.int64)
        made["strengths"] = {"scale": steps, "data": layer(whole.reshape(zones, -1))}
        made["rhythms"] = layer(np.rint(found.rhythms / size / _RHYTHM).astype(np.int64))
    return made


def decode_factors(data: dict[str, Any], counts: Table) -> Factors:
    """What the page's own script reads back, over the counts that the page holds. For tests."""
    zones, slots = counts.shape
    pairs, fields = data["pairs"], data["fields"]
    code = unlayer(data["chance"], (zones, slots))
    chance = np.where(code > 0, np.exp(_CHANCE_LEAST + _CHANCE_STEP * (code - 1.0)), 0.0)
    strengths: Table = np.zeros((zones, 0))
    rhythms: Table = np.zeros((slots, 0))
    if fields:
        strengths = _unrows(data["strengths"], zones, pairs * fields)
        rhythms = unlayer(data["rhythms"], (slots, fields)).astype(np.float64) * _RHYTHM
    return Factors(
        counts=counts,
        level=np.array(data["level"]),
        places=_unrows(data["places"], zones, pairs).T,
        slots=_unrows(data["slots"], slots, pairs).T,
        strengths=strengths.astype(np.float32),
        rhythms=rhythms,
        chance=chance,
        piece=np.broadcast_to(np.array(data["piece"], dtype=np.float64), (zones,)),
        coverage=data["coverage"],
    )


def _rows(table: Table) -> dict[str, Any]:
    """Each row in steps of its own."""
    step, steps = _scaled(_STEP * np.sqrt(np.square(table).mean(axis=1)))
    return {"scale": steps, "data": layer(np.rint(table / step[:, None]).astype(np.int64))}


def _unrows(data: dict[str, Any], rows: int, columns: int) -> Table:
    found: Table = unlayer(data["data"], (rows, columns)) * _sizes(data["scale"])[:, None]
    return found


def _scaled(wanted: Table) -> tuple[Table, list[int]]:
    """Sizes near those wanted that eight bits and a power of two hold, and their codes."""
    code = np.rint(8 * np.log2(np.maximum(wanted, 2.0**-40))).astype(np.int64)
    return _sizes(code.tolist()), code.tolist()


def _sizes(code: list[int]) -> Table:
    found: Table = np.exp2(np.asarray(code, dtype=np.float64) / 8)
    return found
