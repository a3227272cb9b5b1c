"""Borders: how far beyond the zones a tower's cell may reach, and what is lost there.

A cell that reaches beyond the zones takes its share of every visit with it. Where the list has
towers on both sides of the border that is right: what a tower inside loses to the land outside,
a tower outside gives to the zones. Where all towers given stand in the zones (those "within the
administrative region", as in Acs & Castelluccia 2014) nothing gives anything back, and cells that
end only at the buffer of 3 km lose up to all of their visits. So the border is a choice:

==========  ==================================================================================
`border`    cells
==========  ==================================================================================
`0`         are cut to the zones: every visit at a tower in the zones counts in the zones.
            Formula (1) of the paper, whose tower cells are a partition of the city. Towers
            outside the zones are left out
`500m`      reach that far beyond the zones; towers further outside are left out
`reach`     reach beyond the zones as far as half the mean distance to the six nearest towers
not said    `0` if no tower that could have a cell stands outside the zones, otherwise `3km`
==========  ==================================================================================

All of it follows from the list of towers, the zones and the period, which are public: nothing
here sees an event. docs/decisions/border.md has what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.geography.overlay import Overlay
from sfumato.geography.projection import Projection
from sfumato.geography.voronoi import BUFFER_M, Cells, outline, voronoi_cells
from sfumato.model.places import Places
from sfumato.model.rounding import percent
from sfumato.model.time_grid import TimeGrid

ON_OUTLINE_M = 100.0
"""A tower as near as this to the zones stands in them where cells are cut to the zones: outlines
of zones and positions of towers, often rounded to a thousandth of a degree, are no better."""
_METRE = 1.0
_FARTHEST_M = 200_000.0
_DISTANCE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(m|km)\s*")
_WORST = 5
Facts = Mapping[str, bool | int | float | str | None]


@dataclass(frozen=True, slots=True)
class Border:
    """A rule for the cells at the border."""

    metres: float
    own_reach: bool = False

    @classmethod
    def parse(cls, said: str | float) -> Border:
        """`0`, `500m`, `2km` or `reach`; a plain number is metres."""
        if said == "reach":
            return cls(BUFFER_M, own_reach=True)
        match = _DISTANCE.fullmatch(said) if isinstance(said, str) else None
        if match is not None:
            metres = float(match[1]) * (1000.0 if match[2] == "km" else 1.0)
        else:
            try:
                metres = float(said)
            except (TypeError, ValueError):
                metres = np.nan
            if isinstance(said, str) and metres != 0:
                metres = np.nan  # a bare number on the command line: metres or kilometres?
        if not 0 <= metres <= _FARTHEST_M:
            raise UsageError(
                f"{said!r} is not a border.",
                remedy="The `border` is 0, a distance up to 200km such as 500m, or reach.",
            )
        return cls(metres)

    def __str__(self) -> str:
        """What `parse` reads, the same for the same rule."""
        if self.own_reach:
            return "reach"
        if self.metres == 0:
            return "0"
        whole = self.metres >= 1000 and self.metres % 100 == 0
        return f"{self.metres / 1000:.10g}km" if whole else f"{self.metres:.10g}m"

    def cells(self, towers: Places, zones: Places, period: TimeGrid | None) -> Cells:
        """The towers' cells by this rule."""
        if self.metres == 0:
            return voronoi_cells(
                towers, zones, buffer_m=0.0, tolerance_m=ON_OUTLINE_M, period=period
            )
        return voronoi_cells(
            towers, zones, buffer_m=self.metres, own_reach=self.own_reach, period=period
        )


CUT = Border(0.0)
"""Cells end where the zones end."""
FIRST = Border(BUFFER_M)
"""The usual rule, which reservations and manifests that name none were made by."""


def border_for(towers: Places, zones: Places, period: TimeGrid | None) -> Border:
    """The rule for these towers where none is said."""
    inside, near = near_zones(towers, zones, ON_OUTLINE_M, BUFFER_M)
    outside = near & ~inside
    if period is not None:
        first, last = period.period
        outside &= (towers.valid_from < last) & (towers.valid_to > first)
    return FIRST if outside.any() else CUT


