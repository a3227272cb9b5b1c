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
    assert markdown.count("\n") == 2 + len(mixed.rows)
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
