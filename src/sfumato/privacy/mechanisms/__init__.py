"""Mechanisms: charged first, then they open the box, draw, and give back what is public."""

from sfumato.privacy.mechanisms.additive import measure_gaussian, measure_laplace
from sfumato.privacy.mechanisms.planar import (
    measure_planar,
    measure_plane_gaussian,
    measure_predictive,
)
from sfumato.privacy.mechanisms.selection import exponential_choice, exponential_choices, noisy_max
from sfumato.privacy.mechanisms.sparse_vector import NoisyDistances, SparseVector

__all__ = [
    "NoisyDistances",
    "SparseVector",
    "exponential_choice",
    "exponential_choices",
    "measure_gaussian",
    "measure_laplace",
    "measure_planar",
    "measure_plane_gaussian",
    "measure_predictive",
    "noisy_max",
]
