"""`Release`: a published density, read back from its folder in whatever form is wanted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import InputError, UsageError
from sfumato.published.manifest import MANIFEST_NAME, Manifest, read_manifest
from sfumato.published.statement import statement

if TYPE_CHECKING:
    import geopandas
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Release:
    """A published density: where it is, its privacy statement, and how this run ended.

    `how` is `new`, `resumed` (an interrupted run was finished), `already` (nothing was done) or
    `read` (found in its folder).
    """

    folder: Path
    manifest: Manifest
    how: str

    def table(self) -> pa.Table:
        """zone_id, time_start, time_end, count, lower, upper."""
        return pq.read_table(self.folder / "density.parquet")

    def statement(self) -> str:
        """The privacy statement in plain words."""
        return statement(self.manifest)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame; times carry the release's zone."""
        frame: pd.DataFrame = self.table().to_pandas()
        return frame

    def to_geopandas(self) -> geopandas.GeoDataFrame:
        """The table with the shape of each row's zone (WGS84). Towers that moved have none."""
        import geopandas

        kind = self.manifest.released.kind
        places = geopandas.read_parquet(self.folder / f"{kind}.parquet")
        places = places.rename(columns={"tower_id": "zone_id"})
        once = places[~places["zone_id"].duplicated(keep=False)]
        joined = self.to_pandas().merge(once, on="zone_id", how="left")
        return geopandas.GeoDataFrame(joined, geometry="geometry", crs=places.crs)

    def to_xarray(self) -> Any:
        """A dataset of count, lower and upper over zone_id and time_start (UTC)."""
        try:
            import xarray
        except ImportError:
            raise UsageError(
                "xarray is not installed.", remedy="Install it with pip install xarray."
            ) from None
        frame = self.to_pandas()
        slots = self.manifest.grid.slots
        # xarray keeps no zones: the coordinate is the instant in UTC, the attribute says whose.
        times = frame["time_start"].iloc[:slots].dt.tz_convert("UTC").dt.tz_localize(None)
        return xarray.Dataset(
            {
                name: (("zone_id", "time_start"), frame[name].to_numpy().reshape(-1, slots))
                for name in ("count", "lower", "upper")
            },
            coords={"zone_id": frame["zone_id"].to_numpy()[::slots], "time_start": times},
            attrs={"tz": self.manifest.grid.tz, "epsilon": self.manifest.privacy.epsilon},
        )

    def plot(
        self, kind: str = "map", *, slot: int | None = None, zone: str | None = None
    ) -> Figure:
        """A matplotlib figure: `map` of a slot, `series` of a zone, `strip` of everything."""
        from sfumato.report.figures import plot

        return plot(self.folder, kind, slot=slot, zone=zone)


def read_release(folder: str | os.PathLike[str]) -> Release:
    """A release that somebody made, from its folder."""
    path = Path(folder)
    try:
        return Release(path, read_manifest(path / MANIFEST_NAME), "read")
    except (OSError, ValueError):
        raise InputError(
            "This is not a release folder, or it is damaged.",
            file=str(path),
            remedy="Name the folder that sfumato release made.",
        ) from None
