"""The auditor's speed, its agreement with enumeration, and planted sets found in a large log.

    python -m benchmarks auditing                  # about two CPU-minutes
    python -m benchmarks.auditing --part planted

*Ranges*: full disclosure (Definition 5) of 10^6 visits by 1,000 range questions along a public
order, decided exactly: alone, and with counting, support and eq. 2 as the auditor does it.
*Agreement*: small random instances of both universes against all data sets, one by one. *Planted*:
10^4 questions about 10^6 people, every answer of at least k, among them sets of two to seven that
give fewer than k away; how many of them `sfumato attack queries --log` finds, how many others, and
whether every count is the true one. Seeds are those of the figures alone. Every part runs in a
process of its own. Writes docs/benchmarks/auditing.md and auditing.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks._planted import HOURS, ZONES, Metropolis, planted, random_ranges
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.attacks.queries.logged import Isolated, attack_log
from sfumato.attacks.report import table
from sfumato.model.masks import Measure
from sfumato.queries.question import Question
from sfumato_lab.syntactic import Auditor, Visits
from sfumato_lab.syntactic.disclosure import FREE, System, disclosed_bits, forced

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
FIRST_SEED = 20_310
PEOPLE, QUESTIONS, EACH, K, TOWNS = 1_000_000, 10_000, 40, 10, 3
INSTANCES, BITS = 2_000, 12
Ints = NDArray[np.int64]


def ranges() -> dict[str, Any]:
    """10^6 visits, 1,000 ranges: the audit alone, and all that the auditor does for an answer."""
    seconds: dict[str, list[float]] = {}
    for draw in range(6):
        rng = np.random.default_rng(FIRST_SEED + draw)
        bits = rng.random(1_000_000) < 0.3
        cut = np.sort(rng.integers(0, 1_000_001, size=(1_000, 2)), axis=1)
        start = time.process_time()
        disclosed_bits(bits, cut[:, 0], cut[:, 1])
        seconds.setdefault("Definition 5 alone, a bit a person", []).append(
            time.process_time() - start
        )
        rows = [rng.integers(size, size=1_000_000) for size in (200_000, ZONES, HOURS)]
        town = Metropolis.of(Visits(*rows))
        edges = np.sort(rng.integers(0, ZONES + 1, size=(1_000, 2)), axis=1)
        edges[edges[:, 0] == edges[:, 1]] = (0, ZONES)
        asked = [town.range("visits", (a, b), (0, HOURS)) for a, b in edges.tolist()]
        for name, universe in (
            ("the auditor `anyone`", {"people": 200_000}),
            ("the auditor `known`, with eq. 2", {"universe": "known", "known": np.full(ZONES, 40)}),
        ):
            start = time.process_time()
            auditor = Auditor(town.frame, town.held, k=K, **universe)  # type: ignore[arg-type]
            auditor(asked)
            seconds.setdefault(name, []).append(time.process_time() - start)
    # The first draw loads what is compiled.
    cpu = {
        name: [round(min(all_[1:]), 3), round(max(all_[1:]), 3)] for name, all_ in seconds.items()
    }
    return {"part": "ranges", "cpu_s": cpu, "peak_gib": _peak()}


def agreement() -> dict[str, Any]:
    """Both universes, any questions and ranges, against enumeration."""
    every = np.array(list(itertools.product((0, 1), repeat=BITS)), np.int64)
    rng = np.random.default_rng(FIRST_SEED)
    wrong = dict.fromkeys(("anyone", "known", "known, ranges"), 0)
    disclosed = dict.fromkeys(wrong, 0)
    for universe, _ in itertools.product(wrong, range(INSTANCES)):
        truth = (rng.random(BITS) < rng.choice([0.2, 0.5, 0.8])).astype(np.int64)
        many = int(rng.integers(1, 6))
        if universe == "anyone":  # three exchangeable people in each of four cells
            columns = np.tile((rng.random((many, 4)) < 0.6).astype(np.int64), 3)
        else:
            columns = (rng.random((many, BITS)) < rng.choice([0.3, 0.6])).astype(np.int64)
        if universe == "known, ranges":
            cut = np.sort(rng.integers(0, BITS + 1, size=(many, 2)), axis=1)
            cut[cut[:, 0] == cut[:, 1]] = (0, BITS)
            at = np.arange(BITS)
            columns = ((at >= cut[:, :1]) & (at < cut[:, 1:])).astype(np.int64)
            state, sizes, _ = disclosed_bits(truth == 1, cut[:, 0], cut[:, 1])
            found = np.repeat(state, sizes)
        else:
            merged, block = np.unique(columns, axis=1, return_inverse=True)
            totals = np.bincount(block, truth).astype(np.int64)
            system = System.of(np.bincount(block), csr_array(merged), columns @ truth)
            found = forced(system, totals)[0][block]
        same = every[((every @ columns.T) == columns @ truth).all(axis=1)]
        stuck = same.min(axis=0) == same.max(axis=0)
        expected = np.where(stuck, truth, FREE)
        wrong[universe] += int(not np.array_equal(found, expected))
        disclosed[universe] += int(stuck.any())
    return {"part": "agreement", "instances": INSTANCES, "wrong": wrong, "disclosed": disclosed}


def _true_count(town: Metropolis, log: list[Question], one: Isolated) -> int:
    """From the records: whom the set is about."""
    inside = [town.inside(log[number]) for number in one.questions]
    if one.measure is Measure.UNIQUE_PEOPLE:
        many = int(town.held.users.max()) + 1
        inside = [np.bincount(town.held.users[rows], minlength=many) > 0 for rows in inside]
    if one.kind == "overlap":
        shared = np.logical_and.reduce(inside[: 2 if len(inside) < 7 else 3])
        return int((shared & ~inside[3]).sum() if len(inside) == 4 else shared.sum())
    return int((inside[0] & ~np.logical_or.reduce(inside[1:])).sum())


def search() -> dict[str, Any]:
    """Planted sets among random ranges, in several towns."""
    found: dict[str, list[bool]] = {}
    seconds, others, untrue, checked, complete = [], [], 0, 0, []
    for draw in range(TOWNS):
        rng = np.random.default_rng(FIRST_SEED + draw)
        town = Metropolis.drawn(PEOPLE, rng)
        sets = planted(town, rng, EACH, K)
        mine = list(dict.fromkeys(one for many in sets.values() for each in many for one in each))
        log = mine + random_ranges(town, rng, QUESTIONS - len(mine))
        log = [log[number] for number in rng.permutation(len(log))]
        told = town.answers(log)
        answered = [
            (one, None if answer < K else float(answer))
            for one, answer in zip(log, told.tolist(), strict=True)
        ]
        if not draw:
            attack_log(answered[:200], k=K)  # compiled code is loaded before the clock starts
        start = time.process_time()
        attacked = attack_log(answered, k=K)
        seconds.append(time.process_time() - start)
        complete.append((attacked.complete, attacked.rest))
        got = {frozenset(log[number] for number in one.questions) for one in attacked.found}
        hidden = {frozenset(one) for many in sets.values() for one in many}
        others.append(len(got - hidden))
        for kind, many in sets.items():
            found.setdefault(kind, []).extend(frozenset(one) in got for one in many)
        for one in attacked.found:
            checked += 1
            untrue += _true_count(town, log, one) != one.count
    return {
        "part": "planted",
        "found": {kind: [sum(one), len(one)] for kind, one in found.items()},
        "cpu_s": round(max(seconds), 1),
        "others": others,
        "checked": checked,
        "untrue": untrue,
        "complete": complete,
        "peak_gib": _peak(),
    }


def _peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


PARTS = {"ranges": ranges, "agreement": agreement, "planted": search}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="one part alone, printed as JSON")
    asked = parser.parse_args()
    if asked.part:
        print(json.dumps(PARTS[asked.part]()))
        return
    found = {}
    for part in PARTS:
        command = [sys.executable, "-m", "benchmarks.auditing", "--part", part]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[part] = json.loads(done.stdout)
        print(part, flush=True)
    (FOLDER / "auditing.json").write_text(json.dumps(found, indent=2) + "\n")
    (FOLDER / "auditing.md").write_text(_page(found))


def _page(found: dict[str, Any]) -> str:
    fast, same, sets = found["ranges"], found["agreement"], found["planted"]
    three = [pair for kind, pair in sets["found"].items() if not kind.endswith(" 2")]
    share = sum(pair[0] for pair in three) / sum(pair[1] for pair in three)
    kinds = [[kind, f"{got} of {many}"] for kind, (got, many) in sets["found"].items()]
    speed = [[name, f"{low:.3f}–{high:.3f}"] for name, (low, high) in fast["cpu_s"].items()]
    agree = [
        [name, f"{same['instances']:,}", f"{same['disclosed'][name]:,}", f"{wrong:,}"]
        for name, wrong in same["wrong"].items()
    ]
    lines = [
        "# Auditing exact answers",
        "",
        "    python -m benchmarks auditing",
        "",
        "## Speed and agreement of the auditor",
        "",
        f"10^6 visits and a set of 1,000 range questions, decided together and exactly "
        f"(wanted: 1 CPU-second); five draws, {fast['peak_gib']:.2f} GiB:",
        "",
        *table(["what", "CPU-seconds, least and most"], speed),
        "",
        f"Small instances of {BITS} bits against all {2**BITS:,} data sets, one by one:",
        "",
        *table(["universe", "instances", "with a disclosure", "disagreements"], agree),
        "",
        "## Planted sets in a log",
        "",
        f"{QUESTIONS:,} questions about {PEOPLE:,} people, {TOWNS} towns; every answer is of at "
        f"least {K}, and {EACH} sets of each kind give 1 to {K - 1} away. Found: "
        f"{100 * share:.1f} % of the sets of three to seven questions (wanted: 95 %), in at most "
        f"{sets['cpu_s']:.1f} CPU-seconds a log (wanted: 60). Beside them "
        f"{', '.join(map(str, sets['others']))} sets that nobody planted; of all "
        f"{sets['checked']:,} counts, {sets['untrue']:,} were not the true one.",
        "",
        *table(["kind, questions", "found"], kinds),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
