"""What passes the wall in a replay: answers and bits that are the same whatever the data are.

A verb is run as it is, but for three things. The arrays that a mechanism has paid for are handed to
a recorder, and the mechanism goes on with those of a *transcript*, which knows nothing of the data.
Whatever asks for random bytes gets the same ones in every run. Every clock stands still. So
everything that is published must be the same for every input, to the last byte; and the recorder
holds what each measurement was about to measure, beside the sensitivity that it was charged for.

Noise that is predictable (a rehearsal on made-up people) is left alone: nothing private is there.
A mechanism whose content no rule below knows is refused, so that a new one cannot slip through.
"""

from __future__ import annotations

import datetime as clocks
import hashlib
import inspect
import os
import pkgutil
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import singledispatch, wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.traces import Traces
from sfumato.privacy import mechanisms
from sfumato.privacy.door import open_private
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
)
from sfumato.privacy.mechanisms import planar
from sfumato.privacy.wall import Wall

Values = NDArray[Any]
Name = tuple[int, str, int]
"""Which wall of the run, the label of the measurement, and which opening under that label."""
NOW = clocks.datetime(2026, 1, 1, tzinfo=clocks.UTC)


class Unknown(Exception):
    """A private content, or a charge, of a kind that no rule here can replace or check."""


# What a content consists of, as an array, and the same content with another array in its place.


@singledispatch
def behind(content: Any) -> Values:
    raise Unknown(f"No rule says what a transcript holds in place of {type(content).__name__}.")


@singledispatch
def shown(content: Any, values: Values) -> Any:
    del values
    raise Unknown(f"No rule says how {type(content).__name__} is made from a transcript.")


behind.register(Counts, lambda content: content.values)
shown.register(Counts, lambda content, values: replace(content, values=values))
behind.register(np.ndarray, lambda content: content)
shown.register(np.ndarray, lambda _, values: values)
for _kind in (int, np.integer):
    behind.register(_kind, lambda content: np.array([int(content)], np.int64))
    shown.register(_kind, lambda _, values: int(values[0]))
behind.register(Traces, lambda content: np.column_stack((content.lon, content.lat)))
shown.register(Traces, lambda content, values: content.at(*values.T.copy()))
behind.register(planar.Shown, lambda content: behind(content.rows))
shown.register(
    planar.Shown, lambda content, values: replace(content, rows=shown(content.rows, values))
)
behind.register(planar.OnPlane, lambda content: content.units)
shown.register(planar.OnPlane, lambda content, values: replace(content, units=values))


@dataclass(eq=False)
class Request:
    """A call of the wall: what was asked for, and what it was charged as."""

    wall: int
    label: str
    words: Mapping[str, Any]
    event: PrivacyEvent | None = None
    openings: int = 0


@dataclass(frozen=True, eq=False)
class Measured:
    """The private numbers that one measurement was about to see, and what was claimed of them."""

    request: Request
    values: Values
    claim: Counts | None
    """Counts as they came, with the sensitivities of their bound."""


class Transcript:
    """Answers of earlier runs, or zeros: whatever it is asked, the data have no part in it."""

    def __init__(self, answers: Mapping[Name, Values] | None = None) -> None:
        self.answers = answers

    def answer(self, name: Name, truth: Values) -> Values:
        """Numbers of the shape and type of the truth.

        Raises:
            Unknown: The transcript has none: the run took another turn than the run that made it.
        """
        if self.answers is None:
            return np.zeros_like(truth)
        values = self.answers.get(name)
        if values is None or values.shape != truth.shape:
            raise Unknown(f"The measurement {name[1]!r} is not one of the public model's.")
        return values.copy()


