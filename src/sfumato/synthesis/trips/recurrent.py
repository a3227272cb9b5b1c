"""`recurrent`: a small recurrent network, trained under differential privacy (DP-SGD).

The outlook of the chapter (Acs, Biczok & Castelluccia 2018, section 5), and the baseline that
everybody asks for. At the sizes of one city it is expected to lose to `fit`; what it reaches is in
docs/synthesis-study.md.

A trip is a first cell of a public grid over the public region, a class of hour and speed, and
moves to one of eight neighbours until it ends. A gated recurrent unit (Cho et al. 2014) reads waves
of the cell's public coordinates and the last move, and gives the chances of the next move; moves
out of the grid have none. First cells and clock are tables of chances. The vocabulary is public:
grid, moves, classes.

*Claim.* Unit: one person's whole record in the period, however many trips. Neighbours: adding or
removing one person. Sensitivity and cost: `privacy.mechanisms.training`. A person's gradient is
summed over the first `trips` trips in time (a public bound that keeps the work in bounds; privacy
does not need it) and clipped as a whole. One (epsilon, delta) event, taken off a cap before
anything else. Learning curves are not kept: whoever wants to see some trains on made-up people.

Its own network of two hundred lines and no torch: a person's gradient, summed over the person's
trips, comes out of the compiled pass as it is needed, the noise is exact, and a run that was killed
finds the same bytes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.traces import Box, Traces, run_starts
from sfumato.privacy.accounting import sampled_sigma
from sfumato.privacy.mechanisms.training import UNITS, Run
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    TripTables,
    people_stream,
)
from sfumato.synthesis.trips.blocks import UNITS as LATTICE
from sfumato.synthesis.trips.blocks import Block, Layout, Paths
from sfumato.synthesis.trips.trajectories import (
    CLOCK,
    HOURS,
    SPEEDS_KMH,
    Timed,
    box_of,
    by_hour,
    chunks_of,
    clock_of,
    expected,
    layout_tables,
    timed_trips,
)
from sfumato.traces.bounds import TraceSource
from sfumato.utility.trips import Trips, cells_along

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LABEL, TABLES = "network", "tables"
SHOWN = Layout((Block("visits", 16, 0.4), Block("pair", 6, 0.4), Block("shape", 1, 0.2)), 1.0)
"""What a page counts of made-up trips; of true ones no table is measured."""
SIDE = 12
UNITS_HIDDEN = 24
CLASSES = HOURS * (len(SPEEDS_KMH) + 1)
WAVES = (1, 2, 4, 8)
FEATURES = 4 * len(WAVES) + 1
MOVES = np.array([(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)])
END = 8
LONGEST = 60
"""Moves of a trip that are learned from, and that a made-up trip has at most."""
CHANCE, STEPS = 0.03, 400
RATE, DECAY = 0.1, (0.9, 0.99)
"""Twelve passes; Adam (Kingma & Ba 2015), its rate falling to a tenth. Of nine settings (chances of
.02 to .15, rates of .01 to .1) the best or near it in six of eleven figures on 20,000 trips between
four made-up centres at epsilon 1; a rate of .01 doubled the density's divergence."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """People, their trips, and the cells of these: private."""

    trips: Ints
    """Where each person's trips begin, and their number."""
    begins: Ints
    """Where each trip's cells begin, and their number."""
    cells: Ints
    clock: Ints
    """Class of each trip."""


def sequences(traces: Traces, box: Box, begin: int, side: int, most: int) -> Sequences:
    """Cells of the first `most` trips of each person, in the box; people without any are none."""
    kept = traces.pick(box.inside(traces.lon, traces.lat))
    timed = timed_trips(traces, box, begin)
    starts = run_starts(kept.user, kept.trip)
    user, first = kept.user[starts[:-1]], kept.time[starts[:-1]]
    order = np.lexsort((first, user))
    people = run_starts(user[order])
    rank = np.arange(order.size) - np.repeat(people[:-1], np.diff(people))
    order = order[rank < most]
    if order.size == 0:
        none = np.empty(0, np.int64)
        return Sequences(np.zeros(1, np.int64), np.zeros(1, np.int64), none, none)
    paths = timed.paths.pick(order)
    cells, begins = cells_along(Trips(paths.x, paths.y, paths.starts), (0, 1, 0, 1), side)
    return Sequences(run_starts(user[order]), begins, cells, timed.clock[order])


