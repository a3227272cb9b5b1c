"""Commits that only move code, held against their parents: python tools/moves.py BASE [--write].

A commit whose message begins with "Move:" changes nothing of what is published: the golden digests
(`tools/golden.py`) of its tree and of its parent's are equal, name by name.

    python tools/moves.py f789a9c1            every such commit since f789a9c1, all cases
    python tools/moves.py f789a9c1 --write    and the table goes to out/moves.md
    python tools/moves.py --newest --quick    the newest alone, few cases: what the tests run

Digests are made by the golden tool of the tree that asks, in a copy of the other tree's sources,
one tree after the other. They are kept in the environment's folder by the id of the sources' tree,
of the tool, of Python and of every installed package, so that a tree is run once. Compiled code of
files that are the same in both trees comes along, unless they name a file that differs.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tools" / "golden.py"
SHELF = Path(sys.prefix) / ".golden"
PAGE = ROOT / "out" / "moves.md"
COMPILED = "model.compiled import"
NO_HISTORY = "There is no history to compare with"


class NoHistory(Exception):
    """Why commits cannot be compared here."""


@dataclass(frozen=True)
class Verdict:
    """A commit that moves code, and which names differ from its parent's."""

    commit: str
    subject: str
    digests: int
    differing: tuple[str, ...]

    def row(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.differing[:5])
        more = f" and {len(self.differing) - 5} more" if len(self.differing) > 5 else ""
        outcome = f"**{len(self.differing)} differ**: {names}{more}" if names else "equal"
        return f"| `{self.commit[:8]}` | {self.subject} | {self.digests:,} | {outcome} |"


def git(*arguments: str) -> bytes:
    """What git prints."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=True)
    except FileNotFoundError as error:
        raise NoHistory(f"{NO_HISTORY}: git is not installed.") from error
    except subprocess.CalledProcessError as error:
        problem = error.stderr.decode().strip().partition("\n")[0]
        raise NoHistory(f"{NO_HISTORY}: {problem}.") from error
    return done.stdout


def commits(base: str | None) -> Iterator[tuple[str, str]]:
    """Id and subject of those that say that they move code, newest first.

    Raises:
        NoHistory: This is no clone of a repository, or its history is cut off before the base.
    """
    if not (ROOT / ".git").exists():
        raise NoHistory(f"{NO_HISTORY}: this is an archive of the sources, without git.")
    shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
    span = [f"{base}..HEAD"] if base else ["HEAD"]
    moves = 0
    for line in git("log", "--format=%H%x09%P%x09%s", *span).decode().splitlines():
        commit, parents, subject = line.split("\t", 2)
        if subject.startswith("Move:"):
            if not parents:
                raise NoHistory(f"{NO_HISTORY}: {commit[:8]} has no parent in a shallow clone.")
            moves += 1
            yield commit, subject
    if shallow and not moves:
        raise NoHistory(f"{NO_HISTORY}: a shallow clone without a commit that moves code.")


def digests(commit: str, quick: bool) -> dict[str, str]:
    """Golden digests of a commit's sources."""
    tree = git("rev-parse", f"{commit}:src").decode().strip()
    kept = SHELF / f"{_key(tree, quick)}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="sfumato-moves-") as folder:
            source = unpacked(commit, Path(folder))
            words = [sys.executable, str(GOLDEN), *(["--quick"] if quick else [])]
            done = subprocess.run(
                words,
                env=os.environ | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise SystemExit(f"{commit[:8]} gives no digests:\n{done.stderr[-2000:]}")
        SHELF.mkdir(exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(done.stdout, encoding="utf-8")
        part.rename(kept)
    digested: dict[str, str] = json.loads(kept.read_text("utf-8"))
    return digested


def _key(tree: str, quick: bool) -> str:
    packages = sorted(f"{part.name} {part.version}" for part in importlib.metadata.distributions())
    parts = [tree, str(quick), sys.version, tempfile.gettempdir(), *packages]
    return hashlib.sha256("\0".join(parts).encode() + GOLDEN.read_bytes()).hexdigest()[:32]


def unpacked(commit: str, folder: Path) -> Path:
    """The sources of a commit, with compiled code of files that are as they are here."""
    with tarfile.open(fileobj=BytesIO(git("archive", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")
    source = folder / "src"
    names = {path.relative_to(source) for path in source.rglob("*.py")}
    same = {name for name in names if _text(ROOT / "src" / name) == _text(source / name)}
    unlike = names - same
    while spoiled := {name for name in same if _names(_text(source / name), unlike)}:
        same, unlike = same - spoiled, unlike | spoiled
    for name in same:
        here, there = ROOT / "src" / name, source / name
        times = here.stat()
        os.utime(there, ns=(times.st_atime_ns, times.st_mtime_ns))
        for code in (here.parent / "__pycache__").glob(f"{here.stem}.*.nb[ic]"):
            (there.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(code, there.parent / "__pycache__")
    return source


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def _names(text: str, files: set[Path]) -> bool:
    """Whether compiled code of this text may hold code of one of these files."""
    if COMPILED not in text:
        return False
    return any(".".join(file.with_suffix("").parts) in text for file in files)


def verdict(commit: str, subject: str, quick: bool) -> Verdict:
    """A commit and its parent."""
    before, after = (digests(name, quick) for name in (f"{commit}^", commit))
    names = before.keys() | after.keys()
    differing = sorted(name for name in names if before.get(name) != after.get(name))
    return Verdict(commit, subject, len(names), tuple(differing))


def table(verdicts: list[Verdict]) -> str:
    """The page."""
    lines = [
        "# Commits that move code",
        "",
        "Golden digests of each against its parent's (`python tools/moves.py`).",
        "",
        "| commit | message | digests | |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(each.row() for each in verdicts)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", nargs="?", help="commits after this one")
    parser.add_argument("--newest", action="store_true", help="the newest alone")
    parser.add_argument("--quick", action="store_true", help="few cases")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    try:
        moves = commits(options.base)
        chosen = list(islice(moves, 1) if options.newest else moves)
    except NoHistory as reason:
        print(f"Nothing was compared. {reason}")
        return 0
    verdicts = []
    for commit, subject in chosen:
        verdicts.append(verdict(commit, subject, options.quick))
        print(verdicts[-1].row(), flush=True)
    wrong = sum(bool(each.differing) for each in verdicts)
    print(f"{wrong} of {len(verdicts)} commits that move code publish other bytes.")
    if options.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(table(verdicts), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
