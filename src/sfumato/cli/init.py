"""`sfumato init`: a commented `sfumato.toml` after a few questions."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

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

_WHOLE_CITY = 1_000_000
"""People, where nobody says how many: an order of magnitude for the holder to correct."""


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
        bool, typer.Option("--yes", "-y", help="Ask nothing: take flags and defaults.")
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

    Nothing about the period or the people is read from the data: these are public choices. Where
    the events are there, it looks at them to see how they are to be read, as sfumato inspect does.

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
    ask = _Questions(yes)
    chosen = _Settings(
        dataset=ask("Whose people are these, in your words?", dataset, "my people"),
        events=_no_secret(
            ask("Where are the events (file, folder, address)?", events, "events.parquet")
        ),
    )
    _ask_places(ask, chosen, towers, zones, grid, region)
    _ask_period(ask, chosen, start, end, slot, tz)
    users = ask.number("About how many people, from public knowledge?", expected_users, _WHOLE_CITY)
    each = ask.number("Epsilon of one release?", epsilon, 0.3)
    # A tenth of one over the people, as the errors about delta advise.
    small = ask.number("Delta, well below one over the people?", delta, float(f"{0.1 / users:.0e}"))
    cap = ask.number("Most epsilon of all releases together?", cap_epsilon, max(2.0, each))
    chosen.users, chosen.epsilon, chosen.delta, chosen.cap = int(users), each, small, cap
    chosen.ledger = None if ledger is None else _no_secret(ledger)
    if look or (look is None and not yes):  # nobody reads what --yes would write down from rows
        _look(chosen)
    _write(out, chosen.text())
    typer.echo(f"Written: {out}. Read it; then, in this order:")
    for command in ("ledger init", "plan", "release"):
        where = " --out releases/first" if command == "release" else ""
        typer.echo(f"  sfumato {command} --config {out}{where}")


def _no_secret(text: str) -> str:
    """The text, refused where it is an address that holds a password."""
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
    """Asks for what was not said; with `--yes`, takes the defaults."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent

    def __call__(self, question: str, said: object, default: str | None) -> str:
        if said is not None or self._silent:
            return default or "" if said is None else str(said)
        answer: str = typer.prompt(question, default=default, err=True)
        return answer.strip()

    def number(self, question: str, said: float | None, default: float) -> float:
        shown = f"{default:,.0f}".replace(",", "_") if default >= 1000 else f"{default:g}"
        text = self(question, said, shown)
        try:
            number = float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number.", remedy="Write it as 0.3.") from None
        if not number > 0:
            raise UsageError("This number must be above zero.")
        return number


@dataclass(slots=True)
class _Settings:
    """What goes into the file."""

    dataset: str
    events: str
    places: dict[str, str] = field(default_factory=dict)
    period: dict[str, Any] = field(default_factory=dict)
    users: int = _WHOLE_CITY
    epsilon: float = 0.3
    delta: float = 1e-7
    cap: float = 2.0
    ledger: str | None = None
    reading: list[str] = field(default_factory=list)

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
        book = [] if self.ledger is None else ["[ledger]", f"ledger = {_quoted(self.ledger)}", ""]
        lines = [
            "# Settings of sfumato: every option of every command has a place here, under the name",
            "# of its long flag. A flag on the command line wins. sfumato COMMAND -h lists them.",
            "",
            "# Whose people these are. The ledger adds up all that is ever released about them.",
            f"dataset = {_quoted(self.dataset)}",
            f"expected-users = {self.users:_}  # from public knowledge, rounded; never counted",
            "",
            "# The events, and how they are read: sfumato inspect looks at them for you.",
            *(self.reading or [f"events = {_quoted(self.events)}", _READING]),
            "",
            "# Where: towers that the events name, zones, both, or the cells of a grid.",
            *where,
            "",
            "# When: a public choice, never read from the data. `to` is the first day after it.",
            *(f"{key} = {value}" for key, value in self.period.items()),
            "",
            "# The promise: one person's whole record in the period changes the probability of any",
            "# output by at most a factor of exp(epsilon), plus delta.",
            f"epsilon = {self.epsilon:g}",
            f"delta = {self.delta:g}",
            "",
            "# Who publishes it: for manifest, README.txt, page and sfumato export --to package.",
            '# publisher = "Metro Telecom"',
            '# licence = "CC-BY-4.0"',
            '# contact = "data@example.org"',
            "",
            *book,
            "[ledger.init]  # what may ever be released about these people, over all releases",
            f"cap-epsilon = {self.cap:g}",
            f"cap-delta = {self.delta:g}",
            "",
            "[release]",
            'scheme = "bayes"  # how the numbers are made',
            "# integers = true",
            "",
            "[plan]",
            f"cap-epsilon = {self.cap:g}  # says how many such releases a year fit under it",
            "",
            "# [evaluate], [stream], [attack.recovery], … take their options in the same way.",
        ]
        return "\n".join(lines) + "\n"


_READING = '# column = { user = "imsi", time = "ts", place = "bs" }  # where names do not tell'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


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
            "towers": ask("File of towers that the events name ('-' for none)?", None, "-"),
            "zones": ask("File of zones to publish numbers for ('-' for none)?", None, "-"),
        }
        chosen.places = {key: value for key, value in answers.items() if value not in ("", "-")}
    if not chosen.places:
        chosen.places["grid"] = ask("Cells of which size?", None, "500m")
    if "grid" in chosen.places and "region" not in chosen.places:
        answer = ask("Which region does the grid cover (west,south,east,north)?", None, None)
        if not answer:
            raise UsageError(
                "No places are given.",
                remedy="Give --towers, --zones, or --region with west,south,east,north in degrees.",
            )
        chosen.places["region"] = answer


def _ask_period(
    ask: _Questions,
    chosen: _Settings,
    start: str | None,
    end: str | None,
    slot: str | None,
    tz: str | None,
) -> None:
    today = date.today()
    monday = today - timedelta(days=today.weekday() + 7)
    first = _day(ask("First day of the period?", start, monday.isoformat()))
    week = (first + timedelta(days=7)).isoformat()
    last = _day(ask("First day that is no longer part of it?", end, week))
    if last <= first:
        raise UsageError("The period is empty: its end is not after its start.")
    chosen.period = {
        "from": first.isoformat(),
        "to": last.isoformat(),
        "slot": _quoted(ask("Length of a time slot?", slot, "1h")),
        "tz": _quoted(ask("Time zone of days and slots?", tz, "UTC")),
    }


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date.", remedy="Write it as 2007-09-10.") from None


def _look(chosen: _Settings) -> None:
    """How the events are read, where they are there to be looked at. For the holder's eyes."""
    if not Path(chosen.events).exists():
        return
    from sfumato.io.inspection import inspect

    tell([f"looking at {chosen.events} to write down how it is read; sfumato inspect says more"])
    try:
        found = inspect(chosen.events)
    except SfumatoError as error:
        tell([f"it cannot be read as it is: {error}"])
        return
    chosen.reading = found.toml()
    if not found.usable:
        tell(["read like this, NOTHING would be counted: see sfumato inspect for what is missing"])
