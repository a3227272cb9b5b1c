"""What a stream measured, kept for the streams after it: noisy vectors, when, and how noisy.

`comb` estimates every slot from the vectors that it measured last. They were paid for, so they are
public, and the folder of a complete stream keeps them in `measurements.npz` as a release keeps
those of `bayes`: whole steps of a 32nd of the noise's standard deviation, with the times, the
variances and the kind of day of each. A later stream about the same places, slots and clock begins
with them (`--earlier`) instead of with nothing. That costs nothing: it is post-processing of what
was published. The reservation holds a digest of what was taken up.

Nothing in the file comes from anywhere else than measurements and public facts. A folder that is
unsealed, altered, tainted, about other places or later than the stream is refused, and what a
stream takes up is bounded by the number of vectors that it remembers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.measured import FINENESS, whole_steps
from sfumato.errors import InputError, UsageError
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.published.folder import MEASUREMENTS, read_arrays
from sfumato.published.manifest import GridFacts
from sfumato.published.release import Release, as_release, vouched
from sfumato.streams.spreading import BEFORE_NOISE

Values = NDArray[np.float64]
KIND = "comb/1"
"""The form of the arrays."""
_ARRAYS = ("at", "phase", "free", "factor", "variance", "seen")
_ALIKE, _OTHER_LEVEL = 0.7, 1.5
"""Slope of a first vector on its forecast below which earlier streams are of another city, and how
many times more or fewer people there are from which on they are scaled."""
_LIKELY, _SURE = 0.5, 4.0
"""How far levels differ, and standard deviations from which on that is believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Noisy vectors in the order of time, each with when it was taken and how noisy it is."""

    at: Values
    """Days since the first midnight of the stream that reads them; of earlier ones below 0."""
    phase: Values
    """Time of day as a share of the day's slots."""
    free: NDArray[np.bool_]
    factor: Values
    """How much more than usual the vector's day may differ from others."""
    variance: Values
    seen: Values
    """Vector x cell: people, noisy."""
    laplace: bool

    def __len__(self) -> int:
        return int(self.at.size)

    def last(self, most: int) -> Vectors:
        """The last of them."""
        of = slice(max(len(self) - most, 0), None)
        return replace(self, **{name: getattr(self, name)[of] for name in _ARRAYS})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The file's arrays."""
        return {
            "kind": np.array(KIND),
            "at": self.at,
            "phase": self.phase,
            "free": self.free,
            "factor": self.factor,
            "variance": self.variance,
            "laplace": np.array(self.laplace),
            "vectors": whole_steps(self.seen, np.sqrt(self.variance)[:, None]),
        }


def vectors_in(arrays: Mapping[str, NDArray[Any]], cells: int, days: int) -> Vectors:
    """What `Vectors.arrays` wrote, with its times moved so many days back.

    Raises:
        ValueError: Arrays are missing, or do not fit each other and the cells.
    """
    try:
        if str(arrays["kind"]) != KIND:
            raise ValueError("another form")
        at, phase, factor, variance = (
            np.asarray(arrays[name], dtype=np.float64)
            for name in ("at", "phase", "factor", "variance")
        )
        free, laplace = np.asarray(arrays["free"], dtype=bool), bool(arrays["laplace"])
        steps = np.asarray(arrays["vectors"])
        if not np.issubdtype(steps.dtype, np.integer):
            raise ValueError("no whole steps")
        seen = steps * (np.sqrt(variance) / FINENESS)[:, None]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError("the arrays are not those of a stream") from error
    numbers = (at, phase, factor, variance)
    fits = seen.shape == (at.size, cells) and all(one.shape == free.shape for one in numbers)
    if not (fits and at.ndim == 1 and all(np.isfinite(one).all() for one in (*numbers, seen))):
        raise ValueError("the arrays do not fit each other")
    inside = ((phase >= 0) & (phase <= 1)).all() and (np.diff(at) >= 0).all()
    if not (inside and (variance > 0).all() and (factor > 0).all()):
        raise ValueError("the times or variances are not valid")
    # What rounding to steps adds to the noise.
    variance = variance * (1 + 1 / (12 * FINENESS**2))
    return Vectors(at - days, phase, free, factor, variance, seen, laplace)


