"""Our schemes on the population of real aggregates, judged apart by the size of zones."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import WeightBound
from sfumato.privacy.wall import Wall
from sfumato.reproduction.frontier.real import real_aggregates
from sfumato.reproduction.frontier.record import Record, Row
from sfumato.utility import metrics
from sfumato.utility.evaluation import interval_coverage

SERVED = 5.0
"""Mean visits an hour from which relative errors of a zone mean something."""
LARGE = f"real aggregates, zones of {SERVED:g} and more an hour"
SMALL = "real aggregates, smaller zones"
SCHEMES = ("gaussian", "paris", "bayes")
EPSILONS = (0.1, 0.3, 1.0)
DELTA, DRAWS, SEED = 2e-6, 2, 16
GAUSSIAN_LIMIT = 4.0


def real_study(data: Path, record: Record, tell: Callable[[str, float], None]) -> None:
    """Draw what the record lacks."""
    made = real_aggregates(data, SEED, EPSILONS[0], DELTA)
    people = made.facts.expected_users or 0
    large = made.truth.mean(axis=1) >= SERVED
    todo = [
        (draw, epsilon, name)
        for draw in range(DRAWS)
        for epsilon in EPSILONS
        for name in SCHEMES
        if not record.has((LARGE, people, epsilon, name, draw))
    ]
    for done, (draw, epsilon, name) in enumerate(todo):
        tell(f"real aggregates: {name}, ε {epsilon:g}", done / len(todo))
        facts: PublicFacts = replace(made.facts, epsilon=epsilon)
        if name == "gaussian":
            facts = replace(facts, bound=WeightBound(GAUSSIAN_LIMIT))
        wall = Wall.seeded(zlib.crc32(f"{name}|{draw}".encode()))
        start = time.process_time()
        with threadpool_limits(1):
            found = scheme_named(name).run(made.source, wall, facts)
        cpu = time.process_time() - start
        for city, rows in ((LARGE, large), (SMALL, ~large)):
            truth, table = made.truth[rows], np.asarray(found.values, dtype=np.float64)[rows]
            held = interval_coverage(truth, found.lower[rows], found.upper[rows])
            figures = (
                float(metrics.mean_relative_error(truth, table).mean()),
                float(metrics.pearson(truth, table).mean()),
            )
            coverage = held.get("coverage_from_20")
            record.add(
                [Row(city, people, epsilon, name, draw, *figures, None, coverage, None, cpu)]
            )
