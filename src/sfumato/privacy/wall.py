"""`Wall`: what a scheme is given to measure with. It charges, and it owns the randomness.

Counts, costs, distances and locations reach it in boxes and leave it as measurements. Every
measurement has a label of its own, and its bits come from the release key and that label alone.
So the order of measurements does not matter, and a release that was killed finds the same noise
again. A label is used once: the same bits on two arrays would give away their difference.

`Wall.seeded` is for tests and experiments: its noise is predictable, everything it gives
is marked as tainted, and what is tainted cannot be released. There is no wall without
noise; to see a scheme's own bias, measure with the smallest scale that can be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.traces import Traces
from sfumato.privacy.events import Charger, Measurement, PrivacyEvent, Selection, Selections, Tab
from sfumato.privacy.mechanisms import (
    NoisyDistances,
    SparseVector,
    exponential_choice,
    exponential_choices,
    measure_gaussian,
    measure_laplace,
    measure_planar,
    measure_plane_gaussian,
    measure_predictive,
    noisy_max,
)
from sfumato.privacy.mechanisms.planar import (
    OnPlane,
    PlaneReports,
    PredictedReports,
    Prediction,
    Reports,
    Shown,
)
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.privacy.noise import BitStream, KeyedStream, SeededStream, SystemStream
from sfumato.privacy.noise.planar import Lattice, Strength

_BRANCHES: dict[str, dict[str, str]] = {"measurement": {}, "traces": {"locations": "noise"}}
"""Branches of a release key, and labels whose bits have another name there.

A branch keeps the noise apart from whatever else is derived from the key. What was begun
must find the same bits when it is finished: a name here is part of the format.
"""
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
        self._refuse_again(label)
        self._charger.charge(label, event)
        self._used.add(label)

    def take(self, label: str) -> None:
        """Use a label for random bits that cost nothing."""
        self._refuse_again(label)
        self._used.add(label)

    def _refuse_again(self, label: str) -> None:
        if label in self._used:
            raise UsageError(f"The measurement {label!r} was already taken on this wall.")


class Wall:
    """Measurements of private arrays, charged to `charger`, with noise from `key`."""

    def __init__(self, charger: Charger, key: bytes, branch: str = "measurement") -> None:
        self._set_up(charger, KeyedStream(key, branch), _BRANCHES[branch])

    @classmethod
    def seeded(cls, seed: int | SeededStream, charger: Charger | None = None) -> Self:
        """Predictable noise, marked as such; charges to memory unless told otherwise."""
        root = SeededStream(seed) if isinstance(seed, int) else seed
        return cls._on(root, Tab() if charger is None else charger)

    @classmethod
    def on_device(cls, charger: Charger) -> Self:
        """Noise of the operating system, which nobody can draw again: for the local model."""
        return cls._on(SystemStream(), charger)

    @classmethod
    def _on(cls, root: BitStream, charger: Charger) -> Self:
        wall = cls.__new__(cls)
        wall._set_up(charger, root)
        return wall

    def _set_up(
        self, charger: Charger, root: BitStream, bits: Mapping[str, str] | None = None
    ) -> None:
        self._charger = _Once(charger)
        self._root = root
        self._bits = bits or {}

    @property
    def tainted(self) -> bool:
        """Whether the noise is predictable, so that nothing from here may be released."""
        return self._root.tainted

    def sampling_key(self, label: str) -> bytes:
        """256 bits for a keyed sampling order, on a branch of their own apart from all noise."""
        return self._root.child(_SAMPLING).child(label).words(4).astype("<u8").tobytes()

    def random_order(self, size: int, label: str) -> NDArray[np.int64]:
        """Ranks of `size` things in a random order, on bits that no measurement can have.

        Its label is used up like that of a measurement: the order is published as names, and noise
        from the same bits would be known.
        """
        self._charger.take(label)
        keys = self._stream(label).words(size)
        rank = np.empty(size, np.int64)
        rank[np.argsort(keys, kind="stable")] = np.arange(size)  # equal keys keep their places
        return rank

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        """Discrete Gaussian noise on a whole array; see `mechanisms.additive`."""
        return measure_gaussian(box, sigma2=sigma2, touched=touched, **self._paid(label))

    def laplace(
        self, box: Private[Counts], *, scale: Fraction | int, label: str, about: str = ""
    ) -> Measurement:
        """Discrete Laplace noise on a whole array; see `mechanisms.additive`.

        `about` binds the bits to what is measured as well as to the label.
        """
        return measure_laplace(box, scale=scale, **self._paid(label, about))

    def select(
        self,
        box: Private[NDArray[np.int64]],
        *,
        softness: Fraction | int,
        range_units: int,
        label: str,
    ) -> Selection:
        """The exponential mechanism over integer costs; see `mechanisms.selection`."""
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
        """One choice in every row of a table of integer costs; see `mechanisms.selection`."""
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
        """Permute-and-flip over integer costs; see `mechanisms.selection`."""
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
        used: int = 0,
    ) -> SparseVector:
        """A run of threshold questions, charged as a whole; see `mechanisms.sparse_vector`."""
        return SparseVector(
            threshold=threshold,
            sensitivity=sensitivity,
            positives=positives,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            histograms=histograms,
            used=used,
            **self._paid(label),
        )

    def distances(
        self, *, most: int, sensitivity: int, sigma2: Fraction | int, label: str
    ) -> NoisyDistances:
        """A run of noisy distances, charged as a whole; see `mechanisms.sparse_vector`."""
        return NoisyDistances(
            most=most,
            sensitivity=sensitivity,
            sigma2=sigma2,
            **self._paid(label),
        )

    def planar(
        self,
        box: Private[Shown],
        *,
        strength: Strength,
        most_reports: int,
        label: str,
        lattice: Lattice | None = None,
    ) -> Reports:
        """Planar Laplace noise on locations; see `mechanisms.planar`."""
        return measure_planar(
            box,
            strength=strength,
            most_reports=most_reports,
            lattice=lattice,
            **self._paid(label),
        )

    def predictive(
        self,
        box: Private[Traces],
        *,
        setting: Prediction,
        label: str,
        lattice: Lattice | None = None,
    ) -> PredictedReports:
        """Fresh reports only where the last one no longer fits; see `mechanisms.planar`."""
        return measure_predictive(box, setting=setting, lattice=lattice, **self._paid(label))

    def plane_gaussian(
        self,
        box: Private[OnPlane],
        *,
        reach: float,
        most_reports: int,
        sigma2: Fraction | int,
        label: str,
    ) -> PlaneReports:
        """Gaussian noise on locations of a plane; see `mechanisms.planar`."""
        return measure_plane_gaussian(
            box, reach=reach, most_reports=most_reports, sigma2=sigma2, **self._paid(label)
        )

    def _paid(self, label: str, about: str = "") -> _Paid:
        stream = self._stream(label)
        bits = stream.child(about) if about else stream
        return {"label": label, "stream": bits, "charger": self._charger}

    def _stream(self, label: str) -> BitStream:
        if label in self._bits.values():
            raise UsageError(f"The bits called {label!r} belong to another measurement.")
        return self._root.child(self._bits.get(label, label))

    def __repr__(self) -> str:
        return "<wall with predictable noise, for tests>" if self.tainted else "<wall>"
