"""A Spark session: the user's own, or one of ours that leaves nothing behind.

A session that was given is used as it is: its configuration stays, no table or view is made in
it, and it is not stopped. A session of our own runs by Spark's ANSI rules in UTC, says nothing
below fatal in its log and in those of its executors (task failures are logged with their
messages), keeps no event log and no page, and has its scratch files in a folder that only this
user can enter, that goes with the session, and that is swept up by the next run where a run was
killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from sfumato.engine.spark.errors import condition_of
from sfumato.io.scratch import Scratch
from sfumato.model.errors import UsageError

_OURS = {
    "spark.app.name": "sfumato",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "FATAL",
    "spark.executor.syncLogLevel.enabled": "true",
}


def is_spark_frame(value: object) -> bool:
    """True for a Spark DataFrame, classic or Connect; pyspark is not imported to tell."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"
        for kind in type(value).__mro__
    )


def _builder() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyspark warns about pandas, which is not used
            from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            "The Spark engine needs pyspark.",
            remedy="Install it with pip install 'sfumato[spark]'.",
        ) from None
    return SparkSession


def open_session(
    master: str | None, settings: Mapping[str, str] | None = None
) -> tuple[Any, ExitStack]:
    """A session and what closes it: an active one is borrowed, any other is ours to stop.

    `master` as Spark writes it (`local[2]`, `yarn`, `spark://…`), or `sc://…` for Spark Connect;
    `None` takes the active session, or what the environment is configured for.
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
            for key, value in {**_OURS, **(settings or {})}.items():
                builder = builder.config(key, value)
            started = _java() is None
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
