"""What mechanisms on locations owe, as every mechanism: charged first, opened then, drawn last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import BudgetRefused, PrivateNumbers, UsageError
from sfumato.model.private import Private
from sfumato.model.traces import Traces
from sfumato.privacy.events import GaussianEvent, MetricEvent, PrivacyEvent, Tab
from sfumato.privacy.ledger.rolling import RollingBudget
from sfumato.privacy.mechanisms import planar
from sfumato.privacy.mechanisms.planar import OnPlane, Prediction, Reports, Shown
from sfumato.privacy.noise.planar import Lattice, Strength
from sfumato.privacy.wall import Wall
from sfumato.traces import sanitise_location

pytestmark = pytest.mark.privacy

KEY = bytes(range(3, 35))
NOISE = Strength.from_noise(100.0)
PREDICTION = Prediction(NOISE, Strength.from_noise(1000.0), 300.0, 4, 9)
N = 4
Run = Callable[[Wall, Traces], Reports]


def fixes(n: int = N, users: int = 2) -> Traces:
    user = np.repeat(np.arange(users), n)
    time = np.tile(np.arange(n) * 60_000_000, users)
    names = np.array([f"person-{k}" for k in range(users)], dtype=object)
    lon, lat = 2.3 + 0.01 * np.arange(user.size), np.full(user.size, 48.8)
    return Traces(names, user, np.zeros(user.size, int), time, lon, lat, np.arange(user.size) + 70)


def by_planar(wall: Wall, traces: Traces) -> Reports:
    box = Private(Shown.each(traces), "fixes")
    return wall.planar(box, strength=NOISE, most_reports=N, label="locations")


def by_windows(wall: Wall, traces: Traces) -> Reports:
    by = np.arange(len(traces)) // 2 * 2
    box = Private(Shown(traces, by), "fixes")
    return wall.planar(box, strength=NOISE, most_reports=N // 2, label="locations")


def by_predictive(wall: Wall, traces: Traces) -> Reports:
    return wall.predictive(Private(traces, "fixes"), setting=PREDICTION, label="locations")


def by_gaussian(wall: Wall, traces: Traces) -> Reports:
    units = np.column_stack((traces.lon, traces.lat)).astype(np.int64)
    box = Private(OnPlane(traces, units), "fixes")
    return wall.plane_gaussian(
        box, reach=3.0, most_reports=N, sigma2=Fraction(900), label="locations"
    )


CASES: dict[str, tuple[Run, PrivacyEvent]] = {
    "planar Laplace": (by_planar, MetricEvent(N * 0.02, "planar Laplace")),
    "windows": (by_windows, MetricEvent(N / 2 * 0.02, "planar Laplace")),
    "predictive": (
        by_predictive,
        MetricEvent(4 * 0.02 + 9 * 0.002, "predictive planar Laplace"),
    ),
    "Gaussian": (by_gaussian, GaussianEvent(6.0, Fraction(900), 2 * N)),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Run, PrivacyEvent]:
    return CASES[request.param]


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch, drawn_blocks) -> list[str]:
    """Openings of boxes, in order; `drawn` after the first of random bits."""
    seen: list[str] = []
    real = planar.open_private

    def opening(box: Any) -> Any:
        seen.append("drawn" if drawn_blocks.asked else "opened")
        return real(box)

    monkeypatch.setattr(planar, "open_private", opening)
    return seen


class Refuses:
    def charge(self, label: str, event: PrivacyEvent) -> None:  # noqa: ARG002
        raise BudgetRefused("Nothing is left.")


def test_refused_means_nothing_opened_and_nothing_drawn(case, happened, drawn_blocks) -> None:
    run, _ = case
    for wall in (Wall(Refuses(), KEY, "traces"), Wall.seeded(1, Refuses())):
        with pytest.raises(BudgetRefused):
            run(wall, fixes())
    assert happened == []
    assert not drawn_blocks.asked


def test_charged_once_before_the_box_is_opened_and_that_before_the_first_bit(
    case, happened, drawn_blocks
) -> None:
    run, event = case
    charged: list[tuple[str, PrivacyEvent]] = []

    class Watches:
        def charge(self, label: str, event: PrivacyEvent) -> None:
            assert happened == []
            assert not drawn_blocks.asked
            charged.append((label, event))

    run(Wall(Watches(), KEY, "traces"), fixes())
    assert charged == [("locations", event)]
    assert happened == ["opened"]
    assert drawn_blocks.asked


def test_a_reservation_for_less_is_refused(case, happened) -> None:
    """The charge says how strong the noise is: another strength is another measurement."""
    run, event = case

    class Reserved:
        def charge(self, label: str, asked: PrivacyEvent) -> None:
            half = (
                replace(event, epsilon_per_metre=event.epsilon_per_metre / 2)
                if isinstance(event, MetricEvent)
                else replace(event, l2=event.l2 / 2)
            )
            if asked != half:
                raise UsageError(f"{label} is not the one that was reserved.")

    with pytest.raises(UsageError, match="reserved"):
        run(Wall(Reserved(), KEY, "traces"), fixes())
    assert happened == []


def test_a_label_is_drawn_once(case) -> None:
    class Forgetful:
        def charge(self, label: str, event: PrivacyEvent) -> None:
            pass

    run, _ = case
    wall = Wall(Forgetful(), KEY, "traces")
    run(wall, fixes())
    with pytest.raises(UsageError, match="already taken"):
        run(wall, fixes())


def test_more_fixes_than_were_paid_for_are_not_drawn(case, drawn_blocks) -> None:
    run, _ = case
    if run is by_predictive:  # repeats the last report instead; see its own tests
        made = run(Wall(Tab(), KEY), fixes(n=50, users=1))
        assert np.unique(made.traces.lon).size <= PREDICTION.most_reports
        return
    with pytest.raises(UsageError, match="more fixes"):
        run(Wall(Tab(), KEY), fixes(n=N + 2))
    assert not drawn_blocks.asked


def test_ids_and_source_rows_stay_behind(case) -> None:
    run, _ = case
    made = run(Wall(Tab(), KEY), fixes()).traces
    assert not any("person" in str(name) for name in made.names)
    assert made.row.tolist() == list(range(2 * N))


def test_taint_is_passed_on(case) -> None:
    run, _ = case
    assert run(Wall.seeded(1), fixes()).tainted
    assert not run(Wall(Tab(), KEY), fixes()).tainted


def test_the_same_key_draws_the_same_and_another_does_not(case) -> None:
    run, _ = case

    def drawn(key: bytes) -> np.ndarray:
        made = run(Wall(Tab(), key, "traces"), fixes())
        return made.units if run is by_gaussian else made.traces.lon

    assert np.array_equal(drawn(KEY), drawn(KEY))
    assert not np.array_equal(drawn(KEY), drawn(bytes(32)))


def test_nobody_is_an_empty_answer_that_is_paid(case) -> None:
    run, event = case
    tab = Tab()
    assert len(run(Wall(tab, KEY), fixes(n=0)).traces) == 0
    assert tab.charged == {"locations": event}


def test_what_cannot_be_drawn_is_refused_before_the_charge() -> None:
    tab = Tab()
    box = Private(Shown.each(fixes()), "fixes")
    faint = Strength.from_noise(1_000_000.0)  # weaker than what a lattice of 100 m may add
    with pytest.raises(UsageError, match="lattice"):
        Wall(tab, KEY).planar(
            box, strength=faint, most_reports=N, label="m", lattice=CoarseLattice()
        )
    assert not tab.charged


class CoarseLattice(Lattice):
    """As if finite precision cost more than the whole loss."""

    def excess(self, per_metre: float) -> float:
        return 2 * per_metre * self.step_m


def test_the_order_of_names_is_on_bits_that_no_noise_has(drawn_blocks) -> None:
    wall = Wall(Tab(), KEY, "traces")
    by_planar(wall, fixes())
    assert sorted(wall.random_order(5, "names").tolist()) == [0, 1, 2, 3, 4]
    assert drawn_blocks.twice() == 0
    with pytest.raises(UsageError, match="already taken"):
        wall.random_order(5, "names")
    with pytest.raises(UsageError, match="already taken"):
        wall.random_order(5, "locations")
    with pytest.raises(UsageError, match="belong"):
        wall.random_order(5, "noise")


def test_a_location_on_a_device_is_paid_before_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = RollingBudget.on_device(tmp_path / "budget.sqlite", cap_per_metre=0.025)
    lon, lat = sanitise_location(2.35, 48.85, expected_noise_m=100, budget=budget)
    assert abs(lon - 2.35) + abs(lat - 48.85) < 1
    drawn: list[object] = []
    monkeypatch.setattr(planar, "planar_laplace", lambda *given, **_: drawn.append(given))
    with pytest.raises(BudgetRefused):
        sanitise_location(2.35, 48.85, expected_noise_m=100, budget=budget)
    assert drawn == []


def test_a_device_pays_for_locations_only(tmp_path: Path) -> None:
    budget = RollingBudget.on_device(tmp_path / "budget.sqlite", cap_per_metre=0.025)
    with pytest.raises(UsageError, match="per metre"):
        budget.charge("counts", GaussianEvent(1.0, Fraction(9), 1))


def test_a_box_of_traces_cannot_be_looked_at() -> None:
    box = Private(fixes(), "fixes")
    for look in (len, iter, np.asarray):
        with pytest.raises(PrivateNumbers):
            look(box)  # type: ignore[operator]
    with pytest.raises(AttributeError):
        box.lon  # type: ignore[attr-defined]  # noqa: B018
    assert "2.3" not in repr(box)
