"""Which column plays which part: names that users of other tools already live with.

scikit-mobility and dp_mobility_report (`uid`, `datetime`, `lat`, `lng`, `tile_ID`), trackintel
(`user_id`, `tracked_at`), movingpandas (`t`, `x`, `y`), multimno (`user_id`, `timestamp`,
`cell_id`, `latitude`), FlowKit (`msisdn`, `location_id`) and public data sets. Names are
compared without case. A role has plain names and *weak* ones (`id`, `x`, `hour`) that count
only where no plain one is present. Two candidates of one strength are an error, never a guess.

Every input has roles of its own, and one mapping holds the holder's choices for all of them:
`user`, `time`, `place`, `lon`, `lat` are the events', `towers.id`, `towers.lon` … the towers',
`zones.id`, `zones.name` the zones'. Each reader takes those of its file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Role:
    """A part that a column can play, and the names by which it is recognised."""

    key: str
    """What the holder calls it; behind the name of its file where that is not of events."""
    plain: frozenset[str]
    weak: frozenset[str] = frozenset()

    @property
    def option(self) -> str:
        """How the user chooses a column himself; the zones' have options of their own, too."""
        if self.key.startswith("zones."):
            return f"`{self.key.replace('zones.', 'zone_')}=NAME`"
        return f"`column={{{self.key!r}: NAME}}`"

    @property
    def words(self) -> str:
        """What messages call it: `tower id` for `towers.id`."""
        return self.key.replace("s.", " ")


def _role(key: str, plain: str, weak: str = "") -> Role:
    return Role(key, frozenset(plain.split()), frozenset(weak.split()))


USER = _role(
    "user",
    "user user_id userid uid msisdn imsi imei subscriber subscriber_id device device_id phone "
    "phone_id person person_id individual_id agent agent_id customer_id caid maid ad_id "
    "cab cab_id taxi taxi_id vehicle vehicle_id driver_id",
    "id",
)
TIME = _role(
    "time",
    "time datetime date_time timestamp time_stamp ts t tracked_at recorded_at event_time "
    "event_timestamp call_time instant epoch unixtime unix_time",
    "hour date",
)
PLACE = _role(
    "place",
    "place place_id tower tower_id cell cell_id cellid location_id bs bs_id site site_id "
    "station station_id base_station base_station_id antenna antenna_id",
    "zone zone_id tile tile_id grid_id code_iris",
)
LON = _role("lon", "lon lng long longitude", "x")
LAT = _role("lat", "lat latitude", "y")

EVENT_ROLES = (USER, TIME, PLACE, LON, LAT)

TOWER = _role("towers.id", " ".join(sorted(PLACE.plain)), "id code fid")
TOWER_LON = replace(LON, key="towers.lon")
TOWER_LAT = replace(LAT, key="towers.lat")
VALID_FROM = _role("towers.valid_from", "valid_from valid_date_start valid_start")
VALID_TO = _role("towers.valid_to", "valid_to valid_date_end valid_end valid_until")
TOWER_ROLES = (TOWER, TOWER_LON, TOWER_LAT, VALID_FROM, VALID_TO)

ZONE = _role(
    "zones.id",
    "zone zone_id tile tile_id grid_id grd_id code_iris dcomiris iris geoid geoid10 geoid20 "
    "nuts_id lau_id h3 quadkey cell_id place_id tower_id",
    "id code fid tractce tractce10 tractce20 nhood c_quinsee c_arinsee",
)
ZONE_NAME = _role("zones.name", "")
ALL_ROLES = (*EVENT_ROLES, *TOWER_ROLES, ZONE, ZONE_NAME)

ZONE_NAMES = (
    *("zone_name", "name", "nom", "label", "nom_iris", "l_qu", "l_ar", "nhood"),
    *("namelsad", "namelsad10", "namelsad20"),
)
"""Names of zones for people, best first. They decide nothing, so the first one present wins."""

