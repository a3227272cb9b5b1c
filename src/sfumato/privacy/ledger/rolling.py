"""`RollingBudget`: how much was released about each user's locations in any stretch of time.

The ledger caps what is ever released about a data set. Locations are also wanted with a cap
for every day: this store notes, for each user and hour, what reports cost per metre, and
lets a report pass only if no run of hours that a window of the stated length can touch
would exceed the cap. Users are keyed tags (HMAC of data set and id, the id as text: 7 and "7" are
one person), the table lives in the ledger's database, and the decision depends on time stamps and
earlier reports, never on a location. Where data sets are linked as holding the same people, the
reports of all of them count for a user of the same id, also those made before the link; who has
another id in each of them cannot be recognised and has a budget in each.

On a device the same class keeps one person's budget in a file of its own, and pays for each
report before it is drawn (`charge`):

    budget = RollingBudget.on_device(path, cap_per_metre=0.2)
    sanitise_location(lon, lat, expected_noise_m=200, budget=budget)  # refuses, or pays and draws
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    delete,
    func,
    insert,
    select,
)

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.compiled import compiled
from sfumato.model.traces import MICROSECONDS
from sfumato.privacy.events import MetricEvent, PrivacyEvent
from sfumato.privacy.ledger.database import Database

Ints = NDArray[np.int64]


@compiled
def allow(
    users: int, user: Ints, hour: Ints, spent: Ints, runs: int, cost: int, cap: int
) -> NDArray[np.bool_]:
    """Reports sorted by user and time; `spent` has rows (user, hour, units), by user.

    `load[s]` is what the hours s … s + runs - 1 bear. A report in hour h touches the `runs` loads
    that contain h and passes only if all of them stay within the cap.
    """
    passed = np.zeros(user.size, np.bool_)
    start, row = 0, 0
    for who in range(users):
        stop = start
        while stop < user.size and user[stop] == who:
            stop += 1
        if stop > start:
            first, last = hour[start], hour[stop - 1]
            load = np.zeros(last - first + 2 * runs, np.int64)
            base = first - runs + 1
            while row < spent.shape[0] and spent[row, 0] <= who:
                if spent[row, 0] == who:
                    at = spent[row, 1] - base
                    for s in range(max(at - runs + 1, 0), min(at, load.size - 1) + 1):
                        load[s] += spent[row, 2]
                row += 1
            for i in range(start, stop):
                at = hour[i] - base
                fits = True
                for s in range(at - runs + 1, at + 1):
                    if load[s] + cost > cap:
                        fits = False
                        break
                if fits:
                    passed[i] = True
                    for s in range(at - runs + 1, at + 1):
                        load[s] += cost
        start = stop
    return passed


HOUR_S = 3600
DAY_S = 86_400
_UNIT = 10**12
"""Losses are kept as whole units of 1e-12 per metre, rounded up; caps are rounded down."""

_metadata = MetaData()
_spends = Table(
    "sfumato_rolling",
    _metadata,
    Column("release", String(64), nullable=False, index=True),
    Column("seq", BigInteger, nullable=False),
    Column("user", String(32), nullable=False),
    Column("hour", BigInteger, nullable=False),
    Column("units", BigInteger, nullable=False),
)


def units_up(per_metre: float) -> int:
    """A loss in whole units, rounded up."""
    return -int(-per_metre * _UNIT // 1)


@dataclass(frozen=True)
class RollingBudget:
    """At most `cap_per_metre` for every user in any `window_s` seconds."""

    database: Database
    key: bytes
    cap_per_metre: float
    window_s: int = DAY_S

    def __post_init__(self) -> None:
        if self.window_s < HOUR_S or self.window_s % HOUR_S:
            raise UsageError("A rolling budget counts whole hours.", remedy="Write 24h.")
        if not self.cap_per_metre > 0:
            raise UsageError("The cap of a rolling budget is positive.")

    @classmethod
    def on_device(
        cls, path: str | Path, cap_per_metre: float, window_s: int = DAY_S
    ) -> RollingBudget:
        """A budget for one person, in a file of its own."""
        database = Database(Path(path))
        database.prepare()
        return cls(database, b"device", cap_per_metre, window_s)

    def tag(self, *user: object) -> str:
        """A name for the user that only the holder of the ledger's key can make."""
        text = json.dumps(["rolling/1", *map(canonical_id, user)])
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:32]

    def allowed(
        self,
        tags: list[str],
        user: Ints,
        time_us: Ints,
        per_metre: float,
        before: int,
        linked: Sequence[list[str]] = (),
    ) -> NDArray[np.bool_]:
        """Which reports may be made, in the order of time; `user` indexes `tags`.

        `linked` are other tags of the same users, in the same order, in linked data sets. Users
        with one tag are one person. Only what was noted for ledger rows below `before` counts, so
        that the rerun of an interrupted release decides alike.
        """
        with self.database.writing() as connection:
            return self._allowed(connection, tags, user, time_us, per_metre, before, linked)

    def _allowed(
        self,
        connection: Connection,
        tags: list[str],
        user: Ints,
        time_us: Ints,
        per_metre: float,
        before: int,
        linked: Sequence[list[str]] = (),
    ) -> NDArray[np.bool_]:
        if user.size == 0:
            return np.ones(0, np.bool_)
        hour = time_us // (HOUR_S * MICROSECONDS)
        runs = self.window_s // HOUR_S + 1
        person = {tag: number for number, tag in enumerate(dict.fromkeys(tags))}
        one = np.array([person[tag] for tag in tags], dtype=np.int64)
        user = one[user]
        where = {tag: int(one[n]) for names in (*linked, tags) for n, tag in enumerate(names)}
        first, last = int(hour.min()) - runs, int(hour.max()) + runs
        past = self._past(connection, first, last, before)
        spent = np.array(
            sorted((where[tag], at, units) for tag, at, units in past if tag in where),
            dtype=np.int64,
        ).reshape(-1, 3)
        order = np.lexsort((time_us, user))
        cost, cap = units_up(per_metre), int(self.cap_per_metre * _UNIT)
        passed = np.empty(user.size, np.bool_)
        passed[order] = allow(len(person), user[order], hour[order], spent, runs, cost, cap)
        return passed

    def note(
        self, release: str, seq: int, tags: list[str], user: Ints, time_us: Ints, per_metre: float
    ) -> None:
        """Write down the reports of a release; doing it again changes nothing."""
        with self.database.writing() as connection:
            _metadata.create_all(connection)
            connection.execute(delete(_spends).where(_spends.c.release == release))
            self._insert(connection, release, seq, tags, user, time_us, per_metre)

    def _insert(
        self,
        connection: Connection,
        release: str,
        seq: int,
        tags: list[str],
        user: Ints,
        time_us: Ints,
        per_metre: float,
    ) -> None:
        hours, counts = np.unique(
            np.column_stack((user, time_us // (HOUR_S * MICROSECONDS))), axis=0, return_counts=True
        )
        cost = units_up(per_metre)
        rows = [
            {"release": release, "seq": seq, "user": tags[who], "hour": int(at), "units": n * cost}
            for (who, at), n in zip(hours.tolist(), counts.tolist(), strict=True)
        ]
        if rows:
            connection.execute(insert(_spends), rows)

    def ask(self, per_metre: float, now: float | None = None) -> None:
        """For a device: note a report that is about to be made, or refuse it."""
        at = np.array([int((time.time() if now is None else now) * MICROSECONDS)], np.int64)
        nobody = np.zeros(1, np.int64)
        # One transaction, alone with the database: two reports must not both see the last room,
        # and none may take a number that another has.
        with self.database.writing() as connection:
            _metadata.create_all(connection)
            last = connection.execute(select(func.max(_spends.c.seq))).scalar()
            seq = 1 if last is None else int(last) + 1
            if not self._allowed(connection, ["me"], nobody, at, per_metre, seq)[0]:
                raise BudgetRefused(
                    f"This report would pass the location budget of the last "
                    f"{self.window_s // HOUR_S} hours.",
                    remedy="Report later, or with more noise.",
                )
            self._insert(connection, f"report-{seq}", seq, ["me"], nobody, at, per_metre)

    def charge(self, label: str, event: PrivacyEvent) -> None:  # noqa: ARG002 - a device has one
        """For a device: what a mechanism asks before it draws (`privacy.events.Charger`)."""
        if not isinstance(event, MetricEvent):
            raise UsageError("A rolling budget pays for location noise per metre only.")
        self.ask(event.epsilon_per_metre)

    def _past(
        self, connection: Connection, first: int, last: int, before: int
    ) -> list[tuple[str, int, int]]:
        """What was noted for the hours from `first` to `last` by earlier ledger rows."""
        _metadata.create_all(connection)
        rows = connection.execute(
            select(_spends.c.user, _spends.c.hour, _spends.c.units).where(
                _spends.c.seq < before, _spends.c.hour.between(first, last)
            )
        )
        return [(str(user), int(hour), int(units)) for user, hour, units in rows]


def canonical_id(user: object) -> str:
    """One text for one person, as readers have it: 7, 7.0 and "7" are one, bytes are their hex."""
    if isinstance(user, np.generic):
        user = user.item()
    if isinstance(user, float) and user.is_integer():
        user = int(user)
    return user.hex() if isinstance(user, bytes) else str(user)
