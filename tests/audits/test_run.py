"""The audit as a whole: verdicts, family-wise confidence, search, tables, plot."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audits.report import as_json, as_markdown, as_table, save_plot
from sfumato.audits.run import EpsilonClaim, MuClaim, Subject, audit, claims_of, worst
from sfumato.errors import UsageError
from sfumato.privacy.events import GaussianEvent, LaplaceEvent

MU_1 = (MuClaim(1.0),)


def shifted(shift, name="normal", claims=MU_1):
    def draw(with_user, runs, seed):
        rows = np.random.default_rng(seed).normal(size=(runs, 3))
        return np.round((rows + shift * int(with_user) / math.sqrt(3)) * 1024)

    return Subject(name, f"shift {shift}", claims, draw)


def test_verdicts_and_the_level_of_each_test():
    result = audit([shifted(0.9), shifted(1.5)], runs=4_000, confidence=0.99, seed=4)
    assert [row.verdict for row in result.rows] == ["holds", "VIOLATED"]
    assert [row.confidence for row in result.rows] == [0.995, 0.995]
    assert result.violations == (result.rows[1],)


def test_where_twice_the_claim_would_go_unseen_the_verdict_is_no_power():
    """By hand: at mu 0.1 a few hundred runs show nothing, and at epsilon 8 no event is so rare."""
    cases = [
        (shifted(0.1, claims=(MuClaim(0.1),)), "no power"),
        (shifted(1.5, claims=(EpsilonClaim(8.0, 1e-6),)), "no power"),
        (shifted(0.0), "no power"),
        (shifted(0.95), "holds"),
    ]
    result = audit([subject for subject, _ in cases], runs=800, seed=4)
    assert [row.verdict for row in result.rows] == [verdict for _, verdict in cases]
    assert [one["verdict"] for one in as_json(result)["rows"]] == [verdict for _, verdict in cases]
    assert "no power: so many runs" in as_markdown(result)
    assert "no power" in as_table(result).caption
    assert as_table(audit([shifted(0.95)], runs=800, seed=4)).caption is None


def test_what_is_said_about_twice_the_claim_comes_true():
    """Who moves twice as far is accused where the table says so, and nowhere else."""
    claims = (MuClaim(1.0), EpsilonClaim(1.5))
    once, twice = (audit([shifted(s, claims=claims)], runs=2_000, seed=7).rows for s in (1.0, 2.0))
    for before, after in zip(once, twice, strict=True):
        assert after.measured == pytest.approx(before.if_doubled, rel=0.25)
    assert [row.powerless for row in once] == [not row.violated for row in twice]


def test_the_same_seed_gives_the_same_table_and_another_one_another():
    subject = shifted(1.0)
    first, again, other = (audit([subject], runs=500, seed=s).rows for s in (1, 1, 2))
    assert first == again != other


def test_the_search_finds_the_worst_pair():
    subjects = [shifted(s) for s in (0.0, 0.4, 0.2, 1.2, 0.8, 0.1, 0.6, 0.3)]
    said = []
    found = worst(subjects, runs=400, seed=1, progress=said.append)
    assert found.pair == "shift 1.2"
    assert len(said) == 8 + 3


def test_claims_come_from_the_events_that_were_charged():
    fine = GaussianEvent(3 * 2**16, Fraction(12 * 2**16) ** 2, 10)
    epsilon, mu = claims_of([fine, fine], 1e-6)
    assert mu.mu == pytest.approx(math.sqrt(2) / 4)
    assert mu.slack < 1e-9
    assert 1.5 < epsilon.epsilon < 1.7
    assert claims_of([LaplaceEvent(4.0, Fraction(8))], 0.0) == (EpsilonClaim(0.5),)
    coarse = GaussianEvent(1.0, Fraction(9), 1)
    assert claims_of([coarse], 1e-6)[1].slack == pytest.approx(0.0202 / 9, rel=0.05)
    assert len(claims_of([GaussianEvent(1.0, Fraction(1, 4), 10)], 1e-6)) == 1


def test_nothing_to_do_is_refused():
    with pytest.raises(UsageError, match="something to test"):
        audit([], runs=1_000)
    with pytest.raises(UsageError, match="at least 64 runs"):
        audit([shifted(1.0)], runs=10)
    with pytest.raises(UsageError, match="nothing to choose"):
        worst([], runs=100)
    ragged = Subject("ragged", "any", (EpsilonClaim(1),), lambda w, n, _: np.zeros((n, 1 + w)))
    with pytest.raises(UsageError, match="different sizes"):
        audit([ragged], runs=100)


@pytest.fixture(scope="module")
def mixed():
    both = (EpsilonClaim(4.0, 1e-6), MuClaim(1.0))
    return audit([shifted(0.9, "good", both), shifted(1.6, "bad", both)], runs=3_000, seed=1)


def test_the_report_says_the_same_in_three_forms(mixed):
    markdown = as_markdown(mixed)
    assert sum(line.startswith("| ") for line in markdown.splitlines()) == 1 + len(mixed.rows)
    assert "| bad | shift 1.6 | μ ≤ 1 | 1." in markdown
    assert as_table(mixed).row_count == len(mixed.rows)
    plain = json.loads(json.dumps(as_json(mixed)))
    assert plain["violations"] == 1
    assert [row["violated"] for row in plain["rows"]] == [False, False, False, True]
    assert plain["rows"][3]["claim"] == {"mu": 1.0, "slack": 0.0}
    assert plain["rows"][3]["measured_if_normal"] > 1


def test_the_plot_is_drawn(mixed, tmp_path):
    pytest.importorskip("matplotlib")
    save_plot(mixed, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
