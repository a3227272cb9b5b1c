"""`sfumato.stream` from a program: pushed events, slots closed in order and once, a page as of now.

A stream that is pushed to, one that is piped and one that is replayed are the same stream: what
comes in decides the counts, not the way it came.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.streams.stating import use_intervals

import sfumato
from sfumato.errors import InputError, UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger, Status
from sfumato.published.estimate import Estimate
from sfumato.streams.input import Tick
from sfumato.streams.output import Consistency, Steady
from sfumato.streams.run import STOOD_STILL_S, Told, _forward
from sfumato.streams.scheme import Publication

START = datetime(2024, 3, 4, tzinfo=UTC)
ZONES = {"type": "FeatureCollection", "features": [
    {"type": "Feature", "properties": {"zone_id": name, "name": name.upper()},
     "geometry": {"type": "Polygon", "coordinates": [
         [[x, 48.0], [x + 0.1, 48.0], [x + 0.1, 48.1], [x, 48.1], [x, 48.0]]]}}
    for name, x in (("west", 2.0), ("east", 2.1))
]}  # fmt: skip


def event(hour: float, user: object, place: object) -> dict[str, object]:
    return {"user": user, "time": START + timedelta(hours=hour), "place": place}


CROWD = [event(6 * slot + 1, f"u{k}", f"t{k % 3}") for slot in range(4) for k in range(30)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "towers.csv").write_text(
        "tower_id,lon,lat\nt0,2.02,48.05\nt1,2.1,48.05\nt2,2.18,48.05\n"
    )
    (tmp_path / "zones.geojson").write_text(json.dumps(ZONES))
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=40, delta=0.0), Unit.parse("user-day"))
    return tmp_path


@pytest.fixture
def stream(home: Path) -> Callable[..., sfumato.streams.run.Stream]:
    def run(events: object = None, **more: Any) -> Any:
        given = {
            "towers": home / "towers.csv", "start": "2024-03-04", "end": "2024-03-05", "tz": "UTC",
            "slot": "6h", "dataset": "town", "epsilon": 2.0, "scheme": "direct",
            "out": home / "out", "ledger": home / "ledger.sqlite",
        }  # fmt: skip
        return sfumato.stream(events, **(given | more))

    return run


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "stream.ndjson").read_text().splitlines()]


def test_events_are_pushed_and_slots_closed_one_by_one(home: Path, stream: Any) -> None:
    with stream() as publisher:
        assert (publisher.next_slot, publisher.finished) == (0, False)
        publisher.add(CROWD[:30])
        assert publisher.position is None
        told = publisher.close(0, position={"offset": 30})
        assert isinstance(told, Told)
        assert told.sum == sum(lines(home / "out")[0]["counts"])
        assert told.plus_minus is not None
        assert told.plus_minus > 0
        assert told.words.endswith(" of noise")
        lopsided = Estimate(0.0, 0.0, 478.0, 0.9)
        sure = replace(told, made=replace(told.made, total=lopsided))
        assert sure.words == str(lopsided) == "0 (0 to 480, 90 %)"
        assert 0 < told.spent <= 1 == told.spent + told.left
        publisher.add(pd.DataFrame(CROWD[30:60]))
        publisher.add(pa.Table.from_pylist(CROWD[60:]))
        for slot in (1, 2, 3):
            publisher.close(slot)
        assert publisher.finished
    found = publisher.release()
    assert (found.sealed, found.grid.slots) == (True, 4)
    # Epsilon 2 over four slots: noise of scale 2 on three towers with ten people each.
    assert np.abs(found.values - 10).max() < 40
    (charge,) = Ledger(home / "ledger.sqlite").book().charges.values()
    assert charge.status is Status.COMMITTED
    with pytest.raises(UsageError, match="has ended"):
        publisher.add([])


@pytest.mark.privacy
def test_a_slot_is_closed_once_in_order_and_not_before_its_end(home: Path, stream: Any) -> None:
    with stream() as publisher:
        with pytest.raises(UsageError, match="before slot 0"):
            publisher.close(1)
        publisher.close(0)
        before = (home / "out" / "stream.ndjson").read_bytes()
        with pytest.raises(UsageError, match="out already"):
            publisher.close(0)
        assert (home / "out" / "stream.ndjson").read_bytes() == before
    with pytest.raises(UsageError, match="begun before"):
        stream()
    future = stream(start="2124-03-04", end="2124-03-05", out=home / "future", name="future")
    with future, pytest.raises(UsageError, match="not over"):
        future.close(0)
    fed = stream(start="2124-03-04", end="2124-03-05", out=home / "fed", name="fed", clock="feed")
    with fed:
        fed.close(0)
    with pytest.raises(UsageError, match="as a whole"):
        stream(out=home / "mean", name="mean", scheme="mean")


@pytest.mark.privacy
def test_a_push_that_broke_goes_on_with_the_same_numbers(home: Path, stream: Any) -> None:
    """Killed between slots: what was open is sent again, and nothing is drawn twice."""
    first = stream()
    first.add(CROWD)
    first.close(0, position={"offset": 30})
    first.stop()  # what a kill does: the lock goes, the buffer with it
    with stream(resume=True) as publisher:
        assert (publisher.next_slot, publisher.position) == (1, {"offset": 30})
        publisher.add(CROWD)
        assert publisher.internal_counts()["rows_dropped"]["late"] == 30
        for slot in (1, 2, 3):
            publisher.close(slot)
    assert [line["slot"] for line in lines(home / "out")] == [0, 1, 2, 3]
    assert len(Ledger(home / "ledger.sqlite").book().charges) == 1
    assert stream(resume=True).finished


@pytest.mark.privacy
def test_bad_records_are_dropped_one_by_one_and_counted_for_the_holder(
    home: Path, stream: Any
) -> None:
    told: list[Any] = []
    bad = [
        event(1, "a", "nowhere"),
        event(1, "a", None),
        {"user": "a", "time": "yesterday", "place": "t0"},
        {"user": "a", "place": "t0"},
        {"user": object(), "time": START, "place": "t0"},
        "no record",
        event(-5, "a", "t0"),
    ]
    with stream(internal=told.append) as publisher:
        for record in bad:
            publisher.add([record])
        publisher.add(str(home / "gone.csv"))
        publisher.add([event(1, "a", "t0")])
        publisher.close(0)
        counts = publisher.internal_counts()
    assert counts["rows_read"] == len(bad) + 1
    assert sum(counts["rows_dropped"].values()) == len(bad)
    assert counts["files_without_rows"] == 1
    assert told[-1].internal_counts() == counts
    out = "".join(
        p.read_text("utf-8") for p in (home / "out").glob("*.*") if p.suffix != ".parquet"
    )
    assert "nowhere" not in out
    assert "rows_dropped" not in out
    with stream(out=home / "b", name="b") as publisher, pytest.raises(InputError):
        publisher.add(pd.DataFrame({"nobody": [1]}))


@pytest.mark.privacy
def test_the_page_of_a_live_stream_says_as_of_when_and_shows_published_numbers(
    home: Path, stream: Any
) -> None:
    def shown() -> dict[str, Any]:
        text = (home / "out" / "index.html").read_text("utf-8")
        data = text.partition('<script id="data" type="application/json">')[2]
        found: dict[str, Any] = json.loads(data.partition("</script>")[0])["releases"][0]
        return found

    with stream(zones=home / "zones.geojson", border="0") as publisher:
        assert not (home / "out" / "index.html").exists()
        publisher.add(CROWD)
        publisher.close(0)
        first = shown()
        assert first["facts"]["as_of"].startswith("As of 2024-03-04 06:00 UTC")
        publisher.close(1)
        page = shown()
        assert page["facts"]["as_of"].startswith("As of 2024-03-04 12:00 UTC")
        sums = [round(sum(line["counts"]), 2) for line in lines(home / "out")]
        assert page["city"] == pytest.approx(sums, abs=0.02)
        running = sfumato.read_release(home / "out", last=1)
        assert (running.sealed, running.grid.slots, running.geometry is not None) == (
            False,
            1,
            True,
        )
        assert running.values[:, 0].tolist() == lines(home / "out")[1]["counts"]
        assert "index.html shows its last slots" in " ".join(
            (home / "out" / "README.txt").read_text().split()
        )
        publisher.close(2)
        publisher.close(3)
    assert "as_of" not in shown()["facts"]
    assert [p.name for p in (home / "out").iterdir() if p.name.startswith(".")] == []


def test_a_clock_that_runs_backwards_is_refused() -> None:
    at = [Tick(10**15 + seconds * 10**6) for seconds in (0, -STOOD_STILL_S, -STOOD_STILL_S - 1)]
    assert _forward(at[1], at[0]) is at[0], "corrected a little, it stands still"
    with pytest.raises(InputError, match="machine ran backwards by 61 seconds"):
        _forward(at[2], at[0])
    with pytest.raises(InputError, match="feed states ran backwards by 60 seconds"):
        _forward(replace(at[1], stated=True), at[0])


def test_a_feed_that_turns_its_clock_back_stops_and_can_go_on(home: Path, stream: Any) -> None:
    import io

    def fed(*hours: int) -> io.BytesIO:
        said = [{"clock": (START + timedelta(hours=h)).isoformat()} for h in hours]
        return io.BytesIO("".join(json.dumps(line) + "\n" for line in said).encode())

    with pytest.raises(InputError, match="ran backwards by 3600 seconds"):
        stream(fed(0, 7, 6), clock="feed")
    assert [line["slot"] for line in lines(home / "out")] == [0]
    assert stream(fed(0, 6, 24), clock="feed", resume=True).finished
    assert (home / "out" / "index.html").exists()


@pytest.mark.parametrize("consistency", ["none", "nearest"])
def test_a_scheme_that_states_intervals_publishes_them_everywhere(
    home: Path, stream: Any, monkeypatch: pytest.MonkeyPatch, consistency: str
) -> None:
    use_intervals(monkeypatch)
    with stream(consistency=consistency) as publisher:
        publisher.add(CROWD)
        publisher.close(0)
        live = publisher.release()
        assert live.lower is not None
        assert live.median is not None
        assert live.total_interval is not None
        assert live.total_interval.shape == (1, 2)
        assert live.table().column_names[-3:] == ["median", "lower", "upper"]
        for slot in (1, 2, 3):
            publisher.close(slot)
    found = publisher.release()
    assert found.total_interval is not None
    lines_of = lines(home / "out")
    assert found.total_interval.tolist() == [line["total"][1:] for line in lines_of]
    part = pa.parquet.read_table(home / "out" / "slots" / "slot=00000" / "part-0.parquet")
    assert part.column_names == ["zone_id", "count", "median", "lower", "upper"]
    assert found.lower is not None
    assert found.upper is not None
    assert (found.lower <= found.values).all()
    assert (found.values <= found.upper).all()
    assert found.manifest.scheme.interval_coverage == 0.9
    assert found.manifest.scheme.median
    text = " ".join((home / "out" / "README.txt").read_text().split())
    assert "count, median, lower, upper" in text
    assert "90 % of cases" in text
    if consistency == "nearest":
        assert (found.upper == np.rint(found.upper)).all()


def test_what_is_published_again_keeps_its_coins_and_what_changes_is_made_anew() -> None:
    """An estimate that moves while nothing is measured is not the last snapshot repeated."""
    values = np.array([3.4, -2.0, 5.2])
    made = Publication(values, True, 1.0)
    for how in (Consistency.RANDOM, Consistency.NEAREST):
        steady = Steady(how)
        first = steady.made(made, b"1").values
        again = replace(made, fresh=False)
        assert (steady.made(again, b"2").values == first).all()
        moved = steady.made(replace(again, values=values + 10), b"3").values
        assert moved.sum() == pytest.approx((values + 10).sum(), abs=1)
