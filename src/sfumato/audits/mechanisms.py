"""Every mechanism of the wall as a subject, on neighbouring numbers that strain its proof.

Noise on arrays is drawn for all runs at once: the array is repeated inside its box, which
leaves its sensitivity and the mechanism's code as they are. Choices and streams run one by
one, each with a release key of its own.

Maps in fixed point are subjects too (`map_subjects`): what they say about sensitivity, tested with
noise on top. Shares of towers in zones, weights by zone and slot, and real aggregates that are
rounded. So is the ladder of activity, from the engine's own count. The user is chosen so that
the stated sensitivity is reached, or nearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.audits.pairs import ArrayPair, Stage, array_pairs
from sfumato.audits.pipeline import release_key
from sfumato.audits.run import Subject, claims_of
from sfumato.audits.statistics import EVERYTHING, Released, Statistic, known_direction
from sfumato.engine.local import LocalSource
from sfumato.model.counts import WEIGHT_UNITS, Counting, Counts, SampleBound, norms_digest
from sfumato.model.events import Events
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import (
    gaussian_sigma2_for,
    laplace_scale,
    selection_softness,
    sparse_scales,
)
from sfumato.privacy.door import public_facts
from sfumato.privacy.events import PrivacyEvent, Tab
from sfumato.privacy.mechanisms.linear import (
    apply_map,
    apply_weighted_map,
    event_norms,
    quantise_map,
    round_aggregate,
)
from sfumato.privacy.noise import representable_softness
from sfumato.privacy.wall import Wall

_LABEL = "audit"
_STEPS = (1, 2, 4, 8)
"""Of a ladder; the user is far above its top."""
_SHARES = np.array([[1.0, 0.25, 0.2], [0.0, 0.75, 0.7]])
_UNITS = 64
Boxes = dict[bool, Private[Counts]]
"""With the user, and without."""


def map_subjects(name: str, counts: Boxes, epsilon: float, delta: float) -> list[Subject]:
    """`counts`: sampled place x slot counts of three places, as a pair called `name`."""
    return [
        _mapped(name, counts, epsilon, delta),
        _rounded(epsilon, delta),
        _slot_mapped(epsilon, delta),
    ]


def _mapped(name: str, counts: Boxes, epsilon: float, delta: float) -> Subject:
    """Towers shared out over zones. Sampled counts hold one unit of mass a slot."""
    whole = quantise_map(csr_array(_SHARES), _UNITS)
    boxes = {
        side: apply_map(box, whole, _UNITS, "zones", mass_per_slot=True)
        for side, box in counts.items()
    }
    cells = public_facts(boxes[True]).size
    return _boxes("fixed-point map, discrete Gaussian", name, boxes, cells, (epsilon, delta))


def _repeat(counts: Counts, runs: int) -> Counts:
    return replace(counts, values=np.tile(counts.values, (runs, *[1] * counts.values.ndim)))


def _boxes(name: str, pair: str, boxes: Boxes, touched: int, level: tuple[float, float]) -> Subject:
    """Gaussian noise for the sensitivity that the boxes state, on either of them."""
    epsilon, delta = level
    (sigma2,) = gaussian_sigma2_for(epsilon, delta, public_facts(boxes[True]).l2, touched).sigma2

    def draw(with_user: bool, runs: int, seed: int) -> Released:
        box = boxes[with_user].map(lambda counts: _repeat(counts, runs))
        noisy = Wall(Tab(), release_key(seed, 0)).gaussian(
            box, sigma2=sigma2, touched=touched, label=_LABEL
        )
        return noisy.values.reshape(runs, -1).astype(np.float64)

    tab = Tab()
    Wall(tab, release_key(0, 0)).gaussian(
        boxes[False], sigma2=sigma2, touched=touched, label=_LABEL
    )
    return Subject(name, pair, claims_of(tab.charged.values(), delta), draw)


def _rounded(epsilon: float, delta: float) -> Subject:
    """A real-valued aggregate that crosses a lattice point in every cell the user touches.

    The user adds a hair more than nothing and moves every cell by a whole unit: all of the
    movement is rounding, and all of it must have been paid for.
    """
    cells, hair = 8, 2.0**-40
    boxes = {
        side: round_aggregate(
            Private(np.full((1, cells), 5.0 - (0.0 if side else hair)), "means"),
            units=4,
            l1=cells * hair,
            l2=math.sqrt(cells) * hair,
            touched=cells,
            counting=Counting.PEOPLE,
            what="means",
        )
        for side in (True, False)
    }
    pair = "a hair below and at a lattice point"
    return _boxes("rounded aggregate, discrete Gaussian", pair, boxes, cells, (epsilon, delta))


def _slot_mapped(epsilon: float, delta: float) -> Subject:
    """A public weight per zone and slot; the user is weighted for the norms, as a source does."""
    area = csr_array(_SHARES)
    weights = np.array([[0.3, 2.0, 0.7, 1.0, 0.05, 1.5], [1.1, 0.4, 3.0, 0.2, 1.0, 0.9]])
    norms, limit = event_norms(area, weights, _UNITS), 1.5
    trace = np.zeros(norms.shape, np.int64)
    trace[0], trace[1, ::2] = 1, 1
    length = math.sqrt(float(((norms * trace).sum(axis=0) ** 2).sum())) / NORM_UNITS
    weight = math.floor(min(1.0, limit / length) * WEIGHT_UNITS)
    others = np.arange(norms.size).reshape(norms.shape) * WEIGHT_UNITS

    def box(side: bool) -> Private[Counts]:
        counts = Counts(
            others + int(side) * weight * trace,
            WEIGHT_UNITS,
            limit * WEIGHT_UNITS * math.sqrt(weights.shape[1]),
            limit * WEIGHT_UNITS,
            Counting.VISITS,
            "weighted counts",
            norms_digest(norms),
        )
        return apply_weighted_map(
            Private(counts, "weighted counts"), area, weights, norms, _UNITS, "zones"
        )

    pair = "one place all the time, another in every other slot"
    boxes = {side: box(side) for side in (True, False)}
    name = "map with weights by slot, discrete Gaussian"
    return _boxes(name, pair, boxes, weights.size, (epsilon, delta))


@cache
def _laddered() -> tuple[str, Boxes]:
    """The same at every epsilon: counted once."""
    stage = Stage.for_bound(SampleBound(_VISITS))
    pair = next(p for p in stage.pairs(crowd=2) if p.name.startswith("every place in every slot"))

    def box(events: Events) -> Private[Counts]:
        source = LocalSource(events, stage.places, stage.grid, threads=1)
        return source.ladder(_STEPS, Counting.VISITS)

    return pair.name, {True: box(pair.with_user), False: box(pair.without_user)}


def _ladder(epsilon: float, delta: float) -> Subject:
    name = "ladder of activity, discrete Gaussian"
    return _boxes(name, *_laddered(), len(_STEPS), (epsilon, delta))


_PLACES, _SLOTS, _VISITS = 3, 6, 4
_RANGE = 20

OneRun = Callable[[Wall, bool], list[float]]


def mechanism_subjects(epsilon: float, delta: float) -> list[Subject]:
    """All mechanisms, calibrated to epsilon (at delta where they need one)."""
    pairs = [p for p in array_pairs(_PLACES, _SLOTS, limit=_VISITS) if str(_VISITS) in p.name]
    return [
        *(_gaussian(pair, epsilon, delta) for pair in pairs),
        *(_laplace(pair, epsilon) for pair in pairs),
        *map_subjects(pairs[0].name, _both(pairs[0]), epsilon, delta),
        _ladder(epsilon, delta),
        *_choices(epsilon),
        _in_rows(epsilon, delta),
        _sparse(epsilon),
        _distances(epsilon, delta),
    ]


def _boxed(values: NDArray[np.int64], runs: int = 1) -> Private[Counts]:
    bound = SampleBound(_VISITS)
    counts = Counts(
        np.tile(values, (runs, 1, 1)) if runs > 1 else values.copy(),
        bound.units_per_count,
        bound.l1(_SLOTS),
        bound.l2(_SLOTS),
        Counting.PEOPLE,
        "audit counts",
    )
    return Private(counts, "audit counts")


def _both(pair: ArrayPair) -> dict[bool, Private[Counts]]:
    return {True: _boxed(pair.with_user), False: _boxed(pair.without_user)}


def _gaussian(pair: ArrayPair, epsilon: float, delta: float) -> Subject:
    (sigma2,) = gaussian_sigma2_for(epsilon, delta, _VISITS**0.5, _VISITS).sigma2

    def measure(wall: Wall, box: Private[Counts]) -> NDArray[np.int64]:
        return wall.gaussian(box, sigma2=sigma2, touched=_VISITS, label=_LABEL).values

    shift = known_direction((pair.with_user - pair.without_user).astype(np.float64))
    return _at_once("discrete Gaussian", pair, measure, delta, shift)


def _laplace(pair: ArrayPair, epsilon: float) -> Subject:
    scale = laplace_scale(float(_VISITS), epsilon)

    def measure(wall: Wall, box: Private[Counts]) -> NDArray[np.int64]:
        return wall.laplace(box, scale=scale, label=_LABEL).values

    inn, out = (v.ravel().astype(np.float64) for v in (pair.with_user, pair.without_user))

    def score(rows: Released) -> NDArray[np.float64]:
        ratio: NDArray[np.float64] = (np.abs(rows - out) - np.abs(rows - inn)).sum(axis=1)
        return ratio

    ratio = Statistic("likelihood ratio", lambda _one, _other: score)
    return _at_once("discrete Laplace", pair, measure, 0.0, ratio)


def _at_once(
    name: str,
    pair: ArrayPair,
    measure: Callable[[Wall, Private[Counts]], NDArray[np.int64]],
    delta: float,
    statistic: Statistic,
) -> Subject:
    def draw(with_user: bool, runs: int, seed: int) -> Released:
        values = pair.with_user if with_user else pair.without_user
        noisy = measure(Wall(Tab(), release_key(seed, 0)), _boxed(values, runs))
        return noisy.reshape(runs, -1).astype(np.float64)

    tab = Tab()
    measure(Wall(tab, release_key(0, 0)), _boxed(pair.without_user))
    claims = claims_of(tab.charged.values(), delta)
    return Subject(name, pair.name, claims, draw, (statistic, *EVERYTHING), statistic)


def _choices(epsilon: float) -> list[Subject]:
    """Four candidates; the user makes one of them dearer by the whole range."""
    softness = selection_softness(_RANGE, epsilon)
    costs = {False: np.array([5, 0, 9, 0]), True: np.array([5, _RANGE, 9, 0])}
    boxes = {side: Private(values.astype(np.int64), "costs") for side, values in costs.items()}

    def exponential(wall: Wall, side: bool) -> list[float]:
        chosen = wall.select(boxes[side], softness=softness, range_units=_RANGE, label=_LABEL)
        return [float(chosen.index)]

    def flip(wall: Wall, side: bool) -> list[float]:
        chosen = wall.noisy_max(boxes[side], softness=softness, range_units=_RANGE, label=_LABEL)
        return [float(chosen.index)]

    pair = "one candidate dearer by the whole range"
    return [
        _one_by_one("exponential mechanism", pair, exponential),
        _one_by_one("report noisy max", pair, flip),
    ]


def _in_rows(epsilon: float, delta: float) -> Subject:
    """Four rows of choices; the user is in all of them, and the norm of the ranges is R."""
    rows, apart = 4, 10
    whole = rows**0.5 * apart
    rho = zcdp_rho(epsilon, delta)
    softness = representable_softness(Fraction(whole / math.sqrt(8 * rho)))
    costs = np.tile(np.array([0, 0, 30], np.int64), (rows, 1))
    moved = costs + np.array([apart, 0, apart])
    boxes = {
        side: Private(v.astype(np.int64), "costs") for side, v in ((False, costs), (True, moved))
    }

    def run(wall: Wall, side: bool) -> list[float]:
        chosen = wall.select_in_rows(
            boxes[side], softness=softness, range_units=math.ceil(whole), label=_LABEL
        )
        return [float(index) for index in chosen.indices]

    pair = "in every row, candidates dearer by its range"
    return _one_by_one("exponential mechanism in rows", pair, run, delta)


def _sparse(epsilon: float) -> Subject:
    """Early distances up, the last down: the proof's worst order. Ends at the first yes."""
    threshold_scale, query_scale = sparse_scales(Fraction(epsilon), 1, 1)
    distances = {False: [-1] * 6 + [1], True: [0] * 6 + [0]}

    def run(wall: Wall, side: bool) -> list[float]:
        vector = wall.sparse_vector(
            threshold=0,
            sensitivity=1,
            positives=1,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            label=_LABEL,
        )
        for at, distance in enumerate(distances[side]):
            if vector.above(Private(distance, "distance")):
                return [float(at)]
        return [float(len(distances[side]))]

    return _one_by_one("sparse vector", "six distances up, the last down", run)


def _distances(epsilon: float, delta: float) -> Subject:
    slots = 8
    (sigma2,) = gaussian_sigma2_for(epsilon, delta, 2 * slots**0.5, slots).sigma2

    def run(wall: Wall, side: bool) -> list[float]:
        asked = wall.distances(most=slots, sensitivity=2, sigma2=sigma2, label=_LABEL)
        box = Private(100 + 2 * int(side), "distance")
        return [float(asked.measure(box)) for _ in range(slots)]

    pair = "one person who moves in every slot"
    return _one_by_one("noisy distances", pair, run, delta)


def _one_by_one(name: str, pair: str, run: OneRun, delta: float = 0.0) -> Subject:
    def draw(with_user: bool, runs: int, seed: int) -> Released:
        rows = [run(Wall(Tab(), release_key(seed, i)), with_user) for i in range(runs)]
        return np.array(rows, dtype=np.float64)

    tab = Tab()
    run(Wall(tab, release_key(0, 0)), False)
    charged: list[PrivacyEvent] = list(tab.charged.values())
    return Subject(name, pair, claims_of(charged, delta), draw)
