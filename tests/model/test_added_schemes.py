"""The toy of docs/howto/add-a-scheme.md, installed beside sfumato: run, killed, changed, gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "add-a-scheme.md").read_text("utf-8")
FILES = dict(re.findall(r"```python\n# (toy_waves/\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
COMMAND = """
import os, sys
from sfumato.cli.main import program
from sfumato.streams import run
if os.environ.get("KILLED"):
    whole = run.LiveStream.publish
    def killed(self, slot, *given):
        if slot == 1:
            os._exit(9)
        return whole(self, slot, *given)
    run.LiveStream.publish = killed
sys.argv[0] = "sfumato"
program()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    package = tmp_path / "site" / "toy_waves"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, text in FILES.items():
        (tmp_path / "site" / name).write_text(text)
    (point,) = re.findall(
        r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)```", PAGE, re.DOTALL
    )
    info = tmp_path / "site" / "toy_waves-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-waves\nVersion: 1.0\n")
    entry = point[1].replace('"', "")
    (info / "entry_points.txt").write_text(f"[{point[0]}]\n{entry}")
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\na,2.3,48.8\nb,2.4,48.9\n")
    rows = "".join(f"{k},2024-03-04T{k % 24:02d}:00:00Z,{'ab'[k % 2]}\n" for k in range(96))
    (tmp_path / "events.csv").write_text(f"user,time,tower\n{rows}")
    done = sfumato(
        tmp_path, "ledger", "init", "--dataset", "town", "--unit", "user-day", "--cap-epsilon", "3",
        "--cap-delta", "1e-6", "--ledger", "ledger.sqlite",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path


def sfumato(
    home: Path, *words: str, added: bool = True, killed: bool = False
) -> subprocess.CompletedProcess[str]:
    where = {"PYTHONPATH": str(home / "site")} if added else {}
    more = {"KILLED": "1" if killed else ""}
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        capture_output=True, text=True, cwd=home, env={**os.environ, **where, **more},
    )  # fmt: skip


LICENCE = ("--licence", "CC0-1.0")
STREAM = (
    *("stream", "events.csv", "--towers", "towers.csv", "--from", "2024-03-04"),
    *("--ledger", "ledger.sqlite"),
    *("--to", "2024-03-05", "--slot", "6h", "--tz", "UTC", "--dataset", "town", "--epsilon", "1"),
    *("--scheme", "rarely", "--parameter", "step=2", "--out", "out"),
)


@pytest.mark.privacy
def test_what_was_begun_with_one_code_is_not_finished_with_another(home: Path) -> None:
    assert sfumato(home, *STREAM, killed=True).returncode == 9
    begun = (home / "out" / "stream.ndjson").read_bytes()
    module = home / "site" / "toy_waves" / "rarely.py"
    text = module.read_text()
    module.write_text(text.replace("self._step, self._noise =", "self._noise =").replace(
        "scheme.step, scheme.noise(facts)", "scheme.noise(facts)\n        self._step = 1"
    ))  # fmt: skip
    refused = sfumato(home, *STREAM, "--resume")
    assert refused.returncode == 1, refused.stderr
    said = " ".join(refused.stderr.split())
    assert "code of toy-waves 1.0, which has changed since" in said
    assert "Install toy-waves 1.0 as it was" in said
    assert (home / "out" / "stream.ndjson").read_bytes() == begun, "nothing was drawn"
    module.write_text(text)
    finished = sfumato(home, *STREAM, "--resume")
    assert finished.returncode == 0, finished.stderr
    assert (home / "out" / "stream.ndjson").read_bytes().startswith(begun)
    module.write_text(f"{text}\n")
    again = sfumato(home, *STREAM, "--resume")
    assert again.returncode == 0, "what is out stays as it is"
    gone = {name: sfumato(home, *words, added=False) for name, words in {
        "ask": ("ask", "out"),
        "report": ("report", "out", "--out", "page"),
        "export": ("export", "out", "p", "--to", "package", *("--publisher", "we"), *LICENCE),
    }.items()}  # fmt: skip
    assert [one.returncode for one in gone.values()] == [0, 0, 0], gone


def test_a_scheme_that_does_not_load_is_a_line_of_doctor(home: Path) -> None:
    (home / "site" / "toy_waves" / "rarely.py").write_text("import nothing_of_this_name\n")
    assert sfumato(home, "--help").returncode == 0
    own = sfumato(home, *(word if word != "rarely" else "sample" for word in STREAM[:-4]),
                  "--out", "own")  # fmt: skip
    assert own.returncode == 0, own.stderr
    looked = sfumato(home, "doctor", "--json", "--ledger", "ledger.sqlite")
    assert "The stream scheme rarely of toy-waves does not load" in looked.stdout
    listed = sfumato(home, "stream", "--schemes")
    assert "\nrarely\n  The stream scheme rarely of toy-waves does not load" in listed.stdout
    refused = sfumato(home, *STREAM)
    assert refused.returncode == 2
    assert "does not load" in refused.stderr


def test_a_name_of_the_product_cannot_be_taken(home: Path) -> None:
    offers = home / "site" / "toy_waves" / "offers.py"
    offers.write_text(offers.read_text().replace('"rarely"', '"sample"'))
    words = [word if word != "rarely" else "sample" for word in STREAM]
    refused = sfumato(home, *words)
    assert "The scheme sample has no parameter step" in " ".join(refused.stderr.split())