def waves(side: int) -> Floats:
    """Public features of every cell: a constant, and waves of its coordinates."""
    x, y = (np.indices((side, side)).reshape(2, -1) + 0.5) / side
    parts = [np.ones(side * side)]
    for wave in WAVES:
        for at in (x, y):
            parts += [np.sin(np.pi * wave * at), np.cos(np.pi * wave * at)]
    return np.stack(parts, axis=1)


def after_move(side: int) -> Ints:
    """Cell x move: the next cell, -1 outside."""
    x, y = np.indices((side, side)).reshape(2, -1)
    to = np.stack([x, y], axis=1)[:, None, :] + MOVES[None, :, :]
    inside = ((to >= 0) & (to < side)).all(axis=2)
    return np.where(inside, to[..., 0] * side + to[..., 1], -1)


@compiled
def _softmax(logits: Floats, out: Floats) -> None:
    top = logits.max()
    total = 0.0
    for k in range(logits.size):
        out[k] = np.exp(logits[k] - top)
        total += out[k]
    for k in range(logits.size):
        out[k] /= total


@compiled
def _gates(
    f: Floats, m: int, h: Floats, W: Floats, M: Floats, U: Floats,
    z: Floats, r: Floats, u: Floats, n: Floats,
) -> None:  # fmt: skip
    """Update gate, reset gate, the candidate's recurrent part, candidate."""
    size = h.size
    for k in range(size):
        a, b, c, d = M[k, m], M[size + k, m], M[2 * size + k, m], 0.0
        for j in range(f.size):
            a += W[k, j] * f[j]
            b += W[size + k, j] * f[j]
            c += W[2 * size + k, j] * f[j]
        for j in range(size):
            a += U[k, j] * h[j]
            b += U[size + k, j] * h[j]
            d += U[2 * size + k, j] * h[j]
        z[k], r[k], u[k] = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b)), d
        n[k] = np.tanh(c + r[k] * d)


@compiled
def _gradients(
    rows: Ints, trips: Ints, begins: Ints, cells: Ints, clock: Ints, feature: Floats, after: Ints,
    at: Floats, ends: Ints, size: int, longest: int, out: Floats,
) -> None:  # fmt: skip
    """Each person's gradient of minus the log likelihood of the person's trips."""
    F = feature.shape[1]
    start, times = at[: ends[0]], at[ends[0] : ends[1]]
    W = at[ends[1] : ends[2]].reshape(3 * size, F)
    M = at[ends[2] : ends[3]].reshape(3 * size, 9)
    U = at[ends[3] : ends[4]].reshape(3 * size, size)
    V = at[ends[4] : ends[5]].reshape(9, size)
    bias = at[ends[5] : ends[6]]
    first, hours = np.empty(start.size), np.empty(times.size)
    _softmax(start, first)
    _softmax(times, hours)
    h = np.zeros((longest + 1, size))
    z, r, u, n = (
        np.empty((longest, size)),
        np.empty((longest, size)),
        np.empty((longest, size)),
        np.empty((longest, size)),
    )
    error, logits = np.empty((longest, 9)), np.empty(9)
    moves = np.empty(longest + 1, np.int64)
    back, before = np.empty(size), np.empty(size)
    da, db, dc, dd = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for row in range(rows.size):
        grad = out[row]
        gW = grad[ends[1] : ends[2]].reshape(3 * size, F)
        gM = grad[ends[2] : ends[3]].reshape(3 * size, 9)
        gU = grad[ends[3] : ends[4]].reshape(3 * size, size)
        gV = grad[ends[4] : ends[5]].reshape(9, size)
        for trip in range(trips[rows[row]], trips[rows[row] + 1]):
            low, high = begins[trip], begins[trip + 1]
            for k in range(start.size):
                grad[k] += first[k]
            grad[cells[low]] -= 1
            for k in range(times.size):
                grad[ends[0] + k] += hours[k]
            grad[ends[0] + clock[trip]] -= 1
            steps = min(high - low, longest)
            moves[0] = 8
            for t in range(steps):
                cell = cells[low + t]
                _gates(feature[cell], moves[t], h[t], W, M, U, z[t], r[t], u[t], n[t])
                for k in range(size):
                    h[t + 1, k] = (1 - z[t, k]) * n[t, k] + z[t, k] * h[t, k]
                wanted = 8
                for k in range(9):
                    logits[k] = bias[k]
                    for j in range(size):
                        logits[k] += V[k, j] * h[t + 1, j]
                    if k < 8:
                        if after[cell, k] < 0:
                            logits[k] = -1e30
                        elif low + t + 1 < high and after[cell, k] == cells[low + t + 1]:
                            wanted = k
                moves[t + 1] = wanted
                _softmax(logits, error[t])
                error[t, wanted] -= 1
            back[:] = 0
            for t in range(steps - 1, -1, -1):
                for k in range(9):
                    grad[ends[5] + k] += error[t, k]
                    for j in range(size):
                        gV[k, j] += error[t, k] * h[t + 1, j]
                        back[j] += error[t, k] * V[k, j]
                for k in range(size):
                    zk, rk, nk = z[t, k], r[t, k], n[t, k]
                    da[k] = back[k] * (h[t, k] - nk) * zk * (1 - zk)
                    dc[k] = back[k] * (1 - zk) * (1 - nk * nk)
                    db[k] = dc[k] * u[t, k] * rk * (1 - rk)
                    dd[k] = dc[k] * rk
                    before[k] = back[k] * zk
                f, m = feature[cells[low + t]], moves[t]
                for k in range(size):
                    gM[k, m] += da[k]
                    gM[size + k, m] += db[k]
                    gM[2 * size + k, m] += dc[k]
                    for j in range(F):
                        gW[k, j] += da[k] * f[j]
                        gW[size + k, j] += db[k] * f[j]
                        gW[2 * size + k, j] += dc[k] * f[j]
                    for j in range(size):
                        gU[k, j] += da[k] * h[t, j]
                        gU[size + k, j] += db[k] * h[t, j]
                        gU[2 * size + k, j] += dd[k] * h[t, j]
                        before[j] += (
                            da[k] * U[k, j] + db[k] * U[size + k, j] + dd[k] * U[2 * size + k, j]
                        )
                for k in range(size):
                    back[k] = before[k]


