"""The auditor: what it answers, what it refuses, and the three flaws that the chapter names."""

from __future__ import annotations

import itertools
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Question
from sfumato_lab.syntactic import Auditor, Visits, Why


def frame_of(places: int, slots: int) -> Frame:
    grid = TimeGrid(np.arange(slots + 1) * 3_600_000_000, timedelta(hours=1), "UTC")
    return Frame(np.array([f"Z{k}" for k in range(places)]), grid)


def visits_of(rows: list[tuple[int, int, int]]) -> Visits:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Visits(table[:, 0], table[:, 1], table[:, 2])


def town(seed: int = 3, people: int = 200, places: int = 6, slots: int = 4) -> Visits:
    rng = np.random.default_rng(seed)
    rows = [(u, int(rng.integers(places)), t) for u in range(people) for t in range(slots)]
    return visits_of(rows)


def test_answers_are_exact_and_few_people_are_refused() -> None:
    frame, here = frame_of(6, 4), town()
    auditor = Auditor(frame, here, k=30, people=1000)
    whole = frame.question("visits", range(6), range(4))
    anyone = frame.question("unique_people", range(3), range(4))
    assert auditor([whole, anyone]) == [800, len(np.unique(here.users[here.places < 3]))]
    cell = frame.question("visits", [0], [0])
    assert auditor.exact(cell) == np.sum((here.places == 0) & (here.slots == 0))
    assert Auditor(frame, here, k=auditor.exact(cell), people=1000).answer(cell) is not None
    assert Auditor(frame, here, k=auditor.exact(cell) + 1, people=1000).answer(cell) is None


def test_a_set_is_refused_as_a_whole_and_stays_refused() -> None:
    """Everybody is in zone 0 at first: two counts that are each of many say that of zone 1."""
    frame = frame_of(3, 1)
    here = visits_of([(u, 0, 0) for u in range(20)] + [(u, 2, 0) for u in range(20, 60)])
    auditor = Auditor(frame, here, k=5, people=100)
    one, two = (frame.question("visits", zones, [0]) for zones in ([0, 1], [0]))
    third = frame.question("visits", [0, 2], [0])
    assert auditor([one, two]) == [None, None]
    assert auditor.internal_reasons == [Why.DISCLOSED, Why.DISCLOSED]
    assert auditor.answer(one) is None
    assert auditor.answer(third) == 60
    alone = Auditor(frame, here, k=5, people=100)
    assert alone.answer(one) == 20
    assert alone.answer(two) is None
    assert alone.answer(one) == 20


def test_known_people_are_protected_where_anyone_is_not() -> None:
    """One known person in each zone. Counts 3 of zones 0-3 and 2 of zones 0-2 give zone 3 away."""
    frame = frame_of(8, 1)
    here = visits_of([(u, u, 0) for u in (0, 2, 3, 5, 6)])
    first, second = (frame.question("visits", range(n), [0]) for n in (4, 3))
    known = Auditor(frame, here, k=1, universe="known", known=np.ones(8, np.int64), margin=None)
    assert (known.answer(first), known.answer(second)) == (3, None)
    anyone = Auditor(frame, here, k=1, people=100)
    assert (anyone.answer(first), anyone.answer(second)) == (3, 2)


def test_ranges_and_programs_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(81)
    frame, known, told = frame_of(10, 2), np.ones(10, np.int64), []
    cases = []
    for _ in range(150):
        here = visits_of([(u, u, t) for u in range(10) for t in range(2) if rng.random() < 0.5])
        cuts = [sorted(rng.choice(11, 2, replace=False).tolist()) for _ in range(4)]
        cases.append((here, [frame.question("visits", range(*cut), range(2)) for cut in cuts]))
    for _ in range(2):
        auditors = [
            (Auditor(frame, here, k=1, universe="known", known=known, margin=None), questions)
            for here, questions in cases
        ]
        told.append([one.answer(question) for one, many in auditors for question in many])
        monkeypatch.setattr("sfumato_lab.syntactic.universe.Ground._span", lambda *_: None)
    assert told[0] == told[1]
    assert 50 < told[0].count(None) < 550


