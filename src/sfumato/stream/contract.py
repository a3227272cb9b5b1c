"""The contract of streams: a scheme plans from public facts and makes a publisher.

A publisher is given the private counts of one slot and a wall, and returns what is published.
It keeps what it needs in a `State` that can be put away and taken up again: plain numbers and
arrays, and private boxes where the scheme compares with raw counts of an earlier slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Account, Meter

Values = NDArray[np.float64]
State = Mapping[str, Any]
"""JSON values, numpy arrays and private boxes of numpy arrays, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """What leaves at one slot. `fresh` where something was measured for it."""

    values: Values
    fresh: bool
    sd: float
    """Standard deviation of the noise in one value, as far as public facts tell."""
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The accounts that the ledger reserves, and the plan in plain words."""

    scheme: str
    accounts: tuple[Account, ...]
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        labels = [account.label for account in self.accounts]
        if len(set(labels)) != len(labels) or any("@" in label for label in labels):
            raise UsageError("Accounts have names of their own, without the sign @.")
        if len({account.pure for account in self.accounts}) > 1:
            raise UsageError("A plan is pure throughout or Gaussian throughout.")


class Publisher(Protocol):
    """Publishes slot after slot, in order, each once."""

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication: ...

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


@runtime_checkable
class Finished(Protocol):
    """A publisher that must see a whole window before its first slot leaves."""

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        """`whole` is cell x slot of one window, its first slot being `first`."""


class StreamScheme(Protocol):
    """A recipe. `finished` says that it needs a window as a whole before it publishes."""

    @property
    def name(self) -> str: ...

    @property
    def finished(self) -> bool: ...

    def plan(self, facts: StreamFacts) -> StreamPlan: ...

    def publisher(self, facts: StreamFacts) -> Publisher: ...
