"""The gate: a whole verb on the people and on the people and one more, and all that differs.

A verb is run as its command, in this process, in a folder of its own with its own ledger. What it
prints, how it ends and every file that it leaves count as published, but for `INTERNAL`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.replay.people import (
    COLUMNS,
    EXPECTED,
    FORMATS,
    MODEL,
    NATIVE,
    PEOPLE,
    PERSONS,
    SPELLED,
    Row,
    elsewhere,
    moved,
    one_unit,
    write_city,
    write_csv,
)
from tests.replay.wall import Recorder, Transcript, moves, same_bits_and_time

import sfumato
from sfumato.cli import main, telling
from sfumato.privacy.events import GaussianEvent, Unit, UnitKind, event_from_json
from sfumato.privacy.ledger import Cap, Ledger, remembered

INTERNAL = (
    re.compile(r"events.*"),  # the records themselves
    re.compile(r"books/.*"),  # the ledger and its keys
    re.compile(r".*\.internal\.jsonl(\..*)?"),  # the log of questions to an auditor
    re.compile(r"out-internal/.*"),  # whose record is whose, and what attacks make of it
)
"""Files in the folder of a run that stay with the holder, by their path. Nothing else does."""
HOLDERS = re.compile(r"^internal: .*\n", re.MULTILINE)
"""Lines of standard error for the holder, marked so; of JSON, what stands under the same word."""
TABLES = re.compile(r"[.](parquet|csv)$|^out/manifest[.]json$")
ANSWER = re.compile(r"^[0-9,]+(?=: )", re.MULTILINE)
"""Tables by rules, with the manifest that has their digests, and answers as they are printed."""
LEARNT, ZONED = "learnt", "learnt-zones"
"""Releases about people of the public model, for verbs that go on from one."""
LENGTHS = {UnitKind.W_EVENT: ":6h", UnitKind.POINT: ":200m"}
CAP = Cap(epsilon=1e6, delta=1e-2)


@dataclass(frozen=True)
class Case:
    """One way to run a verb. `words` are its arguments, with EVENTS for the path of the records.

    Ledger and data set are those of the gate: a data set for each unit, of the unit's name.
    """

    name: str
    words: tuple[str, ...]
    unit: str = "user-period"
    by_rules: bool = False
    """Its tables do not come through the wall: what is said beside them is compared alone."""
    together: bool = False
    """Its measurements are rows of one matrix: what one person moves is bounded for all of them."""
    booked: bool = True
    """It is told of a ledger and a data set."""

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that its records can have: those of receivers name no tower."""
        by_tower = f"place={COLUMNS['place']}" in self.words
        return tuple(each for each in FORMATS if not (by_tower and each in NATIVE))

    @property
    def persons(self) -> tuple[str, ...]:
        """Who joins, or where the one goes whose instants are no secret."""
        return ("nearby", "anywhere") if self.unit == "point" else tuple(PERSONS)

    def without(self) -> list[Row]:
        """What is there of the person before."""
        return moved("still") if self.unit == "point" else []

    def joins(self, person: str) -> tuple[list[Row], bool]:
        """What is there of the person then, and whether it is one unit more: a neighbour."""
        if self.unit == "point":
            return moved(person), person == "nearby"
        rows = PERSONS[person]()
        if self.unit == "user-period":
            return rows, True
        whole = person in SPELLED
        return rows if whole else one_unit(self.unit.partition(":")[0], rows), not whole


@dataclass(frozen=True)
class File:
    """A published file."""

    data: bytes
    mode: int
    stamp: int | None
    """Its time in nanoseconds; None where it is that of writing, which is no matter of the data."""