def test_equations_of_ranges_say_what_the_questions_say() -> None:
    """Eq. 2 is given fewer entries, and neither more nor less than the answers."""
    rng = np.random.default_rng(83)
    frame, here = frame_of(12, 1), visits_of([(u, u, 0) for u in range(12) if rng.random() < 0.5])
    for _ in range(100):
        auditor = Auditor(
            frame, here, k=1, universe="known", known=np.ones(12, np.int64), margin=None
        )
        cuts = [
            sorted(rng.choice(13, 2, replace=False).tolist()) for _ in range(rng.integers(1, 7))
        ]
        asked = {q.key(): q for q in (frame.question("visits", range(*c), [0]) for c in cuts)}
        auditor._take(asked, {key: auditor.exact(q) for key, q in asked.items()})
        system, totals, _ = auditor._ground.system(auditor._answered)
        block = np.repeat(np.arange(system.sizes.size), system.sizes)
        spread = system.rows.toarray()[:, block]
        plain = np.array([[p in q.places for p in range(12)] for q in asked.values()], np.int64)
        ranks = [np.linalg.matrix_rank(m) for m in (spread, plain, np.vstack([spread, plain]))]
        assert len(set(ranks)) == 1
        assert len(spread) == ranks[0]
        assert np.array_equal(system.rows @ totals, system.low)


def test_an_order_of_places_makes_ranges_of_what_lies_together() -> None:
    frame = frame_of(4, 1)
    here = visits_of([(0, 3, 0), (1, 1, 0)])
    auditor = Auditor(
        frame, here, k=1, universe="known", known=np.ones(4, np.int64),
        order=np.array([3, 1, 0, 2]), margin=None,
    )  # fmt: skip
    assert auditor.answer(frame.question("visits", [3, 1, 0], [0])) == 2
    assert auditor._answered.spans[0] == ((0, 3),)
    assert auditor.answer(frame.question("visits", [1, 3], [0])) is None


# The simulatable rule.


def test_the_simulatable_rule_looks_at_questions_only() -> None:
    """The same refusals, whatever the data: here and on an empty town."""
    rng = np.random.default_rng(82)
    frame = frame_of(5, 3)
    full, empty = (
        Auditor(frame, here, rule="simulatable", least=3)
        for here in (town(4, 50, 5, 3), town(4, 0))
    )
    told = []
    for _ in range(30):
        places = rng.choice(5, rng.integers(1, 6), replace=False).tolist()
        slots = rng.choice(3, rng.integers(1, 4), replace=False).tolist()
        question = frame.question("visits", places, slots)
        told.append((full.answer(question) is None, empty.answer(question) is None))
    assert all(one == other for one, other in told)
    assert {one for one, _ in told} == {True, False}
    assert full.answer(frame.question("unique_people", range(5), range(3))) is None


def test_the_simulatable_rule_does_not_prevent_full_disclosure_of_bits() -> None:
    """An answer of 0 discloses every bit of a region, however large: no question tells that."""
    frame = frame_of(6, 4)
    auditor = Auditor(frame, town(5, 0), rule="simulatable", least=5)
    assert auditor.answer(frame.question("visits", range(6), range(4))) == 0


def test_support_is_not_simulatable() -> None:
    """One question, two data sets: refused in one of them. So k and the rule exclude each other."""
    frame = frame_of(1, 1)
    question = frame.question("visits", [0], [0])
    told = [
        Auditor(frame, visits_of([(u, 0, 0) for u in range(n)]), k=5, people=100).answer(question)
        for n in (4, 5)
    ]
    assert told == [None, 5]
    with pytest.raises(UsageError, match="would not be simulatable"):
        Auditor(frame, visits_of([]), rule="simulatable", least=2, k=5)


# What breaks it.

HOSPITAL, HOME, WORK = 0, 1, 2


def john(visited: bool) -> Visits:
    """300 people at each of the three places, who share no person; John at home and at work."""
    rows = [(300 * place + u, place, 0) for place in range(3) for u in range(300)]
    rows += [(1000, HOME, 1), (1000, WORK, 2)]
    return visits_of(rows + ([(1000, HOSPITAL, 3)] if visited else []))


