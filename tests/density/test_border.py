"""Borders in a release: bound, told, judged by formula (1); far and moved towers stop nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

import sfumato
from sfumato.density.evaluate import evaluate
from sfumato.density.plan import plan
from sfumato.density.publish import release
from sfumato.density.request import request
from sfumato.engine.local import DropLog
from sfumato.errors import ReservationRefused, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import period_of
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger

PERIOD: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-06", "tz": "UTC", "slot": "6h"}
PRIVACY: dict[str, Any] = {
    "scheme": "gaussian", "epsilon": 5.0, "delta": 1e-6, "expected_users": 500,
}  # fmt: skip
GRID = period_of(**PERIOD)
INSIDE = {"a": (2.305, 48.805), "b": (2.335, 48.805), "c": (2.305, 48.825), "d": (2.335, 48.825)}
OUTSIDE, FAR = {"o": (2.355, 48.815)}, {"f": (4.9, 45.7)}


def towers(at: dict[str, tuple[float, float]]) -> Places:
    return Places.of(PlaceKind.TOWERS, list(at), [shapely.Point(p) for p in at.values()])


def zones() -> Places:
    boxes = [(x, y) for x in range(4) for y in range(3)]
    shapes = [shapely.box(2.3 + x / 100, 48.8 + y / 100, 2.31 + x / 100, 48.81 + y / 100)
              for x, y in boxes]  # fmt: skip
    return Places.of(PlaceKind.ZONES, [f"z{x}{y}" for x, y in boxes], shapes)


def events(ids: str, rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(3)
    when = rng.integers(int(GRID.edges[0]), int(GRID.edges[-1]), rows)
    return pa.table(
        {
            "user_id": rng.integers(0, 500, rows),
            "timestamp": pa.array(when, pa.timestamp("us", tz="UTC")),
            "cell_id": np.array(list(ids))[rng.integers(0, len(ids), rows)],
        }
    )


def new_book(folder: Path) -> Ledger:
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=50.0, delta=1e-4))
    return ledger


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return new_book(tmp_path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[sfumato.Release, sfumato.Release]:
    """The towers in the zones alone: by the default, and by the usual rule."""
    home = tmp_path_factory.mktemp("pair")
    book = new_book(home)
    cut = published(book, home / "cut", INSIDE)
    return cut, published(book, home / "lost", INSIDE, border="3km")


def published(
    book: Ledger, out: Path, at: dict[str, tuple[float, float]], **more: Any
) -> sfumato.Release:
    given = {"events": events("abcd"), "towers": towers(at), "zones": zones()} | more
    return release(given.pop("events"), out=out, dataset="town", ledger=book, **PERIOD, **PRIVACY,
                   **given)  # fmt: skip


def readme(made: sfumato.Release) -> str:
    return " ".join((made.folder / "README.txt").read_text().split())


def test_a_release_says_what_the_border_takes(
    pair: tuple[sfumato.Release, sfumato.Release],
) -> None:
    cut, lost = pair
    said = cut.manifest.public_inputs
    assert (said["border"], said["border_lost_share"], said["towers_left_out"]) == ("0", 0.0, 0)
    assert "All visits at those in the zones" in readme(cut)
    said = lost.manifest.public_inputs
    assert float(said["border_lost_share"] or 0) > 0.5
    assert "a 0." in str(said["border_worst_towers"])
    text = readme(lost)
    assert "4 lose more than half" in text
    assert "Nothing makes up for it" in text
    assert lost.values.sum() < 0.6 * cut.values.sum()


@pytest.mark.privacy
def test_towers_far_away_are_left_out_and_events_at_them_count_nowhere(
    book: Ledger, tmp_path: Path
) -> None:
    told: list[DropLog] = []
    found = published(
        book, tmp_path / "far", {**INSIDE, **FAR}, events=events("abcdf"), internal=told.append
    )
    assert found.manifest.public_inputs["towers_left_out"] == 1
    assert found.manifest.counted.sha256 == towers(INSIDE).fingerprint()
    assert "left out, with the events at them: 1" in readme(found)
    far = int(np.count_nonzero(events("abcdf")["cell_id"].to_numpy(zero_copy_only=False) == "f"))
    assert list(told[0].dropped.values()) == [far], "like events at towers that nobody knows"


def test_a_tower_that_moves_within_the_period_stops_nothing(book: Ledger, tmp_path: Path) -> None:
    start, end = int(GRID.edges[0]), int(GRID.edges[-1])
    middle = (start + end) // 2
    moved = Places.of(
        PlaceKind.TOWERS,
        [*INSIDE, "d"],
        [*map(shapely.Point, INSIDE.values()), shapely.Point(2.325, 48.815)],
        valid_from=np.array([start] * 4 + [middle]),
        valid_to=np.array([end] * 3 + [middle, end]),
    )
    for scheme in ("gaussian", "paris"):
        asked = request(places=PlaceOptions(moved, zones()), grid=GRID, dataset="town", name="x",
                        **PRIVACY | {"scheme": scheme})  # fmt: skip
        assert asked.plan().measurements
    assert published(book, tmp_path / "moved", INSIDE, towers=moved).values.sum() > 0


def asked(at: dict[str, tuple[float, float]], border: str | None = None) -> dict[str, Any]:
    return request(
        places=PlaceOptions(towers(at), zones(), border=border),
        grid=GRID,
        dataset="town",
        name="x",
        **PRIVACY,
    ).config()


def test_the_rule_is_bound_where_it_is_not_that_of_the_first_version() -> None:
    assert asked(INSIDE)["border"] == "0"
    assert asked(INSIDE, "reach")["border"] == "reach"
    assert asked({**INSIDE, **OUTSIDE}, "500m")["border"] == "500m"
    assert "border" not in asked({**INSIDE, **OUTSIDE})
    assert "border" not in asked(INSIDE, "3km")


@pytest.mark.privacy
def test_what_was_begun_goes_on_with_its_border_and_no_other(
    book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.density.publish.write_release", killed)
        with pytest.raises(KeyboardInterrupt):  # by the usual rule
            published(book, tmp_path / "week", INSIDE, border="3km")
    with pytest.raises(ReservationRefused, match="changed: border"):
        published(book, tmp_path / "week", INSIDE, border="0")
    finished = published(book, tmp_path / "week", INSIDE)
    assert finished.how == "resumed"
    assert finished.manifest.public_inputs["border"] == "3km"
    assert published(book, tmp_path / "week", INSIDE).how == "already"


@pytest.mark.privacy
def test_a_stream_goes_on_with_its_border(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=9.0, delta=1e-6), Unit.parse("user-day"))

    def run(name: str, at: dict[str, tuple[float, float]], **more: Any) -> Any:
        sfumato.stream(events("abcd"), out=tmp_path / name, dataset="town", ledger=book,
                       towers=towers(at), zones=zones(), epsilon=1, scheme="direct", **PERIOD,
                       **more)  # fmt: skip
        return sfumato.read_release(tmp_path / name)

    first = run("first", INSIDE, border="3km")  # which is bound without a name
    assert first.manifest.public_inputs["border"] == "3km"
    bound = book.book().charges[first.manifest.release.id].claim.config["reading"]
    assert "border" not in bound
    assert run("first", INSIDE, resume=True).values.sum() == first.values.sum()
    with pytest.raises(ReservationRefused, match="changed"):
        run("first", INSIDE, border="0", resume=True)
    cut = run("cut", {**INSIDE, **FAR})
    assert cut.manifest.public_inputs["border"] == "0"
    assert cut.manifest.counted.count == 5
    found = evaluate(cut, events("abcd"), towers=towers({**INSIDE, **FAR}), zones=zones(),
                     earth_mover=False)  # fmt: skip
    assert found.evaluations[0].overall["formula_1_border_error"] == 0


def test_formula_1_shows_what_the_border_takes(
    pair: tuple[sfumato.Release, sfumato.Release],
) -> None:
    places = {"towers": towers(INSIDE), "zones": zones()}
    cut, lost = (evaluate(one, events("abcd"), earth_mover=False, **places) for one in pair)
    assert cut.formula_1 is not None
    assert lost.formula_1 is not None
    assert np.array_equal(cut.formula_1, cut.truth)
    assert np.allclose(lost.formula_1, cut.truth)
    assert cut.formula_1.sum() == pytest.approx(round(cut.formula_1.sum())), "whole visits"
    good, bad = cut.evaluations[0].overall, lost.evaluations[0].overall
    assert good["formula_1_border_error"] == 0
    assert good["formula_1_mean_relative_error"] == good["mean_relative_error"]
    assert bad["formula_1_border_error"] > 0.4
    assert bad["formula_1_zones_off"] == 1
    assert bad["formula_1_total_error"] < -0.4 < bad["total_error"]
    with pytest.raises(UsageError, match="different borders"):
        evaluate(pair, events("abcd"), earth_mover=False, **places)
    judged = evaluate(pair, events("abcd"), earth_mover=False, border="0", **places).evaluations
    assert judged[1].overall["total_error"] < -0.4


def test_a_plan_tells_the_loss_before_anything_is_spent() -> None:
    facts = PRIVACY | PERIOD
    told = plan(towers=towers({**INSIDE, **FAR}), zones=zones(), rehearse=False, **facts)
    assert told.answer["border"]["towers_left_out"] == 1
    assert "left out" in str(told)
    loss = plan(towers=towers(INSIDE), zones=zones(), rehearse=False, border="1km", **facts)
    assert "share lost at the worst: " in str(loss)
    none = plan(zones=zones(), rehearse=False, **facts)
    assert "border" not in none.answer
    with pytest.raises(UsageError, match="goes with files"):
        plan(zone_count=9, tower_count=9, rehearse=False, border="0", **facts)