class Network:
    """The network as `Wall.train` wants it; everything here but the sequences is public."""

    def __init__(self, side: int = SIDE, hidden: int = UNITS_HIDDEN, steps: int = STEPS) -> None:
        self.side, self.hidden, self._steps = side, hidden, steps
        sizes = (
            *(side * side, CLASSES, 3 * hidden * FEATURES, 3 * hidden * 9),
            *(3 * hidden * hidden, 9 * hidden, 9),
        )
        self.ends: Ints = np.cumsum(sizes)
        self.feature, self.after = waves(side), after_move(side)
        self._moments = (np.zeros(self.size), np.zeros(self.size))

    @property
    def size(self) -> int:
        return int(self.ends[-1])

    def rows(self, data: Sequences) -> int:
        return int(data.trips.size - 1)

    def begin(self) -> Floats:
        """Tables level, weights small and always the same."""
        rng = np.random.default_rng(0)
        at = rng.normal(0, 0.3 / np.sqrt(self.hidden), self.size)
        at[: self.ends[1]] = 0.0
        self._moments = (np.zeros(self.size), np.zeros(self.size))
        return at

    def gradients(self, data: Sequences, rows: Ints, at: Floats) -> Floats:
        out = np.zeros((rows.size, self.size))
        _gradients(
            rows, data.trips, data.begins, data.cells, data.clock, self.feature, self.after,
            at, self.ends, self.hidden, LONGEST, out,
        )  # fmt: skip
        return out

    def descend(self, at: Floats, gradient: Floats, step: int) -> Floats:
        """Adam."""
        mean, square = self._moments
        mean += (1 - DECAY[0]) * (gradient - mean)
        square += (1 - DECAY[1]) * (np.square(gradient) - square)
        rate = RATE * (1 - 0.9 * step / max(self._steps, 1))
        ahead = mean / (1 - DECAY[0] ** (step + 1))
        spread = np.sqrt(square / (1 - DECAY[1] ** (step + 1)))
        return np.asarray(at - rate * ahead / (spread + 1e-8))

    def parts(self, at: Floats) -> list[Floats]:
        """First cells, clock, W, M, U, V, bias."""
        h, ends = self.hidden, [0, *self.ends.tolist()]
        shapes = ((-1,), (-1,), (3 * h, -1), (3 * h, 9), (3 * h, h), (9, h), (9,))
        cut = zip(ends[:-1], ends[1:], shapes, strict=True)
        return [at[a:b].reshape(shape) for a, b, shape in cut]

    def walk(self, at: Floats, people: int, rng: np.random.Generator) -> tuple[Paths, Floats]:
        """Made-up trips in the unit square, at random points of their cells, and the clock."""
        start, times, W, M, U, V, bias = self.parts(at)
        h = self.hidden
        law = np.exp(start - start.max())
        cell = rng.choice(law.size, people, p=law / law.sum())
        state, move = np.zeros((people, h)), np.full(people, END)
        going, seen = np.ones(people, np.bool_), [cell]
        for _ in range(LONGEST):
            f = self.feature[cell] @ W.T + M[:, move].T
            u = state @ U.T
            z, r = (1 / (1 + np.exp(-(f[:, a : a + h] + u[:, a : a + h]))) for a in (0, h))
            state = (1 - z) * np.tanh(f[:, 2 * h :] + r * u[:, 2 * h :]) + z * state
            logits = state @ V.T + bias
            logits[:, :END][self.after[cell] < 0] = -np.inf
            chance = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
            drawn = rng.random(people)[:, None] * chance[:, -1:]
            move = np.minimum((chance <= drawn).sum(axis=1), END)
            going &= move != END
            if not going.any():
                break
            cell = np.where(going, self.after[cell, np.minimum(move, END - 1)], cell)
            seen.append(np.where(going, cell, -1))
        table = np.stack(seen, axis=1)
        there = table >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64)
        flat = table[there]
        x, y = ((side + rng.random(flat.size)) / self.side for side in np.divmod(flat, self.side))
        clock = np.exp(times - times.max())
        return Paths(np.asarray(x), np.asarray(y), starts), clock / clock.sum()


