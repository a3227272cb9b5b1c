"""People who do not exist: what one person moves, what the file hangs on, and the way through."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import sfumato
from sfumato.audits.transcript import ListeningWall, joint_share, same_measurements, shifts
from sfumato.city import CityPlan, write_city
from sfumato.density.scheme import PublicFacts
from sfumato.engine.lives import _put
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, SfumatoError, Unfit, UsageError
from sfumato.geography.overlay import layout_of_zones
from sfumato.geography.places import PlaceOptions
from sfumato.io.events import read_events
from sfumato.model.lives import KINDS, LIFE_UNITS, LifeQuestion
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Tab
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.synthesis.fitness import forecast
from sfumato.synthesis.folder import Writer
from sfumato.synthesis.method import Cube, Noisy, SynthFacts, settings_of
from sfumato.synthesis.people import rounded_running
from sfumato.synthesis.registry import method_named
from sfumato.synthesis.request import synth_request
from sfumato.synthesis.weeks import asked
from sfumato_lab.synthesis.calling import Patterns
from sfumato_lab.synthesis.where import asked as asked_where

pytestmark = pytest.mark.privacy
METHODS = ("weeks", "where")
SIDE, USERS = 3, 40
WORDS: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-06", "tz": "UTC"}
WORDS["anyway"] = True  # so few people are of no use
GRID: TimeGrid = period_of("2024-03-04", "2024-03-06", "1h", "UTC", None)
CELLS = Places.of(
    PlaceKind.ZONES,
    [f"z{k}" for k in range(SIDE * SIDE)],
    [
        shapely.box(2 + x / 50, 48 + y / 50, 2 + (x + 1) / 50, 48 + (y + 1) / 50)
        for x in range(SIDE)
        for y in range(SIDE)
    ],
)
Rows = dict[str, list[Any]]


def town(users: int = USERS, seed: int = 3) -> Rows:
    """People at home at night, at work by day, elsewhere now and then."""
    rng = np.random.default_rng(seed)
    rows: Rows = {"user": [], "hour": [], "cell": []}
    for user in range(users):
        home, work = rng.integers(0, SIDE * SIDE, 2)
        for hour in rng.choice(48, rng.integers(1, 20), replace=False):
            where = home if hour % 24 < 8 or hour % 24 > 19 else work
            where = rng.integers(0, SIDE * SIDE) if rng.random() < 0.3 else where
            add(rows, user, int(hour), int(where))
    return rows


def add(rows: Rows, user: int, hour: int, cell: int) -> None:
    for name, value in (("user", user), ("hour", hour), ("cell", cell)):
        rows[name].append(value)


def strangers() -> dict[str, Rows]:
    """Whole records of one more person."""
    made: dict[str, Rows] = {
        name: {"user": [], "hour": [], "cell": []}
        for name in ("once", "everywhere", "at night", "to and fro", "at home")
    }
    add(made["once"], USERS, 10, 4)
    for hour in range(48):
        for cell in range(SIDE * SIDE):
            add(made["everywhere"], USERS, hour, cell)
        add(made["to and fro"], USERS, hour, (hour % 2) * 8)
        add(made["at home"], USERS, hour, 0)
        if hour % 24 < 7:
            add(made["at night"], USERS, hour, hour % 9)
    return made


def table_of(*parts: Rows) -> pa.Table:
    joined = {name: [value for part in parts for value in part[name]] for name in parts[0]}
    middles = shapely.get_coordinates(shapely.centroid(CELLS.geometry))[joined["cell"]]
    time = GRID.edges[0] + (np.array(joined["hour"]) * 3600 + 60) * 1_000_000
    return pa.table(
        {
            "user_id": pa.array(joined["user"], pa.int64()),
            "timestamp": pa.array(time, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "lon": middles[:, 0],
            "lat": middles[:, 1],
        }
    )


def source_of(*parts: Rows) -> LocalSource:
    events = read_events(table_of(*parts), period=GRID.period, tz="UTC")
    return LocalSource(events, CELLS, GRID)


def facts_of(method: str, epsilon: float = 2.0, seed: int = 1, **more: Any) -> SynthFacts:
    found = method_named(method)
    public = PublicFacts(
        place_ids=CELLS.ids,
        grid=GRID,
        epsilon=epsilon,
        delta=1e-3,
        expected_users=USERS,
        layout=layout_of_zones(CELLS),
    )
    facts = SynthFacts(public, USERS, seed, settings_of(found, {}), CELLS, counted=CELLS)
    return replace(facts, **more)


def measured(
    method: str, facts: SynthFacts, *parts: Rows, answers: Any = ()
) -> tuple[Noisy, ListeningWall, Tab]:
    tab = Tab()
    wall = ListeningWall(tab, bytes(range(32)), answers)
    return method_named(method).measure(source_of(*parts), wall, facts), wall, tab


def lives_of(question: LifeQuestion, *parts: Rows) -> Any:
    return open_private(source_of(*parts).lives(question)).values


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("who", strangers())
def test_nobody_moves_a_measurement_by_more_than_its_charge(method: str, who: str) -> None:
    facts = facts_of(method)
    _, one, _ = measured(method, facts, town())
    _, other, _ = measured(method, facts, town(), strangers()[who], answers=one.steps)
    assert same_measurements(one.steps, other.steps)
    for shift in shifts(one.steps, other.steps):
        assert shift.moved <= shift.allowed, shift
    assert 0 < joint_share(one.steps, other.steps) <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("who", strangers())
def test_a_life_has_at_most_norm_one_and_a_full_one_nearly(method: str, who: str) -> None:
    question = (asked if method == "weeks" else asked_where)(facts_of(method))
    alone = lives_of(question, strangers()[who])
    length = float(np.sqrt(np.square(alone.astype(float)).sum())) / LIFE_UNITS
    assert length <= 1
    assert (alone != 0).sum() <= question.touched
    if who in ("everywhere", "to and fro"):
        assert length > (0.97 if method == "weeks" else 0.9)
    with_town = lives_of(question, town(), strangers()[who]) - lives_of(question, town())
    assert np.array_equal(with_town, alone)


def test_a_class_of_calling_patterns_is_told_by_one_record() -> None:
    """One entry of `calls`, one row of `profiles`: night, office hours or neither x up to daily."""
    question = asked_where(facts_of("where"))
    wanted = {"once": 2, "at night": 1, "everywhere": 1, "to and fro": 1, "at home": 1}
    for who, kind in wanted.items():
        blocks = question.blocks(lives_of(question, strangers()[who]).astype(float))
        calls = blocks["calls"].reshape(KINDS, -1)
        assert np.flatnonzero(calls.sum(axis=1)).tolist() == [kind], who
        assert calls.sum() == 1
        profile = blocks["profiles"].reshape(KINDS, 48)
        assert np.flatnonzero(profile.sum(axis=1)).tolist() == [kind]


def test_people_of_the_night_stay_people_of_the_night() -> None:
    """Made-up records fall into the classes that were measured."""
    question = asked_where(facts_of("where"))
    calls = np.zeros((KINDS, 12, 4))
    calls[1, 4, 1] = calls[3, 4, 1] = 500
    hours = np.arange(48)
    night = (hours % 24 >= 20) | (hours % 24 < 7)
    profiles = np.zeros((KINDS, 48))
    profiles[1] = np.where(night, 300, 30)
    profiles[3] = np.where(night, 30, 300)
    noisy = {"calls": calls.ravel(), "profiles": profiles.ravel()}
    found = Patterns.of(noisy, {"calls": 1.0, "profiles": 1.0}, 20.0, question)
    user, slot = found.drawn(600, np.random.default_rng(1))
    asleep = np.bincount(user, question.period[slot] == 0) / np.bincount(user)
    assert np.abs(np.array([(asleep > 0.6).mean(), (asleep < 0.3).mean()]) - 0.5).max() < 0.15


@pytest.mark.parametrize("method", METHODS)
def test_charges_are_those_of_the_plan_and_within_the_budget(method: str) -> None:
    facts = facts_of(method, epsilon=1.0)
    plan = method_named(method).plan(facts)
    _, _, tab = measured(method, facts, town())
    assert tab.charged == plan.events
    assert 0.9 <= guarantee(list(plan.events.values()), facts.public.delta).epsilon <= 1.0


@pytest.mark.parametrize("method", METHODS)
def test_the_finished_file_hangs_on_answers_and_seed_alone(method: str, tmp_path: Path) -> None:
    facts = facts_of(method)
    noisy, one, _ = measured(method, facts, town())
    stranger = strangers()["everywhere"]
    again, _, _ = measured(method, facts, town(), stranger, answers=one.steps)
    digests = []
    for number, (answers, seed) in enumerate(((noisy, 1), (again, 1), (noisy, 2))):
        path = tmp_path / f"{number}.parquet"
        sown = replace(facts, seed=seed)
        Writer(sown, as_lives=True).write(path, method_named(method).generate(answers, sown))
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]


def test_the_density_of_people_is_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    table = rng.gamma(2.0, 3.0, (SIDE * SIDE, GRID.slots))
    facts = replace(
        facts_of("weeks"), people=400, cube=Cube(table, float(table.sum())), public=public_of(400)
    )
    made = Writer(facts, as_lives=True).write(
        tmp_path / "e.parquet", method_named("weeks").generate({}, facts)
    )
    assert made.density is not None
    assert abs(made.density.sum() - table.sum()) <= 0.01 * table.sum()
    assert np.abs(made.density - table).mean() < 0.5
    rows = pq.read_table(tmp_path / "e.parquet").to_pandas()
    assert rows["user_id"].between(1, 400).all()
    order = rows.sort_values(["user_id", "timestamp"], kind="stable")
    assert order.index.equals(rows.index)


def public_of(people: int) -> PublicFacts:
    return replace(facts_of("weeks").public, expected_users=people)


def test_whole_numbers_keep_running_sums() -> None:
    values = np.random.default_rng(1).exponential(0.4, 1000)
    whole = rounded_running(values)
    assert np.abs(np.cumsum(values) - np.cumsum(whole)).max() <= 0.5 + 1e-9
    assert rounded_running(values, 77).sum() == 77


REFUSED: dict[str, dict[str, Any]] = {
    "nobody": {"people": 0},
    "no such method": {"method": "nothing"},
    "half a day": {"end": "2024-03-04"},
    "a share above one": {"parameter": {"table": 1.5}},
    "a parameter it has not": {"parameter": {"candidates": 3}},
    "no number of people": {"expected_users": None},
    "a negative seed": {"seed": -1},
    "a release and events": {"release": "somewhere"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_options_refuse_before_anything_is_read(what: str, tmp_path: Path) -> None:
    words = WORDS | {"expected_users": USERS, "zones": CELLS} | REFUSED[what]
    with pytest.raises(SfumatoError) as refusal:
        sfumato.synth(
            "none.parquet",
            out=tmp_path / "out",
            dataset="town",
            epsilon=1.0,
            delta=1e-3,
            ledger=book(tmp_path),
            **words,
        )
    assert isinstance(refusal.value, UsageError)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", METHODS)
def test_what_would_be_useless_is_refused_before_it_costs(method: str, tmp_path: Path) -> None:
    """From public facts: the file is not even opened, and the ledger has no entry."""
    ledger = book(tmp_path)
    words = WORDS | {"anyway": False, "zones": CELLS, "expected_users": USERS, "method": method}
    with pytest.raises(Unfit, match="of no use"):
        sfumato.synth(
            "none.parquet", out=tmp_path / "out", dataset="town", epsilon=1.0, delta=1e-3,
            ledger=ledger, **words,
        )  # fmt: skip
    assert ledger.book().find("town", "out") is None
    public = replace(facts_of(method).public, expected_users=500_000, delta=1e-7)
    rich = replace(facts_of(method), public=public)
    found = forecast(method_named(method), rich)
    assert found is not None
    assert not found.useless


def book(folder: Path) -> Ledger:
    found = Ledger(folder / "ledger.sqlite")
    found.initialise()
    found.add_dataset("town", Cap(epsilon=20, delta=0.01))
    return found


def test_from_records_to_people_to_a_release_of_theirs(tmp_path: Path) -> None:
    """The file passes through release, attack and sanitise as it is; a release makes people."""
    ledger = book(tmp_path)
    paid: dict[str, Any] = {"dataset": "town", "epsilon": 2.0, "delta": 1e-3, "ledger": ledger}
    paid |= WORDS | {"zones": CELLS, "expected_users": USERS}
    made = sfumato.synth(table_of(town()), out=tmp_path / "made", **paid)
    assert made.kind == "synthetic"
    assert made.manifest.public_inputs["seed"] == 0
    assert "who do not exist" in made.statement()
    events = made.folder / "events.parquet"
    assert pq.read_schema(events).names == ["user_id", "timestamp", "lon", "lat"]
    released = sfumato.release(events, out=tmp_path / "theirs", scheme="gaussian", **paid)
    assert released.manifest.kind == "density"
    found = sfumato.attack(released, events, seeds=1, group=0, zones=CELLS)
    assert "INTERNAL" in repr(found)
    ledger.add_dataset("town", Cap(epsilon=5000, delta=0.01), sfumato_unit("point:200m"))
    moved = sfumato.sanitise(
        events, out=tmp_path / "moved", dataset="town", start="2024-03-04", end="2024-03-06",
        expected_noise="100m", most_reports=5, ledger=ledger,
    )  # fmt: skip
    assert moved.manifest.kind == "traces"
    free = sfumato.synth(release=released, out=tmp_path / "free", people=30)
    assert free.how == "made"
    assert free.manifest.privacy.epsilon == released.manifest.privacy.epsilon
    on = sfumato.synth(table_of(town()), out=tmp_path / "on", on=released, **paid)
    privacy = released.manifest.privacy.model_copy(update={"unit": "user-day@Europe/Paris"})
    days = replace(released, manifest=released.manifest.model_copy(update={"privacy": privacy}))
    with pytest.raises(InputError, match="protects user-day"):
        sfumato.synth(table_of(town()), out=tmp_path / "days", on=days, **paid)
    labels = [one.label for one in on.manifest.privacy.measurements]
    assert labels == ["release/counts", "lives"]
    assert on.manifest.privacy.epsilon > 2.0
    assert sfumato.read_release(tmp_path / "on").manifest.made_from is not None
    again = sfumato.synth(table_of(town()), out=tmp_path / "made", **paid)
    assert again.how == "already"


def sfumato_unit(name: str) -> Any:
    from sfumato.privacy.events import Unit

    return Unit.parse(name)


def test_rows_never_refuse(tmp_path: Path) -> None:
    nobody = table_of(town()).slice(0, 0)
    made = sfumato.synth(
        nobody, out=tmp_path / "made", dataset="town", epsilon=2.0, delta=1e-3, zones=CELLS,
        expected_users=USERS, ledger=book(tmp_path), **WORDS,
    )  # fmt: skip
    assert made.values.shape == (SIDE * SIDE, GRID.slots)


def test_a_person_of_a_hundred_million_visits_is_scaled_like_others() -> None:
    """The square of such counts would pass 64 bits; nobody's rows may stop a release."""
    counts = np.zeros(6, np.int64)
    counts[:] = 1 << 27
    out = np.zeros(6, np.int64)
    _put(counts, np.int64(1 << 12), np.int64(0), out)
    assert (out > 0).all()
    assert int((out * out).sum()) <= (1 << 12) ** 2


def test_a_rerun_with_another_border_is_another_request(tmp_path: Path) -> None:
    """The border decides what is measured: the same noise must not meet two of them."""
    write_city(CityPlan(users=20, towers=24, zones=16, area_km2=8, seed=5), tmp_path)
    bound = []
    for border in ("0", "500m"):
        said = PlaceOptions(
            towers=tmp_path / "towers.csv", zones=tmp_path / "zones.geojson", border=border
        )
        asked_for = synth_request(
            places=said, grid=GRID, dataset="town", epsilon=1.0, delta=1e-3, name="made",
            expected_users=USERS, tz="Europe/Paris",
        )  # fmt: skip
        bound.append(asked_for.config())
    assert bound[0].get("border") != bound[1].get("border")
