"""Noise on locations: planar Laplace, the predictive mechanism, and a Gaussian on the plane.

All three report *traces*: rows of users and instants, of which the location alone is protected.
Unit: one location (`point`); neighbours are two records with the same users and instants and
other locations, at distances d_1 … d_n from each other, on the sphere of mean radius. Who
reported when passes the wall as it is, and is stated so in every manifest; ids and the numbers of
source rows do not pass. The public bound on one user's draws, `most_reports`, is part of the
charge and is checked on what is drawn, never assumed.

`measure_planar` (Andrés, Bordenabe, Chatzikokolakis & Palamidessi 2013). Each location that is
shown gets noise with density c e^(-epsilon d) on the sphere, is moved to the public lattice, and
epsilon includes what finite precision costs (`noise.planar`). Metric: great-circle distance, not
less than a lattice step. Cost: epsilon (d_1 + … + d_n) <= most_reports epsilon max d for a whole
trace. Noise does not add up to protection, it averages out: a user who does not move is found to
2.7 m from 1,000 reports at 100 m of noise.

`measure_predictive` (Chatzikokolakis, Palamidessi & Stronati 2014). The prediction of a location is
the last report. A noisy test asks whether the true location is within a threshold of it; if so
the prediction is published again and only the test was paid for, otherwise a fresh planar Laplace
report is. Cost: at most `most_tests` tests at epsilon_test and `most_reports` reports at
epsilon_report per metre, their sum times the largest distance between two traces. Sensitivity of
the test: the distance to a published point moves by at most d when the location moves by d;
rounded down to centimetres, by at most d + 2 cm (one of them for the arithmetic), and the test adds
discrete Laplace noise in centimetres (`discrete_laplace`, exact) that is wider by so much that
epsilon_test max(d, u) is kept, u the lattice step. When either allowance is used up the last
report is repeated; that moment is a function of published reports.

`measure_plane_gaussian`. Locations on a plane, in whole lattice units, of which a location that
moves within the stated radius moves by at most `reach` units. Sensitivity: one user's
2 most_reports integers move by at most l2 = sqrt(most_reports) reach. Exact discrete Gaussian
noise, charged as everywhere (Canonne, Kamath & Steinke 2020). What makes the plane and `reach`
is left of the wall, in `traces.mechanisms`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.private import Private
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import Traces, run_starts
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Charger, GaussianEvent, MetricEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up, exact, rounded_up
from sfumato.privacy.mechanisms.additive import add
from sfumato.privacy.noise import (
    BitStream,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
    representable_sigma2,
)
from sfumato.privacy.noise.planar import Lattice, Strength, planar_laplace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_CM = 100
"""Centimetres in a metre: what tests of a prediction count in."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Rows that will be published, still at their true locations.

    `by` is the row whose noisy location each row shows: itself where every fix is reported, the
    first of its window where one location stands for a window.
    """

    rows: Traces
    by: Ints

    @classmethod
    def each(cls, rows: Traces) -> Shown:
        """Every row shows its own location."""
        return cls(rows, np.arange(len(rows), dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class OnPlane:
    """Rows that will be published, and their locations on a public plane in whole units."""

    rows: Traces
    units: Ints
    """Rows x 2: east and north."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Public settings of the predictive mechanism."""

    report: Strength
    test: Strength
    """Strength of the test alone; its noise has this expected size, halved."""
    threshold_m: float
    most_reports: int
    most_tests: int

    def __post_init__(self) -> None:
        if min(self.most_reports, self.most_tests) < 1 or not self.threshold_m > 0:
            raise UsageError("A prediction needs a threshold and at least one report and test.")

    @property
    def per_metre(self) -> float:
        """The most a user's trace can cost, per metre."""
        tests = self.most_tests * self.test.per_metre
        return self.most_reports * self.report.per_metre + tests

    @property
    def event(self) -> MetricEvent:
        """What is charged."""
        return MetricEvent(self.per_metre, "predictive planar Laplace")


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Public from here on: noisy locations of users who are numbers, and what was charged."""

    label: str
    traces: Traces
    event: PrivacyEvent
    tainted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PredictedReports(Reports):
    """Also how each report came about: 0 fresh, 1 the prediction held, 2 the budget is spent."""

    kind: Ints = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class PlaneReports(Reports):
    """Noisy locations on the plane, in its units; `traces` has none until they are mapped back."""

    units: Ints = field(kw_only=True)


def planar_event(strength: Strength, most_reports: int) -> MetricEvent:
    """What `most_reports` reports of one user cost together."""
    return MetricEvent(decimal_up(most_reports * exact(strength.per_metre)), "planar Laplace")


def plane_event(reach: float, most_reports: int, sigma2: Fraction) -> GaussianEvent:
    """What Gaussian noise costs on locations that move by at most `reach` units each."""
    return GaussianEvent(plane_l2(reach, most_reports), sigma2, 2 * most_reports)


def plane_l2(reach: float, most_reports: int) -> float:
    """Joint L2 sensitivity of one user's locations on the plane."""
    return rounded_up(math.sqrt(most_reports) * reach)


