"""Real Spark sessions, one at a time: `local[2]`, and a cluster of two worker processes here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import pytest

from sfumato.engine.spark.session import open_session

QUICK = {
    # Small tests: starting and compiling costs more than running.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.executor.memory": "512m",
}


@contextmanager
def terminal() -> Iterator[IO[bytes]]:
    """What this process and its children write to standard output and error meanwhile."""
    before = [os.dup(number) for number in (1, 2)]
    with tempfile.TemporaryFile() as written:
        try:
            for number in (1, 2):
                os.dup2(written.fileno(), number)
            yield written
        finally:
            for number, stream in zip((1, 2), before, strict=True):
                os.dup2(stream, number)
                os.close(stream)


class Sessions:
    """One session lives at a time; asking for another master ends it.

    `start` is what a session of the master now said on the terminal while it started.
    """

    def __init__(self) -> None:
        self._master = self.start = ""
        self._session: Any = None
        self._closing = ExitStack()

    def on(self, master: str, settings: dict[str, str]) -> Any:
        if master != self._master:
            self.stop()
            with terminal() as written:
                self._session, self._closing = open_session(master, QUICK | settings)
                written.seek(0)
                self.start = written.read().decode()
            self._master = master
        return self._session

    def stop(self) -> None:
        self._closing.close()
        self._master, self._session = "", None


@pytest.fixture(scope="session")
def sessions() -> Iterator[Sessions]:
    pytest.importorskip("pyspark", reason="pyspark is not installed: the extra spark")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, and Spark needs it")
    found = Sessions()
    yield found
    found.stop()


@pytest.fixture
def spark(sessions: Sessions) -> Any:
    """Two threads in one Java process; adaptive execution is for the cluster's tests."""
    return sessions.on("local[2]", {"spark.sql.adaptive.enabled": "false"})


@pytest.fixture
def cluster(sessions: Sessions) -> Any:
    """Two worker processes with an executor each, and speculative copies of slow tasks."""
    return sessions.on("local-cluster[2,1,1024]", SPECULATION)
