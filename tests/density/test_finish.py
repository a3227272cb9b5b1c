"""Whole numbers that keep totals, and levels that are exact sums."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, PublicFacts
from sfumato.density.tables import level_table, whole_city, whole_numbers
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
