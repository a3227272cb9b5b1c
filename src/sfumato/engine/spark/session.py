"""A Spark session, the user's own or one of ours that leaves nothing behind, and its errors.

A session that was given is used as it is: its configuration stays, no table or view is made in
it, and it is not stopped. A session of our own runs by Spark's ANSI rules in UTC, says nothing
below fatal in its log and in those of its executors (task failures are logged with their
messages), keeps no event log and no page, and has its scratch files in a folder that only this
user can enter, that goes with the session, and that is swept up by the next run where a run was
killed. While it starts on this machine it says errors and no warnings: it has read nothing yet.

What Spark complains about is passed on without the record that its message may quote. Under ANSI
rules Spark's errors carry the value that could not be read, and a worker's error carries Python's
own message. Neither leaves here: what is kept is the *condition*, Spark's public name for the kind
of error, and whether it is one that the user can mend. pyspark also writes each error that it
passes on to standard error, through loggers of its own, message and all. While work of ours runs
they are silent about it.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.engine.base import BoundBroken
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.files import Damaged, Unreadable
from sfumato.io.write import Scratch
from sfumato.model.extras import optional

_CONDITION = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z0-9_]+)*")
_MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND")
_UNREAD = re.compile(r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER")
_FORBIDDEN = re.compile(r"AccessControlException|AccessDenied|Permission denied")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
WORKER_FAULT = "sfumato worker:"
"""Begins what a worker's function says when it fails: a kind of error and nothing else."""


def condition_of(error: BaseException) -> str:
    """Spark's public name for what went wrong, or the kind of the error."""
    for ask in ("getCondition", "getErrorClass"):
        try:
            condition = getattr(error, ask)()
        except Exception:
            continue
        if isinstance(condition, str) and _CONDITION.fullmatch(condition):
            return condition
    return type(error).__name__


@contextmanager
def without_records(label: str) -> Iterator[None]:
    """Turn an error of Spark or of a worker into one that shows no record."""
    try:
        with warnings.catch_warnings(), _silent():
            # pyspark warns about a pandas that it has not seen; no pandas is used here.
            warnings.simplefilter("ignore", FutureWarning)
            yield
        return
    except (SfumatoError, BoundBroken):
        raise
    except Exception as error:
        raised = _plain(error, label)
    raise raised from None


