"""2,000 random ranges answered in every way: the error half of `sfumato reproduce queries`.

    python -m benchmarks queries                 # about 15 CPU-minutes
    python -m benchmarks.queries --only METHOD   # one way of answering again, or one that is new
    python -m benchmarks.queries --page          # the page again, from the numbers there are

Discs of 0.5 to 3 km times 1 to 48 hours in one made-up city of 200,000 people that tuned nothing
(`sfumato_lab.studies.queries`); the same questions for every way of answering. Beside our figures
stand those of a trial on another such city. Intervals are judged twice: by the people as they were
bounded, which is what they are about, and by the truth. Errors of one release are shared by all
sums over it, so shares are means over draws, and the range over draws stands beside them. Writes
docs/benchmarks/queries.md and queries.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato_lab.studies.queries.error_page import Means
from sfumato_lab.studies.queries.errors import (
    CUBE_BAYES,
    CUBE_GAUSSIAN,
    CUBE_HALF,
    DESK,
    DESK_STORED,
    METHODS,
    MWEM_MARGINS,
    MWEM_UNIFORM,
    PRODUCT,
    Row,
    error_rows,
)
from sfumato_lab.studies.queries.ground import made_city
from sfumato_lab.studies.queries.page import table
from sfumato_lab.studies.queries.study import FIRST_SEED

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
USERS, QUESTIONS, EPSILONS = 200_000, 2_000, (0.1, 0.3, 1.0)
DRAWS: Mapping[int, Sequence[str]] = {
    5: [one for one in METHODS if one not in (CUBE_BAYES, CUBE_HALF, DESK, DESK_STORED)],
    10: [CUBE_BAYES, CUBE_HALF, DESK],
    3: [DESK_STORED],
}
"""More of what has one shared error a draw, fewer of what takes longest."""
TRIAL: Mapping[str, Mapping[float, float]] = {
    MWEM_UNIFORM: {0.3: 0.33, 1.0: 0.27},
    CUBE_GAUSSIAN: {0.3: 0.27, 1.0: 0.21},
    MWEM_MARGINS: {0.3: 0.124, 1.0: 0.071},
    PRODUCT: {0.3: 0.053, 1.0: 0.053},
    CUBE_BAYES: {0.3: 0.031, 1.0: 0.017},
}
"""Of another city of 200,000; whether its places were towers or zones is not recorded."""
LOW, HIGH = 0.87, 0.93


def page(rows: Sequence[Row], cpu: float, machine: str) -> str:
    """The tables: figures beside those of the trial, all ways of answering, intervals."""
    means = Means(rows)
    judged = [e for e in means.epsilons if e in TRIAL[PRODUCT]]

    def mean(method: str, epsilon: float, figure: str) -> float:
        return means.of(USERS, epsilon, method, QUESTIONS, figure)

    beside = [
        [
            method,
            *(cell for e in judged for cell in (f"{of[e]:.3f}", f"{mean(method, e, 'mre'):.3f}")),
        ]
        for method, of in TRIAL.items()
    ]
    every = []
    for method in means.methods:
        line = [method]
        for e in means.epsilons:
            line += [f"{mean(method, e, 'mre'):.3f}", f"{mean(method, e, 'off'):,.0f}"]
        draws = len({row.draw for row in rows if row.method == method})
        every.append([*line, str(draws)])
    lines = [
        "# Questions to the data",
        "",
        "    python -m benchmarks queries",
        "",
        f"{QUESTIONS:,} random ranges (discs of 0.5 to 3 km, 1 to 48 hours) in a made-up city of "
        f"{USERS:,} people and 1,303 towers, seed {FIRST_SEED}, which tuned nothing. "
        f"{cpu / 60:.0f} CPU-minutes ({machine}). MRE is the mean relative error of ranges with "
        "ten true visits or more; figures are means over draws. How each way of answering works "
        "is in `sfumato_lab.studies.queries.errors` and in [querying](../querying.md).",
        "",
        "## Beside the trial",
        "",
        "MRE. The trial's city is another one, and whether its places were towers or zones is not "
        "recorded. Ours are towers. A release about zones, over which towers are spread, is "
        "smoother: [ranges](ranges.md) has .024 and .017 for `bayes` in a city of this kind.",
        "",
        table(["", *(f"ε {e:g}, {who}" for e in judged for who in ("trial", "ours"))], beside),
        "",
        *(_order(means, e) for e in judged),
        "",
        "The `gaussian` release scales a person's visits down to a norm of 3, so that busy people "
        "count less (*not cut* below shows this alone: its error hardly falls with the noise), "
        "and numbers below zero are cut, which adds the more the more noise there is.",
        "",
        "## Every way of answering",
        "",
        table(
            [
                "",
                *(f"ε {e:g}, {what}" for e in means.epsilons for what in ("MRE", "visits")),
                "draws",
            ],
            every,
        ),
        "",
        "Visits: the mean absolute error.",
        "",
        "## 90 % intervals",
        "",
        f"Share that holds, mean over draws (least to most). Wanted: {LOW:.0%} to {HIGH:.0%}. An "
        "interval is about noise and about the posterior of a release; *bounded* "
        "asks for the answer of the people as they were clipped or scaled, which is what it "
        "promises, *truth* for that of everybody. MWEM and private multiplicative weights "
        "print none.",
        "",
        table(
            ["", *(f"ε {e:g}, {of}" for e in means.epsilons for of in ("bounded", "truth"))],
            _held(rows, means),
        ),
        "",
        "A desk with a release inherits the intervals of that release, here one for half of ε: "
        "the two last lines with *bayes* differ by what answers add. The posterior of `bayes` is "
        "too sure of itself where ε is small.",
        "",
    ]
    return "\n".join(lines)


def _order(means: Means, epsilon: float) -> str:
    """Whether ways of answering stand in the trial's order, and by how much they do not."""
    ours = {name: means.of(USERS, epsilon, name, QUESTIONS, "mre") for name in TRIAL}
    theirs = sorted(TRIAL, key=lambda name: -TRIAL[name][epsilon])
    turned = [
        f"{one} ({ours[one]:.3f}) stands before {other} ({ours[other]:.3f})"
        for place, one in enumerate(theirs)
        for other in theirs[place + 1 :]
        if ours[one] < ours[other]
    ]
    told = "the same order" if not turned else f"the same order but for: {'; '.join(turned)}"
    return f"* ε {epsilon:g}: {told}."


