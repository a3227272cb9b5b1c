"""Read-only SQL over what is published: one SELECT, in a process that can open nothing.

    week.sql("SELECT hour, sum(count) FROM density JOIN slots USING (time_start) GROUP BY ALL")

An engine that runs SQL runs a program of somebody else's, and DuckDB's own manual says that its
settings are no boundary: the operating system is. So there are four fences, each of which would do
against what is known today:

* **What is asked.** The text is parsed before it runs. It must be one SELECT (DESCRIBE, SHOW and
  SUMMARIZE are read as one), name the published tables alone, and call no table function but those
  of `_TABLE_FUNCTIONS`, which make rows from nothing. A WITH takes no name that the engine knows,
  because outside of its query that name would not be its own.
* **The engine.** No access to anything outside, no extension, no search for Python's variables, a
  limit of memory, nothing on disk, a transaction that only reads; the configuration is locked.
* **The process.** A child without the caller's environment, whose limits are set before the text is
  parsed: no further file descriptor (so neither file nor socket can be opened), no byte into any
  file, bounded address space and processor time.
* **The clock.** The child is killed `SECONDS` after it was started, loading included. `interrupt`
  would not do: some functions of DuckDB 2.0 (`range(3000000000)` as a list) do not look at it.

Nothing private is there to be found: the tables are those of the release folder. What is kept from
whoever asks is the machine.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from sfumato.errors import InputError, UsageError

SECONDS = 30.0
"""How long a question may take, from the start of its process to the last byte of its answer. A
child starts in a second; loading a large release may take a few."""
MOST_ROWS = 1_000_000
MOST_BYTES = 1 << 27
"""Of an answer, as Arrow holds it: a million rows of the table and its times are 60 MB. Few rows
can be as large as memory (`repeat('x', 1000000)`), and whoever prints them holds them again."""
_MEMORY = 1 << 29
_ADDRESSES = 4 << 30
"""Libraries alone reserve one gigabyte of addresses; the engine counts most of what it holds."""
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
"""Table functions that look at their arguments alone; every file reader is a table function."""
_REFUSED = frozenset(
    {"current_setting", "getenv", "getvariable", "query", "query_table", "read_blob", "read_text"}
    | {"json_serialize_plan", "json_serialize_sql", "json_deserialize_sql", "setseed"}
    | {"write_log", "sleep_ms", "current_user", "session_user", "version", "txid_current"}
)
"""Scalar functions that say something about the machine, or write."""
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Parts of a query that only read: a WITH may also hold an INSERT or a DELETE."""
_VIEWS = "SELECT view_name FROM duckdb_views()"
_NAME = re.compile(r"\w+")
"""What a WITH may be called: never the path of a file."""
_CONFIG: dict[str, Any] = {"threads": "1", "temp_directory": ""}
_ONLY = "Only one SELECT can be asked: nothing is written, set, attached or loaded."
_CHILD = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from sfumato.published.sql import _answer; _answer()"
)


