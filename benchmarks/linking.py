"""Seven days linked: whole weeks recovered, and people found in them by a few known places.

    python -m benchmarks linking            # about three CPU-minutes
    python -m benchmarks.linking --people 1000

The crowd is synthetic: 8,010 cells, 19 hourly readings a day, a week. Phase one makes the fragments
of each day, phase two links them by information gain; each is measured apart. *Links right* is
phase two alone: the true fragments of each day, shuffled, and the share of people whose next day
was found. *Singled out* and *learned* are phase three, with 1 to 8 known places. Every size runs in
a process of its own. Writes docs/benchmarks/linking.md and linking.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery import Link, Method, Solver, accuracy
from sfumato.attacks.recovery.attack import link_day
from sfumato.attacks.recovery.baselines import census, others
from sfumato.attacks.recovery.linking import Visits, identify, link_days, match_fragments
from sfumato.attacks.trajectories import Ground, People, counts_of, whole_people
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.model.time_grid import Clock
from sfumato_lab.studies.recovery.points import OTHERS, truth_of

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
DAYS = 7
KNOWN = (1, 2, 4, 8)


def a_week(people: int) -> People:
    """The crowd's first seven days."""
    plan = CrowdPlan(people=people + OTHERS, days=DAYS, seed=412)
    cells = generate(plan).cells.reshape(plan.people, -1)
    ground: Ground = truth_of(CrowdPlan(people=2, days=1), others=0).ground
    clock = Clock.plain(DAYS, plan.slots, plan.first_hour)
    return People(cells[:people].copy(), ground, clock, others=cells[people:].copy())


def links_right(week: People, link: Link) -> float:
    """Share of people, over six nights, whose true next day is linked to theirs."""
    rng = np.random.default_rng(0)
    days = [week.cells[:, slots] for slots in week.clock.days]
    whole, who = days[0], np.arange(len(days[0]))
    right = []
    for day, last in zip(days[1:], days[:-1], strict=True):
        order: NDArray[np.int64] = rng.permutation(len(day))
        base = whole if link is Link.ACCUMULATE else whole[:, -last.shape[1] :]
        partner = match_fragments(Visits.of(base), Visits.of(day[order]))
        right.append(float((order[partner] == who).mean()))
        whole = np.concatenate([whole, day[order][partner]], axis=1)
    return float(np.mean(right))


def measure(people: int, predict: bool) -> dict[str, Any]:
    """Recover a week of that many people and look some of them up."""
    week = a_week(people)
    method = Method(predict=predict, solver=Solver.CELLS)
    rng = np.random.default_rng(0)
    link_days([a_week(50).cells[:, :19]] * 2)  # compiled code is loaded before the clock starts
    counts = whole_people(counts_of(week.cells, week.ground.cells), rng)
    start = time.process_time()
    fragments = [
        link_day(
            counts[:, slots],
            week.clock.night[slots],
            week.ground,
            rng,
            predict=method.predict,
            solver=method.solver,
        ).cells
        for slots in week.clock.days
    ]
    within = time.process_time() - start
    start = time.process_time()
    found = link_days(fragments)
    across = time.process_time() - start
    score = accuracy(week.cells, found, week.ground, week.clock, assignment_limit=0)
    looked = [identify(week.cells, found, rng, points=points) for points in KNOWN]
    return {
        "people": people,
        "predict": predict,
        "days_cpu_s": round(within, 1),
        "linking_cpu_s": round(across, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "greedy": round(score.greedy, 4),
        "others": round(others(week, rng)[0]["greedy"], 4),
        "census": round(census(week, rng)["greedy"], 4),
        "links_right": {link.value: round(links_right(week, link), 4) for link in Link},
        "singled_out": {each.points: round(each.singled_out, 4) for each in looked},
        "learned": {each.points: round(each.learned, 4) for each in looked},
        "chance": round(looked[-1].chance, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, action="append")
    parser.add_argument("--one", nargs=2, metavar=("PEOPLE", "PREDICT"))
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(int(asked.one[0]), asked.one[1] == "1")))
        return
    rows = []
    for people in asked.people or [1_000, 10_000, 30_000]:
        for predict in ("1", "0") if people < 20_000 else ("0",):
            command = [sys.executable, "-m", "benchmarks.linking", "--one", str(people), predict]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
            print(rows[-1], flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "linking.json").write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    (FOLDER / "linking.md").write_text(page(rows), "utf-8")


def page(rows: list[dict[str, Any]]) -> str:
    def percent(share: float) -> str:
        return f"{100 * share:.1f} %"

    lines = [
        "# Seven days linked, and people looked up in them",
        "",
        "A synthetic crowd on 8,010 cells of 500 m, 19 hourly readings a day, seven days; "
        "`python -m benchmarks linking`.",
        "",
        "| people | prediction | days, CPU s | linking, CPU s | peak GiB | greedy accuracy | "
        "knows all others | links right: accumulated | adjacent |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['people']:,} | {'yes' if row['predict'] else 'no'} | {row['days_cpu_s']} | "
        f"{row['linking_cpu_s']} | {row['peak_gib']} | {percent(row['greedy'])} | "
        f"{percent(row['others'])} | {percent(row['links_right']['accumulate'])} | "
        f"{percent(row['links_right']['adjacent'])} |"
        for row in rows
    ]
    lines += [
        "",
        "*Links right*: true fragments of each day, shuffled; the share of people whose next day "
        "was linked to theirs. The rest of the table is the attack on counts alone.",
        "",
        "A person is looked up among the recovered weeks by a few known places. *Singled out*: "
        "one week agrees best. *Learned*: the share of the person's other slots that it tells.",
        "",
        "| people | prediction | known places | singled out | learned | most popular cell |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['people']:,} | {'yes' if row['predict'] else 'no'} | {points} | "
        f"{percent(share)} | {percent(row['learned'][points])} | {percent(row['chance'])} |"
        for row in rows
        for points, share in row["singled_out"].items()
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