@dataclass(frozen=True)
class Published:
    """Everything that others may see of one run."""

    code: int
    out: str
    err: str
    warned: tuple[str, ...]
    files: Mapping[str, File]

    def differences(self, other: Published) -> list[str]:
        """What somebody could tell the two runs apart by."""
        lines = [
            f"{what}: {_apart(str(one).encode(), str(two).encode())}"
            for what, one, two in (
                ("exit code", self.code, other.code),
                ("standard output", self.out, other.out),
                ("standard error", self.err, other.err),
                ("warnings", self.warned, other.warned),
            )
            if one != two
        ]
        for name in sorted({*self.files, *other.files}):
            one, two = self.files.get(name), other.files.get(name)
            if one is None or two is None:
                lines.append(f"{name}: a file that is there for one of them alone")
            elif one.data != two.data:
                lines.append(f"{name}: {_apart(one.data, two.data)}")
            elif one != two:
                lines.append(
                    f"{name}: mode and time {one.mode:o} {one.stamp}, {two.mode:o} {two.stamp}"
                )
        return lines


def _apart(one: bytes, two: bytes) -> str:
    """Where two texts part."""
    shorter = min(len(one), len(two))
    first = next((k for k in range(shorter) if one[k] != two[k]), shorter)
    near = slice(max(0, first - 50), first + 50)
    return f"{len(one)} and {len(two)} bytes, at {first}: {one[near]!r} and {two[near]!r}"


@dataclass(frozen=True, eq=False)
class Run:
    """What one run published, and what its measurements were about to see."""

    published: Published
    recorder: Recorder


class Gate:
    """Runs cases in a folder, always the same one, so that no path tells two runs apart."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._model: dict[Case, Transcript] = {}
        self._base: dict[tuple[Case, str, bool], Run] = {}

    @cached_property
    def _city(self) -> Path:
        """Public files, and a ledger with a data set for every unit there is."""
        folder = self.home / "city"
        (folder / "books").mkdir(parents=True)
        write_city(folder)
        with same_bits_and_time():
            ledger = Ledger(folder / "books" / "ledger.sqlite")
            ledger.initialise()
            for kind in UnitKind:
                unit = Unit.parse(f"{kind}{LENGTHS.get(kind, '')}")
                ledger.add_dataset(str(kind), CAP, unit)
            for path in sorted((folder / "books").iterdir()):
                os.utime(path, (0, 0))
        return folder

    def _learn(self, name: str) -> None:
        """A release that stands in the ledger before anything is asked, made when it is needed."""
        folder = self._city
        if (folder / name).exists():
            return
        remembered.forget()
        events = write_csv(folder, MODEL, ())
        places = {"zones": folder / "zones.geojson"} if name == ZONED else {}
        with same_bits_and_time():
            sfumato.release(
                events,
                out=folder / name,
                dataset=UnitKind.USER_PERIOD,
                epsilon=4,
                delta=1e-6,
                start="2024-03-04",
                end="2024-03-06",
                tz="UTC",
                expected_users=EXPECTED,
                towers=folder / "towers.csv",
                column={role: COLUMNS[role] for role in ("user", "time", "place")},
                ledger=folder / "books" / "ledger.sqlite",
                anyway=True,
                internal=lambda _: None,
                **places,
            )
        events.unlink()

    def run(
        self,
        case: Case,
        person: Sequence[Row] = (),
        format: str = "csv",
        transcript: Transcript | None = None,
        people: Sequence[Row] | None = None,
    ) -> Run:
        """The case, once; `transcript` None lets the truth through the wall."""
        folder = self.home / "run"
        shutil.rmtree(folder, ignore_errors=True)
        for name in {LEARNT, ZONED} & {*case.words}:
            self._learn(name)
        shutil.copytree(self._city, folder)
        rows = PEOPLE if people is None else people
        events = FORMATS[format](folder, rows, person).name
        remembered.forget()
        recorder = Recorder(transcript)
        words = [events if word == "EVENTS" else word for word in case.words]
        with _in(folder), same_bits_and_time(), recorder.listening():
            begun = time.time_ns()
            own = ("--dataset", case.unit.partition(":")[0], "--ledger", "books/ledger.sqlite")
            code, out, err, warned = _command([*words, *(own if case.booked else ())])
            ended = time.time_ns()
        files = dict(_files(folder, begun, ended))
        if case.by_rules:
            files = {name: each for name, each in files.items() if not TABLES.search(name)}
            out = ANSWER.sub("N", out)
        if recorder.refused:
            raise AssertionError(f"{case.name}: {recorder.refused}\n{err}")
        if "--json" in words and code == 0:
            told = json.loads(out)
            told.pop(telling.KEY, None)
            out = json.dumps(told)
        return Run(Published(code, out, HOLDERS.sub("", err), warned, files), recorder)

    def model(self, case: Case) -> Transcript:
        """Answers that look true: those that the public model's people would have."""
        if case not in self._model:
            still = case.without()
            people = elsewhere([*PEOPLE, *still], 3) if still else MODEL
            run = self.run(case, people=people)
            arrays = {name: each.values for name, each in run.recorder.measured.items()}
            self._model[case] = Transcript(arrays)
        return self._model[case]

    def base(self, case: Case, format: str, true_looking: bool, again: bool = False) -> Run:
        """The people alone, once for all who join them."""
        key = (case, format, true_looking)
        if again or key not in self._base:
            answers = self.answers(case, true_looking)
            run = self.run(case, case.without(), format, answers)
            # Two runs that both die say nothing of each other.
            assert "stopped unexpectedly" not in run.published.err, (case.name, run.published.err)
            self._base[key] = run
        return self._base[key]

    def answers(self, case: Case, true_looking: bool) -> Transcript:
        return self.model(case) if true_looking else Transcript()

    def leaks(
        self, case: Case, person: str, format: str = "csv", true_looking: bool = False
    ) -> list[str]:
        """All by which the people can be told from the people and one more; empty if nothing.

        What is made once in a process (compiled code, a forecast) may show in its first run
        alone: the people are then run again before a difference is believed.
        """
        rows, neighbour = case.joins(person)
        base = self.base(case, format, true_looking)
        joined = self.run(case, rows, format, self.answers(case, true_looking))
        lines = base.published.differences(joined.published)
        if lines:
            base = self.base(case, format, true_looking, again=True)
            lines = base.published.differences(joined.published)
        claim = _claim(base.published) if case.together else None
        return lines + moves(base.recorder, joined.recorder, neighbour, claim)


