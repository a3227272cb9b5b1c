"""Whatever goes wrong, and when all goes well: the connection and the records are never shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError
from sfumato.io.events import read_events
from sfumato.io.write import sweep

pytestmark = pytest.mark.postgres
WHEN = "timestamptz '2024-03-30 12:00+00'"


def everything_said(error: BaseException | None) -> str:
    """The text of an error, its parts, its chain and its traceback."""
    said = "".join(traceback.format_exception(error)) if error else ""
    while error is not None:
        said += f"{error!r} {error} {error.args} {vars(error)} {getattr(error, '__notes__', '')}"
        assert isinstance(error, SfumatoError)
        error = error.__cause__ or error.__context__
    return said


def wrong(bureau: Any, case: str) -> tuple[str, str]:
    """Prepares what goes wrong; the address, and a word of what should be said."""
    good = bureau.address("events.calls")
    cases: dict[str, tuple[str, str]] = {
        "server down": (good.replace(bureau.host, bureau.host + "-gone"), "no connection"),
        "password": (bureau.address("events.calls", "wrong-Pa55-of-the-clerk"), "refuses the user"),
        "no database": (bureau.address("events.calls", name="bureau_of_calls_no"), "no connection"),
        "no table": (bureau.address("events.none"), "no such table"),
        "no schema": (bureau.address("nowhere.calls"), "no such table"),
        "not permitted": (bureau.address("events.closed"), "no permission"),
        "cut": (bureau.address("events.cut"), "connection was lost"),
        "broken view": (bureau.address("events.broken"), "could not read it to its end"),
        "odd option": (good + "&colour=red", "no connection"),
        "no such host": (good.replace("@/", "@bureau.invalid/").split("?")[0], "no connection"),
    }
    bureau.run(
        f"CREATE TABLE events.calls AS SELECT 'person-' || i AS uid, {WHEN} AS t, 't1' AS tower "
        "FROM generate_series(1, 90000) i",
        "CREATE TABLE events.closed AS SELECT * FROM events.calls LIMIT 1",
        "REVOKE ALL ON events.closed FROM clerk_of_bureau",
        "CREATE VIEW events.cut AS SELECT uid, t, CASE WHEN uid = 'person-60000' THEN "
        "pg_terminate_backend(pg_backend_pid())::text ELSE tower END AS tower FROM events.calls",
        "CREATE VIEW events.broken AS SELECT uid, t, CASE WHEN uid = 'person-60000' THEN "
        "uid::int::text ELSE tower END AS tower FROM events.calls",
    )
    return cases[case]


CASES = (
    *("server down", "password", "no database", "no table", "no schema", "not permitted"),
    *("cut", "broken view", "odd option", "no such host"),
)


@pytest.mark.parametrize("case", CASES)
def test_a_failure_names_the_table_and_nothing_else(
    bureau: Any, case: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    address, word = wrong(bureau, case)
    with pytest.raises(InputError) as caught:
        read_events(address)
    assert word in str(caught.value)
    assert caught.value.remedy
    assert caught.value.__context__ is None
    heard = capfd.readouterr()
    said = everything_said(caught.value) + heard.out + heard.err + caplog.text
    for secret in (*bureau.secrets(), "wrong-", "person-", "bureau.invalid", "COPY ("):
        assert secret not in said


@pytest.mark.parametrize("place", ["before the host", "among the options", "PGPASSWORD"])
def test_a_password_of_odd_letters(
    bureau: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Percent-encoded as libpq has it; a plus stays a plus."""
    odd = "p+w/@#:?&=% x"
    bureau.run(
        f"CREATE TABLE events.calls AS SELECT 'a' AS uid, {WHEN} AS t, 't1' AS tower",
        f"ALTER ROLE clerk_of_bureau PASSWORD '{odd}'",
    )
    written = quote(odd, safe="+")
    address = bureau.address("events.calls", written)
    if place != "before the host":
        address = address.replace(f":{written}@", "@")
    if place == "among the options":
        address += f"&password={written}"
    elif place == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", odd)
    try:
        read_events(address).close()
    finally:
        bureau.run(f"ALTER ROLE clerk_of_bureau PASSWORD '{bureau.secrets()[0]}'")


