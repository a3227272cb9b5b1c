"""Earlier releases, read back as what a new one may expect.

What they say enters the next release uncharged, so it must be what was published: the table is
held against the digest in its manifest, and noise from a test seed is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar
from sfumato.density.refine.earlier import EarlierTable, expected_pattern
from sfumato.model.errors import InputError
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.transaction import digests
from sfumato.released import Release, read_release


def pattern_of(
    folders: Sequence[str | os.PathLike[str]], released: Places, grid: TimeGrid
) -> NDArray[np.float64]:
    """The pattern of earlier releases on the slots of the next, over the same places."""
    tables = [_table(read_release(folder), released, grid) for folder in folders]
    return expected_pattern(tables, Calendar.of(grid.starts(), grid.ends()))


def _table(release: Release, released: Places, grid: TimeGrid) -> EarlierTable:
    manifest = release.manifest
    _check_published(release)
    if manifest.released.sha256 != released.fingerprint():
        raise InputError(
            "An earlier release is about other places than this one.",
            file=str(release.folder),
            remedy="Give releases for the same zones, or leave it out.",
        )
    if manifest.grid.step_seconds != grid.step.total_seconds() or manifest.grid.tz != grid.tz:
        raise InputError(
            "An earlier release has other time slots than this one.",
            file=str(release.folder),
            remedy="Give releases with the same --slot and --tz, or leave it out.",
        )
    table, slots = release.table(), manifest.grid.slots
    values = table.column("count").to_numpy().astype(np.float64).reshape(-1, slots)
    starts = table.column("time_start").slice(0, slots).to_pylist()
    ends = table.column("time_end").slice(0, slots).to_pylist()
    return EarlierTable(values, Calendar.of(starts, ends))


def _check_published(release: Release) -> None:
    found = digests(release.folder).get("density.parquet")
    if (
        release.manifest.tainted
        or found is None
        or release.manifest.files.get("density.parquet") != found
    ):
        raise InputError(
            "An earlier release is not as it was published.",
            file=str(release.folder),
            remedy="Give the folder as sfumato release made it, or leave it out.",
        )
