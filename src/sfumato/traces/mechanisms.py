"""Time-dependent noise: one noisy location for every window of length T.

*As printed* (the trace study of geo-indistinguishability on Geolife): windows of each trip
count from its first fix; the first fix of a window gets noise and stands for all of the
window. Claim: epsilon times the distances between the windows' first fixes, *given all time
stamps*, which are published exactly. When someone moved, how often a device measured and
where windows begin is not hidden: "hiding the frequency of movements" has no formal content.

*On a public clock* the windows are the same for everybody, fixed before the data is seen,
and every user has one report in every window of the period, measured or not: the location of
the last fix so far (the first one for windows before it) with fresh noise. Claim: for any two
records of one user, epsilon times the sum over windows of the distance between the two
locations, with no condition: the output has the same rows whatever the record is. Cost: number
of windows times epsilon, known beforehand.

Independent noise: every fix is reported with fresh planar Laplace noise.

Claim. Unit: one trace, given the instants of its fixes, which are published as they are. Two
traces with the same n instants and fixes at distances d_1 … d_n are told apart by at most
epsilon (d_1 + … + d_n) <= n epsilon max d: noise does not add up to protection, it averages
out. A user who does not move is found to 2.7 m from 1,000 reports at 100 m of noise.

Gaussian noise for traces with many reports: metric privacy within a stated radius.

Planar Laplace pays n epsilon for n reports. Gaussian noise of standard deviation sigma on both
coordinates pays mu = r0 sqrt(n) / sigma for two traces whose fixes are never farther than r0
apart, which is the better bargain from a few reports on: for n = 36, r0 = 200 m and
(epsilon, delta) = (2, 1e-6) the mean noise is 3.4 km instead of 7.2 km.

Claim. Unit: one user's trace given its instants, within r0. The domain is a *public* box:
locations outside it are moved to its edge first, and distances are meant after that. They
are then mapped to an equal-area plane around the box and rounded to centimetres; the plane
stretches distances by at most a factor that is computed from the box and rounding adds at
most sqrt(2) cm, so one user's 2n integers move by at most
l2 = sqrt(n) (100 stretch r0 + sqrt(2)). So fine a lattice lets the exact Gaussian curve be claimed.
Exact discrete Gaussian noise is added to the integers, and everything after that (back to
degrees, the public lattice) is post-processing.

Compiled: the predictive mechanism's walk along traces, with noise drawn beforehand.

The predictive mechanism (Chatzikokolakis, Palamidessi & Stronati 2014).

The prediction of a location is the last report. A noisy test asks whether the true location
is within a threshold of it; if so the prediction is published again and only the test was
paid for, otherwise a fresh planar Laplace report is.

Claim. Unit: one user's trace given its instants. At most `most_tests` tests at epsilon_test and
`most_reports` reports at epsilon_report per metre: their sum times the largest distance
between two traces. The distance to a published point moves by at most d when the location
moves by d; rounded down to centimetres, by at most d + 2 cm (one of them for the arithmetic),
and the test adds discrete Laplace noise in centimetres (`discrete_laplace`, exact) that is
wider by so much that epsilon_test max(d, u) is kept, u the lattice step. When either allowance is
used up the last report is repeated; that moment is a function of published reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.geography.projection import Projection
from sfumato.model.compiled import compiled
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import MICROSECONDS, Traces, run_starts
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.noise import (
    BitStream,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
)
from sfumato.privacy.noise.planar import Earth, Lattice, Strength, planar_laplace
from sfumato.traces.region import Box

Ints = NDArray[np.int64]


def printed_windows(traces: Traces, window_s: int) -> Ints:
    """Index of the first fix of each fix's window."""
    if window_s < 1:
        raise UsageError("A window lasts at least a second.")
    if len(traces) == 0:
        return np.empty(0, np.int64)
    starts = traces.starts
    begun = np.repeat(traces.time[starts[:-1]], np.diff(starts))
    number = (traces.time - begun) // (window_s * MICROSECONDS)
    firsts = run_starts(traces.user, traces.trip, number)
    return np.repeat(firsts[:-1], np.diff(firsts)).astype(np.int64)


