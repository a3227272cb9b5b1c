"""`sfumato attack traces` writes internal files with every attack in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from sfumato.cli.attack import traces_app


def test_the_command(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(8), 120)
    seconds = np.tile(np.arange(120) * 60, 8)
    pd.DataFrame(
        {
            "uid": user,
            "datetime": pd.to_datetime("2008-11-01") + pd.to_timedelta(seconds, "s"),
            "lat": 39.9 + 0.02 * user / 8 + rng.normal(0, 1e-4, user.size).cumsum() * 0.1,
            "lng": 116.3 + 0.03 * (user % 3),
        }
    ).to_parquet(tmp_path / "traces.parquet")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        traces_app, [str(tmp_path / "traces.parquet"), "--out", str(out), "--tz", "UTC"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads((out / "traces-attack.internal.json").read_text())
    errors = {name: row["mean"] for name, row in found["position_error_m"].items()}
    assert 80 < errors["independent noise, as published"] < 120
    assert errors["plain average of 9 reports"] < 60
    assert found["stationary_error_m"]["1000"] < 3
    assert set(found["linkage"]) == {"no noise", "independent", "windows"}
    page = (out / "traces-attack.internal.html").read_text()
    assert "INTERNAL" in page
    assert (out / "traces-attack.internal.html").stat().st_mode & 0o077 == 0
