"""Noisy numbers that nobody meant: every publisher's reading of whatever the wall hands over."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.total.handed import FAMILIES, HANDS, LIKELY, Reading

from sfumato.privacy.last_resort import refined, uses

ALL = {**HANDS, **LIKELY}


@dataclass
class Read:
    """What was read: by family, under noise that can occur and under any hand, and what failed."""

    likely: Counter[str] = field(default_factory=Counter)
    any: Counter[str] = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)
    resorts: int = 0
    """Uses of the last resort."""

    @property
    def total(self) -> int:
        return self.likely.total() + self.any.total()


def tried(count: int, seed: int) -> Read:
    """So many readings, the families in turn, half of them under noise that can occur."""
    read, number = Read(), seed * 1_000_000
    while read.total < count:
        rng = np.random.default_rng(number)
        for family, readings in FAMILIES.items():
            for reading in readings(rng):
                hands, kind = (LIKELY, read.likely) if rng.random() < 0.5 else (HANDS, read.any)
                hand = list(hands)[rng.integers(len(hands))]
                kind[family] += 1
                if fault := _fault(reading, hand, number):
                    read.faults[f"{number} {hand}: {reading.name}"] = fault
        number += 1
        if number % 100 == 0:
            print(f"{read.total:,} readings", file=sys.stderr, flush=True)
    read.resorts = sum(uses().values())
    return read


def _fault(reading: Reading, hand: str, seed: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            refined("a reading", lambda: reading.finite(ALL[hand], seed), _resorted)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "sfumato" in frame.filename] or list(frames)
            where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
            return f"{type(error).__name__} at {where}: {error}"
    return ""


def _resorted() -> None:
    raise AssertionError("arithmetic failed: the last resort would be used")
