"""Optimal remapping: move each report to the best guess of where it came from. Free.

Given a prior over cells that is public or itself private, the posterior of the true cell
given a report z is prior(x) e^(-epsilon |x - z|), normalised. Its mean is the best report for
squared error, its geometric median for distance (Weiszfeld's iteration). Both see the report
and the prior only, so they cost no privacy (Chatzikokolakis, ElSalamouny & Palamidessi 2017).
A prior counted from the same traces without noise would: do not use one.

It is in the lab because it is the reader's work, not the publisher's; docs/decisions/traces.md.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.traces import Traces
from sfumato.privacy.noise.planar import Strength
from sfumato.traces.cells import Cells, posterior_centres

Floats = NDArray[np.float64]


class Loss(StrEnum):
    SQUARED = "mean"
    DISTANCE = "median"


def remap(
    reports: Traces, cells: Cells, prior: Floats, strength: Strength, loss: Loss = Loss.DISTANCE
) -> Traces:
    """Reports moved to the posterior's mean or geometric median; distinct reports once each."""
    weights = np.asarray(prior, np.float64).ravel()
    if weights.size != cells.size or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise UsageError("The prior has one non-negative weight for every cell.")
    if not weights.sum() > 0:
        raise UsageError("The prior is empty.")
    used = np.flatnonzero(weights)
    y, x = np.divmod(used, cells.columns)
    places = np.column_stack(((x + 0.5) * cells.side_m, (y + 0.5) * cells.side_m))
    at = np.column_stack(cells.metres(reports.lon, reports.lat))
    distinct, which = np.unique(at, axis=0, return_inverse=True)
    found = posterior_centres(
        distinct, places, weights[used], strength.per_metre, loss is Loss.DISTANCE
    )
    lon, lat = cells.degrees(found[:, 0], found[:, 1])
    return reports.at(lon[which], lat[which])