def test_what_the_server_remarks_is_not_printed(
    bureau: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """A function behind a view may raise a notice with a record in it."""
    bureau.run(
        "CREATE FUNCTION events.loud(text) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE WARNING 'seen %', $1; RETURN $1; END $$",
        f"CREATE VIEW events.calls AS SELECT events.loud('person-1') AS uid, {WHEN} AS t, "
        "'t1' AS tower",
    )
    read_events(bureau.address("events.calls")).close()
    heard = capfd.readouterr()
    assert "person-" not in heard.out + heard.err


def test_a_release_shows_nothing_of_where_it_came_from(bureau: Any, tmp_path: Path) -> None:
    """Every byte it writes, its ledger and all it prints; and the refusals of the command."""
    bureau.run(
        f"CREATE TABLE events.calls AS SELECT 'person-' || i AS uid, {WHEN} AS t, "
        "'t' || i % 3 AS tower FROM generate_series(1, 900) i",
    )
    towers = "tower_id,lon,lat\n" + "".join(f"t{k},2.0{k},48\n" for k in range(3))
    (tmp_path / "towers.csv").write_text(towers)
    ledger = ["--ledger", str(tmp_path / "books" / "ledger.sqlite")]

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, *ledger])
        if isinstance(result.exception, Exception):
            return everything_said(result.exception)
        assert result.exit_code == 0, result.output
        return str(result.output)

    run("ledger", "init", "--dataset", "d", "--cap-epsilon", "1", "--cap-delta", "1e-5")
    flags = ["--towers", str(tmp_path / "towers.csv"), "--from", "2024-03-30", "--to", "2024-03-31"]
    flags += ["--tz", "UTC", "--slot", "6h", "--dataset", "d", "--epsilon", "0.5", "--delta"]
    flags += ["1e-6", "--scheme", "gaussian", "--expected-users", "1000", "--anyway"]
    out = ["--out", str(tmp_path / "out" / "day")]
    told = run("release", bureau.address("events.calls"), *flags, *out, "--json")
    assert '"how": "new"' in told
    told += run("release", bureau.address("events.calls"), *flags, *out)
    assert "Published before" in told
    told += run("ledger", "show")
    bureau.run("INSERT INTO events.calls VALUES ('person-x', '2024-03-30 13:00+00', 't1')")
    refused = run("release", bureau.address("events.calls"), *flags, *out)
    assert "changed" in refused or "differ" in refused
    told += refused
    for file in tmp_path.rglob("*"):
        if file.is_file():
            told += file.read_bytes().decode("latin-1")
    for secret in (*bureau.secrets(), "person-", "postgresql:/"):
        assert secret not in told


SLOW = """
import sys
from sfumato.io.events import read_events
read_events(sys.stdin.readline().strip())
"""


def test_a_run_that_is_killed_leaves_its_rows_to_the_next(
    bureau: Any, scratch: Callable[[], list[str]]
) -> None:
    """Killed while rows are on the disk; the next scratch folder sweeps them away."""
    bureau.run(
        f"CREATE TABLE events.calls AS SELECT 'person-' || i AS uid, {WHEN} AS t, "
        "'t1' AS tower FROM generate_series(1, 400000) i",
        "CREATE VIEW events.slow AS SELECT uid, t, CASE WHEN uid = 'person-399000' THEN "
        "pg_sleep(60)::text ELSE tower END AS tower FROM events.calls",
    )
    home = tempfile.gettempdir()
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdin=subprocess.PIPE,
        env={**os.environ, "TMPDIR": home},
        text=True,
    )
    try:
        assert child.stdin is not None
        child.stdin.write(bureau.address("events.slow") + "\n")
        child.stdin.flush()
        deadline = time.monotonic() + 60
        while not any(os.path.getsize(p) > 1 << 16 for p in scratch() if p.endswith(".parquet")):
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.05)
        sweep()
        assert scratch(), "a living run keeps its rows"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert scratch()
    sweep()
    assert scratch() == []
    bureau.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'clerk%'")
