"""DP-WHERE against n-grams on home-work pairs: the chapter's example (Acs et al. 2018, 3.2.2).

A made-up city is cut in two by a coin for each person: one half are the records, the other is
*another true sample*. Both methods spend (epsilon, delta) per person on the same zones:

* `where` is the method of `sfumato.synthesis`: homes, works and one median of distances for each
  part of the map, whose pairs are drawn;
* *n-grams* of the two symbols (home, work), corrected: counts of homes, and of pairs below homes
  whose noisy count passes twice its deviation, half of rho each, discrete Gaussian noise; a person
  adds one to one cell of each table, so L2 is 1 in each. Below other homes works follow the sum of
  all pairs. Counts are cut at zero and pairs scaled to their home's;
* `weeks`, the default, stands beside them.

Judged by the common part of commuters without the diagonal (`utility.mobility`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.attacks.report import canvas
from sfumato.city import CityPlan, write_city
from sfumato.city.plan import Fixes
from sfumato.density.scheme import PublicFacts
from sfumato.engine.open import opened_source
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import centres
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import SynthFacts, settings_of
from sfumato.synthesis.registry import method_named
from sfumato.utility.copying import Copying, copying_checks, life_points
from sfumato.utility.mobility import Lives, common_part
from sfumato_lab.studies.queries.page import Grid, Picture, Section, Tell, save_figure

PICTURE = "synthesis-pairs.png"
ZONES = (40, 400)
METHODS = ("where", "n-grams", "weeks")
TRUE = "another true sample"
DELTA = 1e-6
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairRow:
    """Common part of home-work pairs."""

    zones: int
    method: str
    epsilon: float
    cpc: float


def pairs_of(lives: Lives, places: int) -> Ints:
    """Home * places + work of everybody who has both."""
    home, work = lives.homes(places), lives.works(places)
    both = (home >= 0) & (work >= 0)
    return home[both] * places + work[both]


def n_gram_pairs(
    pairs: Ints, places: int, epsilon: float, wall: Wall, rng: np.random.Generator
) -> Ints:
    """As many pairs as the noisy homes say, drawn from noisy counts of grams."""
    rho = gaussian_mu(epsilon, DELTA) ** 2 / 4
    sigma2 = gaussian_sigma2(1.0, rho)
    noisy = []
    for label, keys, size in (("homes", pairs // places, places), ("pairs", pairs, places**2)):
        counted = np.bincount(keys, minlength=size).astype(np.int64)
        box = Private(Counts(counted, 1, 1.0, 1.0, Counting.VISITS, label), label)
        noisy.append(wall.gaussian(box, sigma2=sigma2, label=label, touched=1))
    homes = np.maximum(noisy[0].estimate(), 0.0)
    table = np.maximum(noisy[1].estimate(), 0.0).reshape(places, places)
    table[homes < 2 * noisy[0].sd] = table.sum(axis=0)
    table += 1e-9
    law = np.cumsum((table / table.sum(axis=1, keepdims=True) * homes[:, None]).ravel())
    drawn = np.searchsorted(law, rng.random(pairs.size) * law[-1], side="right")
    return np.asarray(np.minimum(drawn, places**2 - 1), np.int64)


def _city(folder: Path, people: int, zones: int, seed: int) -> tuple[Path, Path]:
    """Records of one half, and of the other."""
    towers = max(60, zones)
    plan = CityPlan(users=2 * people, towers=towers, zones=zones, seed=seed, fixes=Fixes.GPS)
    write_city(plan, folder)
    table = pq.read_table(folder / "events.parquet")
    who = np.asarray(table["user_id"].combine_chunks().dictionary_encode().indices)
    coin = np.random.default_rng(seed).random(int(who.max()) + 1) < 0.5
    paths = (folder / "records.parquet", folder / "sample.parquet")
    for path, rows in zip(paths, (coin[who], ~coin[who]), strict=True):
        pq.write_table(table.filter(pa.array(rows)), path)
    return paths


def _lives(user: Ints, time: Ints, place: Ints, grid: TimeGrid) -> Lives:
    return Lives.of(user, time, place, grid.tz)


def _read(path: Path, locator: Locator, grid: TimeGrid) -> Lives:
    table = pq.read_table(path)
    time = table["timestamp"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    place = locator.locate(table["lon"].to_numpy(), table["lat"].to_numpy())
    user = np.asarray(table["user_id"].combine_chunks().dictionary_encode().indices)
    return _lives(user.astype(np.int64), time, place.astype(np.int64), grid)


def _made(
    name: str, events: Path, opened: OpenedPlaces, grid: TimeGrid,
    people: int, epsilon: float, seed: int,
) -> Lives:  # fmt: skip
    """People by a method of the product, with seeded noise."""
    method = method_named(name)
    public = PublicFacts(
        place_ids=opened.counted.ids,
        grid=grid,
        epsilon=epsilon,
        delta=DELTA,
        expected_users=people,
        unit=method.declares.unit,
        layout=opened.layout,
        zone_layout=opened.zone_layout,
    )
    facts = SynthFacts(public, people, seed, settings_of(method, {}), opened.released)
    with opened_source(events, opened.counted, grid, tz=grid.tz) as source:
        noisy = method.measure(source, Wall.seeded(seed), facts)
    chunks: list[Any] = list(method.generate(noisy, facts))
    user, time, place = (
        np.concatenate([getattr(chunk, key) for chunk in chunks])
        for key in ("user", "time", "place")
    )
    return _lives(user, time, place, grid)


def pair_rows(
    people: int, epsilons: Sequence[float], draws: int, seed: int, tell: Tell
) -> list[PairRow]:
    """Every method at every epsilon on cities of few and of many zones."""
    rows = []
    grid = period_of("2007-09-10", "2007-09-17", "1h", "Europe/Paris")
    for zones in ZONES:
        with TemporaryDirectory() as home:
            tell(f"a city of {zones} zones", -1.0)
            events, sample = _city(Path(home) / "city", people, zones, seed)
            opened = PlaceOptions(zones=Path(home) / "city" / "zones.geojson").open(period=grid)
            locator, places = Locator(opened.released), len(opened.released)
            true = pairs_of(_read(events, locator, grid), places)
            other = pairs_of(_read(sample, locator, grid), places)
            rows.append(PairRow(zones, TRUE, 0.0, common_part(true, other, places)))
            for name in METHODS:
                for epsilon in epsilons:
                    tell(f"{zones} zones: {name} at {epsilon:g}", -1.0)
                    found = []
                    for draw in range(draws):
                        if name == "n-grams":
                            wall, rng = Wall.seeded(seed + draw), np.random.default_rng(seed + draw)
                            made = n_gram_pairs(true, places, epsilon, wall, rng)
                        else:
                            lives = _made(name, events, opened, grid, people, epsilon, seed + draw)
                            made = pairs_of(lives, places)
                        found.append(common_part(true, made, places))
                    rows.append(PairRow(zones, name, epsilon, float(np.mean(found))))
    return rows


def people_copies(people: int, epsilon: float, seed: int, tell: Tell) -> list[tuple[str, Copying]]:
    """Copying checks of people with a clock: one half went in, the other was held back."""
    grid = period_of("2007-09-10", "2007-09-17", "1h", "Europe/Paris")
    found = []
    with TemporaryDirectory() as home:
        events, sample = _city(Path(home) / "city", people, ZONES[0], seed)
        opened = PlaceOptions(zones=Path(home) / "city" / "zones.geojson").open(period=grid)
        locator, at = Locator(opened.released), centres(opened.released) / 1000.0
        members, held_back = (
            life_points(_read(path, locator, grid), at) for path in (events, sample)
        )
        for name in ("weeks", "where"):
            tell(f"people: copies by {name}", -1.0)
            made = _made(name, events, opened, grid, people, epsilon, seed)
            points = life_points(made, at)
            found.append((name, copying_checks(members, held_back, points, epsilon, DELTA)))
    return found


def draw_pairs(rows: Sequence[PairRow], path: Path) -> None:
    """Common part against epsilon, a panel for each number of zones."""
    figure = canvas((9.0, 3.6))
    zones = list(dict.fromkeys(row.zones for row in rows))
    for place, count in zip(
        np.atleast_1d(figure.subplots(1, len(zones), sharey=True)), zones, strict=True
    ):
        here = [row for row in rows if row.zones == count]
        for name in dict.fromkeys(row.method for row in here if row.epsilon):
            line = [(row.epsilon, row.cpc) for row in here if row.method == name]
            place.plot(*zip(*line, strict=True), marker="o", ms=3, lw=1.2, label=name)
        possible = next(row.cpc for row in here if row.method == TRUE)
        place.axhline(possible, ls="--", color="black", lw=1, label=TRUE)
        place.set(title=f"{count} zones", xlabel="ε per person", ylim=(0, 1), xscale="log")
    figure.axes[0].set_ylabel("common part of home-work pairs")
    figure.axes[0].legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def pairs_section(rows: Sequence[PairRow], people: int, figures: bool) -> Section:
    """The table, the figure, and whether the chapter is right here."""
    epsilons = sorted({row.epsilon for row in rows if row.epsilon})
    found = {(row.zones, row.method, row.epsilon): row.cpc for row in rows}
    lines = []
    for count in dict.fromkeys(row.zones for row in rows):
        for name in METHODS:
            cells = [f"{found[count, name, epsilon]:.3f}" for epsilon in epsilons]
            lines.append([f"{count}", name, *cells])
        possible = f"{found[count, TRUE, 0.0]:.3f}"
        lines.append([f"{count}", TRUE, *[possible] * len(epsilons)])
    ahead = [
        found[key[0], "where", key[2]] > value
        for key, value in found.items()
        if key[1] == "n-grams"
    ]
    words = (
        f"A made-up city of about {people:,} people in the records, zones as stated, "
        f"(ε, {DELTA:g}) per person. Common part of commuters without the diagonal; more is "
        f"better. DP-WHERE is ahead of n-grams in {sum(ahead)} of {len(ahead)} cells. It draws "
        "work by distance and by how many work there, which noise hardly touches and more budget "
        "hardly sharpens; n-grams count every pair."
    )
    head = ["zones", "method", *(f"ε {epsilon:g}" for epsilon in epsilons)]
    blocks: list[str | Grid | Picture] = [words, Grid("Home-work pairs", head, lines)]
    if figures:
        blocks.append(Picture(PICTURE, "Common part of home-work pairs against ε"))
    return Section("Home-work pairs: DP-WHERE against n-grams", blocks)