def measure_planar(
    box: Private[Shown],
    *,
    strength: Strength,
    most_reports: int,
    label: str,
    stream: BitStream,
    charger: Charger,
    lattice: Lattice | None = None,
) -> Reports:
    """Planar Laplace noise on every location that is shown, at most `most_reports` a user."""
    on = lattice or Lattice()
    on.drawn_per_metre(strength.per_metre)  # refused before the charge where it cannot be drawn
    event = planar_event(strength, most_reports)
    charger.charge(label, event)
    shown = open_private(box)
    rows = shown.rows
    drawn, which = np.unique(shown.by, return_inverse=True)
    _within(rows.user[drawn], most_reports)
    lon, lat = planar_laplace(rows.lon[drawn], rows.lat[drawn], strength, stream, lattice=on)
    return Reports(label, _nameless(rows).at(lon[which], lat[which]), event, stream.tainted)


def measure_predictive(
    box: Private[Traces],
    *,
    setting: Prediction,
    label: str,
    stream: BitStream,
    charger: Charger,
    lattice: Lattice | None = None,
) -> PredictedReports:
    """Reports of every fix, in the order of time for each user."""
    on = lattice or Lattice()
    on.drawn_per_metre(setting.report.per_metre)
    slack = 1 + Fraction(2) / Fraction(_CM * on.step_m)
    scale = representable_scale(Fraction(_CM) / Fraction(setting.test.per_metre) * slack)
    charger.charge(label, setting.event)
    traces = open_private(box)
    rows = traces.pick(np.lexsort((traces.time, traces.user)))
    noisy = planar_laplace(rows.lon, rows.lat, setting.report, stream.child("reports"), lattice=on)
    tests = discrete_laplace(len(rows), scale, stream.child("tests"))
    kind, source = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    threshold = int(setting.threshold_m * _CM)
    most = (setting.most_reports, setting.most_tests)
    predict_along(
        run_starts(rows.user), rows.lon, rows.lat, *noisy, tests, threshold, *most, kind, source
    )
    made = _nameless(rows).at(noisy[0][source], noisy[1][source])
    return PredictedReports(label, made, setting.event, stream.tainted, kind=kind)


def measure_plane_gaussian(
    box: Private[OnPlane],
    *,
    reach: float,
    most_reports: int,
    sigma2: Fraction | int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> PlaneReports:
    """Discrete Gaussian noise on both coordinates of at most `most_reports` rows a user."""
    drawn = representable_sigma2(sigma2)
    event = plane_event(reach, most_reports, drawn)
    charger.charge(label, event)
    placed = open_private(box)
    _within(placed.rows.user, most_reports)
    noisy = add(placed.units, discrete_gaussian(placed.units.size, drawn, stream))
    nowhere = np.full(len(placed.rows), np.nan)
    made = _nameless(placed.rows).at(nowhere, nowhere)
    return PlaneReports(label, made, event, stream.tainted, units=noisy)


def _within(user: Ints, most: int) -> None:
    """Refuse more draws than were charged for. How many there are no location decides."""
    if np.bincount(user, minlength=1).max() > most:
        raise UsageError("A user has more fixes than the stated number of reports.")


def _nameless(rows: Traces) -> Traces:
    """Ids and numbers of source rows stay behind the wall: users are numbers from here on."""
    numbers: NDArray[np.object_] = np.arange(rows.names.size).astype(str).astype(object)
    return replace(rows, names=numbers, row=np.arange(len(rows), dtype=np.int64))


@compiled
def _metres(lon: float, lat: float, other_lon: float, other_lat: float) -> float:
    a, b = math.radians(lat), math.radians(other_lat)
    across = math.sin(math.radians(other_lon - lon) / 2.0)
    up = math.sin((b - a) / 2.0)
    h = up * up + math.cos(a) * math.cos(b) * across * across
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


@compiled
def predict_along(
    starts: Ints,
    lon: Floats,
    lat: Floats,
    noisy_lon: Floats,
    noisy_lat: Floats,
    tests_cm: Ints,
    threshold_cm: int,
    most_hard: int,
    most_tests: int,
    kind: Ints,
    from_index: Ints,
) -> None:
    """For each fix: 0 a fresh report, 1 the prediction held, 2 the budget is spent.

    `from_index` is the fix whose noisy location is reported. The prediction is the last
    report. Every decision after the test depends on published reports alone.
    """
    for t in range(starts.size - 1):
        hard, tests = 0, 0
        last = -1
        for i in range(starts[t], starts[t + 1]):
            easy = False
            if last >= 0 and (tests >= most_tests or hard >= most_hard):
                kind[i], from_index[i] = 2, last
                continue
            if last >= 0:
                tests += 1
                metres = _metres(lon[i], lat[i], noisy_lon[last], noisy_lat[last])
                apart = math.floor(100.0 * metres)
                easy = apart <= threshold_cm + tests_cm[i]
            if easy:
                kind[i], from_index[i] = 1, last
            else:
                hard += 1
                last = i
                kind[i], from_index[i] = 0, i
