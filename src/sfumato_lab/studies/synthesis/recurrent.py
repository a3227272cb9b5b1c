"""A small recurrent network for trips, trained under differential privacy, on torch. INTERNAL.

The outlook of the chapter (Acs, Biczok & Castelluccia 2018, section 5), and the baseline that
everybody asks for. `sfumato synth` does not offer it: coins and noise here are those of a seeded
generator in floating point, which is good enough to compare with and not to publish.

A trip is a first cell of a public grid over the public box, a class of hour and speed, and moves to
one of eight neighbours until it ends. A gated recurrent unit (Cho et al. 2014) reads waves of the
cell's public coordinates and the last move, and gives the chances of the next move; moves out of
the grid have none. First cells and clock are tables of chances.

*Training* (DP-SGD; Abadi et al. 2016). Unit: one trip, which the study takes for a person of its
own; neighbours add or remove one. In each step a trip joins by a coin of its own, of chance q. Its
gradient is scaled to a length of at most one, so a sum over those who joined moves by at most one
in L2. The sum gets Gaussian noise of deviation sigma and is divided by the *expected* number of
trips that join, which is public. Steps, chance and the rule of descent are fixed beforehand;
nothing is tuned, stopped early or chosen by a loss on the trips. Cost: (epsilon, delta) of the
whole run, by dp-accounting for sums over Poisson samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.extras import optional
from sfumato.model.traces import Box, Traces
from sfumato.synthesis.trips.blocks import Paths
from sfumato.synthesis.trips.trajectories import HOURS, SPEEDS_KMH, timed_trips
from sfumato.utility.trips import Trips, cells_along
from sfumato_lab.studies.synthesis.ground import Ground

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WHAT = "The recurrent network"
SIDE = 12
HIDDEN = 24
CLASSES = HOURS * (len(SPEEDS_KMH) + 1)
WAVES = (1, 2, 4, 8)
MOVES = np.array([(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)])
END = len(MOVES)
LONGEST = 60
"""Moves of a trip that are learned from, and that a made-up trip has at most."""
CHANCE, STEPS = 0.03, 400
RATE, DECAY = 0.1, (0.9, 0.99)
"""Twelve passes; Adam (Kingma & Ba 2015), its rate falling to a tenth."""
_AT_ONCE = 256
"""Gradients held at a time."""
_GRID = 1e-3
"""Of privacy losses; each step's is rounded upwards to it."""


@dataclass(frozen=True, slots=True)
class Run:
    """The public plan of a training."""

    chance: float
    steps: int
    sigma: float
    expected: int
    """Trips, from public knowledge."""


