"""`sfumato.refine`: read the measurements that a release keeps once more; and those of other weeks.

What was measured was paid for when it was measured, and everything after it is post-processing: a
better method, or further weeks, may be tried on it at no cost, as often as one likes. A second
reading is a release folder like the first, with the same guarantee, the same measurements and the
same entry in the ledger; its manifest says from which one it was made. Nothing is charged.

Measurements are believed as far as the folder's manifest vouches for them: the one reader holds
every file against its digest (`published.folder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.density.bayes.measured import Kept, kept
from sfumato.density.bayes.scheme import Bayes, reread
from sfumato.density.folder import (
    Finish,
    caveats,
    earlier_inputs,
    posterior_facts,
    seal,
    total_facts,
    write_posterior,
    write_tables,
    written_counts,
)
from sfumato.density.registry import scheme_named
from sfumato.errors import InputError, UsageError
from sfumato.io.foreign import digest
from sfumato.io.write import not_there_yet, write_bytes, write_folder
from sfumato.model.counts import Counting
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid
from sfumato.published.folder import MEASUREMENTS, read_arrays
from sfumato.published.manifest import MANIFEST_NAME, GridFacts, Manifest, read_manifest
from sfumato.published.release import Release, as_release, vouched

Folder = str | os.PathLike[str] | Release


def refine(
    release: Folder,
    *,
    out: str | os.PathLike[str],
    earlier: Sequence[Folder] = (),
    name: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Read a release's measurements again, by today's method, into a new folder beside the old.

    No events are read, nothing is measured, and nothing is charged: the ledger is not opened.

    Args:
        release: Folder of a release that keeps its measurements (`bayes`).
        out: Folder to make; it must not exist yet.
        earlier: Folders of releases of other weeks, for the same places, to be read together.
        name: Name of the new version; default: that of the folder.
        progress: Told the stage and its share.

    Returns:
        The new version; `how` is `refined`.

    Raises:
        InputError: A folder is no release, was altered, or keeps no measurements.
        UsageError: `out` is taken, or a release is given twice.

    Example:
        >>> sfumato.refine("releases/week-37", out="releases/week-37-again")  # doctest: +SKIP
    """
    tell = progress or (lambda *_: None)
    folder = not_there_yet(out)
    first = vouched(as_release(release), "It cannot be refined")
    own = measurements_of(first)
    others = earlier_of(earlier, first.manifest.released.sha256, first.grid, own.facts.counting)
    if own.release in {one.release for one in others}:
        raise twice(first)
    facts = replace(own.facts, earlier=others)
    tell("reading the measurements again", -1.0)
    with threadpool_limits(1):  # as in the release itself: the same bytes
        density = reread(own.measured, facts)
    inputs = {k: v for k, v in first.manifest.public_inputs.items() if k != "earlier"}
    inputs |= earlier_inputs(others) | {"refined_from": manifest_digest(first)}
    finish = _finish(first)
    remarks = caveats(facts, scheme_named(first.manifest.scheme.name).plan(facts), density, inputs)

    def manifest(files: Mapping[str, str]) -> Manifest:
        old = first.manifest
        called = {"name": folder.name if name is None else name}
        stated = {"interval_coverage": density.coverage or 0.0}
        return old.model_copy(
            update={
                "release": old.release.model_copy(update=called),
                "scheme": old.scheme.model_copy(
                    update=stated | {"median": density.median is not None}
                ),
                "public_inputs": inputs,
                "total": total_facts(density),
                "posterior": posterior_facts(density, Bayes.declares.no_posterior),
                "software": {"sfumato": version("sfumato")},
                "files": dict(files),
                "caveats": [*remarks, _note(old)],
            }
        )

    tell("writing tables and page", -1.0)
    with write_folder(folder) as place:
        write_tables(place, density, facts.grid, finish)
        counts = written_counts(density, finish)
        kind = first.manifest.released.kind
        remarks = [
            *write_posterior(place, counts, density.posterior, density.coverage, kind),
            *remarks,
        ]
        for file in (MEASUREMENTS, f"{kind}.geojson", f"{kind}.parquet"):
            if first.files.holds(file):
                write_bytes(place / file, first.files.read(file))
        seal(place, manifest)
    return Release(folder, read_manifest(folder / MANIFEST_NAME), "refined")


