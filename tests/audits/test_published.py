"""Nothing is decided from private numbers after the scheme, either: publishers to their last byte.

The exact audit replays schemes. What calls them has the private input at hand as well: here a
release, a stream and a release of traces are made of two neighbours under one reservation, with the
same answers of the wall, and every file must be the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import shapely

from sfumato.audits.pairs import Stage
from sfumato.audits.transcript import ListeningWall, Step
from sfumato.density import publish as api
from sfumato.density.request import request
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.geography.places import PlaceOptions
from sfumato.model.counts import Counting, Counts, SampleBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.model.traces import Box, Traces
from sfumato.privacy.events import USER_PERIOD, Unit
from sfumato.privacy.ledger import Cap, Claim, Ledger
from sfumato.privacy.mechanisms.planar import Prediction
from sfumato.privacy.noise.planar import Strength
from sfumato.streams import live
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import Consistency
from sfumato.streams.registry import stream_scheme
from sfumato.traces import publish as publishing
from sfumato.traces.bounds import TraceSource
from sfumato.traces.request import GaussianTraces, Kind, SanitiseRequest

pytestmark = pytest.mark.privacy
SAME = "f" * 64
Files = dict[str, bytes]
Twice = Callable[[Claim, Callable[[Ledger, bool], object]], tuple[Files, Files]]


class Answers:
    """Walls of which the second run's give the answers of the first run's."""

    def __init__(self) -> None:
        self.again = False
        self._first: dict[str, Step] = {}
        self._made: list[ListeningWall] = []

    def __call__(self, charger: Any, key: bytes, branch: str = "measurement") -> ListeningWall:
        given = tuple(self._first.values()) if self.again else ()
        wall = ListeningWall(charger, key, given, branch=branch)
        self._made.append(wall)
        return wall

    def turn(self) -> None:
        self._first = {step.label: step for wall in self._made for step in wall.steps}
        self.again = True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(api, "Wall", made)
    monkeypatch.setattr(live, "Wall", made)
    monkeypatch.setattr(publishing, "Wall", made)
    return made


@pytest.fixture
def twice(tmp_path: Path, answers: Answers) -> Twice:
    """Both runs finish the same reservation: one key, one time, one head of the ledger."""

    def run(claim: Claim, publish: Callable[[Ledger, bool], object]) -> tuple[Files, Files]:
        books, out = tmp_path / "books", Path(claim.out)
        ledger = Ledger(books / "ledger.sqlite")
        ledger.initialise()
        unit = Unit.parse("point:1m") if str(claim.unit) == "point" else claim.unit
        ledger.add_dataset("city", Cap(epsilon=100, delta=1e-3), unit)
        ledger.reserve(claim)
        found = []
        for second in (False, True):
            shutil.copytree(books, tmp_path / f"books-{second}")
            publish(Ledger(tmp_path / f"books-{second}" / "ledger.sqlite"), second)
            files = [path for path in out.rglob("*") if path.is_file()]
            found.append({str(path.relative_to(out)): path.read_bytes() for path in files})
            shutil.rmtree(out)
            answers.turn()
        return found[0], found[1]

    return run


@pytest.mark.parametrize(
    "pair", ["one visit, nobody else", "every place in every slot, some others"]
)
def test_a_release(
    pair: str, tmp_path: Path, twice: Twice, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.for_bound(SampleBound(3))
    (both,) = [one for one in stage.pairs(3) if one.name == pair]
    asked = request(
        places=PlaceOptions(stage.places), grid=stage.grid, dataset="city", name="week",
        scheme="laplace", epsilon=1.0, delta=1e-6, bound="sample:3", count=Counting.VISITS,
    )  # fmt: skip
    monkeypatch.setattr(LocalSource, "fingerprint", lambda *_: SAME)

    def publish(ledger: Ledger, second: bool) -> None:
        events = both.without_user if second else both.with_user
        source = LocalSource(events, stage.places, stage.grid, threads=1)
        api.publish_request(asked, source, ledger, tmp_path / "out")

    one, other = twice(asked.claim(SAME, tmp_path / "out"), publish)
    assert "density.parquet" in one
    assert one == other


SHARES = Overlay(
    np.array(["a", "b", "c"]),
    np.array(["north", "south"]),
    exact_shares(sp.csr_array(np.array([[0.5, 0.25], [0.0, 1.0], [0.75, 0.0]]))),
)
ZONES = Places.of(
    PlaceKind.ZONES, ["north", "south"], [shapely.box(2, 48.5, 3, 49), shapely.box(2, 48, 3, 48.5)]
)


@pytest.mark.parametrize("spread", [False, True], ids=["counted", "spread over zones"])
@pytest.mark.parametrize("how", Consistency)
def test_a_stream(how: Consistency, spread: bool, tmp_path: Path, twice: Twice) -> None:
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "UTC")
    facts = StreamFacts(3, Calendar.of(grid), 1.0, 0.0, USER_PERIOD)
    request = live.StreamRequest(
        "city", "stream", stream_scheme("direct"), facts, grid, np.array(["a", "b", "c"]),
        tmp_path / "out", fingerprint=SAME, consistency=how,
        **({"shares": SHARES, "released": ZONES} if spread else {}),
    )  # fmt: skip

    def publish(ledger: Ledger, second: bool) -> None:
        with live.LiveStream(ledger, request) as stream:
            for slot in range(grid.slots):
                values = np.array([0, 40, 0 if second else 1], dtype=np.int64)
                counts = Counts(values, 1, 1.0, 1.0, Counting.VISITS, "a slot")
                stream.publish(slot, Private(counts, "a slot"))
            stream.close()

    one, other = twice(request.claim(), publish)
    assert "stream.ndjson" in one
    assert one == other


NOISE = Strength.from_noise(100.0)
PARIS = Box(2.0, 48.5, 2.7, 49.2)
TRACES: dict[str, dict[str, Any]] = {
    "independent": {"strength": NOISE},
    "rolling": {"strength": NOISE, "rolling_per_metre": 0.1},
    "clock": {"strength": NOISE, "window_s": 3600, "most_reports": None},
    "printed-clock": {"strength": NOISE, "window_s": 1800},
    "predictive": {"strength": NOISE, "prediction": Prediction(NOISE, NOISE, 500.0, 9, 9)},
    "gaussian": {"box": PARIS, "gaussian": GaussianTraces(PARIS, 200.0, 20, 1.0, 1e-6)},
}


@pytest.mark.parametrize("case", TRACES)
def test_traces(case: str, tmp_path: Path, twice: Twice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locations move; who reported when does not, which is not protected."""
    kind = Kind.INDEPENDENT if case == "rolling" else Kind(case)
    given = {"most_reports": 20} | TRACES[case]
    asked = SanitiseRequest("city", "walk", kind, date(2024, 3, 4), date(2024, 3, 5), **given)
    begin, n = asked.period[0], 12
    user = np.repeat(np.arange(2), n // 2)

    def walk(east: float) -> Traces:
        names = np.array(["a", "b"], dtype=object)
        time = begin + np.arange(n) * 600_000_000
        lon = np.linspace(2.3, 2.4, n) + east
        return Traces(names, user, np.zeros(n, int), time, lon, np.full(n, 48.8), np.arange(n))

    monkeypatch.setattr(TraceSource, "fingerprint", lambda *_: SAME)
    claims: list[Claim] = []

    class Noted(Exception):
        pass

    def note(_: Ledger, claim: Claim, *__: Any, **___: Any) -> None:
        claims.append(claim)
        raise Noted

    book = Ledger(tmp_path / "first" / "ledger.sqlite")
    book.initialise()
    with monkeypatch.context() as only:
        only.setattr(publishing, "publish", note)
        with pytest.raises(Noted):
            publishing.publish_request(asked, TraceSource(walk(0.0)), book, tmp_path / "out")

    def publish(ledger: Ledger, second: bool) -> None:
        moved = TraceSource(walk(0.01 * second))
        publishing.publish_request(asked, moved, ledger, tmp_path / "out")

    one, other = twice(claims[0], publish)
    assert "traces.parquet" in one
    assert one == other
