"""`rhythm`: the default scheme of `sfumato stream`.

Measuring every slot spreads a window's budget so thin that the noise buries the city. A few
snapshots with most of the budget each are far better, even though they are a few hours or a
day old, because cities repeat themselves. So k slots of each window are measured (see
`schedule`; k follows from epsilon and the expected people per cell), at hours that change
from day to day, and every slot is published as the posterior mean of a Gaussian process over
days and hours given the last 64 snapshots (see `process`). Where the snapshots cannot
carry hourly detail the likelihood says so and the answer is flat; where they cannot carry
a level either it is the neighbourhood's mean, and, rounded to whole people, zero.

Claim: a window holds at most k snapshots, each of sensitivity 1: Laplace noise of scale
k/epsilon (pure) or Gaussian noise of variance k/(2 rho), whichever is smaller. The rest is
post-processing. Memory: 64 snapshots, however long the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.stream.contract import Publication, Publisher, State, StreamPlan, Values
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Meter
from sfumato.stream.noise import NoiseKind, noise_of
from sfumato.stream.schemes.base import Repeating
from sfumato.stream.schemes.rhythm.process import Kernel, Posterior, Times, fit
from sfumato.stream.schemes.rhythm.schedule import due, samples

MEMORY = 64
_BUSY = 0.1
"""Share of the cells, the busiest, on which the process is fitted."""
_EMPTY = 0.25
"""A neighbourhood is empty where its mean is below this share of a snapshot's noise."""
_BLURS = (0.7, 1.5, 3.0, 6.0)
"""Widths, in cells, of the neighbourhoods tried for the prior mean."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`snapshots` a window; None lets public facts decide. `whole` rounds to whole people."""

    snapshots: int | None = None
    whole: bool = True
    noise: NoiseKind = NoiseKind.BEST
    name: str = "rhythm"
    finished: bool = False

    def most(self, facts: StreamFacts) -> int:
        return min(self.snapshots or samples(facts), facts.window)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = self.most(facts)
        noise = noise_of(facts, self.noise, most)
        line = (
            f"{most} of {facts.window} slots a window are measured with {noise.kind} noise, "
            f"sd {noise.sd:.3g}; all are estimated from the last {MEMORY} snapshots."
        )
        return StreamPlan(
            self.name, (noise.account("snapshot", most, facts.l1, facts.l2),), (line,)
        )

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Rhythm(facts, self)


