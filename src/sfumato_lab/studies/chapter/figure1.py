"""Figure 1: Never Walk Alone on the road network of Oldenburg, before and after, with numbers.

The chapter shows two maps of 1,000 trajectories of Brinkhoff's generator and calls the second one
"quite imprecise". The generator's own trips are not published with it, so they are made here on
the same network, and everything that is chosen is stated:

* coordinates of the file times 1.5 m; the largest connected part of the network;
* a trip goes from a random junction to another one at least 2 km away by road, on the shortest
  path, at a speed of its own drawn evenly from 20 to 60 km/h;
* it begins at a multiple of five minutes in a half hour, is recorded once a minute, and is cut to
  a multiple of five minutes: trips with one beginning and one end are an equivalence class, as the
  method wants (its pi is five minutes). Trips shorter than that are drawn again;
* k = 3, a tube of 2,000 m, trash of at most a tenth of a class; classes below k are trash.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from sfumato.attacks.report import canvas
from sfumato.errors import InputError
from sfumato_lab.studies.queries.page import Grid, Picture, Section, save_figure
from sfumato_lab.syntactic.never_walk_alone import cluster_paths, translate

METRES_A_UNIT = 1.5
LEAST_M, KM_H = 2_000.0, (20.0, 60.0)
EVERY_MIN, BEGINS = 5, 6
CELL_M, FAR_M = 500.0, 500.0
PICTURE = "chapter-figure1.internal.png"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Roads:
    """Junctions in metres and the lengths of roads between them."""

    at: Floats
    lengths: csr_array


def read_roads(folder: Path) -> Roads:
    """`nodes.csv` and `edges.csv`; the largest part that hangs together.

    Raises:
        InputError: There is no road network, or it is not of the form.
    """
    try:
        with (folder / "nodes.csv").open(newline="") as file:
            nodes = {
                row["node_id"]: (float(row["x"]), float(row["y"])) for row in csv.DictReader(file)
            }
        number = {name: n for n, name in enumerate(nodes)}
        with (folder / "edges.csv").open(newline="") as file:
            rows = [
                (number[row["from_node"]], number[row["to_node"]], float(row["length"]))
                for row in csv.DictReader(file)
            ]
    except (OSError, KeyError, ValueError):
        raise InputError(
            "there is no road network of junctions and roads.",
            file=str(folder),
            remedy="Give `data`, a folder with oldenburg/nodes.csv and edges.csv.",
        ) from None
    one, other, length = (np.array(column) for column in zip(*rows, strict=True))
    at = METRES_A_UNIT * np.array(list(nodes.values()))
    many = len(at)
    # Roads go both ways; of two between the same junctions the shorter counts.
    key = np.unique(np.column_stack((np.minimum(one, other), np.maximum(one, other))), axis=0)
    shortest: dict[tuple[int, int], float] = {}
    for a, b, metres in zip(one.tolist(), other.tolist(), length.tolist(), strict=True):
        pair = (min(a, b), max(a, b))
        shortest[pair] = min(METRES_A_UNIT * metres, shortest.get(pair, np.inf))
    metres = np.array([shortest[pair] for pair in map(tuple, key.tolist())])
    graph = csr_array((metres, (key[:, 0], key[:, 1])), shape=(many, many))
    graph = csr_array(graph + graph.T)
    label = connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(label == np.argmax(np.bincount(label)))
    return Roads(at[kept], csr_array(graph[kept][:, kept]))


@dataclass(frozen=True, slots=True, eq=False)
class Trips:
    """Trip i is at `at[i][:minutes[i] + 1]`, one point a minute from `begin[i]` on."""

    at: list[Floats]
    begin: NDArray[np.int64]


def make_trips(roads: Roads, many: int, seed: int) -> Trips:
    """Shortest paths at stated speeds and times."""
    rng = np.random.default_rng([seed, 0x01D])
    at: list[Floats] = []
    begin = []
    while len(at) < many:
        start = int(rng.integers(len(roads.at)))
        metres, before = dijkstra(
            roads.lengths, directed=False, indices=[start], return_predecessors=True
        )
        metres, before = metres[0], before[0]
        far = np.flatnonzero(np.isfinite(metres) & (metres >= LEAST_M))
        if not far.size:
            continue
        end, way = int(rng.choice(far)), []
        while end != start:
            way.append(end)
            end = int(before[end])
        way = [start, *way[::-1]]
        speed = rng.uniform(*KM_H) * 1_000 / 60
        minutes = int(metres[way[-1]] / speed) // EVERY_MIN * EVERY_MIN
        if minutes < EVERY_MIN:
            continue
        along = np.arange(minutes + 1) * speed
        at.append(
            np.column_stack([np.interp(along, metres[way], roads.at[way, axis]) for axis in (0, 1)])
        )
        begin.append(EVERY_MIN * int(rng.integers(BEGINS)))
    return Trips(at, np.array(begin, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """Trips after Never Walk Alone; None where one is in the trash."""

    trips: Trips
    after: list[Floats | None]

    @property
    def trash(self) -> float:
        """Share of trips that are left out."""
        return sum(one is None for one in self.after) / len(self.after)

    def moved(self) -> Floats:
        """How far every published point is from where it was."""
        pairs = zip(self.trips.at, self.after, strict=True)
        return np.concatenate([np.hypot(*(b - a).T) for a, b in pairs if b is not None])

    def density_error(self) -> tuple[float, float, float]:
        """Of points by 500 m square: half the L1 distance of shares, the MRE and what is lost.

        The MRE is of squares with ten points or more before, or of the busiest where there are
        none.
        """
        before, after = (self._squares(points) for points in (self.trips.at, self.after))
        keys = sorted(before | after)
        a = np.array([before.get(key, 0) for key in keys], float)
        b = np.array([after.get(key, 0) for key in keys], float)
        busy = a >= min(10, a.max())
        apart = 0.5 * np.abs(a / a.sum() - b / b.sum()).sum()
        lost = float((b[busy] == 0).mean())
        return float(apart), float((np.abs(b - a)[busy] / a[busy]).mean()), lost

    @staticmethod
    def _squares(points: Sequence[Floats | None]) -> dict[tuple[int, int], int]:
        whole = np.concatenate([one for one in points if one is not None])
        squares, many = np.unique((whole // CELL_M).astype(np.int64), axis=0, return_counts=True)
        return {(int(x), int(y)): int(n) for (x, y), n in zip(squares, many, strict=True)}


def walk(trips: Trips, k: int, delta_m: float, seed: int) -> Walked:
    """Cluster and translate every equivalence class."""
    minutes = np.array([len(one) for one in trips.at])
    after: list[Floats | None] = [None] * len(trips.at)
    for begin, length in sorted(set(zip(trips.begin.tolist(), minutes.tolist(), strict=True))):
        mine = np.flatnonzero((trips.begin == begin) & (minutes == length))
        if mine.size < k:
            continue
        at = np.stack([trips.at[n] for n in mine]).astype(np.float32)
        found = cluster_paths(at, k, block=max(4096, 2 * k), seed=seed)
        moved, _ = translate(at, found.cluster, found.clusters, delta_m)
        for row, n in enumerate(mine[found.cluster >= 0]):
            after[n] = moved[row].astype(np.float64)
    return Walked(trips, after)


def figure_section(rows: Sequence[tuple[int, float, Walked]], picture: bool) -> Section:
    """Numbers where the chapter has a picture."""
    body = []
    for k, delta, found in rows:
        moved = found.moved()
        apart, mre, lost = found.density_error()
        body.append(
            [
                *(str(k), f"{delta:,.0f} m", f"{found.trash:.1%}", f"{moved.mean():,.0f} m"),
                *(f"{(moved > FAR_M).mean():.1%}", f"{apart:.3f}", f"{mre:.2f}", f"{lost:.1%}"),
            ]
        )
    many, points = len(rows[0][2].trips.at), sum(map(len, rows[0][2].trips.at))
    blocks: list[str | Grid | Picture] = [
        f"{many:,} made trips on Oldenburg's roads, {points:,} points: shortest paths of 2 km or "
        "more, 20 to 60 km/h, beginning at a multiple of five minutes within half an hour, a "
        "point a minute.",
        Grid(
            "Never Walk Alone: density of points by squares of 500 m, before and after",
            [
                *("k", "tube", "in the trash", "mean move", "points moved > 500 m"),
                *("half L1 of shares", "MRE of busy squares", "busy squares emptied"),
            ],
            body,
        ),
    ]
    if picture:
        blocks.append(
            Picture(PICTURE, "Figure 1: the trips (left), and with k = 3 within 2,000 m (right)")
        )
    return Section("Figure 1: Never Walk Alone", blocks)


def draw_figure(found: Walked, path: Path) -> None:
    """The two maps."""
    from matplotlib.collections import LineCollection

    figure = canvas((10.0, 5.6))
    sides = figure.subplots(1, 2, sharex=True, sharey=True)
    kept = [one for one in found.after if one is not None]
    for axes, lines, name in (
        (sides[0], found.trips.at, f"original, {len(found.trips.at):,} trips"),
        (sides[1], kept, f"Never Walk Alone, k = 3, {len(kept):,} trips"),
    ):
        axes.add_collection(LineCollection(lines, colors="#1d4ed8", linewidths=0.35, alpha=0.5))
        axes.set_title(name, fontsize=10)
        axes.set_aspect("equal")
        axes.autoscale()
        axes.set_xlabel("metres")
    save_figure(figure, path)