@lru_cache(maxsize=64)
def sigma_for(chance: float, steps: int, epsilon: float, delta: float) -> float:
    """The deviation of the noise that keeps a whole run in (epsilon, delta)."""
    import dp_accounting  # takes a second
    from dp_accounting.pld import PLDAccountant

    def run(sigma: float) -> Any:
        step = dp_accounting.PoissonSampledDpEvent(chance, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: PLDAccountant(value_discretization_interval=_GRID),
            run,
            epsilon,
            delta,
            bracket_interval=dp_accounting.ExplicitBracketInterval(0.25, 256.0),
            tol=1e-2,
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Trips as the network reads them; row by row, nothing of one hangs on another."""

    clock: Ints
    cells: Ints
    """Trip x step: where it is; 0 behind its end."""
    before: Ints
    """The move that led there; `END` at the beginning."""
    moves: Ints
    """The move that follows, `END` at the end; -1 behind it."""

    def __len__(self) -> int:
        return int(self.clock.size)

    def pick(self, which: Ints) -> Sequences:
        """Some of the trips."""
        parts = (self.clock, self.cells, self.before, self.moves)
        return Sequences(*(part[which] for part in parts))


def sequences(traces: Traces, box: Box, begin: int, side: int = SIDE) -> Sequences:
    """The cells of every trip inside the box; `begin` is the first instant of the period."""
    timed = timed_trips(traces, box, begin)
    paths = timed.paths
    cells, begins = cells_along(Trips(paths.x, paths.y, paths.starts), (0, 1, 0, 1), side)
    return walked(cells, begins, timed.clock, side)


def walked(cells: Ints, begins: Ints, clock: Ints, side: int) -> Sequences:
    """Trips by their cells, each next to the one before; trip i begins at `begins[i]`."""
    points = np.diff(begins)
    row = np.repeat(np.arange(points.size), points)
    rank = np.arange(cells.size) - begins[row]
    code = np.full((3, 3), END)
    code[MOVES[:, 0] + 1, MOVES[:, 1] + 1] = np.arange(END)
    x, y = np.divmod(cells, side)
    move = np.full(cells.size, END)
    on = np.flatnonzero(rank + 1 < points[row])
    move[on] = code[x[on + 1] - x[on] + 1, y[on + 1] - y[on] + 1]
    width = int(min(points.max(initial=1), LONGEST))
    tables = np.zeros((points.size, width), np.int64), *np.full((2, points.size, width), -1)
    here = rank < width
    before = np.where(rank == 0, END, np.roll(move, 1))
    for table, values in zip(tables, (cells, before, move), strict=True):
        table[row[here], rank[here]] = values[here]
    return Sequences(clock, *tables)


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


class Network:
    """The model, and what is public about its grid."""

    def __init__(self, side: int = SIDE, hidden: int = HIDDEN) -> None:
        self.torch = torch = optional("torch", WHAT)
        self.side, self.hidden, self.after = side, hidden, after_move(side)
        cell = torch.from_numpy(waves(side)).float()[:, None].expand(-1, END + 1, -1)
        move = torch.eye(END + 1)[None].expand(side * side, -1, -1)
        self.known = torch.cat([cell, move], 2)
        """Cell x last move: what the unit reads."""
        shut = np.pad(np.where(self.after < 0, -1e9, 0.0), ((0, 0), (0, 1)))
        self.shut = torch.from_numpy(shut).float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.model = _model(torch, side * side, self.known.shape[2], hidden)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return sum(part.numel() for part in self.model.parameters())

    def gradients(self, trips: Sequences) -> Any:
        """Trip x number: each trip's gradient of minus its log likelihood."""
        torch, func = self.torch, self.torch.func
        width = max(int((trips.moves >= 0).sum(axis=1).max(initial=1)), 1)
        columns = (trips.cells, np.maximum(trips.before, 0), trips.moves)
        cells, before, moves = (torch.from_numpy(column[:, :width]) for column in columns)
        numbers = {name: part.detach() for name, part in self.model.named_parameters()}

        def loss(numbers: Any, *trip: Any) -> Any:
            return func.functional_call(self.model, numbers, trip)

        clock = torch.from_numpy(trips.clock)
        trip = (self.known[cells, before], self.shut[cells], moves, cells[:, 0], clock)
        each = func.vmap(func.grad(loss), in_dims=(None, 0, 0, 0, 0, 0))(numbers, *trip)
        return torch.cat([part.reshape(len(trips), -1) for part in each.values()], 1)

    def learn(self, trips: Sequences, run: Run, rng: np.random.Generator) -> None:
        """The whole training; whatever comes of it has been paid for."""
        torch = self.torch
        adam = torch.optim.Adam(self.model.parameters(), lr=RATE, betas=DECAY)
        rate = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.1, run.steps)
        for _ in range(run.steps):
            total = torch.zeros(self.size, dtype=torch.float64)
            joined = np.flatnonzero(rng.random(len(trips)) < run.chance)
            for k in range(0, joined.size, _AT_ONCE):
                part = trips.pick(joined[k : k + _AT_ONCE])
                total += clipped(self.gradients(part).double()).sum(0)
            noise = torch.from_numpy(rng.normal(0.0, run.sigma, self.size))
            mean = (total + noise) / (run.chance * run.expected)
            torch.nn.utils.vector_to_parameters(mean.float(), self.gradient())
            adam.step()
            rate.step()

    def gradient(self) -> list[Any]:
        """Where the rule of descent reads, in the order of the numbers."""
        for part in self.model.parameters():
            if part.grad is None:
                part.grad = self.torch.zeros_like(part)
        return [part.grad for part in self.model.parameters()]

    def walk(self, trips: int, rng: np.random.Generator) -> Paths:
        """Made-up trips in the unit square, at random points of their cells."""
        torch, model = self.torch, self.model

        def drawn(logits: Any) -> Ints:
            chance = np.cumsum(torch.softmax(logits.double(), 1).numpy(), axis=1)
            luck = rng.random(len(chance))[:, None] * chance[:, -1:]
            which = np.minimum((chance <= luck).sum(axis=1), chance.shape[1] - 1)
            return np.asarray(which, np.int64)

        with torch.no_grad():
            cell = drawn(model.start[None].expand(trips, -1))
            move, state = np.full(trips, END), torch.zeros(trips, self.hidden)
            going, seen = np.ones(trips, np.bool_), [cell]
            for _ in range(LONGEST):
                state = model.unit(self.known[cell, move], state)
                move = drawn(model.move(state) + self.shut[cell])
                going &= move != END
                if not going.any():
                    break
                cell = np.where(going, self.after[cell, np.minimum(move, END - 1)], cell)
                seen.append(np.where(going, cell, -1))
        table = np.stack(seen, axis=1)
        there = table >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64)
        flat = table[there]
        x, y = ((part + rng.random(flat.size)) / self.side for part in np.divmod(flat, self.side))
        return Paths(np.asarray(x), np.asarray(y), starts)


def clipped(gradients: Any) -> Any:
    """Rows of a length of at most one; one that is not finite counts as nothing."""
    length = gradients.norm(dim=1, keepdim=True)
    return (gradients / length.clamp(min=1.0)).where(length.isfinite(), 0.0)


def _model(torch: Any, cells: int, reads: int, hidden: int) -> Any:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.start = torch.nn.Parameter(torch.zeros(cells))
            self.times = torch.nn.Parameter(torch.zeros(CLASSES))
            self.unit = torch.nn.GRUCell(reads, hidden)
            self.move = torch.nn.Linear(hidden, END + 1)

        def forward(self, known: Any, shut: Any, moves: Any, first: Any, clock: Any) -> Any:
            """Minus the log likelihood of one trip."""
            entropy = torch.nn.functional.cross_entropy
            state, states = known.new_zeros(hidden), []
            for read in known:
                state = self.unit(read, state)
                states.append(state)
            logits = self.move(torch.stack(states)) + shut
            path = entropy(logits, moves, ignore_index=-1, reduction="sum")
            return path + entropy(self.start, first) + entropy(self.times, clock)

    return Model()


def made_trips(
    at: Ground, expected: int, budget: tuple[float, float], seed: int
) -> list[NDArray[Any]]:
    """Person, longitude and latitude of records of `expected` made-up trips, a person each."""
    network, rng, box = Network(), np.random.default_rng(seed), at.box
    run = Run(CHANCE, STEPS, sigma_for(CHANCE, STEPS, *budget), expected)
    network.learn(sequences(at.traces, box, at.grid.period[0]), run, rng)
    paths = network.walk(expected, rng)
    lon = box.west + paths.x * (box.east - box.west)
    lat = box.south + paths.y * (box.north - box.south)
    return [np.repeat(np.arange(expected), paths.points), lon, lat]