def _claim(published: Published) -> GaussianEvent | None:
    """The one event that a manifest states; none where nothing was published."""
    if published.code:
        return None
    manifest = json.loads(published.files["out/manifest.json"].data)
    (measurement,) = manifest["privacy"]["measurements"]
    event = event_from_json(measurement["event"])
    assert isinstance(event, GaussianEvent)
    return event


def _files(folder: Path, begun: int, ended: int) -> Iterator[tuple[str, File]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(rule.fullmatch(name) for rule in INTERNAL):
            continue
        about = path.stat()
        slack = 20_000_000  # a file system's clock ticks in steps
        written = begun - slack <= about.st_mtime_ns <= ended + slack
        public = name in ("towers.csv", "zones.geojson")
        if not public:
            yield (
                name,
                File(path.read_bytes(), about.st_mode, None if written else about.st_mtime_ns),
            )


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _command(words: Sequence[str]) -> tuple[int, str, str, tuple[str, ...]]:
    """The command in this process: exit code, what it prints (libraries too), warnings."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        patch.object(sys, "argv", ["sfumato", *words]),
        patch.object(os, "fsync"),  # no power is cut here, and a disk takes its time
        patch.object(telling, "PATIENCE_S", 600.0),  # how busy the machine is says nothing
        _printing(1, out, "stdout"),
        _printing(2, err, "stderr"),
        warnings.catch_warnings(record=True) as heard,
    ):
        warnings.simplefilter("always")
        code: object = 0
        try:
            main.run()
        except SystemExit as end:
            code = end.code
        texts = []
        for file in (out, err):
            file.flush()
            file.seek(0)
            texts.append(file.read())
    number = code if isinstance(code, int) else 0 if code is None else 1
    return number, *texts, tuple(str(warning.message) for warning in heard)


@contextmanager
def _printing(handle: int, file: Any, name: str) -> Iterator[None]:
    """What is printed, by Python or below it, goes to the file."""
    kept = os.dup(handle)
    os.dup2(file.fileno(), handle)
    try:
        with patch.object(sys, name, file):
            yield
    finally:
        os.dup2(kept, handle)
        os.close(kept)
