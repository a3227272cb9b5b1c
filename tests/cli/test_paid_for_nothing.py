"""Nothing is charged that cannot work: refused from options, schemas and the ledger alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sfumato
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
