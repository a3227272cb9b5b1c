"""Sanitised traces as the frames other packages work with, without importing those packages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sfumato.model.errors import UsageError
from sfumato.traces.model import Traces


def to_table(traces: Traces, tz: str = "UTC") -> pa.Table:
    """user, trip, time (an instant), lon, lat."""
    return pa.table(
        {
            # No fixes at all are a table of the same columns.
            "user": pa.array(
                traces.names[traces.user].tolist(), None if len(traces) else pa.string()
            ),
            "trip": pa.array(traces.trip),
            "time": pa.array(traces.time, pa.timestamp("us", tz=tz)),
            "lon": pa.array(traces.lon),
            "lat": pa.array(traces.lat),
        }
    )


def to_frame(traces: Traces, like: str) -> Any:
    """A DataFrame as `scikit-mobility`, `trackintel` or `movingpandas` expects it.

    scikit-mobility: `uid`, `datetime` (naive, UTC), `lat`, `lng`, `tid`. trackintel: points with
    `user_id`, `tracked_at` (with a zone). movingpandas: index `t` (naive, UTC), points, `traj_id`.
    """
    user = pd.array(traces.names[traces.user].tolist())
    time = pd.to_datetime(traces.time, unit="us", utc=True)
    if like == "scikit-mobility":
        return pd.DataFrame(
            {
                "uid": user,
                "datetime": time.tz_localize(None),
                "lat": traces.lat,
                "lng": traces.lon,
                "tid": traces.trip,
            }
        )
    import geopandas as gpd

    points = gpd.points_from_xy(traces.lon, traces.lat, crs="EPSG:4326")
    if like == "trackintel":
        frame = pd.DataFrame({"user_id": user, "tracked_at": time})
        made = gpd.GeoDataFrame(frame, geometry=points)
        made.index.name = "id"
        return made
    if like == "movingpandas":
        trip = np.char.add(
            np.char.add(user.astype(str).to_numpy(dtype=str), "_"), traces.trip.astype(str)
        )
        frame = pd.DataFrame(
            {"traj_id": trip, "user_id": user}, index=time.tz_localize(None).rename("t")
        )
        return gpd.GeoDataFrame(frame, geometry=points)
    raise UsageError(
        f"{like!r} is not a kind of frame.",
        remedy="Choose scikit-mobility, trackintel or movingpandas.",
    )
