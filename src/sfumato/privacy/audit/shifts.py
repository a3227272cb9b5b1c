"""Exact shifts: what one person really moves, measurement by measurement, against the charge.

Every pair of neighbouring inputs is run and replayed a few times (`transcript`), each time
with fresh noise, in both directions. The largest shift of each measurement stands in the
table beside the sensitivity it was charged for. There is no chance in the comparison: one
shift above its sensitivity is a proof, whatever its share of the budget, and at the epsilon
in use.

Both runs go to the end, and everything they publish is compared byte for byte (`finished`): that
is how a leak is seen which does not pass the wall. What is still left to attacks from outside
(`pipeline`) is a wall that draws other noise than it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.model.errors import UsageError
from sfumato.model.source import Source
from sfumato.privacy.audit.claims import SameOutputClaim, SensitivityClaim
from sfumato.privacy.audit.finished import REFUSED, Finished, Publisher, differing, parts_of, play
from sfumato.privacy.audit.pipeline import release_key
from sfumato.privacy.audit.run import Row
from sfumato.privacy.audit.transcript import (
    Scheme,
    Shift,
    joint_share,
    same_measurements,
    shifts,
)
from sfumato.privacy.charging import Tab
from sfumato.privacy.events import PrivacyEvent

Pairs = Mapping[str, tuple[Source, Source]]
"""Name of a pair to the source with the user and the one without."""
_NAMED = 3
"""Parts that differ and are named in the table; more are counted."""


@dataclass(frozen=True, slots=True)
class ExactShifts:
    """Rows for the table, and how much of the whole loss each pair uses up (1 is all of it)."""

    rows: tuple[Row, ...]
    joint: dict[str, float]

    @property
    def worst_first(self) -> list[str]:
        return sorted(self.joint, key=lambda pair: -self.joint[pair])

    @property
    def same_output(self) -> bool:
        """Whether everything published was the same under equal answers."""
        return not [r for r in self.rows if isinstance(r.claim, SameOutputClaim) and r.violated]


def exact_shifts(
    name: str,
    pairs: Pairs,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    *,
    transcripts: int = 2,
    seed: int = 0,
    publish: Publisher = parts_of,
) -> ExactShifts:
    """The largest shift of every measurement over all pairs, and the joint one of each pair.

    `publish` makes of a scheme's output everything that leaves; all of it is compared.
    """
    largest: dict[tuple[str, str], tuple[str, Shift]] = {}
    joint: dict[str, float] = {}
    apart: tuple[str, list[str]] = ("all pairs", [])
    for pair, sources in pairs.items():
        for turn in range(transcripts):
            first, second = sources if turn % 2 == 0 else sources[::-1]
            run, replay = _both(
                name, first, second, scheme, events, release_key(seed, turn), publish
            )
            found = differing(run, replay)
            if len(found) > len(apart[1]):
                apart = (pair, found)
            joint.setdefault(pair, 0.0)
            if run.refusal or not same_measurements(run.steps, replay.steps):
                continue
            joint[pair] = max(joint[pair], joint_share(run.steps, replay.steps))
            for shift in shifts(run.steps, replay.steps):
                where = (shift.label, shift.norm)
                if where not in largest or shift.moved > largest[where][1].moved:
                    largest[where] = (pair, shift)
    how = f"exact, {transcripts} transcripts of {len(pairs)} pairs"
    rows = [
        Row(
            f"{name} {label}",
            pair,
            SensitivityClaim(shift.allowed, norm),
            shift.moved,
            how,
            transcripts,
            1.0,
        )
        for (label, norm), (pair, shift) in largest.items()
    ]
    pair, parts = apart
    if parts:
        more = len(parts) - _NAMED
        how += ", apart in " + ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    claim = SameOutputClaim()
    rows.append(Row(f"{name} output", pair, claim, float(len(parts)), how, transcripts, 1.0))
    return ExactShifts(tuple(rows), joint)


def _both(
    name: str,
    first: Source,
    second: Source,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    key: bytes,
    publish: Publisher,
) -> tuple[Finished, Finished]:
    """A run and its replay. A scheme that is refused whoever is in the data cannot be audited."""
    tab = Tab()
    run = play(scheme, first, tab, key, publish)
    replay = play(scheme, second, Tab(), key, publish, run.steps)
    if run.refusal and run.parts[REFUSED] == replay.parts.get(REFUSED):
        raise run.refusal
    if not run.refusal and tab.charged != dict(events):
        raise UsageError(f"{name} charged something other than what it planned.")
    return run, replay
