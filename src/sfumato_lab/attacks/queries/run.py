"""`sfumato attack queries`: all attacks on answers, and the internal page about them.

`attack_queries` plays every attack against every kind of desk and gives plain scores; the page is
a head with its warning, a picture and tables.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sfumato.attacks.report import canvas, rich_table
from sfumato.attacks.traces.run import embedded, head, percent, table
from sfumato.errors import UsageError
from sfumato.io.write import write_bytes
from sfumato.model.source import Progress
from sfumato.published.folder import make_internal_folder
from sfumato_lab.attacks.queries.games import Game, Score, ledgered_desks, play, usual_desks

MOST_PEOPLE = 1024
"""Beyond it answers are drawn in memory: `python -m benchmarks reconstruction`."""
REAL_PEOPLE, REAL_REPEATS = 32, 16
"""Of the town in which `sfumato.Desk` itself is asked: an answer is a transaction of some 10 ms."""
MEANS = {
    "minimax": "random halves of the town, four questions a person; the bits whose largest "
    "disagreement with an answer is least (Dinur & Nissim 2003)",
    "least squares": "the same questions; the bits that minimise the squared disagreements",
    "Hadamard": "one question a person, chosen by Hadamard's matrix (Dwork & Yekhanin 2008)",
    "inclusion and exclusion": "John and the hospital: seven questions about places that many "
    "people visit, from which a number of people in three places at once is added up",
    "knows all others": "one question about everybody, by somebody who knows all other bits",
    "searched": "six questions that a search found on made-up desks of the same kind",
    "repeated": "two questions, with and without a person, asked again and again",
    "paraphrased": "the same two, each time with other empty zones named beside them",
}

DESKS = {
    "refused": "The truth about at least k people, and a refusal below.",
    "error": "An error drawn evenly from minus to plus the stated number, for each answer.",
    "fresh": "Normal noise, drawn anew whenever somebody asks; nobody pays for it.",
    "sticky": "Normal noise that follows from the question: the same question, the same answer. "
    "Nobody pays for it.",
    "private": "What the private desk draws, in memory: each different question is charged to the "
    "budget first, an equal one has its stored answer.",
    "sfumato.Desk": "The private desk itself: questions in JSON, a ledger, its cap the budget.",
}
"""By the first word of a desk's name."""


@dataclass(frozen=True, slots=True)
class QueriesAttacked:
    """What adversaries made of answers. INTERNAL: it was measured against the truth."""

    scores: tuple[Score, ...]
    people: int
    draws: int
    k: int
    epsilon: float
    delta: float
    seed: int

    @property
    def broken(self) -> tuple[Score, ...]:
        """Scores that a promise does not allow: a fault of the desk."""
        return tuple(score for score in self.scores if not score.holds)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        told = {name: getattr(self, name) for name in ("people", "draws", "k", "epsilon", "delta")}
        rows = [
            asdict(one) | {"share": one.share, "low": one.low, "high": one.high, "holds": one.holds}
            for one in self.scores
        ]
        return {**told, "seed": self.seed, "scores": rows}


def attack_queries(
    *,
    people: int = 64,
    k: int = 5,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    draws: int = 16,
    real: bool = False,
    seed: int = 1,
    progress: Progress | None = None,
) -> QueriesAttacked:
    """Play every attack on answers against desks of every kind. INTERNAL.

    The people are made up: zones with one known person each, whose bits are fair coins.

    Args:
        people: Of the town; the attacks on everybody ask up to four questions each.
        k: Desks with a threshold refuse below it.
        epsilon: Budget of the private desk.
        delta: The same.
        draws: Towns that are attacked as a whole; eight times as many people are attacked alone.
        real: Also ask `sfumato.Desk` itself, with a ledger and a cap, about 32 of the people. Its
            noise is fresh in every run, and it takes minutes.
        seed: The same seed gives the same result, but for `real`.
        progress: Told of each attack.

    Returns:
        The scores.

    Raises:
        UsageError: If the numbers make no game.

    Example:
        >>> found = attack_queries(people=16, draws=1, k=2)
        >>> found.broken
        ()
    """
    if not 8 <= people <= MOST_PEOPLE:
        raise UsageError(
            f"The town has between 8 and {MOST_PEOPLE:,} people.", remedy="Choose `people` so."
        )
    if min(draws, k) < 1 or not epsilon > 0 or not 0 < delta < 1:
        raise UsageError("Draws, `k` and `epsilon` are positive, `delta` is between 0 and 1.")
    # The averaged difference then has a standard deviation of a quarter: right in 39 of 40 cases.
    repeats = math.ceil(32 * people / 12)
    game = Game(people, draws, seed, repeats)
    scores = play(game, usual_desks(people, k, epsilon, delta), progress)
    if real:
        small = Game(min(people, REAL_PEOPLE), draws, seed, REAL_REPEATS)
        scores += play(small, ledgered_desks(epsilon, delta), progress)
    return QueriesAttacked(tuple(scores), people, draws, k, epsilon, delta, seed)


COLUMNS = ("attack", "desk", "right", "95 % interval", "at most", "guesses", "questions", "refused")
SHOWN = ("attack", "desk", "right", "95 % interval", "at most", "refused")


