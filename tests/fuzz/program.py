"""Command lines from a seed: good ones with something wrong, run as the program is run.

`World` is a folder with one small city in every format, a release, a stream, a ledger and a
configuration. `World.line(seed)` takes a good command line and spoils one to three things in it:
an option's value, a file, the configuration, the question; or adds an option that the command has,
or leaves one out. `World.judge` runs it in this process and says which rule it broke, if any:

* exit codes 0 to 3, no exception that is not ours;
* an error has at most ten lines and shows neither a record, nor a password;
* it ends in time, the process has not grown, and the files that it was given are as before.

The same seed makes the same line. Paths are relative to the world, so nothing outside of it is
written.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from tests.io.mutate import good_files, mutate
from tests.queries.fuzz import malformed

from sfumato.cli.main import app, run

SECRET = "hunter2hunter2"
PERSON = "u007"
"""An id of the city; a message that holds it shows a record."""
PATIENCE_S = 30
MOST_LINES = 10
GROWN_MB = 1_500
PROGRAM = typer.main.get_command(app)

TIME = "--from 2024-03-25 --to 2024-03-27 --slot 6h --tz UTC"
WHO = "--dataset city --expected-users 1000 --epsilon 0.01 --delta 1e-6"
BOOK = "--ledger books/ledger.sqlite"
EVERY = {
    "release": f"release events.csv --towers towers.csv {TIME} {WHO} {BOOK} --out OUT --anyway "
    "--scheme gaussian",
    "release zones": f"release fixes.parquet --zones zones.geojson {TIME} {WHO} {BOOK} --out OUT "
    "--anyway --scheme laplace --bound sample:2",
    "plan": f"plan --towers towers.csv --zones zones.gpkg {TIME} --expected-users 1000 --epsilon 1 "
    "--delta 1e-6 --scheme gaussian",
    "inspect": "inspect events.parquet --towers towers.geojson",
    "inspect as": f"inspect --as release events.csv --towers towers.csv {TIME} {WHO} {BOOK} "
    "--out OUT --scheme gaussian",
    "stream": f"stream events.csv --towers towers.csv {TIME} {WHO} {BOOK} --out OUT "
    "--scheme sample --unit user-day",
    "sanitise": "sanitise fixes.csv --from 2024-03-25 --to 2024-03-27 --dataset city "
    f"--expected-noise 200m --most-reports 3 {BOOK} --out OUT",
    "query": f"query events.csv --towers towers.csv {TIME} --dataset city --delta 1e-6 {BOOK} "
    "--question question.json",
    "ask": "ask learnt --zones T01 --hours 6-12 --json",
    "ask sql": "ask rel --sql SELECT/**/count(*)/**/FROM/**/density",
    "answers": f"anonymise answers events.csv --towers towers.csv {TIME} --question bare.json "
    f"--dataset city {BOOK} "
    "--auditor anyone --expected-users 1000 --least 2 --log OUT.internal.jsonl",
    "synth": f"synth events.csv --towers towers.csv {TIME} {WHO} {BOOK} --people 20 --anyway "
    "--out OUT",
    "synth trips": "synth fixes.csv --from 2024-03-25 --to 2024-03-27 --tz UTC --method ngrams "
    f"--region 2.2,48.8,2.5,48.9 {WHO} {BOOK} --people 20 --anyway --out OUT",
    "synth release": "synth --release rel --people 20 --out OUT",
    "hotspots": "hotspots reports --number 3 --out OUT",
    "spread": "spread reports --slot 1min --out OUT",
    "anonymise counts": f"anonymise counts events.csv --towers towers.csv {TIME} {BOOK} -k 3 "
    "--totals --dataset city --no-attack --out OUT",
    "anonymise traces": f"anonymise traces events.csv --towers towers.csv {TIME} {BOOK} -k 2 "
    "--method km --dataset city --no-attack --out OUT",
    "report": "report rel --out OUT",
    "export": "export rel OUT --to flowkit",
    "evaluate": "evaluate rel --events events.csv --towers towers.csv --out OUT --no-earth-mover",
    "refine": "refine learnt --out OUT",
    "weigh": "weigh rel --shares 0.4 --out OUT",
    "combine": "combine learnt theirs --shares 0.4 --shares 0.4 --overlap 0.05 --out OUT",
    "city": "city --users 50 --towers 9 --zones 4 --days 1 --out OUT",
    "crowd": "city --kind crowd --users 50 --days 1 --out OUT",
    "init": "init --events events.csv --towers towers.csv --dataset city --expected-users 1000 "
    "--yes --out OUT.toml",
    "attack": "attack rel --events events.csv --towers towers.csv --seeds 1 --rounds 8 --out OUT",
    "attack anonymised": f"attack anonymised events.csv --towers towers.csv {TIME} --k 3 --out OUT",
    "audit": "audit gaussian --epsilon 1 --runs 64 --out OUT",
    "ledger show": f"ledger show {BOOK}",
    "ledger init": f"ledger init --dataset other --cap-epsilon 1 --cap-delta 1e-6 {BOOK}",
    "ledger allow": "ledger allow --dataset city --analyst a --cap-epsilon 1 --cap-delta 1e-6 "
    f"{BOOK}",
    "ledger verify": f"ledger verify {BOOK}",
    "doctor": f"doctor {BOOK}",
    "config": f"release events.csv --config sfumato.toml {BOOK} --out OUT --anyway",
}
"""A good line for each command. Studies (`reproduce`) and the demo are left to their own tests: a
run that is good takes minutes."""

WORDS = (
    "", " ", "-", "--", "0", "-1", "1e308", "1e-308", "nan", "inf", "-0.0", "9" * 400, "true",
    "null", "x" * 300, "a b", "a=b", "=", "user=", "=ts", "user=user_id,time=timestamp",
    "\x07bell", "\udcff", "é́", "١٢", "%s%n", "{}", "[]", "{\"a\": 1}", "../up", "./", ".",
    "no/such/file.csv", "events.csv", "towers.csv", "rel", "books", "books/ledger.sqlite",
    "sfumato.toml", "nothing.csv", "2024-02-30", "2024-03-25T99:00", "9999-12-31", "0001-01-01",
    "1h", "0h", "-1h", "1ns", "7d", "999999d", "UTC", "Mars/Phobos", "EPSG:4326", "h3:99", "h3:1",
    "500m", "0m", "1e9m", "geohash:13", "2.3,48.8,2.4,48.9", "9,9,9,9", "POLYGON EMPTY",
    "sample:0", "sample:x", "weight:-1", "gaussian", "bayes", "no-such", "user-day",
    "w-event:24h", "event", "point:-1m", f"postgresql://x:{SECRET}@127.0.0.1:1/x",
    f"host=127.0.0.1 password={SECRET}", f"PG:host=127.0.0.1 port=1 password={SECRET}",
    f"https://x:{SECRET}@example.invalid/e.parquet", "SELECT 1; DROP TABLE density",
    "COPY density TO 'x'", "mon-fri", "0-99", "visits", "people", "ns", "cp1252",
    "gaussian,laplace",
)  # fmt: skip
"""Values that some option takes and most do not."""
TOML = (
    "", "[", "a = ", "epsilon = 'x'", "epsilon = true", "epsilon = [1]", "[release]\n[release]",
    "nothing = 1", "[stream]\nscheme = 1", "[release.release]\na = 1", "epsilon = 1e999",
    "events = ''", "column = { user = 3 }", "column = 'x'", "from = 2024-13-01",
    "from = 12:00:00", "\x00", "\ufeff", "é = 1", "a.b.c.d = 1",
    f"ledger = 'postgresql://x:{SECRET}@127.0.0.1:1/x'", "out = ''", "[ledger]",
    "parameter = { c = [1, { a = 2 }] }", f"epsilon = {'[' * 300}{']' * 300}",
    "tz = 'UTC'\ntz = 'UTC'",
)  # fmt: skip


class Hung(BaseException):
    """It did not end in time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one line."""

    seed: int
    line: tuple[str, ...]
    what: str
    """What was done to the good line."""
    code: int | None
    fault: str = ""
    """Which rule it broke; nothing if it kept all."""


def _options(words: list[str]) -> list[Any]:
    command: Any = PROGRAM
    for word in words:
        commands = getattr(command, "commands", None)
        if commands is None or word not in commands:
            break
        command = commands[word]
    return [one for one in command.params if one.param_type_name == "option"]


class World:
    """A folder to break things in."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._files = good_files(home)
        (home / "nothing.csv").touch()
        (home / "question.json").write_text(
            '{"measure": "unique_people", "zones": ["T01"], "want": {"epsilon": 0.01}}'
        )
        (home / "bare.json").write_text('{"measure": "unique_people", "zones": "all"}')
        self._config = """tz = "UTC"\nslot = "6h"\nfrom = 2024-03-25\nto = 2024-03-27
towers = "towers.csv"\ndataset = "city"\nexpected-users = 1000\nepsilon = 0.01\ndelta = 1e-6
scheme = "gaussian"\n"""
        (home / "sfumato.toml").write_text(self._config)
        with self.inside():
            for unit in ("user-period", "user-day", "trajectory", "point:200m"):
                caps = ["--cap-epsilon", "1e6", "--cap-delta", "1e-3"]
                for whose in ("city", "theirs"):
                    self._good(["ledger", "init", "--dataset", whose, "--unit", unit, *caps])
            made = EVERY["release"].replace("0.01", "5")
            self._good(made.replace("OUT", "rel").split())
            self._good(made.replace("OUT", "learnt").replace("gaussian", "bayes").split())
            other = made.replace("OUT", "theirs").replace("gaussian", "bayes")
            self._good(other.replace("--dataset city", "--dataset theirs").split())
            self._good(EVERY["sanitise"].replace("OUT", "reports").split())
        self._inputs = {path: path.read_bytes() for path in self._files.values()}
        self._numbers = 0

    def _good(self, words: list[str]) -> None:
        given = words if "--ledger" in words else [*words, *BOOK.split()]
        code, said = _run(given)
        assert code == 0, said

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The world is the working folder, and home to a ledger that nobody names."""
        here, kept = Path.cwd(), dict(os.environ)
        os.environ |= {
            "XDG_DATA_HOME": str(self.home / "data-home"),
            "SFUMATO_TRACEBACK": "1",
            "COLUMNS": "200",
        }
        os.chdir(self.home)
        try:
            yield
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(kept)

    def run(self, words: list[str]) -> tuple[int, str]:
        """Exit code, and all that was printed."""
        return _run(words)

    def reset(self) -> None:
        """Number outputs from the beginning again."""
        self._numbers = 0

    def next_number(self) -> int:
        """Of the next output, which is swept when it was judged."""
        self._numbers += 1
        return self._numbers

    def line(self, seed: int) -> tuple[list[str], str]:
        """A spoiled command line, and what was done to it."""
        chance = random.Random(seed)
        name = chance.choice(list(EVERY))
        words = EVERY[name].replace("OUT", f"out-{self.next_number()}").split()
        done: list[str] = []
        for _ in range(chance.choice((1, 1, 2, 3))):
            spoil: Callable[[list[str], random.Random], str] = chance.choice(
                (self._value, self._value, self._file, self._file, self._left_out, self._added)
            )
            if name == "config":
                spoil = self._settings
            if name in ("query", "answers") and chance.random() < 0.4:
                spoil = self._question
            done.append(spoil(words, chance))
        if words[0] == "audit":  # an audit of this scheme is a good one, and takes long
            words = ["gaussian" if word == "bayes" else word for word in words]
        return words, "; ".join(done)

    def _value(self, words: list[str], chance: random.Random) -> str:
        at = [k for k, word in enumerate(words[1:], 1) if not word.startswith("--")]
        if not at:
            return "as it was"
        k = chance.choice(at)
        words[k] = chance.choice(WORDS)
        if words[k - 1] in ("--dataset", "--analyst", "--name", "--out"):
            words[k] = words[k].replace(SECRET, "x")  # these are shown, that is what they are for
        return f"word {k}"

    def _file(self, words: list[str], chance: random.Random) -> str:
        at = [k for k, word in enumerate(words) if word in self._files]
        if not at:
            return self._value(words, chance)
        k = chance.choice(at)
        folder = self.home / f"spoiled-{self._numbers}"
        folder.mkdir(exist_ok=True)
        path, how = mutate(self._files[words[k]], chance.randrange(1 << 30), folder)
        words[k] = str(path.relative_to(self.home))
        return f"file: {how}"

    def _left_out(self, words: list[str], chance: random.Random) -> str:
        if len(words) < 2:
            return "as it was"
        k = chance.randrange(1, len(words))
        return f"without {words.pop(k)}"

    def _added(self, words: list[str], chance: random.Random) -> str:
        options = _options(words)
        if not options:
            return self._value(words, chance)
        option = chance.choice(options)
        flag = max(option.opts, key=len)
        words.append(flag)
        if not option.is_flag:
            words.append(chance.choice(WORDS).replace(SECRET, "x" if flag == "--name" else SECRET))
        return f"with {flag}"

    def _settings(self, words: list[str], chance: random.Random) -> str:
        kept = [line for line in self._config.splitlines() if chance.random() < 0.9]
        kept.insert(chance.randrange(len(kept) + 1), chance.choice(TOML))
        path = self.home / f"settings-{self._numbers}.toml"
        path.write_text("\n".join(kept), errors="surrogatepass")
        words[words.index("sfumato.toml") if "sfumato.toml" in words else -1] = path.name
        return "configuration"

    def _question(self, words: list[str], chance: random.Random) -> str:
        text = list(malformed(chance.randrange(1 << 30), 60))[-1]
        for k, word in enumerate(words):
            if word in ("question.json", "bare.json"):
                words[k] = text.replace("\x00", "")
        return "question"

    def judge(self, seed: int) -> Verdict:
        """Run the line of a seed, and say which rule it broke."""
        before = grown()
        line, what = self.line(seed)
        fault, code = "", None
        with self.inside():
            try:
                code, said = _run(line)
            except BaseException as error:
                fault, said = f"{type(error).__name__}: {str(error)[:200]}", ""
        return self.verdict(Verdict(seed, tuple(line), what, code, fault), said, before)

    def verdict(self, found: Verdict, said: str, before: float) -> Verdict:
        """The verdict with the first rule that what was said or left behind breaks."""
        line, code, fault = found.line, found.code, found.fault
        shown = said.replace(" ".join(line), "")
        if not fault and code not in (0, 1, 2, 3):
            fault = f"exit code {code}"
        # The first two are lists of what was looked at; a group of commands alone shows its help.
        report = line[:1] == ("doctor",) or line[:2] == ("ledger", "verify") or len(line) < 2
        if not fault and code and len(said.splitlines()) > MOST_LINES and not report:
            fault = f"{len(said.splitlines())} lines"
        if not fault and code and SECRET in shown:
            fault = "a password"
        if not fault and code and PERSON in shown:
            fault = "a record"
        if not fault and grown() - before > GROWN_MB:
            fault = f"{grown() - before:.0f} MB"
        for path, content in self._inputs.items():
            if not path.exists() or path.read_bytes() != content:
                # Who names it so means it; in Python `out=` has the name.
                named = ("--out", path.name) in pairwise(line)
                if not named and not any(w[:4] == "out=" and path.name in w for w in line):
                    fault = fault or f"{path.name} was changed"
                path.write_bytes(content)
        for path in self.home.glob(f"*-{self._numbers}*"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        return replace(found, fault=fault)


def grown() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_time(work: Callable[[], object]) -> None:
    """Do it, or raise `Hung` after `PATIENCE_S` CPU-seconds."""

    def ring(*_: object) -> None:
        raise Hung(f"not over after {PATIENCE_S} s")

    old = [(one, signal.signal(one, ring)) for one in (signal.SIGPROF, signal.SIGALRM)]
    # Work is measured in CPU-seconds, which a busy machine does not lengthen; a wait for nothing
    # takes none.
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    signal.alarm(10 * PATIENCE_S)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for one, before in old:
            signal.signal(one, before)


def _run(words: list[str]) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    kept, screen = sys.argv, io.StringIO()
    try:
        sys.argv = ["sfumato", *words]
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            in_time(run)
    except SystemExit as left:
        code = left.code
        return (0 if code is None else code if isinstance(code, int) else 1), screen.getvalue()
    finally:
        sys.argv = kept
    return 0, screen.getvalue()


def summary(verdicts: list[Verdict]) -> dict[str, Any]:
    """How many lines of each command ended how."""
    found: dict[str, Any] = {}
    for one in verdicts:
        row = found.setdefault(one.line[0] if one.line else "", {})
        key = "broke a rule" if one.fault else f"exit {one.code}"
        row[key] = row.get(key, 0) + 1
    return found


def told(one: Verdict) -> str:
    """A fault with what makes it again."""
    return json.dumps(
        {"seed": one.seed, "fault": one.fault, "what": one.what, "line": " ".join(one.line)[:600]}
    )
