"""`sfumato.demo`: the whole way on people who do not exist, and the tour of everything else.

The demo makes a city, publishes a week of its hourly density and compares that with the truth. The
tour goes on where it ends, on the same city and the same ledger: it streams a morning slot by
slot, asks the release and then the data a question, and tries to recover trajectories from the
morning.

Every stage says what it is before it begins, and what to look at when it is over. What was
computed from the truth is told apart, for the holder's eyes only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.attacks.report import write
from sfumato.attacks.run import Attacked, attack
from sfumato.city import CityPlan, write_city
from sfumato.density.evaluate import Comparison, evaluate, write_comparison
from sfumato.density.publish import release
from sfumato.errors import UsageError
from sfumato.model.rounding import percent
from sfumato.model.source import Progress
from sfumato.privacy.events import USER_PERIOD, Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.answers import Answer
from sfumato.published.ask import ask
from sfumato.published.release import Release
from sfumato.published.statement import take_note
from sfumato.queries.query import Answers, query
from sfumato.streams.publish import stream
from sfumato.streams.run import Stream

DATASET = "demo city"
TITLE = "A city that does not exist"
START, END, TZ = date(2007, 9, 10), date(2007, 9, 17), "Europe/Paris"
_LEAST_USERS = 1_000
_MORNING = 9
"""Hours of the first day that are streamed: the last of them is the one to look at, from 8 to 9."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A stage of the way: told when it begins, and with what came of it when it is over."""

    number: int
    name: str
    found: Any = None
    """What came of it; None where it begins."""
    lines: tuple[str, ...] = ()
    """What to look at: public."""
    internal: tuple[str, ...] = ()
    """Computed from the truth: for the holder's eyes only."""


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """What a demo left in its folder; the last four are None without the tour."""

    folder: Path
    release: Release
    comparison: Comparison
    """Holds true counts: for the holder's eyes only."""
    stream: Stream | None = None
    answer: Answer | None = None
    """Of the release: free."""
    answers: Answers | None = None
    """Of the data: charged."""
    attacked: Attacked | None = None

    def __repr__(self) -> str:
        return f"<Demo in {self.folder.name!r}: open {self.release.folder.name}/index.html>"

    def _repr_html_(self) -> str:
        return self.release._repr_html_()


def demo(
    out: str | os.PathLike[str] = "sfumato-demo",
    *,
    users: int = 60_000,
    epsilon: float = 1.0,
    again: bool = False,
    tour: bool = False,
    watch: Callable[[Stage], None] | None = None,
    progress: Progress | None = None,
) -> Demo:
    """Make a city, publish its hourly density, compare it with the truth, say where to look.

    Args:
        out: The folder to fill; a demo that was interrupted goes on there.
        users: People who live in the city, at least 1,000. None of them exists.
        epsilon: Privacy loss of the release, and of the stream for each day.
        again: Throw an earlier demo in this folder away first.
        tour: Also stream an hour, ask a question and run an attack.
        watch: Told each stage when it begins and when it is over.
        progress: Told what is being done and its share.

    Returns:
        What was made; the comparison and the attack are internal.

    Raises:
        UsageError: There are too few people for a city.
        BudgetRefused: The folder holds an earlier demo with another epsilon.

    Example:
        >>> made = sfumato.demo("demo", tour=True)                         # doctest: +SKIP
        >>> made.release.sum(hours="8-10")                                 # doctest: +SKIP
    """
    if users < _LEAST_USERS:
        raise UsageError(f"A demo city has at least {_LEAST_USERS:,} people.")
    folder = Path(out)
    if again and (folder / "city" / "city.json").is_file():
        shutil.rmtree(folder)
    way = _Way(folder, users, epsilon, watch or (lambda _: None), progress)
    way.city()
    made, found = way.release(), way.comparison()
    if not tour:
        return Demo(folder, made, found)
    running = way.morning()
    answer, answers = way.questions(made)
    return Demo(folder, made, found, running, answer, answers, way.attack())


