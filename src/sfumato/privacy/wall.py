"""`Wall`: what a scheme is given to measure with. It charges, and it owns the randomness.

Every measurement has a label of its own, and its bits come from the release key and that
label alone. So the order of measurements does not matter, and a release that was killed
finds the same noise again. A label is used once: the same bits on two arrays would give away
their difference.

`Wall.seeded` is for tests and experiments: its noise is predictable, everything it gives
is marked as tainted, and what is tainted cannot be released. There is no wall without
noise; to see a scheme's own bias, measure with the smallest scale that can be drawn.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Charger, Measurement, PrivacyEvent, Selection, Selections, Tab
from sfumato.privacy.mechanisms import (
    NoisyDistances,
    SparseVector,
    exponential_choice,
    exponential_choices,
    measure_gaussian,
    measure_laplace,
    noisy_max,
)
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.privacy.noise import BitStream, KeyedStream, SeededStream

_BRANCH = "measurement"
"""Keeps the noise apart from whatever else is derived from a release key."""

_SAMPLING = "sampling order"


class _Paid(TypedDict):
    """What every mechanism is given: its name, its bits, and who is asked to pay first."""

    label: str
    stream: BitStream
    charger: Charger


class _Once:
    """Passes each label's charge on once."""

    def __init__(self, charger: Charger) -> None:
        self._charger = charger
        self._used: set[str] = set()

    def charge(self, label: str, event: PrivacyEvent) -> None:
        if label in self._used:
            raise UsageError(f"The measurement {label!r} was already taken on this wall.")
        self._charger.charge(label, event)
        self._used.add(label)


class Wall:
    """Measurements of private arrays, charged to `charger`, with noise from `key`."""

    def __init__(self, charger: Charger, key: bytes) -> None:
        self._set_up(charger, KeyedStream(key, _BRANCH))

    @classmethod
    def seeded(cls, seed: int, charger: Charger | None = None) -> Wall:
        """Predictable noise, marked as such; charges to memory unless told otherwise."""
        wall = cls.__new__(cls)
        wall._set_up(Tab() if charger is None else charger, SeededStream(seed))
        return wall

    def _set_up(self, charger: Charger, root: BitStream) -> None:
        self._charger = _Once(charger)
        self._root = root

    @property
    def tainted(self) -> bool:
        """Whether the noise is predictable, so that nothing from here may be released."""
        return self._root.tainted

    def sampling_key(self, label: str) -> bytes:
        """256 bits for a keyed sampling order, on a branch of their own apart from all noise."""
        return self._root.child(_SAMPLING).child(label).words(4).astype("<u8").tobytes()

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        """Discrete Gaussian noise on a whole array; see `mechanisms.gaussian`."""
        return measure_gaussian(box, sigma2=sigma2, touched=touched, **self._paid(label))

    def laplace(self, box: Private[Counts], *, scale: Fraction | int, label: str) -> Measurement:
        """Discrete Laplace noise on a whole array; see `mechanisms.laplace`."""
        return measure_laplace(box, scale=scale, **self._paid(label))

    def select(
        self,
        box: Private[NDArray[np.int64]],
        *,
        softness: Fraction | int,
        range_units: int,
        label: str,
    ) -> Selection:
        """The exponential mechanism over integer costs; see `mechanisms.exponential`."""
        return exponential_choice(
            box, softness=softness, range_units=range_units, **self._paid(label)
        )

    def select_in_rows(
        self,
        box: Private[NDArray[np.int64]],
        *,
        softness: Fraction | int,
        range_units: int,
        label: str,
    ) -> Selections:
        """One choice in every row of a table of integer costs; see `mechanisms.choices`."""
        return exponential_choices(
            box, softness=softness, range_units=range_units, **self._paid(label)
        )

    def noisy_max(
        self,
        box: Private[NDArray[np.int64]],
        *,
        softness: Fraction | int,
        range_units: int,
        label: str,
    ) -> Selection:
        """Permute-and-flip over integer costs; see `mechanisms.noisy_max`."""
        return noisy_max(box, softness=softness, range_units=range_units, **self._paid(label))

    def sparse_vector(
        self,
        *,
        threshold: int,
        sensitivity: int,
        positives: int,
        threshold_scale: Fraction | int,
        query_scale: Fraction | int,
        label: str,
        histograms: Histograms | None = None,
    ) -> SparseVector:
        """A run of threshold questions, charged as a whole; see `mechanisms.sparse_vector`."""
        return SparseVector(
            threshold=threshold,
            sensitivity=sensitivity,
            positives=positives,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            histograms=histograms,
            **self._paid(label),
        )

    def distances(
        self, *, most: int, sensitivity: int, sigma2: Fraction | int, label: str
    ) -> NoisyDistances:
        """A run of noisy distances, charged as a whole; see `mechanisms.noisy_distances`."""
        return NoisyDistances(
            most=most,
            sensitivity=sensitivity,
            sigma2=sigma2,
            **self._paid(label),
        )

    def _paid(self, label: str) -> _Paid:
        return {"label": label, "stream": self._root.child(label), "charger": self._charger}

    def __repr__(self) -> str:
        return "<wall with predictable noise, for tests>" if self.tainted else "<wall>"
