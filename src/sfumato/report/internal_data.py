"""`InternalEvaluation`: what an evaluation hands to the internal page. It holds the truth.

    InternalEvaluation(
        title="Week 37, three schemes", zone_ids=ids, zone_names=names, geometry=shapes,
        edges=grid.edges, tz=grid.tz, counting="visits", truth=truth,
        contenders=(Contender("bayes", 0.3, values, lower, upper, error=relative_error(...)),),
    )

Tables are zone x slot. The report only averages and draws; what an error is, the evaluation says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.report.attack_panel import AttackPanel, AttackResult, AttackTracks

__all__ = ["AttackPanel", "AttackResult", "AttackTracks", "Contender", "InternalEvaluation"]
Table = NDArray[np.float64]
_NOTHING: Mapping[str, Table] = MappingProxyType({})
_NO_FIGURES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One scheme at one budget: its table, its errors, its figures."""

    name: str
    epsilon: float | None
    values: Table
    lower: Table | None = None
    upper: Table | None = None
    error: Table | None = None
    """Relative error of every cell; |values - truth| / max(1, truth) where not given."""
    by_hour: Mapping[str, Table] = field(default_factory=lambda: _NOTHING)
    """One number a slot; `emd`, `top_k` and `pearson` have names on the page."""
    overall: Mapping[str, float] = field(default_factory=lambda: _NO_FIGURES)
    """One number for the whole; the same keys and `mre`, `coverage`."""
    note: str = ""
    """Said beside the name: for example that a printed calibration guarantees nothing."""

    @property
    def label(self) -> str:
        return self.name if self.epsilon is None else f"{self.name}, ε {self.epsilon:g}"


@dataclass(frozen=True, slots=True, eq=False)
class InternalEvaluation:
    """The truth, the contenders, and how they were judged. Never for publication."""

    title: str
    zone_ids: tuple[str, ...]
    zone_names: tuple[str, ...]
    geometry: NDArray[np.object_] | None
    edges: NDArray[np.int64]
    tz: str
    counting: str
    truth: Table
    contenders: tuple[Contender, ...]
    districts: tuple[str, ...] = ()
    attacks: tuple[AttackResult, ...] = ()
    tracks: tuple[AttackTracks, ...] = ()
    quality_bar: float = 0.3
    """A zone fails where its mean relative error is above this."""

    def __post_init__(self) -> None:
        zones, slots = self.truth.shape
        if not self.contenders:
            raise UsageError("An evaluation needs at least one release to judge.")
        if len(self.edges) != slots + 1 or len(self.zone_ids) != zones:
            raise UsageError("The truth does not have the zones and slots it is said to have.")
        if len(self.zone_names) != zones or len(self.districts) not in (0, zones):
            raise UsageError("There must be a name for every zone.")
        for track in self.tracks:
            track.check(zones, slots)
        for one in self.contenders:
            tables = (one.values, one.lower, one.upper, one.error)
            if any(t is not None and t.shape != self.truth.shape for t in tables):
                raise UsageError(
                    f"{one.label}: its tables do not have the truth's zones and slots."
                )
            if any(np.shape(series) != (slots,) for series in one.by_hour.values()):
                raise UsageError(f"{one.label}: a series does not have one number a slot.")
