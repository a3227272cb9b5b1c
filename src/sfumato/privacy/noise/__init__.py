"""Exact integer noise from a cryptographic stream; no floating point between bits and noise."""

from sfumato.privacy.noise.bits import BitStream, KeyedStream, SeededStream, SystemStream
from sfumato.privacy.noise.discrete import (
    bernoulli_exp,
    choose,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
    representable_sigma,
    representable_sigma2,
    representable_softness,
)

__all__ = [
    "BitStream",
    "KeyedStream",
    "SeededStream",
    "SystemStream",
    "bernoulli_exp",
    "choose",
    "discrete_gaussian",
    "discrete_laplace",
    "representable_scale",
    "representable_sigma",
    "representable_sigma2",
    "representable_softness",
]
