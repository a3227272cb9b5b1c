"""Draws per CPU-second of the exact samplers, beside OpenDP in the same run.

    python -m benchmarks.noise

Writes docs/benchmarks/noise.md and noise.json. CPU time is user and system time of this process;
the bits come from a keyed stream and their making is included; each figure is the best of
three, ours and theirs in turn, so that both meet the same machine.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp

from sfumato.privacy.noise import KeyedStream, choose, discrete_gaussian, discrete_laplace

OURS, THEIRS, REPEATS = 500_000, 20_000, 3
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
SCALES = [
    ("1/4", Fraction(1, 16)),
    ("1", Fraction(1)),
    ("3.7", Fraction(37, 10) ** 2),
    ("√183 = 13.53", Fraction(183)),
    ("16", Fraction(256)),
    ("1000", Fraction(10**6)),
    ("65536 √2", Fraction(1 << 33)),
    ("2^20", Fraction(1 << 40)),
    ("2^40", Fraction(1 << 80)),
]


@dataclass(frozen=True)
class Row:
    law: str
    scale: str
    draws_per_cpu_second: float
    opendp_draws_per_cpu_second: float
    target: float

    @property
    def ratio(self) -> float:
        return self.draws_per_cpu_second / self.opendp_draws_per_cpu_second


def rate(draws: int, work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return draws / (time.process_time() - before)


def compare(law: str, label: str, sigma2: Fraction) -> Row:
    scale = float(sigma2) ** 0.5
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    zeros = [0] * THEIRS
    stream = KeyedStream(bytes(32), f"benchmark {law} {label}")
    if law == "Gaussian":
        theirs: Any = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)

        def ours(size: int) -> Any:
            return discrete_gaussian(size, sigma2, stream)
    else:
        theirs = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)

        def ours(size: int) -> Any:
            return discrete_laplace(size, Fraction(scale), stream)

    ours(10)  # compile, or load what was compiled before
    mine, other = 0.0, 0.0
    for _ in range(REPEATS):
        mine = max(mine, rate(OURS, lambda: ours(OURS)))
        other = max(other, rate(THEIRS, lambda: theirs(zeros)))
    return Row(law, label, mine, other, 1e6 if scale >= 16 else 0.7e6)


def worst_choice() -> float:
    """CPU-milliseconds of one exact choice of the one good candidate among 100,000."""
    costs = np.full(100_000, 1 << 40)
    costs[1234] = 0
    stream = KeyedStream(bytes(32), "benchmark choice")
    choose(1, costs, Fraction(3), stream)
    return 1e3 / rate(20, lambda: [choose(1, costs, Fraction(3), stream) for _ in range(20)])


def write(rows: list[Row], choice_ms: float, folder: Path = FOLDER) -> None:
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "opendp")},
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine,
        "rows": [{**asdict(row), "ratio": row.ratio} for row in rows],
        "worst_choice_of_100000_cpu_ms": choice_ms,
    }
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (folder / "noise.json").write_text(text, encoding="utf-8")
    lines = [
        "# Exact noise: draws per CPU-second",
        "",
        "Written by `python -m benchmarks.noise`: one process, user and system time, best of"
        f" {REPEATS}; {OURS:,} draws of ours and {THEIRS:,} of OpenDP's in turn. Ours include the"
        " making of the bits (SHAKE-256). Both are exact samplers on 64-bit integers.",
        "",
        "Targets: a million for scales from 16 on, 0.7 million below, and 8 times OpenDP.",
        "",
        "| law | scale | million draws / CPU-s | OpenDP | ratio | targets met |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        met = row.draws_per_cpu_second >= row.target and row.ratio >= 8
        lines.append(
            f"| {row.law} | {row.scale} | {row.draws_per_cpu_second / 1e6:.2f} "
            f"| {row.opendp_draws_per_cpu_second / 1e6:.3f} | {row.ratio:.0f} "
            f"| {'yes' if met else 'NO'} |"
        )
    lines += [
        "",
        f"One exact choice of the only good candidate among 100,000: {choice_ms:.1f} CPU-ms.",
        "",
        ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
    ]
    (folder / "noise.md").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    dp.enable_features("contrib")
    rows = [
        compare(law, label, sigma2) for law in ("Gaussian", "Laplace") for label, sigma2 in SCALES
    ]
    write(rows, worst_choice())


if __name__ == "__main__":
    main()
