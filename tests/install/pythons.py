"""Every Python of this machine that sfumato supports, and environments made with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

LEAST = (3, 11)
_ASK = "import sys, venv, ensurepip; print(*sys.version_info[:2], sys.prefix == sys.base_prefix)"


def pythons() -> dict[str, Path]:
    """One interpreter a minor version, by version: this one, those on the path and of pyenv."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": Path(sys.executable)}
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in range(LEAST[1], LEAST[1] + 10):
        name = f"python3.{minor}"
        on_path = shutil.which(name)
        tried = [*sorted(versions.glob(f"3.{minor}.*/bin/python")), *filter(None, [on_path])]
        for path in tried:
            if f"3.{minor}" not in found and _version(Path(path)) == (3, minor):
                found[f"3.{minor}"] = Path(path)
    return found


def _version(python: Path) -> tuple[int, int] | None:
    """Of an interpreter that can make environments; a shim of pyenv may name one that is not."""
    done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    major, minor, _ = done.stdout.split()
    return int(major), int(minor)


def environment(python: Path, folder: Path, *, pip: bool) -> Path:
    """A new environment; its interpreter."""
    subprocess.run(
        [python, "-m", "venv", *([] if pip else ["--without-pip"]), str(folder)], check=True
    )
    return folder / "bin" / "python"


def clean() -> dict[str, str]:
    """What a program is told of: nothing of these sources, nothing of the user's packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PYTHONNOUSERSITE": "1"}