@contextmanager
def _silent() -> Iterator[None]:
    """pyspark's loggers of errors say nothing of what this thread does."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before 4.0 there were none
        yield
        return
    here = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != here

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)


def _plain(error: Exception, label: str) -> Exception:
    message = str(error)
    condition = condition_of(error)
    if BoundBroken.__name__ in message:
        return BoundBroken("A user counted above the bound; nothing is given.")
    if "No module named 'sfumato" in message or f"{WORKER_FAULT} OtherVersion" in message:
        return UsageError(
            "The cluster's Python workers do not have sfumato, or another version of it.",
            remedy="Install sfumato on the workers, in the version that runs here.",
        )
    if condition.startswith(_MISSING):
        return InputError(
            "there is no such file or table.", file=label, remedy="Check the path or the name."
        )
    if condition.startswith("PARQUET_TYPE_ILLEGAL"):
        return InputError(
            "a column has a type that Spark cannot read, such as a time in nanoseconds.",
            file=label,
            remedy="Write times in microseconds, or count on one machine.",
        )
    if _UNREAD.search(condition) or _UNREAD.search(message):
        if _FORBIDDEN.search(message):
            return Unreadable(
                "no permission to read it.", file=label, remedy="Change its owner or mode."
            )
        return Damaged(
            "a file is damaged or cut short.", file=label, remedy="Copy or write it again."
        )
    fault = re.search(WORKER_FAULT + r" (\w+)", message)
    kind = f"{condition}, {fault.group(1)}" if fault else condition
    return InputError(
        f"the events could not be read ({kind}).",
        file=label,
        remedy="Check that they are complete and that the cluster is well; run again to resume.",
    )


def guarded(work: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """A worker's function whose errors say their kind and nothing else.

    Spark writes a worker's error into its logs, and Python's messages may quote a value. A
    worker with another version of sfumato might count otherwise, so it counts nothing.
    """
    version = __version__

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            if installed() != version:
                raise OtherVersion
            yield from work(batches)
            return
        except GeneratorExit:
            raise
        except Exception as error:
            kind = type(error).__name__
        raise RuntimeError(f"{WORKER_FAULT} {kind}")

    return run


class OtherVersion(Exception):
    """The worker's sfumato is not the driver's."""


def installed() -> str:
    """The version of sfumato where this runs."""
    return __version__


_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_OURS = {
    "spark.app.name": "sfumato",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    _ROWS: "32768",
    "spark.sfumato.session": "own",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "FATAL",
    "spark.executor.syncLogLevel.enabled": "true",
}

OPENING = 1 << 17
"""Bytes of text that are read in the time in which Spark opens a file."""
_NEAR = {
    # Files of this machine are listed by the driver: a job with a task for each of ten thousand
    # paths takes minutes, and looking at them here a second.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(1 << 20),
    # Opening one costs what reading so many bytes does: small files share a task by their size.
    "spark.sql.files.openCostInBytes": str(OPENING),
    # Read when Java starts, before any setting of Spark's; what the user gives Java comes after it.
    "spark.driver.defaultJavaOptions": (
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    ),
}
"""What a session of ours on this machine runs with, where files are near."""

_SHORT = {
    # Java's best code and code made for a query pay off after minutes of work, not before.
    "spark.driver.extraJavaOptions": (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
    ),
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Sums of little: one task, and nothing to adapt to.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""What a session of ours on this machine runs with where there is little to read: starting and
compiling would cost more than the work. Any of it that the user has set stays as he set it."""
_SET_UP = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_REMOTE"),
    *("SPARK_API_MODE", "PYSPARK_GATEWAY_PORT"),
)
_JAVA_SET_UP = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def is_here(master: str) -> bool:
    """Whether the workers are threads of the process on this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def settings_for(master: str | None, given: Mapping[str, str], short: bool) -> dict[str, str]:
    """Settings of a session of ours; what the user gives stands above all of them."""
    # Where Spark or Java is set up, ours would stand above a setting in a file that we do not read.
    alone = not any(name in os.environ for name in (*_SET_UP, *_JAVA_SET_UP))
    here = master is None or is_here(master)
    near = _NEAR if here and alone else {}
    return {**_OURS, **near, **(_SHORT if short and here and alone else {}), **given}


@contextmanager
def unmeasured(session: Any) -> Iterator[None]:
    """Batches on their way to workers are cut by their number of rows alone.

    Spark works out the bytes of a batch again for every row that it adds, a quarter of all CPU
    time of a count. Only in a session of ours, where nobody has set what a batch may hold.
    """
    conf = session.conf
    is_ours = conf.get("spark.sfumato.session", None) and conf.get(_ROWS, None) == _OURS[_ROWS]
    if not is_ours or conf.get(_BYTES, None) is not None:
        yield
        return
    conf.set(_BYTES, (1 << 31) - 1)  # this number alone means that nothing is measured
    try:
        yield
    finally:
        conf.unset(_BYTES)


def _builder() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns about pandas, which is not used
        return optional("pyspark.sql", "The Spark engine").SparkSession


def open_session(
    master: str | None, settings: Mapping[str, str] | None = None, *, short: bool = False
) -> tuple[Any, ExitStack]:
    """A session and what closes it: an active one is borrowed, any other is ours to stop.

    `master` as Spark writes it (`local[2]`, `yarn`, `spark://…`), or `sc://…` for Spark Connect;
    `None` takes the active session, or what the environment is configured for. `short`: there is
    little to read, so that a session of ours on this machine had better start fast.
    """
    sessions = _builder()
    closing = ExitStack()
    active = sessions.getActiveSession()
    if active is not None and master is None:
        if settings:
            raise UsageError(
                "A Spark session runs in this process already, with its own settings.",
                remedy="Leave Spark's settings out to use it, or stop it first.",
            )
        return active, closing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if master is not None and master.startswith("sc://"):
                remote = sessions.builder.remote(master)
                for key, value in (settings or {}).items():
                    remote = remote.config(key, value)
                session = remote.create()
                closing.callback(session.stop)
                return session, closing
            if active is not None:
                raise UsageError(
                    "A Spark session runs in this process already.",
                    remedy="Leave the master out to use it, or stop it first.",
                )
            builder = sessions.builder
            if master is not None:
                builder = builder.master(master)
            if master is None or master.startswith("local"):
                # Workers on this machine run the Python that runs here, not the first on the path.
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                builder = builder.config("spark.local.dir", closing.enter_context(Scratch()))
            chosen = settings_for(master, settings or {}, short)
            for key, value in chosen.items():
                builder = builder.config(key, value)
            started = _java() is None
            if started and chosen.keys() >= _NEAR.keys():
                _start_java(chosen)
            session = builder.getOrCreate()
    except UsageError:
        closing.close()
        raise
    except Exception as error:
        closing.close()
        raise UsageError(
            f"Spark could not be started ({condition_of(error)}).",
            remedy="Check the master's address, and that Java 17 or later is installed.",
        ) from None
    if started:
        closing.callback(_end_java)
    closing.callback(session.stop)
    return session, closing


def _java() -> Any:
    """The Java process that pyspark talks to, if one runs."""
    from pyspark import SparkContext

    return SparkContext._gateway


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java as pyspark does, without its warning about a module that Spark lets it use.

    No setting of Java's keeps that one in. Whatever else it says on standard error is passed on.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAll(list(settings.items()))
    reading, writing = os.pipe()
    passing = threading.Thread(target=_pass_on, args=(reading,), daemon=True)
    passing.start()
    try:
        gateway = launch_gateway(conf, {"stderr": writing})
    except BaseException:
        os.close(writing)
        passing.join(timeout=5)  # why it did not start
        raise
    os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _pass_on(reading: int) -> None:
    with open(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(b"WARNING: "):
                with suppress(OSError):  # goes on reading: Java waits where a pipe is full
                    os.write(2, line)


def _end_java() -> None:
    """End the Java process that was started for a session of ours.

    It remembers its scratch folder for life; a later session in it would look for files in a
    folder that is gone. A Java process that ran before is somebody else's and goes on.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # it waits for the end of its input
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
