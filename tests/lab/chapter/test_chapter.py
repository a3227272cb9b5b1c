"""The chapter's study: Table 1, John, two releases that collapse, weeks, Figure 1, the thesis."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato_lab.studies.chapter import models
from sfumato_lab.studies.chapter.figure1 import make_trips, read_roads, walk
from sfumato_lab.studies.chapter.study import Settings, study
from sfumato_lab.studies.chapter.thesis import (
    BAYES,
    EVERYBODY,
    NWA,
    POINTS,
    SUPPRESSED,
    THRESHOLD,
    Stand,
    range_error,
    thesis_rows,
)
from sfumato_lab.studies.chapter.towns import Town, cab_town, made_town
from sfumato_lab.studies.queries.errors import SMALL_CLIP, Answers


@pytest.fixture(scope="module")
def town() -> Town:
    return made_town(3_000, 7, towers=40, zones=30, outside=300)


@pytest.mark.parametrize("east", ["West US", "East US"])
def test_table_1_holds_with_either_label(east: str) -> None:
    tables = models.printed_tables(east)
    assert models.smallest_group(tables["(b) 2-anonymous"]) == 2
    assert models.smallest_support(tables["(c) 2²-anonymous"], 2)[0] == 3
    for records in tables.values():
        assert models.true_to_the_map(models.ORIGINAL, records) == (east == "East US")


def test_table_1_a_is_not_anonymous_for_two_pairs_alone() -> None:
    least, few = models.smallest_support(models.ORIGINAL, 2)
    assert least == 1
    assert few == [("Boston", "LA"), ("Boston", "Seattle")]
    assert models.smallest_group(models.ORIGINAL) == 1


def test_john_is_certain_from_exact_counts_and_within_e_epsilon_from_noise() -> None:
    rows = models.johns((0.3, 1.0), 50_000, 1)
    exact = [row for row in rows if row.epsilon is None]
    assert [(row.visited, row.did_not, row.left_out) for row in exact] == [(1, 1, 1), (1, 0, 0)]
    for row in rows:
        if row.epsilon is None:
            continue
        slack = 1.1 * math.exp(row.epsilon)
        assert row.visited <= slack * row.left_out
        assert row.did_not <= slack * row.left_out
        assert row.visited <= slack**2 * row.did_not


def test_a_year_of_weeks() -> None:
    year = models.weeks_rows()[-1]
    assert year.weeks == 52
    assert year.basic == pytest.approx(15.6)
    assert year.concentrated == pytest.approx(2.51609, abs=1e-4)
    assert year.root < year.concentrated < year.advanced


def test_two_releases_of_k_leave_a_handful(town: Town) -> None:
    found = models.two_releases(town.held, town.centres, town.slots, k=20)
    assert found.smallest >= 20
    assert found.common == found.people // 2
    assert found.left.median <= 5


@pytest.mark.slow
def test_two_releases_of_twenty_thousand_people_collapse() -> None:
    """Bar: median anonymity left of at most 3, k = 50, 1,303 towers."""
    made = made_town(31_200, 2_301, towers=1_303, zones=989, outside=0)
    found = models.two_releases(made.held, made.centres, made.slots, k=50)
    assert found.people >= 20_000
    assert found.smallest >= 50
    assert found.left.median <= 3


def _roads(folder: Path) -> Path:
    side = 12
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("node_id", "x", "y"))
        rows.writerows((n, 600 * (n % side), 600 * (n // side)) for n in range(side * side))
    with (folder / "edges.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("edge_id", "from_node", "to_node", "length"))
        for n in range(side * side):
            if n % side < side - 1:
                rows.writerow((f"e{n}", n, n + 1, 600))
            if n // side < side - 1:
                rows.writerow((f"n{n}", n, n + side, 600))
    return folder


def test_figure_1_on_a_made_network(tmp_path: Path) -> None:
    roads = read_roads(_roads(tmp_path / "oldenburg"))
    trips = make_trips(roads, 300, 1)
    steps = np.concatenate([np.hypot(*np.diff(one, axis=0).T) for one in trips.at])
    assert steps.max() <= 60_000 / 60 + 1e-6
    assert all((len(one) - 1) % 5 == 0 for one in trips.at)
    found = walk(trips, 3, 2_000.0, 1)
    assert 0 <= found.trash <= 1
    moved = found.moved()
    assert moved.size
    apart, mre, lost = found.density_error()
    assert 0 < apart < 1
    assert mre > 0
    assert 0 <= lost < 1
    # Without a tube members of a cluster are the same record: nothing moves less.
    assert walk(trips, 3, 0.0, 1).moved().mean() > moved.mean()


def test_no_road_graph_is_said() -> None:
    with pytest.raises(InputError, match="no road network"):
        read_roads(Path("nowhere"))
    with pytest.raises(InputError, match="Cabspotting is not there"):
        cab_town(None, 1)


def test_clipped_answers_are_those_of_the_engine(town: Town) -> None:
    questions = town.ground.ranges(12, 3)
    stand = Stand(town, questions)
    assert np.array_equal(town.inside.counts(), town.ground.truth)
    slow = Answers(town.ground, questions).clipped(SMALL_CLIP)
    assert stand.known.clipped(SMALL_CLIP).tolist() == slow.tolist()


def test_a_refusal_is_an_error_of_one() -> None:
    truth = np.array([20.0, 100.0, 5.0])
    assert range_error(np.array([np.nan, 110.0, np.nan]), truth) == pytest.approx((1 + 0.1) / 2)


def test_the_thesis_on_a_small_town(town: Town) -> None:
    methods = (THRESHOLD, NWA, SUPPRESSED, BAYES)
    rows = {
        row.method: row
        for row in thesis_rows(
            town, ranges=40, epsilons=(1.0,), draws=1, targets=400, seed=1, methods=methods
        )
    }
    assert list(rows) == list(methods)
    assert rows[THRESHOLD].mre < 0.05
    assert rows[THRESHOLD].inside[EVERYBODY].low > 0.2
    assert abs(rows[THRESHOLD].outside[EVERYBODY].value) < 0.2
    assert rows[NWA].inside[POINTS].value > 0.3
    most = rows[BAYES].allowed
    assert most is not None
    assert rows[BAYES].inside[EVERYBODY].low < most
    assert rows[BAYES].mre < rows[SUPPRESSED].mre


def test_the_page_has_every_part(tmp_path: Path) -> None:
    settings = Settings(figures=False, data=tmp_path, trips=200)
    _roads(tmp_path / "oldenburg")
    parts = ("table", "figure", "john", "weeks")
    page = study(settings, parts, tmp_path / "out", lambda *_: None)
    for title in ("Table 1", "Figure 1", "John", "52 weeks"):
        assert title in page
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"chapter.internal.html", "chapter.internal.md", "chapter-john.internal.json"} <= written
