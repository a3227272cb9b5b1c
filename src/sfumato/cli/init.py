"""`sfumato init`: a commented `sfumato.toml` after a few questions."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    DATA,
    OUTPUT,
    CapEpsilon,
    Grid,
    MaybeDataset,
    MaybeDelta,
    MaybeEnd,
    MaybeEpsilon,
    MaybeExpectedUsers,
    MaybeStart,
    MaybeTz,
    Region,
    Towers,
    Where,
    Zones,
    shared,
)
from sfumato.cli.telling import tell
from sfumato.errors import SfumatoError, UsageError

_OPEN = '""'
"""A value that nobody stated. `--config` refuses it by its name until something is written there:
a number of people or a period that was made up here would stand in a release as public knowledge.
"""


def init(
    dataset: MaybeDataset = None,
    events: Annotated[
        str | None, shared(DATA, "--events", "File, folder or address of the events.")
    ] = None,
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    start: MaybeStart = None,
    end: MaybeEnd = None,
    slot: Annotated[
        str | None, shared(DATA, "--slot", "Length of a time slot; default: 1h.")
    ] = None,
    tz: MaybeTz = None,
    expected_users: MaybeExpectedUsers = None,
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    cap_epsilon: CapEpsilon = None,
    ledger: Where = None,
    look: Annotated[
        bool | None,
        typer.Option(
            "--look/--no-look",
            help="Look at the events to write down how they are read (internal).",
            rich_help_panel=DATA,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Ask nothing; what no flag states is left empty."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Write over a file that is there.", rich_help_panel=OUTPUT),
    ] = False,
    out: Annotated[Path, typer.Option(help="File to write.", rich_help_panel=OUTPUT)] = Path(
        "sfumato.toml"
    ),
) -> None:
    """Write a commented sfumato.toml after a few questions; every command takes it as --config.

    Nothing about the period or the people is read from the data or made up: these are public facts
    and choices. What is not stated is left empty, and the next command asks for it by its name.
    Where the events are there, it looks at them to see how they are to be read, as sfumato inspect
    does.

    Example:
        sfumato init --events events.parquet --towers towers.csv
        --zones zones.geojson --dataset "metro subscribers"
        --expected-users 2000000 --yes
    """
    if out.exists() and not force:
        raise UsageError(
            f"{out} is there already.",
            remedy="Write over it with --force, or choose another --out.",
        )
    from sfumato.io.beforehand import require_possible

    ask = _Questions(yes)
    chosen = _Settings(
        dataset=ask("Whose people are these, in your words?", dataset),
        events=_no_secret(ask("Where are the events (file, folder, address)?", events)),
    )
    _ask_places(ask, chosen, towers, zones, grid, region)
    _ask_period(ask, chosen, start, end, slot, tz)
    named = "towers" in chosen.places
    require_possible(chosen.events, None, zones=not named, period=chosen.period)
    users = ask.number("About how many people, from public knowledge?", expected_users)
    each = ask.number("Epsilon of one release?", epsilon, 0.3) or 0.3
    # A tenth of one over the people, as the errors about delta advise.
    tenth = None if users is None else float(f"{0.1 / users:.0e}")
    chosen.users = None if users is None else int(users)
    chosen.epsilon = each
    chosen.delta = ask.number("Delta, well below one over the people?", delta, tenth)
    most = max(2.0, each)
    chosen.cap = ask.number("Most epsilon of all releases together?", cap_epsilon, most) or most
    chosen.ledger = _no_secret(ledger)
    if look or (look is None and not yes):  # nobody reads what --yes would write down from rows
        _look(chosen)
    text = chosen.text()
    _write(out, text)
    typer.echo(f"Written: {out}.")
    empty = re.findall(rf"^([a-z-]+) = {_OPEN}", text, re.MULTILINE)
    if not chosen.places:
        empty.append("places (towers, zones, or grid and region)")
    if empty:
        typer.echo(f"Nobody stated {', '.join(empty)}: write there what they are.")
    typer.echo("Read it; then, in this order:")
    for command in ("ledger init", "plan", "release"):
        where = " --out releases/first" if command == "release" else ""
        typer.echo(f"  sfumato {command} --config {out}{where}")


def _no_secret(text: str | None) -> str | None:
    """The text, refused where it is an address that holds a password."""
    if text is None:
        return None
    if re.match(r"\s*[a-z+]+://[^/@]*:[^/@]*@", text, re.IGNORECASE) or "password=" in text:
        raise UsageError(
            "An address with a password does not belong in a file.",
            remedy="Leave the password out: PGPASSWORD, ~/.pgpass or a service hold it.",
        )
    return text


def _write(path: Path, text: str) -> None:
    """For its owner alone: it names data and ledger."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


