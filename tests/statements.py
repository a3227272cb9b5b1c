"""Small manifests and folders, filled in by hand, for tests of what reads them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.io.write import write_parquet
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.events import GaussianEvent, MetricEvent, PrivacyEvent, event_to_json
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.ledger.totals import PER_METRE
from sfumato.published.manifest import GridFacts, Manifest, manifest_text
from sfumato.published.tables import long_table


def paid(epsilon: float, delta: float, method: str = "zcdp") -> dict[str, Any]:
    """One measurement that costs so much, and the rho of it."""
    event: PrivacyEvent
    if method == PER_METRE:
        event, rho, variance = MetricEvent(epsilon, "reports"), None, None
    else:
        rho = zcdp_rho(epsilon, delta)
        variance = 1 / (2 * rho)
        event = GaussianEvent(1.0, Fraction(variance), 3)
    measured = {"label": "counts", "event": event_to_json(event), "cells": 8}
    sd = None if variance is None else math.sqrt(variance)
    measured |= {"units_per_count": 1, "variance": variance, "sd": sd}
    return {"measurements": [measured], "rho": rho}


def _filled(release: str, name: str, row: tuple[str, int], files: Mapping[str, str]) -> Manifest:
    spent = {"releases": 1, "rho": 0.0027, "epsilon": 0.3, "delta": 2e-6, "method": "zcdp"}
    places = {"kind": "towers", "count": 2, "sha256": "a" * 64}
    return Manifest.model_validate(
        {
            "kind": "density",
            "tainted": False,
            "release": {
                "id": release,
                "name": name,
                "dataset": "city",
                "reserved_at": "2024-03-04T00:00:00+00:00",
            },
            "privacy": {
                "unit": "user-period",
                "neighbours": "adding or removing one user's whole record in the period",
                "bound": "Each person counts for at most 3.",
                "counting": "visits",
                **paid(0.3, 2e-6),
                "epsilon": 0.3,
                "delta": 2e-6,
                "method": "zcdp",
                "cumulative": {
                    "datasets": ["city"],
                    "lifetime": spent,
                    "worst_period": spent,
                    "worst_period_is": None,
                    "caps": ["epsilon 2 at delta 2e-06"],
                },
            },
            "counted": places,
            "released": places,
            "grid": {
                "start": "2024-03-04T00:00:00+01:00",
                "end": "2024-03-05T00:00:00+01:00",
                "step_seconds": 21600.0,
                "slots": 4,
                "tz": "Europe/Paris",
                "sha256": "b" * 64,
            },
            "scheme": {"name": "gaussian", "parameters": {}, "interval_coverage": 0.95},
            "public_inputs": {"expected_users": 100_000},
            "software": {"sfumato": "0.1.0"},
            "ledger": {"id": row[0], "row": row[1]},
            "files": dict(files),
            "caveats": [],
            "not_covered": ["what others publish."],
        }
    )


@pytest.fixture
def manifest() -> Manifest:
    """A manifest that stands for itself."""
    return _filled("r" * 32, "week 10", ("ledger", 4), {})


@pytest.fixture
def manifest_of() -> Callable[[Reservation, Mapping[str, str]], Manifest]:
    """The manifest of a reservation."""

    def make(reservation: Reservation, files: Mapping[str, str]) -> Manifest:
        charge = reservation.charge_row
        row = (reservation.ledger_id, charge.head.length)
        return _filled(charge.id, charge.claim.name, row, files)

    return make


def seal(folder: Path, manifest: Mapping[str, Any]) -> Path:
    """Write `manifest.json` with the digests of all files that are there.

    `manifest` holds what differs from the manifest above, by section. Another loss is that of
    another measurement, unless they are given, too.
    """
    data = _filled("r" * 32, "week 10", ("ledger", 4), {}).model_dump(mode="json")
    for name, part in manifest.items():
        data[name] = (data.get(name) or {}) | part if isinstance(part, dict) else part
    privacy = data["privacy"]
    if "measurements" not in manifest.get("privacy", {}):
        privacy |= paid(privacy["epsilon"], privacy["delta"], privacy["method"])
    data["files"] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file() and path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(manifest_text(Manifest.model_validate(data)), "utf-8")
    return folder


def write_counts(
    folder: Path, ids: list[str], grid: TimeGrid, values: np.ndarray, **manifest: Any
) -> Path:
    """A folder with a table of counts and intervals, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = {"lower": np.maximum(values - 2, 0), "upper": values + 2}
    table = long_table(np.asarray(ids), grid, values, **ends)
    write_parquet(folder / "density.parquet", table)
    return seal(folder, {"grid": GridFacts.of(grid).model_dump(), **manifest})