def _held(rows: Sequence[Row], means: Means) -> list[list[str]]:
    body = []
    for method in means.methods:
        own = [row for row in rows if row.method == method and row.held is not None]
        if not own:
            continue
        line = [method]
        for epsilon in means.epsilons:
            held = [row.held for row in own if row.epsilon == epsilon and row.held is not None]
            mean = sum(held) / len(held)
            missed = "" if LOW <= mean <= HIGH else " (missed)"
            line.append(f"{mean:.1%} ({min(held):.0%}–{max(held):.0%}){missed}")
            line.append(f"{means.of(USERS, epsilon, method, QUESTIONS, 'held_true'):.1%}")
        body.append(line)
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--only", action="append", choices=METHODS)
    asked = parser.parse_args()
    path = FOLDER / "queries.json"
    machine = f"{platform.machine()}, one thread"
    known: dict[str, Any] = {"machine": machine, "cpu": 0.0, "rows": []}
    if asked.page or asked.only:
        known |= json.loads(path.read_text("utf-8"))
    again = [] if asked.page else asked.only or list(METHODS)
    rows = [Row(**row) for row in known["rows"] if row["method"] not in again]
    earlier, began = known["cpu"], time.process_time()
    city = made_city(USERS, FIRST_SEED) if again else None
    for draws, methods in DRAWS.items():
        chosen = [name for name in methods if name in again]
        if city is None or not chosen:
            continue
        for row in error_rows(
            city,
            questions=[QUESTIONS],
            epsilons=EPSILONS,
            draws=draws,
            methods=chosen,
            seed=FIRST_SEED,
        ):
            rows.append(row)
            print(row.method, row.epsilon, row.draw, f"{row.mre:.4f} {row.cpu:.1f}", flush=True)
            known["cpu"] = earlier + time.process_time() - began
            known["rows"] = [asdict(one) for one in rows]
            path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    (FOLDER / "queries.md").write_text(page(rows, known["cpu"], known["machine"]), "utf-8")


if __name__ == "__main__":
    main()