class _Rhythm(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Rhythm) -> None:
        super().__init__(facts)
        self._k = scheme.most(facts)
        self._noise = noise_of(facts, scheme.noise, self._k)
        self._whole = scheme.whole
        none = np.zeros(0, dtype=np.int64)
        self._times = Times(none, none, none.astype(bool), facts.calendar.longest_day)
        self._seen = np.zeros((0, facts.cells))
        self._kernel: Kernel | None = None
        self._prior = np.zeros(facts.cells)
        self._level = np.ones(facts.cells)
        self._posterior: Posterior | None = None

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        each = self._noise.event(self.facts.l1, self.facts.l2)
        fresh = due(self.facts, slot, self._k) and meter.affords("snapshot", slot, each)
        if fresh:
            found = self._noise.measure(wall, box, f"snapshot@{slot}")
            self.tainted = self.tainted or found.tainted
            self._learn(slot, found.estimate())
        values, sd = self._estimate(slot)
        return Publication(values, fresh, sd, self.tainted)

    def _now(self, slot: int) -> tuple[int, int, bool]:
        calendar = self.facts.calendar
        return int(calendar.day[slot]), int(calendar.phase[slot]), bool(calendar.free[slot])

    def _learn(self, slot: int, noisy: Values) -> None:
        times = self._times.with_one_more(*self._now(slot))
        keep = slice(-MEMORY, None)
        self._times = Times(times.day[keep], times.phase[keep], times.free[keep], times.length)
        self._seen = np.concatenate((self._seen, noisy[None]))[keep]
        count, variance = self._seen.shape[0], self._noise.variance
        mean = self._seen.mean(axis=0)
        self._prior = self._neighbourhood(mean)
        # A cell's counts vary like its level; the level itself is shrunk towards its neighbours.
        spread = float(np.square(mean - self._prior).mean())
        trust = max(0.0, 1 - variance / count / spread) if spread > 0 else 0.0
        level = self._prior + trust * (mean - self._prior)
        middle = max(float(level.mean()), 1e-9)
        self._level = np.clip(level / middle, 0.05, None)
        busy = np.argsort(-self._level, kind="stable")[: max(int(_BUSY * level.size), 50)]
        apart = (self._seen[:, busy] - self._prior[busy]) / np.sqrt(self._level[busy])
        moments = apart @ apart.T / busy.size
        noise = variance * float((1 / self._level[busy]).mean())
        self._kernel = fit(self._times, moments, noise, self._kernel)
        self._arrange()

    def _neighbourhood(self, mean: Values) -> Values:
        """The prior mean: the level of the surroundings without the cell, or of the city."""
        whole = np.full(mean.size, max(float(mean.mean()), 0.0))
        columns = self.facts.grid_columns
        if columns is None:
            return whole
        best, error = whole, float(np.square(mean - whole).mean())
        grid = mean.reshape(-1, columns)
        here = np.zeros((13, 13))
        here[6, 6] = 1.0
        for width in _BLURS:
            own = float(gaussian_filter(here, width, mode="constant", truncate=3.0)[6, 6])
            around = gaussian_filter(grid, width, mode="nearest", truncate=3.0)
            blurred = np.maximum((around - own * grid) / (1 - own), 0.0).ravel()
            reached = float(np.square(mean - blurred).mean())
            if reached < error:
                best, error = blurred, reached
        return best

    def _arrange(self) -> None:
        """Sort the cells into bands of like level, once for all slots until the next snapshot."""
        assert self._kernel is not None
        bands = np.rint(2 * np.log2(self._level)).astype(np.int64)
        self._order = np.argsort(bands, kind="stable")
        found, self._starts = np.unique(bands[self._order], return_index=True)
        self._levels = 2.0 ** (found / 2)
        self._apart = np.ascontiguousarray((self._seen - self._prior)[:, self._order])
        self._posterior = Posterior.given(self._kernel, self._times)

    def _estimate(self, slot: int) -> tuple[Values, float]:
        if self._posterior is None:
            return np.zeros(self.facts.cells), float("inf")
        day, phase, free = self._now(slot)
        now = Times(np.array([day]), np.array([phase]), np.array([free]), self._times.length)
        share, variance = self._posterior.weights(now, self._noise.variance / self._levels)
        stops = np.append(self._starts[1:], self.facts.cells)
        sorted_values = np.concatenate(
            [
                row @ self._apart[:, start:stop]
                for row, start, stop in zip(share, self._starts, stops, strict=True)
            ]
        )
        values, spread = np.empty(self.facts.cells), np.empty(self.facts.cells)
        values[self._order] = sorted_values
        spread[self._order] = np.repeat(np.sqrt(variance * self._levels), stops - self._starts)
        values = np.maximum(values + self._prior, 0.0)
        # In a neighbourhood where hardly anybody is, a number within its noise is most likely 0.
        values[(self._prior < _EMPTY * self._noise.sd) & (values < spread)] = 0.0
        sd = float(np.sqrt(np.square(spread).mean()))
        return (np.rint(values) if self._whole else values), sd

    def state(self) -> State:
        more: dict[str, Any] = {
            "day": self._times.day,
            "phase": self._times.phase,
            "free": self._times.free,
            "seen": self._seen,
            "prior": self._prior,
            "level": self._level,
        }
        if self._kernel is not None:
            kernel = self._kernel
            more["kernel"] = [
                kernel.constant,
                kernel.daily,
                kernel.kind,
                kernel.today,
                kernel.length,
            ]
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        length = self.facts.calendar.longest_day
        self._times = Times(state["day"], state["phase"], state["free"], length)
        self._seen, self._prior, self._level = state["seen"], state["prior"], state["level"]
        if "kernel" in state:
            self._kernel = Kernel(*(float(part) for part in state["kernel"]))
            self._arrange()