class _Way:
    """The stages in turn, on one city and one ledger."""

    def __init__(
        self,
        folder: Path,
        users: int,
        epsilon: float,
        watch: Callable[[Stage], None],
        progress: Progress | None,
    ) -> None:
        self._folder, self._users, self._epsilon = folder, users, epsilon
        self._watch, self._progress = watch, progress
        self._number, self._name = 0, ""
        self._ledger = Ledger(folder / "ledger.sqlite")
        self._events = folder / "city" / "events.parquet"
        self._places: dict[str, Any] = {
            "towers": folder / "city" / "towers.csv",
            "zones": folder / "city" / "zones.geojson",
        }

    @property
    def _delta(self) -> float:
        return 0.1 / self._users

    @property
    def _paid(self) -> dict[str, Any]:
        return {"dataset": DATASET, "ledger": self._ledger, "progress": self._progress}

    def city(self) -> None:
        """People, towers and zones, and a ledger with caps for all that follows."""
        self._begin(f"a city of {self._users:,} people who do not exist")
        city = self._folder / "city"
        if not (city / "city.json").is_file():
            write_city(CityPlan(users=self._users, towers=130, zones=100, seed=7), city)
        self._ledger.initialise()
        # Per day twice: a whole record that is released counts on each of its days, and a day
        # that changes is one that goes and one that comes.
        for unit, times in ((USER_PERIOD, 4), (Unit.parse("user-day"), 8)):
            if str(unit.for_cap()) not in self._ledger.book().caps.get(DATASET, {}):
                cap = Cap(times * self._epsilon, times * self._delta, None)
                self._ledger.add_dataset(DATASET, cap, unit)
        self._over(city)

    def release(self) -> Release:
        """The week, hour by hour, through the wall."""
        self._begin(f"a release of their week, epsilon {self._epsilon:g} (scheme bayes)")
        made = release(
            self._events,
            start=START,
            end=END,
            slot="1h",
            tz=TZ,
            epsilon=self._epsilon,
            delta=self._delta,
            expected_users=self._users,
            scheme="bayes",
            title=f"{TITLE}, a week",
            out=self._folder / "release",
            **self._places,
            **self._paid,
        )
        note = take_note(made.manifest)
        self._over(made, [note] if note else [])
        return made

    def comparison(self) -> Comparison:
        """What nobody but a holder can know."""
        self._begin("how good it is (only the holder may know)")
        made = self._folder / "release"
        found = evaluate(made, self._events, progress=self._progress, **self._places)
        assert isinstance(found, Comparison)
        page, *_ = write_comparison(found, self._folder / "internal-release")
        self._over(
            found,
            [
                f"Internal, with the truth beside it: {page}",
                f"Open {made.absolute() / 'index.html'} in a browser; it works offline.",
                f"Read {made.absolute() / 'README.txt'} for what is promised.",
            ],
        )
        return found

    def morning(self) -> Stream:
        """The first day again, as if it were happening: each hour is out when it is over."""
        self._begin(f"Monday morning as it happens, epsilon {self._epsilon:g} a day")
        told: Any = None
        with stream(
            None,
            out=self._folder / "stream",
            start=START,
            end=START + timedelta(days=1),
            slot="1h",
            tz=TZ,
            unit="user-day",
            epsilon=self._epsilon,
            delta=self._delta,
            expected_users=self._users,
            resume=True,
            title=f"{TITLE}, Monday as it happens",
            **self._places,
            **self._paid,
        ) as publisher:
            for slot in range(publisher.next_slot, _MORNING):
                publisher.add(self._hour(publisher, slot))
                told = publisher.close(slot)
                if self._progress is not None:
                    self._progress("publishing hour by hour", (slot + 1) / _MORNING)
        lines = [f"Open {publisher.folder.absolute() / 'index.html'}: {_MORNING} hours are out."]
        if told is not None:
            clock = f"{told.start:%H:%M} to {told.end:%H:%M}"
            lines.insert(0, f"{clock}: {told.words} people, {percent(told.left)} of the "
                         "day's budget left.")  # fmt: skip
        self._over(publisher, lines)
        return publisher

    def questions(self, made: Release) -> tuple[Answer, Answers]:
        """One that the release answers for nothing, and one that only the data can answer."""
        self._begin("questions: one to the release, one to the data")
        zone = str(made.ids[int(made.values.sum(axis=1).argmax())])  # the busiest as released
        times: dict[str, Any] = {"hours": "8-10", "weekdays": "mon-fri"}
        visits = ask(made, zones=[zone], **times)
        asked = {"measure": "unique_people", "zones": [zone], **times}
        found = query(
            self._events,
            asked | {"want": {"plus_minus": 50}},
            start=START,
            end=END,
            tz=TZ,
            delta=self._delta / 10,
            **self._places,
            **self._paid,
        )
        lines = [
            f"Visits in {zone}, weekdays from 8 to 10: the release knows, and asking is free.",
            *str(visits).splitlines(),
            "How many different people? That only the data knows, so it is noised and charged.",
            *str(found).splitlines(),
        ]
        self._over(found, lines)
        return visits, found

    def attack(self) -> Attacked:
        """Trajectories recovered from the morning's exact counts, and from what was published."""
        self._begin("an attack: trajectories recovered from the morning's counts")
        attacked = attack(
            self._folder / "stream",
            self._events,
            seeds=1,
            group=0,
            suppress=(),
            progress=self._progress,
            **self._places,
        )
        study = attacked.study
        written = write(study, {}, {}, self._folder / "internal-attack", console=None)
        lines = [f"Internal, with baselines: {path}" for path in written if path.suffix == ".md"]
        exact, published = (outcome.scores["greedy"].mean for outcome in study.outcomes)
        others = study.outcomes[0].baselines["others"]["greedy"]
        self._over(attacked, lines, [
            f"{study.people:,} people were somewhere by {_MORNING}:00. Recovered places and hours:",
            f"{percent(exact)} from exact counts, {percent(published)} from what was published.",
            f"Without anything about a person, from all others' places: {percent(others)}.",
            "An attack that fails proves nothing. The noise does: it bounds every attack.",
        ])  # fmt: skip
        return attacked

    def _hour(self, publisher: Stream, slot: int) -> pa.Table:
        """The records of one slot, as a feed would bring them."""
        first, last = (int(edge) for edge in publisher.grid.edges[slot : slot + 2])
        table = pq.read_table(self._events)
        time = table["timestamp"].cast(pa.int64())
        return table.filter(pc.and_(pc.greater_equal(time, first), pc.less(time, last)))

    def _begin(self, name: str) -> None:
        self._number, self._name = self._number + 1, name
        self._watch(Stage(self._number, name))
        if self._progress is not None:
            self._progress(name, -1.0)

    def _over(self, found: Any, lines: Iterable[str] = (), internal: Iterable[str] = ()) -> None:
        self._watch(Stage(self._number, self._name, found, tuple(lines), tuple(internal)))
