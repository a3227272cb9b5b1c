"""Sets of answers that give few away: the search against all sets, and every count the true one."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.attacks.queries.logged import Isolated, attack_log
from sfumato.cli.main import app
from sfumato.errors import InputError, UsageError
from sfumato.model.masks import Measure
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Question
from sfumato_lab.attacks.queries.differencing import FIRST, HOSPITAL, SECOND, hospital, unions
from sfumato_lab.attacks.queries.town import counter, threshold
from sfumato_lab.syntactic import Auditor, Visits

K = 4
Cells = frozenset[tuple[int, int]]


def frame_of(places: int, slots: int) -> Frame:
    grid = TimeGrid(np.arange(slots + 1) * 3_600_000_000, timedelta(hours=1), "UTC")
    return Frame(np.array([f"Z{k}" for k in range(places)]), grid)


def cells(question: Question) -> Cells:
    return frozenset(itertools.product(question.places, question.slots))


def who(held: Visits, inside: Cells, measure: Measure) -> set[Any]:
    """The people, or the visits, in some cells."""
    rows = zip(held.users.tolist(), held.places.tolist(), held.slots.tolist(), strict=True)
    found = {(u, p, t) for u, p, t in rows if (p, t) in inside}
    return {u for u, *_ in found} if measure is Measure.UNIQUE_PEOPLE else found


def isolated(held: Visits, one: Isolated, asked: list[Question]) -> set[Any]:
    """Who a set is about, from the records."""
    sets = [who(held, cells(asked[number]), one.measure) for number in one.questions]
    if one.kind == "overlap":
        shared = set.intersection(*sets[: 2 if len(sets) < 7 else 3])
        return shared - sets[3] if len(sets) == 4 else shared
    return sets[0].difference(*sets[1:])


def apart(parts: list[Any], covered: Cells) -> Iterator[list[Any]]:
    """Every set of parts that do not meet."""
    yield []
    for number, one in enumerate(parts):
        if not one[2] & covered:
            for others in apart(parts[number + 1 :], covered | one[2]):
                yield [one, *others]


def every_set(log: list[tuple[Question, float | None]]) -> set[tuple[str, frozenset[int]]]:
    """All sets of the three kinds, by their definition."""
    found = set()
    kept = [(n, q, cells(q), a) for n, (q, a) in enumerate(log) if a is not None]
    for measure in Measure:
        mine = [one for one in kept if one[1].measure is measure]
        additive = measure is Measure.VISITS
        by_cells = {inside: (n, a) for n, _, inside, a in mine}
        for (n, _, a, x), (m, _, b, y) in itertools.permutations(mine, 2):
            if a < b and y - x < K:
                found.add(("difference", frozenset((n, m))))
        for n, _, whole, total in mine if additive else ():
            parts = [one for one in mine if one[2] < whole]
            for some in apart(parts, frozenset()):
                covered = frozenset().union(*(one[2] for one in some))
                few = total - sum(one[3] for one in some) < K
                if 2 <= len(some) <= 6 and covered != whole and few:
                    found.add(("rest", frozenset((n, *(one[0] for one in some)))))

        def union(*sets: Cells, held: dict[Cells, Any] = by_cells) -> Any:
            return held.get(frozenset().union(*sets))

        for (n, p, a, x), (m, q, b, y) in itertools.combinations(mine, 2):
            both = union(a, b)
            straight = p.slots == q.slots or p.places == q.places
            if a <= b or b <= a or both is None or not straight or (additive and not a & b):
                continue
            shared = x + y - both[1]
            if shared < K:
                found.add(("overlap", frozenset((n, m, both[0]))))
            for o, r, c, z in mine:
                along = (p.slots == q.slots == r.slots) or (p.places == q.places == r.places)
                if (
                    c <= a & b
                    and along
                    and not (additive and c == a & b)
                    and z > 0
                    and shared - z < K
                ):
                    found.add(("overlap", frozenset((n, m, both[0], o))))
        for (n, p, a, x), (m, q, b, y), (o, r, c, z) in itertools.combinations(mine, 3):
            pairs, three = [union(a, b), union(a, c), union(b, c)], union(a, b, c)
            along = (p.slots == q.slots == r.slots) or (p.places == q.places == r.places)
            separate = not any(s <= t for s, t in itertools.permutations((a, b, c), 2))
            if None in pairs or three is None or not along or not separate:
                continue
            shared = [x + y - pairs[0][1], x + z - pairs[1][1], y + z - pairs[2][1]]
            met = not additive or (a & b & c)
            if met and min(shared) >= 1 and sum(shared) - x - y - z + three[1] < K:
                found.add(("overlap", frozenset((n, m, o, three[0], *(one[0] for one in pairs)))))
    return found


def instance(seed: int) -> tuple[Visits, list[Question], list[tuple[Question, float | None]]]:
    """Some places are thin, most people were in two of them: answers are of K, differences less."""
    rng = np.random.default_rng([91, seed])
    places, slots = [(6, 1), (4, 2), (1, 6)][seed % 3]
    frame, many = frame_of(places, slots), int(rng.integers(40, 120))
    share = 10 ** rng.uniform(-1.3, 0, places * slots)
    cell = rng.choice(places * slots, size=(many, 2), p=share / share.sum()).ravel()
    held = Visits(np.repeat(np.arange(many), 2), cell // slots, cell % slots)
    asked = []
    for _ in range(50):
        where = np.flatnonzero(rng.random(places) < 0.5).tolist() or [0]
        when = np.flatnonzero(rng.random(slots) < 0.5).tolist() or [0]
        asked.append(frame.question(list(Measure)[int(rng.integers(2))], where, when))
    return held, asked, list(zip(asked, threshold(counter(held, frame), K)(asked), strict=True))


def test_the_search_finds_what_all_sets_hold_and_every_count_is_true() -> None:
    kinds: Counter[tuple[str, int]] = Counter()
    for seed in range(30):
        held, asked, log = instance(seed)
        found = attack_log(log, k=K)
        assert (found.complete, found.rest) == (True, 200)
        first = {question: number for number, question in reversed(list(enumerate(asked)))}
        once = [(q, a if first[q] == n else None) for n, (q, a) in enumerate(log)]
        assert {(one.kind, frozenset(one.questions)) for one in found.found} == every_set(once)
        for one in found.found:
            assert one.count == len(isolated(held, one, asked)) < K
            kinds[one.kind, len(one.questions)] += 1
    every = {("difference", 2), ("overlap", 3), ("overlap", 4), ("overlap", 7)}
    assert kinds.keys() >= every | {("rest", 3), ("rest", 4), ("rest", 5)}
    assert min(kinds[one] for one in every) >= 20


def test_seven_and_more_answers_among_random_ones() -> None:
    """Six parts, and John, in a log of two thousand random ranges: found, and nothing untrue."""
    rng = np.random.default_rng(92)
    frame = frame_of(200, 24)
    where, when = rng.integers(200, size=30_000), rng.integers(24, size=30_000)
    kept = ~((where == 117) & (when == 5))
    held = Visits(
        np.r_[rng.integers(9_000, size=int(kept.sum())), 3, 4],
        np.r_[where[kept], 117, 117],
        np.r_[when[kept], 5, 5],
    )
    edges = [(100, 110, 0, 24), (110, 117, 0, 24), (118, 131, 0, 24), (131, 140, 0, 24)]
    edges += [(117, 118, 0, 5), (117, 118, 6, 24)]
    ranges = [(100, 140, 0, 24), *edges]
    for _ in range(2_000):
        a, b = np.sort(rng.choice(201, 2, replace=False))
        c, d = np.sort(rng.choice(25, 2, replace=False))
        ranges.append((int(a), int(b), int(c), int(d)))
    asked = [frame.question("visits", range(a, b), range(c, d)) for a, b, c, d in ranges]
    log = list(zip(asked, threshold(counter(held, frame), 10)(asked), strict=True))
    found = attack_log(log, k=10, steps=1_000_000)
    assert found.rest >= 8, "questions lie so densely that steps end before 200"
    (six,) = [one for one in found.found if set(one.questions) == set(range(7))]
    assert (six.kind, six.questions[0], six.count) == ("rest", 0, 2)
    for one in found.found[:20]:
        assert one.count == len(isolated(held, one, asked))


@pytest.mark.parametrize("visited", [True, False])
def test_john_is_found_in_a_log(visited: bool) -> None:
    frame, held = hospital(visited, np.random.default_rng(7), crowd=3_000)
    asked = [one for _, one in unions(frame, [[HOSPITAL], [FIRST], [SECOND]], [0])]
    log = list(zip(asked, threshold(counter(held, frame), 20)(asked), strict=True))
    (seven,) = [one for one in attack_log(log, k=20).found if len(one.questions) == 7]
    assert seven.count == visited
    assert min(answer for _, answer in log if answer is not None) >= 20


def test_equal_questions_refusals_and_disjoint_visits_tell_nothing() -> None:
    frame = frame_of(4, 1)
    halves = ([0, 1], [2, 3], range(4))
    west, east, both = (frame.question("visits", zones, [0]) for zones in halves)
    assert not attack_log([(west, 9.0), (west, 9.0)], k=5).found
    assert not attack_log([(west, 9.0), (east, 9.0), (both, 18.0)], k=5).found
    assert not attack_log([(west, 9.0), (both, None)], k=5).found
    (one,) = attack_log([(west, 9.0), (both, 12.0)], k=5).found
    assert (one.kind, one.questions, one.count) == ("difference", (1, 0), 3)
    people = [frame.question("unique_people", zones, [0]) for zones in halves]
    (two,) = attack_log(list(zip(people, (9.0, 9.0, 16.0), strict=True)), k=5).found
    assert (two.kind, two.count) == ("overlap", 2)


def test_a_log_of_all_ranges_ends() -> None:
    """Every two of them have a union: what is not listed is said."""
    frame = frame_of(60, 1)
    pairs = itertools.combinations(range(61), 2)
    log = [(frame.question("visits", range(a, b), [0]), 100.0 * (b - a)) for a, b in pairs]
    found = attack_log(log, k=101, steps=200_000)
    assert not found.complete
    assert found.found


def test_what_is_no_log_is_refused() -> None:
    frame, other = frame_of(4, 1), frame_of(5, 1)
    one = frame.question("visits", [0], [0])
    with pytest.raises(UsageError, match="different places"):
        attack_log([(one, 1.0), (other.question("visits", [0], [0]), 1.0)], k=5)
    with pytest.raises(UsageError, match="whole numbers"):
        attack_log([(one, 1.5), (frame.question("visits", [1], [0]), 2.0)], k=5)
    with pytest.raises(UsageError, match="at least 1"):
        attack_log([], k=0)


SECRET = "imsi-208-01-4711"


def command(log: Path, out: Path, *more: str) -> Any:
    given = ["attack", "queries", "--log", str(log), "--k", "5", "--out", str(out), *more]
    return CliRunner().invoke(app, given)


def test_an_auditors_log_through_the_command(tmp_path: Path) -> None:
    """Two places with 20 people each and one with two: the whole and all but the thin one."""
    frame = frame_of(3, 1)
    people = np.arange(42)
    held = Visits(people, np.where(people < 40, people % 2, 2), np.zeros(42, np.int64))
    log = tmp_path / "questions.internal.jsonl"
    auditor = Auditor(frame, held, k=5, people=1000, log=log)
    asked = [frame.question("visits", zones, [0]) for zones in ([0, 1, 2], [0, 1], [2])]
    assert auditor(asked) == [42, 40, None]
    done = command(log, tmp_path / "out", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    said = json.loads((tmp_path / "out" / "log-attack.internal.json").read_text())
    assert json.loads(done.stdout) == {"internal": said}
    (one,) = said["sets"]
    assert (one["kind"], one["questions"], one["count"]) == ("difference", [1, 2], 2)
    page = (tmp_path / "out" / "log-attack.internal.html").read_text()
    assert "INTERNAL" in page
    assert "+ 42 (question 1: places 0–2; slots 0)" in page
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "out").iterdir())
    assert "do not publish" in command(log, tmp_path / "out").stderr


def test_a_list_of_answers_through_the_command(tmp_path: Path) -> None:
    lines = [
        {"measure": "visits", "zones": ["<b>", "b"], "slots": ["night"], "answer": 30},
        {"measure": "visits", "zones": ["b"], "slots": ["night"], "answer": 29},
        {"measure": "visits", "zones": ["c"], "slots": ["night"], "answer": None},
    ]
    log = tmp_path / "answers.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert command(log, tmp_path, "--quiet").exit_code == 0
    said = json.loads((tmp_path / "log-attack.internal.json").read_text())
    assert [one["count"] for one in said["sets"]] == [1]
    assert "<b>" not in (tmp_path / "log-attack.internal.html").read_text()
    wrong = (
        "", "[]", "17", "{}", "[" * 5_000, f'{{"measure": "{SECRET}"}}', "\x00",
        '{"measure": "visits", "zones": "a", "slots": [0], "answer": 3}',
        '{"measure": "visits", "zones": [], "slots": [0], "answer": 3}',
        '{"measure": "visits", "zones": [[1]], "slots": [0], "answer": 3}',
        '{"measure": "visits", "zones": ["a"], "slots": [0], "answer": 3.5}',
        '{"measure": "visits", "zones": ["a"], "slots": [0], "answer": -3}',
        '{"questions": [{"measure": "visits", "places": [[0]], "slots": []}], "answers": [1]}',
        '{"questions": [], "answers": [1]}',
    )  # fmt: skip
    for text in wrong:
        log.write_text(text)
        done = command(log, tmp_path)
        assert isinstance(done.exception, InputError), text[:80]
        assert SECRET not in f"{done.output}{done.exception}"


def test_a_log_in_which_nothing_is_found_has_no_empty_table(tmp_path: Path) -> None:
    log = tmp_path / "answers.jsonl"
    log.write_text('{"measure": "visits", "zones": ["a"], "slots": [0], "answer": 40}\n')
    said = command(log, tmp_path / "out").stderr
    assert "1 questions" in said
    assert "from these answers" not in said
    page = (tmp_path / "out" / "log-attack.internal.html").read_text()
    assert "from these answers" not in page
    assert "is not safe" in page
