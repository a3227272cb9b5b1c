"""The whole audit (`make audit`): many runs, and the table and plot in the documentation."""

from pathlib import Path

import pytest

from sfumato.audits.bounds import exact_delta, exact_epsilon, runs_needed
from sfumato.audits.mechanisms import mechanism_subjects
from sfumato.audits.report import as_markdown, save_plot
from sfumato.audits.run import Audit, MuClaim, SensitivityClaim, audit
from sfumato.audits.schemes import exact_rows, other_rows, scheme_subjects, world_of
from sfumato.cli.options import parameters_of
from sfumato.density.registry import SCHEMES
from sfumato.model.counts import SampleBound, WeightBound

DOCS = Path(__file__).parents[2] / "docs"
CONFIDENCE, DELTA, SEED = 0.999, 1e-6, 1
RUNS, SCOUTING = 5_000, 64
BOUNDS = {"weight:3": WeightBound(3), "sample:6": SampleBound(6), "sample:1": SampleBound(1)}
AUDITED = (
    ("laplace", "weight:3", (4.0,), 3_000, ()),
    ("laplace", "sample:1", (2.0,), 3_000, ()),
    ("gaussian", "weight:3", (2.0, 8.0), 3_000, ()),
    ("gaussian", "sample:6", (4.0,), 3_000, ()),
    ("grouping", "weight:3", (4.0,), 1_000, ()),
    ("paris", "weight:3", (8.0,), 1_000, ("keep=first", "k=24")),
    ("bayes", "weight:3", (8.0,), 600, ()),
)
"""Scheme, bound (bayes has its own), epsilons, runs and settings.

What `paris` keeps of a series is decided after its measurements, so `keep` changes the table
alone; shrinkage would hide one person completely.
"""
PLANTED, QUESTIONS = "## Planted faults\n", "## Questions\n"
IN_USE = 0.3
"""Exact shifts are also taken at this epsilon, which no number of runs could test."""

pytestmark = [pytest.mark.privacy, pytest.mark.slow]


@pytest.fixture(scope="module")
def mechanisms():
    subjects = [s for epsilon in (1.0, 4.0) for s in mechanism_subjects(epsilon, DELTA)]
    return audit(subjects, runs=RUNS, confidence=CONFIDENCE, seed=SEED)


@pytest.fixture(scope="module")
def schemes():
    """By scheme, bound, epsilons and runs."""
    found = {}
    for case in AUDITED:
        name, words, epsilons, runs, settings = case
        level = {"bound": BOUNDS[words], "parameters": parameters_of(list(settings))}
        world = world_of(SCHEMES[name], epsilons, DELTA, **level)
        subjects = scheme_subjects(world, epsilons, measurements=True, scouting=SCOUTING, seed=SEED)
        result = audit(subjects, runs=runs, confidence=CONFIDENCE, seed=SEED)
        exact = exact_rows(world, epsilons, SEED)
        if name not in {done[0] for done in found}:
            exact += other_rows(world, min(epsilons), SEED)
        level |= {"expected_users": 2_000_000, "crowd": 30}
        usual = world_of(SCHEMES[name], [IN_USE], 2e-7, **level)
        found[case] = result.plus([*exact, *exact_rows(usual, [IN_USE], SEED)])
    return found


@pytest.fixture(scope="module")
def animals(zoo):
    """Broken and corrected mechanisms of the zoo, each file with its own number of runs."""
    tables = {}
    for which in ("BROKEN", "CORRECTED"):
        held = {m: getattr(m, which) for m in zoo.values() if hasattr(m, which)}
        each = 1 - (1 - CONFIDENCE) / len(held)  # the files' audits form one table
        audits = [audit(s, runs=m.RUNS, confidence=each, seed=SEED) for m, s in held.items()]
        rows = tuple(row for result in audits for row in result.rows)
        tables[which] = Audit(rows, CONFIDENCE, SEED)
    return tables


def test_no_mechanism_is_accused(mechanisms):
    assert not mechanisms.violations


def test_no_scheme_is_accused_and_the_bounds_come_close(schemes):
    for (name, bound, *_), result in schemes.items():
        assert not result.violations, result.violations
        for row in result.rows:
            if isinstance(row.claim, SensitivityClaim) and row.claim.norm in ("L1", "L2"):
                assert row.measured > 0.97 * row.claim.value, row
            if isinstance(row.claim, MuClaim) and "measurements" in row.subject:
                # A sample's noise is coarse and hides behind the slack of discrete noise.
                share = 0.5 if bound == "sample:6" else 0.55
                assert row.measured > share * row.claim.value, (name, row)


@pytest.mark.parametrize("bound", [WeightBound(3), SampleBound(6)], ids=str)
def test_the_gaussian_scheme_is_not_accused_over_20_seeds(bound):
    world = world_of(SCHEMES["gaussian"], [8.0], DELTA, bound=bound, only="crowd")
    subjects = scheme_subjects(world, [8.0])
    for seed in range(20):
        result = audit(subjects, runs=1_000, confidence=1 - 0.001 / 40, seed=seed)
        assert not result.violations, result.violations


