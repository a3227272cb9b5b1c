"""The fixture of the format, made anew where a format changes: python -m tools.fixture [FOLDER].

A ledger with its key and head; `out/whole`, a release that is finished; a release that was killed
after its reservation, with the key that finishes it; a stream that was killed after some slots,
with its state; and `expected`, what both publish when they are finished: their tables as text,
whose numbers are whole steps of noise and the same on every machine. Randomness and clock are
held still as in tools/golden.py, so that the same sources and packages write the same bytes.
Nothing in it is about anybody: the visits are arithmetic.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.golden import hold_still

FIXTURE = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "draft"
HOME = Path("/tmp/sfumato-fixture")
"""Where it is made: reservations name the folder that they were asked for."""
PERIOD = ("--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "Europe/Paris")
COUNTED = (*PERIOD, "--expected-users", "1000", "--scheme")
KILLED = {"reserved": "density.csv", "half": "stream.ndjson"}
"""What was killed, and the table of it that is expected."""


def command(home: Path, out: Path, name: str) -> list[str]:
    """The command that makes one of them, on inputs and with a ledger in `home`."""
    verb = ["stream" if name == "half" else "release", str(home / "inputs/visits.csv")]
    about = ["--towers", str(home / "inputs/towers.csv"), "--dataset", "town", "--name", name]
    where = ["--out", str(out / name), "--ledger", str(home / "books/ledger.sqlite"), "--quiet"]
    loss = ["--unit", "user-day", "--epsilon", "1"] if name == "half" else ["--epsilon", "1"]
    if name == "half":
        return [*verb, *about, *COUNTED, "sample", *loss, *where]
    whole = ["bayes", "--anyway"]  # which keeps measurements and states a posterior
    kind = whole if name == "whole" else ["laplace", "--bound", "sample:2", "--anyway"]
    return [*verb, *about, *COUNTED, *kind, *loss, "--delta", "1e-6", *where]


def inputs(folder: Path) -> None:
    """Four towers, and 300 visits of 60 people in a day."""
    folder.mkdir(parents=True)
    towers = [f"t{n},{2.3 + n / 100:.2f},48.85" for n in range(4)]
    (folder / "towers.csv").write_text("\n".join(["cell_id,lon,lat", *towers, ""]))
    visits = [
        f"u{n % 60},2024-03-04T{(7 * n) % 24:02d}:{(11 * n) % 60:02d}:00Z,t{(n * n) % 4}"
        for n in range(300)
    ]
    (folder / "visits.csv").write_text("\n".join(["user_id,timestamp,cell_id", *visits, ""]))


def run(arguments: list[str]) -> None:
    from sfumato.cli.main import app

    app(arguments, standalone_mode=False)


def killed(arguments: list[str], last: int = 2) -> None:
    """Run a command in a process that is killed: after a reservation, before slot `last`."""
    child = os.fork()
    if child == 0:
        from sfumato.privacy import transaction
        from sfumato.streams.live import LiveStream

        publish = LiveStream.publish

        def die(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def until(stream: LiveStream, slot: int, *raw: Any) -> Any:
            return die() if slot == last else publish(stream, slot, *raw)

        transaction._write = die  # type: ignore[assignment]
        LiveStream.publish = until  # type: ignore[method-assign]
        run(arguments)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"It was not killed: {' '.join(arguments)}")


def make(folder: Path, begin: Callable[[str], None]) -> None:
    """Make it all in `HOME` and put it in place of a folder."""
    shutil.rmtree(HOME, ignore_errors=True)
    inputs(HOME / "inputs")
    for unit in ("user-period", "user-day"):
        caps = ("--unit", unit, "--cap-epsilon", "100", "--cap-delta", "1e-3")
        begin(unit)
        where = ("--ledger", str(HOME / "books/ledger.sqlite"))
        run(["ledger", "init", "--dataset", "town", *caps, *where])
    begin("whole")
    run(command(HOME, HOME / "out", "whole"))
    for name in KILLED:
        begin(name)
        killed(command(HOME, HOME / "out", name))
    base = sqlite3.connect(HOME / "books/ledger.sqlite")
    base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    base.execute("PRAGMA journal_mode=DELETE")
    base.execute("VACUUM")
    base.close()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HOME, folder)
    (folder / "expected").mkdir()
    for name, table in KILLED.items():
        resume = ["--resume"] if name == "half" else []
        run([*command(HOME, HOME / "out", name), *resume])
        shutil.copy(HOME / "out" / name / table, folder / "expected" / f"{name}-{table}")
    sizes = {p.relative_to(folder).as_posix(): p.stat().st_size for p in folder.rglob("*.*")}
    print(json.dumps({"files": len(sizes), "bytes": sum(sizes.values())}))
    shutil.rmtree(HOME)


if __name__ == "__main__":
    source = hold_still()
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURE, source.begin)
