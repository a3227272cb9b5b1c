"""Moving averages: take the noise off by the smoothness of a path.

*As printed* the mean of k samples replaces the next one, the oldest is discarded and the
*replaced* one enters: a recursion on its own outputs, which after k steps has forgotten the
trace and stands still. The *plain* average of k reports around each is what removes noise.
Means are of unit vectors, so neither the date line nor a pole is special.
"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.traces.interpolate import interpolate
from sfumato.attacks.traces.kernels import (
    centred_mean,
    degrees_of,
    recursive_mean,
    unit_vectors,
)
from sfumato.model.errors import UsageError
from sfumato.traces.model import Traces


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
