"""The reference of figures: what stands in docs/benchmarks is held against it by draws' spread."""

from __future__ import annotations

import json

import pytest
from tools import frozen


def figure(mean: float, error: float | None, draws: int = 20) -> frozen.Figure:
    return {"mean": mean, "error": error, "draws": draws}


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (figure(1.0, 0.1), figure(1.0, None), False),  # the same, whatever draws do
        (figure(1.0, 0.1), figure(1.3, 0.1), False),  # t = 2.1 of 19 degrees: p .05
        (figure(1.0, 0.1), figure(1.6, 0.1), True),  # t = 4.2: p .0005
        (figure(1.0, None), figure(1.3, 0.1), False),  # both have the new one's spread
        (figure(1.0, None), figure(1.6, 0.1), True),
        (figure(1.0, None), figure(1.1, None), True),  # and nothing to hold it against
        (figure(1.0, 0.1, 2), figure(1.6, 0.1, 2), False),  # two draws say little
        (figure(1.7, None, 1), figure(1.8, 0.1, 1), True),  # a figure without draws
    ],
)
def test_a_figure_differs_by_more_than_its_draws(
    before: frozen.Figure, after: frozen.Figure, differs: bool
) -> None:
    assert bool(frozen.differing({"cabs": before}, {"cabs": after})) == differs


def test_among_many_figures_each_has_to_differ_more() -> None:
    before = {f"cell {k}": figure(1.0, 0.1) for k in range(1000)}
    after = before | {"cell 7": figure(1.6, 0.1), "cell 8": figure(2.1, 0.1)}
    (problem,) = frozen.differing(before, after)
    assert problem.startswith("cell 8: 1 before, 2.1 now, more than")


def test_what_is_gone_is_named() -> None:
    assert frozen.differing({"cabs": figure(1, 0.1)}, {}) == ["cabs: is gone"]


def test_every_benchmark_of_the_reference_can_be_read() -> None:
    reference = json.loads(frozen.REFERENCE.read_text("utf-8"))
    assert len(reference["commit"]) == 40
    assert reference["benchmarks"].keys() == frozen.COMMANDS.keys() == frozen.READERS.keys()
    for name, part in reference["benchmarks"].items():
        assert part["command"] == frozen.COMMANDS[name]
        assert len(part["figures"]) >= 4
        assert frozen.figures(name).keys() & part["figures"].keys()
