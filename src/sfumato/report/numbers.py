"""Counts and intervals in few bytes: whole multiples of a stated step, predicted, deflated.

The page shows every number rounded to a step of 1, 0.1 or 0.01 (`step_for`), and holds exactly
what it shows. Per zone and slot three integers are stored as residuals:

    count   minus the count of the zone's slot before (or nothing, whichever is smaller),
    up      = upper - count, minus that of the slot before,
    low     = lower - max(0, count - up); the 0 only where no lower end is negative.

Symmetric intervals of constant width, also cut off at zero, thus cost nearly nothing. Residuals
are zigzag-coded and split into byte planes before raw deflate; browsers undo that themselves.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import InputError

Table = NDArray[np.float64]
Integers = NDArray[np.int64]
STEPS = (1.0, 0.1, 0.01)
_LARGEST = 1 << 30


def step_for(count: Table, lower: Table, upper: Table) -> float:
    """The coarsest step a tenth of the usual half interval, or 1 where all counts are whole."""
    known = count[np.isfinite(count)]
    if known.size == 0 or (known == np.round(known)).all():
        return 1.0
    widths = (upper - lower)[np.isfinite(upper - lower)] / 2
    usual = float(np.median(widths)) if widths.size else float(np.abs(known).mean())
    for step in STEPS:
        if step <= usual / 10:
            return step
    return STEPS[-1]


def quantise(values: Table, step: float) -> tuple[Integers, Integers]:
    """Values as multiples of the step, and the flat positions of those that are missing."""
    missing = np.flatnonzero(~np.isfinite(values))
    filled = np.where(np.isfinite(values), values, 0.0)
    whole = np.rint(filled * round(1 / step))
    if np.abs(whole).max(initial=0.0) > _LARGEST:
        raise InputError(
            "a number of the density is too large for the page.",
            remedy="A count above one thousand million is no count of people.",
        )
    return whole.astype(np.int64), missing


def encode_numbers(count: Table, lower: Table, upper: Table) -> dict[str, Any]:
    """The three tables as base64 text with what is needed to read them."""
    step = step_for(count, lower, upper)
    whole, missing = quantise(count, step)
    low, no_low = quantise(np.where(np.isfinite(lower), lower, count), step)
    high, no_high = quantise(np.where(np.isfinite(upper), upper, count), step)
    no_interval = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper)))
    del no_low, no_high
    up = high - whole
    floor = bool(low.min(initial=0) >= 0)
    rest = low - predicted_low(whole, up, floor)
    return {
        "step": step,
        "shape": list(count.shape),
        "floor": floor,
        "count": _layer(whole),
        "up": _layer(up),
        "low": _layer(rest),
        "missing": missing.tolist(),
        "no_interval": no_interval.tolist(),
    }


def decode_numbers(data: dict[str, Any]) -> tuple[Table, Table, Table]:
    """What the page's own script reads back, NaN where a number is missing. For tests."""
    shape = tuple(data["shape"])
    whole, up, rest = (_unlayer(data[name], shape) for name in ("count", "up", "low"))
    low = rest + predicted_low(whole, up, data["floor"])
    tables = [table / round(1 / data["step"]) for table in (whole, low, whole + up)]
    tables[0].ravel()[data["missing"]] = np.nan
    for table in tables[1:]:
        table.ravel()[data["no_interval"]] = np.nan
    return tables[0], tables[1], tables[2]


def predicted_low(whole: Integers, up: Integers, floor: bool) -> Integers:
    """Where the lower end would be if the interval were symmetric."""
    mirrored = whole - up
    return np.maximum(mirrored, 0) if floor else mirrored


def deflated(raw: bytes) -> str:
    """Raw deflate at the highest level, as base64."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return base64.b64encode(squeezer.compress(raw) + squeezer.flush()).decode("ascii")


def inflated(text: str) -> bytes:
    """The bytes behind `deflated`."""
    return zlib.decompress(base64.b64decode(text), -15)


def _layer(whole: Integers) -> dict[str, Any]:
    before = np.concatenate([np.zeros((whole.shape[0], 1), np.int64), whole[:, :-1]], axis=1)
    forms = [_planes(whole - before, True), _planes(whole, False)]
    return min(forms, key=lambda form: len(form["data"]))


def _planes(residual: Integers, delta: bool) -> dict[str, Any]:
    zigzag = ((residual << 1) ^ (residual >> 63)).astype("<u4").ravel()
    width = max(1, (int(zigzag.max(initial=0)).bit_length() + 7) // 8)
    planes = zigzag.view(np.uint8).reshape(-1, 4)[:, :width].T
    return {"delta": delta, "bytes": width, "data": deflated(planes.tobytes())}


def _unlayer(form: dict[str, Any], shape: tuple[int, ...]) -> Integers:
    planes = np.frombuffer(inflated(form["data"]), np.uint8).reshape(form["bytes"], -1)
    zigzag = np.zeros(planes.shape[1], np.int64)
    for k, plane in enumerate(planes):
        zigzag |= plane.astype(np.int64) << (8 * k)
    residual = ((zigzag >> 1) ^ -(zigzag & 1)).reshape(shape)
    return np.cumsum(residual, axis=1) if form["delta"] else residual
