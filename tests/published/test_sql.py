"""SQL over released tables: what it answers, and every way out that was tried, fence by fence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from tests.published.asked import MONDAY, daily, hours, published

import sfumato
from sfumato.errors import InputError, UsageError
from sfumato.published import sql

WEEK = hours(MONDAY, MONDAY + timedelta(days=7))
TABLES = {"density": pa.table({"zone_id": ["a", "b"], "count": [1.0, 2.0]})}
ALLOWED = [
    "SELECT zone_id, sum(count) FROM density GROUP BY ALL",
    "FROM density",
    "TABLE density",
    "DESCRIBE density",
    "SHOW TABLES",
    "SUMMARIZE density",
    "VALUES (1), (2)",
    "WITH busy AS (SELECT * FROM density WHERE count > 1) SELECT * FROM busy",
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT * FROM r",
    "SELECT d.zone_id, k FROM main.density d, range(3) AS r(k)",
    "SELECT * FROM density WHERE zone_id IN (SELECT zone_id FROM density WHERE count > 1)",
    "SELECT unnest([1, 2]) UNION ALL SELECT count FROM density",
]
REFUSED = [
    "CREATE TABLE x (i INT)",
    "CREATE OR REPLACE TEMP VIEW density AS SELECT 1",
    "CREATE MACRO m(x) AS x",
    "INSERT INTO density VALUES ('c', 3)",
    "UPDATE density SET count = 0",
    "DELETE FROM density",
    "DROP TABLE density",
    "ALTER TABLE density RENAME TO other",
    "TRUNCATE density",
    "COMMENT ON TABLE density IS 'x'",
    "COPY density TO '/tmp/out.csv'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY density FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/out'",
    "IMPORT DATABASE '/tmp/out'",
    "ATTACH '/tmp/other.db'",
    "ATTACH ':memory:' AS other",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL spatial FROM community",
    "SET memory_limit = '99GB'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SET VARIABLE x = 1",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA table_info('density')",
    "CALL pragma_database_size()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "CREATE SECRET s (TYPE S3)",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT density ON zone_id USING sum(count)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY density TO '/tmp/out.csv'",
    "",
    ";",
    "-- nothing",
    "SELECT FROM WHERE",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_csv('https://example.com/x.csv')",
    "SELECT * FROM READ_CSV_AUTO('/etc/passwd')",
    "SELECT * FROM read_parquet('s3://bucket/x')",
    "SELECT * FROM parquet_scan(['/tmp/x'])",
    "SELECT * FROM parquet_metadata('/tmp/x')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_ndjson_objects('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM arrow_scan(0, 0, 0)",
    "SELECT * FROM pandas_scan(0)",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM 'https://example.com/x.parquet'",
    "SELECT (SELECT content FROM read_text('/etc/passwd')) FROM density",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT * FROM density WHERE zone_id = (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('density')",
    "WITH x AS (INSERT INTO density VALUES ('x', 1) RETURNING *) SELECT * FROM x",
    "WITH x AS MATERIALIZED (DELETE FROM density RETURNING *) SELECT * FROM x",
    "WITH x AS (UPDATE density SET count = 0 RETURNING *) FROM x",
    "MERGE INTO density USING density d ON false WHEN NOT MATCHED THEN INSERT VALUES ('z', 1)",
    "SELECT * FROM (PIVOT density ON zone_id USING sum(count))",
    "DESCRIBE SELECT * FROM read_text('/etc/passwd')",
    "SUMMARIZE '/etc/passwd'",
    "FROM (DESCRIBE SELECT * FROM glob('/*'))",
    "SELECT * FROM density ORDER BY (SELECT count(*) FROM glob('/*'))",
    "SELECT * FROM density LIMIT (SELECT count(*) FROM glob('/*'))",
    "SELECT list_apply(['/'], lambda x: (SELECT count(*) FROM glob(x)))",
    "SELECT json_serialize_plan('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    "SELECT system.main.getenv('HOME')",
    "SELECT 'HOME'.GetEnv()",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM duckdb_settings",
    "SELECT getenv('HOME')",
    "SELECT current_setting('home_directory')",
    "SELECT getvariable('x')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM duckdb_tables, (WITH duckdb_tables AS (SELECT 1) FROM duckdb_tables)",
    "WITH x AS (WITH Duckdb_Databases AS (SELECT 1) SELECT 1) SELECT * FROM duckdb_databases",
    "SELECT * FROM 'x.csv', (WITH \"x.csv\" AS (SELECT 1) SELECT 1)",
    "SELECT * FROM '/etc/passwd', (WITH \"/etc/passwd\" AS (SELECT 1) SELECT 1)",
    "SELECT * FROM sqlite_master, (WITH RECURSIVE sqlite_master AS (SELECT 1) SELECT 1)",
    "SELECT * FROM other.main.density",
    "SELECT * FROM TABLES",
    "SELECT * FROM nothere",
    f"SELECT {'(' * 2000}1{')' * 2000}",
]


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """The engine as the child has it, without the limits of its process."""
    with duckdb.connect(":memory:", config=sql._CONFIG) as opened:
        sql._load(opened, TABLES, "Europe/Paris")
        yield opened


@pytest.mark.parametrize("query", ALLOWED)
def test_what_can_be_asked(engine: duckdb.DuckDBPyConnection, query: str) -> None:
    assert sql._why_refused(engine, query, {"density"}) == ""
    assert engine.sql(query).fetchall()


@pytest.mark.privacy
@pytest.mark.parametrize("query", REFUSED)
def test_what_is_refused_before_it_runs(engine: duckdb.DuckDBPyConnection, query: str) -> None:
    assert sql._why_refused(engine, query, {"density"})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        "COPY density TO '/tmp/sfumato-out.csv'",
        "ATTACH '/tmp/sfumato-out.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '/tmp/x.duckdb_extension'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '99GB'",
        "SET temp_directory = '/tmp'",
        "SET allow_unsigned_extensions = true",
        "SELECT * FROM TABLES",
    ],
)
def test_the_engine_refuses_what_would_get_past_the_parser(
    engine: duckdb.DuckDBPyConnection, query: str
) -> None:
    with pytest.raises(duckdb.Error):
        engine.execute(query).fetchall()


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/hostname')",
        "open('/dev/null', 'w')",
        "__import__('socket').socket()",
        "__import__('subprocess').run(['true'])",
        "__import__('resource').setrlimit(__import__('resource').RLIMIT_CPU, (999, 999))",
    ],
)
def test_the_process_can_open_nothing(attempt: str) -> None:
    """Even if the engine ran foreign code. Root alone may raise its limits again."""
    code = (
        "import socket, subprocess, resource, sys\n"
        "from sfumato.published.sql import _shut\n"
        f"_shut(5)\ntry:\n    {attempt}\nexcept (OSError, ValueError):\n    print('no')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "setrlimit" in attempt and os.geteuid() == 0:
        return
    assert done.stdout.strip() == "no", done.stderr


def test_an_answer_from_the_child(tmp_path: Path) -> None:
    week = published(tmp_path / "week", WEEK, daily(WEEK))
    found = week.sql(
        "SELECT weekday, hour, sum(count) AS visits, min(time_start) AS first FROM density "
        "JOIN slots USING (time_start) WHERE hour = 12 GROUP BY ALL ORDER BY first"
    ).to_pandas()
    assert found["weekday"].tolist()[0] == "monday"
    assert found["first"].dt.hour.tolist() == [12] * 7, "by the release's clock"
    assert found["visits"].sum() == pytest.approx(week.sum(hours=12).value)
    facts = week.sql("SELECT value FROM manifest WHERE fact = 'privacy.epsilon'")
    assert facts.rows == [{"value": "0.3"}]
    with pytest.raises(UsageError, match=r"nothing is written.*density \(zone_id, time_start"):
        sfumato.ask(week, sql="DROP TABLE density")
    with pytest.raises(UsageError, match='"nothing" not found'):
        week.sql("SELECT nothing FROM density")
    with pytest.raises(UsageError, match="no picture"):
        week.sql("SELECT 1").plot()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT len(range(3000000000))",  # does not listen to interrupts
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
    ],
)
def test_bombs_are_stopped(query: str) -> None:
    with pytest.raises(InputError, match="was stopped"):
        sql.run_sql(query, TABLES, seconds=1)


def test_code_message_and_page_name_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def never(*_: object, timeout: float, **__: object) -> None:
        limits.append(timeout)
        raise subprocess.TimeoutExpired("sql", timeout)

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(InputError, match=f"more than {sql.SECONDS:g} seconds or"):
        sql.run_sql("SELECT 1", TABLES)
    assert limits == [sql.SECONDS]
    page = Path(__file__).parents[2] / "docs" / "asking.md"
    assert f"half a gigabyte and {sql.SECONDS:g} seconds" in " ".join(page.read_text().split())


def test_an_answer_of_too_many_rows() -> None:
    with pytest.raises(InputError, match="more than 1,000,000 rows"):
        sql.run_sql("SELECT * FROM range(5000000)", TABLES)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT repeat('x', 1000000) AS word FROM range(500)",  # few rows, half a gigabyte
        "SELECT repeat('x', 140000000) AS word",  # one row
    ],
)
def test_an_answer_of_too_many_bytes(query: str) -> None:
    with pytest.raises(InputError, match=r"larger than 128 MB|was stopped"):
        sql.run_sql(query, TABLES)


def test_a_large_answer_is_whole_and_in_order() -> None:
    found = sql.run_sql("SELECT range AS n FROM range(40000)", TABLES)
    assert found["n"].to_pylist() == list(range(40_000))
    assert sql.run_sql("SELECT range AS n FROM range(0)", TABLES).column_names == ["n"]


def test_the_child_knows_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither variables of Python nor the environment."""
    monkeypatch.setenv("SFUMATO_SECRET", "hush")
    given: dict[str, object] = {}
    run = subprocess.run

    def watched(*arguments: object, **options: object) -> object:
        given.update(options)
        return run(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(sql.subprocess, "run", watched)
    assert sql.run_sql("SELECT 1 AS one", TABLES).to_pylist() == [{"one": 1}]
    assert "SFUMATO_SECRET" not in given["env"]  # type: ignore[operator]
