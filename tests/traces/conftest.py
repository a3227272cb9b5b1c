"""Traces small enough to read, and streams that give the same draws every time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.model.traces import MICROSECONDS, Traces, make_traces

NOON_US = 1_225_540_800 * MICROSECONDS  # 2008-11-01 12:00 UTC


@pytest.fixture
def walkers() -> Callable[..., Traces]:
    """`people` users walking east from Beijing, a fix every `every_s` seconds."""

    def make(people: int = 3, fixes: int = 40, every_s: int = 30) -> Traces:
        user = np.repeat(np.arange(people), fixes)
        step = np.tile(np.arange(fixes), people)
        names = np.array([f"walker-{n}" for n in range(people)], dtype=object)
        time = NOON_US + step * every_s * MICROSECONDS
        lon = 116.3 + 0.001 * step + 0.01 * user
        lat = 39.9 + 0.01 * user
        made, _ = make_traces(user, names, time, lon, lat.astype(float), gap_s=1200.0)
        return made

    return make
