"""The two uses and the attack, over a range of noise. Seeds are fixed: this is a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.heat_maps import SIDE_M, halves, link
from sfumato.attacks.traces.interpolate import interpolate
from sfumato.cli.geoind.sources import Source
from sfumato.privacy.noise import SeededStream
from sfumato.traces.cells import Cells
from sfumato.traces.level import Strength
from sfumato.traces.mechanisms.independent import independent
from sfumato.traces.mechanisms.windows import on_printed_clock
from sfumato.traces.model import Traces
from sfumato.utility.contacts import find_contacts
from sfumato.utility.gossip import gossip
from sfumato.utility.hotspots import top_k_score
from sfumato.utility.ibu import (
    Channel,
    Observation,
    early_steps,
    iterative_bayesian_update,
    margin_for,
)

NOISES = (50.0, 100.0, 250.0, 500.0, 750.0, 1000.0)
WINDOWS_MIN = (2, 5, 10)
UPDATE_STEPS = 50
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HotspotRow:
    """Scores of one noise, as shares of the clean traffic."""

    noise_m: float
    plain: float
    plain_low: float
    plain_high: float
    updated: float
    """After fifty steps, as printed."""
    stopped_early: float
    """After as many steps as `early_steps` says."""
    overlap: float
    last_change: float


@dataclass(frozen=True, slots=True, eq=False)
class Hotspots:
    cells: int
    hotspots: int
    rows: tuple[HotspotRow, ...]
    maps: dict[float, tuple[NDArray[np.float64], NDArray[np.float64]]]

    def to_json(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"cells": self.cells, "hotspots": self.hotspots, "rows": rows}


def hotspots(source: Source, noises: tuple[float, ...], seed: int, say: Say) -> Hotspots:
    """Figures 3 and 4: placement from reports with independent noise, and after the update."""
    cells = Cells.over(source.box)
    clean = cells.count(source.traces.lon, source.traces.lat)
    rows, maps = [], {}
    for noise in noises:
        say(f"{source.name}: hot spots at {noise:g} m")
        strength = Strength.from_noise(noise)
        noisy = independent(source.traces, strength, SeededStream(seed).child(f"{noise:g}"))
        margin = margin_for(cells, strength)
        channel = Channel.planar_laplace(cells, strength, margin)
        seen = Observation(channel, cells.count(noisy.lon, noisy.lat, margin))
        early = iterative_bayesian_update(seen, steps=early_steps(cells, strength))
        found = early
        if early.steps < UPDATE_STEPS:
            found = iterative_bayesian_update(seen, steps=UPDATE_STEPS - early.steps, start=early.p)
        before = cells.count(noisy.lon, noisy.lat)
        score, after = top_k_score(clean, before), top_k_score(clean, found.p)
        maps[noise] = before, found.p
        rows.append(
            HotspotRow(
                noise,
                score.traffic,
                score.lowest,
                score.highest,
                after.traffic,
                top_k_score(clean, early.p).traffic,
                score.cell_overlap,
                found.last_change,
            )
        )
    return Hotspots(cells.size, int((clean > 0).sum()), tuple(rows), maps)


@dataclass(frozen=True, slots=True)
class Spreading:
    """Figure 5: mean infection rate without noise, and by mechanism and noise."""

    baseline: float
    noises: tuple[float, ...]
    rates: dict[str, tuple[float, ...]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def infection(groups: tuple[Traces, ...], change: Callable[[Traces, int], Traces]) -> float:
    """Mean over groups of the exact mean over sources."""
    rates = [
        gossip(find_contacts(change(group, number))).infection_rate()
        for number, group in enumerate(groups)
    ]
    return float(np.mean(rates))


def spreading(
    groups: tuple[Traces, ...], noises: tuple[float, ...], seed: int, draws: int, say: Say
) -> Spreading:
    """Independent noise, and windows of 2, 5 and 10 minutes with geodesic interpolation."""
    baseline = infection(groups, lambda traces, _: traces)
    rates: dict[str, list[float]] = {"independent": []}
    rates |= {f"{minutes} min": [] for minutes in WINDOWS_MIN}
    for noise in noises:
        say(f"spreading at {noise:g} m")
        strength = Strength.from_noise(noise)
        for name, found in rates.items():
            total = []
            for draw in range(draws):
                root = SeededStream(seed).child(f"{name}/{noise:g}/{draw}")

                def change(
                    traces: Traces,
                    number: int,
                    name: str = name,
                    root: SeededStream = root,
                    strength: Strength = strength,
                ) -> Traces:
                    stream = root.child(str(number))
                    if name == "independent":
                        return independent(traces, strength, stream)
                    window = int(name.split()[0]) * 60
                    return interpolate(on_printed_clock(traces, window, strength, stream), window)

                total.append(infection(groups, change))
            found.append(float(np.mean(total)))
    return Spreading(baseline, noises, {name: tuple(found) for name, found in rates.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Linking:
    """Who is recognised at 100 m of noise by heat maps, the cheap baseline of Figure 6."""

    rates: dict[str, float]
    chance: float
    confusion: dict[str, NDArray[np.int64]]

    def to_json(self) -> dict[str, Any]:
        return {"rates": self.rates, "chance": self.chance}


def linking(source: Source, seed: int, noise: float = 100.0, window_s: int = 300) -> Linking:
    """Heat-map linkage of the second half of the period to the first."""
    known, attacked = halves(source.traces)
    cells = Cells.over(source.box, SIDE_M)
    strength = Strength.from_noise(noise)
    stream = SeededStream(seed).child("linking")
    forms = {
        "no noise": attacked,
        "independent": independent(attacked, strength, stream.child("independent")),
        "5 min": on_printed_clock(attacked, window_s, strength, stream.child("windows")),
    }
    rates, confusion, chance = {}, {}, 0.0
    users = source.traces.names.size
    for name, traces in forms.items():
        found = link(known, traces, cells)
        table = np.zeros((users, users), np.int64)
        np.add.at(table, (found.targets, np.maximum(found.linked_to, 0)), 1)
        rates[name], confusion[name], chance = found.rate, table, found.chance
    return Linking(rates, chance, confusion)
