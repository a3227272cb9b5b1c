"""What a release of traces gives away beside noisy places: nothing that the places decide.

The unit is a point: neighbours differ in where a fix is, never in whether or when there is one. So
with the same bits a fix that moves may change its own report and nothing else: no other report, no
time, no name, no order of rows. (The predictive form is left out: it pays for a test of each place
and may then report elsewhere.)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import numpy as np
import pytest

from sfumato.model.private import Private
from sfumato.model.traces import Box, Traces
from sfumato.privacy.events import Tab
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.bounds import eligible
from sfumato.traces.mechanisms import draw_reports
from sfumato.traces.request import GaussianTraces, Kind, SanitiseRequest

pytestmark = pytest.mark.privacy
Walkers = Callable[..., Traces]
KEY = bytes(range(9, 41))
BOX = Box(116.0, 39.5, 117.0, 40.5)
KINDS = {
    Kind.INDEPENDENT: {"strength": Strength.from_noise(100.0)},
    Kind.CLOCK: {"strength": Strength.from_noise(100.0), "window_s": 600},
    Kind.GAUSSIAN: {"gaussian": GaussianTraces(BOX, 200.0, 30, 1.0, 1e-6), "box": BOX},
}


def reports(traces: Traces, kind: Kind) -> tuple[Traces, Tab]:
    asked = SanitiseRequest(
        dataset="walkers",
        name="november",
        kind=kind,
        start=date(2008, 11, 1),
        end=date(2008, 11, 2),
        most_reports=30,
        **KINDS[kind],  # type: ignore[arg-type]
    )
    tab = Tab()
    box = Private(eligible(traces, asked), "walkers")
    return draw_reports(box, asked, Wall(tab, KEY, "traces")).traces, tab


@pytest.mark.parametrize("kind", KINDS)
def test_a_fix_that_moves_changes_its_own_report_alone(kind: Kind, walkers: Walkers) -> None:
    traces = walkers()
    moved = np.array(traces.lon)
    at = 19  # the last of its window
    moved[at] += 0.002
    one, first = reports(traces, kind)
    other, second = reports(traces.at(moved, np.array(traces.lat)), kind)
    assert first.charged == second.charged
    for part in ("names", "user", "trip", "time"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part
    apart = np.flatnonzero((one.lon != other.lon) | (one.lat != other.lat))
    assert apart.size == 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_reports_share_their_noise(kind: Kind, walkers: Walkers, drawn_blocks) -> None:
    made, _ = reports(walkers(), kind)
    assert len(made) > 3
    assert drawn_blocks.asked
    assert drawn_blocks.twice() == 0
