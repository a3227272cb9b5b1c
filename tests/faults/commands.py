"""What the fault suite kills: each command on the same small crowd.

A new command that spends is one entry of `COMMANDS`, at the end; the suite does the rest.

A run is told where its ledger, its key and its output are, and takes up whatever an earlier run
left there. It gives back numbers that must be the same whoever was killed (`values`); so must the
files under `out`, and the rows that the ledger has in the end. Caps have room for one charge, so
whoever would pay twice is refused.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import sfumato
from sfumato.density.publish import release
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.events import USER_PERIOD, GaussianEvent
from sfumato.privacy.ledger import Cap, Claim, Ledger, Status
from sfumato.queries.desk import Desk
from sfumato.queries.query import query

Where = Mapping[str, Any]
"""`ledger`, `key`, `out`: addresses and paths as text."""
Answer = dict[str, Any]
START = np.datetime64("2024-03-04T00:00:00", "us").astype(np.int64)
DAY_US = 86_400_000_000
TOWERS = Places.of(
    PlaceKind.TOWERS,
    [f"t{i}" for i in range(4)],
    [shapely.Point(2 + i / 100, 48) for i in range(4)],
)
DAY: dict[str, Any] = {
    "towers": TOWERS,
    "start": "2024-03-04",
    "end": "2024-03-05",
    "slot": "6h",
    "tz": "UTC",
    "dataset": "city",
    "delta": 1e-6,
}
PERIOD_CAP, STREAM_CAP = Cap(epsilon=0.5, delta=1e-6), Cap(epsilon=1.0, delta=1e-6)


@dataclass(frozen=True, slots=True)
class Command:
    """How it is run, what its data set may spend, and what its ledger holds in the end."""

    run: Callable[[Where], Answer]
    cap: Cap | None = PERIOD_CAP
    """None: it makes its ledger itself."""
    unit: str = "user-period"
    rows: Mapping[str, int] = field(default_factory=lambda: {"reserve": 1, "commit": 1})
    grows: bool = False
    """Whether its folder is public, and added to, while it runs."""


def events() -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "user_id": rng.integers(0, 60, 600),
            "timestamp": pa.array(START + rng.integers(0, DAY_US, 600), pa.timestamp("us", "UTC")),
            "cell_id": [f"t{i}" for i in rng.integers(0, 4, 600)],
        }
    )


def book_of(where: Where) -> Ledger:
    return Ledger(where["ledger"], key=where["key"])


def make_release(where: Where) -> Answer:
    """Few people, of no use to anybody else; `keep` keeps the key, `name` is of one among many."""
    done = release(
        events(),
        out=where["out"],
        name=where.get("name"),
        ledger=book_of(where),
        epsilon=0.5,
        expected_users=1000,
        scheme="gaussian",
        keep_key=where.get("keep", False),
        anyway=True,
        **DAY,
    )
    return {"how": done.how}


def _stream(where: Where, source: object, scheme: str, **more: Any) -> Any:
    given = DAY | {"epsilon": 1.0, "unit": "user-day", "expected_users": 60, "scheme": scheme}
    book = book_of(where)
    return sfumato.stream(source, out=where["out"], resume=True, ledger=book, **given | more)


def replay(where: Where) -> Answer:
    """`threshold` keeps private state and a sparse vector run."""
    return {"how": str(_stream(where, events(), "threshold", slot="3h").finished)}


def push(where: Where) -> Answer:
    table, edges = events(), START + np.arange(5) * DAY_US // 4
    instants = table["timestamp"].cast(pa.int64()).to_numpy()
    with _stream(where, None, "comb", clock="feed") as publisher:
        while not publisher.finished:
            slot = publisher.next_slot
            publisher.add(table.filter((instants >= edges[slot]) & (instants < edges[slot + 1])))
            publisher.close(slot, position={"slot": slot})
    return {"how": "pushed"}


def follow(where: Where) -> Answer:
    return {"how": str(_stream(where, INCOMING[0], "rhythm", follow=True).finished)}


def pipe(where: Where) -> Answer:
    lines = [json.dumps(row, default=str) for row in events().to_pylist()]
    lines.append('{"clock": "2024-03-06T00:00:00Z"}')
    fed = io.BytesIO("\n".join(lines).encode())
    return {"how": str(_stream(where, fed, "direct", clock="feed").finished)}


def machine(where: Where) -> Answer:
    """A folder on the machine's clock, on which an hour passes at every look."""
    passed = [0.0]

    def sleep(_seconds: float) -> None:
        passed[0] += 3600

    def now() -> float:
        return float(START) / 1e6 + passed[0] + SHIFT[0]

    with mock.patch("time.sleep", sleep), mock.patch("time.time", now):
        done = _stream(where, INCOMING[1], "direct", follow=True)
    return {"how": str(done.finished)}


