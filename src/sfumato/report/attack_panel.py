"""What `sfumato attack` leaves for the internal page: figures, and some people's trajectories.

INTERNAL: `true` is where real people were. The file lies beside the evaluation's own, readable
by its owner alone, and the page that shows it says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sfumato.io.writers import write_bytes
from sfumato.model.errors import InputError, UsageError

PANEL = "internal-attack-panel.json"
"""Where an attack leaves its results for the page of an evaluation in the same folder."""
Trajectory = Sequence[int]
"""The place of each slot, as its row in the table; -1 where none is known."""


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What an adversary reached against a contender, beside what guessing reaches."""

    attack: str
    contender: str
    measure: str
    reached: float
    guessing: float
    bound: float | None = None
    """What the guarantee allows at most, where that can be said."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class AttackTracks:
    """Some people where they were and where the attack has them, and its accuracy by slot."""

    contender: str
    by_slot: Sequence[float]
    guessing: Sequence[float]
    """By slot, what is reached by who knows everybody else, and nothing of the person."""
    true: Sequence[Trajectory]
    found: Sequence[Trajectory]

    def check(self, places: int, slots: int) -> None:
        """Refuse trajectories of another map or another period."""
        rows = (*self.true, *self.found)
        lengths = {len(self.by_slot), len(self.guessing), *(len(row) for row in rows)}
        inside = all(-1 <= place < places for row in rows for place in row)
        if lengths != {slots} or len(self.true) != len(self.found) or not inside:
            raise UsageError(
                "The attack in this folder is about other places or another period.",
                remedy="Run sfumato attack on the same release, or choose another --out.",
            )


@dataclass(frozen=True, slots=True)
class AttackPanel:
    """Everything the page shows of attacks."""

    results: tuple[AttackResult, ...] = ()
    tracks: tuple[AttackTracks, ...] = field(default=())


def write_panel(panel: AttackPanel, folder: Path) -> Path:
    """Leave the panel where the page will look for it."""
    path = folder / PANEL
    text = json.dumps(asdict(panel), ensure_ascii=False, separators=(",", ":"))
    write_bytes(path, f"{text}\n".encode(), mode=0o600)
    return path


def read_panel(folder: Path) -> AttackPanel:
    """What an attack left in the folder; nothing where there was none."""
    try:
        found = json.loads((folder / PANEL).read_text("utf-8"))
        return AttackPanel(
            tuple(AttackResult(**one) for one in found["results"]),
            tuple(AttackTracks(**one) for one in found["tracks"]),
        )
    except FileNotFoundError:
        return AttackPanel()
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(
            "the results of the attack cannot be read.",
            file=str(folder / PANEL),
            remedy="Run sfumato attack again, or remove the file.",
        ) from None
