"""`make fuzz`: spoiled command lines and calls, damaged files, noisy numbers; writes docs/fuzz.md.

python tests/fuzz/run.py --inputs 10000 --files 20000 --numbers 10000 --seed 1
python tests/fuzz/run.py --inputs 0 --numbers 0  # files alone; the page keeps the rest
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

from tests.fuzz import files, readings, verbs  # noqa: E402
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


FILES_HEAD = "## Damaged files\n"


def files_page(verdicts: files.Verdicts, seed: int) -> str:
    total = verdicts.outcomes.total()
    lines = [
        FILES_HEAD,
        f"    make fuzz     # python tests/fuzz/run.py --inputs 0 --files {total} --seed {seed}",
        "",
        "Files of every format under each of its endings, and of towers and zones, with bytes "
        "flipped, cut out or stuffed in; half of them Parquet, and of these three quarters in the "
        "footer. Each is found in a folder beside a good one and read as a release, a stream, "
        "traces and `inspect` read it, in a process of its own, in which a signal is a failure. "
        "None may end the process, nothing but an error of ours may be raised, the good file "
        f"keeps its rows within {files.PATIENCE_S} seconds.",
        "",
        f"{total:,} files, {len(verdicts.faults):,} failures.",
        "",
        "| format | some of it is read | nothing is | failures |",
        "|---" * 4 + "|",
    ]
    outcomes = (files.ROWS_READ, files.NOTHING, files.FAULT)
    for kind in sorted({kind for kind, _ in verdicts.outcomes}):
        numbers = " | ".join(str(verdicts.outcomes[kind, outcome]) for outcome in outcomes)
        lines.append(f"| {kind} | {numbers} |")
    return "\n".join([*lines, ""])


NUMBERS_HEAD = "## Noisy numbers\n"


def numbers_page(read: readings.Read, seed: int, cpu_s: float) -> str:
    count = read.total
    lines = [
        NUMBERS_HEAD,
        "    make fuzz     # python tests/fuzz/run.py --inputs 0 --files 0 "
        f"--numbers {count} --seed {seed}",
        "",
        "Every scheme of releases and streams, every method of synthesis and every way of "
        "answering questions reads to the end what the wall hands over: in towns of one place and "
        "one slot and of more, at ε from 0.01 to 60. Half of it is noise that can occur: on "
        "nobody, on people of any numbers, on a few full cells. The other half is anything that "
        "64 bits hold: nothing, the most and the least of all, both by turns, numbers of one "
        "size and of any. Each must end in numbers, without an error and without a warning.",
        "",
        f"{count:,} readings, {len(read.faults):,} failures, {read.resorts:,} uses of the last "
        f"resort; {cpu_s:,.0f} CPU-seconds.",
        "",
        "| what is read | noise that can occur | any numbers |",
        "|---" * 3 + "|",
    ]
    for family in sorted({*read.likely, *read.any}):
        lines.append(f"| {family} | {read.likely[family]:,} | {read.any[family]:,} |")
    return "\n".join([*lines, ""])


def one_of(world: World, seed: int) -> Verdict:
    """Every third is a call in Python."""
    return verbs.judge(world, seed) if seed % 3 == 2 else world.judge(seed)


def tried_lines(world: World, inputs: int, seed: int) -> list[Verdict]:
    verdicts = []
    for k in range(inputs):
        verdicts.append(one_of(world, seed * 1_000_000 + k))
        if verdicts[-1].fault:
            print(told(verdicts[-1]), flush=True)
        if k % 1_000 == 999:
            print(f"{k + 1:,} lines", file=sys.stderr, flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--numbers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=int)
    asked = parser.parse_args()
    started = time.process_time()
    lines, _, damaged = PAGE.read_text().partition(FILES_HEAD)
    damaged, _, handed = (FILES_HEAD + damaged).partition(NUMBERS_HEAD)
    handed = NUMBERS_HEAD + handed
    total = faults = 0
    with tempfile.TemporaryDirectory() as home:
        if asked.one is not None:
            print(told(one_of(World(Path(home)), asked.one)))
            return 0
        if asked.inputs:
            verdicts = tried_lines(World(Path(home)), asked.inputs, asked.seed)
            lines = page(verdicts, asked.seed, time.process_time() - started)
            total, faults = len(verdicts), sum(bool(each.fault) for each in verdicts)
    with tempfile.TemporaryDirectory() as home:
        if asked.files:
            files.good_files(Path(home))
            of_files = files.tried(Path(home), asked.seed * 1_000_000, asked.files)
            for seed, fault in of_files.faults.items():
                print(seed, fault)
            damaged = files_page(of_files, asked.seed)
            total, faults = total + of_files.outcomes.total(), faults + len(of_files.faults)
    if asked.numbers:
        started = time.process_time()
        read = readings.tried(asked.numbers, asked.seed)
        for seed, fault in read.faults.items():
            print(seed, fault)
        handed = numbers_page(read, asked.seed, time.process_time() - started)
        total, faults = total + read.total, faults + len(read.faults) + read.resorts
    PAGE.write_text(f"{lines.rstrip()}\n\n{damaged.rstrip()}\n\n{handed}")
    print(f"{total - faults} passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
