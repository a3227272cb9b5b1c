"""The exact audit of traces: two neighbours behind the wall, held against what was charged.

Neighbours have the same users and instants and other locations. With the answers of the first run
replayed, whatever still differs behind the wall is what moved: the sum of all locations' losses
must stay below the charge, and for a user with more fixes than the public bound it reaches it.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyproj
import pytest

from sfumato.audits.transcript import ListeningWall, Shift, Step, shifts
from sfumato.model.sphere import step_on_sphere
from sfumato.model.traces import Box, Traces
from sfumato.privacy.events import Tab
from sfumato.privacy.noise.planar import Strength
from sfumato.traces.bounds import TraceSource, eligible
from sfumato.traces.mechanisms import draw_reports
from sfumato.traces.request import GaussianTraces, Kind, SanitiseRequest

pytestmark = pytest.mark.privacy
KEY = bytes(range(5, 37))
BOX = Box(2.0, 48.5, 2.7, 49.2)
RADIUS = 200.0
MOST = 12
NOISE = Strength.from_noise(100.0)
KINDS: dict[Kind, dict[str, Any]] = {
    Kind.INDEPENDENT: {"strength": NOISE, "most_reports": MOST},
    Kind.PRINTED_CLOCK: {"strength": NOISE, "most_reports": MOST, "window_s": 1200},
    Kind.CLOCK: {"strength": NOISE, "window_s": 7200},
    Kind.GAUSSIAN: {
        "gaussian": GaussianTraces(BOX, RADIUS, MOST, 1.0, 1e-6),
        "box": BOX,
        "most_reports": MOST,
    },
}


def request(kind: Kind) -> SanitiseRequest:
    return SanitiseRequest("city", "walk", kind, date(2024, 3, 4), date(2024, 3, 5), **KINDS[kind])


def walk(asked: SanitiseRequest, away_m: float) -> Traces:
    """One busy user, every fix moved north-east by `away_m`, who has more than may be reported."""
    n, nobody = 200, np.zeros(200, np.int64)
    time = asked.period[0] + np.arange(n) * 400_000_000
    lon, lat = np.linspace(2.2, 2.5, n), np.full(n, 48.8)
    if asked.kind is Kind.GAUSSIAN:  # its radius is meant on the ellipsoid, as its plane is
        ahead = (np.full(n, 45.0), np.full(n, away_m))
        lon, lat, _ = pyproj.Geod(ellps="WGS84").fwd(lon, lat, *ahead)
    else:
        step_on_sphere(lon, lat, np.full(n, away_m), np.full(n, np.pi / 4))
    return Traces(np.array(["a"], object), nobody, nobody, time, lon, lat, np.arange(n))


def transcript(asked: SanitiseRequest, away_m: float, answers: tuple[Step, ...] = ()) -> list[Step]:
    wall = ListeningWall(Tab(), KEY, answers, branch="traces")
    box = TraceSource(walk(asked, away_m)).bounded(lambda traces: eligible(traces, asked))
    draw_reports(box, asked, wall)
    return wall.steps


def moved(kind: Kind) -> list[Shift]:
    asked = request(kind)
    one = transcript(asked, 0.0)
    return shifts(one, transcript(asked, RADIUS, tuple(one)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_user_moves_is_what_was_charged(kind: Kind) -> None:
    found = {shift.norm: shift for shift in moved(kind)}
    (main, *_) = found.values()
    assert main.moved <= main.allowed * (1 + 1e-9)
    # Tight: a bound that is charged twice would protect, and waste half of the budget.
    assert main.moved >= 0.99 * main.allowed
    if kind is Kind.GAUSSIAN:
        assert found["cells"].moved == found["cells"].allowed == 2 * MOST


def test_a_charge_for_half_the_reports_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit of the audit: `planar_event` forgets every second report."""
    from sfumato.privacy.mechanisms import planar

    real = planar.planar_event
    monkeypatch.setattr(planar, "planar_event", lambda how, most: real(how, most // 2))
    (shift,) = moved(Kind.INDEPENDENT)
    assert shift.moved > 1.9 * shift.allowed
