"""Every method of the frontier: the printed form, our schemes, outside baselines, the oracle.

All but the printed form promise the same (epsilon, delta) for one user's whole record. Each
takes bounds that were tuned on other cities by a public rule: our schemes as `release` runs
them where nothing is said here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, Parameter, PublicFacts
from sfumato.model.counts import Bound, SampleBound, WeightBound
from sfumato.model.source import Source
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.wall import Wall
from sfumato_lab.as_printed.paris import PublishedParis
from sfumato_lab.studies.frontier.baselines import HourlyGrouping, MatrixMechanism, Quadtree
from sfumato_lab.studies.frontier.histograms import HISTOGRAMS, Partitioned, haar
from sfumato_lab.studies.frontier.oracle import BoxKeepingWall, Oracle, SharedSamples
from sfumato_lab.studies.paris.setup import Stage

Table = NDArray[np.float64]
PRINTED, PAPER_STEPS, PARIS, BAYES, ORACLE = (
    "paris as printed",
    "paris, the paper's steps",
    "paris",
    "bayes",
    "linear oracle",
)
PAPER: Mapping[str, Parameter] = MappingProxyType(
    {
        "space": "cover",
        "histogram": "one-visit",
        "keep": "exponential",
        "histogram_share": 0.22,
        "total_share": 0.05,
        "choice_share": 0.03,
        "tolerance": 0.005,
    }
)
"""The steps of Acs & Castelluccia (2014) with a correct budget: coefficients get 0.70."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One city, one epsilon, one draw."""

    stage: Stage
    oracle: Oracle
    epsilon: float
    delta: float
    repetition: int

    @property
    def facts(self) -> PublicFacts:
        return self.stage.facts(self.epsilon, self.delta)

    @property
    def source(self) -> Source:
        return SharedSamples(self.stage.source, self.stage.seed, self.repetition)

    def seed(self, name: str) -> int:
        return zlib.crc32(f"frontier|{name}|{self.stage.seed}|{self.repetition}".encode())


Found = Density | Table


@dataclass(frozen=True, slots=True)
class Method:
    """One run gives the tables of `labels` (the oracle reads what `bayes` measured)."""

    labels: tuple[str, ...]
    draw: Callable[[Setting], Mapping[str, Found]]


def signal(facts: PublicFacts) -> float:
    """Expected users of a counted place times mu: how far a count rises above noise."""
    users = facts.expected_users or 1
    return users * gaussian_mu(facts.epsilon, facts.delta) / max(facts.places, 1)


def _stepped(facts: PublicFacts, steps: tuple[tuple[float, Bound], ...]) -> Bound:
    """The bound of the first step whose threshold the signal reaches; the last is for all."""
    return next(bound for least, bound in steps if signal(facts) >= least)


GAUSSIAN_BOUNDS: tuple[tuple[float, Bound], ...] = (
    (200.0, WeightBound(6.0)),
    (80.0, WeightBound(4.0)),
    (20.0, WeightBound(2.0)),
    (0.0, WeightBound(1.5)),
)
LAPLACE_BOUNDS: tuple[tuple[float, Bound], ...] = (
    (200.0, SampleBound(30)),
    (80.0, SampleBound(10)),
    (20.0, SampleBound(3)),
    (0.0, SampleBound(1)),
)
GROUPING_BOUNDS: tuple[tuple[float, Bound], ...] = (
    (200.0, SampleBound(10)),
    (0.0, SampleBound(3)),
)


def _scheme(
    name: str,
    label: str | None = None,
    bounds: tuple[tuple[float, Bound], ...] = (),
    parameters: Mapping[str, Parameter] = MappingProxyType({}),
) -> Method:
    shown = label or name

    def draw(setting: Setting) -> Mapping[str, Found]:
        facts = setting.facts
        if bounds:
            facts = replace(facts, bound=_stepped(facts, bounds))
        wall = Wall.seeded(setting.seed(shown))
        facts = replace(facts, parameters=parameters)
        return {shown: scheme_named(name).run(setting.source, wall, facts)}

    return Method((shown,), draw)


def _baseline(made: Quadtree | MatrixMechanism | HourlyGrouping | Partitioned) -> Method:
    def draw(setting: Setting) -> Mapping[str, Found]:
        wall = Wall.seeded(setting.seed(made.name))
        return {made.name: made.run(setting.source, wall, setting.facts)}

    return Method((made.name,), draw)


def _printed(setting: Setting) -> Mapping[str, Found]:
    rng = np.random.default_rng(setting.seed(PRINTED))
    scheme = PublishedParis(setting.epsilon, setting.delta)
    opened = setting.stage.opened(30, setting.repetition)
    return {PRINTED: scheme.run(opened, setting.stage.ground, rng)}


def _bayes(setting: Setting) -> Mapping[str, Found]:
    wall = BoxKeepingWall.seeded(setting.seed(BAYES))
    density, table = setting.oracle.with_bayes(setting.source, wall, setting.facts)
    return {BAYES: density, ORACLE: table}


METHODS = (
    _scheme("laplace", bounds=LAPLACE_BOUNDS),
    _scheme("grouping", bounds=GROUPING_BOUNDS),
    _scheme("gaussian", bounds=GAUSSIAN_BOUNDS),
    _baseline(Quadtree()),
    _baseline(MatrixMechanism()),
    _baseline(HourlyGrouping()),
    _baseline(MatrixMechanism(name="wavelet", strategy=haar)),
    *(_baseline(one) for one in HISTOGRAMS),
    Method((PRINTED,), _printed),
    _scheme("paris", PAPER_STEPS, ((0.0, SampleBound(30)),), PAPER),
    _scheme("paris"),
    Method((BAYES, ORACLE), _bayes),
)
LABELS = tuple(label for method in METHODS for label in method.labels)