def seven(frame: Frame) -> list[Question]:
    sets = [c for size in (1, 2, 3) for c in itertools.combinations((HOSPITAL, HOME, WORK), size)]
    return [frame.question("unique_people", places, range(4)) for places in sets]


@pytest.mark.parametrize("visited", [True, False])
def test_the_chapters_universe_lets_john_through(visited: bool) -> None:
    """|H and L1 and L2| by inclusion and exclusion, from seven counts of at least 300 people."""
    frame = frame_of(3, 4)
    auditor = Auditor(frame, john(visited), k=100, people=2000)
    told = auditor(seven(frame))
    answers = [answer for answer in told if answer is not None]
    assert len(answers) == 7
    assert min(answers) >= 300
    signs = [1, 1, 1, -1, -1, -1, 1]
    assert sum(s * a for s, a in zip(signs, answers, strict=True)) == int(visited)


def three_people_two_places() -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=6))


def asked(bits: tuple[int, ...], margin: float | None = None) -> list[int | None]:
    """Both counts of three people in two places, under the auditor; `bits` by person and place."""
    frame = frame_of(2, 1)
    here = visits_of([(i // 2, i % 2, 0) for i, bit in enumerate(bits) if bit])
    auditor = Auditor(frame, here, k=1, people=3, margin=margin)
    auditor.k = 0  # support is another rule: here Definition 5 alone
    return [auditor.answer(frame.question("visits", [place], [0])) for place in range(2)]


def test_first_flaw_refusals_leak() -> None:
    """A place's count is refused exactly if nobody or everybody was there: 28 of 64 data sets have
    such a place. Somebody who was there then knows of both others: .25 before, 1 after."""
    refused = [bits for bits in three_people_two_places() if None in asked(bits)]
    assert len(refused) == 28
    assert all(any(sum(bits[place::2]) in (0, 3) for place in range(2)) for bits in refused)
    mine = [bits for bits in three_people_two_places() if bits[0] == 1]
    others = [bits[2] == bits[4] == 1 for bits in mine]
    assert np.mean(others) == 0.25
    after = [bits[2] == bits[4] == 1 for bits in mine if asked(bits)[0] is None]
    assert np.mean(after) == 1.0


def test_second_flaw_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """q free questions separate up to 2^q blocks, and deciding them is coNP-hard; ranges make at
    most 2 q + 1. A program that ends without a proof is a refusal, which tells about the data."""
    frame, questions = frame_of(64, 1), 6
    here = visits_of([(u, u, 0) for u in range(0, 64, 3)])
    known = np.ones(64, np.int64)
    free, ranges = (
        Auditor(frame, here, k=1, universe="known", known=known, margin=None) for _ in range(2)
    )
    for bit in range(questions):
        places = [place for place in range(64) if place >> bit & 1]
        question = frame.question("visits", places, [0])
        free._take({question.key(): question}, {question.key(): free.exact(question)})
        ranges.answer(frame.question("visits", range(bit, 60 - bit), [0]))
    blocks = [one._ground.system(one._answered)[0].sizes.size for one in (free, ranges)]
    assert blocks[0] == 2**questions
    assert blocks[1] <= 2 * questions + 1
    hurried = Auditor(frame, here, k=1, universe="known", known=known, margin=None)
    thirds = list(range(0, 64, 3))
    pair = [frame.question("visits", places, [0]) for places in (thirds, [*thirds, 1])]
    late = SimpleNamespace(x=None, status=1)
    monkeypatch.setattr("sfumato_lab.syntactic.disclosure.milp", lambda *_, **__: late)
    assert hurried(pair) == [None, None]
    assert hurried.internal_reasons[0] is Why.UNDECIDED


def test_third_flaw_background_knowledge() -> None:
    """Whoever knows all people but one learns that one's bit from every answer that is given."""
    learnt = 0
    for bits in three_people_two_places():
        for place, answer in enumerate(asked(bits)):
            if answer is not None:
                others = bits[2 + place] + bits[4 + place]
                assert answer - others == bits[place]
                learnt += 1
    assert learnt == 96  # of 128 bits of the first person, in all 64 data sets


# The log.


def test_the_log_is_durable_and_the_next_run_knows_it(tmp_path: Path) -> None:
    frame, here = frame_of(6, 4), town()
    path = tmp_path / "questions.internal.jsonl"
    rules: dict[str, Any] = {"k": 30, "people": 1000, "log": path}
    first = frame.question("visits", range(5), range(4))
    told = Auditor(frame, here, **rules).answer(first)
    assert told is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Auditor(frame, here, **rules)
    assert again.answer(first) == told
    assert again.answered == 1
    assert len(path.read_text().splitlines()) == 2  # asked again, nothing new is written
    refused = frame.question("visits", [5], [0])
    assert Auditor(frame, here, **rules | {"log": tmp_path / "b.internal.jsonl"}).answer(refused)
    with path.open("ab") as end:
        end.write(b'{"questions": [')  # killed while it wrote: nothing was answered
    assert Auditor(frame, here, **rules).answer(first) == told
    with pytest.raises(UsageError, match="begun with another k"):
        Auditor(frame, here, **rules | {"k": 10}).answer(first)
    with pytest.raises(UsageError, match="begun with another data"):
        Auditor(frame, town(9), **rules).answer(first)
    with pytest.raises(UsageError, match="internal"):
        Auditor(frame, here, **rules | {"log": tmp_path / "questions.jsonl"})


def test_a_log_that_was_changed_is_refused(tmp_path: Path) -> None:
    frame, here = frame_of(6, 4), town()
    path = tmp_path / "questions.internal.jsonl"
    auditor = Auditor(frame, here, k=30, people=1000, log=path)
    for zones in (5, 4, 3):
        auditor.answer(frame.question("visits", range(zones), range(4)))
    lines = path.read_text().splitlines(keepends=True)
    changed = json.loads(lines[1]) | {"answers": [None]}
    for text in ("".join(lines[:1] + lines[2:]), "".join([lines[0], json.dumps(changed), "\n"])):
        path.write_text(text)
        with pytest.raises(InputError, match="damaged or was changed"):
            Auditor(frame, here, k=30, people=1000, log=path).answer(
                frame.question("visits", [0], [0])
            )


def test_the_answer_is_in_the_log_before_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot write, or is killed while it does, has answered nothing."""
    frame, path = frame_of(6, 4), tmp_path / "questions.internal.jsonl"
    auditor = Auditor(frame, town(), k=30, people=1000, log=path)
    question = frame.question("visits", range(5), range(4))

    def full(*_: object) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("sfumato_lab.syntactic.log.os.fsync", full)
    with pytest.raises(SfumatoError, match="nothing was answered"):
        auditor.answer(question)
    assert auditor.answered == 0


def test_whoever_asks_at_once_shares_one_log(tmp_path: Path) -> None:
    """Eight auditors, each with a handle and a lock of its own, as processes would have."""
    path = tmp_path / "questions.internal.jsonl"

    def ask(zones: int) -> int | None:
        frame = frame_of(6, 4)
        question = frame.question("visits", range(zones), range(4))
        return Auditor(frame, town(), k=30, people=1000, log=path).answer(question)

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(ask, [3, 4, 5, 3, 4, 5, 3, 4]))
    assert told == [*told[:3], *told[:3], *told[:2]]
    frame = frame_of(6, 4)
    reader = Auditor(frame, town(), k=30, people=1000, log=path)
    reader.answer(frame.question("visits", range(3), range(4)))
    assert reader.answered == 3


def test_what_does_not_go_together_is_refused() -> None:
    frame, here = frame_of(2, 1), visits_of([(0, 0, 0)])
    unfit: tuple[dict[str, Any], ...] = (
        {},
        {"k": 5},
        {"k": 5, "people": 10, "least": 3},
        {"k": 5, "universe": "known"},
        {"k": 5, "universe": "known", "known": np.ones(3, np.int64)},
        {"k": 5, "universe": "nobody", "people": 10},
        {"rule": "simulatable"},
        {"rule": "strict"},
    )
    for options in unfit:
        with pytest.raises(UsageError):
            Auditor(frame, here, **options)
    with pytest.raises(InputError, match="More people were counted"):
        Auditor(frame, visits_of([(u, 0, 0) for u in range(9)]), k=1, people=3)
