"""What `bayes` measured: noisy numbers and the public settings they were taken with.

Paid for, so public: everything that is published follows from this and from public facts, by
`inference`. It is kept apart from the wall so that the same numbers can be read again, with a
better method or together with those of other weeks, and a release keeps it in its folder.

What is kept is rounded to a 32nd of the noise's standard deviation (the variance grows by one part
in 12,000), and rounded before anything is read from it: whoever reads the file again has the very
numbers that the release was made from. The file holds whole numbers of those steps, the standard
deviations, limits and weights, and the public facts that the reading asks for: which share of a
counted place lies in which released one, where places are, epsilon, how many people were expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.scheme import Parameter, PublicFacts
from sfumato.errors import SfumatoError
from sfumato.geography.overlay import Layout, Overlay
from sfumato.model.counts import Counting
from sfumato.model.tiles import tiles
from sfumato.model.time_grid import TimeGrid

Table = NDArray[np.float64]
Vector = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

FINENESS = 32
"""Steps of what is kept in a standard deviation of its noise."""
_MOST_STEPS = 2.0**62
"""A number of more steps is no whole number of 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """The ladder, and noisy totals of counted places and of slots.

    Totals are of bounded people: `place_limit` and `slot_limit` are the norms up to which a person
    counts fully.
    """

    steps: tuple[int, ...]
    ladder: Vector
    """Noisy sums of the steps …"""
    ladder_sd: Vector
    """… and the standard deviation of the noise of each."""
    places: Vector
    places_sd: float
    place_limit: float
    slots: Vector
    slots_sd: float
    slot_limit: float


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The margins, and the matrix that was weighted by what they say."""

    margins: Margins
    place_weights: Vector
    """b, released x slots, is weights of places …"""
    slot_weights: Vector
    """… times weights of slots: made from the margins, before the matrix was measured."""
    steps: NDArray[Any]
    """b o (A x) of bounded people, noisy, in whole steps of the lattice that is kept."""
    matrix_sd: float
    matrix_limit: float

    @property
    def matrix(self) -> Table:
        """The noisy matrix itself: a table of the caller's own."""
        return np.asarray(self.steps * (np.float64(self.matrix_sd) / FINENESS))

    def weights(self, rows: slice = slice(None), slots: slice = slice(None)) -> Table:
        """b, of some places and slots."""
        found: Table = np.outer(self.place_weights[rows], self.slot_weights[slots])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The measurements of a release with what is public about them, as its folder keeps them."""

    release: str
    """Id of the release: two readings of the same measurements share it."""
    digest: str
    """SHA-256 of the file."""
    measured: Measured
    facts: PublicFacts


def grained(values: Table, sd: float | Vector) -> Table:
    """Noisy numbers on the lattice that is kept. Post-processing."""
    step = np.asarray(sd) / FINENESS
    return np.asarray(_whole(values, step) * step)


def whole_steps(values: Table, sd: float | Table) -> NDArray[Any]:
    """Noisy numbers as whole steps of that lattice, in the narrowest type that holds them."""
    whole = _whole(values, np.asarray(sd) / FINENESS)
    for kind in (np.int16, np.int32):
        if whole.size == 0 or np.abs(whole).max() <= np.iinfo(kind).max:
            return whole.astype(kind)
    return whole


def separable(weights: Table) -> tuple[Vector, Vector]:
    """Weights of places and weights of slots, in single precision: kept as two short lists.

    The first column, and the first row over its first entry. A product of two such numbers is
    exact.
    """
    places = weights[:, 0].astype(np.float32).astype(np.float64)
    slots = (weights[0] / weights[0, 0]).astype(np.float32).astype(np.float64)
    for rows in tiles(weights.shape):
        alike = np.allclose(np.outer(places[rows], slots), weights[rows], rtol=1e-5)
        assert alike, "weights of places times weights of slots"
    return places, slots


def keep(measured: Measured, facts: PublicFacts) -> dict[str, NDArray[Any]]:
    """The arrays of the file: measurements and public settings, and nothing else."""
    margins = measured.margins
    found: dict[str, NDArray[Any]] = {
        "ladder_steps": np.array(margins.steps, dtype=np.int64),
        "ladder_sd": margins.ladder_sd,
        "ladder": whole_steps(margins.ladder, margins.ladder_sd),
        "place_limit": np.array(margins.place_limit),
        "places_sd": np.array(margins.places_sd),
        "places": whole_steps(margins.places, margins.places_sd),
        "slot_limit": np.array(margins.slot_limit),
        "slots_sd": np.array(margins.slots_sd),
        "slots": whole_steps(margins.slots, margins.slots_sd),
        "matrix_limit": np.array(measured.matrix_limit),
        "matrix_sd": np.array(measured.matrix_sd),
        "place_weights": measured.place_weights.astype(np.float32),
        "slot_weights": measured.slot_weights.astype(np.float32),
        "matrix": measured.steps,
        "centres": centres(facts),
        "epsilon": np.array(facts.epsilon),
        "delta": np.array(facts.delta),
        "expected_users": np.array(facts.expected_users or 1),
    }
    if facts.overlay is not None:
        shares = facts.overlay.shares
        found["share_of"] = shares.data
        found["share_in"] = shares.indices.astype(np.int32)
        found["share_from"] = shares.indptr.astype(np.int32)
    return found


def kept(
    arrays: Arrays,
    ids: NDArray[np.str_],
    grid: TimeGrid,
    counting: Counting,
    parameters: Mapping[str, Parameter],
) -> tuple[Measured, PublicFacts]:
    """What `keep` wrote, with what the release's own table and manifest say.

    Raises:
        ValueError: Arrays are missing, or do not fit each other, the places and the slots.
    """
    try:
        ladder, ladder_sd = _steps(arrays, "ladder")
        places, places_sd, place_limit = _total(arrays, "places", "place_limit")
        slots, slots_sd, slot_limit = _total(arrays, "slots", "slot_limit")
        margins = Margins(
            tuple(int(step) for step in arrays["ladder_steps"]),
            ladder,
            ladder_sd,
            places,
            places_sd,
            place_limit,
            slots,
            slots_sd,
            slot_limit,
        )
        matrix = arrays["matrix"]
        if matrix.dtype.kind not in "iuf":
            raise ValueError("a matrix is of numbers")
        weights = [arrays[f"{name}_weights"].astype(np.float64) for name in ("place", "slot")]
        matrix_sd = float(arrays["matrix_sd"])
        limit = float(arrays["matrix_limit"])
        measured = Measured(margins, weights[0], weights[1], matrix, matrix_sd, limit)
        layout = Layout(arrays["centres"], np.ones(ids.size))
        overlay = _overlay(arrays, margins.places.size, ids)
        facts = PublicFacts(
            ids if overlay is None else overlay.place_ids,
            grid,
            float(arrays["epsilon"]),
            float(arrays["delta"]),
            int(arrays["expected_users"]),
            counting=counting,
            overlay=overlay,
            parameters=parameters,
            layout=layout if overlay is None else None,
            zone_layout=None if overlay is None else layout,
        )
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, SfumatoError) as error:
        raise ValueError("the arrays are not those of a release") from error
    shape = (ids.size, grid.slots)
    fits = (
        matrix.shape == shape
        and (*weights[0].shape, *weights[1].shape) == shape
        and margins.slots.shape == (grid.slots,)
        and margins.places.shape == (facts.places,)
        and margins.ladder.shape == margins.ladder_sd.shape == (len(margins.steps),)
    )
    numbers = (margins.ladder, margins.places, margins.slots, matrix, *weights)
    sds = (*margins.ladder_sd, margins.places_sd, margins.slots_sd, matrix_sd)
    finite = all(np.isfinite(one).all() for one in numbers) and np.isfinite(sds).all()
    if not (fits and finite and min(sds) > 0 and min(map(np.min, weights)) > 0):
        raise ValueError("the arrays do not fit each other")
    return measured, facts


def centres(facts: PublicFacts) -> NDArray[np.float64]:
    """Where the released places are."""
    layout = facts.layout if facts.overlay is None else facts.zone_layout
    return (layout or Layout.in_order(facts.released_ids.size)).centres


def _whole(values: Table, step: float | Table) -> NDArray[np.int64]:
    return np.asarray(np.rint(np.clip(values / step, -_MOST_STEPS, _MOST_STEPS)), dtype=np.int64)


def _steps(arrays: Arrays, name: str) -> tuple[Table, Vector]:
    sd = np.asarray(arrays[f"{name}_sd"], dtype=np.float64)
    return np.asarray(arrays[name] * (sd / FINENESS)), sd


def _total(arrays: Arrays, name: str, limit: str) -> tuple[Table, float, float]:
    values, sd = _steps(arrays, name)
    return values, float(sd), float(arrays[limit])


def _overlay(arrays: Arrays, counted: int, ids: NDArray[np.str_]) -> Overlay | None:
    """Counted places have no names here: their order is all that the numbers need."""
    if "share_of" not in arrays:
        return None
    parts = (arrays["share_of"], arrays["share_in"], arrays["share_from"])
    names = np.array([f"{k}" for k in range(counted)], dtype=np.str_)
    shares = csr_array(parts, shape=(counted, ids.size))
    shares.check_format(full_check=True)  # or products would read beyond the arrays
    return Overlay(names, ids, shares)