def rows(scores: Sequence[Score]) -> list[list[str]]:
    """One row a score, as text."""
    return [
        [
            one.attack,
            one.desk,
            percent(one.share),
            f"{100 * one.low:.1f}–{100 * one.high:.1f} %",
            percent(one.bound) + ("" if one.holds else " BROKEN"),
            f"{one.guesses:,}",
            f"{one.asked:,}",
            percent(one.refused),
        ]
        for one in scores
    ]


def draw(scores: Sequence[Score]) -> bytes:
    """Bars of right guesses by desk and attack, with guessing and the bound as lines."""
    desks = list(dict.fromkeys(one.desk for one in scores))
    names = list(dict.fromkeys(one.attack for one in scores))
    figure = canvas((2.2 + 2.1 * len(desks), 4.4))
    axes = figure.subplots()
    width = 0.9 / len(names)
    played = {desk: [one.attack for one in scores if one.desk == desk] for desk in desks}
    for name in names:
        mine = [one for one in scores if one.attack == name]
        middle = [played[one.desk].index(name) - (len(played[one.desk]) - 1) / 2 for one in mine]
        at = np.array([desks.index(one.desk) for one in mine]) + width * np.array(middle)
        share = np.array([one.share for one in mine])
        spread = np.array([[one.share - one.low, one.high - one.share] for one in mine]).T
        axes.bar(at, 100 * share, width, yerr=100 * spread, label=name, capsize=1.5)
    for place, desk in enumerate(desks):
        bounds = {one.bound for one in scores if one.desk == desk and one.bound is not None}
        for bound in bounds:
            axes.hlines(100 * bound, place - 0.46, place + 0.46, color="black", lw=1.6)
    axes.axhline(50, color="grey", ls=":", lw=1)
    axes.set_xticks(range(len(desks)), desks, rotation=12, ha="right")
    axes.set(ylabel="bits right, %", ylim=(0, 101))
    axes.set_title("INTERNAL: dotted, guessing; black, the most that a promise allows", fontsize=9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    held = io.BytesIO()
    figure.savefig(held, dpi=110, metadata={"Software": None})
    return held.getvalue()


def page(found: QueriesAttacked, picture: bytes | None = None) -> str:
    """Everything that was played, in words a holder can act on."""
    meant = [[name, what] for name, what in MEANS.items()]
    broken = found.broken
    verdict = (
        "No score of a private desk passes what its promise allows by more than chance."
        if not broken
        else f"{len(broken)} scores pass what is promised: the desk is at fault."
    )
    parts = [
        head("attacks on answers", "Guesses about made-up people, compared with the truth"),
        "<h1>Attacks on answers to counting questions</h1>",
        f"<p>A made-up town of {found.people:,} people, one known person a zone; "
        f"{found.draws} draws of everybody's bits. Guessing is right half the time. {verdict}</p>",
        embedded(picture, "right guesses by desk and attack"),
        "<p>Answers that are exact, or whose noise is free, give bits away: a threshold asks for "
        "larger sets, and larger sets hinder nobody. Noise that is fixed by the question is "
        "averaged out by other words for it. What holds is a budget that every different question "
        "uses up.</p>",
        "<p>A figure near one half means that <em>this</em> attack failed. What holds against all "
        "of them is the column <em>at most</em>, and it follows from the noise, not from this "
        "table.</p>",
        *_desks(found.scores),
        "<h2>The attacks</h2>",
        table(["attack", "what it does"], meant, words=True),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _desks(scores: Sequence[Score]) -> list[str]:
    """A heading, a sentence and a table for each desk."""
    parts = []
    for desk in dict.fromkeys(one.desk for one in scores):
        mine = [one for one in scores if one.desk == desk]
        none = {"desk"} | ({"at most"} if mine[0].bound is None else set())
        kept = [n for n, name in enumerate(COLUMNS) if name not in none]
        body = [[row[n] for n in kept] for row in rows(mine)]
        words = DESKS.get(desk.split(",")[0].split(" ")[0], "")
        promise = "" if mine[0].bound is None else f" At most {percent(mine[0].bound)} is promised."
        parts.append(f"<h2>{escape(desk)}</h2><p>{escape(words + promise)}</p>")
        parts.append(table([COLUMNS[n] for n in kept], body))
    return parts


def show(found: QueriesAttacked) -> None:
    """The scores as a table on standard error."""
    kept = [COLUMNS.index(name) for name in SHOWN]  # a terminal is narrow; the page holds all
    body = [[row[k] for k in kept] for row in rows(found.scores)]
    title = "internal: bits right, of which guessing has half"
    Console(stderr=True).print(rich_table(title, list(SHOWN), body))


def write(found: QueriesAttacked, folder: Path) -> tuple[list[Path], str]:
    """JSON, page and picture; and why there is no picture, where there is none."""
    make_internal_folder(folder)
    written = [folder / f"queries-attack.internal.{ending}" for ending in ("json", "html", "png")]
    text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    remark, picture = "", None
    try:
        picture = draw(found.scores)
        write_bytes(written[2], picture, mode=0o600)
    except UsageError as error:  # the picture is optional, the numbers are not
        remark = f"no picture: {error}"
        written.pop()
    write_bytes(written[1], page(found, picture).encode(), mode=0o600)
    return written, remark
