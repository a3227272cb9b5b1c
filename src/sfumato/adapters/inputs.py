"""`Inputs`: what a release needs, found in a pipeline's own places. Events are opened last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Progress


@dataclass(frozen=True, slots=True)
class Inputs:
    """Antennas, zones where some were asked for, and how to get at the events."""

    towers: Places
    zones: Places | None
    open_events: Callable[[Progress | None], Events]
    """Not called for a plan or a dry run: those read no events."""
