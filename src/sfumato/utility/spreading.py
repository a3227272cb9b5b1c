"""`spread`: how far, and how fast, a message passes from person to person, from published traces.

The second use of the study of geo-indistinguishable traces: two users whose reports lie within 50 m
of each other in the same slot of 5 seconds are in contact, and a message (a rumour, an infection)
passes over every contact (`sfumato.utility.contacts`). From every user at once: whom it reaches,
and after how long.

Noise moves people together and apart: contacts among reports are not contacts among people. With
independent noise a crowd meets more often than it did, with windows that stand still less often.
The result says so, and states no interval. It reads what was published alone and costs nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.io.write import make_folder, write_bytes
from sfumato.model.rounding import percent
from sfumato.model.source import Progress
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.privacy.noise.planar import parse_metres, parse_seconds
from sfumato.published.release import Release
from sfumato.traces.interpolation import interpolate
from sfumato.utility.contacts import RANGE_M, SLOT_S, Gossip, Slot, find_contacts, gossip
from sfumato.utility.placement import NO_REPORTS, folder_of_its_own, published_reports

MOST_USERS = 20_000
"""Arrival times of every pair are kept: 3.2 GB at this number."""
CURVE = 48
"""Points of the curve of who has been reached."""
_STANDING = ("printed-clock",)
_YEAR_S = 366 * 86_400
"""Kinds whose reports stand still in a window: movement is drawn in between, as readers do."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Time until a message arrives, over all pairs that are reached: quartiles and mean, hours."""

    lower: float
    median: float
    upper: float
    mean: float


def latency_of(told: Gossip, first_slot: int, slot_s: float) -> Latency | None:
    """Latency from the first slot of the period; none where nobody is reached."""
    slots = told.latency_slots(first_slot)
    if slots.size == 0:
        return None
    hours = slots * slot_s / 3600
    lower, median, upper = (float(v) for v in np.quantile(hours, [0.25, 0.5, 0.75]))
    return Latency(lower, median, upper, float(hours.mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Whom a message reaches among published reports, on average over who sends it."""

    users: int
    contacts: int
    """Pairs in a slot."""
    reached: float
    """Mean share of users that a message reaches, its sender included."""
    fewest: float
    most: float
    latency: Latency | None
    hours: tuple[float, ...]
    """Hours since the first report, for `curve`."""
    curve: tuple[float, ...]
    """Mean share reached by then."""
    noise_m: float
    drawn_in: bool
    """Whether movement inside windows was drawn in."""
    signature: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before it is quoted."""
        drawn = ("Movement inside windows was drawn in between reports.",) if self.drawn_in else ()
        return (
            *(() if self.users else (NO_REPORTS,)),
            f"Contacts are among reports, about {self.noise_m:.0f} m from where people were: noise "
            "adds meetings that never were and hides others. No interval is known.",
            *drawn,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        late = self.latency
        return {
            "users": self.users,
            "contacts": self.contacts,
            "reached": {"mean": self.reached, "fewest": self.fewest, "most": self.most},
            "latency_hours": None
            if late is None
            else {
                "lower": late.lower, "median": late.median, "upper": late.upper, "mean": late.mean
            },
            "curve": {"hours": list(self.hours), "reached": list(self.curve)},
            "notes": list(self.notes),
            "release": self.signature,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Spread: {self.users} users, {percent(self.reached, 1)} reached>"


def spread(
    traces: str | os.PathLike[str] | Release,
    *,
    range: str | float = RANGE_M,
    slot: str | float = SLOT_S,
    meaning: str = Slot.COMPONENT,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Spread:
    """Let a message spread over contacts among sanitised traces. Nothing is spent.

    Args:
        traces: What `sanitise` published: its folder, or the release read from it.
        range: How near two reports are in contact.
        slot: How long a slot is: reports of one slot count as simultaneous.
        meaning: `component` (a message passes any chain of contacts within a slot) or `one-hop`
            (pairs exchange what they knew when the slot began).
        out: Folder for `spread.json` and `index.html`; none: nothing is written.
        progress: Told the name of the stage.

    Returns:
        Mean share reached, its extremes over senders, latency, and the curve over time.

    Raises:
        InputError: It is no release of traces, or was altered.
        UsageError: A word or number makes no sense, or there are too many users for all pairs.

    Example:
        >>> sfumato.spread("out/cabs", range="100m").reached  # doctest: +SKIP
    """
    near = parse_metres(range)
    slot_s = float(parse_seconds(slot)) if isinstance(slot, str) else float(slot)
    if not (near > 0 and 0 < slot_s <= _YEAR_S):
        raise UsageError(
            "Range and slot are positive, and a slot is at most a year.",
            remedy="Write 50m and 5s.",
        )
    if meaning not in tuple(Slot):
        raise UsageError(f"A slot does not mean {meaning!r}.", remedy="component or one-hop.")
    folder = None if out is None else folder_of_its_own(out)
    release, reports = published_reports(traces)
    if reports.names.size > MOST_USERS:
        raise UsageError(
            f"{reports.names.size:,} users are more than can be followed pair by pair.",
            remedy=f"Sanitise the traces of at most {MOST_USERS:,} users at a time.",
        )
    facts = release.manifest.scheme
    standing = facts.name.rpartition("/")[2] in _STANDING
    if standing:
        reports = interpolate(reports, round(release.manifest.grid.step_seconds))
    if progress is not None:
        progress("finding contacts", -1.0)
    found = find_contacts(reports, slot_s=slot_s, range_m=near)
    if progress is not None:
        progress("spreading", -1.0)
    told = gossip(found, Slot(meaning))
    first = _first_slot(reports, slot_s)
    hours, curve = _curve(told, reports, first, slot_s)
    each = told.reached_from() / max(told.users, 1)
    made = Spread(
        told.users,
        len(found),
        told.infection_rate() if told.users else 0.0,
        float(each.min()) if each.size else 0.0,
        float(each.max()) if each.size else 0.0,
        latency_of(told, first, slot_s),
        hours,
        curve,
        float(str(facts.parameters["expected_noise_m"])),
        standing,
        release.label,
    )
    if folder is not None:
        from sfumato.reports.uses import spread_page

        make_folder(folder)
        text = json.dumps(made.to_json(), indent=2, ensure_ascii=False)
        write_bytes(folder / "spread.json", f"{text}\n".encode())
        write_bytes(folder / "index.html", spread_page(made).encode())
    return made


def _first_slot(reports: Traces, slot_s: float) -> int:
    return int(reports.time.min() // round(slot_s * MICROSECONDS)) if len(reports) else 0


def _curve(
    told: Gossip, reports: Traces, first: int, slot_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean share of users reached by then, sender included, at equal steps of the period."""
    if len(reports) == 0:
        return (), ()
    last = int(reports.time.max() // round(slot_s * MICROSECONDS))
    ends = np.linspace(first, last, CURVE + 1)
    arrived: NDArray[np.int64] = np.sort(told.first[told.first > 0])
    reached = np.searchsorted(arrived, ends, side="right") + told.users
    share = reached / max(told.users**2, 1)
    hours = (ends - first) * slot_s / 3600
    return tuple(float(v) for v in hours), tuple(float(v) for v in share)