def first_windows(traces: Traces, window_s: int, most: int | None) -> Traces:
    """At most the first `most` windows of every user in time: a public bound."""
    if most is None or len(traces) == 0:
        return traces
    first = printed_windows(traces, window_s)
    heads, which = np.unique(first, return_inverse=True)
    order = np.lexsort((traces.time[heads], traces.user[heads]))
    user = traces.user[heads][order]
    begins = np.flatnonzero(np.diff(user, prepend=user[0] - 1))
    rank = np.arange(user.size) - np.repeat(begins, np.diff(np.append(begins, user.size)))
    allowed = np.zeros(heads.size, np.bool_)
    allowed[order] = rank < most
    return traces.pick(allowed[which])


def on_printed_clock(
    traces: Traces,
    window_s: int,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
    earth: Earth = "sphere",
) -> Traces:
    """The same fixes, each at the noisy first location of its window."""
    first = printed_windows(traces, window_s)
    heads, which = np.unique(first, return_inverse=True)
    lon, lat = planar_laplace(
        traces.lon[heads], traces.lat[heads], strength, stream, lattice=lattice, earth=earth
    )
    return traces.at(lon[which], lat[which])


def windows_between(start_us: int, end_us: int, window_s: int) -> Ints:
    """The public clock: beginnings of the windows in epoch microseconds."""
    if window_s < 1 or end_us <= start_us:
        raise UsageError("A public clock needs a period and windows of at least a second.")
    return np.arange(start_us, end_us, window_s * MICROSECONDS, dtype=np.int64)


def true_on_clock(traces: Traces, clock: Ints, window_s: int) -> Traces:
    """Last known location of every user in every window: private still."""
    users = np.unique(traces.user)
    order = np.lexsort((traces.time, traces.user))
    user, time = traces.user[order], traces.time[order]
    begins = np.searchsorted(user, users)
    slots = (time - clock[0]) // (window_s * MICROSECONDS)
    # One sorted key for (user, window): the last fix at or before the window's end.
    span = clock.size + 2
    key = np.searchsorted(users, user) * span + np.clip(slots + 1, 0, span - 1)
    base = np.repeat(np.arange(users.size), clock.size) * span
    wanted = base + np.tile(np.arange(clock.size), users.size) + 1
    last = np.searchsorted(key, wanted, side="right") - 1
    source = order[np.maximum(last, np.repeat(begins, clock.size))]
    return Traces(
        traces.names,
        np.repeat(users, clock.size).astype(np.int64),
        np.zeros(source.size, np.int64),
        np.tile(clock, users.size),
        traces.lon[source],
        traces.lat[source],
        np.arange(source.size, dtype=np.int64),
    )


def on_public_clock(
    traces: Traces,
    clock: Ints,
    window_s: int,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
) -> Traces:
    """One noisy report of every user in every window of the clock."""
    whole = true_on_clock(traces, clock, window_s)
    lon, lat = planar_laplace(whole.lon, whole.lat, strength, stream, lattice=lattice)
    return whole.at(lon, lat)


def first_of_each(traces: Traces, most: int | None) -> Traces:
    """At most the first `most` fixes of every user in time: a public bound, given beforehand."""
    if most is None or len(traces) == 0:
        return traces
    order = np.lexsort((traces.time, traces.user))
    user = traces.user[order]
    begins = np.flatnonzero(np.diff(user, prepend=user[0] - 1))
    lengths = np.diff(np.append(begins, user.size))
    rank = np.arange(user.size) - np.repeat(begins, lengths)
    kept = np.zeros(user.size, np.bool_)
    kept[order] = rank < most
    return traces.pick(kept)


def independent(
    traces: Traces,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
    earth: Earth = "sphere",
) -> Traces:
    """The same fixes with noise of their own each."""
    lon, lat = planar_laplace(
        traces.lon, traces.lat, strength, stream, lattice=lattice, earth=earth
    )
    return traces.at(lon, lat)


_SLACK = 1 + 1e-6
_PER_METRE = 100


