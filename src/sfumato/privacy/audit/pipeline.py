"""A whole pipeline as a subject: source, wall, recipe, and what it publishes.

Every run gets a fresh release key, so sampling and noise are drawn anew exactly as in a
release; only the counting is remembered between runs (see `recall`). What the recipe charged
must be what its claims were computed from, or the audit stops: a pipeline that measures
more than it says would be caught by its own bill.

`pipeline` looks at what is published, `transcripts` at the answers of the wall themselves, before
refinement has smoothed anything away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.model.source import Source
from sfumato.privacy.audit.claims import claims_of
from sfumato.privacy.audit.recall import SAMPLES, recalling
from sfumato.privacy.audit.run import Subject
from sfumato.privacy.audit.statistics import (
    EVERYTHING,
    Released,
    best_of,
    column,
    discriminant,
    projection,
)
from sfumato.privacy.audit.transcript import Scheme, listen, log_ratio
from sfumato.privacy.charging import Tab
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.wall import Wall

Recipe = Callable[[Source, Wall], NDArray[np.float64]]
"""From private counts to the numbers that are published."""


def release_key(seed: int, run: int) -> bytes:
    """A fresh 256-bit key for each run of an audit, repeatable from the audit's seed."""
    return hashlib.sha256(f"sfumato/audit/{seed}/{run}".encode()).digest()


def pipeline(
    name: str,
    pair: str,
    with_user: Source,
    without_user: Source,
    recipe: Recipe,
    events: Mapping[str, PrivacyEvent],
    delta: float,
    samples: int = SAMPLES,
) -> Subject:
    """Runs `recipe` on either source; claims what `events` (the plan) cost."""
    sources = {True: recalling(with_user, samples), False: recalling(without_user, samples)}

    def draw(with_it: bool, runs: int, seed: int) -> Released:
        rows: list[NDArray[np.float64]] = []
        for run in range(runs):
            tab = Tab()
            rows.append(np.ravel(recipe(sources[with_it], Wall(tab, release_key(seed, run)))))
            if run == 0 and tab.charged != dict(events):
                raise UsageError(f"{name} charged something other than what it planned.")
        return np.array(rows, dtype=np.float64)

    claims, statistics = claims_of(events.values(), delta), (*EVERYTHING, discriminant)
    return Subject(name, pair, claims, draw, statistics, best_of(projection, discriminant))


LIKELIHOOD = column(0, "likelihood ratio of the answers")


def transcripts(
    name: str,
    pair: str,
    with_user: Source,
    without_user: Source,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    cells: Mapping[str, int],
    delta: float,
    samples: int = SAMPLES,
) -> Subject:
    """The answers of the wall, and before them their likelihood ratio, by replay.

    `cells` are the most numbers of each measurement; where a run took fewer (clusters that
    merged) the rest is absent.
    """
    sources = {True: recalling(with_user, samples), False: recalling(without_user, samples)}

    def draw(with_it: bool, runs: int, seed: int) -> Released:
        rows = np.full((runs, 1 + sum(cells.values())), np.nan)
        for run in range(runs):
            key, tab = release_key(seed, run), Tab()
            here = listen(scheme, sources[with_it], tab, key, most=len(events))
            there = listen(scheme, sources[not with_it], Tab(), key, here, most=len(events))
            if run == 0 and tab.charged != dict(events):
                raise UsageError(f"{name} charged something other than what it planned.")
            ratio = log_ratio(here, there)
            rows[run, 0] = ratio if with_it else -ratio
            at = 1
            for step in here:
                rows[run, at : at + step.answer.size] = step.answer.ravel()
                at += cells[step.label]
        return rows

    claims = claims_of(events.values(), delta)
    statistics = (LIKELIHOOD, *EVERYTHING, discriminant)
    return Subject(
        name, pair, claims, draw, statistics, best_of(LIKELIHOOD, projection, discriminant)
    )