_SCALED = re.compile(r"(?P<base>.+)_e(?P<power>[1-9])")
_TIME_NAME = re.compile(
    r"(?P<base>.+?)(_(?P<zone>utc|gmt|local))?"
    r"(_(?P<unit>s|sec|secs|seconds|ms|millis|us|micros|ns|nanos))?"
)
_UNITS = {"sec": "s", "secs": "s", "seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}


def plain_name(name: str) -> str:
    """Lower case with underscores: `Tile-ID` becomes `tile_id`."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


@dataclass(frozen=True, slots=True)
class TimeName:
    """What the name of a time column says: `t_utc_s` is base t, UTC, seconds."""

    base: str
    utc: bool
    unit: str | None

    @classmethod
    def of(cls, name: str) -> TimeName:
        match = _TIME_NAME.fullmatch(plain_name(name))
        if match is None:
            return cls(plain_name(name), False, None)
        unit = match["unit"]
        return cls(match["base"], match["zone"] in ("utc", "gmt"), _UNITS.get(unit, unit))


def degrees_scale(name: str) -> float:
    """1e5 for `lon_e5`, 1 for `lon`."""
    match = _SCALED.fullmatch(plain_name(name))
    return 10.0 ** int(match["power"]) if match else 1.0


def _base(name: str, role: Role) -> str:
    plain = plain_name(name)
    if role.key == "time":
        return TimeName.of(name).base
    if role.key.endswith(("lon", "lat")):
        match = _SCALED.fullmatch(plain)
        return match["base"] if match else plain
    return plain


def plays(name: str, role: Role) -> bool:
    """True for a plain name of the part."""
    return _base(name, role) in role.plain


def is_known(name: str) -> bool:
    """True for a column name that plays any part: a first line with one is a header."""
    return any(_base(name, role) in role.plain | role.weak for role in ALL_ROLES)


def listed(names: Sequence[str]) -> str:
    """Column names for a message, long lists cut."""
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def named(wanted: str, names: Sequence[str], role: Role, file: str | None) -> str:
    """The column that the user named, or an error that lists what there is."""
    if wanted in names:
        return wanted
    close = [name for name in names if name.lower() == wanted.lower()]
    if len(close) == 1:
        return close[0]
    raise InputError(
        f"there is no such column to use as {role.words}. The columns are {listed(names)}.",
        file=file,
        column=wanted,
        remedy=f"Choose one with {role.option}.",
    )


def find(names: Sequence[str], role: Role, file: str | None) -> str | None:
    """The column recognised for a role, `None` if there is none, an error if there are two."""
    for known in (role.plain, role.weak):
        candidates = [name for name in names if _base(name, role) in known]
        if len(candidates) > 1:
            raise InputError(
                f"the columns {listed(candidates)} could all be the {role.words}.",
                file=file,
                remedy=f"Say which one with {role.option}.",
            )
        if candidates:
            return candidates[0]
    return None


def pick(
    names: Sequence[str], role: Role, chosen: Mapping[str, str], file: str | None
) -> str | None:
    """The user's choice if he made one, else what the name tells."""
    wanted = chosen.get(role.key)
    return named(wanted, names, role, file) if wanted is not None else find(names, role, file)


def check_keys(chosen: Mapping[str, str]) -> None:
    """Refuse a map that names a role which does not exist."""
    keys = [role.key for role in ALL_ROLES]
    for key in chosen:
        if key not in keys:
            raise UsageError(
                f"{key!r} is not a part that a column can play.",
                remedy=f"Use one of {', '.join(keys)}.",
            )


def of_roles(chosen: Mapping[str, str], roles: Sequence[Role]) -> dict[str, str]:
    """The holder's choices for one file, out of those for all of them."""
    check_keys(chosen)
    keys = {role.key for role in roles}
    return {key: str(name) for key, name in chosen.items() if key in keys}


def by_position(chosen: Collection[str]) -> bool:
    """Whether columns are chosen by their numbers: a text file then has no header.

    No header is mistaken for one: a field that begins with a digit makes a line a record.
    """
    return any(name.isascii() and name.isdigit() for name in chosen)


def missing(names: Sequence[str], role: Role, file: str | None) -> InputError:
    """The error for a role that no column plays."""
    return InputError(
        f"no column is recognised as the {role.words}. The columns are {listed(names)}.",
        file=file,
        remedy=f"Name it with {role.option}.",
    )
