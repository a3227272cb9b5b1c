"""Publishes the same small stream in forked processes, which the shared killer stops anywhere.

With the address of a topic, the stream is that of its records (`published`): 24 slots.

The killer (calls that touch the world, forks, reports) is the one of the fault tests; only what
is made is different here.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import shapely

from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed

TOWERS = Places.of(
    PlaceKind.TOWERS,
    [f"t{k}" for k in range(4)],
    [shapely.Point(2 + k / 100, 48) for k in range(4)],
)
KILLER = Path(__file__).parents[1] / "faults" / "zygote.py"


def killer() -> Any:
    spec = importlib.util.spec_from_file_location("killer", KILLER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def request(out: str, scheme: str, days: int, cells: int, per_day: int) -> StreamRequest:
    from datetime import date, timedelta

    start = date(2024, 3, 4)
    step = timedelta(days=1) / per_day
    grid = TimeGrid.between(start, start + timedelta(days=days), step, "UTC")
    facts = StreamFacts(
        cells, Calendar.of(grid), 1.0, 0.0, Unit.parse("user-day"), 60 * cells, None
    )
    ids = [f"c{k:05d}" for k in range(cells)]
    squares = [shapely.box(2 + k / 100, 48, 2.01 + k / 100, 48.01) for k in range(cells)]
    places = Places.of(PlaceKind.ZONES, ids, squares)
    return StreamRequest(
        "city",
        "stream",
        stream_scheme(scheme),
        facts,
        grid,
        places.ids,
        Path(out),
        place_kind="zones",
        released=places,
    )


def make(size: tuple[int, int, int], ledger: str, key: str, out: str) -> str:
    """The stream under test; its scheme is the name of the folder it goes to."""
    asked = request(out, Path(out).name, *size)
    cells = size[1]
    with LiveStream(Ledger(ledger, key=key), asked) as live:
        if live.finished:
            return "already"
        begun = live.next_slot
        for slot in range(begun, asked.grid.slots):
            counts = np.random.default_rng([7, slot]).integers(0, 120, cells)
            live.publish(slot, boxed(counts, asked.facts))
        live.close()
    return "resumed" if begun else "new"


def published(events: Any, ledger: str, key: str, out: str, **more: Any) -> str:
    """The stream of a topic's records, or of a pipe's lines; what is late is the broker's to say.

    The stamps that the mock cluster keeps are those of the test's producer.
    """
    from types import SimpleNamespace

    import confluent_kafka

    import sfumato
    from sfumato.streams import kafka

    stamping = {"TIMESTAMP_LOG_APPEND_TIME": confluent_kafka.TIMESTAMP_CREATE_TIME}
    kafka._client = lambda: SimpleNamespace(**vars(confluent_kafka) | stamping)  # type: ignore
    done = sfumato.stream(
        events,
        towers=TOWERS,
        start="2024-03-04",
        end="2024-03-06",
        slot="2h",
        delay="1h",
        tz="UTC",
        dataset="city",
        epsilon=1.0,
        expected_users=60,
        scheme=Path(out).name,
        out=out,
        resume=True,
        ledger=Ledger(ledger, key=key),
        **{"clock": "broker"} | more,
    )
    return "finished" if done.finished else "more"


def main() -> None:
    warm = Path(sys.argv[1])
    if sys.argv[2].startswith("kafka://"):
        serve_topic(warm, sys.argv[2])
    size = (int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    module = killer()
    _publishes(module, lambda *where: make(size, *where))
    for scheme in ("threshold", "rhythm"):
        book = Ledger(warm / scheme / "ledger.sqlite")
        book.initialise()
        book.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
        place = warm / scheme
        make(
            (1, 8, 8), str(place / "ledger.sqlite"), str(place / "ledger.key"), str(place / scheme)
        )
    serve(module)


def _publishes(module: Any, make: Callable[[str, str, str], str]) -> None:
    """The killer's runs are those of a stream."""
    kept = module.commands
    run = lambda where: {"how": make(where["ledger"], where["key"], where["out"])}  # noqa: E731
    kept.COMMANDS["release"] = kept.Command(run)


def serve_topic(warm: Path, address: str) -> None:
    module = killer()
    _publishes(module, lambda *where: published(address, *where))
    book = Ledger(warm / "ledger.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
    # A pipe, since a client's threads would not survive the fork.
    lines = b'{"clock": "2024-03-09T00:00:00Z"}'
    where = (str(warm / "ledger.sqlite"), str(warm / "ledger.key"), str(warm / "threshold"))
    published(io.BytesIO(lines), *where, clock="feed")
    serve(module)


def serve(module: Any) -> NoReturn:
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(module.run(json.loads(line))), flush=True)
    sys.exit()


if __name__ == "__main__":
    main()
