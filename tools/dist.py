"""`make dist`: the wheel and the source archive, twice to the same bytes, and looked through.

    python tools/dist.py dist

Dates in both archives are that of the last commit (`SOURCE_DATE_EPOCH`, unless it is set), and the
backend writes files in order with plain modes: the same commit gives the same bytes wherever and
whenever it is built. The second build is made from a copy of the tree with other dates and modes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt")
_BUILD = "import sys; from hatchling import build as b; b.build_wheel(sys.argv[1]); "
_BUILD += "b.build_sdist(sys.argv[1])"


def commit_date() -> str:
    """Seconds of the last commit; of 1 January 1980, the first that a zip can say, without git."""
    asked = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "315532800"


def build(tree: Path, out: Path) -> list[Path]:
    """The wheel and the source archive of a tree."""
    out.mkdir(parents=True, exist_ok=True)
    dated = {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or commit_date()}
    command = [sys.executable, "-c", _BUILD, str(out.resolve())]
    subprocess.run(command, cwd=tree, env=os.environ | dated, check=True)
    return sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")])


def copied(tree: Path) -> Path:
    """The sources again, with dates of now and modes of somebody with another umask."""
    for name in (*NEEDED, ".gitignore"):  # the packer puts this in an archive wherever it is
        if (ROOT / name).exists():
            shutil.copyfile(ROOT / name, tree / name)
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=kept, copy_function=shutil.copyfile)
    for path in tree.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tree


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    shutil.rmtree(out, ignore_errors=True)
    made = build(ROOT, out)
    with tempfile.TemporaryDirectory() as folder:
        again = build(copied(Path(folder)), Path(folder) / "dist")
        differ = [a.name for a, b in zip(made, again, strict=True) if digest(a) != digest(b)]
    for path in made:
        print(f"{digest(path)}  {path.name}  {path.stat().st_size / 1e6:.2f} MB")
    if differ:
        print(f"built again, these are other bytes: {', '.join(differ)}")
        return 1
    names = [str(path) for path in made]
    return subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *names]).returncode


if __name__ == "__main__":
    sys.exit(main())
