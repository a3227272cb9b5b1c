"""Maps in fixed point as subjects: what they say about sensitivity, tested with noise on top.

Shares of towers in zones, weights by zone and slot, and real aggregates that are rounded. The
user is chosen so that the stated sensitivity is reached, or nearly.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from sfumato.model.bound import WEIGHT_UNITS, Counting
from sfumato.model.counts import Counts, norms_digest
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.privacy.audit.claims import claims_of
from sfumato.privacy.audit.pipeline import release_key
from sfumato.privacy.audit.run import Subject
from sfumato.privacy.audit.statistics import Released
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.charging import Tab
from sfumato.privacy.door import public_facts
from sfumato.privacy.mechanisms.linear import apply_map, quantise_map, round_aggregate
from sfumato.privacy.mechanisms.slot_linear import apply_weighted_map, event_norms
from sfumato.privacy.wall import Wall

_LABEL = "audit"
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
