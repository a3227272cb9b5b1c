"""Questions: one form, equal sets equal keys, and refusals from public facts alone."""

from __future__ import annotations

import json
from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pytest
import shapely

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.masks import Masks
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Measure, QuestionSet, Want, parse_question

GRID = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")
IDS = np.array([f"Z{k}" for k in range(9)])
SQUARES = np.array([shapely.box(k % 3, k // 3, k % 3 + 1, k // 3 + 1) for k in range(9)])
FRAME = Frame(IDS, GRID, SQUARES)


def asked(**words: Any) -> tuple[Any, Want]:
    return parse_question({"measure": "visits", **words}, FRAME)


def test_the_form_of_the_issue() -> None:
    text = """{"measure": "visits", "zones": ["Z4", "Z1"], "from": "2007-09-10T08:00",
               "to": "2007-09-10T10:00", "want": {"epsilon": 0.1}}"""
    question, want = parse_question(text, FRAME)
    assert (question.measure, question.places, question.slots) == (Measure.VISITS, (1, 4), (8, 9))
    assert want == Want(epsilon=0.1)
    assert FRAME.told(question) == (
        "visits in Z1, Z4, 2 slots from Mon 2007-09-10 08:00 to Mon 2007-09-10 10:00"
    )
    assert asked(want={"plus_minus": 50}, clip=3)[1] == Want(plus_minus=50.0, clip=3)
    assert asked()[1] == Want()


def test_questions_are_told_in_few_words() -> None:
    question = FRAME.question("visits", range(4), [8])
    assert "visits in Z0, Z1, Z2 and 1 other, 1 slot" in FRAME.told(question)
    assert "and 2 others" in FRAME.told(FRAME.question("visits", range(5), [8]))
    assert repr(question) == "<Question: visits, 4 of the places, 1 of the slots>"


def test_a_paraphrase_is_the_same_question() -> None:
    said = [
        asked(zones=["Z0", "Z1", "Z1"], hours="8-10", weekdays="mon"),
        asked(zones=["Z1", "Z0"], **{"from": "2007-09-10T08:00", "to": "2007-09-10T10:00"}),
        asked(polygon="0,0,2,0.9", hours=[9, 8], to="2007-09-11"),
        asked(
            polygon={"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]]},
            **{"from": "2007-09-10T06:00+00:00", "to": "2007-09-10T08:00Z"},
        ),
    ]
    assert len({question.key() for question, _ in said}) == 1
    assert len({question for question, _ in said}) == 1
    assert asked(zones="all")[0] == asked()[0]


def test_keys_tell_measure_sets_and_frame_apart() -> None:
    other = Frame(IDS[:5], GRID)
    keys = {
        FRAME.question(measure, places, slots).key()
        for measure, places, slots in product(Measure, ([0], [1], [0, 1]), ([0], [1], [0, 1]))
    }
    assert len(keys) == 18
    assert other.question("visits", [0], [0]).key() not in keys
    assert (
        FRAME.question("visits", [0, 1], [2]).key() != FRAME.question("visits", [0], [1, 2]).key()
    )


def test_containment_and_disjointness_are_those_of_the_pairs() -> None:
    rng = np.random.default_rng(3)
    small = Frame(IDS[:4], TimeGrid(GRID.edges[:4], GRID.step, GRID.tz))
    subsets = [np.flatnonzero(bits) for bits in product((0, 1), repeat=3) if any(bits)]
    for _ in range(300):
        one, two = (
            small.question("visits", subsets[rng.integers(7)], subsets[rng.integers(7)])
            for _ in range(2)
        )
        first, second = (set(product(q.places, q.slots)) for q in (one, two))
        assert one.contains(two) == (first >= second)
        assert one.disjoint(two) == first.isdisjoint(second)
    with pytest.raises(UsageError, match="different places"):
        one.contains(FRAME.question("visits", [0], [0]))


def test_what_is_kept_is_read_again() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        question = FRAME.question(
            "unique_people",
            np.flatnonzero(rng.random(9) < 0.5).tolist() or [3],
            np.flatnonzero(rng.random(168) < 0.3).tolist() or [3],
        )
        assert FRAME.stored(json.loads(json.dumps(question.stated()))) == question
    with pytest.raises(UsageError, match="other places"):
        Frame(IDS[:5], GRID).stored(question.stated())


def test_masks_have_the_bits_of_their_questions() -> None:
    rng = np.random.default_rng(5)
    questions = tuple(
        FRAME.question("visits", rng.integers(0, 9, 4).tolist(), rng.integers(0, 168, 20).tolist())
        for _ in range(130)
    )
    masks = QuestionSet(FRAME, questions).masks
    assert masks.places.shape == (9, 3)
    assert masks.slots.shape == (168, 3)
    for k, question in enumerate(questions):
        bit = np.uint64(k % 64)
        inside = (masks.places[:, k // 64] >> bit) & np.uint64(1)
        assert tuple(np.flatnonzero(inside)) == question.places
        inside = (masks.slots[:, k // 64] >> bit) & np.uint64(1)
        assert tuple(np.flatnonzero(inside)) == question.slots
    again = QuestionSet(FRAME, questions).masks
    assert masks.digest() == again.digest() != QuestionSet(FRAME, questions[1:]).masks.digest()
    with pytest.raises(UsageError, match="at once"):
        Masks.of(1, 1, [])


def test_a_place_is_in_a_polygon_where_its_middle_is() -> None:
    assert asked(polygon="0,0,1.6,0.9")[0].places == (0, 1)
    assert asked(polygon="POLYGON((0 0, 3 0, 3 3, 0 3, 0 0))")[0].places == tuple(range(9))
    with pytest.raises(InputError, match="No place lies in the polygon"):
        asked(polygon="7,7,8,8")
    with pytest.raises(InputError, match="no outlines"):
        parse_question({"measure": "visits", "polygon": "0,0,1,1"}, Frame(IDS, GRID))


@pytest.mark.privacy
def test_no_question_opens_a_file(tmp_path: Any) -> None:
    """Whoever asks is not the holder: a path in a question is no shape."""
    path = tmp_path / "area.geojson"
    path.write_text(shapely.to_geojson(shapely.box(0, 0, 2, 2)))
    with pytest.raises(UsageError, match="polygon cannot be read"):
        asked(polygon=str(path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"measure": "people"}, "`measure`"),
        ({"measure": None}, "`measure`"),
        ({"zone": ["Z1"]}, "no word 'zone'"),
        ({"zones": ["Z1"], "polygon": "0,0,1,1"}, "one of the two"),
        ({"zones": []}, "No zone is named"),
        ({"zones": [1]}, "list of texts"),
        ({"zones": ["Q1"]}, "The map has no zone 'Q1'"),
        ({"zones": ["Q" * 4000]}, "no place has"),
        ({"from": "2007-09-09"}, "start lies outside of the period"),
        ({"to": "2007-09-10T00:30"}, "does not fall on a slot"),
        ({"from": "0001-01-01"}, "neither a date nor a time|outside of the period"),
        ({"from": 5}, "as text"),
        ({"from": "2007-09-12", "to": "2007-09-12"}, "not after"),
        ({"hours": "8-10-12"}, "hours are not understood"),
        ({"hours": [8.5]}, "hours are not understood"),
        ({"hours": True}, "hours are not understood"),
        ({"hours": 3, "to": "2007-09-10T02:00"}, "The period has no such hours"),
        ({"weekdays": {"mon": 1}}, "weekdays are not understood"),
        ({"clip": 0}, "from 1 to 168"),
        ({"clip": 169}, "from 1 to 168"),
        ({"clip": 2.0}, "from 1 to 168"),
        ({"measure": "unique_people", "clip": 1}, "nothing to clip"),
        ({"want": {}}, "`want` names one"),
        ({"want": {"epsilon": 1, "plus_minus": 2}}, "`want` names one"),
        ({"want": {"relative": 0.1}}, "share of itself"),
        ({"want": {"epsilon": -1}}, "positive number"),
        ({"want": {"epsilon": float("nan")}}, "positive number"),
        ({"want": {"plus_minus": 10**400}}, "positive number"),
        ({"want": {"plus_minus": True}}, "positive number"),
        ({"want": {"plus_minus": "5"}}, "positive number"),
    ],
)
def test_what_is_not_of_the_form_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(SfumatoError, match=message):
        asked(**words)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"measure": "visits", "measure": "visits"}',
        "[" * 100_000,
        "nan",
        '{"measure": "visits", "want": {"epsilon": NaN}}',
        '"' + "x" * (1 << 20) + '"',
    ],
)
def test_what_is_no_question_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_question(text, FRAME)
