"""All studies of `sfumato reproduce paris`, in order, and where their results go.

Results are written after every epsilon of a study, and every score is kept: a run that is stopped
leaves what it has, and goes on from there when it is started again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.io.writers import write_bytes
from sfumato.reproduction.paris import cases
from sfumato.reproduction.paris.causes import Cause, causes_study
from sfumato.reproduction.paris.histogram import HistogramScore, histogram_study
from sfumato.reproduction.paris.scores import Effort, Score, kept_score
from sfumato.reproduction.paris.stage import Stage
from sfumato.reproduction.paris.tables import as_json, as_markdown

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
