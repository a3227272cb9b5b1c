"""A small manifest, filled in by hand, for tests of statements and of the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from sfumato.privacy.ledger import Reservation
from sfumato.published.manifest import Manifest


def _filled(
    release: str, name: str, head: tuple[str, int, str], files: Mapping[str, str]
) -> Manifest:
    spent = {"releases": 1, "rho": 0.0027, "epsilon": 0.3, "delta": 2e-6, "method": "zcdp"}
    places = {"kind": "towers", "count": 2, "sha256": "a" * 64}
    return Manifest.model_validate(
        {
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
                "measurements": [
                    {
                        "label": "counts",
                        "event": {"kind": "discrete-gaussian", "l2": 1.0, "sigma2": "183"},
                        "cells": 8,
                        "units_per_count": 1,
                        "variance": 183.0,
                        "sd": 13.53,
                    }
                ],
                "rho": 0.0027,
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
            "ledger": {"id": head[0], "length": head[1], "hash": head[2]},
            "files": dict(files),
            "caveats": [],
            "not_covered": ["what others publish."],
        }
    )


@pytest.fixture
def manifest() -> Manifest:
    """A manifest that stands for itself."""
    return _filled("r" * 32, "week 10", ("ledger", 4, "c" * 64), {})


@pytest.fixture
def manifest_of() -> Callable[[Reservation, Mapping[str, str]], Manifest]:
    """The manifest of a reservation."""

    def make(reservation: Reservation, files: Mapping[str, str]) -> Manifest:
        row = reservation.charge_row
        head = (reservation.ledger_id, row.head.length, row.head.hash)
        return _filled(row.id, row.claim.name, head, files)

    return make
