"""People from a release alone: post-processing, free; no events are read and no ledger is opened.

What the release does not say is taken from public constants: where homes are from its nights, works
from its office hours, how far people go from a distance law. The density is the release's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import shapely
from threadpoolctl import threadpool_limits

from sfumato.density.folder import seal
from sfumato.density.scheme import Parameter, PublicFacts
from sfumato.errors import UsageError
from sfumato.geography.overlay import layout_of_zones
from sfumato.io.write import not_there_yet, write_folder
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.people.folder import source_of
from sfumato.published.about import About
from sfumato.published.manifest import MANIFEST_NAME, Manifest, read_manifest
from sfumato.published.release import Release
from sfumato.synthesis.folder import made_facts, write_people
from sfumato.synthesis.method import (
    Cube,
    Method,
    SynthFacts,
    settings_of,
)
from sfumato.synthesis.registry import DEFAULT, method_named
from sfumato.synthesis.request import SynthRequest, checked_seed, made_people, whole_days


def people_of_release(
    release: str | os.PathLike[str] | Release,
    *,
    out: str | os.PathLike[str],
    method: str = DEFAULT,
    people: int | None = None,
    seed: int = 0,
    parameter: Mapping[str, Parameter] | None = None,
    name: str | None = None,
    about: About | None = None,
    progress: Progress | None = None,
) -> Release:
    """People whose density is that of a release, in the folder `out`."""
    tell = progress or (lambda *_: None)
    folder = not_there_yet(out)
    found = method_named(method)
    if not found.declares.on_release:
        raise UsageError(
            f"The method {method} cannot make people from a release alone.",
            remedy=f"Take the `method` {DEFAULT}.",
        )
    asked = _asked(release, found, folder.name if name is None else name, people, seed, parameter)
    tell("making synthetic people", -1.0)
    with write_folder(folder) as place, threadpool_limits(1):
        write_people(place, asked, {}, found.generate({}, asked.facts))
        seal(place, lambda files: _manifest(asked, files, about))
    return Release(folder, read_manifest(folder / MANIFEST_NAME), "made")


def _asked(
    given: str | os.PathLike[str] | Release,
    method: Method,
    name: str,
    people: int | None,
    seed: int,
    parameter: Mapping[str, Parameter] | None,
) -> SynthRequest:
    """The request that a release gives: its places, its slots, its table."""
    settings = settings_of(method, parameter or {})
    sown = checked_seed(seed)
    if people is not None:
        made_people(people, None)
    release = source_of(given, "People cannot be made from it")
    old = release.manifest
    expected = old.public_inputs.get("expected_users")
    wanted = made_people(people, expected if isinstance(expected, int) else None)
    whole_days(release.grid)
    places = _places(release)
    public = PublicFacts(
        place_ids=release.ids,
        grid=release.grid,
        epsilon=old.privacy.epsilon,
        delta=old.privacy.delta,
        expected_users=expected if isinstance(expected, int) else None,
        layout=layout_of_zones(places),
    )
    cube = Cube(np.maximum(release.values, 0), float(release.values.sum()))
    facts = SynthFacts(public, wanted, sown, settings, places, cube=cube)
    return SynthRequest(facts, method, old.release.dataset, name, places, on=release)


def _places(release: Release) -> Places:
    shapes = release.geometry
    if shapes is None or shapely.is_missing(shapes).any():
        raise UsageError(
            "No outlines of places were published here, so nobody can be put at them.",
            remedy="Give a release with `zones`, or whose towers stay where they are.",
        )
    kind = PlaceKind(release.manifest.released.kind)
    return Places.of(kind, release.ids, shapes, np.asarray(release.names, dtype=np.str_))


def _manifest(asked: SynthRequest, files: Mapping[str, str], about: About | None) -> Manifest:
    """The release's own promise: nothing was measured, and nothing was charged."""
    assert asked.on is not None
    old = asked.on.manifest
    made: dict[str, Any] = made_facts(asked, files, prefix="")
    caveats = [*made["caveats"], *old.caveats]
    return old.model_copy(
        update=made
        | {
            "kind": "synthetic",
            "about": about,
            "release": old.release.model_copy(update={"name": asked.name}),
            "total": None,
            "posterior": None,
            "fitness": None,
            "counted": old.counted,
            "released": old.released,
            "caveats": caveats,
        }
    )
