"""The part of the public page about made-up people: moves, their lengths, and hours.

Made from the folder of the release alone (`figures.json`, whose digest the manifest lists). It is
plain HTML and SVG, without a script: numbers become heights here, and texts are escaped by the
template.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import InputError
from sfumato.io.foreign import document
from sfumato.published.release import Release

FIGURES = "figures.json"
_WIDE, _HIGH, _GAP = 560.0, 120.0, 3.0


def people_of_page(release: Release) -> dict[str, Any] | None:
    """What the template draws; `None` where nobody is made up."""
    if release.kind != "synthetic" or not release.files.holds(FIGURES):
        return None
    try:
        found = document(release.files.read(FIGURES))
        return {
            "lengths": _bars(found["ends_km"], found["lengths"], found.get("unit", "km")),
            "trips": bool(found.get("trips")),
            "begin": bool(found.get("begin")),
            "maps": _maps(found.get("cells") or {}),
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
            "shortest": _class_of(found, 0),
            "longest": _class_of(found, -1),
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


def _names(ends: list[float], unit: str) -> list[str]:
    """Classes of length in words."""
    return [f"≤ {end:.3g} {unit}" for end in ends] + [f"> {ends[-1]:.3g} {unit}"]


def _class_of(found: dict[str, Any], which: int) -> str:
    """The first or the last class of length, below the bars."""
    ends = found["ends_km"]
    return _names(ends, found.get("unit", "km"))[which] if ends else ""


def _maps(cells: dict[str, list[float] | None]) -> list[dict[str, Any]]:
    """Small maps of squares, north up, darker where more trips are; both on one scale."""
    known = {name: values for name, values in cells.items() if values}
    top = max([max(values) for values in known.values()] or [0.0]) or 1.0
    found = []
    for name in ("made", "released"):
        values = known.get(name)
        if values is None:
            continue
        side = math.isqrt(len(values))
        squares = [
            {
                "x": k // side,
                "y": side - 1 - k % side,
                "dark": round(min(float(value) / top, 1.0) ** 0.5, 3),
                "title": _percent(value),
            }
            for k, value in enumerate(values)
        ]
        found.append({"name": name, "side": side, "squares": squares})
    return found


def _bars(
    ends: list[float], lengths: dict[str, list[float] | None], unit: str
) -> list[dict[str, Any]]:
    """A pair of bars for each class of length."""
    made, released = lengths["made"], lengths["released"]
    if made is None:
        return []
    top = max([*made, *(released or []), 1e-9])
    step = _WIDE / len(made)
    names = _names(ends, unit)
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
