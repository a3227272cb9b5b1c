"""What a stream states about itself: manifest, privacy statement in words, `README.txt`.

All of it depends on the reservation and the public settings alone, so it stands in the folder from
the first slot on and every start writes the same bytes. What was paid is the plan's accounts: each
is one event for one unit's window, on which measurements draw slot by slot (see `scheme.Meter`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.geography.border import border_lines
from sfumato.model.rounding import percent
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, event_to_json
from sfumato.privacy.ledger.ledger import Reservation
from sfumato.privacy.ledger.totals import compose
from sfumato.privacy.ledger.views import cumulative, ledger_row, release_facts
from sfumato.privacy.mechanisms.additive import gaussian_variance, laplace_variance
from sfumato.published.manifest import (
    NOT_COVERED,
    GridFacts,
    Manifest,
    Measured,
    PlacesFacts,
    PosteriorFacts,
    Privacy,
    SchemeFacts,
)
from sfumato.published.statement import adds_up, noise, statement
from sfumato.published.tables import readme
from sfumato.streams.facts import StreamFacts
from sfumato.streams.fitness import fitness
from sfumato.streams.output import Consistency, final_names
from sfumato.streams.parameters import in_force
from sfumato.streams.scheme import Account, StreamPlan

if TYPE_CHECKING:
    from sfumato.streams.live import StreamRequest

_BOUND = (
    "In every time slot each person counts once, in one place; of several places one was chosen "
    "at random."
)
_MORE = "more of somebody's record than the unit, but for what several units add up to;"
_FLOOD = (
    "rows that come too late: a slot closes by the clock, so whoever floods the feed can make rows "
    "of others come after it, and those are not counted;"
)
_SAME_KEY = (
    "a restored copy: this stream was bound to its settings and not to its events, which were yet "
    "to come. Resumed on other events it draws with the same key. Each slot leaves once, and the "
    "published lines are checked for that; where ledger and folder are both put back to an "
    "earlier copy, two versions of a slot would have the same noise, and their difference none;"
)

_NO_SUMS = {
    True: "Each slot is estimated as it closes, and how its error hangs together with those of "
    "other slots and of some of its places is not kept. Single counts and sums of whole slots "
    "have the intervals that are printed with them.",
    False: "The scheme states no intervals: its noise has a known size, but what it publishes "
    "between measurements is further off than that.",
}


_SLOTS_ALONE = (
    "Of single places too little is known for an interval: of a few people, or of one day. Sums of "
    "whole slots have the intervals that are printed with them."
)


def stream_manifest(
    asked: StreamRequest, reservation: Reservation, files: Mapping[str, str]
) -> Manifest:
    """Everything a reader needs to judge the stream.

    The claim is that of the ledger's row and the list that of the plan, so that one checks the
    other. Pure sums and rho may be spent adaptively; curves of fixed events are not claimed
    beyond what `compose` allows one release.
    """
    facts = asked.facts
    plan = asked.scheme.plan(facts)
    charged = [event for _, event in reservation.charge_row.claim.events]
    claimed = compose(charged, facts.delta)
    return Manifest(
        kind="stream",
        tainted=False,
        release=release_facts(reservation),
        about=asked.about,
        privacy=Privacy(
            unit=str(facts.unit),
            neighbours=facts.unit.neighbours,
            bound=_BOUND,
            counting="people",
            measurements=[_measured(account, facts) for account in plan.accounts],
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=facts.delta,
            method=claimed.method,
            cumulative=cumulative(reservation),
        ),
        counted=_places(asked),
        released=_released(asked),
        grid=GridFacts.of(asked.grid),
        scheme=SchemeFacts(
            name=f"stream/{asked.scheme.name}",
            parameters={**in_force(asked.scheme), "slots in a window": facts.window},
            interval_coverage=plan.coverage,
            median=plan.median,
            sum_coverage=plan.sums,
        ),
        public_inputs={
            "expected_users": facts.expected_users,
            "delay_seconds": asked.delay_seconds,
            "consistency": asked.consistency.value,
            "live": asked.live,
            **asked.border,
            **dict(asked.reading),
            **({} if asked.csv == "auto" else {"csv": asked.csv}),
        },
        posterior=PosteriorFacts(stated=plan.joint, why_not=_why_not(plan)),
        software={"sfumato": __version__},
        ledger=ledger_row(reservation),
        files=dict(files),
        caveats=_caveats(asked),
        not_covered=_not_covered(asked),
    )


def _why_not(plan: StreamPlan) -> str:
    if plan.joint:
        return ""
    if plan.sums:
        return _SLOTS_ALONE
    return (plan.coverage and plan.no_joint) or _NO_SUMS[bool(plan.coverage)]


def stream_statement(asked: StreamRequest, manifest: Manifest) -> str:
    """The manifest in words."""
    lines = " ".join(asked.scheme.plan(asked.facts).lines)
    listed = noise(manifest)
    paid = f" Noise at least: {listed}." if listed else ""
    how = (
        "Whole-number random noise was added to what was measured before anything else was done "
        f"with it. {lines}{paid} Which slots were measured depended on public facts and on "
        "numbers with noise alone. Every place is listed in every time slot, also where nobody was."
    )
    exactness = (
        "Each line of stream.ndjson holds sd, the standard deviation of the noise in one of its "
        "numbers as far as public facts and earlier slots tell, and whether the slot was measured "
        "anew (fresh) or estimated from earlier ones."
    )
    if manifest.scheme.interval_coverage:
        exactness += (
            " lower and upper are meant to hold the count in "
            f"{percent(manifest.scheme.interval_coverage)} of cases, and so are the ends of total, "
            "the slot's sum."
        )
    elif manifest.scheme.sum_coverage:
        exactness += (
            f" The ends of total, the slot's sum, are meant to hold it in "
            f"{percent(manifest.scheme.sum_coverage)} of cases; single counts have no interval."
        )
    figures = "stream.json holds, and manifest.json when the last slot is out,"
    return statement(manifest, how=how, exactness=exactness, figures=figures)


def stream_readme(asked: StreamRequest, manifest: Manifest) -> str:
    """`README.txt`: the same from the first slot to the last, so it lists what will be there."""
    plan = asked.scheme.plan(asked.facts)
    names = {"slots", *final_names(manifest, asked.released, plan.keeps)}
    return readme(manifest, names, stream_statement(asked, manifest))


def _measured(account: Account, facts: StreamFacts) -> Measured:
    variance = None
    if isinstance(account.event, LaplaceEvent):
        variance = laplace_variance(account.event.scale)
    elif isinstance(account.event, GaussianEvent):
        variance = gaussian_variance(account.event.sigma2)
    return Measured(
        label=account.label,
        event=event_to_json(account.event),
        cells=facts.cells,
        units_per_count=1,
        variance=variance,
        sd=None if variance is None else variance**0.5,
    )


def _places(asked: StreamRequest) -> PlacesFacts:
    ids = asked.place_ids.tolist()
    lie = dict(asked.reading).get("where places lie")
    return PlacesFacts(
        kind=asked.place_kind,
        count=len(ids),
        sha256=lie or hashlib.sha256("\n".join(ids).encode()).hexdigest(),
    )


def _released(asked: StreamRequest) -> PlacesFacts:
    if asked.shares is None or asked.released is None:
        return _places(asked)
    places = asked.released
    return PlacesFacts(kind=places.kind.value, count=len(places), sha256=places.fingerprint())


def _caveats(asked: StreamRequest) -> list[str]:
    found = []
    if asked.facts.delta > 0 and asked.facts.expected_users is None:
        found.append(
            "Nobody said how many people are in the data, so it was not checked that delta is "
            "below one over their number."
        )
    if asked.live:
        found.append(
            f"A slot closes {asked.delay_seconds} seconds after its end by the clock; what comes "
            "later is not counted."
        )
    if asked.facts.begins:
        found.append(
            f"The feed begins at {asked.grid.start(asked.facts.begins).isoformat()}, as was said "
            "beforehand; numbers of slots before are zeros that nobody measured."
        )
    found += _intervals(asked)
    if asked.shares is not None:
        found.append(
            "People were counted at towers and spread over zones by area, as if they stood "
            "anywhere around a tower with equal chance"
            + (
                "; each counts as one person in one of its zones, before the noise."
                if asked.split
                else "; the towers' numbers were spread after the noise."
            )
        )
        found += border_lines(asked.border)
    forecast = fitness(asked.scheme.name, asked.facts)
    found += [] if forecast is None else forecast.caveats
    if asked.consistency is not Consistency.NONE:
        found.append("Numbers were made whole and non-negative after the noise was added.")
    return found


def _intervals(asked: StreamRequest) -> list[str]:
    """Feeds of which it was measured that intervals do not hold; by the scheme alone."""
    name = asked.scheme.name
    if name in _BURSTS:
        return [
            "Intervals expect a day with a course: of a feed in bursts, with few short peaks and "
            f"nobody between, the 90 % intervals of slots' sums held {_BURSTS[name]} % in one run."
        ]
    if name == "comb" and not asked.facts.begins:
        return [
            "Nobody said when the feed begins. If it begins within the first day, that day may be "
            "published as zeros, with intervals that do not hold."
        ]
    return []


_BURSTS = {"smoother": 65, "profile": 50}
"""Share of slots held, by scheme: 20,000 people at epsilon 1, one run (docs/streams.md)."""


def _not_covered(asked: StreamRequest) -> list[str]:
    further = [_MORE] if adds_up(str(asked.facts.unit)) else []
    return [*further, *((_FLOOD, _SAME_KEY) if asked.live else ()), *NOT_COVERED]
