"""`Questions`: what a release can be asked beyond a sum.

    week.compare({"hours": "8-10"}, {"hours": "17-19"})
    week.rank("zone", top=5, hours="7-10", weekdays="mon-fri")
    week.present("now", polygon="2.3,48.8,2.4,48.9")

`Release` inherits the methods; each is one call of `asking`, `usual` or `sql`. A selection is the
words of `Release.sum`: given as they are, or as a mapping where a question has two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.model.tiles import tiles
from sfumato.published import asking, usual
from sfumato.published.answers import (
    Comparison,
    Presence,
    Profile,
    Ranking,
    Table,
    Total,
    Usual,
)
from sfumato.published.groups import Words, signed
from sfumato.published.selection import DAYS, Moment
from sfumato.published.sql import SECONDS, run_sql

if TYPE_CHECKING:
    from sfumato.published.release import Release

Numbers = NDArray[np.float64]
UNCERTAIN = 0.5
"""Part of a count from which on its error makes it uncertain, as in `density.fitness`."""


class Questions:
    """Questions to a release. Every word of a selection is explained at `Release.sum`."""

    @cached_property
    def estimation_error(self) -> Numbers | None:
        """Standard deviation of each count's estimation error; `None` where none can be told.

        Chance is left out: even with perfect knowledge of where people usually are, a count of
        three may come out as five, and an interval says so. What is left is what the noise, the
        bound and the method leave unknown. It comes from the posterior of a density; of other
        numbers it is what their intervals hold beyond the chance of whole people.
        Post-processing of published numbers.
        """
        of = _release(self)
        if of.kind == "density" and of.posterior is not None:
            return of.posterior.spread()
        coverage = of.manifest.scheme.interval_coverage
        if of.kind == "traces" or of.lower is None or of.upper is None or not coverage:
            return None
        wide = (of.upper - of.lower) / (2 * NormalDist().inv_cdf(0.5 + coverage / 2))
        found: Numbers = np.sqrt(np.maximum(np.square(wide) - np.maximum(of.values, 0.0), 0.0))
        return found

    @property
    def uncertain(self) -> NDArray[np.bool_] | None:
        """Counts whose estimation error exceeds half of their value, which maps draw faded; `None`
        where no error is known.

        Example:
            >>> week.values[week.uncertain].sum() / week.values.sum()   # doctest: +SKIP
        """
        error = self.estimation_error
        if error is None:
            return None
        values, found = _release(self).values, np.empty(error.shape, dtype=bool)
        for rows in tiles(error.shape):
            np.greater(error[rows], UNCERTAIN * np.abs(values[rows]), out=found[rows])
        return found

    def compare(
        self,
        a: Mapping[str, Any],
        b: Mapping[str, Any] | None = None,
        *,
        other: Release | None = None,
    ) -> Comparison:
        """Two selections side by side: their difference and ratio, with intervals.

        Where they have unequally many slots, averages of a slot are compared.

        Args:
            a: Words of `sum`.
            b: Words of the second selection; the same as `a`, where `other` is given.
            other: The release that `b` is asked of; default: this one.

        Returns:
            `difference`, `ratio` and whether the difference is `clear` of zero.

        Raises:
            InputError: The releases count different things, or have no such place or slot.
            UsageError: Something is not understood.

        Example:
            >>> week.compare({"hours": "8-10"}, {"hours": "17-19"})    # doctest: +SKIP
        """
        return asking.compare(_release(self), a, b, other)

    def share(self, part: Mapping[str, Any], whole: Mapping[str, Any] | None = None) -> Total:
        """One selection over another that holds it.

        Args:
            part: Words of `sum`.
            whole: Words of what it is a part of; default: all places at the same times.

        Returns:
            The share, between 0 and 1.

        Raises:
            UsageError: The part is not inside of the whole.

        Example:
            >>> week.share({"zones": ["Z00003"], "hours": "8-10"})     # doctest: +SKIP
        """
        return asking.share(_release(self), part, whole)

    def rank(
        self,
        by: str = "zone",
        *,
        top: int = 10,
        quietest: bool = False,
        window: str | timedelta | None = None,
        demand: Mapping[str, float] | None = None,
        **words: Unpack[Words],
    ) -> Ranking:
        """The busiest places or times (or the quietest), and how sure their order is.

        Args:
            by: zone, district, hour (of the day), weekday, day or slot.
            top: How many.
            quietest: The other end.
            window: Runs of slots that last so long ("2h"), none sharing a slot with another; for
                hours and slots.
            demand: How much hours matter: {"7-10": 2, "12-14": 1}. Default: all alike.
            words: The selection.

        Returns:
            A row each: the average of a slot, the interval of its rank, the chance that it
            belongs to the first `top`, and whether it is clearly before the next.

        Raises:
            UsageError: Something is not understood.

        Example:
            >>> week.rank("zone", top=5, hours="7-10")                 # doctest: +SKIP
        """
        return asking.rank(_release(self), by, top, quietest, window, demand, words)

    def profile(
        self, by: str = "hour", *, below: float | None = None, **words: Unpack[Words]
    ) -> Profile:
        """The average of a slot for each hour of the day, weekday, day, slot, zone or district.

        Args:
            by: What it goes by.
            below: Also say how surely each average is below this number.
            words: The selection.

        Returns:
            A row each, in the order of time or of places.

        Raises:
            UsageError: Something is not understood.

        Example:
            >>> week.profile("hour", weekdays="mon-fri").to_pandas()   # doctest: +SKIP
        """
        return asking.profile(_release(self), by, below, words)

    def unusual(self, *, earlier: Sequence[Release] = (), **words: Unpack[Words]) -> Usual:
        """Slots against the same weekday and hour in this release and in earlier ones.

        Args:
            earlier: Releases of other weeks, of the same places and slots.
            words: The selection; its slots are judged one by one.

        Returns:
            A row a slot: the count, the usual count, the difference with its doubt, the chance
            of such a difference, and whether it is unusual.

        Raises:
            InputError: There is nothing to compare the slots with.

        Example:
            >>> week.unusual(start="2007-09-12T08:00", end="2007-09-12T10:00",
            ...              earlier=[before])                         # doctest: +SKIP
        """
        return usual.unusual(_release(self), earlier, words)

    def present(
        self, at: Moment = "now", *, sure: float = 0.95, **words: Unpack[Words]
    ) -> Presence:
        """How many may be somewhere at a moment: what they are at most, then the estimate.

        A moment inside of the release is answered by its slot, the last day of a stream by the
        last slot that is out, any other by the same time of the week in the release.

        Args:
            at: "now", or a time on the release's clock.
            sure: How surely the number does not exceed `at_most`.
            words: The selection, without `start` and `end`.

        Returns:
            `at_most`, and the `estimate`.

        Raises:
            InputError: The release has no such time of the week.

        Example:
            >>> city.present("now", polygon="2.3,48.8,2.4,48.9")       # doctest: +SKIP
        """
        return usual.present(_release(self), at, sure, words)

    def sql(self, query: str, *, seconds: float = SECONDS) -> Table:
        """One SELECT over the released tables: `density`, `zones`, `slots`, `manifest`.

        It runs in a process of its own that can open neither file nor socket. Intervals of sums
        are not to be had from it: intervals of cells do not add up.

        Args:
            query: The SELECT.
            seconds: It is stopped after so long, loading included.

        Returns:
            The rows; `to_pandas` or `table` of it.

        Raises:
            UsageError: It is no single SELECT; the error says which tables and columns there are.
            InputError: It takes too long or too much memory.

        Example:
            >>> week.sql("SELECT zone_id, max(count) FROM density GROUP BY ALL")  # doctest: +SKIP
        """
        release = _release(self)
        found = run_sql(query, sql_tables(release), release.manifest.grid.tz, seconds)
        rows = found.slice(0, _SHOWN_ROWS).to_pylist()
        many = f"{found.num_rows:,} row{'' if found.num_rows == 1 else 's'}"
        more = found.num_rows - len(rows)
        notes, signature = signed(release)
        notes = [note for note in notes if note.startswith("Not ")]
        if more:
            notes.append(f"and {more:,} more rows")
        return Table(query.strip(), many, rows, notes, signature, result=found)


_SHOWN_ROWS = 200


def _release(questions: Questions) -> Release:
    return cast("Release", questions)


def sql_tables(release: Release) -> dict[str, pa.Table]:
    """What SQL can ask about: the published numbers, their places and times, the manifest's facts.

    Times are instants, shown by the release's clock; `slots` has them cut into days and hours.
    """
    facts = _facts(release.manifest.model_dump(mode="json"))
    manifest = pa.table({"fact": [*facts], "value": [*facts.values()]})
    if release.kind == "traces":
        return {"traces": release.table(), "manifest": manifest}
    ids = release.ids
    zones: dict[str, Any] = {"zone_id": ids.tolist(), "name": list(release.names)}
    zones["district"] = list(release.districts)
    if release.geometry is not None:
        middle = shapely.centroid(release.geometry)
        zones["lon"] = pa.array(shapely.get_x(middle), from_pandas=True)
        zones["lat"] = pa.array(shapely.get_y(middle), from_pandas=True)
    starts = release.grid.starts()
    instant = pa.timestamp("us", tz=release.grid.tz)
    slots = {
        "slot": pa.array(np.arange(release.grid.slots)),
        "time_start": pa.array(release.grid.edges[:-1]).cast(instant),
        "time_end": pa.array(release.grid.edges[1:]).cast(instant),
        "date": [start.date() for start in starts],
        "weekday": [DAYS[start.weekday()] for start in starts],
        "hour": [start.hour for start in starts],
    }
    return {
        "density": release.table(),
        "zones": pa.table(zones),
        "slots": pa.table(slots),
        "manifest": manifest,
    }


def _facts(data: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """The manifest's plain values by their dotted names; lists of objects are left to the file."""
    found: dict[str, str] = {}
    for key, value in data.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            found |= _facts(value, f"{name}.")
        elif isinstance(value, str | int | float | bool):
            found[name] = str(value)
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            found[name] = " ".join(value)
    return found