def run_sql(
    query: str, tables: Mapping[str, pa.Table], tz: str = "UTC", seconds: float = SECONDS
) -> pa.Table:
    """The result of one SELECT over some tables.

    Args:
        query: The SELECT.
        tables: What it may name.
        tz: Clock of times that are shown or cut into days and hours.
        seconds: It is stopped after so long, loading included.

    Returns:
        At most `MOST_ROWS` rows and `MOST_BYTES` bytes.

    Raises:
        UsageError: It is no single SELECT over these tables, or the engine cannot run it; the
            remedy says which tables and columns there are.
        InputError: It takes too long or too much memory, or its answer is too large.
    """
    if not query.strip():
        raise UsageError("The question is empty.", remedy=what_there_is(tables))
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(sys.path)]
    asked = _packed({"query": query, "tz": tz, "seconds": seconds, "names": list(tables)}, tables)
    try:
        done = subprocess.run(
            command,
            input=asked,
            capture_output=True,
            timeout=seconds,
            env={"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
            cwd=os.sep,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_much(seconds) from None
    try:
        said, rest = _unpacked(done.stdout)
    except ValueError:
        raise _too_much(seconds) from None  # killed by its limits, before it could say anything
    if "refused" in said:
        raise UsageError(str(said["refused"]), remedy=what_there_is(tables))
    if "rows" in said:
        raise InputError(
            f"The answer has more than {MOST_ROWS:,} rows.",
            remedy="Ask for sums, or add LIMIT.",
        )
    if "bytes" in said:
        raise InputError(
            f"The answer is larger than {MOST_BYTES >> 20} MB.",
            remedy="Ask for sums or fewer columns, or add LIMIT.",
        )
    if "stopped" in said:
        raise _too_much(seconds)
    return pa.ipc.open_stream(rest).read_all()


def what_there_is(tables: Mapping[str, pa.Table]) -> str:
    """The tables and their columns, in a sentence."""
    listed = "; ".join(f"{name} ({', '.join(one.column_names)})" for name, one in tables.items())
    return f"Ask with one SELECT. There are the tables {listed}."


def _too_much(seconds: float) -> InputError:
    return InputError(
        f"The question took more than {seconds:g} seconds or {_MEMORY >> 20} MB, and was stopped.",
        remedy="Ask for less at once: fewer joins, or sums instead of rows.",
    )


def _packed(facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> bytes:
    """A line of JSON with the sizes of what follows, then every table as an Arrow stream."""
    parts = []
    for table in tables.values():
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        parts.append(sink.getvalue())
    head = json.dumps({**facts, "sizes": [len(part) for part in parts]}).encode()
    return b"".join([head, b"\n", *parts])


def _unpacked(given: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, rest = given.partition(b"\n")
    return json.loads(head), rest


def _answer() -> None:
    """The child: reads the question from its input, writes the answer to its output."""
    import duckdb

    facts, rest = _unpacked(sys.stdin.buffer.read())
    tables = {}
    for name, size in zip(facts["names"], facts["sizes"], strict=True):
        tables[name], rest = pa.ipc.open_stream(rest[:size]).read_all(), rest[size:]
    try:
        with duckdb.connect(":memory:", config=_CONFIG) as engine:
            _load(engine, tables, str(facts["tz"]))
            _shut(float(facts["seconds"]))
            refused = _why_refused(engine, facts["query"], set(tables))
            said: dict[str, Any]
            if refused:
                said, table = {"refused": refused}, None
            else:
                engine.execute("BEGIN TRANSACTION READ ONLY")
                table, said = _bounded(engine.sql(facts["query"]).limit(MOST_ROWS + 1))
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        said, table = {"stopped": True}, None
    except duckdb.Error as error:
        said, table = {"refused": _first_line(error)}, None
    sys.stdout.buffer.write(_packed(said, {} if table is None or said else {"answer": table}))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to be put in order, and little could be opened to do so


def _bounded(asked: Any) -> tuple[pa.Table | None, dict[str, Any]]:
    """The answer batch by batch, and what is too much of it; no more is held than may leave."""
    batches, rows, size = [], 0, 0
    reader = asked.to_arrow_reader(8_192)
    for batch in reader:
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > MOST_ROWS:
            return None, {"rows": rows}
        if size > MOST_BYTES:
            return None, {"bytes": size}
    return pa.Table.from_batches(batches, reader.schema), {}


def _load(engine: Any, tables: Mapping[str, pa.Table], tz: str) -> None:
    """The tables as the engine's own, then everything shut that its settings can shut."""
    for name, table in tables.items():
        engine.register("given", table)
        engine.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
        engine.unregister("given")
    engine.execute("SET TimeZone = ?", [tz])
    engine.execute(
        "SELECT json_serialize_sql('SELECT 1')"
    ).fetchall()  # loads what it needs while it can
    for setting in (
        f"memory_limit = '{_MEMORY >> 20} MiB'",
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "allow_community_extensions = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        engine.execute(f"SET {setting}")


def _shut(seconds: float) -> None:
    """Limits of the process from here on. None of them can be raised again by a question."""
    import resource

    whole = int(seconds) + 1
    for limit, most in (
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_AS, _ADDRESSES),
    ):
        resource.setrlimit(limit, (most, most))


def _why_refused(engine: Any, query: str, tables: set[str]) -> str:
    """What is wrong with a question; empty where nothing is."""
    parsed = json.loads(engine.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0])
    if parsed["error"]:
        if "Only SELECT" in parsed["error_message"]:
            return _ONLY
        return f"The SQL cannot be read: {parsed['error_message'].splitlines()[0]}"
    if len(parsed["statements"]) != 1:
        return "Only one SELECT can be asked at a time."
    nodes = list(_nodes(parsed["statements"]))
    named = {
        str(entry["key"])
        for node in nodes
        if isinstance(node.get("cte_map"), dict)
        for entry in node["cte_map"].get("map", [])
    }
    named |= {str(node["ctename"]) for node in nodes if "ctename" in node}
    # Outside of its own query the name of a WITH is a table, a view or a file of the engine's.
    views = {str(row[0]).lower() for row in engine.execute(_VIEWS).fetchall()}
    for name in sorted(named):
        if name.lower() in views or not _NAME.fullmatch(name):
            return f"A WITH cannot be called {name!r}: take another name, of letters and digits."
    known = {name.lower() for name in (*tables, *named)}
    for node in nodes:
        kind = str(node.get("type"))
        if kind.endswith("_NODE") and kind not in _QUERIES:
            return _ONLY
        if kind == "BASE_TABLE":
            path = (node.get("catalog_name"), node.get("schema_name"))
            name, elsewhere = str(node["table_name"]), set(path) - {"", None, "main", "memory"}
            if name.lower() not in known or elsewhere:
                return f"There is no table {name!r} to ask about."
        elif kind == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name")).lower()
            if name not in _TABLE_FUNCTIONS:
                return f"The function {name} cannot be used: only what was published can be read."
        elif node.get("class") == "FUNCTION":
            name = str(node.get("function_name")).lower()
            if name in _REFUSED or name.startswith(("pragma_", "duckdb_", "pg_", "has_")):
                return f"The function {name} cannot be used: it is not about what was published."
    return ""


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of parsed SQL, however deep, without recursion."""
    todo = [tree]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)


def _first_line(error: Exception) -> str:
    """What the engine says, without the piece of SQL that it repeats."""
    text = str(error).strip().partition("\n")[0].strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
