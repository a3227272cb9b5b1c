"""What moves the printed schemes' figures: one property of the study changed at a time.

The city is made up, so its figures differ from those of Acs & Castelluccia (2014). Each
variation here changes one thing that might be the reason, at the middle epsilon, and leaves
the rest alone:

* *count level*: every visit is kept with one probability, so that zones have the paper's mean
  count of 91 instead of ours; people's habits and the map stay as they are.
* *coarser zones*: neighbouring zones are merged by twos, which doubles their counts.
* *sanity bound*: half and twice the 0.1 % below which a count does not count as small.
* *negative counts kept*: the Laplace baseline as it comes from the mechanism. Negative mass has
  no earth mover's distance, so that column is empty.
* *tower at the centre of its cell* instead of at its mast: which clusters form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.density.published.baselines import PublishedLaplace
from sfumato.density.published.inputs import Ground, OpenedCounts
from sfumato.density.published.paris import Noise, PublishedParis
from sfumato.density.refine.clusters import merge_neighbours
from sfumato.reproduction.paris.paper import COVER
from sfumato.reproduction.paris.stage import Stage
from sfumato.utility import metrics
from sfumato.utility.earth_mover import earth_mover_distance

Table = NDArray[np.float64]
Run = Callable[[float, OpenedCounts, Ground, np.random.Generator], Table]
METHODS: dict[str, tuple[int, Run]] = {
    "LPA(30)": (30, lambda e, c, g, r: PublishedLaplace(e).run(c, g, r)),
    "EFPA(30)": (30, lambda e, c, g, r: PublishedParis(e, noise=Noise.EFPA).run(c, g, r)),
    "EFPAG(30)": (30, lambda e, c, g, r: PublishedParis(e).run(c, g, r)),
    "EFPAG⁻(168)": (168, lambda e, c, g, r: PublishedParis(e, improved=False).run(c, g, r)),
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One method under one variation: means over repetitions; NaN where undefined."""

    variation: str
    method: str
    mre: float
    pearson: float
    emd: float


def causes_study(stage: Stage, epsilon: float, repetitions: int, emd_every: int) -> list[Cause]:
    """Every variation of every method."""
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    merged = _merged_by_twos(stage)
    for repetition in range(repetitions):
        slots = range(repetition % max(emd_every, 1), stage.grid.slots, max(emd_every, 1))
        for method, (limit, run) in METHODS.items():
            counts = stage.opened(limit, repetition)

            def drawn(
                counts: OpenedCounts, ground: Ground, run: Run = run, r: int = repetition
            ) -> Table:
                return run(epsilon, counts, ground, np.random.default_rng([stage.seed, 9, r]))

            def note(name: str, *scores: float, method: str = method) -> None:
                found.setdefault((name, method), []).append((scores[0], scores[1], scores[2]))

            table, truth = drawn(counts, stage.ground), stage.truth
            emd = _metres(truth, table, stage.metres, slots)
            relation = float(metrics.pearson(truth, table).mean())
            note("as it is", _error(truth, table), relation, emd)
            for sanity in (0.0005, 0.002):
                name = f"sanity bound {100 * sanity:g} %"
                note(name, _error(truth, table, sanity), relation, emd)
            few, level = thinned(stage, counts, repetition)
            less = drawn(few, stage.ground)
            note(
                f"mean count {COVER['zone_mean']:g}",
                _error(level, less),
                float(metrics.pearson(level, less).mean()),
                _metres(level, less, stage.metres, slots),
            )
            sums, both = _added(truth, merged), _added(table, merged)
            note(
                "zones merged by twos",
                _error(sums, both),
                float(metrics.pearson(sums, both).mean()),
                float("nan"),
            )
            if method == "LPA(30)":
                raw = _unclipped(counts, stage, epsilon, repetition)
                same = float(metrics.pearson(truth, raw).mean())
                note("negative counts kept", _error(truth, raw), same, float("nan"))
            else:
                moved = drawn(counts, _centred(stage))
                note(
                    "towers at the centres of their cells",
                    _error(truth, moved),
                    float(metrics.pearson(truth, moved).mean()),
                    _metres(truth, moved, stage.metres, slots),
                )
    return [Cause(*key, *np.mean(runs, axis=0).tolist()) for key, runs in found.items()]


def thinned(stage: Stage, counts: OpenedCounts, repetition: int) -> tuple[OpenedCounts, Table]:
    """Every visit kept with one probability, sampled visits and the others alike; and the truth."""
    keep = min(1.0, COVER["zone_mean"] / float(stage.truth.mean()))
    rng = np.random.default_rng([stage.seed, 10, repetition])
    sampled = rng.binomial(counts.sampled, keep)
    every = sampled + rng.binomial(stage.at_towers - counts.sampled, keep)
    one = rng.binomial(counts.one_visit, keep)
    few = replace(
        counts, sampled=sampled, one_visit=one, users=int(one.sum()), visits=int(every.sum())
    )
    return few, stage.overlay.to_zones(every)


def noise_gain(stage: Stage) -> Table:
    """For each zone the noise of the cover's cells that reaches it: the norm of its way back."""
    squares = stage.cover.back.power(2).sum(axis=1)
    return np.sqrt(np.asarray(squares, dtype=np.float64).ravel())


def _unclipped(counts: OpenedCounts, stage: Stage, epsilon: float, repetition: int) -> Table:
    rng = np.random.default_rng([stage.seed, 11, repetition])
    cover = np.asarray(stage.cover.forward @ counts.sampled)
    noise = rng.laplace(0, counts.limit / epsilon, cover.shape)
    return np.asarray(stage.cover.back @ (cover + noise))


def _centred(stage: Stage) -> Ground:
    shapes = stage.tower_outlines
    at = shapely.get_coordinates(shapely.centroid(shapes[~shapely.is_empty(shapes)]))
    centres = stage.ground.towers.centres.copy()
    centres[~shapely.is_empty(shapes)] = at
    return replace(stage.ground, towers=replace(stage.ground.towers, centres=centres))


def _merged_by_twos(stage: Stage) -> NDArray[np.int64]:
    """Groups of at least two neighbouring zones."""
    zones = stage.ground.zones
    return merge_neighbours(np.ones(zones.areas.size), zones.centres, zones.areas, 2.0)


def _added(table: Table, label: NDArray[np.int64]) -> Table:
    found = np.zeros((int(label.max()) + 1, table.shape[1]))
    np.add.at(found, label, table)
    return found


def _error(truth: Table, table: Table, sanity: float = 0.001) -> float:
    return float(metrics.relative_error(truth, table, sanity).mean())


def _metres(truth: Table, table: Table, metres: Table, slots: range) -> float:
    every = [earth_mover_distance(truth[:, s], table[:, s], metres) for s in slots]
    return float(np.mean(every))
