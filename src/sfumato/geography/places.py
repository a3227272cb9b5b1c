"""Where events are counted and for what numbers are published: the one way to say it.

Every verb and every command takes the same words and opens them here:

=====================  ===========================================  ==========================
said                   counted                                      released
=====================  ===========================================  ==========================
`towers`               visits at towers                             towers
`zones`                coordinates that fall in zones               zones
`grid`, `region`       coordinates that fall in cells               cells of the grid
`towers` and `zones`   visits at towers, spread by area over zones  zones
`towers` and `grid`    the same, over cells                         cells of the grid
=====================  ===========================================  ==========================

Towers are spread by the areas of their Voronoi cells, which end at a `border` beyond the zones
(`sfumato.geography.border`); a tower without a cell is left out and counted. All of it is public
geometry: nothing here sees an event, and no region, box or hull is ever taken from one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import shapely

from sfumato.errors import UsageError
from sfumato.geography.border import FIRST, Border, BorderLoss, border_for
from sfumato.geography.grids import grid_places
from sfumato.geography.overlay import (
    Layout,
    Overlay,
    layout_of_cells,
    layout_of_zones,
    overlay,
)
from sfumato.geography.voronoi import Cells
from sfumato.io.names import ZONE, ZONE_NAME, of_roles
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_region, read_zones
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

_BOX = re.compile(r"\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*")


@dataclass(frozen=True, slots=True, eq=False)
class OpenedPlaces:
    """Places that were read, and how the counted ones lie in the released ones."""

    counted: Places
    released: Places
    cells: Cells | None = None
    """Voronoi cells of towers that are spread over zones."""
    shares: Overlay | None = None
    loss: BorderLoss | None = None
    """What the border takes, where towers are spread over zones."""

    @property
    def border(self) -> str | None:
        """The rule at the border as requests bind it; none where it is the usual one."""
        if self.loss is None or self.loss.border == FIRST:
            return None
        return str(self.loss.border)

    @property
    def layout(self) -> Layout:
        """Where the counted places are."""
        return layout_of_zones(self.counted) if self.cells is None else layout_of_cells(self.cells)

    @property
    def zone_layout(self) -> Layout | None:
        """Where the released zones are, if other places were counted."""
        return None if self.shares is None else layout_of_zones(self.released)


@dataclass(frozen=True, slots=True, eq=False)
class PlaceOptions:
    """What is said about places. Files, frames and `Places` serve alike."""

    towers: object = None
    zones: object = None
    grid: str | None = None
    """`500m`, `1km@EPSG:3035`, `h3:8` or `geohash:6`; needs `region`."""
    region: object = None
    """A file of polygons, `west,south,east,north` in degrees (text or four numbers), a shape."""
    zone_id: str | None = None
    zone_name: str | None = None
    layer: str | None = None
    repair_zones: bool = False
    drop_bad_towers: bool = False
    border: str | float | None = None
    """How far towers' cells reach beyond the zones: `0`, `500m`, `reach`; none: by the list."""
    column: Mapping[str, str] | None = None
    """Which column of the towers' and the zones' files is what; what is about events is left."""
    number_towers: bool = False
    """Whether towers without ids get numbers: enough for a plan, which reads no events."""

    def __post_init__(self) -> None:
        said = of_roles(self.column or {}, (ZONE, ZONE_NAME))
        for name, role in (("zone_id", ZONE), ("zone_name", ZONE_NAME)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, said.get(role.key))

    @property
    def given(self) -> bool:
        """Whether any places are said."""
        return not (self.towers is None and self.zones is None and self.grid is None)

    @property
    def spreads(self) -> bool:
        """Whether towers are spread over zones or cells, so that there is a border."""
        return self.towers is not None and not (self.zones is None and self.grid is None)

    def with_places(self, towers: Places, zones: Places | None) -> PlaceOptions:
        """The same with places that somebody else has opened."""
        return replace(self, towers=towers, zones=zones)

    def open(
        self, *, period: TimeGrid | None = None, tz: str | None = None, keep_all: bool = False
    ) -> OpenedPlaces:
        """Read the places.

        Args:
            period: The slots; towers that moved have a cell for each place they stood at then.
            tz: The clock of validity dates that carry none.
            keep_all: Towers without a cell stay among those that are counted: what streams
                do, which are bound to the whole list.

        Raises:
            UsageError: Nothing is said, or things that do not go together.
            InputError: A file cannot be read, or is about another part of the world.
        """
        towers, areas = self.read(tz)
        rule = None if self.border is None else Border.parse(self.border)
        if rule is not None and not self.spreads:
            raise UsageError(
                "A border is one between towers and the zones that they are spread over.",
                remedy="Give `towers` with `zones` or a `grid`, or leave `border` out.",
            )
        if towers is None:
            if areas is None:
                raise UsageError(
                    "No places are given.",
                    remedy="Give `towers`, `zones`, or `grid` with `region`.",
                )
            return OpenedPlaces(areas, areas)
        if areas is None:
            return OpenedPlaces(towers, towers)
        if rule is None:
            rule = border_for(towers, areas, period)
        cells = rule.cells(towers, areas, period)
        if not keep_all and not cells.served.all():
            cells = cells.take(cells.served)
        shares = overlay(cells, areas)
        loss = BorderLoss.of(rule, towers, areas, shares)
        return OpenedPlaces(cells.towers, areas, cells, shares, loss)

    def read(self, tz: str | None = None) -> tuple[Places | None, Places | None]:
        """The towers, and the zones or cells, as far as they are said; nothing is made of them."""
        areas = self._areas()
        return (None if self.towers is None else self._towers(areas, tz)), areas

    def _areas(self) -> Places | None:
        if self.grid is None:
            if self.region is not None:
                raise UsageError("A `region` goes with a `grid`.", remedy="Give `grid`, too.")
            if self.zones is None or isinstance(self.zones, Places):
                return self.zones
            return read_zones(
                self.zones,
                self.zone_id,
                self.zone_name,
                repair=self.repair_zones,
                layer=self.layer,
            )
        if self.zones is not None:
            raise UsageError(
                "Zones and a grid exclude each other.",
                remedy="Leave one out; zones that a grid is to cover are its `region`.",
            )
        if self.region is None:
            raise UsageError(
                "A grid needs a region, which is a public choice and never read from the data.",
                remedy="Give `region`: a file of polygons, or west,south,east,north in degrees.",
            )
        return grid_places(self.grid, region_of(self.region, self.layer))

    def _towers(self, areas: Places | None, tz: str | None) -> Places:
        if isinstance(self.towers, Places):
            return self.towers
        return read_towers(
            self.towers,
            columns=self.column,
            zones=areas,
            tz=tz,
            drop_bad=self.drop_bad_towers,
            # A national list reaches overseas: beside zones such towers have no cell, no more.
            keep_far=areas is not None and not self.drop_bad_towers,
            number_rows=self.number_towers,
        )


def region_of(said: object, layer: str | None = None) -> shapely.Geometry:
    """The outline of a region: from a box, a shape, places, a frame or a file of polygons."""
    if isinstance(said, shapely.Geometry):
        return said
    if isinstance(said, Places):
        return shapely.union_all(said.geometry)
    if isinstance(said, str) and (found := _BOX.fullmatch(said)) is not None:
        return _box([float(number) for number in found.groups()])
    if isinstance(said, Sequence) and not isinstance(said, str) and len(said) == 4:
        return _box([float(number) for number in said])
    return read_region(said, layer)


def _box(edges: list[float]) -> shapely.Geometry:
    west, south, east, north = edges
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise UsageError(
            "A region's box is west, south, east, north in degrees.",
            remedy="Write 2.2,48.8,2.5,48.95.",
        )
    return shapely.box(west, south, east, north)
