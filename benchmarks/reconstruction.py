"""Bits read from noisy answers: how many, how fast, and what a private desk leaves of it.

    python -m benchmarks reconstruction            # about ten CPU-minutes
    python -m benchmarks.reconstruction --part least-squares

Fair coins, and questions about sets of the people, each answer with an even error of a stated
share of the root of the number of people. *Minimax* asks in the language of questions; above 1,024
people the answers are drawn in memory. Then every attack of `sfumato attack queries` against the
private desk at epsilon 1, with the exact binomial interval beside the bound: its mechanism in
memory, and in a smaller town `sfumato.Desk` itself, with a ledger whose cap is all of epsilon. (Its
noise is fresh in every run. Ledgers sync to the disk at every answer: with TMPDIR in memory it is
faster.) Every part runs in a process of its own. Writes docs/benchmarks/reconstruction.md and
reconstruction.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import table
from sfumato_lab.attacks.queries.decode import (
    PackedQuestions,
    from_hadamard,
    hadamard_counts,
    least_squares,
    walsh_hadamard,
)
from sfumato_lab.attacks.queries.games import Game, ledgered_desks, play
from sfumato_lab.attacks.queries.reconstruct import dinur_nissim
from sfumato_lab.attacks.queries.run import REAL_PEOPLE, REAL_REPEATS, attack_queries, rows
from sfumato_lab.attacks.queries.town import Town, bounded

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
DRAWS = 16
FIRST_SEED = 20_260
"""Seeds of the figures; the solvers were made on others."""
BARS = {"minimax": 0.98, "least squares": 0.92, "Hadamard": 0.95}


def by_minimax(rng: np.random.Generator) -> float:
    """256 people, 1,024 questions, errors within half the root."""
    town = Town.of(256)
    bits = rng.random(256) < 0.5
    desk = bounded(town.counter(bits), 0.5 * 16, rng)
    return dinur_nissim(desk, town, rng).right(bits) / 256


def by_least_squares(rng: np.random.Generator) -> float:
    """10,000 people, 40,000 questions, errors within half the root."""
    people, questions = 10_000, 40_000
    bits = rng.random(people) < 0.5
    packed = PackedQuestions.random(questions, people, rng)
    errors = rng.uniform(-0.5, 0.5, questions) * np.sqrt(people)
    answers = packed.counts(bits.astype(np.float64)) + errors
    found = least_squares(packed, answers, variance=people / 12)
    return float(((found > 0.5) == bits).mean())


def by_hadamard(rng: np.random.Generator) -> float:
    """2^20 people, as many questions, errors within a quarter of the root."""
    people = 1 << 20
    bits = rng.random(people) < 0.5
    answers = hadamard_counts(bits) + rng.uniform(-0.25, 0.25, people) * np.sqrt(people)
    return float(((from_hadamard(answers) > 0.5) == bits).mean())


PARTS: dict[str, Callable[[np.random.Generator], float]] = {
    "minimax": by_minimax,
    "least squares": by_least_squares,
    "Hadamard": by_hadamard,
}


def reconstruct(part: str) -> dict[str, Any]:
    """Draws of one attack: what it reached, and the CPU time of one draw with its answers."""
    warm = PackedQuestions.random(8, 8, np.random.default_rng(0))
    least_squares(warm, np.zeros(8))  # compiled code is loaded before the clock starts
    walsh_hadamard(np.zeros(2))
    reached, start = [], time.process_time()
    for draw in range(DRAWS):
        reached.append(PARTS[part](np.random.default_rng(FIRST_SEED + draw)))
    return {
        "part": part,
        "what": (PARTS[part].__doc__ or "").strip(),
        "draws": DRAWS,
        "mean": round(float(np.mean(reached)), 4),
        "least": round(min(reached), 4),
        "most": round(max(reached), 4),
        "bar": BARS[part],
        "cpu_s": round((time.process_time() - start) / DRAWS, 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def desks() -> dict[str, Any]:
    """Every attack on every desk, in a town of 256."""
    start = time.process_time()
    found = attack_queries(people=256, draws=DRAWS, seed=FIRST_SEED)
    return {
        "part": "desks",
        "rows": rows(found.scores),
        "broken": len(found.broken),
        "cpu_s": round(time.process_time() - start),
    }


def real() -> dict[str, Any]:
    """Every attack on `sfumato.Desk` with a ledger, in a town of 32."""
    start = time.process_time()
    game = Game(REAL_PEOPLE, DRAWS, FIRST_SEED, REAL_REPEATS)
    scores = play(game, ledgered_desks(1.0, 1e-6))
    return {
        "part": "real",
        "rows": rows(scores),
        "broken": sum(not one.holds for one in scores),
        "cpu_s": round(time.process_time() - start),
    }


DESKS = {"desks": desks, "real": real}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", help="one part alone, printed as JSON")
    asked = parser.parse_args()
    if asked.part:
        name = asked.part.replace("-", " ")
        print(json.dumps(DESKS[name]() if name in DESKS else reconstruct(name)))
        return
    found = []
    for part in (*PARTS, *DESKS):
        command = [sys.executable, "-m", "benchmarks.reconstruction", "--part", part]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
        print(part, found[-1]["cpu_s"], "s", flush=True)
    (FOLDER / "reconstruction.json").write_text(json.dumps(found, indent=2) + "\n")
    (FOLDER / "reconstruction.md").write_text(_page(found))


def _page(found: list[dict[str, Any]]) -> str:
    head = ["attack", "of what", "bits right", "range", "wanted", "CPU-s a draw", "GiB"]
    body = [
        [
            one["part"],
            one["what"].rstrip("."),
            f"{100 * one['mean']:.1f} %",
            f"{100 * one['least']:.1f}–{100 * one['most']:.1f} %",
            f"{100 * one['bar']:.0f} %",
            f"{one['cpu_s']:.2f}",
            f"{one['peak_gib']:.2f}",
        ]
        for one in found[: len(PARTS)]
    ]
    columns = ["attack", "desk", "right", "95 % interval", "at most", "guesses", "questions"]
    memory, ledger = found[len(PARTS) :]
    lines = [
        "# Reconstruction from answers",
        "",
        "    python -m benchmarks reconstruction",
        "",
        f"Fair coins, {DRAWS} draws each. The time is that of drawing the answers and reading the "
        "bits; the memory is the process's.",
        "",
        *table(head, body),
        "",
        "## Every attack on every desk",
        "",
        f"A town of 256 people; {memory['cpu_s']} CPU-seconds. Guessing has half of the bits. "
        "*At most* is (e^ε + δ) / (1 + e^ε); intervals are Clopper and Pearson's. "
        + _verdict(memory),
        "",
        *table([*columns, "refused"], memory["rows"]),
        "",
        "## The desk itself",
        "",
        f"`sfumato.Desk` over a town of {REAL_PEOPLE} people, asked in JSON, with a ledger whose "
        f"cap is (1, 1e-6) or pure 1; {ledger['cpu_s']} CPU-seconds. Every run has its own ledger. "
        "Sets are searched for on the mechanism in memory. Where stored answers tell the next one "
        "as narrowly as it is wanted, the desk combines them and charges nothing. "
        + _verdict(ledger),
        "",
        *table([*columns, "refused"], ledger["rows"]),
        "",
    ]
    return "\n".join(lines)


def _verdict(desk: dict[str, Any]) -> str:
    if not desk["broken"]:
        return "No score passes it."
    return f"**{desk['broken']} scores pass it: the desk is at fault.**"


if __name__ == "__main__":
    main()
