"""Where arithmetic fails all the same: what was paid for is published, wide and with a remark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.density import publish as releases
from sfumato.density.bayes import scheme as bayes
from sfumato.density.registry import SCHEMES
from sfumato.errors import SfumatoError
from sfumato.model import matrices
from sfumato.model.time_grid import Calendar
from sfumato.privacy import last_resort
from sfumato.privacy.events import Unit
from sfumato.privacy.last_resort import REMARK, HearingWall, refined, uses
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.release import Release
from sfumato.queries import together
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.registry import SCHEMES as STREAMS
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter
from sfumato.streams.schemes.rhythm import gaussian_process
from sfumato.streams.surely import Surely
from sfumato.synthesis import folder
from sfumato.synthesis import publish as synthesis
from sfumato_lab.queries import mwem

USERS = 300
PERIOD: dict[str, Any] = {
    "start": "2024-03-04",
    "end": "2024-03-05",
    "tz": "UTC",
    "dataset": "d",
    "epsilon": 4.0,
    "delta": 1e-6,
    "expected_users": USERS,
    "anyway": True,
}
ARITHMETIC = (
    np.linalg.LinAlgError("planted"),
    FloatingPointError("planted"),
    ZeroDivisionError("planted"),
    OverflowError("planted"),
    ValueError("array must not contain infs or NaNs"),
)
OTHERS = (
    MemoryError(),
    OSError(28, "No space left on device"),
    KeyError("planted"),
    TypeError("planted"),
    AssertionError("planted"),
    ValueError("planted"),
    KeyboardInterrupt(),
)


@pytest.fixture(autouse=True)
def nobody_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No uses so far; and no forecast, which rehearses the same arithmetic before the charge."""
    monkeypatch.setattr(releases, "checked_fitness", lambda *_: None)
    monkeypatch.setattr(synthesis, "forecast", lambda *_: None)
    monkeypatch.setattr(folder, "forecast", lambda *_: None)
    last_resort._USES.clear()
    yield
    last_resort._USES.clear()