class Recurrent:
    """The method; see the module."""

    name: ClassVar[str] = "recurrent"
    declares: ClassVar[Declaration] = Declaration(
        reads=Reads.TRACES,
        parameters=MappingProxyType(
            {
                "side": Setting("Cells a side of the public grid", SIDE, 4, 32),
                "trips": Setting("First trips of a person that are learned from", 20, 1, 1000),
            }
        ),
        least=190.0,
        says="a recurrent network trained by noisy gradients (Abadi et al. 2016)",
    )

    def run(self, facts: SynthFacts) -> Run:
        """The training, from public facts alone."""
        public, cells = facts.public, Network(int(facts.number("side"))).size
        if not 0 < public.delta < 1:
            raise UsageError("Training by noisy gradients needs a delta.", remedy="Give `delta`.")
        sigma = sampled_sigma(CHANCE, STEPS, public.epsilon, public.delta, cells=cells, units=UNITS)
        return Run(CHANCE, STEPS, sigma, expected(facts), public.delta)

    def plan(self, facts: SynthFacts) -> Plan:
        box_of(facts)
        run, cells = self.run(facts), Network(int(facts.number("side"))).size
        words = (
            f"{STEPS} steps, each with every person by a secret coin of chance {CHANCE:g}; noise "
            f"of {run.sigma:g} on a person's gradient of length one.",
        )
        planned = PlannedMeasurement(LABEL, run.event(cells), cells, run.sigma)
        bound = "a gradient of length one in every step that the person's coin chooses"
        return Plan(self.name, (planned,), run.sigma, words, bound)

    def measure(self, source: TraceSource, wall: Wall, facts: SynthFacts) -> Noisy:
        box, period = box_of(facts), facts.public.grid.period
        side, most = int(facts.number("side")), int(facts.number("trips"))
        inside = source.bounded(lambda traces: traces.between(*period))
        data = inside.map(lambda t: sequences(t, box, period[0], side, most), "trips by person")
        return {LABEL: wall.train(data, Network(side), run=self.run(facts), label=LABEL)}

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        network = Network(int(facts.number("side")))
        rng = people_stream(facts.seed, self.name)
        paths, clock = network.walk(np.asarray(noisy[LABEL]), facts.people, rng)
        return chunks_of(paths, facts, clock, rng)

    def counted(self, made: Timed, noisy: Noisy, facts: SynthFacts) -> Noisy:
        del noisy, facts
        return {TABLES: SHOWN.tally(made.paths) / LATTICE, CLOCK: clock_of(made)}

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        del noisy
        return layout_tables(SHOWN, tables[TABLES], by_hour(tables), box_of(facts))

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        """Weights of a network are no table."""
        del noisy, facts
        return Figures()


def trained(data: Any, run: Run, wall: Wall, side: int = SIDE) -> tuple[Network, Floats]:
    """A network and its numbers, for studies on sequences of their own."""
    network = Network(side, steps=run.steps)
    return network, wall.train(data, network, run=run, label=LABEL)
