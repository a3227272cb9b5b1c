"""Mechanisms: charged first, then they open the box, draw, and give back what is public."""

from sfumato.privacy.mechanisms.choices import exponential_choices
from sfumato.privacy.mechanisms.exponential import exponential_choice
from sfumato.privacy.mechanisms.gaussian import measure_gaussian
from sfumato.privacy.mechanisms.laplace import measure_laplace
from sfumato.privacy.mechanisms.noisy_distances import NoisyDistances
from sfumato.privacy.mechanisms.noisy_max import noisy_max
from sfumato.privacy.mechanisms.sparse_vector import SparseVector

__all__ = [
    "NoisyDistances",
    "SparseVector",
    "exponential_choice",
    "exponential_choices",
    "measure_gaussian",
    "measure_laplace",
    "noisy_max",
]
