"""Nothing is charged that cannot work: refused from options, schemas and the ledger alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import BudgetRefused, UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap

pytestmark = pytest.mark.privacy
SQUARE = "2.30,48.80,2.34,48.84"
DAY: dict[str, Any] = {"start": "2008-02-02", "end": "2008-02-03"}
HOURS: dict[str, Any] = {**DAY, "tz": "Asia/Shanghai", "slot": "6h", "dataset": "town"}
UNITS = ("user-period", "user-day", "point:200m", "trajectory")


@pytest.fixture
def book(tmp_path: Path) -> sfumato.Ledger:
    made = sfumato.Ledger(tmp_path / "ledger.sqlite")
    made.initialise()
    for unit in UNITS:
        made.add_dataset("town", Cap(epsilon=0.5, delta=1e-6), Unit.parse(unit))
    return made


def _release(events: object, **more: Any) -> object:
    return sfumato.release(
        events, epsilon=1, delta=1e-7, scheme="gaussian", anyway=True, **HOURS, **more
    )


def _stream(events: object, **more: Any) -> object:
    return sfumato.stream(events, epsilon=1, anyway=True, scheme="sample", **HOURS, **more)


def _sanitise(events: object, **more: Any) -> object:
    for name in ("grid", "region"):
        more.pop(name)
    return sfumato.sanitise(
        events, expected_noise="100m", most_reports=500, dataset="town", **DAY, **more
    )


def _synth(events: object, **more: Any) -> object:
    paid: dict[str, Any] = {"epsilon": 1, "delta": 1e-7, "expected_users": 1000}
    return sfumato.synth(events, anyway=True, **paid, **HOURS, **more)


def _synth_trips(events: object, **more: Any) -> object:
    more.pop("grid")
    return _synth(events, method="dpt", **more)


def _desk(events: object, **more: Any) -> object:
    more.pop("out")
    with sfumato.Desk(events, delta=1e-7, **HOURS, **more) as desk:
        return desk.ask({"measure": "visits", "want": {"epsilon": 1}})


def _batch(events: object, **more: Any) -> object:
    more.pop("out")
    with sfumato.Desk(events, delta=1e-7, **HOURS, **more) as desk:
        return desk.together([{"measure": "visits"}], epsilon=1)


PUBLISHERS = [_release, _stream, _sanitise, _synth, _synth_trips, _desk, _batch]


@pytest.mark.parametrize("publish", PUBLISHERS, ids=lambda each: each.__name__)
def test_the_cap_comes_before_the_events(
    publish: Callable[..., object], book: sfumato.Ledger, tmp_path: Path
) -> None:
    """Not even a header is read: the reader would say that there is no such file."""
    with pytest.raises(BudgetRefused):
        publish(
            tmp_path / "nothing.csv", grid="1km", region=SQUARE, out=tmp_path / "out", ledger=book
        )
    assert not book.book().charges
    assert not (tmp_path / "out").exists()


def test_a_unit_without_a_cap_comes_before_the_events(book: sfumato.Ledger, tmp_path: Path) -> None:
    book.add_dataset("village", Cap(epsilon=9, delta=1e-6), Unit.parse("user-day"))
    asked = HOURS | {"dataset": "village", "scheme": "gaussian", "grid": "1km", "region": SQUARE}
    with pytest.raises(UsageError, match="no cap for the unit user-period"):
        sfumato.release(
            tmp_path / "nothing.csv",
            epsilon=1,
            delta=1e-7,
            out=tmp_path / "o",
            ledger=book,
            **asked,
        )


TOWERS = "tower_id,lon,lat\nt1,116.40,39.90\nt2,116.45,39.92\nt3,116.38,39.95\n"
NO_TOWER = "coordinates and no tower, but the places are towers"


@pytest.fixture
def taxis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of text files in the format of T-Drive, and a list of towers beside it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "towers.csv").write_text(TOWERS)
    folder = tmp_path / "taxis"
    folder.mkdir()
    for taxi in range(1, 4):
        (folder / f"{taxi}.txt").write_text(
            f"{taxi},2008-02-02 15:36:08,116.40,39.90\n{taxi},2008-02-02 16:36:08,116.45,39.92\n"
        )
    return folder


def _give_room(book: sfumato.Ledger) -> None:
    for unit in UNITS:
        book.set_cap("town", Cap(epsilon=50, delta=1e-5), Unit.parse(unit).for_cap())


OF_TOWERS = [_release, _stream, _synth, _desk, _batch]


@pytest.mark.parametrize("publish", OF_TOWERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("files", [3, 1, 0])
def test_a_format_of_coordinates_names_no_tower(
    publish: Callable[..., object], book: sfumato.Ledger, taxis: Path, files: int
) -> None:
    """The option alone decides, whether there is a file or none."""
    _give_room(book)
    for path in sorted(taxis.iterdir())[files:]:
        path.unlink()
    before = book.entries()
    with pytest.raises(UsageError, match=NO_TOWER):
        publish(taxis, format="tdrive", towers="towers.csv", out=taxis.parent / "out", ledger=book)
    assert book.entries() == before
    assert not (taxis.parent / "out").exists()


@pytest.mark.parametrize("stated", ["tdrive", None])
@pytest.mark.parametrize("publish", OF_TOWERS, ids=lambda each: each.__name__)
def test_a_format_with_a_clock_of_its_own_takes_no_other(
    publish: Callable[..., object], book: sfumato.Ledger, taxis: Path, stated: str | None
) -> None:
    _give_room(book)
    before = book.entries()
    words = {"format": stated, "events_tz": "Europe/Lisbon", "grid": "2km"}
    words |= {"region": "116.2,39.8,116.6,40.05"}
    with pytest.raises(UsageError, match="on the clock of Asia/Shanghai"):
        publish(taxis, **words, out=taxis.parent / "out", ledger=book)
    assert book.entries() == before
    assert not (taxis.parent / "out").exists()


@pytest.mark.parametrize("kind", ["footers", "headers", "names"])
@pytest.mark.parametrize("publish", OF_TOWERS, ids=lambda each: each.__name__)
def test_all_files_decide_what_they_can_name(
    publish: Callable[..., object], book: sfumato.Ledger, taxis: Path, kind: str
) -> None:
    """Not the first one: one file of three with towers is counted, none is refused."""
    _give_room(book)
    if kind != "names":
        for path in list(taxis.iterdir()):
            path.unlink()
        for name in "abc":
            where = pa.table(
                {"user": ["7"], "time": ["2008-02-02T15:00Z"], "lon": [2.31], "lat": [48.81]}
            )
            if kind == "footers":
                pq.write_table(where, taxis / f"{name}.parquet")
            else:
                (taxis / f"{name}.csv").write_text(
                    "user,time,lon,lat\n7,2008-02-02T15:00Z,2.31,48.81\n"
                )
    with pytest.raises(UsageError, match=NO_TOWER):
        publish(taxis, towers="towers.csv", out=taxis.parent / "out", ledger=book)
    assert not book.book().charges
    (taxis / "z.csv").write_text("user,time,tower\n7,2008-02-02T15:00Z,t1\n")
    if publish in (_release, _desk):  # the others measure for seconds
        publish(taxis, towers="towers.csv", out=taxis.parent / "out", ledger=book)
        assert len(book.book().charges) == 1


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_init_plan_and_a_dry_run_say_it_in_the_same_words(taxis: Path) -> None:
    """They open no file: names and options are enough."""
    flags = ["--towers", "towers.csv", "--epsilon", "1", "--delta", "1e-6"]
    period = ["--from", "2008-02-02", "--to", "2008-02-03", "--tz", "Asia/Shanghai"]
    people = ["--expected-users", "10000", "--dataset", "taxis"]
    asked = {
        "init": ["init", "--yes", "--events", "taxis", *flags, *period, *people],
        "plan": ["plan", "--events", "taxis", *flags, *period, *people[:2], "--no-rehearse"],
        "stated": ["plan", "--format", "geolife", *flags, *period, *people[:2], "--no-rehearse"],
        "dry": ["release", "taxis", "--out", "o", *flags, *period, *people, "--dry-run"],
    }
    for name, arguments in asked.items():
        refused = _run(*arguments).exception
        assert isinstance(refused, UsageError), name
        assert NO_TOWER in str(refused)
    assert not Path("sfumato.toml").exists()
    for path in sorted(taxis.iterdir())[1:]:
        path.unlink()
    assert _run(*asked["plan"]).exit_code == 0  # one file, found: it decides nothing
    assert isinstance(_run(*asked["stated"]).exception, UsageError)


def _partitioned(home: Path, *days: str) -> Path:
    for day in days:
        folder = home / "calls" / f"date={day}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(f"user,time,tower\n7,{day}T15:00:00Z,t1\n")
    return home / "calls"


@pytest.mark.parametrize(
    ("pattern", "possible"),
    [
        ("calls/date=2009-01-*/*.csv", False),
        ("calls/date=2008-02-0[4-9]/*.csv", False),
        ("calls/date=2008-02-*/*.csv", True),
        ("calls/date=2008-02-04/*.csv", True),  # a literal folder lies above what is pointed at
        ("*/date=2008-02-03/*.csv", True),  # the day beside it by another clock
        ("*/date=2008-02-05/*.csv", False),
        ("calls/year=2009/*/*.csv", True),
        ("*/year=2008/month=3/*.csv", False),
        ("*/year=2008/month=2/day=*/*.csv", True),
        ("calls/user=2009-01-*/*.csv", True),  # no day
        ("calls/*.csv", True),
        ("backup/date=2009-01-03/calls.csv", True),
        ("calls", True),
    ],
)
def test_a_pattern_says_of_which_days_its_files_are(pattern: str, possible: bool) -> None:
    from sfumato.io.beforehand import require_possible
    from sfumato.model.time_grid import TimeGrid

    period = TimeGrid.between(date(2008, 2, 2), date(2008, 2, 3), "1h", "Asia/Shanghai").period
    for source in (pattern, Path(pattern), [pattern, pattern]):
        if possible:
            require_possible(source, None, zones=False, period=period)
        else:
            with pytest.raises(UsageError, match="for other days"):
                require_possible(source, None, zones=False, period=period)
    require_possible([pattern, "calls"], None, zones=False, period=period)


@pytest.mark.parametrize("publish", PUBLISHERS, ids=lambda each: each.__name__)
def test_days_that_a_pattern_rules_out_are_refused(
    publish: Callable[..., object], book: sfumato.Ledger, taxis: Path
) -> None:
    _give_room(book)
    _partitioned(taxis.parent, "2009-01-03", "2008-02-02")
    with pytest.raises(UsageError, match="for other days"):
        publish(
            "calls/date=2009-*/*.csv",
            grid="1km",
            region=SQUARE,
            out=taxis.parent / "o",
            ledger=book,
        )
    assert not book.book().charges


@pytest.mark.filterwarnings("ignore:internal")
def test_a_day_on_which_one_person_was_there_decides_nothing(
    book: sfumato.Ledger, taxis: Path
) -> None:
    """The same people with one more, who makes the folder of the only day of the period."""
    _give_room(book)
    for name, days in (("without", ["2009-01-03"]), ("with", ["2009-01-03", "2008-02-02"])):
        calls = _partitioned(taxis.parent / name, *days)
        folder = taxis.parent / name / "out"
        _release(calls, towers="towers.csv", out=folder, name=name, ledger=book)
    assert len(book.book().charges) == 2