def earlier_vectors(
    folders: Sequence[str | os.PathLike[str] | Release], measured: Places, grid: TimeGrid, most: int
) -> tuple[Vectors | None, str]:
    """The last vectors of earlier streams, in the order of time, and a digest of the files.

    Args:
        folders: What was published before.
        measured: The places that this stream measures.
        grid: Its slots.
        most: How many vectors it remembers.

    Returns:
        No vectors where none of the folders holds one.

    Raises:
        InputError: A folder was altered, keeps no vectors, or is about other places, slots or
            later days.
        UsageError: Two folders overlap in time, or their noise is of two kinds.
    """
    found: list[tuple[int, int, Vectors, str]] = []
    for folder in folders:
        release = vouched(as_release(folder), "It cannot be an earlier stream")
        where, manifest = str(release.folder), release.manifest
        if manifest.kind != "stream" or not release.files.holds(MEASUREMENTS):
            raise InputError(
                "it keeps no vectors: it is not a stream of comb, or a version made it that did "
                "not keep them.",
                file=where,
                remedy="Leave it out; streams of comb that end from now on keep theirs.",
            )
        split = BEFORE_NOISE in manifest.public_inputs
        if (manifest.released if split else manifest.counted).sha256 != measured.fingerprint():
            raise InputError(
                "An earlier stream is about other places than this one.",
                file=where,
                remedy="Give streams of the same zones or towers, or leave it out.",
            )
        if not manifest.grid.alike(GridFacts.of(grid)):
            raise InputError(
                "An earlier stream has other time slots than this one.",
                file=where,
                remedy="Give streams with the same `slot` and `tz`, or leave it out.",
            )
        first, stop = int(release.grid.edges[0]), int(release.grid.edges[-1])
        if stop > grid.edges[0]:
            raise InputError(
                "An earlier stream ends after this one begins.",
                file=where,
                remedy="Give streams that ended before `start`.",
            )
        days = (grid.start(0).date() - date.fromisoformat(manifest.grid.start[:10])).days
        try:
            vectors = vectors_in(read_arrays(release.files), len(measured), days)
        except ValueError:
            raise InputError("it does not hold the vectors of this stream.", file=where) from None
        found.append((first, stop, vectors, manifest.files[MEASUREMENTS]))
    found.sort(key=lambda one: one[0])
    if any(one[1] > other[0] for one, other in pairwise(found)):
        raise UsageError("Two earlier streams overlap in time.", remedy="Give one of them.")
    named = hashlib.sha256("\n".join(digest for *_, digest in found).encode()).hexdigest()
    parts = [vectors for _, _, vectors, _ in found if len(vectors)]
    if not parts:
        return None, named
    if len({part.laplace for part in parts}) > 1:
        raise UsageError(
            "Earlier streams were measured with two kinds of noise.", remedy="Give one of them."
        )
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS
    }
    return replace(parts[0], **whole).last(most), named


def recalled(foretold: Values, noisy: Values, variance: float) -> float | None:
    """The level of a first vector over what earlier streams foretell of it; None: another city.

    The level is that of the sums, as far as the noise lets them tell. How alike the cities are is
    the slope of the vector on its forecast, both without their means, over that level: 1 where
    the same places are busy, 0 where others are. Where the noise is small against the counts some
    places that changed do more harm than the others help: earlier streams are also left out where
    they miss by more (beyond noise and chance) than the vector would by itself, shrunk as well as
    its own spread allows. Post-processing.

    Args:
        foretold: Every cell's count as the earlier vectors have it.
        noisy: What was measured.
        variance: Of its noise.
    """
    total, apart = float(foretold.sum()), foretold - foretold.mean()
    square = float(apart @ apart)
    if square <= 0 or total <= 0:
        return None
    slope, doubt = float(apart @ noisy) / square, (variance / square) ** 0.5
    weight = total**2 / (noisy.size * variance)
    level = (weight * float(noisy.sum()) / total + _LIKELY**-2) / (weight + _LIKELY**-2)
    if level <= 0 or slope + doubt < _ALIKE * level:
        return None
    missed = noisy - level * foretold
    chance = variance + level * total / noisy.size
    miss = float(missed @ missed) - noisy.size * chance
    spread = max(float(np.var(noisy)) - variance, 0.0)
    alone = noisy.size * spread * variance / (spread + variance)
    # Squares of Laplace noise have five times the square of its variance.
    if miss - 2 * variance * (5 * noisy.size) ** 0.5 > alone:
        return None
    sure = abs(level - 1) > _SURE * weight**-0.5
    return level if sure and not 1 / _OTHER_LEVEL < level < _OTHER_LEVEL else 1.0
