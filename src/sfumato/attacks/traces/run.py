"""All attacks on a set of traces at a given noise, as plain data for the internal page."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.attacks.traces.average import average_after_interpolation, moving_average
from sfumato.attacks.traces.heat_maps import SIDE_M, halves, link
from sfumato.attacks.traces.interpolate import interpolate
from sfumato.attacks.traces.stationary import expected_error_m
from sfumato.attacks.traces.top_places import top_places
from sfumato.attacks.traces.unicity import unicity
from sfumato.model.errors import UsageError
from sfumato.privacy.noise import SeededStream
from sfumato.traces.cells import Cells
from sfumato.traces.kernels import great_circle
from sfumato.traces.level import Strength
from sfumato.traces.mechanisms.independent import independent
from sfumato.traces.mechanisms.windows import on_printed_clock
from sfumato.traces.model import Traces
from sfumato.traces.outside import Box

MOST_CELLS = 4_000_000
_AVERAGED = 9
_REPORTS = (1, 10, 100, 1000, 10_000)


def attack_traces(
    traces: Traces,
    noise_m: float,
    *,
    window_s: int = 300,
    box: Box | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Errors of each attack on positions, and how well people are recognised."""
    strength, root = Strength.from_noise(noise_m), SeededStream(seed).child("attack")
    noisy = independent(traces, strength, root.child("independent"))
    frozen = on_printed_clock(traces, window_s, strength, root.child("windows"))
    guesses = {
        "independent noise, as published": noisy,
        f"plain average of {_AVERAGED} reports": moving_average(noisy, _AVERAGED),
        f"recursive average of {_AVERAGED}, as printed": moving_average(
            noisy, _AVERAGED, as_published=True
        ),
        f"windows of {window_s} s, as published": frozen,
        "windows, interpolated": interpolate(frozen, window_s),
        f"windows, interpolated, average of {_AVERAGED}": average_after_interpolation(
            frozen, window_s, _AVERAGED
        ),
    }
    return {
        "noise_m": noise_m,
        "window_s": window_s,
        "users": int(np.unique(traces.user).size),
        "fixes": len(traces),
        "position_error_m": {name: _error(traces, guess) for name, guess in guesses.items()},
        "stationary_error_m": {str(n): expected_error_m(noise_m, n) for n in _REPORTS},
        **_recognition(traces, {"no noise": traces, "independent": noisy, "windows": frozen}, box),
    }


def _error(true: Traces, guess: Traces) -> dict[str, float]:
    apart = great_circle(true.lon, true.lat, guess.lon, guess.lat)
    return {"mean": float(apart.mean()), "median": float(np.median(apart))}


def _recognition(true: Traces, forms: dict[str, Traces], box: Box | None) -> dict[str, Any]:
    area = box or _middle(true)
    coarse = Cells.over(area, SIDE_M)
    if coarse.size > MOST_CELLS:
        raise UsageError("The region is too large for heat maps.", remedy="Give a --region.")
    known, _ = halves(true)
    rows: dict[str, Any] = {"linkage": {}, "unicity": {}, "unique_top_places": {}}
    for name, form in forms.items():
        linked = link(known, halves(form)[1], coarse)
        rows["linkage"][name] = linked.rate
        rows["linkage_by_chance"] = linked.chance
        rows["unicity"][name] = {
            str(p): unicity(form, coarse, p, trials=1000, seed=1).share for p in (1, 2, 4)
        }
        rows["unique_top_places"][name] = {
            str(n): top_places(form, coarse, n).share_below(2) for n in (1, 2, 3)
        }
    return rows


def _middle(traces: Traces) -> Box:
    """The box that holds nearly all fixes: read from the data, and internal like all of this."""
    low, high = (np.quantile(c, [0.005, 0.995]) for c in (traces.lon, traces.lat))
    return Box(
        max(float(low[0]) - 0.01, -180.0),
        max(float(high[0]) - 0.01, -90.0),
        min(float(low[1]) + 0.01, 180.0),
        min(float(high[1]) + 0.01, 90.0),
    )
