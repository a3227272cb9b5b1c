"""The kinds of city that schemes are compared on, each with a seed that tuned nothing.

Defaults of the schemes were settled on the cities of seeds 1 to 4 (`bayes` on 1), so these
begin at 11. The second is larger and cut into more zones than it has towers; in the third
how much people use their phones hangs on where they live; in the fourth one crowd gathers
for a match and most commuters stay at home for a day. A fifth is tiny.
"""

from __future__ import annotations

from enum import StrEnum

from sfumato.city import CityPlan, Match


class Kind(StrEnum):
    """What is special about a city."""

    ORDINARY = "ordinary"
    OTHER = "other city"
    PLACE = "place-dependent activity"
    EVENTS = "match and strike"
    SMALL = "one day"
    """Few people, few places, 24 hours: not a comparison but a check that nothing is absurd."""

    @property
    def folder(self) -> str:
        """The name as part of a path."""
        return self.value.replace(" ", "-")


SEEDS = {Kind.ORDINARY: 11, Kind.OTHER: 12, Kind.PLACE: 13, Kind.EVENTS: 14, Kind.SMALL: 15}
SMALL_USERS = 2_000
CROWD_SHARE = 0.015
"""People at the match, as a share of all users."""


def plan_of(kind: Kind, users: int, *, towers: int = 1_303, zones: int = 989) -> CityPlan:
    """The plan of a city of that kind; `towers` and `zones` are those of the ordinary one."""
    seed = SEEDS[kind]
    if kind is Kind.OTHER:
        return CityPlan(
            users=users,
            seed=seed,
            towers=max(4, round(0.62 * towers)),
            zones=max(4, round(1.2 * zones)),
            area_km2=300.0,
            lon=4.84,
            lat=45.76,
        )
    if kind is Kind.PLACE:
        return CityPlan(users=users, seed=seed, towers=towers, zones=zones, place_activity=0.7)
    if kind is Kind.EVENTS:
        return CityPlan(
            users=users,
            seed=seed,
            towers=towers,
            zones=zones,
            match=Match(people=max(1, round(CROWD_SHARE * users))),
            strike_day=2,
        )
    if kind is Kind.ORDINARY:
        return CityPlan(users=users, seed=seed, towers=towers, zones=zones)
    return CityPlan(
        users=users,
        seed=seed,
        towers=max(4, towers // 10),
        zones=max(4, zones // 10),
        area_km2=10.5,
        days=1,
    )
