"""Bits read from noisy answers: how many, by the number of questions and by the size of the error.

n people have one fair bit each. A question is about a random half of them, and its answer has an
even error of at most alpha (Dinur & Nissim 2003): the solvers are those of
`sfumato_lab.attacks.queries.decode`. Three things are shown.

* *By questions*: errors within half of sqrt(n), and more and more questions.
* *By noise*: 4n questions, or n^2 where n is small, or Hadamard's n, and larger and larger errors,
  as multiples of sqrt(n). Dinur and Nissim: with errors of the order of sqrt(n) and below, a few
  questions a person give nearly everybody's bit. Independent errors of n^2 questions average out:
  then even errors in proportion to n are not enough.
* *The private desk* (`sfumato_lab.attacks.queries.town.Private`) at epsilon 1 beside it: its noise
  grows with the number of questions that it is planned for, and no guess is right more often than
  (e^epsilon + delta) / (1 + e^epsilon).

Answers about more than a few hundred people are drawn in memory; the desk is asked in the language
of questions. Solvers were made and tried with other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import canvas
from sfumato_lab.attacks.queries.decode import (
    PackedQuestions,
    from_hadamard,
    hadamard_counts,
    least_squares,
    minimax,
)
from sfumato_lab.attacks.queries.games import most_right
from sfumato_lab.attacks.queries.reconstruct import dinur_nissim
from sfumato_lab.attacks.queries.town import Bits, Private, Town
from sfumato_lab.studies.queries.page import Grid, Picture, Section, Tell, save_figure

PICTURE = "queries-reconstruction.internal.png"
PER_PERSON = (0.25, 0.5, 1, 2, 4, 8)
"""Questions a person."""
ROOTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Largest errors, in roots of the number of people."""
HALF = 0.5
"""The error while the number of questions varies, in roots."""
EPSILON, DELTA = 1.0, 1e-6
MOST_MINIMAX, MOST_SQUARED, MOST_ASKED = 256, 256, 256
"""People for whom the linear program is solved, n^2 questions are drawn, the desk is asked."""
ENOUGH = 0.9
"""Share of bits that counts as a town reconstructed."""
MINIMAX, LEAST_SQUARES, SQUARED, HADAMARD = (
    "minimax",
    "least squares",
    "least squares, N² questions",
    "Hadamard",
)
DESK = f"private desk, ε {EPSILON:g}, least squares"


@dataclass(frozen=True, slots=True)
class Row:
    """Bits that one attack had right, over all draws."""

    by: str
    """What varies: `questions` or `noise`."""
    attack: str
    people: int
    questions: int
    error: float
    """Largest error of an answer; the desk's standard deviation."""
    right: int
    guesses: int

    @property
    def share(self) -> float:
        return self.right / self.guesses

    @property
    def roots(self) -> float:
        """The error in roots of the number of people."""
        return self.error / math.sqrt(self.people)


def _random_halves(
    people: int, questions: int, error: float, solver: str, rng: np.random.Generator
) -> int:
    """Bits right from so many questions with errors drawn evenly from -error to error."""
    bits = rng.random(people) < 0.5
    noise = rng.uniform(-error, error, questions)
    if solver == MINIMAX:
        masks = rng.random((questions, people)) < 0.5
        found = minimax(masks, masks @ bits.astype(np.float64) + noise)
    else:
        packed = PackedQuestions.random(questions, people, rng)
        answers = packed.counts(bits.astype(np.float64)) + noise
        found = least_squares(packed, answers, variance=error**2 / 3)
    return _right(found > 0.5, bits)


def _hadamard(people: int, error: float, rng: np.random.Generator) -> int:
    bits = rng.random(people) < 0.5
    answers = hadamard_counts(bits) + rng.uniform(-error, error, people)
    return _right(from_hadamard(answers) > 0.5, bits)


def _desk(people: int, questions: int, rng: np.random.Generator) -> int:
    """Against the desk, whose whole budget is planned for these questions."""
    town, bits = Town.of(people), rng.random(people) < 0.5
    desk = Private(town.counter(bits), EPSILON, DELTA, questions, int(rng.integers(1 << 31)))
    variance = Private.variance(EPSILON, DELTA, questions)
    options: dict[str, Any] = {"questions": questions, "solver": "least-squares"}
    return dinur_nissim(desk, town, rng, variance=variance, **options).right(bits)


def _right(found: Bits, bits: Bits) -> int:
    return int((found == bits).sum())


Run = Callable[[np.random.Generator], int]


@dataclass(frozen=True, slots=True)
class _Case:
    by: str
    attack: str
    people: int
    questions: int
    error: float
    run: Run


