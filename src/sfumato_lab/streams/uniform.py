"""`uniform`: direct perturbation under the name that Kellaris et al. 2014 give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.streams.parameters import NOISE, Declaration
from sfumato.streams.schemes.baselines import Direct


@dataclass(frozen=True, slots=True)
class Uniform(Direct):
    """`direct` under the name that Kellaris et al. give it."""

    name: str = "uniform"
    declares: ClassVar = Declaration(parameters=NOISE)


scheme = Uniform()
