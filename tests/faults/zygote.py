"""Runs the commands of the fault suite in forked processes, and does to them what it is told to.

Reads one JSON order a line and answers with one. Starting Python and loading compiled code takes
seconds, so this process does it once and forks for every run. A run is killed with SIGKILL after a
number of seconds, or just before or after a call with which it touches the world outside: a write,
a sync, a rename, a lock, a statement to the database. Instead of the run, PostgreSQL's server can
be crashed there, or the clock set. The points are found with Python's profiler, so the code under
test knows nothing of them. A point has a name: the function of ours that makes the call, the
call, and whether it was before or after it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults import commands  # noqa: E402
from tests.server import crash  # noqa: E402

from sfumato.errors import SfumatoError  # noqa: E402
from sfumato.privacy.ledger import remembered  # noqa: E402

CALLS = {
    *("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "commit", "flock", "chmod"),
    *("open", "write", "writelines", "flush", "close", "read", "remove", "scandir", "listdir"),
    *("stat", "connect", "execute", "fetchall", "rollback", "pwrite", "ftruncate"),
}
"""Everything a command does to the world: to files, folders, locks and the database."""
OUTSIDE = {"posix", "fcntl", "io", "_io", "sqlite3"}
"""Modules whose functions and objects are the world: `str.replace` is not."""
OURS = f"{os.sep}sfumato{os.sep}"


class Points:
    """Names the instants right before and after such calls, and acts at one of them."""

    def __init__(self, order: dict[str, Any], act: Callable[[str], None]) -> None:
        self.names: list[str] = []
        self.seen = 0
        self._act, self._point, self._site = act, order.get("point"), order.get("site")
        self._nth = order.get("nth", 1)
        self._naming = self._site is not None or order.get("count", False)

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "return"):  # PostgreSQL's driver is written in Python
            name = frame.f_code.co_name if "psycopg" in frame.f_code.co_filename else ""
        else:
            owner = type(getattr(arg, "__self__", None)).__module__
            outside = {owner, getattr(arg, "__module__", None)} & OUTSIDE
            name = arg.__name__ if outside else ""
        if name not in CALLS:
            return
        self.seen += 1
        if self._naming:
            self.names.append(_named(frame, name, event))
            if self.names[-1] == self._site:
                self._nth -= 1
                if self._nth == 0:
                    self._act(self._site)
        elif self.seen == self._point:
            self._act(_named(frame, name, event))


def _named(frame: FrameType | None, call: str, event: str) -> str:
    while frame is not None and OURS not in frame.f_code.co_filename:
        frame = frame.f_back
    when = "before" if event.endswith("call") else "after"
    if frame is None:
        return f"{when} {call}"
    code = frame.f_code
    return f"{code.co_filename.rsplit(OURS, 1)[1]} {code.co_name}: {when} {call}"


def _set_clock(shift: float) -> None:
    """From here on every clock of the process is off by so many seconds."""
    commands.SHIFT[0] = shift
    if time.time is _time:  # a command may keep a clock of its own, which knows the shift
        time.time = lambda: _time() + commands.SHIFT[0]
        remembered.datetime = _Shifted  # type: ignore[misc]


_time = time.time


class _Shifted(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(time.time(), tz)


def _child(order: dict[str, Any], report: int) -> None:
    tempfile.tempdir = order["tmp"]

    def tell(what: dict[str, Any]) -> None:
        os.write(report, json.dumps(what).encode() + b"\n")

    def act(site: str) -> None:
        tell({"site": site})
        if "crash" in order:
            crash(*order["crash"])
        elif "jump" in order:
            _set_clock(order["jump"])
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    points = Points(order, act)
    try:
        if "clock" in order:
            _set_clock(order["clock"])
        if "most_bytes" in order:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["most_bytes"], hard))
        if {"point", "site", "count"} & order.keys():
            sys.setprofile(points)
        answer = commands.COMMANDS[order.get("entry", "release")].run(order)
        sys.setprofile(None)
        answer |= {"points": points.seen, "names": points.names if order.get("count") else []}
    except BaseException as error:
        sys.setprofile(None)
        answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answer |= {"ours": isinstance(error, SfumatoError), "points": points.seen}
        answer["code"] = getattr(error, "exit_code", None)
    tell(answer)
    os._exit(0)


def _forked(order: dict[str, Any]) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(order, write)
    os.close(write)
    return pid, read


def _told(pid: int, pipe: int) -> dict[str, Any]:
    with os.fdopen(pipe, "rb") as file:
        lines = file.read().splitlines()
    _, status = os.waitpid(pid, 0)
    found: dict[str, Any] = {}
    for line in lines:
        found |= json.loads(line)
    found["killed"] = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return found


def run(order: dict[str, Any]) -> dict[str, Any]:
    """One run in a process of its own, struck as the order says."""
    begun = time.perf_counter()
    pid, pipe = _forked(order)
    if order.get("after") is not None:
        _wait(pid, begun + order["after"])
        if "crash" in order:
            crash(*order["crash"])
        else:
            os.kill(pid, signal.SIGKILL)
    return _told(pid, pipe) | {"seconds": time.perf_counter() - begun}


def _wait(pid: int, until: float) -> None:
    while time.perf_counter() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.0005)


def herd(orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of them at once."""
    running = [_forked(order) for order in orders]
    return [_told(pid, pipe) for pid, pipe in running]


def main() -> None:
    commands.warmed(Path(sys.argv[1]))
    gc.freeze()  # collections in children would copy the parent's pages
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order is None:  # what all runs took so far, this process with them
            print(sum(os.times()[:4]), flush=True)
            continue
        print(json.dumps(herd(order) if isinstance(order, list) else run(order)), flush=True)


if __name__ == "__main__":
    main()
