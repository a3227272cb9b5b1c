"""Taking the noise off traces: moving averages and the most likely place of a stay.

*Moving averages* use the smoothness of a path. As printed the mean of k samples replaces the next
one, the oldest is discarded and the *replaced* one enters: a recursion on its own outputs, which
after k steps has forgotten the trace and stands still. The *plain* average of k reports around each
is what removes noise. Means are of unit vectors, so neither the date line nor a pole is special.

*Where somebody stayed*: the most likely place given independent reports of it. Planar Laplace
reports z_i of one place x have the likelihood e^(-epsilon sum |x - z_i|): the
geometric median. Its error falls with the root of their number, from 95 m at one report
to 2.7 m at 1,000 for an expected noise of 100 m.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.kernels import centred_mean, recursive_mean
from sfumato.errors import UsageError
from sfumato.model.traces import Traces
from sfumato.traces.cells import Cells, posterior_centres
from sfumato.traces.interpolation import degrees_of, interpolate, unit_vectors


def moving_average(reports: Traces, k: int, *, as_published: bool = False) -> Traces:
    """Every trip smoothed over k reports."""
    if k < 1:
        raise UsageError("A moving average needs at least one report.")
    vectors = unit_vectors(reports.lon, reports.lat)
    smooth = (recursive_mean if as_published else centred_mean)(vectors, reports.starts, k)
    lon, lat = np.empty(len(reports)), np.empty(len(reports))
    degrees_of(smooth, lon, lat)
    return reports.at(lon, lat)


def average_after_interpolation(
    reports: Traces, window_s: int, k: int, *, as_published: bool = False
) -> Traces:
    """The second attack after the first, for reports on the printed clock."""
    return moving_average(interpolate(reports, window_s), k, as_published=as_published)


Floats = NDArray[np.float64]


def most_likely_place(lon: Floats, lat: Floats) -> tuple[float, float]:
    """The geometric median of reports, in degrees; they must not straddle the date line."""
    middle = float(np.clip(np.median(lat), -89.0, 89.0))
    plane = Cells(float(np.median(lon)), middle, 1, 1, 1.0, middle)
    at = np.column_stack(plane.metres(lon, lat))
    # A posterior with equal weights everywhere is the plain cloud of reports.
    centre = posterior_centres(np.zeros((1, 2)), at, np.ones(lon.size), 0.0, True)[0]
    place = plane.degrees(centre[:1], centre[1:])
    return float(place[0][0]), float(place[1][0])


def expected_error_m(expected_noise_m: float, reports: int) -> float:
    """Mean error of the most likely place, by the asymptotic law for many reports.

    A coordinate of the geometric median has variance 2 / (epsilon^2 n): the Fisher information
    of planar Laplace noise is epsilon^2 / 2 in each direction. The mean distance of such a
    pair is sqrt(pi / 2) times its standard deviation.
    """
    per_metre = 2.0 / expected_noise_m
    return math.sqrt(2.0 / (per_metre**2 * reports)) * math.sqrt(math.pi / 2)
