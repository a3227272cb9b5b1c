"""Exact integer noise from a cryptographic stream; no floating point between bits and noise."""

from sfumato.privacy.noise.coins import bernoulli_exp
from sfumato.privacy.noise.gaussian import discrete_gaussian
from sfumato.privacy.noise.laplace import discrete_laplace
from sfumato.privacy.noise.scale import (
    representable_scale,
    representable_sigma,
    representable_sigma2,
)
from sfumato.privacy.noise.select import choose, representable_softness
from sfumato.privacy.noise.stream import BitStream, KeyedStream, SeededStream, SystemStream

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
