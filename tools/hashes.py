"""The packages of the image with the digests of their files: `python tools/hashes.py`.

Writes `requirements/image.txt` (what sfumato itself needs) and `requirements/image-all.txt` (with
the extra `all` but for Spark, which comes as source alone and needs a Java that the image has not):
every package that pip resolves under `constraints.txt`, with the SHA-256 of its
wheel for each processor that the image is built on. `pip install --require-hashes` then takes those
files and no others, so that an index which was broken into can give the image nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PROCESSORS = ("x86_64", "aarch64")
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
"""Wheels that Debian 12 runs, newest first."""
FILES: dict[str, tuple[str, ...]] = {
    "image.txt": (),
    "image-all.txt": ("emd", "h3", "xarray", "postgres", "kafka", "plots"),
}
"""What is written, and the extras that it holds."""


def python() -> str:
    """The minor version of the image's Python, as the Dockerfile names it."""
    named = re.search(r"^FROM python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert named, "the Dockerfile begins with a tag of Python's image"
    return named[1]


def asked_for(extras: tuple[str, ...]) -> list[str]:
    """Requirements of the project with extras, and of the backend that builds its wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    optional = project["project"]["optional-dependencies"]
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in extras:
        lines += optional[extra]
    return lines


def resolved(requirements: list[str], processor: str) -> dict[str, str]:
    """Name and version of every package, and the SHA-256 of its wheel for a processor."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary", ":all:", "--target", folder]
        command += ["--python-version", python(), "--report", str(report)]
        command += [f"--platform={name}_{processor}" for name in PLATFORMS]
        command += ["--constraint", str(ROOT / "constraints.txt"), *requirements]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        # Nothing of this machine's settings: digests are those of the public index.
        subprocess.run(command, check=True, env=kept | {"PIP_CONFIG_FILE": os.devnull})
        packages = json.loads(report.read_text("utf-8"))["install"]
    return {
        _pin(one["metadata"]): one["download_info"]["archive_info"]["hashes"]["sha256"]
        for one in packages
    }


def _pin(package: dict[str, str]) -> str:
    return f"{re.sub(r'[-_.]+', '-', package['name']).lower()}=={package['version']}"


def main() -> None:
    """Writes both files."""
    for name, extras in FILES.items():
        digests: dict[str, set[str]] = defaultdict(set)
        for processor in PROCESSORS:
            for package, digest in resolved(asked_for(extras), processor).items():
                digests[package].add(digest)
        lines = [f"# Written by tools/hashes.py for Python {python()}: {', '.join(PROCESSORS)}."]
        for package, held in sorted(digests.items()):
            lines.append(" \\\n    ".join([package, *(f"--hash=sha256:{h}" for h in sorted(held))]))
        (ROOT / "requirements" / name).write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