class _Questions:
    """Asks for what was not said; with `--yes`, takes what has a default and leaves the rest."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent

    def __call__(self, question: str, said: object, default: str | None = None) -> str | None:
        """What was said or answered; none where that is nothing: no question comes twice."""
        if said is not None or self._silent:
            return default if said is None else str(said)
        words = question if default else f"{question} (Enter leaves it empty)"
        try:
            answer: str = typer.prompt(
                words, default=default or "", show_default=bool(default), err=True
            )
        except typer.Abort:
            if sys.stdin.isatty():
                raise
            raise UsageError(
                f"The input ended at the question {question!r}; nothing was written.",
                remedy="Ask nothing with --yes, and state with flags what is known.",
            ) from None
        return answer.strip() or None

    def number(
        self, question: str, said: float | None, default: float | None = None
    ) -> float | None:
        shown = None if default is None else f"{default:g}"
        text = self(question, said, shown)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number.", remedy="Write it as 0.3.") from None
        if not number > 0:
            raise UsageError("This number must be above zero.")
        return number


@dataclass(slots=True)
class _Settings:
    """What goes into the file; none is what nobody stated."""

    dataset: str | None
    events: str | None
    places: dict[str, str] = field(default_factory=dict)
    start: date | None = None
    end: date | None = None
    slot: str = "1h"
    tz: str | None = None
    users: int | None = None
    epsilon: float = 0.3
    delta: float | None = None
    cap: float = 2.0
    ledger: str | None = None
    reading: list[str] = field(default_factory=list)

    @property
    def period(self) -> tuple[int, int] | None:
        """In epoch microseconds, by UTC; none where it is open."""
        if self.start is None or self.end is None:
            return None
        first, after = (datetime.combine(day, time(), UTC) for day in (self.start, self.end))
        return int(first.timestamp() * 1e6), int(after.timestamp() * 1e6)

    def text(self) -> str:
        """The file, section by section."""
        keys = ("towers", "zones", "grid", "region")
        examples = {
            "towers": "towers.csv",
            "zones": "zones.geojson",
            "grid": "500m",
            "region": "2.22,48.81,2.47,48.91",
        }
        where = [
            f"{key} = {_quoted(self.places[key])}"
            if key in self.places
            else f"# {key} = {_quoted(examples[key])}"
            for key in keys
        ]
        events = f"events = {_OPEN}" if self.events is None else f"events = {_quoted(self.events)}"
        delta = _OPEN if self.delta is None else f"{self.delta:g}"
        book = '# ledger = "ledger.sqlite"  # default: a file in your data folder'
        lines = [
            "# Settings of sfumato: every option of every command has a place here, under the name",
            "# of its long flag. A flag on the command line wins. sfumato COMMAND -h lists them.",
            '# Where `""` stands, nobody has stated it yet: write what it is.',
            "",
            "# Whose people these are. The ledger adds up all that is ever released about them.",
            f'dataset = {_quoted(self.dataset)}  # in your words: "metro subscribers"',
            f"expected-users = {_OPEN if self.users is None else f'{self.users:_}'}"
            "  # how many, from public knowledge, rounded: 2_000_000; never counted",
            "",
            "# The events, and how they are read: sfumato inspect looks at them for you.",
            *(self.reading or [events, _READING]),
            "",
            "# Where: towers that the events name, zones, both, or the cells of a grid.",
            *where,
            "",
            "# When: a public choice, never read from the data.",
            f"from = {self.start or _OPEN}  # first day: 2007-09-10",
            f"to = {self.end or _OPEN}  # first day that is no longer part of it: 2007-09-17",
            f"slot = {_quoted(self.slot)}",
            f'tz = {_quoted(self.tz)}  # of days and slots: "Europe/Paris"',
            "",
            "# The promise: one person's whole record in the period changes the probability of any",
            "# output by at most a factor of exp(epsilon), plus delta.",
            f"epsilon = {self.epsilon:g}",
            f"delta = {delta}  # a tenth of one over the people, or less: 1e-7",
            "",
            "# What was ever released about these people, and what all of it may come to: sfumato",
            "# ledger init takes the cap, sfumato plan says how many such releases fit under it.",
            book if self.ledger is None else f"ledger = {_quoted(self.ledger)}",
            f"cap-epsilon = {self.cap:g}",
            f"cap-delta = {delta}  # as delta",
            "",
            "# Who publishes it: for manifest, README.txt, page and sfumato export --to package.",
            '# publisher = "Metro Telecom"',
            '# licence = "CC-BY-4.0"',
            '# contact = "data@example.org"',
            "",
            "[release]",
            'scheme = "bayes"  # how the numbers are made',
            "# integers = true",
            "",
            "# [evaluate], [stream], [attack.recovery], … take their options in the same way.",
        ]
        return "\n".join(lines) + "\n"


_READING = '# column = { user = "imsi", time = "ts", place = "bs" }  # where names do not tell'


def _quoted(text: str | None) -> str:
    return _OPEN if text is None else json.dumps(text, ensure_ascii=False)


def _ask_places(
    ask: _Questions,
    chosen: _Settings,
    towers: Path | None,
    zones: Path | None,
    grid: str | None,
    region: str | None,
) -> None:
    """Towers, zones or both; a grid where there are none, since coordinates need nothing else."""
    given = {"towers": towers, "zones": zones, "grid": grid, "region": region}
    chosen.places = {key: str(value) for key, value in given.items() if value is not None}
    if not chosen.places:
        answers = {
            "towers": ask("File of towers that the events name?", None),
            "zones": ask("File of zones to publish numbers for?", None),
        }
        chosen.places = {key: value for key, value in answers.items() if value not in (None, "-")}
    if not chosen.places and (size := ask("Cells of which size?", None)) is not None:
        chosen.places["grid"] = size
    if "grid" in chosen.places and "region" not in chosen.places:
        covered = ask("Which region does the grid cover (west,south,east,north)?", None)
        chosen.places["region"] = covered or ""


def _ask_period(
    ask: _Questions,
    chosen: _Settings,
    start: str | None,
    end: str | None,
    slot: str | None,
    tz: str | None,
) -> None:
    chosen.start = _day(ask("First day of the period?", start))
    chosen.end = _day(ask("First day that is no longer part of it?", end))
    if chosen.start and chosen.end and chosen.end <= chosen.start:
        raise UsageError("The period is empty: its end is not after its start.")
    chosen.slot = ask("Length of a time slot?", slot, "1h") or "1h"
    chosen.tz = ask("Time zone of days and slots?", tz)


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date.", remedy="Write it as 2007-09-10.") from None


def _look(chosen: _Settings) -> None:
    """How the events are read, where they are there to be looked at. For the holder's eyes."""
    if chosen.events is None or not Path(chosen.events).exists():
        return
    from sfumato.io.inspect import look

    tell([f"looking at {chosen.events} to write down how it is read; sfumato inspect says more"])
    try:
        found = look(chosen.events)
    except SfumatoError as error:
        tell([f"it cannot be read as it is: {error}"])
        return
    chosen.reading = found.toml()
    if not found.usable:
        tell(["read like this, NOTHING would be counted: see sfumato inspect for what is missing"])
