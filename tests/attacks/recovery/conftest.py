from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.trajectories import Ground


@pytest.fixture
def line() -> Ground:
    """Ten cells in a row, a kilometre apart."""
    return Ground(np.column_stack([np.arange(10) * 1_000.0, np.zeros(10)]))


@pytest.fixture
def square() -> Ground:
    """12 x 12 cells of 500 m, numbered row by row."""
    x, y = np.meshgrid(np.arange(12), np.arange(12))
    return Ground(np.column_stack([x.ravel(), y.ravel()]) * 500.0)
