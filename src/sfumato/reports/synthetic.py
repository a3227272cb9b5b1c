"""The part of the public page about made-up people: moves, their lengths, and hours.

Made from the folder of the release alone (`figures.json`, whose digest the manifest lists). It is
plain HTML and SVG, without a script: numbers become heights here, and texts are escaped by the
template.
"""

from __future__ import annotations

import json
from typing import Any

from sfumato.errors import InputError
from sfumato.published.release import Release

FIGURES = "figures.json"
_WIDE, _HIGH, _GAP = 560.0, 120.0, 3.0


def people_of_page(release: Release) -> dict[str, Any] | None:
    """What the template draws; `None` where nobody is made up."""
    if release.kind != "synthetic" or not release.files.holds(FIGURES):
        return None
    try:
        found = json.loads(release.files.read(FIGURES))
        return {
            "lengths": _bars(found["ends_km"], found["lengths"]),
            "hours": _lines(found["slots"]),
            "flows": [
                {
                    "start": str(row["from"]),
                    "end": str(row["to"]),
                    "made": _percent(row["made"]),
                    "released": _percent(row["released"]),
                }
                for row in found["flows"]
            ],
            "wide": _WIDE,
            "high": _HIGH,
            "people": f"{int(release.manifest.public_inputs.get('people') or 0):,}",
            "seed": str(release.manifest.public_inputs.get("seed")),
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise InputError(
            "it cannot be read as figures of synthetic people.", file=str(release.folder / FIGURES)
        ) from None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * float(share):.2f} %"


def _bars(ends: list[float], lengths: dict[str, list[float] | None]) -> list[dict[str, Any]]:
    """A pair of bars for each class of length."""
    made, released = lengths["made"], lengths["released"]
    if made is None:
        return []
    top = max([*made, *(released or []), 1e-9])
    step = _WIDE / len(made)
    names = [f"≤ {end:g} km" for end in ends] + [f"> {ends[-1]:g} km"]
    rows = []
    for k, share in enumerate(made):
        known = None if released is None else float(released[k])
        rows.append(
            {
                "x": round(k * step, 1),
                "half": round((step - _GAP) / 2, 1),
                "middle": round(k * step + (step - _GAP) / 2, 1),
                "made": round(_HIGH * float(share) / top, 1),
                "released": None if known is None else round(_HIGH * known / top, 1),
                "title": f"{names[k]}: {_percent(share)} / {_percent(known)}",
            }
        )
    return rows


def _lines(slots: dict[str, list[float] | None]) -> dict[str, str | None]:
    """Points of a line for made-up and for released totals of the slots."""
    known = [values for values in slots.values() if values]
    top = max([max(values) for values in known] or [1.0]) or 1.0
    return {
        name: None
        if not values
        else " ".join(
            f"{k * _WIDE / max(len(values) - 1, 1):.1f},{_HIGH - _HIGH * float(value) / top:.1f}"
            for k, value in enumerate(values)
        )
        for name, values in slots.items()
    }