SHIFT = [0.0]
"""How far a test has set the clock, in seconds."""
INCOMING: list[Path] = []
"""Folders that are followed, and the release that sessions begin with: made once, never killed."""
RELEASED: list[Path] = []


def prepare(home: Path) -> None:
    for name in ("told", "machine"):
        (home / name).mkdir()
        for part in range(3):
            pq.write_table(events().slice(part * 200, 200), home / name / f"{part}.parquet")
        INCOMING.append(home / name)
    (home / "told" / "CLOCK").write_text("2024-03-06T00:00:00Z")
    book = Ledger(home / "released.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=2.0, delta=1e-5))
    given = {**DAY, "epsilon": 2.0, "expected_users": 60, "anyway": True, "ledger": book}
    release(events(), out=home / "released", **given)
    RELEASED.append(home / "released")


def sanitise(where: Where) -> Answer:
    """With a rolling budget, which is noted in the ledger's database beside its rows."""
    user, step = np.repeat(np.arange(5), 20), np.tile(np.arange(20), 5)
    walkers = pa.table(
        {
            "user": [f"walker-{u}" for u in user],
            "time": pa.array(START + step * 30_000_000, pa.timestamp("us", "UTC")),
            "lon": 2.3 + 0.001 * step + 0.01 * user,
            "lat": 48.8 + 0.01 * user,
        }
    )
    done = sfumato.sanitise(
        walkers,
        out=where["out"],
        dataset="city",
        start="2024-03-04",
        end="2024-03-05",
        expected_noise="100m",
        most_reports=15,
        daily_level="40",
        ledger=book_of(where),
    )
    return {"how": done.how}


def make_people(where: Where) -> Answer:
    """A table and how persons live, measured in one go; the people from a public seed."""
    done = sfumato.synth(
        events(),
        out=where["out"],
        ledger=book_of(where),
        epsilon=0.5,
        expected_users=1000,
        people=50,
        anyway=True,
        **DAY,
    )
    return {"how": done.how}


QUESTIONS: list[dict[str, Any]] = [
    {"measure": "visits", "zones": [f"t{k}"], "hours": "6-18"} for k in range(3)
]


def asked(together: str | None = None) -> Callable[[Where], Answer]:
    def run(where: Where) -> Answer:
        many: dict[str, Any] = {"together": together, "epsilon": 0.4} if together else {}
        what = QUESTIONS if together else QUESTIONS[0] | {"want": {"epsilon": 0.4}}
        found = query(events(), what, ledger=book_of(where), **DAY, **many).answers
        return {"how": found[0].how, "values": [one.value for one in found]}

    return run


def session(where: Where) -> Answer:
    with Desk(events(), ledger=book_of(where), release=RELEASED[0], **DAY) as desk:
        sitting = desk.session("study", epsilon=0.4, clip=2, updates=3, threshold=0)
        # Its n-th run asks what the n-th turn was about, whoever was killed in it.
        while len(sitting.turns) < len(QUESTIONS):
            sitting.ask(QUESTIONS[len(sitting.turns)])
        sitting.close()
        return {"how": "session", "values": [turn.answer for turn in sitting.turns]}


def keep_books(where: Where) -> Answer:
    """Every `sfumato ledger` command that writes, by somebody who first looks what is done."""
    from sfumato.cli.main import app

    at = ("--ledger", where["ledger"], "--ledger-key", where["key"])
    caps = ("--cap-epsilon", "4", "--cap-delta", "1e-5")
    city, book = ("--dataset", "city"), book_of(where)

    def tell(*line: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            app(["ledger", *line, *at], standalone_mode=False)

    def known() -> Any:
        there = book.database.file is None or book.database.file.exists()
        try:
            return book.book() if there else None
        except sfumato.errors.LedgerError as error:
            if "no ledger" in str(error) or "key is not at" in str(error):
                return None
            raise

    less = ("--cap-epsilon", "2", "--cap-delta", "1e-5")
    steps: list[tuple[Callable[[Any], bool], tuple[str, ...]]] = [
        (lambda b: b is not None and "city" in b.caps, ("init", *city, *caps)),
        (lambda b: "suburb" in b.caps, ("init", "--dataset", "suburb", *caps)),
        (lambda b: _cap(b) == 2, ("init", *city, *less, "--replace-cap")),
        (lambda b: "city" in b.allowances, ("allow", "--analyst", "ann", *city, *less)),
        (lambda b: len(b.linked["city"]) == 2, ("link", "city", "suburb")),
    ]
    for done, line in steps:
        if not done(known()):
            tell(*line)
    if not known().charges:
        book.reserve(WEEK)
    tell("abandon", "week", *city)
    Path(where["out"]).parent.mkdir(exist_ok=True)
    tell("export", "--out", f"{where['out']}.ndjson")
    tell("verify")
    rows = [json.loads(row.payload) | {"kind": row.kind} for row in book.entries()]
    told = [{k: v for k, v in row.items() if k not in ("ledger", "key", "release")} for row in rows]
    kept = Path(f"{where['out']}.ndjson").read_text().splitlines()
    return {"how": "kept", "values": [told, len(kept)]}


def _cap(book: Any) -> float:
    return float(book.caps["city"]["user-period"].epsilon)


WEEK = Claim(
    dataset="city",
    name="week",
    unit=USER_PERIOD,
    delta=1e-6,
    period=(int(START), int(START) + 7 * DAY_US),
    events=(("counts", GaussianEvent(l2=1.0, sigma2=Fraction(256), touched=1)),),
    config={"epsilon": 0.3},
    fingerprint="f" * 64,
    out="/nowhere/week",
)

_NOTES = {"reserve": 1, "commit": 1, "note": 2 * len(QUESTIONS)}
_BOOKS = {
    "genesis": 1,
    "dataset": 2,
    "cap": 3,
    "allowance": 1,
    "link": 1,
    "reserve": 1,
    "abandon": 1,
}
COMMANDS: dict[str, Command] = {
    "release": Command(make_release),
    "stream": Command(replay, STREAM_CAP, "user-day", grows=True),
    "stream, pushed": Command(push, STREAM_CAP, "user-day", grows=True),
    "stream, piped": Command(pipe, STREAM_CAP, "user-day", grows=True),
    "stream --follow": Command(follow, STREAM_CAP, "user-day", grows=True),
    "stream --follow, its own clock": Command(machine, STREAM_CAP, "user-day", grows=True),
    "sanitise": Command(sanitise, Cap(epsilon=5.0, delta=0.0), "point:1m"),
    "synth": Command(make_people),
    "query": Command(asked()),
    "query, a batch": Command(asked("batch")),
    "query, MWEM": Command(asked("mwem")),
    "query, a session": Command(session, rows=_NOTES),
    "ledger": Command(keep_books, None, rows=_BOOKS),
}


def prepared(where: Where, command: Command) -> Ledger:
    """Its ledger, with a cap that has room for one."""
    from sfumato.privacy.events import Unit

    book = book_of(where)
    if command.cap is not None:
        book.initialise()
        book.add_dataset("city", command.cap, Unit.parse(command.unit))
    return book


def is_open(where: Where) -> bool:
    """Whether something is reserved there, and neither finished nor abandoned."""
    charges = book_of(where).book().charges.values()
    return any(charge.status is Status.RESERVED for charge in charges)


def warmed(home: Path) -> None:
    """Every command once, so that what is forked has nothing left to compile or import."""
    prepare(home)
    for number, command in enumerate(COMMANDS.values()):
        books = home / f"books-{number}"
        where = {"ledger": f"{books}/b.sqlite", "key": f"{books}/b.key", "out": f"{books}/out/day"}
        prepared(where, command)
        command.run(where)
