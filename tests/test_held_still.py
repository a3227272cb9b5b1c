"""Tools that hold the laboratory and packages of entry points still, and count their files, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WAVES = ROOT / "tests" / "fixtures" / "extension"

CLOCK = """
import importlib.metadata, sys, types
sys.path.insert(0, "tools")
import golden
golden.hold_still()
text = "from datetime import datetime\\nyear = datetime.now().year"
years = []
for name in ("sfumato.toy", "sfumato_lab.toy", "waves.toy", "holder.toy"):
    module = types.ModuleType(name)
    exec(text, module.__dict__)
    years.append(module.year)
versions = [importlib.metadata.version(name) for name in ("sfumato", "waves")]
print(years[:3], years[3] > 2023, versions, importlib.metadata.version("numpy") != "0")
from sfumato.model import extensions
print({offer.version for offer in extensions.offers("command").values()}, end=" ")
print(extensions.offers("command")["tides"].provenance()["modules"])
"""

WALK = """
import sys, types
sys.path.insert(0, "tools")
import walk, waves.tides
from pathlib import Path
from sfumato_lab import __file__ as lab
inside = str(Path(lab).parent / "toy.py")
toy = types.ModuleType("sfumato_lab.toy")
exec(compile("def look(box, see): return see(box)", inside, "exec"), toy.__dict__)
with walk.noticed() as entered:
    toy.look(types.SimpleNamespace(label="a"), waves.tides.look)
print(sorted(entered.files), sorted(entered.edges), entered.both_ways())
"""


def ran(code: str) -> list[str]:
    path = os.pathsep.join([str(WAVES), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        check=True,
    )
    return done.stdout.splitlines()


def test_golden_stops_the_clock_and_the_versions_of_what_comes_in() -> None:
    """And of the laboratory; the holder's own code has the time that it is."""
    assert ran(CLOCK) == ["[2023, 2023, 2023] True ['0', '0'] True", "{'0'} 0"]


def test_a_walk_counts_files_of_the_laboratory_and_of_what_comes_in() -> None:
    files = ["sfumato_lab/toy.py", "waves/tides.py"]
    assert ran(WALK) == [f"{files} [{tuple(files)}] 0"]
