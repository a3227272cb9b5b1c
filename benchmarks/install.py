"""What `make demo` installs and how long it takes from a clean clone, beside an earlier commit's.

    python -m benchmarks.install          # writes docs/benchmarks/install.json and install.md

Both commits are cloned anew in every round, with an empty cache of packages, one after the other
in turn (the second round in the other order): first the environment alone, then `make demo`, which
finds it made. Seconds are those of the clock, which other work on the machine lengthens, and CPU
seconds of all processes, which it hardly does. Megabytes are what `du` counts of the environment
after the demo, compiled modules and all. The goals are 60 % of the time and half of the size.

It needs git, make, an index of packages and some 4 GB below the temporary folder.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
EARLIER = "4627417"
"""The last commit whose demo installed everything that the tests need."""
STAMPS = (".venv/.small", ".venv/.installed")
"""What the demo waits for: here, and in commits before there was a small install."""
ROUNDS = 2
MOST_TIME, MOST_SIZE = 0.6, 0.5
LISTED_MB = 5
SOLVED = {100: 5, 200: 3}
"""Zones, and how many transport problems of that size both solvers are given."""


def said(*command: str, where: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def timed(command: list[str], where: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds and CPU seconds of a command with all that it starts."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, used


def on_disk(folder: Path) -> float:
    """Megabytes as `du` counts them: blocks, each file once, links not followed."""
    seen = {(s.st_dev, s.st_ino): s.st_blocks for s in map(os.lstat, folder.rglob("*"))}
    return sum(seen.values()) * 512 / 1e6


def weights(site: Path) -> dict[str, float]:
    """Megabytes of each package's own files, without what is compiled later."""
    return {
        found.metadata["Name"]: sum(
            path.stat().st_size
            for file in found.files or []
            if (path := Path(str(found.locate_file(file)))).is_file() and path.suffix != ".pyc"
        )
        / 1e6
        for found in distributions(path=[str(site)])
    }


def once(commit: str) -> dict[str, Any]:
    """One commit from a clean clone and an empty cache."""
    with tempfile.TemporaryDirectory(prefix="sfumato-install-") as folder:
        clone = Path(folder) / "clone"
        said("git", "clone", "--quiet", "--no-checkout", str(ROOT), str(clone))
        said("git", "checkout", "--quiet", commit, where=clone)
        stamp = next(name for name in STAMPS if Path(name).name in (clone / "Makefile").read_text())
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA", "VIRT"))
        }
        kept |= {"PIP_CACHE_DIR": f"{folder}/cache", "PYTHONNOUSERSITE": "1"}
        installed = timed(["make", stamp], clone, kept)
        site = next((clone / ".venv").glob("lib/python*/site-packages"))
        held = weights(site)
        shown = timed(["make", "demo"], clone, kept)
        return {
            "commit": commit,
            "packages": len(held),
            "mb": on_disk(clone / ".venv"),
            "install": installed,
            "demo": shown,
            "weights": held,
        }


