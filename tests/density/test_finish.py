"""Whole numbers that keep totals, and levels that are exact sums."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, PublicFacts
from sfumato.density.tables import density_table, level_table, whole_city, whole_numbers
from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid

GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "8h", "UTC")


def density(values: np.ndarray) -> Density:
    ids = np.array([f"z{k}" for k in range(values.shape[0])])
    return Density(ids, values, np.maximum(values - 0.7, 0), values + 0.7, 0.9, ())


def test_whole_numbers_keep_the_total_of_each_slot() -> None:
    whole = whole_numbers(density(np.array([[0.4, 2.5, 0.0], [0.4, 1.5, 0.2], [0.4, 0.1, 0.2]])))
    assert whole.values.tolist() == [[1, 3, 0], [0, 1, 0], [0, 0, 0]]
    assert whole.values.dtype == np.int64
    assert (whole.lower <= whole.values).all()
    assert (whole.values <= whole.upper).all()


def test_medians_are_whole_too_and_stay_in_their_interval() -> None:
    values = np.array([[0.4, 2.5, 0.0], [0.4, 1.5, 0.2]])
    made = replace(density(values), median=np.array([[0.2, 2.6, 0.0], [0.3, 1.2, 0.6]]))
    whole = whole_numbers(made)
    assert whole.median is not None
    assert whole.median.tolist() == [[0, 3, 0], [0, 1, 1]]
    assert whole.median.dtype == np.int64
    assert ((whole.lower <= whole.median) & (whole.median <= whole.upper)).all()


def test_a_table_has_the_columns_that_the_scheme_has() -> None:
    values = np.array([[0.4, 2.5, 0.0]])
    made, keys = density(values), ["zone_id", "time_start", "time_end", "count"]
    assert density_table(made, GRID).column_names == [*keys, "lower", "upper"]
    told = replace(made, median=values)
    assert density_table(told, GRID).column_names == [*keys, "median", "lower", "upper"]
    bare = replace(made, lower=None, upper=None, coverage=None)
    assert density_table(bare, GRID).column_names == keys
    assert density_table(whole_numbers(bare), GRID).column_names == keys
    assert level_table(told, whole_city(told), GRID, "city_id").column_names[-1] == "count"


@pytest.mark.parametrize(
    "wrong",
    [
        {"coverage": None},
        {"lower": None, "upper": None},
        {"coverage": 0.0},
        {"median": np.zeros((2, 3))},
    ],
)
def test_half_an_interval_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(density(np.array([[0.4, 2.5, 0.0]])), **wrong)


def test_what_is_no_number_is_a_failure_of_arithmetic() -> None:
    """Not a wrong request: the release is published all the same, by its last resort."""
    with pytest.raises(FloatingPointError):
        replace(density(np.array([[0.4, 2.5, 0.0]])), median=np.array([[0.0, np.nan, 0.0]]))


@settings(max_examples=25, deadline=None)
@given(arrays(np.int64, (5, 3), elements=st.integers(0, 10**9)))
def test_sums_are_exact_to_the_last_decimal(thousandths: np.ndarray) -> None:
    made = density(thousandths / 1000)
    parents = np.array(["b", "a", "b", "a", "b"])
    districts = level_table(made, parents, GRID, "district_id")
    assert districts["district_id"].to_pylist() == ["a"] * 3 + ["b"] * 3
    wanted = np.array([thousandths[1::2].sum(axis=0), thousandths[::2].sum(axis=0)]) / 1000
    assert (districts["count"].to_numpy().reshape(2, 3) == wanted).all()
    city = level_table(made, whole_city(made), GRID, "city_id")
    assert (city["count"].to_numpy() == thousandths.sum(axis=0) / 1000).all()


@pytest.mark.parametrize(("name", "said"), [("bayes", "totals per place"), ("paris", "250 visits")])
def test_the_bound_in_words_is_the_schemes_own(name: str, said: str) -> None:
    facts = PublicFacts(np.array(["a", "b"]), GRID, 1.0, 1e-7, expected_users=1_000_000)
    bound = scheme_named(name).plan(facts).bound
    assert said in bound