def near_zones(towers: Places, zones: Places, *metres: float) -> tuple[NDArray[np.bool_], ...]:
    """Which towers stand in the zones or at most so far off, for each distance."""
    plane = Projection.around(zones)
    whole = outline(zones, plane)
    shapely.prepare(whole)
    at = plane.points(*shapely.get_coordinates(towers.geometry).T)
    known = np.isfinite(at).all(axis=1)
    points = shapely.points(at[known])
    found = []
    for far in metres:
        near = np.zeros(len(towers), dtype=np.bool_)
        near[known] = shapely.dwithin(whole, points, far)
        found.append(near)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class BorderLoss:
    """What a rule does to a list of towers. Shares are of cells, each tower counting alike:
    how many visits a tower has is nobody's business here."""

    border: Border
    inside_ids: NDArray[np.str_]
    lost: NDArray[np.float64]
    """Of each tower in the zones: the share of its cell, and so of its visits, that lies beyond."""
    outside: int
    """Towers beyond the zones that have a cell and give their share."""
    left_out: int
    """Towers without a cell: too far outside, or not valid in the period."""

    @classmethod
    def of(cls, border: Border, listed: Places, zones: Places, shares: Overlay) -> BorderLoss:
        """From all towers of the list, and the shares of those that are counted."""
        (near,) = near_zones(listed, zones, ON_OUTLINE_M if border == CUT else _METRE)
        inside = np.isin(shares.place_ids, listed.ids[near])
        return cls(
            border,
            shares.place_ids[inside],
            1.0 - shares.sums[inside],
            outside=int(np.unique(shares.place_ids[~inside]).size),
            left_out=int(np.setdiff1d(listed.ids, shares.place_ids).size),
        )

    @property
    def share(self) -> float:
        """Of all cells of towers in the zones, the mean share that lies beyond."""
        return float(self.lost.mean()) if self.lost.size else 0.0

    @property
    def over_half(self) -> int:
        """How many towers in the zones lose more than half of their visits."""
        return int(np.count_nonzero(self.lost > 0.5))

    @property
    def worst(self) -> dict[str, float]:
        """The towers in the zones that lose most, and how much."""
        order = np.argsort(-self.lost, kind="stable")[:_WORST]
        return {str(self.inside_ids[k]): round(float(self.lost[k]), 3) for k in order}

    def facts(self) -> dict[str, bool | int | float | str | None]:
        """For a manifest's public inputs and a plan."""
        worst = (f"{key} {lost:g}" for key, lost in self.worst.items() if lost > 0)
        return {
            "border": str(self.border),
            "border_lost_share": round(self.share, 4),
            "border_towers_losing_half": self.over_half,
            "border_worst_towers": ", ".join(worst),
            "towers_in_zones": int(np.unique(self.inside_ids).size),
            "towers_outside": self.outside,
            "towers_left_out": self.left_out,
        }


def _spaced(length: str) -> str:
    """3km as 3 km; a word stays."""
    return re.sub(r"(?<=\d)(?=[a-z])", " ", length)


def border_lines(facts: Facts) -> list[str]:
    """What `BorderLoss.facts` mean, in sentences; none where there is nothing of the kind."""
    if "border_lost_share" not in facts:
        return []
    share, outside = float(facts["border_lost_share"] or 0), int(facts["towers_outside"] or 0)
    said = (
        f"{facts['towers_in_zones']:,} towers stand in the zones and {outside:,} beyond (border "
        f"{_spaced(str(facts['border']))})."
    )
    if share == 0:
        said += " All visits at those in the zones count there, also of people just outside."
    else:
        said += (
            f" On average {percent(share, 1)} of what a tower in the zones serves lies beyond "
            "them, and that share of its visits is left out; "
            f"{facts['border_towers_losing_half']} lose more than half."
        )
        said += (
            " Those beyond give the zones a share of theirs instead."
            if outside
            else " Nothing makes up for it."
        )
    if not facts["towers_left_out"]:
        return [said]
    return [
        said,
        "Towers of the list that are left out, with the events at them: "
        f"{facts['towers_left_out']:,}. They stand too far outside the zones, or not in this "
        "period.",
    ]
