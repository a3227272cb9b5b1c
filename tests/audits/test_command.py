"""`sfumato audit`, and the gaussian scheme from event tables to the released table."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sfumato.audits.run import audit
from sfumato.audits.schemes import scheme_subjects, world_of
from sfumato.cli.main import app
from sfumato.density.baselines import Gaussian
from sfumato.density.registry import scheme_named
from sfumato.errors import UsageError
from sfumato.model.counts import SampleBound, WeightBound
from sfumato.privacy.door import open_private

pytestmark = pytest.mark.privacy

SEEDS = 8


@pytest.mark.parametrize("bound", [WeightBound(3), SampleBound(6)])
def test_the_gaussian_scheme_keeps_its_promise_end_to_end(bound):
    """Eight seeds, all bounds together at 99.9 %; what is released is the table."""
    world = world_of(scheme_named("gaussian"), [8.0], 1e-6, bound=bound, only="crowd")
    subjects = scheme_subjects(world, [8.0], scouting=64)
    for seed in range(SEEDS):
        result = audit(subjects, runs=150, confidence=1 - 0.001 / (2 * SEEDS), seed=seed)
        assert not result.violations, result.violations


class Understated(Gaussian):
    """Weights for 1.2 times the limit, with the noise, and the bill, of the limit itself."""

    def _counts(self, source, _wall, facts):
        more = source.weighted(WeightBound(1.2 * facts.bound.limit), facts.counting)
        return more.map(lambda counts: replace(counts, l2=facts.bound.l2(facts.grid.slots)))


class Unclipped(Gaussian):
    """Counts without any bound on heavy users, announced as bounded."""

    def _counts(self, source, _wall, facts):
        raw = source.exact(facts.counting)
        units = facts.bound.units_per_count
        return raw.map(
            lambda counts: replace(
                counts,
                values=counts.values * (units // counts.units_per_count),
                units_per_count=units,
                l1=facts.bound.l1(facts.grid.slots),
                l2=facts.bound.l2(facts.grid.slots),
            )
        )


@pytest.mark.parametrize("scheme", [Understated(), Unclipped()])
def test_a_scheme_that_bounds_less_than_it_says_is_caught_end_to_end(scheme):
    world = world_of(scheme, [8.0], 1e-6, bound=WeightBound(2), only="one place all the time, a")
    assert [row for row in world.exactly(8.0, seed=1).rows if row.violated]  # from inside
    result = audit(scheme_subjects(world, [8.0], scouting=64), runs=4_000, seed=1)
    assert result.rows[1] in result.violations, result.rows


class Chatty(Gaussian):
    """Takes a second measurement that is not in its plan."""

    def run(self, source, wall, facts):
        box = source.capped_total(10, facts.counting)
        wall.laplace(box, scale=1, label="more")
        return super().run(source, wall, facts)


def test_a_scheme_that_measures_more_than_it_planned_is_refused():
    world = world_of(Chatty(), [1.0], 1e-6, bound=WeightBound(3), only="one visit")
    with pytest.raises(UsageError, match="other than what it planned"):
        world.exactly(1.0, seed=0)
    with pytest.raises(UsageError, match="other than what it planned"):
        scheme_subjects(world, [1.0], scouting=64)
    with pytest.raises(UsageError, match="other than what it planned"):
        world.table("one visit, a crowd", 1.0).draw(True, 1, 0)


def test_command_writes_table_json_and_plot(tmp_path):
    out = tmp_path / "audit"
    command = [
        "audit",
        "mechanisms",
        "--epsilon",
        "8",
        "--runs",
        "100",
        "--out",
        str(out),
        "--json",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"audit.json", "audit.md", "audit.png"}
    printed = json.loads(done.stdout)
    assert printed == json.loads((out / "audit.json").read_text())
    assert {tuple(sorted(row["claim"])) for row in printed["rows"]} == {
        ("delta", "epsilon"),
        ("mu", "slack"),
    }
    assert printed["violations"] == 0


def test_command_audits_a_scheme_and_can_be_quiet():
    command = ["audit", "gaussian", "--epsilon", "8", "--runs", "100", "--scouting", "64"]
    loud = CliRunner().invoke(app, command)
    assert loud.exit_code == 0
    assert "holds" in loud.stdout
    assert "VIOLATED" not in loud.stdout
    command[1] = "mechanisms"
    quiet = CliRunner().invoke(app, [*command, "--quiet"])
    assert (quiet.exit_code, quiet.stdout) == (0, "")


@pytest.mark.parametrize(
    "wrong",
    [
        ["nosuch"],
        ["gaussian", "--delta", "0"],
        ["gaussian", "--epsilon", "-1"],
        ["gaussian", "--bound", "weight:x"],
        ["gaussian", "--confidence", "1"],
    ],
)
def test_command_refuses_what_makes_no_sense(wrong):
    done = CliRunner().invoke(app, ["audit", *wrong])
    assert isinstance(done.exception, UsageError)


def test_private_numbers_stay_in_their_boxes():
    """The doubles above lie inside the box; the audit itself never opens one."""
    import sfumato.audits.pipeline as pipeline
    import sfumato.model.source as remembering

    for module in (pipeline, remembering):
        assert open_private not in vars(module).values()
