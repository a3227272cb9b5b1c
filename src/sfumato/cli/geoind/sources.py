"""Data of the study: a Geolife folder, San Francisco cabs, phones of São Paulo."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.attacks.traces.interpolate import resample
from sfumato.model.errors import UsageError
from sfumato.traces.formats.geolife import duplicated_tracks, plt_files, read_geolife
from sfumato.traces.formats.table import read_table
from sfumato.traces.model import Traces
from sfumato.traces.outside import Box

BEIJING = Box(116.25, 39.85, 116.5, 40.05)
SAN_FRANCISCO = Box(-122.52, 37.70, -122.36, 37.82)
SAO_PAULO = Box(-46.76, -23.64, -46.60, -23.50)
PERIOD = ("2008-11-01", "2009-01-01")

_CABS = "cabspotting_sf/cabspotting_sf_2008.parquet"
_PHONES = "saopaulo_gps/saopaulo_emission_2017.parquet"
_MONDAY_S = 1_211_180_400  # 2008-05-19 00:00 in San Francisco
_SPREADING_S = _MONDAY_S + 9 * 86_400 + 8 * 3600  # Wednesday of the week after, 08:00
_SPREADING_LENGTH_S = 3600
_GROUPS = 5
_GAP_S = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Traces of one data set, what is compared with the paper, and remarks for the page."""

    name: str
    traces: Traces
    box: Box
    groups: tuple[Traces, ...]
    """Sets of users among whom a message spreads; their results are averaged."""
    notes: tuple[str, ...] = field(default=())
    is_geolife: bool = False


def sources(folder: Path) -> list[Source]:
    """Whatever the folder holds of the three."""
    found = []
    if (folder / _CABS).is_file():
        found.append(_cabs(folder / _CABS))
    if (folder / _PHONES).is_file():
        found.append(_phones(folder / _PHONES))
    if not found and plt_files(folder):
        found.append(_geolife(folder))
    if not found:
        raise UsageError(
            f"{folder} holds no Geolife trajectories (.plt), no {_CABS} and no {_PHONES}.",
            remedy="Give the folder of your copy of Geolife, or of the public data sets.",
        )
    return found


def compact(traces: Traces) -> Traces:
    """Users numbered from zero without gaps, so that rates are over those who are there."""
    users, code = np.unique(traces.user, return_inverse=True)
    columns = (code.astype(np.int64), traces.trip, traces.time, traces.lon, traces.lat, traces.row)
    return Traces(traces.names[users], *columns)


def _geolife(folder: Path) -> Source:
    whole, _, files = read_geolife(folder, period=PERIOD)
    inside = compact(whole.within(*BEIJING.bounds))
    if len(inside) == 0:
        raise UsageError("No trajectory crosses central Beijing in November and December 2008.")
    twice = duplicated_tracks(folder)
    notes = [
        f"{inside.names.size} users, {inside.starts.size - 1} trajectories, {len(inside):,} fixes "
        f"from {files} files; the paper has 39, 2,075 and over 2 million."
    ]
    if twice:
        notes.append(
            f"{len(twice)} tracks are in the folder under two user ids "
            f"({sum(len(group) for group in twice)} files): the same person counts twice."
        )
    return Source("Geolife", inside, BEIJING, (inside,), tuple(notes), True)


def _cabs(path: Path) -> Source:
    day = _read_cabs(path, _MONDAY_S, _MONDAY_S + 86_400)
    inside = compact(day.within(*SAN_FRANCISCO.bounds))
    hour = compact(_read_cabs(path, _SPREADING_S, _SPREADING_S + _SPREADING_LENGTH_S))
    groups = tuple(
        compact(resample(hour.pick(hour.user % _GROUPS == number), 5.0))
        for number in range(_GROUPS)
    )
    notes = (
        f"{inside.names.size} cabs on Monday 19 May 2008, {len(inside):,} fixes in the box, one a "
        "minute.",
        f"Spreading: {hour.names.size} cabs on Wednesday 28 May, 8 to 9 o'clock, in {_GROUPS} "
        "groups, drawn in between fixes every 5 seconds because Geolife is sampled so densely. "
        "Hour and size of the groups were chosen on Monday 19 May and without noise, so that a "
        "message reaches about as many as in the paper: in a day all cabs meet and nothing can "
        "rise. On the raw fixes, one a minute, noise only lowers the reach: few are left within "
        "50 m of each other.",
    )
    return Source("Cabspotting", inside, SAN_FRANCISCO, groups, notes)


def _read_cabs(path: Path, start_s: int, end_s: int) -> Traces:
    table = pq.read_table(path, columns=["cab", "t_utc_s", "lon_e5", "lat_e5"])
    time = pc.field("t_utc_s")
    return read_table(table.filter((time >= start_s) & (time < end_s)), gap_s=_GAP_S)[0]


def _phones(path: Path) -> Source:
    table = pq.read_table(path)
    table = table.filter(pc.field("accuracy") <= 50.0).drop_columns(["accuracy"])
    traces, _ = read_table(table, tz="UTC", gap_s=_GAP_S)
    inside = compact(traces.within(*SAO_PAULO.bounds))
    notes = (f"{inside.names.size} phones, {len(inside):,} fixes with an accuracy of 50 m.",)
    return Source("São Paulo", inside, SAO_PAULO, (compact(resample(inside, 5.0)),), notes)
