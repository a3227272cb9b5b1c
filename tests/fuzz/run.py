"""`make fuzz`: ten thousand spoiled command lines and calls; writes docs/fuzz.md.

python tests/fuzz/run.py --inputs 10000 --seed 1
python tests/fuzz/run.py --one 4711              # a single line again, with its traceback
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz import verbs  # noqa: E402
from tests.fuzz.program import (  # noqa: E402
    GROWN_MB,
    PATIENCE_S,
    Verdict,
    World,
    summary,
    told,
)

PAGE = ROOT / "docs" / "fuzz.md"
CODES = ("exit 0", "exit 1", "exit 2", "exit 3", "broke a rule")


def page(verdicts: list[Verdict], seed: int, cpu_s: float) -> str:
    rows = summary(verdicts)
    lines = [
        "# Spoiled command lines and calls",
        "",
        f"    make fuzz     # python tests/fuzz/run.py --inputs {len(verdicts)} --seed {seed}",
        "",
        "Good command lines with one to three things wrong: values, files, configurations, "
        "questions, options added and left out; and, every third, a call of the same verb in "
        "Python with one or two arguments of any kind. Every one must end with an exit code from "
        f"0 to 3 within {PATIENCE_S} CPU-seconds and {GROWN_MB:,} MB more memory, without an "
        "exception that is not ours (a call may return, or raise one of ours, which has the exit "
        "code); an error has at most ten lines and shows neither a record nor a password.",
        "",
        f"{len(verdicts):,} lines and calls, {cpu_s:,.0f} CPU-seconds.",
        "",
        "| command | " + " | ".join(CODES) + " |",
        "|---" * (len(CODES) + 1) + "|",
    ]
    for name in sorted(rows):
        cells = [str(rows[name].get(code, 0)) for code in CODES]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def one_of(world: World, seed: int) -> Verdict:
    """Every third is a call in Python."""
    return verbs.judge(world, seed) if seed % 3 == 2 else world.judge(seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=int)
    asked = parser.parse_args()
    started = time.process_time()
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        if asked.one is not None:
            print(told(one_of(world, asked.one)))
            return 0
        verdicts = []
        for k in range(asked.inputs):
            verdicts.append(one_of(world, asked.seed * 1_000_000 + k))
            if verdicts[-1].fault:
                print(told(verdicts[-1]), flush=True)
            if k % 1_000 == 999:
                print(f"{k + 1:,} lines", file=sys.stderr, flush=True)
    PAGE.write_text(page(verdicts, asked.seed, time.process_time() - started))
    faults = sum(bool(one.fault) for one in verdicts)
    print(f"{len(verdicts) - faults} passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
