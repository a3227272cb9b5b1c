"""All studies of `sfumato reproduce paris`, in order, and where their results go.

Results are written after every epsilon of a study, and every score is kept: a run that is stopped
leaves what it has, and goes on from there when it is started again.

*Causes*: what moves the printed schemes' figures, one property of the study changed at a time. The
city is made up, so its figures differ from those of Acs & Castelluccia (2014). Each
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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.density.refine.spatial import merge_neighbours
from sfumato.io.write import write_bytes
from sfumato.utility import density
from sfumato.utility.earth_mover import earth_mover_distance
from sfumato_lab.as_printed.baselines import PublishedLaplace
from sfumato_lab.as_printed.paris import Ground, Noise, OpenedCounts, PublishedParis
from sfumato_lab.studies.paris import cases
from sfumato_lab.studies.paris.cases import COVER, Effort, Score, kept_score
from sfumato_lab.studies.paris.setup import HistogramScore, Stage, histogram_study
from sfumato_lab.studies.paris.tables import as_json, as_markdown

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
            relation = float(density.pearson(truth, table).mean())
            note("as it is", _error(truth, table), relation, emd)
            for sanity in (0.0005, 0.002):
                name = f"sanity bound {100 * sanity:g} %"
                note(name, _error(truth, table, sanity), relation, emd)
            few, level = thinned(stage, counts, repetition)
            less = drawn(few, stage.ground)
            note(
                f"mean count {COVER['zone_mean']:g}",
                _error(level, less),
                float(density.pearson(level, less).mean()),
                _metres(level, less, stage.metres, slots),
            )
            sums, both = _added(truth, merged), _added(table, merged)
            note(
                "zones merged by twos",
                _error(sums, both),
                float(density.pearson(sums, both).mean()),
                float("nan"),
            )
            if method == "LPA(30)":
                raw = _unclipped(counts, stage, epsilon, repetition)
                same = float(density.pearson(truth, raw).mean())
                note("negative counts kept", _error(truth, raw), same, float("nan"))
            else:
                moved = drawn(counts, _centred(stage))
                note(
                    "towers at the centres of their cells",
                    _error(truth, moved),
                    float(density.pearson(truth, moved).mean()),
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
    return float(density.relative_error(truth, table, sanity).mean())


def _metres(truth: Table, table: Table, metres: Table, slots: range) -> float:
    every = [earth_mover_distance(truth[:, s], table[:, s], metres) for s in slots]
    return float(np.mean(every))


NUMBERS = "paris.internal.json"
TABLE = "paris.internal.md"
SCORES = "scores.internal"
STUDIES = (
    "main",
    "corrected",
    "variants",
    "samples",
    "chapter",
    "readings",
    "options",
    "histogram",
    "causes",
)
CAUSE_REPETITIONS = 5
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is to be done."""

    epsilons: tuple[float, ...] = (0.1, 0.3, 0.5, 1.0)
    repetitions: int = 20
    """Draws of samples and noise for the papers' own comparison at the middle epsilon."""
    other_repetitions: int | None = None
    """Draws everywhere else; as many, if not given."""
    slow_repetitions: int | None = None
    """At most so many draws of `bayes`, which reads the records again every time."""
    emd_every: int = 7
    """Of 168 hours every seventh meets each hour of the day once; 6 or 12 would favour some."""
    emd_repetitions: int = 5
    """Distances are slow: away from the middle epsilon the first so many repetitions have them."""
    studies: tuple[str, ...] = STUDIES

    @property
    def others(self) -> int:
        return self.repetitions if self.other_repetitions is None else self.other_repetitions

    def effort(self, study: str, case: cases.Case, epsilon: float, emd: bool) -> Effort:
        """What is done for one method at one epsilon."""
        full = study in ("main", "corrected") and epsilon == self.middle
        draws = self.repetitions if full else self.others
        if case.slow and self.slow_repetitions is not None:
            draws = min(draws, self.slow_repetitions)
        if not emd:
            return Effort(draws)
        some = draws if epsilon == self.middle else min(draws, self.emd_repetitions)
        return Effort(draws, self.emd_every, some)

    @property
    def middle(self) -> float:
        """The epsilon of single figures: 0.3, or the nearest there is."""
        return min(self.epsilons, key=lambda epsilon: abs(epsilon - 0.3))


@dataclass(slots=True)
class Results:
    """What has been found so far."""

    settings: Settings
    scores: list[Score] = field(default_factory=list)
    histogram: list[HistogramScore] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)

    def of(self, label: str, epsilon: float) -> Score | None:
        """One method at one epsilon, if it was run."""
        for found in self.scores:
            if found.label == label and found.epsilon == epsilon:
                return found
        return None


def study(stage: Stage, settings: Settings, out: Path, say: Say = lambda _: None) -> Results:
    """Run everything; write numbers, table and figures to `out`."""
    found = Results(settings)
    every, middle = settings.epsilons, settings.middle
    plan = {
        "main": ("Figures 7 to 11, l = 30", cases.MAIN, every, True),
        "corrected": ("corrected schemes", cases.CORRECTED, every, True),
        "variants": ("Figure 8", cases.VARIANTS, every, False),
        "samples": ("Figure 7, other l", cases.SAMPLES, every, False),
        "chapter": ("the chapter", cases.CHAPTER, (middle,), True),
        "readings": ("other readings", cases.READINGS, (middle,), False),
        "options": ("options of the corrected form", cases.OPTIONS, every, False),
    }
    for name, (title, methods, epsilons, emd) in plan.items():
        if name not in settings.studies:
            continue
        say(title)
        for epsilon in epsilons:
            for case in methods:
                effort = settings.effort(name, case, epsilon, emd)
                found.scores.append(kept_score(stage, case, epsilon, effort, out / SCORES))
            _write(stage, found, out)
    if "histogram" in settings.studies:
        say("Figure 6")
        found.histogram += histogram_study(stage, every, settings.others)
        _write(stage, found, out)
    if "causes" in settings.studies:
        say("causes of differences")
        few = min(settings.others, CAUSE_REPETITIONS)
        found.causes += causes_study(stage, middle, few, settings.emd_every or stage.grid.slots)
        _write(stage, found, out)
    return found


def _write(stage: Stage, found: Results, out: Path) -> None:
    write_bytes(out / NUMBERS, as_json(stage, found).encode())
    write_bytes(out / TABLE, as_markdown(stage, found).encode())
