"""Figures that moves must not change: python tools/frozen.py [NAME …] [--freeze].

    python tools/frozen.py live          the live figures in docs/benchmarks beside the reference
    python tools/frozen.py               live, finished, levels and counting
    python tools/frozen.py --freeze      the figures as they stand become the reference

docs/benchmarks/reference.json holds the reference with its commit and the command of each
benchmark. Run that command, then this one. A figure may differ from its reference by what the
draws of both runs differ among themselves: the difference of two means over the standard error of
it is held against Student's law, at a level that one comparison of all figures in a hundred passes
by chance alone (Bonferroni). Where the reference has no standard error, both runs are taken to
have that of the new one. A figure without draws, such as the error of zeros, is the same or is not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from math import hypot, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
REFERENCE = FOLDER / "reference.json"
LEVEL = 0.01
COMMANDS = {
    "live": "python -m benchmarks.live --data fresh --draws 5",
    "finished": "python -m benchmarks.finished --data held --draws 5 --beside 1",
    "levels": "python -m benchmarks.levels --judge",
    "counting": "python -m benchmarks.counting --quick --large --files week text",
}
ERRORS = ("busiest cells", "all cells", "relative, busiest")
OF_LEVELS = ("median", "count", "rival", "margins", "total", "inside", "width")

Figure = dict[str, float | None]
"""Mean over draws, its standard error where it is known, number of draws."""


def of_streams(rows: list[dict[str, Any]]) -> dict[str, Figure]:
    """Errors of every answer on every feed."""
    figures: dict[str, Figure] = {}
    for row in rows:
        case = [str(row[part]) for part in ("feed", "unit", "days", "epsilon") if part in row]
        for answer, means in row["errors"].items():
            spread = row.get("spread", {}).get(answer, [None] * len(means))
            draws = 1 if answer == "zeros" else row.get("draws", 5)
            for words, mean, error in zip(ERRORS, means, spread, strict=True):
                name = " · ".join([*case, answer, words])
                figures[name] = {"mean": mean, "error": error, "draws": draws}
    return figures


def of_levels(cells: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """Errors, totals and intervals of every cell of the table."""
    return {
        f"{cell} · {part}": {
            "mean": row[part]["mean"],
            "error": row[part]["error"],
            "draws": row["releases"],
        }
        for cell, row in cells.items()
        for part in OF_LEVELS
        if row.get(part)
    }


def of_counting(rows: list[dict[str, Any]]) -> dict[str, Figure]:
    """How many bare counts of the same file and round each question costs."""
    bare = {
        (row["file"], row["round"]): row["cpu_seconds"]
        for row in rows
        if row["what"] == "bare count"
    }
    times: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        least = bare.get((row["file"], row["round"]))
        if least and row["what"] != "bare count":
            times[f"{row['file']} · {row['what']}"].append(row["cpu_seconds"] / least)
    return {
        name: {
            "mean": fmean(ratios),
            "error": stdev(ratios) / sqrt(len(ratios)) if len(ratios) > 1 else None,
            "draws": len(ratios),
        }
        for name, ratios in times.items()
    }


READERS = {
    "live": of_streams,
    "finished": of_streams,
    "levels": of_levels,
    "counting": of_counting,
}


def figures(benchmark: str, folder: Path = FOLDER) -> dict[str, Figure]:
    """Of a benchmark, as its last run wrote them."""
    rows = json.loads((folder / f"{benchmark}.json").read_text("utf-8"))
    return READERS[benchmark](rows)


def differing(
    before: Mapping[str, Figure], after: Mapping[str, Figure], level: float = LEVEL
) -> list[str]:
    """What changed by more than draws do, and what is on one side only."""
    problems = [f"{name}: is gone" for name in before.keys() - after.keys()]
    for name, new in after.items():
        old = before.get(name)
        if old is None or old["mean"] == new["mean"]:
            continue
        later = new["error"]
        earlier = later if old["error"] is None else old["error"]
        change = f"{name}: {old['mean']:.4g} before, {new['mean']:.4g} now"
        if later is None or earlier is None:
            problems.append(f"{change}, and nothing says how much draws differ")
            continue
        fewest = min(old["draws"] or 1, new["draws"] or 1)
        error = hypot(earlier, later)
        most = error * student.ppf(1 - level / (2 * len(after)), fewest - 1) if fewest > 1 else 0.0
        if abs((new["mean"] or 0.0) - (old["mean"] or 0.0)) > most:
            problems.append(f"{change}, more than {most:.2g} apart")
    return sorted(problems)


def frozen(folder: Path = FOLDER) -> dict[str, Any]:
    """The reference that the figures of a folder make."""
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    parts = {
        name: {"command": command, "figures": figures(name, folder)}
        for name, command in COMMANDS.items()
    }
    return {"commit": commit, "benchmarks": parts}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)}")
    parser.add_argument("--freeze", action="store_true", help="write the reference")
    options = parser.parse_args()
    unknown = sorted(set(options.benchmarks) - set(COMMANDS))
    if unknown:
        parser.error(f"there is no reference of {', '.join(unknown)}")
    if options.freeze:
        text = json.dumps(frozen(), indent=1, ensure_ascii=False)
        REFERENCE.write_text(f"{text}\n", encoding="utf-8")
        return 0
    reference = json.loads(REFERENCE.read_text("utf-8"))
    wrong = 0
    for name in options.benchmarks or COMMANDS:
        part = reference["benchmarks"][name]
        after = figures(name)
        problems = differing(part["figures"], after)
        wrong += len(problems)
        print(f"{name}: {len(problems)} of {len(after)} figures differ ({part['command']})")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