def test_every_animal_is_caught_and_no_corrected_one(animals):
    assert len(animals["BROKEN"].violations) == len(animals["BROKEN"].rows)
    assert not animals["CORRECTED"].violations


def test_the_documentation_shows_this_audit(mechanisms, schemes, animals, zoo):
    parts = [
        "# The empirical audit\n",
        "*Written by `make audit`; do not edit.*\n",
        "What is measured and how is explained in [commands/audit.md](commands/audit.md), what is "
        "promised in [guarantees.md](guarantees.md). Every bound is a lower bound of the true "
        f"loss; all bounds of one table hold together with probability {CONFIDENCE}. "
        "A bound above its claim would prove the claim wrong.\n",
        "Streams have [a page of their own](audit-streams.md).\n",
        "![measured against claimed](images/audit.png)\n",
        "The plot shows mechanisms and schemes; points at the lower edge lie at or below it.\n",
        "## Schemes, end to end\n",
        "Event tables with and without one person, through engine, bound, wall and refinement. "
        "`table` is the released table, `measurements` the answers of the wall behind it, attacked "
        "with their own likelihood ratio. Rows whose claim is a sensitivity are exact: the scheme "
        "was replayed on the neighbour with the same answers, and what one person moved behind "
        "the wall is compared with what was charged, for every pair of neighbours, also at "
        f"ε = {IN_USE} with 2,000,000 people expected, which is how it is used. `output` and "
        "`files` are exact, too: everything that is published must be the same bytes under equal "
        "answers; measured are the parts that differ. Each parameter of a scheme is tried at "
        "another value.\n",
    ]
    for (name, words, epsilons, runs, settings), result in schemes.items():
        options = " ".join(f"--epsilon {epsilon:g}" for epsilon in epsilons)
        options += "".join(f" --parameter {setting}" for setting in settings)
        options += f" --bound {words} --measurements --runs {runs} --scouting {SCOUTING}"
        parts += [f"    sfumato audit {name} {options} --seed {SEED}\n", as_markdown(result)]
    parts.append(
        f"    sfumato audit SCHEME --epsilon {IN_USE} --delta 2e-7 --expected-users 2000000\n\n"
        "gives the exact rows at the ε in use.\n"
    )
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    parts += [
        # What `test_questions` writes.
        QUESTIONS + page.partition(QUESTIONS)[2].partition("## ")[0].rstrip("\n") + "\n",
        "## Mechanisms of the wall\n",
        f"    sfumato audit mechanisms --epsilon 1 --epsilon 4 --runs {RUNS} --seed {SEED}\n",
        as_markdown(mechanisms),
        "## The zoo\n",
        "Mechanisms that are known to be broken, most of them in print, and their corrected "
        "forms. The audit is worth something because it catches the first and leaves the "
        "second alone.\n",
        as_markdown(animals["BROKEN"]),
        "By exact probabilities, where runs cannot show the loss:\n",
        _exact_table(zoo),
        "Corrected:\n",
        as_markdown(animals["CORRECTED"]),
        "## Power\n",
        "Runs on each input with which an L2 sensitivity 1.2 times too small is seen with "
        "probability 0.99 by one test at confidence 0.999:\n",
        _power_table(),
        "This is for fine lattices. Discrete noise is compared with the Gaussian curve up to the "
        "total variation between them, and where the noise is only a few lattice units that "
        "slack hides more than a factor 1.2: with sample:6 at ε = 8 (σ = 1.7) a faulty scheme "
        "could show at most μ = 1.22 of the 1.45 claimed, which is why it is audited at ε = 4. "
        "The exact rows need no runs: they see any excess, at every ε.\n",
    ]
    parts.append("".join(page.partition(PLANTED)[1:]))  # `make mutants` writes that part
    (DOCS / "images").mkdir(parents=True, exist_ok=True)
    (DOCS / "audit.md").write_text("\n".join(parts), encoding="utf-8")
    shown = (mechanisms, *schemes.values())
    together = 1 - len(shown) * (1 - CONFIDENCE)  # several tables in one picture
    everything = Audit(tuple(row for result in shown for row in result.rows), together, SEED)
    save_plot(everything, DOCS / "images" / "audit.png")


def _exact_table(zoo):
    lines = ["| what | claim | exact ε at δ = 0 | δ needed for the claim |", "|---|---|---|---|"]
    for name, module in zoo.items():
        for which in ("BROKEN", "CORRECTED"):
            held = getattr(module, f"EXACT_{which}", None)
            if held is not None:
                p, q, claim = held
                words = f"{name.replace('_', ' ')}, {which.lower()}"
                lines.append(
                    f"| {words} | ε ≤ {claim} | {exact_epsilon(p, q):.4g} | "
                    f"{exact_delta(p, q, claim):.2g} |"
                )
    return "\n".join(lines) + "\n"


def _power_table():
    lines = ["| μ claimed | runs |", "|---|---|"]
    lines += [f"| {mu} | {runs_needed(mu):,} |" for mu in (2.0, 1.0, 0.5, 0.24, 0.08)]
    return "\n".join(lines) + "\n"
