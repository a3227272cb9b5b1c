"""`Release`: what was published, read back from its folder in whatever form is wanted.

    week = sfumato.read_release("releases/week-37")
    week.values[week.ids == "Z00003"]       # place x slot
    week.to_pandas(), week.plot("map", slot=12), print(week.statement())

A density, a stream and sanitised traces are all read here. Every file is compared with the digest
in the manifest first (`published.folder`); arrays are loaded when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError, printable
from sfumato.model.extras import optional
from sfumato.model.rounding import number_of, rounded_up
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.ledger.totals import PER_METRE
from sfumato.published.estimate import Estimate
from sfumato.published.folder import (
    TABLE,
    Folder,
    Shapes,
    open_folder,
    parquet_table,
    read_arrays,
    read_numbers,
    read_shapes,
)
from sfumato.published.lines import WHOLE, Numbers
from sfumato.published.manifest import Manifest
from sfumato.published.notebook import shown
from sfumato.published.posterior import POSTERIOR, Factors, most_bytes, unpacked
from sfumato.published.questions import Questions
from sfumato.published.selection import (
    Hours,
    Moment,
    Polygon,
    Selection,
    Weekdays,
    Zones,
    select,
)
from sfumato.published.statement import statement, take_note
from sfumato.published.tables import long_table, promise_in

if TYPE_CHECKING:
    import geopandas
    import pandas as pd
    from matplotlib.figure import Figure

Table = NDArray[np.float64]
UNSEALED = "unsealed"


@dataclass(frozen=True, eq=False, repr=False)
class Release(Questions):
    """Something published: where it is, its privacy statement, and how this run ended.

    `how` is `new`, `resumed` (an interrupted run was finished), `already` (nothing was done),
    `read` (found in its folder, every digest right), `refined` (read
    again from the measurements of another) or `unsealed` (a stream without its
    manifest: it still runs, and no digest vouches for it yet).
    """

    folder: Path
    manifest: Manifest
    how: str = "read"
    last: int | None = None
    """Only so many of the last slots, if given."""

    @property
    def kind(self) -> str:
        """`density`, `stream` or `traces`."""
        return self.manifest.kind

    @property
    def sealed(self) -> bool:
        """Whether the manifest vouches for every number."""
        return self.how != UNSEALED

    @cached_property
    def files(self) -> Folder:
        """The folder, whose files are compared with their digests when they are read."""
        return Folder(self.folder, self.manifest, self.sealed)

    @cached_property
    def _numbers(self) -> Numbers:
        return read_numbers(self.files, self.last)

    @cached_property
    def _shapes(self) -> Shapes:
        return read_shapes(self.files, self.ids)

    @property
    def ids(self) -> NDArray[np.str_]:
        """Ids of the places, in the order of the rows of `values`."""
        return self._numbers.ids

    @property
    def grid(self) -> TimeGrid:
        """The time slots; of a stream that still runs those that are out."""
        return self._numbers.grid

    @property
    def values(self) -> Table:
        """The published counts, place x slot: posterior means, which add up."""
        return self._numbers.values

    @property
    def median(self) -> Table | None:
        """The median of each count, for reading single cells; `None` where none is published.

        Medians do not add up: sums and averages are made from `values`.
        """
        return self._numbers.median

    @property
    def lower(self) -> Table | None:
        """Lower end of each count's interval; `None` where no interval is stated."""
        return self._numbers.lower

    @property
    def upper(self) -> Table | None:
        """Upper end of each count's interval; `None` where no interval is stated."""
        return self._numbers.upper

    @property
    def total_interval(self) -> Table | None:
        """Ends of the interval of each slot's sum (slot x 2); `None` where none is stated."""
        return self._numbers.total

    @cached_property
    def posterior(self) -> Factors | None:
        """How errors of cells hang together, for intervals of sums, differences, ratios, ranks.

        `None` where the scheme cannot state it.
        """
        if self.kind == "traces" or not self.files.holds(POSTERIOR):
            return None
        whole = self._numbers if self.last is None else read_numbers(self.files)
        stream = int(self.manifest.files[POSTERIOR][:8], 16)
        try:
            arrays = read_arrays(self.files, POSTERIOR, most_bytes(whole.values))
            found = unpacked(arrays, whole.values, stream)
        except ValueError:
            raise InputError(
                "it does not hold the posterior of this release.",
                file=str(self.folder / POSTERIOR),
                remedy=WHOLE,
            ) from None
        return found if self.last is None else found.last(self.last)

    def select(
        self,
        zones: Zones | None = None,
        polygon: Polygon | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        hours: Hours | None = None,
        weekdays: Weekdays | None = None,
    ) -> Selection:
        """Which places and slots a question is about, in the words of `sum`."""
        return select(
            self,
            zones=zones,
            polygon=polygon,
            start=start,
            end=end,
            hours=hours,
            weekdays=weekdays,
        )

    def sum(
        self,
        zones: Zones | None = None,
        polygon: Polygon | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        hours: Hours | None = None,
        weekdays: Weekdays | None = None,
    ) -> Estimate:
        """The sum of the counts of some places and slots, with its interval.

        The value is the sum of the published counts. The interval is that of the posterior, in
        which errors of cells hang together: intervals of cells cannot be added. What is printed
        with an interval (a single count, the total) keeps that one. Where the scheme
        states none (`manifest.posterior` says why), the sum has none.

        Args:
            zones: Ids of places; all, unless these or a polygon are given.
            polygon: An area (WGS84): a shape, GeoJSON, WKT, a file, or "west,south,east,north".
                Zones that lie in it partly count with their share of area.
            start: Where the first slot begins; a time without offset is local, a date is its
                midnight. Default: the first of the release.
            end: Where the last slot ends; default: the end of the release.
            hours: Hours of the day: 8, [8, 9], range(8, 10), or "8-10", which ends at 10 o'clock.
            weekdays: Days of the week: "mon-fri", ["sat", "sun"], or numbers from 0, Monday, on.

        Returns:
            The sum; it prints as `12,340 ± 410 (90 %)`.

        Raises:
            InputError: The release has no such place or slot; the error says what it has.
            UsageError: Something is not understood.

        Example:
            >>> week.sum(zones=["Z00003"], hours="8-10", weekdays="mon-fri")  # doctest: +SKIP
        """
        asked = self.select(zones, polygon, start, end, hours, weekdays)
        printed = self._numbers.stated(asked.places, asked.slots, self.manifest)
        if self.posterior is None or printed.lower is not None:
            return printed
        return self.posterior.estimate(asked.places, asked.slots)

    @property
    def names(self) -> tuple[str, ...]:
        """What the places are called; their ids where they have no names."""
        return self._shapes.names

    @property
    def districts(self) -> tuple[str, ...]:
        """The district of each place; empty texts where there are none."""
        return self._shapes.districts

    @property
    def geometry(self) -> NDArray[np.object_] | None:
        """The shape of each place (WGS84); `None` where none were published."""
        return self._shapes.geometry

    @property
    def label(self) -> str:
        """Name, scheme and epsilon, as plots show it."""
        found = self.manifest
        scheme = found.scheme.name.removeprefix("stream/")
        loss = f"ε {rounded_up(found.privacy.epsilon)}{_per(found)}"
        return f"{found.release.name} ({scheme}, {loss})"

    def table(self) -> pa.Table:
        """zone_id, time_start, time_end, count, and median, lower, upper where they are stated.

        Of traces their reports: user, trip, time, lon, lat.
        """
        if self.kind == "traces":
            return parquet_table(self.files, "traces.parquet")
        if self.files.holds(TABLE) and self.last is None:
            return parquet_table(self.files, TABLE)
        layers = {"median": self.median, "lower": self.lower, "upper": self.upper}
        return long_table(self.ids, self.grid, self.values, **layers)

    def statement(self) -> str:
        """The privacy statement in plain words, after what readers must take note of."""
        if self.kind != "density" and self.files.holds("README.txt"):
            text = self.files.read("README.txt").decode(errors="replace")
            promise = promise_in("\n".join(map(printable, text.split("\n"))))
            note = "" if "Take note" in promise else take_note(self.manifest)
            return f"{note}\n\n{promise}" if note else promise
        return statement(self.manifest)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame; times carry the release's zone."""
        frame: pd.DataFrame = self.table().to_pandas()
        return frame

    def to_geopandas(self) -> geopandas.GeoDataFrame:
        """The table with name, district and shape of each row's place (WGS84).

        Towers that moved have no shape. Reports of traces are points.

        Raises:
            UsageError: No shapes were published.
        """
        import geopandas

        frame = self.to_pandas()
        if self.kind == "traces":
            points = geopandas.points_from_xy(frame["lon"], frame["lat"])
            return geopandas.GeoDataFrame(frame, geometry=points, crs="OGC:CRS84")
        if self.geometry is None:
            raise UsageError(
                "No outlines of places were published here.", remedy="Take to_pandas instead."
            )
        row = np.repeat(np.arange(self.ids.size), self.grid.slots)
        frame["name"] = np.asarray(self.names, dtype=object)[row]
        if any(self.districts):
            frame["district"] = np.asarray(self.districts, dtype=object)[row]
        return geopandas.GeoDataFrame(frame, geometry=self.geometry[row], crs="OGC:CRS84")

    def to_xarray(self) -> Any:
        """A dataset of count (and median, lower, upper) over zone_id and time_start (UTC).

        Raises:
            UsageError: xarray is not installed.
        """
        xarray = optional("xarray", "A dataset of arrays")
        layers = {
            "count": self.values,
            "median": self.median,
            "lower": self.lower,
            "upper": self.upper,
        }
        # xarray keeps no zones: the coordinate is the instant in UTC, the attribute says whose.
        times = self.grid.edges[:-1].astype("datetime64[us]").astype("datetime64[ns]")
        return xarray.Dataset(
            {
                name: (("zone_id", "time_start"), values)
                for name, values in layers.items()
                if values is not None
            },
            coords={"zone_id": self.ids.astype(object), "time_start": times},
            attrs={"tz": self.grid.tz, "epsilon": self.manifest.privacy.epsilon},
        )

    def plot(
        self, kind: str = "map", *, slot: int | None = None, zone: str | None = None
    ) -> Figure:
        """A matplotlib figure: `map` of a slot, `series` of a zone, `strip` of everything.

        Args:
            kind: Which of the three.
            slot: For the map; default: the busiest.
            zone: For the series; default: the sum over all places.
        """
        from sfumato.reports.figures import plot

        return plot(self, kind, slot=slot, zone=zone)

    def __repr__(self) -> str:
        found = self.manifest
        name = found.release.name
        name = name if len(name) <= 24 else f"{name[:23]}…"
        what = (
            f"{number_of(found.released.count, found.released.kind)} × "
            f"{number_of(found.grid.slots, 'slots')}, "
        )
        period = found.grid.days()
        return (
            f"<{self.kind} {name!r}: {'' if self.kind == 'traces' else what}{period}, "
            f"ε {rounded_up(found.privacy.epsilon)}{_per(found)}"
            f"{'' if self.sealed else ', unsealed'}>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: a small map or strip, the privacy label, the first rows."""
        counts = None if self.kind == "traces" else self.values
        shapes = None if counts is None else self.geometry
        return shown(self.manifest, self.table().slice(0, 5), counts, shapes, self.sealed)


def read_release(folder: str | os.PathLike[str], *, last: int | None = None) -> Release:
    """What somebody published, from its folder, after every file was compared with its digest.

    Args:
        folder: What `sfumato release`, `stream` or `sanitise` made.
        last: Only so many of the last slots, of a stream that goes on say.

    Returns:
        The release; its arrays are loaded when they are asked for.

    Raises:
        InputError: It is no such folder, or a file is missing or altered: the error says which.

    Example:
        >>> week = sfumato.read_release("releases/week-37")     # doctest: +SKIP
        >>> week.to_pandas().groupby("zone_id")["count"].mean()  # doctest: +SKIP
    """
    if last is not None and last < 1:
        raise UsageError("At least one slot is read.", remedy="Give `last` a positive number.")
    found = open_folder(Path(folder))
    return Release(found.path, found.manifest, "read" if found.sealed else UNSEALED, last)


def as_release(given: str | os.PathLike[str] | Release) -> Release:
    """A release that may be given by its folder."""
    return given if isinstance(given, Release) else read_release(given)


def one_or_many(
    given: str | os.PathLike[str] | Release | Sequence[str | os.PathLike[str] | Release],
) -> list[str | os.PathLike[str] | Release]:
    """Releases or their folders, of which one may be given alone."""
    return [given] if isinstance(given, str | os.PathLike | Release) else list(given)


def of_records(release: Release) -> Release:
    """The release itself, refused where its numbers are not those of the holder's records.

    Raises:
        InputError: It was weighed or combined, so records of one operator are no truth for it.
    """
    if release.manifest.made_from is not None:
        raise InputError(
            "it estimates all people, not those in the records, so the records are not the "
            "truth for it.",
            file=str(release.folder),
            remedy="Take the release that it was made from.",
        )
    return release


def _per(manifest: Manifest) -> str:
    """What a loss is for, where it is not for a whole unit."""
    return " per metre" if manifest.privacy.method == PER_METRE else ""


def vouched(release: Release, what: str) -> Release:
    """The release itself, refused where its numbers may not go on into something else.

    Raises:
        InputError: Noise from a test seed, or a stream that no digest vouches for yet.
    """
    if release.manifest.tainted:
        raise InputError(
            f"{what}: its noise came from a test seed, so it protects nobody.",
            file=str(release.folder),
            remedy="Take a release that was charged to a ledger.",
        )
    if release.manifest.scheme.as_published or not release.manifest.differential_privacy:
        raise InputError(
            f"{what}: its manifest says that it is not differentially private.",
            file=str(release.folder),
            remedy="Take a release that was charged to a ledger.",
        )
    if not release.sealed:
        raise InputError(
            f"{what}: it is a stream without its manifest, so no digest vouches for its numbers.",
            file=str(release.folder),
            remedy="Wait until its last slot is out, or take another release.",
        )
    return release
