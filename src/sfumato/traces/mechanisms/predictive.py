"""The predictive mechanism (Chatzikokolakis, Palamidessi & Stronati 2014).

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

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise import BitStream, discrete_laplace, representable_scale
from sfumato.traces.lattice import Lattice
from sfumato.traces.level import Strength
from sfumato.traces.mechanisms.kernels import walk
from sfumato.traces.model import Traces, run_starts
from sfumato.traces.planar_laplace import planar_laplace


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
