"""The border of the paper: what is lost where only towers inside the city are given.

    python -m benchmarks border                         # two million people, about 20 CPU-minutes
    python -m benchmarks.border --users 200000          # the same case, smaller
    python -m benchmarks.border --parts geometry        # some of geometry, quality

* `geometry`: how much of the towers' cells lies beyond the zones by each rule, for the made Paris
  and, where SFUMATO_DATA names the folder, for the real sites and IRIS zones.
* `quality`: mean relative error of `bayes` at epsilon 1 on a made Paris of 1,303 towers inside the
  city and 178 around it, on which nothing was tuned. *Both sides*: all towers are given; the truth
  is the overlay of all of them. *Only inside*: the events at the 178 are gone, as in Acs &
  Castelluccia (2014), and the truth is their formula (1). The bar: at most 5 % above both sides.
  Beside it stands the error against the map that all towers give, without noise and with it:
  what towers outside would have told cannot be known from those inside.

Files are made once in SFUMATO_BENCH_DIR or the cache folder. Writes docs/benchmarks/border.md
and border.json; parts that were not asked for keep their figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from benchmarks.paris import files, mean, table
from numpy.typing import NDArray

from sfumato.city import CityPlan, build_city, write_city
from sfumato.city.plan import Geometry
from sfumato.city.write import EVENTS, STATEMENT, TOWERS, ZONES
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.border import near_zones
from sfumato.geography.overlay import layout_of_zones
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting
from sfumato.model.places import Places
from sfumato.model.source import RememberingSource
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.privacy.wall import Wall
from sfumato.utility.density import relative_error

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
PARTS = ("geometry", "quality")
SEED, TOWERS_IN_ALL, EPSILON = 181, 1_481, 1.0
"""1,481 towers are 1,303 inside, as in the paper, and 178 in the ring of 3 km around."""
BAR = 1.05
NEAR_BORDER_M = 500.0
Table = NDArray[np.float64]
Row = dict[str, float | str]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--parts", default=",".join(PARTS))
    options.add_argument("--users", type=int, default=2_000_000)
    options.add_argument("--draws", type=int, default=1)
    said = options.parse_args()
    file = FOLDER / "border.json"
    found: dict[str, list[Row]] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    makers = {"geometry": geometry, "quality": lambda: quality(said.users, said.draws)}
    for part in said.parts.split(","):
        found[part] = makers[part]()
        for row in found[part]:
            print(part, row, flush=True)
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        (FOLDER / "border.md").write_text(as_markdown(found), encoding="utf-8")


def inside(towers: Places, zones: Places) -> Places:
    """The towers that somebody gives who has those within the city only."""
    return towers.take(near_zones(towers, zones, 0.0)[0])


def geometry() -> list[Row]:
    """The loss by each rule, from public geometry alone."""
    maps = {"made Paris": CityPlan(users=1_000, towers=TOWERS_IN_ALL, seed=SEED)}
    data = os.environ.get("SFUMATO_DATA")
    if data:
        maps["real Paris"] = CityPlan(users=1_000, geometry=Geometry.PARIS, data=Path(data))
    rows: list[Row] = []
    for name, plan in maps.items():
        city = build_city(plan)
        for given, towers in (
            ("both sides", city.towers),
            ("only inside", inside(city.towers, city.zones)),
        ):
            for border in ("3km", "reach", "0"):
                opened = PlaceOptions(towers, city.zones, border=border).open()
                assert opened.loss is not None
                facts = opened.loss.facts()
                rows.append(
                    {
                        "map": name,
                        "towers": f"{given}, {len(towers):,}",
                        "border": border,
                        "lost": opened.loss.share,
                        "half": opened.loss.over_half,
                        "left out": int(facts["towers_left_out"] or 0),
                    }
                )
    return rows


@dataclass(frozen=True)
class Case:
    """Towers that were given, opened by a rule, with the counts behind them."""

    given: str
    border: str
    places: OpenedPlaces
    counts: Table
    source: RememberingSource
    grid: TimeGrid
    users: int

    def facts(self) -> PublicFacts:
        return PublicFacts(
            self.places.counted.ids,
            self.grid,
            EPSILON,
            min(2e-6, 0.5 / self.users),
            self.users,
            overlay=self.places.shares,
            layout=self.places.layout,
            zone_layout=self.places.zone_layout,
        )

    @property
    def truth(self) -> Table:
        """By the overlay of this case."""
        assert self.places.shares is not None
        return self.places.shares.to_zones(self.counts)

    def released(self, draws: int) -> Iterator[Table]:
        for draw in range(draws):
            density = scheme_named("bayes").run(self.source, Wall.seeded(draw), self.facts())
            yield np.asarray(density.values, dtype=np.float64)


def quality(users: int, draws: int) -> list[Row]:
    """Both sides, then only inside by each rule."""
    plan = CityPlan(users=users, towers=TOWERS_IN_ALL, seed=SEED)
    folder = files() / f"border-{users}-{SEED}"
    if not (folder / STATEMENT).is_file():
        write_city(plan, folder)
    zones = read_zones(folder / ZONES)
    towers = read_towers(folder / TOWERS, zones=zones)

    def case(given: str, listed: Places, border: str | None) -> Case:
        opened = PlaceOptions(listed, zones, border=border).open(period=plan.grid)
        source = LocalSource(read_events(folder / EVENTS), opened.counted, plan.grid)
        kept = RememberingSource(source)
        exact = open_private(kept.exact(Counting.VISITS))
        counts = exact.values / exact.units_per_count
        assert opened.loss is not None
        said = f"{opened.loss.border}" + ("" if border else " (default)")
        return Case(given, said, opened, counts, kept, plan.grid, users)

    whole = case("both sides", towers, None)
    city = inside(towers, zones)
    cases = [whole, *(case("only inside", city, border) for border in ("3km", None, "reach"))]
    formula_1 = cases[2].truth  # cells cut to the zones
    edge = at_border(zones)
    rows: list[Row] = []
    for one in cases:
        judged = whole.truth if one is whole else formula_1
        tables = list(one.released(draws))
        errors = [relative_error(judged, values) for values in tables]
        off = np.abs(one.truth.sum(axis=1) / judged.sum(axis=1) - 1) > 0.1
        row: Row = {
            "towers": one.given,
            "border": one.border,
            "mre": mean(error.mean() for error in errors),
            "at the border": mean(error[edge].mean() for error in errors),
            "zones off": int(off.sum()),
            "to both sides": mean(relative_error(whole.truth, v).mean() for v in tables),
            "to both sides, no noise": float(relative_error(whole.truth, one.truth).mean()),
            "users": users,
            "draws": draws,
            "border zones": int(edge.sum()),
        }
        rows.append(row)
        print(row, flush=True)
    for row in rows:
        row["times"] = float(row["mre"]) / float(rows[0]["mre"])
    return rows


def at_border(zones: Places) -> NDArray[np.bool_]:
    """Zones whose middle is near the outline of all."""
    from sfumato.geography.projection import Projection
    from sfumato.geography.voronoi import outline

    plane = Projection.around(zones)
    # Hairline gaps between zones are no border.
    whole = shapely.buffer(shapely.buffer(outline(zones, plane), 5.0), -5.0)
    middles = shapely.points(layout_of_zones(zones).centres)
    return np.asarray(shapely.dwithin(shapely.boundary(whole), middles, NEAR_BORDER_M))


def as_markdown(found: dict[str, list[Row]]) -> str:
    parts = [
        "# The border",
        f"Made by `python -m benchmarks border` ({platform.machine()}, Python "
        f"{platform.python_version()}). What the rules are and why: "
        "[decisions/border.md](../decisions/border.md).",
    ]
    if "quality" in found:
        rows = found["quality"]
        parts += [
            f"**What a release is worth**: `bayes`, {int(rows[0]['users']):,} people, epsilon "
            f"{EPSILON:g}, {rows[0]['draws']} draw(s), seed {SEED}; 989 zones, of which "
            f"{rows[0]['border zones']} lie near the border. Both sides are judged by the overlay "
            "of all towers, only inside by formula (1) of the paper; *zones off* have a week's "
            "sum that differs from it by over 10 % before any noise. At most 1.05 is allowed for "
            "the default.",
            table(
                ["towers given", "border", "MRE", "of both sides", "MRE at the border",
                 "zones off", "MRE to the map of both sides", "the same without noise"],
                [
                    [row["towers"], row["border"], f"{row['mre']:.4f}", f"{row['times']:.2f}",
                     f"{row['at the border']:.3f}", row["zones off"],
                     f"{row['to both sides']:.4f}", f"{row['to both sides, no noise']:.4f}"]
                    for row in rows
                ],
            ),
        ]  # fmt: skip
    if "geometry" in found:
        parts += [
            "**What lies beyond**: share of the cells of towers in the zones that lies beyond the "
            "zones, each tower counting alike, and how many lose more than half.",
            table(
                ["map", "towers given", "border", "lost", "lose over half", "left out"],
                [
                    [row["map"], row["towers"], row["border"], f"{float(row['lost']):.2%}",
                     row["half"], row["left out"]]
                    for row in found["geometry"]
                ],
            ),
        ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