def measurements_of(release: Release) -> Kept:
    """What a release measured, from its folder.

    Raises:
        InputError: It keeps no measurements, or the file is damaged.
    """
    manifest, path = release.manifest, release.folder / MEASUREMENTS
    if not release.files.holds(MEASUREMENTS):
        raise InputError(
            "this release keeps no measurements: it was made by another scheme than bayes, or by a "
            "version that did not keep them. Its table alone cannot be read again: it has been "
            "smoothed already, and says nothing of its noise.",
            file=str(release.folder),
            remedy="Leave it out; releases made from now on keep theirs.",
        )
    arrays = read_arrays(release.files)
    try:
        measured, facts = kept(
            arrays,
            release.ids,
            release.grid,
            Counting(manifest.privacy.counting),
            manifest.scheme.parameters,
        )
    except ValueError:
        raise InputError(
            "it does not hold the measurements of this release.", file=str(path)
        ) from None
    return Kept(manifest.release.id, manifest.files[MEASUREMENTS], measured, facts)


def earlier_of(
    folders: Sequence[Folder], released: str, grid: TimeGrid, counting: Counting
) -> tuple[Kept, ...]:
    """Measurements of other weeks about the same places, in an order of their own.

    Args:
        folders: Of releases.
        released: Fingerprint of the places that the new one is about.
        grid: Its slots.
        counting: What it counts.

    Raises:
        InputError: One is no release, was altered, keeps no measurements, or is about something
            else.
        UsageError: One is given twice.
    """
    found: dict[str, Kept] = {}
    for folder in folders:
        release = vouched(as_release(folder), "It cannot be an earlier release")
        manifest = release.manifest
        if manifest.released.sha256 != released:
            raise InputError(
                "An earlier release is about other places than this one.",
                file=str(release.folder),
                remedy="Give releases for the same zones, or leave it out.",
            )
        if not manifest.grid.alike(GridFacts.of(grid)):
            raise InputError(
                "An earlier release has other time slots than this one.",
                file=str(release.folder),
                remedy="Give releases with the same `slot`, `tz` and `fold`, or leave it out.",
            )
        if manifest.privacy.counting != counting.value:
            raise InputError(
                f"An earlier release counts {manifest.privacy.counting}, not {counting.value}.",
                file=str(release.folder),
                remedy="Give releases with the same `count`, or leave it out.",
            )
        one = measurements_of(release)
        if one.release in found:
            raise twice(release)
        found[one.release] = one
    return tuple(sorted(found.values(), key=lambda one: one.digest))


def twice(release: Release) -> UsageError:
    """The same measurements would count as two."""
    return UsageError(
        f"{release.folder} is given twice, or is another reading of a release that is given: the "
        "same measurements would count as two.",
        remedy="Give each release once.",
    )


def manifest_digest(release: Release) -> str:
    """What names a release in those that are made from it: SHA-256 of its manifest."""
    return digest(release.folder / MANIFEST_NAME)


def _finish(release: Release) -> Finish:
    """The form of the output, as it was asked for."""
    inputs = release.manifest.public_inputs
    integers, csv = bool(inputs.get("integers")), str(inputs.get("csv", "auto"))
    if "hierarchy" not in inputs:
        return Finish(integers=integers, csv=csv)
    found = Finish(np.asarray(release.districts, dtype=np.str_), integers, csv=csv)
    if found.inputs()["hierarchy"] != inputs["hierarchy"]:
        raise InputError(
            "the districts of its zones are not those that it was published with.",
            file=str(release.folder),
        )
    return found


def _note(manifest: Manifest) -> str:
    return (
        f"This is a second reading of the release {manifest.release.name} "
        f"({manifest.release.id}), from the measurements that it keeps: nothing further was "
        "measured and nothing was charged."
    )