def _cases(people: Sequence[int]) -> Iterator[_Case]:
    """Everything that is tried, with one draw of it."""

    def halves(by: str, attack: str, n: int, questions: int, error: float) -> _Case:
        run = partial(_random_halves, n, questions, error, attack)
        return _Case(by, attack, n, questions, error, run)

    for n in people:
        root = math.sqrt(n)
        solvers = [LEAST_SQUARES, MINIMAX] if n <= MOST_MINIMAX else [LEAST_SQUARES]
        for each in PER_PERSON:
            questions = max(1, round(each * n))
            for solver in solvers:
                yield halves("questions", solver, n, questions, HALF * root)
            if n <= MOST_ASKED:
                sd = math.sqrt(Private.variance(EPSILON, DELTA, questions))
                run = partial(_desk, n, questions)
                yield _Case("questions", DESK, n, questions, sd, run)
        for error in (roots * root for roots in ROOTS):
            for solver in solvers:
                yield halves("noise", solver, n, 4 * n, error)
            if n <= MOST_SQUARED:
                yield halves("noise", SQUARED, n, n * n, error)
            yield _Case("noise", HADAMARD, n, n, error, partial(_hadamard, n, error))


def reconstruction_rows(
    people: Sequence[int], *, draws: int, seed: int, tell: Tell = lambda _what, _share: None
) -> list[Row]:
    """Every case, with fresh bits, questions and errors in each draw.

    Args:
        people: Sizes of the towns, powers of two.
        draws: Of every case; of small towns more, so that each has as many bits as the middle one.
        seed: The same seed gives the same numbers.
        tell: Told of each case.

    Returns:
        Bits right, a row for each case.
    """
    cases, rows = list(_cases(people)), []
    middle = sorted(people)[len(people) // 2]
    for number, case in enumerate(cases):
        n = case.people
        tell(f"{n:,} people: {case.attack}, {case.questions:,} questions", number / len(cases))
        times = draws * max(1, min(middle // n, 8))
        right = sum(case.run(np.random.default_rng([seed, number, draw])) for draw in range(times))
        row = Row(case.by, case.attack, n, case.questions, case.error, right, times * n)
        rows.append(row)
    return rows


def breaking_error(rows: Sequence[Row]) -> float | None:
    """The largest error, on the line through the points, with `ENOUGH` of the bits right."""
    ordered = sorted(rows, key=lambda row: row.error)
    for one, other in pairwise(ordered):
        if one.share >= ENOUGH > other.share:
            part = (one.share - ENOUGH) / (one.share - other.share)
            return math.exp((1 - part) * math.log(one.error) + part * math.log(other.error))
    return None


def reconstruction_section(rows: Sequence[Row], picture: bool) -> Section:
    """Tables and what they say."""
    people = sorted({row.people for row in rows})
    bound = most_right(EPSILON, DELTA)
    asked = [row for row in rows if row.by == "questions"]
    noisy = [row for row in rows if row.by == "noise"]
    private = [row for row in asked if row.attack == DESK]
    blocks: list[str | Grid | Picture] = [
        "Every person has a fair bit, guessing is right half the time. A question is about a "
        "random half of the people, and its error is at most the figure stated.",
        _grid(
            f"Bits right by questions a person, errors within {HALF:g} √N",
            asked,
            lambda row: row.questions / row.people,
            lambda each: f"{each:g}",
        ),
        _grid(
            "Bits right by the largest error, 4N questions (N of Hadamard, N² where stated)",
            noisy,
            lambda row: row.roots,
            lambda roots: f"{roots:g} √N",
        ),
        _breaking(noisy, people),
    ]
    if picture:
        words = (
            "Left: bits right against the number of questions. Middle: against the largest error, "
            "in roots of N; all sizes fall on one line, which drops at √N. Right: the largest "
            f"error at which {ENOUGH:.0%} of the bits are right; N² questions also break errors "
            "far above √N."
        )
        blocks.insert(1, Picture(PICTURE, words))
    if private:
        most = max(row.share for row in private)
        blocks.append(
            f"The private desk at ε {EPSILON:g}, δ {DELTA:g}: at most {most:.1%} of the bits in "
            f"any row, where its promise allows {bound:.1%}. Its noise is planned for the number "
            "of questions: more of them do not help."
        )
    return Section("Reconstruction", blocks)


def _grid(
    caption: str,
    rows: Sequence[Row],
    across: Callable[[Row], float],
    named: Callable[[float], str],
) -> Grid:
    columns = sorted({round(across(row), 6) for row in rows})
    body = []
    for attack, people in sorted({(row.attack, row.people) for row in rows}):
        own = [row for row in rows if (row.attack, row.people) == (attack, people)]
        at = {round(across(row), 6): f"{row.share:.1%}" for row in own}
        body.append([f"{attack}, N {people:,}", *(at.get(column, "") for column in columns)])
    return Grid(caption, ["", *map(named, columns)], body)


def _breaking(noisy: Sequence[Row], people: Sequence[int]) -> Grid:
    body = []
    for attack in dict.fromkeys(row.attack for row in noisy):
        line = [attack]
        for n in people:
            own = [row for row in noisy if (row.attack, row.people) == (attack, n)]
            error = breaking_error(own)
            line.append("" if error is None else f"{error:.1f} ({error / math.sqrt(n):.2f} √N)")
        body.append(line)
    caption = f"Largest error at which {ENOUGH:.0%} of the bits are right"
    return Grid(caption, ["", *(f"N {n:,}" for n in people)], body)


_COLOURS = {
    MINIMAX: "#b3261e",
    LEAST_SQUARES: "#1d4ed8",
    SQUARED: "#7c3aed",
    HADAMARD: "#a16207",
    DESK: "#047857",
}
_MARKS = "osD^vP*"


def draw_reconstruction(rows: Sequence[Row], path: Path) -> None:
    """Three panels: by questions, by noise, and where it breaks."""
    figure = canvas((13.5, 4.9))
    left, middle, right = figure.subplots(1, 3)
    people = sorted({row.people for row in rows})
    marks = dict(zip(people, _MARKS, strict=False))
    for axes, by in ((left, "questions"), (middle, "noise")):
        own = [row for row in rows if row.by == by]
        for attack, n in dict.fromkeys((row.attack, row.people) for row in own):
            if attack == SQUARED:
                continue
            line = [row for row in own if (row.attack, row.people) == (attack, n)]
            x = [row.questions / n if by == "questions" else row.roots for row in line]
            axes.plot(
                *(x, [100 * row.share for row in line]),
                color=_COLOURS[attack],
                marker=marks[n],
                ms=4,
                lw=1.1,
                alpha=0.85,
            )
        axes.set_xscale("log", base=2)
        axes.axhline(50, color="grey", ls=":", lw=1)
        axes.set(ylim=(47, 101))
        ticks = sorted(
            {row.questions / row.people if by == "questions" else row.roots for row in own}
        )
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
        axes.minorticks_off()
        axes.grid(alpha=0.25, lw=0.5)
    bound = 100 * most_right(EPSILON, DELTA)
    left.axhline(bound, color=_COLOURS[DESK], lw=1.6)
    for height, words in ((bound + 0.7, f"the most that ε {EPSILON:g} allows"), (48.2, "guessing")):
        left.text(max(PER_PERSON), height, words, fontsize=8, ha="right")
    left.set(xlabel="questions a person", ylabel="bits right, %")
    left.set_title(f"errors within {HALF:g} √N", fontsize=10)
    middle.axvline(1.0, color="black", ls="--", lw=1.2)
    middle.text(1.06, 98, "√N", fontsize=10)
    middle.set(xlabel="largest error of an answer, in √N")
    middle.set_title("4N questions (Hadamard: N)", fontsize=10)
    _where_it_breaks(right, rows, people)
    _legends(figure, marks)
    save_figure(figure, path)


def _where_it_breaks(axes: Any, rows: Sequence[Row], people: Sequence[int]) -> None:
    for attack, colour in _COLOURS.items():
        points = []
        for n in people:
            own = [r for r in rows if r.by == "noise" and (r.attack, r.people) == (attack, n)]
            error = breaking_error(own) if own else None
            if error is not None:
                points.append((n, error))
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", ms=4, lw=1.4)
    ends = np.array([people[0], people[-1]], dtype=np.float64)
    axes.plot(ends, np.sqrt(ends), color="black", ls="--", lw=1.2)
    axes.text(ends[1], np.sqrt(ends[1]) * 1.12, "√N", fontsize=10, ha="right")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(people, [f"{n:,}" for n in people], fontsize=8)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.grid(alpha=0.25, lw=0.5)
    axes.set(xlabel="people", ylabel="largest error, in people")
    axes.set_title(f"where {ENOUGH:.0%} of the bits are still right", fontsize=10)


def _legends(figure: Any, marks: dict[int, str]) -> None:
    from matplotlib.lines import Line2D

    above = [(Line2D([], [], color=of, lw=1.6), name) for name, of in _COLOURS.items()]
    below = [(Line2D([], [], color="grey", marker=m, lw=0), f"N {n:,}") for n, m in marks.items()]
    nothing = (Line2D([], [], lw=0), "")
    # A legend is filled column by column: attacks stand in its first line, sizes in the second.
    both = [one for pair in zip_longest(above, below, fillvalue=nothing) for one in pair]
    lines, names = zip(*both, strict=True)
    figure.legend(
        lines, names, loc="outside lower center", ncols=len(both) // 2, fontsize=8, frameon=False
    )