@pytest.fixture
def town(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Files of a small town, and a ledger with room."""
    rng = np.random.default_rng(5)
    lines = ["user,time,tower"]
    for user in range(USERS):
        for hour in np.flatnonzero(rng.random(24) < 0.2):
            lines.append(f"u{user},2024-03-04T{hour:02d}:05:00Z,t{(user + hour) % 6}")
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    at = "".join(f"t{k},{2.3 + 0.02 * (k % 3)},{48.8 + 0.02 * (k // 3)}\n" for k in range(6))
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\n" + at)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    cap = Cap(epsilon=1e6, delta=1e-2)
    ledger.add_dataset("d", cap)
    for unit in ("user-day", "w-event:6h"):
        ledger.add_dataset("d", cap, unit=Unit.parse(unit))
    given = {
        "towers": tmp_path / "towers.csv",
        "column": {"user": "user", "time": "time"},
        "ledger": ledger,
        "out": tmp_path / "out",
    }

    def words(**more: Any) -> dict[str, Any]:
        return {**PERIOD, **given, **more, "events": tmp_path / "events.csv"}

    return words


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def raised(*_: Any, **__: Any) -> NoReturn:
        raise error

    return raised


def release(words: dict[str, Any]) -> Release:
    events = words.pop("events")
    return sfumato.release(events, **words)


def holds(made: Release) -> None:
    """A true folder that says what happened, where it is read."""
    words = ["ledger", "verify", "--ledger", str(made.folder.parent / "ledger.sqlite")]
    found = CliRunner().invoke(app, [*words, "--manifests", str(made.folder.parent)])
    assert found.exit_code == 0, found.output
    read = sfumato.read_release(made.folder)
    assert any(REMARK in line for line in read.manifest.caveats)
    assert REMARK[:60] in (made.folder / "index.html").read_text()
    assert np.isfinite(read.values).all()


@pytest.mark.parametrize("name", SCHEMES)
def test_a_release_whose_arithmetic_fails_is_published_wide(
    name: str, town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[type(SCHEMES[name]).__module__]
    monkeypatch.setattr(module, "rounded", raising(ARITHMETIC[0]))
    words = town(scheme=name)
    ledger: Ledger = words["ledger"]
    made = release(words)
    assert uses() == {"release": 1}
    holds(made)
    assert made.lower is not None
    assert made.upper is not None
    assert (made.lower == 0).all()
    assert (made.upper >= 3 * USERS).all()
    assert made.values.sum() > 0
    (charge,) = ledger.book().charges.values()
    assert charge.status.value == "committed"


def test_arithmetic_between_two_measurements(
    town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ladder cannot be read, so places, slots and the matrix were never measured."""
    monkeypatch.setattr(bayes, "read_ladder", raising(ZeroDivisionError("planted")))
    made = release(town())
    assert uses() == {"release": 1}
    holds(made)
    assert sfumato.read_release(made.folder).posterior is None


@pytest.mark.parametrize("error", ARITHMETIC, ids=lambda error: type(error).__name__)
def test_any_arithmetic_is_taken(error: BaseException) -> None:
    assert refined("release", raising(error), lambda: 7) == 7
    assert uses() == {"release": 1}


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
def test_nothing_else_is_taken(error: BaseException) -> None:
    with pytest.raises(type(error)):
        refined("release", raising(error), lambda: 7)
    assert not uses()


def test_memory_that_is_gone_stops_and_is_taken_up_again(
    town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(bayes, "read_ladder", raising(MemoryError()))
        with pytest.raises(MemoryError):
            release(town())
    assert not uses()
    words = town()
    made = release(words)
    assert made.how == "resumed"
    assert len(words["ledger"].book().charges) == 1


def test_a_full_disk_stops_and_is_taken_up_again(
    town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(bayes, "read_ladder", raising(OSError(28, "No space left on device")))
        with pytest.raises(SfumatoError, match="not paid twice"):
            release(town())
    assert release(town()).how == "resumed"
    assert not uses()


@pytest.mark.privacy
def test_an_error_that_came_through_counting_is_none_of_it() -> None:
    """Whether it is raised hangs on records, and so would what is published."""
    from sfumato.engine import base

    space = {"__name__": base.__name__, "raised": raising(ZeroDivisionError())}
    exec("def counted(): raised()", space)  # a frame of the engine's
    with pytest.raises(ZeroDivisionError):
        refined("release", space["counted"], lambda: None)
    assert not uses()
    assert refined("release", raising(ZeroDivisionError()), lambda: 7) == 7
    assert uses() == {"release": 1}


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "w-event:5"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on_after_slots_whose_arithmetic_failed(
    name: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = StreamFacts(4, Calendar.regular(18, 6), 2.0, 1e-6, Unit.parse(unit), 1000, 2)
    scheme = stream_scheme(name)
    try:
        plan = scheme.plan(facts)
    except SfumatoError:
        pytest.skip("not for this unit")
    kind, bad = type(scheme.publisher(facts)), {0, 4, 7, 8, 17}
    honest = kind.publish

    def publish(self: Any, slot: int, *rest: Any) -> Any:
        made = honest(self, slot, *rest)
        if slot in bad:
            raise np.linalg.LinAlgError("planted")
        return made

    monkeypatch.setattr(kind, "publish", publish)
    meter = Meter(plan.accounts, facts)
    surely, counts = Surely(scheme, facts), np.full((18, 4), 50, dtype=np.int64)
    for slot in range(18):
        wall = HearingWall(meter, b"k" * 32)
        if scheme.finished:
            for first, stop in windows_to_show(facts, slot, surely.ahead):
                surely.prepare(boxed(counts[first:stop].T, facts, "window"), first, wall)
        made = surely.publish(slot, boxed(counts[slot], facts), wall, meter)
        assert np.isfinite(made.values).all()
        if plan.coverage:
            assert made.lower is not None
            assert made.upper is not None
        if plan.coverage or plan.sums:
            assert made.total is not None
        if slot in bad:
            assert made.total is None or made.total.ends[1] >= 3000
        if slot == 9:  # a stop: taken up again by what was kept
            kept, surely = dict(surely.state()), Surely(scheme, facts)
            surely.restore(kept)
            meter.restore(meter.state())
    assert surely.spread == len(bad)
    assert uses() == {"stream": len(bad)}
    if plan.joint:
        joint = surely.joint()
        assert joint is not None
        assert all(np.isfinite(part).all() for part in joint.arrays(0.9).values())


@pytest.fixture
def no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix has a root, an inverse or axes."""
    for name in ("cholesky", "inv", "solve", "eigh", "eigvalsh", "svd", "slogdet"):
        monkeypatch.setattr(np.linalg, name, raising(np.linalg.LinAlgError("planted")))
    for module in (matrices, gaussian_process):
        monkeypatch.setattr(module, "factor", lambda _: None)


@pytest.mark.usefixtures("no_matrix")
@pytest.mark.parametrize("name", STREAMS)
def test_streams_end_where_no_matrix_can_be_solved(name: str) -> None:
    """The failure comes wherever a scheme is half way."""
    facts = StreamFacts(4, Calendar.regular(18, 6), 2.0, 1e-6, Unit.parse("user-day"), 1000, 2)
    scheme = stream_scheme(name)
    meter, surely = Meter(scheme.plan(facts).accounts, facts), Surely(scheme, facts)
    counts = np.full((18, 4), 250, dtype=np.int64)
    for slot in range(18):
        wall = HearingWall(meter, b"k" * 32)
        if scheme.finished:
            for first, stop in windows_to_show(facts, slot, surely.ahead):
                surely.prepare(boxed(counts[first:stop].T, facts, "window"), first, wall)
        made = surely.publish(slot, boxed(counts[slot], facts), wall, meter)
        assert np.isfinite(made.values).all()
        surely.state()
    surely.kept()
    assert (surely.spread > 0) == (name in ("comb", "rhythm", "smoother", "profile"))


@pytest.mark.usefixtures("no_matrix")
def test_a_release_ends_where_no_matrix_can_be_solved(town: Callable[..., dict[str, Any]]) -> None:
    made = release(town())
    assert uses() == {"release": 1}
    holds(made)


@pytest.mark.parametrize("name", ["smoother", "profile", "static-hybrid"])
def test_a_window_that_cannot_be_worked_out_is_spread(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = StreamFacts(4, Calendar.regular(18, 6), 2.0, 1e-6, Unit.parse("user-day"), 1000, 2)
    scheme = stream_scheme(name)
    kind: Any = type(scheme.publisher(facts))
    honest = kind.prepare

    def prepare(self: Any, whole: Any, first: int, wall: Any) -> None:
        honest(self, whole, first, wall)
        if first == 6:
            raise FloatingPointError("planted")

    monkeypatch.setattr(kind, "prepare", prepare)
    meter = Meter(scheme.plan(facts).accounts, facts)
    surely, counts = Surely(scheme, facts), np.full((18, 4), 50, dtype=np.int64)
    for slot in range(18):
        wall = HearingWall(meter, b"k" * 32)
        for first, stop in windows_to_show(facts, slot, surely.ahead):
            surely.prepare(boxed(counts[first:stop].T, facts, "window"), first, wall)
        made = surely.publish(slot, boxed(counts[slot], facts), wall, meter)
        assert np.isfinite(made.values).all()
    assert surely.spread == (6 if surely.ahead == 0 else 18)


@pytest.mark.parametrize("name", ["comb", "smoother"])
def test_a_whole_stream_with_a_failed_slot_is_a_true_folder(
    name: str, town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = town(scheme=name, unit="user-day", slot="4h")
    events = words.pop("events")
    kind, honest = Surely, Surely._spread
    scheme = stream_scheme(name)
    facts = StreamFacts(6, Calendar.regular(6, 6), 4.0, 1e-6, Unit.parse("user-day"), USERS)
    publisher = type(scheme.publisher(facts))
    before = publisher.publish

    def publish(self: Any, slot: int, *rest: Any) -> Any:
        if slot == 3:
            raise np.linalg.LinAlgError("planted")
        return before(self, slot, *rest)

    monkeypatch.setattr(publisher, "publish", publish)
    made = sfumato.stream(events, **words)
    assert made.finished
    assert kind._spread is honest
    assert uses() == {"stream": 1}
    holds(made.release())


@pytest.mark.parametrize("name", ["weeks", "where"])
def test_people_whose_arithmetic_failed_are_spread(
    name: str, town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[type(synthesis.method_named(name)).__module__]
    failing = "fit" if name == "weeks" else "rounded_running"
    monkeypatch.setattr(module, failing, raising(np.linalg.LinAlgError("planted")))
    words = town(method=name, people=50, epsilon=40.0)
    events = words.pop("events")
    made = sfumato.synth(events, **words)
    assert uses() == {"synth": 1}
    holds(made)


@pytest.mark.parametrize("method", ["batch", "mwem"])
def test_answers_whose_arithmetic_failed_are_wide(
    method: str, town: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (together, mwem):
        monkeypatch.setattr(module, "numbers", raising(FloatingPointError("planted")))
    words = town()
    desk = sfumato.Desk(
        words["events"],
        **{key: words[key] for key in ("dataset", "start", "end", "tz", "delta", "ledger")},
        **{key: words[key] for key in ("towers", "column")},
    )
    asked = [{"measure": "visits", "hours": f"{hour}-{hour + 2}"} for hour in (0, 8, 20)]
    for answer in desk.together(asked, epsilon=1.0, method=method):
        assert REMARK in answer.told
        low, high = answer.estimate.ends
        assert low <= 0 <= 2 * answer.value <= high
    assert uses() == {"query": 1}
