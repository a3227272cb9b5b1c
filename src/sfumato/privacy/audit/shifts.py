"""Exact shifts: what one person really moves, measurement by measurement, against the charge.

Every pair of neighbouring inputs is run and replayed a few times (`transcript`), each time
with fresh noise, in both directions. The largest shift of each measurement stands in the
table beside the sensitivity it was charged for. There is no chance in the comparison: one
shift above its sensitivity is a proof, whatever its share of the budget, and at the epsilon
in use. What it cannot see is a leak that does not pass the wall; for that the table and the
answers are attacked from outside (`pipeline`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.model.errors import UsageError
from sfumato.model.source import Source
from sfumato.privacy.audit.claims import SensitivityClaim
from sfumato.privacy.audit.pipeline import release_key
from sfumato.privacy.audit.run import Row
from sfumato.privacy.audit.transcript import Scheme, Shift, joint_share, listen, shifts
from sfumato.privacy.charging import Tab
from sfumato.privacy.events import PrivacyEvent

Pairs = Mapping[str, tuple[Source, Source]]
"""Name of a pair to the source with the user and the one without."""


@dataclass(frozen=True, slots=True)
class ExactShifts:
    """Rows for the table, and how much of the whole loss each pair uses up (1 is all of it)."""

    rows: tuple[Row, ...]
    joint: dict[str, float]

    @property
    def worst_first(self) -> list[str]:
        return sorted(self.joint, key=lambda pair: -self.joint[pair])


def exact_shifts(
    name: str,
    pairs: Pairs,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    *,
    transcripts: int = 2,
    seed: int = 0,
) -> ExactShifts:
    """The largest shift of every measurement over all pairs, and the joint one of each pair."""
    largest: dict[tuple[str, str], tuple[str, Shift]] = {}
    joint: dict[str, float] = {}
    for pair, sources in pairs.items():
        for turn in range(transcripts):
            key, tab = release_key(seed, turn), Tab()
            first, second = sources if turn % 2 == 0 else sources[::-1]
            run = listen(scheme, first, tab, key, most=len(events))
            if tab.charged != dict(events):
                raise UsageError(f"{name} charged something other than what it planned.")
            replay = listen(scheme, second, Tab(), key, run, most=len(events))
            joint[pair] = max(joint.get(pair, 0.0), joint_share(run, replay))
            for shift in shifts(run, replay):
                where = (shift.label, shift.norm)
                if where not in largest or shift.moved > largest[where][1].moved:
                    largest[where] = (pair, shift)
    how = f"exact, {transcripts} transcripts of {len(pairs)} pairs"
    rows = tuple(
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
    )
    return ExactShifts(rows, joint)
