"""Makes the same small release, or answers the same questions, and is killed where it is told to.

Reads one JSON command a line and answers with one. Starting Python and loading compiled code
takes seconds, so this process does it once and forks for every run. A run is killed with
SIGKILL after a number of seconds, or just before or after the n-th call with which it
touches the world outside: a write, a sync, a rename, a lock, a statement to the database.
The points are found with Python's profiler, so the code under test knows nothing of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from sfumato.density.publish import release
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.queries.desk import Desk
from sfumato.queries.query import query

DURABLE = frozenset(
    ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "commit", "flock", "chmod")
)
"""Calls that leave a lasting mark: the instants between them are where order matters."""
CALLS = DURABLE | {
    *("open", "write", "writelines", "flush", "close", "read", "remove", "scandir", "listdir"),
    *("stat", "connect", "execute", "fetchall", "rollback"),
}
"""Everything a release does to the world: to files, folders, locks and the database."""
OUTSIDE = {"posix", "fcntl", "io", "_io", "sqlite3"}
"""Modules whose functions and objects are the world: `str.replace` is not."""
START = np.datetime64("2024-03-04T00:00:00", "us").astype(np.int64)

TOWERS = Places.of(
    PlaceKind.TOWERS,
    [f"t{i}" for i in range(4)],
    [shapely.Point(2 + i / 100, 48) for i in range(4)],
)


def events() -> pa.Table:
    rng = np.random.default_rng(7)
    instants = START + rng.integers(0, 86_400_000_000, 600)
    return pa.table(
        {
            "user_id": rng.integers(0, 60, 600),
            "timestamp": pa.array(instants, pa.timestamp("us", tz="UTC")),
            "cell_id": [f"t{i}" for i in rng.integers(0, 4, 600)],
        }
    )


def make(ledger: str, key: str, out: str, keep_key: bool = False) -> str:
    """The release under test."""
    book = Ledger(ledger, key=key)
    return release(
        events(),
        towers=TOWERS,
        start="2024-03-04",
        end="2024-03-05",
        slot="6h",
        tz="UTC",
        dataset="city",
        epsilon=0.5,
        delta=1e-6,
        expected_users=1000,
        scheme="gaussian",
        out=out,
        ledger=book,
        keep_key=keep_key,
        anyway=True,  # so few people are of no use to anybody else
    ).how


DESK: dict[str, Any] = {
    "towers": TOWERS,
    "start": "2024-03-04",
    "end": "2024-03-05",
    "slot": "6h",
    "tz": "UTC",
    "dataset": "city",
    "delta": 1e-6,
}
QUESTIONS: list[dict[str, Any]] = [
    {"measure": "visits", "zones": [f"t{k}"], "hours": "6-18"} for k in range(3)
]
RELEASED: list[Path] = []
"""The release that sessions begin with, made once."""


def released(home: Path) -> None:
    """Before the fork: sessions are killed, what they begin with is not."""
    if RELEASED:
        return
    book = Ledger(home / "released.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=2.0, delta=1e-5))
    given = {**DESK, "epsilon": 2.0, "expected_users": 60, "anyway": True, "ledger": book}
    release(events(), out=home / "released", **given)
    RELEASED.append(home / "released")


def ask(entry: str, book: Ledger) -> dict[str, Any]:
    """The questions under test: how they were answered, and the numbers."""
    if entry == "session":
        with Desk(events(), ledger=book, release=RELEASED[0], **DESK) as desk:
            sitting = desk.session("study", epsilon=0.4, clip=2, updates=3, threshold=0)
            # Its n-th run asks what the n-th turn was about, whoever was killed in it.
            while len(sitting.turns) < len(QUESTIONS):
                sitting.ask(QUESTIONS[len(sitting.turns)])
            sitting.close()
            return {"how": "session", "values": [turn.answer for turn in sitting.turns]}
    many: dict[str, Any] = {"together": entry, "epsilon": 0.4} if entry != "question" else {}
    asked = QUESTIONS if many else QUESTIONS[0] | {"want": {"epsilon": 0.4}}
    found = query(events(), asked, ledger=book, **DESK, **many).answers
    return {"how": found[0].how, "values": [one.value for one in found]}


def made(command: dict[str, Any]) -> dict[str, Any]:
    """What the command asks for: a release, if nothing is said."""
    if "entry" in command:
        return ask(command["entry"], Ledger(command["ledger"], key=command["key"]))
    keep = command.get("keep", False)
    return {"how": make(command["ledger"], command["key"], command["out"], keep)}


class Points:
    """Counts the instants right before and after such calls, and kills the run at one of them."""

    def __init__(self, calls: frozenset[str], fatal: int | None) -> None:
        self.calls = calls
        self.seen = 0
        self.fatal = fatal

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "return"):  # PostgreSQL's driver is written in Python
            name = frame.f_code.co_name if "psycopg" in frame.f_code.co_filename else ""
        else:
            owner = type(getattr(arg, "__self__", None)).__module__
            outside = {owner, getattr(arg, "__module__", None)} & OUTSIDE
            name = arg.__name__ if outside else ""
        if name in self.calls:
            self.seen += 1
            if self.seen == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)


def child(command: dict[str, Any], report: int) -> None:
    tempfile.tempdir = command["tmp"]
    points = Points(DURABLE if command.get("durable") else CALLS, command.get("point"))
    answer: dict[str, Any]
    try:
        if command.get("point") is not None or command.get("count"):
            sys.setprofile(points)
        answer = made(command)
        sys.setprofile(None)
        answer["points"] = points.seen
    except Exception as error:
        sys.setprofile(None)
        answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    os.write(report, json.dumps(answer).encode())
    os._exit(0)


def run(command: dict[str, Any]) -> dict[str, Any]:
    """One run in a process of its own, killed as the command says."""
    read, write = os.pipe()
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        child(command, write)
    os.close(write)
    if command.get("after") is not None:
        deadline = begun + command["after"]
        while time.perf_counter() < deadline:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    found: dict[str, Any] = json.loads(told) if told else {}
    found["killed"] = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    found["seconds"] = time.perf_counter() - begun
    return found


def main() -> None:
    warm = Path(sys.argv[1])
    Ledger(warm / "ledger.sqlite").initialise()
    Ledger(warm / "ledger.sqlite").add_dataset("city", Cap(rho=1.0))
    make(str(warm / "ledger.sqlite"), str(warm / "ledger.key"), str(warm / "out"))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("entry") == "session":
            released(warm)
        print(json.dumps(run(command)), flush=True)


if __name__ == "__main__":
    main()
