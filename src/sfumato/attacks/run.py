"""`sfumato.attack`: what an adversary makes of a release, before one does. INTERNAL.

Released tables, the places they are about and the truth go in; accuracies of recovered
trajectories and the membership game come out, beside baselines that know no release.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.membership import Game, Membership, allowed, play, publish_counts
from sfumato.attacks.recovery import Link, Method, Solver
from sfumato.attacks.recovery.study import Study, attack_tables
from sfumato.attacks.republish import Stage, StreamStage
from sfumato.attacks.trajectories import Ground, People, suppressed, trajectories
from sfumato.density.request import parse_bound
from sfumato.errors import InputError, UsageError
from sfumato.geography.border import FIRST
from sfumato.geography.overlay import centres
from sfumato.geography.places import PlaceOptions
from sfumato.io.events import read_events
from sfumato.model.counts import Bound
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import Clock, TimeGrid
from sfumato.published.release import Release, as_release, of_records, one_or_many

UNPROTECTED = "no protection"
_MOST_SEEDS = 1_000
Table = NDArray[np.float64]
Republish = Callable[[NDArray[np.int32], np.random.Generator], Table]


@dataclass(frozen=True, slots=True, eq=False)
class Attackable:
    """A table that was published, and enough of its statement to publish others like it."""

    label: str
    ids: NDArray[np.str_]
    grid: TimeGrid
    values: Table
    scheme: str
    epsilon: float
    delta: float
    unit: str
    stream: bool
    parameters: Mapping[str, Any]

    @property
    def whole_record(self) -> bool:
        """Whether epsilon is for all that somebody did in the period."""
        days = len({start.date() for start in self.grid.starts()})
        return self.unit == "user-period" or (self.unit == "user-day" and days == 1)

    def like(self, places: Places, group: int, bound: Bound | None) -> Republish:
        """Publish a group of about `group` people as this table was, with noise from a seed."""
        stage = Stage(places, self.grid)
        per_day = np.unique([start.date().toordinal() for start in self.grid.starts()],
                            return_counts=True)[1]  # fmt: skip
        weekday = self.grid.start(0).weekday()
        stream = StreamStage(len(places), None, int(per_day.max()), weekday, self.unit)

        def publish(rows: NDArray[np.int32], rng: np.random.Generator) -> Table:
            seed = int(rng.integers(1 << 31))
            if self.stream:
                return stream.published(
                    rows, self.epsilon, self.delta, seed, scheme=self.scheme, expected=group
                )
            return stage.published(
                self.scheme,
                rows,
                self.epsilon,
                self.delta,
                seed,
                bound=bound,
                parameters=self.parameters,
                expected=group,
            )

        return publish


def attackable(found: Release) -> Attackable:
    """A release or a stream, with what its manifest says about how it was made."""
    manifest = found.manifest
    stream = found.kind == "stream"
    return Attackable(
        found.label,
        found.ids,
        found.grid,
        found.values,
        manifest.scheme.name.removeprefix("stream/"),
        manifest.privacy.epsilon,
        manifest.privacy.delta,
        manifest.privacy.unit,
        stream,
        {} if stream else manifest.scheme.parameters,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """What an adversary made of releases. INTERNAL: it was measured against the truth."""

    study: Study
    membership: dict[str, Membership]
    allowed: dict[str, float]
    """The success that each guarantee allows at most, where it is about a whole record."""
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tried = self.study
        size = f"{tried.people} people, {tried.slots} slots, {tried.cells} places"
        return f"<Attacked, INTERNAL: {size}>"

    def _repr_html_(self) -> str:
        from sfumato.attacks.report import as_markdown  # which draws, and loads what it draws with

        return f"<pre>{escape(as_markdown(self.study, self.membership, self.allowed))}</pre>"


def attack(
    releases: str | os.PathLike[str] | Release | Sequence[str | os.PathLike[str] | Release],
    events: object,
    *,
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    tz: str | None = None,
    column: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    format: str | None = None,
    suppress: Sequence[int] = (5, 15),
    seeds: int = 2,
    predict: bool = True,
    link: str = "accumulate",
    solver: str = "auto",
    group: int = 100,
    rounds: int = 24,
    bound: Bound | str | None = None,
    progress: Progress | None = None,
) -> Attacked:
    """Recover trajectories from counts alone, with and without protection. INTERNAL.

    Xu et al. (2017) on the true counts, on suppressed ones and on each release or stream; and the
    membership game on the scheme that published it.

    Args:
        releases: Folders or releases of one period.
        events: The events that they were made from.
        towers: Towers, as for the release.
        zones: Zones, as for the release.
        grid: Cells instead of zones, as for the release.
        region: What the grid covers, as for the release.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        tz: Clock of times and validity dates that carry none; default: that of the release.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        format: Format of the events, where names do not tell.
        suppress: Also attack counts suppressed below each of these.
        seeds: Runs that break ties differently.
        predict: By day, expect steps to be repeated.
        link: Days are linked to: accumulate, adjacent.
        solver: auto, people or cells.
        group: Size of the groups of the membership game; 0 leaves it out.
        rounds: Tables published in the membership game, a multiple of 4.
        bound: The bound that the releases were made with.
        progress: Told the stage and its share.

    Returns:
        Accuracies beside those of baselines, and the game: for the holder's eyes only.

    Raises:
        UsageError: The releases are not about these places, or not about one period.
        InputError: A file cannot be read, or is not as it was published.

    Example:
        >>> found = sfumato.attack(                                        # doctest: +SKIP
        ...     "releases/week-37", "events.parquet", zones="zones.geojson"
        ... )
    """
    try:
        method = Method(predict=predict, link=Link(link), solver=Solver(solver))
    except ValueError:
        raise UsageError(
            "There is no such way to link days or to solve.",
            remedy="`link` is accumulate or adjacent; `solver` is auto, people or cells.",
        ) from None
    tell: Progress = progress or (lambda *_: None)
    if not 1 <= seeds <= _MOST_SEEDS:
        raise UsageError(f"An attack has 1 to {_MOST_SEEDS} `seeds`.")
    opened = [of_records(as_release(one)) for one in one_or_many(releases)]
    tables = [attackable(one) for one in opened]
    times = tables[0].grid
    said = PlaceOptions(
        towers,
        zones,
        grid,
        region,
        zone_id,
        zone_name,
        layer,
        repair_zones,
        drop_bad_towers,
        column=column,
    )
    if said.spreads:
        made_with = opened[0].manifest.public_inputs.get("border", FIRST)
        said = replace(said, border=str(made_with))
    places = said.open(period=times, tz=tz or times.tz)
    for one in tables:
        same = np.array_equal(one.ids, np.unique(places.released.ids))
        if not (same and np.array_equal(one.grid.edges, times.edges)):
            raise UsageError(
                "The releases are not about these places, or not about one period.",
                remedy="Give the places they were made with, and releases of one period.",
            )
    described = read_events(
        events,
        period=times.period,
        columns=column,
        time_unit=time_unit,
        format=format,
        tz=events_tz or tz or times.tz,
    )
    tell("reading events", -1.0)
    try:
        truth = trajectories(described, places.counted, times, zones=places.shares)
    finally:
        described.close()
    people = People(truth.cells, Ground(centres(places.released)), Clock.of(times), truth.filled)
    attacked: dict[str, Any] = {UNPROTECTED: people.counts}
    attacked |= {f"suppressed below {k}": suppressed(people.counts, k) for k in suppress}
    attacked |= {one.label: one.values for one in tables}
    study = attack_tables(people, attacked, method, seeds=seeds, progress=tell)
    limits = parse_bound(bound) if isinstance(bound, str) else bound
    size = min(group, len(people.cells) // 2)
    if size < 2:
        return Attacked(study, {}, {})
    cells = people.ground.cells
    ways = {UNPROTECTED: publish_counts(cells)}
    ways |= {f"suppressed below {k}": publish_counts(cells, partial(_below, k)) for k in suppress}
    ways |= {one.label: one.like(places.released, size, limits) for one in tables}
    game, found, remarks = Game(group=size, rounds=rounds), {}, []
    for name, publish in ways.items():
        try:
            found[name] = play(people.cells, game, publish, partial(tell, f"{name}: membership"))
        except InputError as error:  # a scheme that cannot publish so few people
            remarks.append(f"{name}: no membership game. {error.problem}")
    most = {one.label: allowed(one.epsilon, one.delta) for one in tables if one.whole_record}
    return Attacked(study, found, most, tuple(remarks))


def _below(k: int, counts: NDArray[np.int64], _rng: np.random.Generator) -> Table:
    return suppressed(counts, k).astype(np.float64)
