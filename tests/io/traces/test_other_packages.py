"""Frames of the real packages, where they are installed: in, sanitised or not, and out again."""

from __future__ import annotations

import geopandas as gpd
import pandas as pd
import pytest

from sfumato.io.traces import read_traces, to_frame
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.mechanisms import simulated

LON, LAT = [116.31, 116.32, 116.33], [39.91, 39.92, 39.93]
TIMES = pd.to_datetime(["2008-11-01T12:00:00Z", "2008-11-01T12:00:05Z", "2008-11-01T12:00:10Z"])


def test_trackintel_positionfixes() -> None:
    trackintel = pytest.importorskip("trackintel", reason="trackintel is not installed")
    points = gpd.points_from_xy(LON, LAT, crs="EPSG:4326")
    frame = gpd.GeoDataFrame({"user_id": [1] * 3, "tracked_at": TIMES}, geometry=points)
    fixes = trackintel.Positionfixes(frame)
    traces, _ = read_traces(fixes)
    assert traces.lon.tolist() == LON
    noisy = simulated(traces, Strength.from_noise(100.0), Wall.seeded(1), "noise")
    out = trackintel.Positionfixes(to_frame(noisy, "trackintel"))
    again, _ = read_traces(out)
    assert again.lon.tolist() == noisy.lon.tolist()
    assert again.time.tolist() == traces.time.tolist()


def test_movingpandas_trajectories() -> None:
    moving = pytest.importorskip("movingpandas", reason="movingpandas is not installed")
    points = gpd.points_from_xy(LON, LAT, crs="EPSG:4326")
    frame = gpd.GeoDataFrame(
        {"user_id": ["a"] * 3}, geometry=points, index=TIMES.tz_localize(None).rename("t")
    )
    trajectories = moving.TrajectoryCollection(frame, traj_id_col="user_id")
    traces, _ = read_traces(trajectories.to_point_gdf(), tz="UTC")
    assert traces.lon.tolist() == LON
    noisy = simulated(traces, Strength.from_noise(100.0), Wall.seeded(1), "noise")
    out = moving.TrajectoryCollection(to_frame(noisy, "movingpandas"), traj_id_col="traj_id")
    (only,) = out.trajectories
    assert only.df.geometry.x.tolist() == noisy.lon.tolist()
    again, _ = read_traces(only.df, columns={"user": "user_id"}, tz="UTC")
    assert again.lat.tolist() == noisy.lat.tolist()


def test_scikit_mobility_trajectories() -> None:
    mobility = pytest.importorskip("skmob", reason="scikit-mobility is not installed")
    frame = pd.DataFrame(
        {"uid": [1] * 3, "datetime": TIMES.tz_localize(None), "lat": LAT, "lng": LON}
    )
    traces, _ = read_traces(mobility.TrajDataFrame(frame), tz="UTC")
    assert traces.lon.tolist() == LON
    out = mobility.TrajDataFrame(to_frame(traces, "scikit-mobility"))
    assert out["lat"].tolist() == LAT