@dataclass(eq=False)
class Recorder:
    """Stands where mechanisms open private boxes; `transcript` None lets the truth through."""

    transcript: Transcript | None
    measured: dict[Name, Measured] = field(default_factory=dict)
    charged: list[tuple[int, str, PrivacyEvent]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Rules that were missing: a run with one is no replay."""
    _walls: int = 0
    _requests: list[Request | None] = field(default_factory=list)
    _runs: list[tuple[object, Request | None]] = field(default_factory=list)

    def opened(self, box: Private[Any]) -> Any:
        """What a mechanism is given for a box that it has paid for."""
        owner = sys._getframe(1).f_locals.get("self")  # a run of questions outlives its call
        mine = [known for run, known in self._runs if run is owner]
        request = mine[0] if mine else self._now()
        truth = open_private(box)
        if request is None:
            return truth
        try:
            return self._passed(request, truth)
        except Unknown as why:
            self.refused.append(str(why))
            raise

    def _now(self) -> Request | None:
        if not self._requests:
            self.refused.append("A box was opened by a mechanism that no wall had called.")
            raise Unknown(self.refused[-1])
        return self._requests[-1]

    def _passed(self, request: Request, truth: Any) -> Any:
        values = behind(truth)
        request.openings += 1
        name = (request.wall, request.label, request.openings)
        claim = truth if isinstance(truth, Counts) else None
        self.measured[name] = Measured(request, values.copy(), claim)
        if self.transcript is None:
            return truth
        return shown(truth, self.transcript.answer(name, values))

    def charge_of(self, charger: Any) -> Any:
        """The charger, heard."""
        recorder = self

        class Heard:
            def charge(self, label: str, event: PrivacyEvent) -> None:
                charger.charge(label, event)
                request = recorder._requests[-1] if recorder._requests else None
                if request is not None:
                    request.event = event
                    recorder.charged.append((request.wall, label, event))

            def __getattr__(self, name: str) -> Any:
                return getattr(charger, name)

        return Heard()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Every wall and every mechanism that is registered goes through here meanwhile."""
        with patch.object(Wall, "_set_up", self._set_up(Wall._set_up)):
            patches = [
                patch.object(Wall, name, self._heard(method))
                for name, method in vars(Wall).items()
                if not name.startswith("_")
                and inspect.isfunction(method)
                and "label" in inspect.signature(method).parameters
            ]
            for module in pkgutil.iter_modules(mechanisms.__path__, f"{mechanisms.__name__}."):
                if hasattr(loaded := import_module(module.name), "open_private"):
                    patches.append(patch.object(loaded, "open_private", self.opened))
            with _all(patches):
                yield

    def _set_up(self, method: Any) -> Any:
        def set_up(wall: Any, charger: Any, root: Any, bits: Any = None) -> None:
            wall.number = None if root.tainted else self._walls
            self._walls += not root.tainted
            method(wall, charger if root.tainted else self.charge_of(charger), root, bits)

        return set_up

    def _heard(self, method: Any) -> Any:
        @wraps(method)
        def heard(wall: Any, *given: Any, **words: Any) -> Any:
            request = None
            if wall.number is not None:
                stated = inspect.signature(method).bind(wall, *given, **words).arguments
                request = Request(wall.number, stated["label"], stated)
            self._requests.append(request)
            try:
                answer = method(wall, *given, **words)
            finally:
                self._requests.pop()
            if not isinstance(answer, bytes | np.ndarray):
                self._runs.append((answer, request))
            return answer

        return heard


@contextmanager
def _all(patches: list[Any]) -> Iterator[None]:
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()


# Bits and clocks.


@contextmanager
def same_bits_and_time() -> Iterator[None]:
    """Random bytes by who asks for them and how often, and a clock that stands still."""
    calls: Counter[str] = Counter()

    def drawn(size: int = 32) -> bytes:
        module = sys._getframe(1).f_globals.get("__name__", "")
        if module == __name__:
            module = sys._getframe(2).f_globals.get("__name__", "")
        calls[module] += 1
        return hashlib.shake_256(f"{module} {calls[module]}".encode()).digest(size)

    class Standing(clocks.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return NOW.astimezone(tz) if tz is not None else NOW.replace(tzinfo=None)

    patches = [
        patch.object(secrets, "token_bytes", drawn),
        patch.object(secrets, "token_hex", lambda size=32: drawn(size).hex()),
        patch.object(
            secrets, "randbits", lambda k: int.from_bytes(drawn(k // 8 + 1)) >> (8 - k % 8)
        ),
        patch.object(os, "urandom", drawn),
    ]
    for name, module in list(sys.modules.items()):
        if name.startswith("sfumato."):
            if getattr(module, "datetime", None) is clocks.datetime:
                patches.append(patch.object(module, "datetime", Standing))
            if getattr(module, "time", None) is time:
                patches.append(patch.object(module, "time", _StandingTime()))
    with _all(patches):
        yield


class _StandingTime:
    """`time` with the clock of the wall stopped; the one that only measures goes on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return NOW.timestamp()


# Sensitivities, by brute force.


def shapes(one: Measured, other: Measured) -> list[str]:
    """Whether two inputs have arrays of the same shape."""
    shape, label = one.values.shape, one.request.label
    same = shape == other.values.shape
    return [] if same else [f"{label}: the shape {shape} is {other.values.shape} for another"]


def excess(one: Measured, other: Measured) -> list[str]:
    """Where the numbers of neighbours lie further apart than what was charged for; empty if fine.

    Sums are of plain integers, so that no square overflows.
    """
    label, event = one.request.label, one.request.event
    if isinstance(event, MetricEvent):
        return []  # a loss per metre: every move of a location is within it
    moved = [
        int(b) - int(a) for a, b in zip(*(m.values.ravel() for m in (one, other)), strict=True)
    ]
    l1, square = sum(map(abs, moved)), sum(m * m for m in moved)
    cells = sum(m != 0 for m in moved)
    apart = (max(moved) - min(moved)) if moved else 0
    words = one.request.words
    rows: list[tuple[str, float, float]]
    if isinstance(event, GaussianEvent) and "most" in words:  # a run of distances
        rows = [("distance", l1, words["sensitivity"])]
    elif isinstance(event, GaussianEvent):
        rows = [("L2", square**0.5, event.l2), ("cells", cells, event.touched)]
    elif isinstance(event, LaplaceEvent):
        rows = [("L1", l1, event.l1)]
    elif isinstance(event, PureEvent) and "threshold" in words:  # a run of threshold questions
        histograms = words.get("histograms")
        whole = one.claim is not None and histograms is not None
        rows = [("L1", l1, histograms.l1 if whole else words["sensitivity"])]
    elif isinstance(event, BoundedRangeEvent | PureEvent):
        rows = [("range", apart, words["range_units"])]
    elif isinstance(event, ConcentratedEvent):
        table = np.array(moved, object).reshape(one.values.shape)
        ranges = [(max(row) - min(row)) ** 2 for row in table.tolist()]
        rows = [("ranges", sum(ranges) ** 0.5, words["range_units"])]
    else:
        raise Unknown(f"No rule says how far a neighbour may move what is charged as {event}.")
    return [
        f"{label}: {norm} {much:g} where {allowed:g} was charged"
        for norm, much, allowed in rows
        if much > allowed * (1 + 1e-12)
    ]


def excess_together(pairs: list[tuple[Measured, Measured]], claim: GaussianEvent) -> list[str]:
    """The same of Gaussian rows of one matrix, which are charged as one."""
    square = sum(
        (int(b) - int(a)) ** 2
        for one, other in pairs
        for a, b in zip(one.values.ravel(), other.values.ravel(), strict=True)
    )
    much = square**0.5
    within = much <= claim.l2 * (1 + 1e-9)
    return [] if within else [f"all rows: L2 {much:g} where {claim.l2:g} was charged"]


def moves(
    one: Recorder, other: Recorder, neighbours: bool, together: GaussianEvent | None = None
) -> list[str]:
    """Every measurement whose sensitivity is smaller than what these two inputs show.

    Inputs that are no neighbours have the same measurements at the same price all the same.
    `together`: what all measurements are charged as, where they are rows of one matrix.
    """
    if one.charged != other.charged or one.measured.keys() != other.measured.keys():
        return ["what is measured, or what it is charged as, depends on the data"]
    pairs = [(one.measured[name], other.measured[name]) for name in one.measured]
    lines = [line for a, b in pairs for line in shapes(a, b)]
    if lines or not neighbours:
        return lines
    if together is not None:
        return excess_together(pairs, together)
    return [line for a, b in pairs for line in excess(a, b)]