@dataclass(frozen=True)
class GaussianTraces:
    """Public settings: how many reports a user may have, how far apart, at what price."""

    box: Box
    radius_m: float
    most_reports: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius_m) and self.radius_m > 0) or self.most_reports < 1:
            raise UsageError("Gaussian noise needs a radius and a number of reports.")

    @cached_property
    def plane(self) -> Projection:
        return Projection.around(shapely.box(*self.box.bounds))

    @cached_property
    def stretch(self) -> float:
        """The most by which the plane lengthens a distance inside the box."""
        west, south, east, north = self.box.bounds
        lon, lat = np.meshgrid(np.linspace(west, east, 17), np.linspace(south, north, 17))
        factors = pyproj.Proj(self.plane.proj).get_factors(lon.ravel(), lat.ravel())
        return float(np.max(factors.tissot_semimajor)) * _SLACK

    @cached_property
    def event(self) -> GaussianEvent:
        """What is charged: sensitivity and variance in centimetres."""
        reach = self.stretch * self.radius_m * _PER_METRE + math.sqrt(2.0)
        l2 = rounded_up(math.sqrt(self.most_reports) * reach)
        touched = 2 * self.most_reports
        found = gaussian_sigma2_for(self.epsilon, self.delta, l2, touched)
        return GaussianEvent(l2, found.sigma2[0], touched)

    @property
    def sigma_m(self) -> float:
        """Standard deviation of the noise on each coordinate, in metres."""
        return math.sqrt(self.event.sigma2) / _PER_METRE

    @property
    def expected_noise_m(self) -> float:
        """Mean distance between a location and its report."""
        return self.sigma_m * math.sqrt(math.pi / 2)


def gaussian(
    traces: Traces, setting: GaussianTraces, stream: BitStream, *, lattice: Lattice | None = None
) -> Traces:
    """The same fixes with Gaussian noise; no user may have more than the stated reports."""
    if np.bincount(traces.user, minlength=1).max() > setting.most_reports:
        raise UsageError("A user has more fixes than the stated number of reports.")
    lon, lat = setting.box.clamp(traces.lon, traces.lat)
    whole = np.rint(setting.plane.points(lon, lat) * _PER_METRE).astype(np.int64)
    noise = discrete_gaussian(whole.size, Fraction(setting.event.sigma2), stream)
    noisy = (whole + noise.reshape(whole.shape)) / _PER_METRE
    edge = 1.9 * 6_371_007.0  # the plane shows the whole globe within two radii
    norm = np.maximum(np.hypot(noisy[:, 0], noisy[:, 1]) / edge, 1.0)
    back = setting.plane.back(np.asarray(shapely.points(noisy / norm[:, None]), dtype=object))
    degrees = shapely.get_coordinates(back)
    on = lattice or Lattice()
    return traces.at(*on.snap(degrees[:, 0].copy(), degrees[:, 1].copy()))


Floats = NDArray[np.float64]


@compiled
def _metres(lon: float, lat: float, other_lon: float, other_lat: float) -> float:
    a, b = math.radians(lat), math.radians(other_lat)
    across = math.sin(math.radians(other_lon - lon) / 2.0)
    up = math.sin((b - a) / 2.0)
    h = up * up + math.cos(a) * math.cos(b) * across * across
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


@compiled
def walk(
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


@dataclass(frozen=True, slots=True)
class Prediction:
    """Public settings of the mechanism."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Reports, and how each came about: 0 fresh, 1 prediction held, 2 budget spent."""

    traces: Traces
    kind: NDArray[np.int64]

    def spent(self, setting: Prediction) -> NDArray[np.float64]:
        """Loss per metre of each user: tests and fresh reports that were really made."""
        users = int(self.traces.user.max(initial=-1)) + 1
        fresh = np.bincount(self.traces.user[self.kind == 0], minlength=users)
        easy = np.bincount(self.traces.user[self.kind == 1], minlength=users)
        tests = np.maximum(fresh + easy - 1, 0)
        return np.asarray(fresh * setting.report.per_metre + tests * setting.test.per_metre)


def predictive(
    traces: Traces, setting: Prediction, stream: BitStream, *, lattice: Lattice | None = None
) -> Predicted:
    """Reports of every fix, in the order of time for each user."""
    order = np.lexsort((traces.time, traces.user))
    whole = traces.pick(order)
    noisy = planar_laplace(
        whole.lon, whole.lat, setting.report, stream.child("reports"), lattice=lattice
    )
    slack = 1 + Fraction(2) / Fraction(100 * (lattice or Lattice()).step_m)
    scale = representable_scale(Fraction(100) / Fraction(setting.test.per_metre) * slack)
    tests = discrete_laplace(len(whole), scale, stream.child("tests"))
    kind, source = np.empty(len(whole), np.int64), np.empty(len(whole), np.int64)
    starts = run_starts(whole.user)
    cm = int(setting.threshold_m * 100)
    most = (setting.most_reports, setting.most_tests)
    walk(starts, whole.lon, whole.lat, *noisy, tests, cm, *most, kind, source)
    return Predicted(whole.at(noisy[0][source], noisy[1][source]), kind)
