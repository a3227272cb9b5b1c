"""A toy city: six towers, four zones, one week."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.geography.cover import minimum_cover
from sfumato.geography.overlay import Layout, Overlay, exact_shares
from sfumato_lab.as_printed.paris import Ground, OpenedCounts

SHARES = np.array(
    [
        [0.5, 0.5, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.25, 0.25, 0.5, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


@pytest.fixture
def ground() -> Ground:
    overlay = Overlay(
        np.array([f"t{i}" for i in range(6)]),
        np.array([f"z{i}" for i in range(4)]),
        exact_shares(sp.csr_array(SHARES)),
    )
    rng = np.random.default_rng(0)
    return Ground(
        overlay,
        minimum_cover(overlay),
        Layout(rng.random((4, 2)) * 1000, np.ones(4)),
        Layout(rng.random((6, 2)) * 1000, np.ones(6)),
        [datetime(2007, 9, 10) + timedelta(hours=h) for h in range(168)],
    )


@pytest.fixture
def counts() -> OpenedCounts:
    """Counts that rise and fall with the day, an exponential at night."""
    hour = np.arange(168) % 24
    day = np.where(hour <= 4, 400 * np.exp(-0.5 * hour), 54.1 * np.exp(0.5 * (hour - 4)))
    day = np.where(hour > 6, 600 + 300 * np.sin((hour - 7) / 17 * np.pi), day)
    sampled = np.rint(np.arange(1, 7)[:, None] * day).astype(np.int64)
    one = sampled.sum(axis=1) // 20
    return OpenedCounts(sampled, 30, one, int(one.sum()), int(sampled.sum()))