def solvers() -> list[dict[str, float]]:
    """CPU seconds of an earth mover's distance by POT's network simplex and by SciPy's HiGHS."""
    import ot

    found = []
    for zones, problems in SOLVED.items():
        spent: dict[str, list[float]] = {"pot": [], "highs": []}
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            cost = cdist(*(rng.uniform(0, 1e4, (zones // 2, 2)) for _ in range(2)))
            give, take = (rng.dirichlet(np.ones(zones // 2)) for _ in range(2))
            answers = [
                _clocked(spent["pot"], lambda g=give, t=take, c=cost: float(ot.emd2(g, t, c))),
                _clocked(spent["highs"], lambda g=give, t=take, c=cost: _highs(g, t, c)),
            ]
            assert abs(answers[0] - answers[1]) < 1e-6 * answers[0]
        found.append({"zones": zones} | {k: statistics.median(v) for k, v in spent.items()})
    return found


def _highs(give: Any, take: Any, cost: Any) -> float:
    n, m = cost.shape
    rows = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    solved = linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([give, take]), method="highs")
    return float(solved.fun)


def _clocked(into: list[float], call: Callable[[], float]) -> float:
    start = time.process_time()
    answer = call()
    into.append(time.process_time() - start)
    return answer


def shares(runs: list[dict[str, Any]], here: str) -> dict[str, float]:
    """Of the earlier commit's: size, packages and the least of each time."""
    ours = [run for run in runs if run["commit"] == here]
    theirs = [run for run in runs if run["commit"] != here]

    def least(held: list[dict[str, Any]], which: int) -> float:
        return min(run["install"][which] + run["demo"][which] for run in held)

    return {
        "mb": ours[0]["mb"] / theirs[0]["mb"],
        "packages": ours[0]["packages"] / theirs[0]["packages"],
        "seconds": least(ours, 0) / least(theirs, 0),
        "cpu_seconds": least(ours, 1) / least(theirs, 1),
    }


def markdown(runs: list[dict[str, Any]], here: str, solved: list[dict[str, float]]) -> str:
    """The tables, with the command that made them."""
    share = shares(runs, here)
    now = next(run for run in runs if run["commit"] == here)["weights"]
    before = next(run for run in runs if run["commit"] != here)["weights"]
    gone = sorted(set(before) - set(now), key=lambda name: -before[name])
    rows = [
        "| {what} | {packages} | {mb:,.0f} | {a:.0f} / {b:.0f} | {c:.0f} / {d:.0f} | {e:.0f} / "
        "{f:.0f} |".format(
            what="this commit" if run["commit"] == here else f"`{EARLIER}`",
            packages=run["packages"],
            mb=run["mb"],
            a=run["install"][0],
            b=run["install"][1],
            c=run["demo"][0],
            d=run["demo"][1],
            e=run["install"][0] + run["demo"][0],
            f=run["install"][1] + run["demo"][1],
        )
        for run in runs
    ]
    listed = [name for name in sorted(now, key=lambda n: -now[n]) if now[name] >= LISTED_MB]
    rest = [size for size in now.values() if size < LISTED_MB]
    lines = [
        "# Installing",
        "",
        "`make demo` from a clean clone and an empty cache of packages, this commit and "
        f"`{EARLIER}` in turn (`python -m benchmarks.install`; Python {platform.python_version()}, "
        f"{os.cpu_count()} processors that other work shares). Seconds of the clock / CPU seconds.",
        "",
        "| | packages | MB | install | demo | together |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"**This commit takes {share['seconds']:.0%} of the time ({share['cpu_seconds']:.0%} of "
        f"the CPU seconds; the least of {ROUNDS} runs each) and {share['mb']:.0%} of the size.** "
        f"The goals were {MOST_TIME:.0%} and {MOST_SIZE:.0%}. What was weighed is in "
        "[decisions](../decisions/install.md).",
        "",
        f"## What is installed, from {LISTED_MB} MB on",
        "",
        "| package | MB |",
        "|---|---|",
        *(f"| {name} | {now[name]:.0f} |" for name in listed),
        f"| {len(rest)} others | {sum(rest):.0f} |",
        "",
        f"## What no longer is, from {LISTED_MB} MB on",
        "",
        "| package | MB |",
        "|---|---|",
        *(f"| {name} | {before[name]:.0f} |" for name in gone if before[name] >= LISTED_MB),
        "",
        "Files as they are installed, without what Python compiles from them.",
        "",
        "## Why POT is not replaced",
        "",
        "One earth mover's distance between as many givers as takers, CPU seconds, medians "
        f"(POT {version('POT')}, SciPy {version('scipy')}):",
        "",
        "| zones | POT's network simplex | SciPy's HiGHS | times |",
        "|---|---|---|---|",
        *(
            f"| {one['zones']:.0f} | {one['pot']:.4f} | {one['highs']:.3f} "
            f"| {one['highs'] / one['pot']:.0f} |"
            for one in solved
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    here = said("git", "rev-parse", "--short=7", "HEAD")
    if said("git", "status", "--porcelain", "--untracked-files=no"):
        print("note: what is not committed is not measured")
    solved = solvers()
    runs = []
    for number in range(ROUNDS):
        for commit in (EARLIER, here) if number % 2 == 0 else (here, EARLIER):
            runs.append(once(commit))
            print({k: v for k, v in runs[-1].items() if k != "weights"}, flush=True)
    runs.sort(key=lambda run: run["commit"] == here)
    share = shares(runs, here)
    FOLDER.mkdir(parents=True, exist_ok=True)
    held = {"runs": runs, "shares": share, "solvers": solved}
    (FOLDER / "install.json").write_text(json.dumps(held, indent=2) + "\n")
    (FOLDER / "install.md").write_text(markdown(runs, here, solved))
    print(markdown(runs, here, solved))
    return 0 if share["mb"] <= MOST_SIZE and share["cpu_seconds"] <= MOST_TIME else 1


if __name__ == "__main__":
    sys.exit(main())
