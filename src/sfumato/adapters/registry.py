"""The pipelines by name: how each is opened, and how a release is written for it."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.adapters.flowkit.aggregates import write_aggregates
from sfumato.adapters.flowkit.opening import open_flowkit
from sfumato.adapters.inputs import Inputs
from sfumato.adapters.multimno.opening import open_multimno
from sfumato.adapters.multimno.population import write_population
from sfumato.adapters.published import open_published
from sfumato.io.postgres.address import is_address
from sfumato.model.errors import UsageError
from sfumato.model.time_grid import TimeGrid

PIPELINES = ("multimno", "flowkit")


def open_pipeline(name: str, where: str, grid: TimeGrid, zoning: str | None = None) -> Inputs:
    """Find events, antennas and zones: multimno in its lakehouse, FlowKit in FlowDB or an export.

    `zoning` says which zones: `nuts:3` or `INSPIRE_1km` for multimno, `admin3` for FlowKit. Without
    it, FlowKit's antennas are released themselves.
    """
    _check(name)
    if name == "multimno":
        if is_address(where):  # taken for a path it would be repeated in messages
            raise UsageError(
                "multimno's data is a lakehouse folder, not a database.",
                remedy="Point to the folder that holds bronze and silver.",
            )
        return open_multimno(Path(where), grid, zoning)
    return open_flowkit(where, grid, zoning)


def export_release(
    folder: str | os.PathLike[str],
    name: str,
    out: str | os.PathLike[str],
    *,
    zoning: str | None = None,
    geojson: bool = False,
) -> list[Path]:
    """Write a release as the pipeline would have published it; nothing is read but the release."""
    _check(name)
    found = open_published(folder)
    if name == "multimno":
        if geojson:
            raise UsageError("multimno has no GeoJSON form.", remedy="Leave --geojson out.")
        return write_population(found, Path(out), zoning)
    if zoning is not None:
        raise UsageError(
            "FlowKit's aggregates do not say their zoning.", remedy="Leave --zoning out."
        )
    return write_aggregates(found, Path(out), geojson=geojson)


def _check(name: str) -> None:
    if name not in PIPELINES:
        raise UsageError(
            f"{name!r} is not a pipeline that sfumato knows.",
            remedy=f"Choose from {', '.join(PIPELINES)}.",
        )
