"""A cluster of two worker processes, speculation on, one of them killed: the same bytes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.engine.spark.source import SparkSource, open_source
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.lives import SHARES, LifeQuestion, life_question
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import SynthFacts, settings_of
from sfumato.synthesis.registry import method_named

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, float, Any]]:
    rng = np.random.default_rng(11)
    size = 4000
    users = (rng.pareto(0.8, size) * 3).astype(int) % 200
    hours, towers = rng.uniform(0, 48, size), rng.integers(0, 7, size)
    return [(int(u), float(h), f"t{t}") for u, h, t in zip(users, hours, towers, strict=True)]


def asked(town: Any, source: Any) -> dict[str, bytes]:
    """What the schemes ask, one question of each kind."""
    norms = np.full((source.place_ids.size, source.grid.slots), 300, np.int64)
    answers = {
        "sampled": source.sampled(SampleBound(3), town.key),
        "places": source.place_totals(WeightBound(1.3), Counting.PEOPLE),
        "slots": source.slot_totals(WeightBound(1.9), Counting.VISITS),
        "capped": source.capped_total(4, Counting.VISITS),
        "ladder": source.ladder((1, 2, 4, 8, 13), Counting.PEOPLE),
        "lives": source.lives(question_of(source)),
        "classes": source.lives(question_of(source, {"calls": 0.4, "profiles": 0.6})),
        "matrix": source.weighted(WeightBound(2.3, 1.7), Counting.VISITS, norms),
    }
    return {name: town.opened(private).values.tobytes() for name, private in answers.items()}


def question_of(source: Any, shares: dict[str, float] | None = None) -> LifeQuestion:
    """How persons live, the towers on a line."""
    given = SHARES if shares is None else {name: shares.get(name, 0.0) for name in SHARES}
    at = np.column_stack([np.arange(source.place_ids.size) * 900.0, np.zeros(7)])
    number = np.arange(7)
    return life_question(source.grid, at, number % 3, number % 8, shares=given)


def measured(source: Any, towers: Any, name: str) -> dict[str, bytes]:
    """All that a method of `synth` measures, with the same noise."""
    public = PublicFacts(
        place_ids=source.place_ids,
        grid=source.grid,
        epsilon=2.0,
        delta=1e-4,
        expected_users=200,
    )
    method = method_named(name)
    facts = SynthFacts(public, 200, 1, settings_of(method, {}), towers, counted=towers)
    noisy = method.measure(source, Wall.seeded(3), facts)
    return {label: np.asarray(values).tobytes() for label, values in noisy.items()}


def executors() -> list[int]:
    """Processes of this cluster's executors: below us, and named so."""
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text().rpartition(") ")[2].split()
            parents[int(entry.name)] = int(stat[1])
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))

    def below(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid in found if below(pid)]


def test_two_workers_give_the_bytes_of_one_machine(town: Any, cluster: Any, rows: Any) -> None:
    towers, grid = town.towers(7), town.grid(2)
    here = asked(town, LocalSource(town.events(rows), towers, grid, threads=2))
    frame = cluster.createDataFrame(town.table(rows)).repartition(5)
    opened = open_source(frame, towers, grid)
    source = SparkSource(opened.events, towers, grid, rows_per_task=500)
    try:
        assert asked(town, source) == here
        local = LocalSource(town.events(rows), towers, grid)
        for method in ("weeks", "where"):
            assert measured(source, towers, method) == measured(local, towers, method)
        assert len(executors()) >= 2
    finally:
        source.close()


def test_a_worker_killed_in_the_middle_changes_nothing(town: Any, cluster: Any, rows: Any) -> None:
    towers, grid = town.towers(7), town.grid(2)
    here = town.opened(
        LocalSource(town.events(rows), towers, grid).sampled(SampleBound(3), town.key)
    ).values
    opened = open_source(cluster.createDataFrame(town.table(rows)).repartition(4), towers, grid)
    source = SparkSource(opened.events, towers, grid, rows_per_task=100)
    source.fingerprint(town.key)
    tracker = cluster.sparkContext.statusTracker()
    killed: list[int] = []

    def kill_one() -> None:
        """As soon as some tasks of a wide stage are done and others are not."""
        for _ in range(4000):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info and info.numTasks > 20 and 3 <= info.numCompletedTasks < info.numTasks - 3:
                    killed.append(executors()[0])
                    os.kill(killed[0], signal.SIGKILL)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        found = town.opened(source.sampled(SampleBound(3), town.key)).values
        killer.join()
        assert killed, "no stage was caught in the middle"
        assert found.tobytes() == here.tobytes()
        again = town.opened(source.sampled(SampleBound(3), town.key)).values
        assert again.tobytes() == here.tobytes()  # from blocks of which half were lost
    finally:
        killer.join()
        source.close()
