"""What a page needs to add up any zones and hours and say how sure the sum is.

The posterior in factors (`published.posterior`) is as large as the table. A page holds it in whole
numbers of steps, coarse enough that it takes half as much as the table and no more:

* **Strengths** of the fourteen strongest fields, field by field, those of a place by one step for
  all its fields and draws, after rhythms were brought to the same size. Equal steps are what costs
  least for a given error. The step is chosen so that what rounding changes is a fortieth of the
  fields' variance.
* **Places and slots** by a step of a fifth of their deviation, as in the file.
* **Chance** in steps of a quarter of a power of e, and on top of it the variance that weaker fields
  and rounding leave out, as if no other cell shared it. Of weak fields that is nearly so: they have
  nothing in common with the next place.

A width is known from 32 pairs of draws to an eighth. What the page changes of it is less: 95 % of
widths of sums over zones and hours are within 4 %, of one zone's over hours within 6 %, of some
zones' in one hour within 10 % (300 random sums each, of a made city of 989 zones, 168 hours, 40
fields; with 4 fields 2, 3 and 6 %). Values are sums of the counts, and single cells keep the
interval of the table.

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
"""Share of the fields' variance that rounding may change."""
_MOST_FIELDS = 14
"""Of 40 in that city; 20 would bring widths half a percent nearer, for 80 KiB."""
_STEP = 0.2
_RHYTHM = 1 / 512
_CHANCE_STEP, _CHANCE_LEAST = 0.25, float(np.log(1e-6))
"""Of logarithms of variances."""


def encode_factors(found: Factors) -> dict[str, Any]:
    """The posterior as base64 text with what is needed to read it."""
    pairs, fields = found.pairs, min(found.fields, _MOST_FIELDS)
    zones = found.counts.shape[0]
    size = np.sqrt(np.square(found.rhythms).mean(axis=0)) if fields else np.empty(0)
    size = np.maximum(size, 1e-12)
    strengths = found.strengths.reshape(zones, pairs, found.fields) * size
    strongest = np.argsort(-np.square(strengths).mean(axis=(0, 1)), kind="stable")[:fields]
    whole = np.zeros((zones, pairs, fields), np.int64)
    left = np.square(strengths).mean(axis=1)
    if fields:
        power = left[:, strongest].sum(axis=1)
        step, steps = _scaled(np.sqrt(12 * _LOSS * power / fields))
        whole = np.rint(strengths[:, :, strongest] / step[:, None, None]).astype(np.int64)
        left[:, strongest] -= np.square(whole * step[:, None, None]).mean(axis=1)
    along = np.square(found.rhythms / size).T
    codes = np.empty(found.chance.shape, np.uint8)
    for rows in tiles(codes.shape):
        chance = found.chance[rows] + np.maximum(left[rows] @ along, 0.0)
        log = np.log(np.maximum(chance, 1e-30))
        code = np.clip(1 + np.rint((log - _CHANCE_LEAST) / _CHANCE_STEP), 1, 255)
        codes[rows] = np.where(chance > 0, code, 0)
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
        by_field = np.ascontiguousarray(whole.transpose(2, 0, 1)).reshape(fields, -1)
        made["strengths"] = {"scale": steps, "data": layer(by_field)}
        rhythms = (found.rhythms / size)[:, strongest]
        made["rhythms"] = layer(np.rint(rhythms / _RHYTHM).astype(np.int64))
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
        by_field = unlayer(data["strengths"]["data"], (fields, zones * pairs))
        whole = by_field.reshape(fields, zones, pairs).transpose(1, 2, 0)
        scale = _sizes(data["strengths"]["scale"])[:, None, None]
        strengths = (whole * scale).reshape(zones, -1)
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
