from __future__ import annotations

import copy
from typing import Any

import pytest

from sfumato.reports.privacy_label import figure, fill, label_facts, load_words, upward

WORDS = load_words()


def manifest() -> dict[str, Any]:
    return {
        "release": {"name": "W", "dataset": "D", "id": "1", "reserved_at": "2026-05-04T09:00:00Z"},
        "privacy": {
            "unit": "user-period",
            "neighbours": "add or remove",
            "bound": "weight 3",
            "counting": "visits",
            "epsilon": 0.3,
            "delta": 2e-7,
            "cumulative": {"lifetime": {"releases": 3, "epsilon": 0.52, "delta": 1e-6}},
        },
        "scheme": {"name": "bayes", "interval_coverage": 0.95},
        "software": {"sfumato": "0.1.0"},
    }


def values(facts: dict[str, Any]) -> dict[str, str]:
    return {row["term"]: row["value"] + " | " + row["note"] for row in facts["rows"]}


def test_the_label_says_unit_epsilon_delta_spend_method_bound_and_date() -> None:
    shown = values(label_facts(manifest(), WORDS))
    assert shown["Protects"].startswith("one person's whole record")
    assert shown["Privacy loss"].startswith("ε = 0.3, δ = 2×10⁻⁷ | ")
    assert "35 %" in shown["Privacy loss"], "e^0.3 is 1.35"
    assert "may differ by 1 in 5,000,000." in shown["Privacy loss"]
    assert shown["Releases so far"].startswith("3 about these people, this one included")
    assert sum("ε" in text for text in shown.values()) == 1, "one epsilon, with its delta"
    spent = label_facts(manifest(), WORDS)["caveats"][-1]
    assert "is ε = 0.52 at δ = 10⁻⁶." in spent
    assert spent.endswith("the two cannot be compared."), "its own δ is another"
    assert shown["Method"].startswith("bayes")
    assert shown["Limit per person"].startswith("weight 3")
    assert shown["Date"].startswith("2026-05-04")


@pytest.mark.parametrize("part", ["release", "privacy", "scheme", "software"])
def test_missing_parts_give_fewer_rows_and_no_inventions(part: str) -> None:
    full = manifest()
    less = copy.deepcopy(full)
    del less[part]
    rows = label_facts(less, WORDS)["rows"]
    assert len(rows) < len(label_facts(full, WORDS)["rows"])
    assert all(row in label_facts(full, WORDS)["rows"] for row in rows)
    assert label_facts({}, WORDS)["rows"] == []


def test_a_folded_period_is_not_shown_as_one_week() -> None:
    fold = {"to": "week", "repeats": 4, "start": "2024-01-01T00:00:00+01:00",
            "end": "2024-01-29T00:00:00+01:00"}  # fmt: skip
    facts = label_facts(manifest() | {"grid": {"tz": "Europe/Paris", "fold": fold}}, WORDS)
    assert facts["period"] == "a typical week of 2024-01-01 to 2024-01-29"
    assert "all 4 weeks from 2024-01-01 to 2024-01-29" in values(facts)["Counts"]
    assert "period" not in label_facts(manifest(), WORDS)


def test_what_protects_nobody_is_said_loudly() -> None:
    for change in (
        {"tainted": True},
        {"differential_privacy": False},
        {"scheme": {"as_published": True}},
    ):
        assert label_facts(manifest() | change, WORDS)["warnings"]
    assert label_facts(manifest(), WORDS)["warnings"] == []


def test_figures_read_well() -> None:
    assert [figure(v) for v in (0.3, 1e-6, 2.5e-7, 0, 12345.6)] == [
        "0.3", "10⁻⁶", "2.5×10⁻⁷", "0", "12,346",
    ]  # fmt: skip


def test_a_privacy_loss_is_never_rounded_down() -> None:
    assert [upward(v) for v in (0.3, 0.30001, 0.9999999999999493, 2e-7, 2.001e-7)] == [
        "0.3", "0.301", "1", "2×10⁻⁷", "2.01×10⁻⁷",
    ]  # fmt: skip


def test_large_epsilons_are_factors() -> None:
    loud = manifest()
    loud["privacy"]["epsilon"] = 3.0
    assert "a factor of 20.1" in values(label_facts(loud, WORDS))["Privacy loss"]
    assert fill("{a}{b}", a=1) == "1{b}"
