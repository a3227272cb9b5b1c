"""The same release on any processor: runs the numeric tests and some releases in many settings.

    python tests/anywhere/run.py                 everything; `make anywhere`
    python tests/anywhere/run.py --releases      only compares releases
    python tests/anywhere/run.py tests/density   these tests instead of the numeric ones

A setting is a kernel of OpenBLAS (`OPENBLAS_CORETYPE`) that this processor can run, or numpy with
its vector instructions switched off (`NPY_DISABLE_CPU_FEATURES`). Kernels that the processor
cannot run die of an illegal instruction; they are tried first and left out. In every setting the
tests must pass, noisy integers must be equal to the byte, and published tables must agree within
one published digit: sums in another order differ in their last bits, and a number on the edge of
a digit may then fall to either side.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = (
    *("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX", "Cooperlake"),
    *("Bulldozer", "Zen", "ARMV8", "NEOVERSEN1", "NEOVERSEV1"),
)
NUMERIC = (
    *("tests/density", "tests/privacy/accounting", "tests/privacy/mechanisms"),
    *("tests/privacy/noise", "tests/audits", "tests/privacy/test_calibration.py"),
    *(
        "tests/streams",
        "tests/utility",
        "tests/geography",
        "tests/traces",
        "tests/engine/test_order.py",
    ),
    *("tests/attacks", "tests/lab", "tests/city"),
)
COUNT_DIGIT, DEGREE_DIGIT = 1e-3, 1e-5
"""One published digit of a count and of a degree (about a metre)."""
PROBE = """
import numpy as np, scipy.linalg, threadpoolctl
a = np.random.default_rng(1).normal(size=(90, 90))
np.linalg.svd(a @ a.T), scipy.linalg.eigh(a + a.T), scipy.linalg.cho_factor(a @ a.T + np.eye(90))
print(*sorted({i["architecture"] for i in threadpoolctl.threadpool_info() if "architecture" in i}))
"""


def features() -> list[str]:
    """What numpy would choose among on this processor, beyond its baseline."""
    from numpy._core import _multiarray_umath as core

    have = core.__cpu_features__
    return [name for name in core.__cpu_dispatch__ if have.get(name)]


def settings() -> dict[str, dict[str, str]]:
    """Name of a setting to its environment; each is tried, and said to be left out if it dies."""
    found: dict[str, dict[str, str]] = {"as it comes": {}}
    seen = set[str]()
    for kernel in KERNELS:
        told = _run([sys.executable, "-c", PROBE], {"OPENBLAS_CORETYPE": kernel})
        name = told.stdout.strip()
        if told.returncode:
            print(f"left out: OPENBLAS_CORETYPE={kernel} does not run here", flush=True)
        elif name in seen:
            print(f"left out: OPENBLAS_CORETYPE={kernel} is {name or 'ignored'} here", flush=True)
        else:
            seen.add(name)
            found[f"OpenBLAS {name}"] = {"OPENBLAS_CORETYPE": kernel}
    for number in range(len(features())):
        off = " ".join(features()[number:])  # one needs those before it
        found[f"numpy without {off}"] = {"NPY_DISABLE_CPU_FEATURES": off}
    return found


def _run(command: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    known = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | more
    return subprocess.run(command, env=known, capture_output=True, text=True, check=False, cwd=ROOT)


def released(more: dict[str, str], out: Path) -> dict[str, np.ndarray]:
    told = _run([sys.executable, str(HERE / "releases.py"), str(out)], more)
    if told.returncode:
        raise SystemExit(told.stderr[-3000:])
    with np.load(out) as held:
        return {name: held[name] for name in held.files}


def apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    """What differs by more than it may."""
    if one.keys() != other.keys():
        return [f"{name} is in one of them only" for name in sorted(one.keys() ^ other.keys())]
    found = []
    for name, values in one.items():
        same = values.shape == other[name].shape
        if name.startswith("noisy/"):
            if not same or values.tobytes() != other[name].tobytes():
                found.append(f"{name} is not equal to the byte")
        else:
            digit = DEGREE_DIGIT if "/traces/" in name else COUNT_DIGIT
            far = float(np.abs(values - other[name]).max(initial=0.0)) if same else np.inf
            if far > digit * (1 + 1e-6):
                found.append(f"{name} is {far:g} apart, more than {digit:g}")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", nargs="*", help="test files and folders [default: numeric ones]")
    parser.add_argument("--releases", action="store_true", help="compare releases only")
    parser.add_argument("--only", default="", help="only settings whose name holds this")
    asked = parser.parse_args(arguments)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sfumato-anywhere-") as name:
        home = Path(name)
        first: dict[str, np.ndarray] | None = None
        for setting, more in settings().items():
            if first is not None and asked.only not in setting:
                continue
            made = released(more, home / "made.npz")
            found = [] if first is None else apart(first, made)
            first = made if first is None else first
            if not asked.releases and asked.only in setting:
                tests = asked.tests or list(NUMERIC)
                command = [sys.executable, "-m", "pytest", "-m", "not slow", "--tb=short", *tests]
                told = _run(command, more)
                found += [
                    ln for ln in told.stdout.splitlines() if ln.startswith(("FAILED", "ERROR"))
                ]
                if told.returncode and not found:
                    found.append(told.stdout[-2000:] + told.stderr[-2000:])
            print(f"{'RED  ' if found else 'green'} {setting}", *found, sep="\n      ", flush=True)
            wrong += found
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
