"""FAST: filtering and adaptive sampling (Fan & Xiong 2012, 2014), for a vector of cells.

M of a window's T slots are measured, each with epsilon/M; between them the filter predicts.
After each sample a PID controller looks at how far the estimate moved and stretches or
shortens the interval to the next one:

    delta = Cp E_n + Ci/Ti * sum of the last Ti errors + Cd (E_n - E_{n-1}) / gap
    interval <- max(1, interval + theta (1 - exp((delta - xi) / xi)))

The paper follows one series. Cells that sample at times of their own would cost a person who
moves between them once for every cell and slot, not once a sample, so here all cells
sample together, driven by their mean error; the M samples then compose to epsilon for
everybody. M is fixed beforehand and leftover samples are lost.
`particles` > 0 replaces the Kalman filter by a particle filter that knows the noise is
Laplace (their 2014 form): propagate with the process variance, weight, resample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window
from sfumato.streams.parameters import NOISE, Declaration, Kind, Setting
from sfumato.streams.scheme import (
    Meter,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)
from sfumato_lab.streams.fan import PROCESS, Kalman, default_process

PID = {
    "proportional": Setting("proportional", Kind.NUMBER, "Cp of the controller", 0.7, 0, 100),
    "integral": Setting("integral", Kind.NUMBER, "Ci of the controller", 0.2, 0, 100),
    "derivative": Setting("derivative", Kind.NUMBER, "Cd of the controller", 0.1, 0, 100),
    "theta": Setting("theta", Kind.NUMBER, "how far one step moves the interval", 3.0, 0, 1000),
}


@dataclass(frozen=True, slots=True)
class Pid:
    """The controller's gains; the defaults are the papers'."""

    proportional: float = 0.9
    integral: float = 0.1
    derivative: float = 0.0
    theta: float = 5.0
    setpoint: float = 0.1
    memory: int = 5

    def signal(self, errors: list[float], gap: float) -> float:
        """delta from the errors so far, the newest last."""
        recent = errors[-self.memory :]
        slope = (errors[-1] - errors[-2]) / gap if len(errors) > 1 else 0.0
        return (
            self.proportional * errors[-1]
            + self.integral * sum(recent) / self.memory
            + self.derivative * slope
        )

    def interval(self, before: float, errors: list[float], gap: float) -> float:
        """The next sampling interval, at least one slot."""
        push = (self.signal(errors, gap) - self.setpoint) / self.setpoint
        return max(1.0, before + self.theta * (1 - float(np.exp(min(push, 50.0)))))


@dataclass(frozen=True, slots=True)
class Fast:
    """`ratio` of a window's slots is sampled; `process` is the public process variance."""

    ratio: float = 0.15
    process: float | None = None
    particles: int = 0
    pid: Pid = Pid()
    noise: NoiseKind = NoiseKind.BEST
    finished: bool = False
    start: float = 100.0
    """Variance of the first estimate, in process variances."""

    @property
    def name(self) -> str:
        return "fast-particles" if self.particles else "fast"

    @property
    def declares(self) -> Declaration:
        particles = Setting("particles", Kind.WHOLE, "particles of a cell", 16, 2, 10_000)
        return Declaration(
            parameters={
                "ratio": Setting(
                    "ratio", Kind.NUMBER, "M/T: share of slots that are sampled", 0.5, 0.001, 1
                ),
                **PROCESS,
                **{name: replace(gain, field=f"pid.{gain.field}") for name, gain in PID.items()},
                "setpoint": Setting(
                    "pid.setpoint", Kind.NUMBER, "xi: error that is left as is", 0.2, 1e-6, 10
                ),
                "memory": Setting(
                    "pid.memory", Kind.WHOLE, "Ti: errors that are summed", 2, 1, 1000
                ),
                **({"particles": particles} if self.particles else NOISE),
            },
        )

    def samples(self, facts: StreamFacts) -> int:
        return max(1, round(self.ratio * facts.window))

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = self.samples(facts)
        noise = noise_of(facts, self._kind, most)
        line = f"{most} samples a window with {noise.kind} noise, sd {noise.sd:.3g}, filtered."
        return StreamPlan(self.name, (noise.account("sample", most, facts.l1, facts.l2),), (line,))

    @property
    def _kind(self) -> NoiseKind:
        return NoiseKind.LAPLACE if self.particles else self.noise

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Fast(facts, self, self._kind)


class _Fast(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Fast, kind: NoiseKind) -> None:
        super().__init__(facts)
        self._scheme = scheme
        self._most = scheme.samples(facts)
        self._noise = noise_of(facts, kind, self._most)
        process = scheme.process or default_process(facts.expected_users, facts.cells)
        self._filter = Kalman.start(facts.cells, scheme.start * process, process)
        self._cloud: Values | None = None
        self._interval = 1.0
        self._next = 0.0
        self._errors: list[float] = []
        self._sampled = -1

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        if begins_window(self.facts, slot):
            self._next, self._interval = float(slot), 1.0
        self._filter.predict()
        if self._cloud is not None:
            self._cloud = self._shaken(slot, wall)
        each = self._noise.event(self.facts.l1, self.facts.l2)
        if slot < self._next or not meter.affords("sample", slot, each):
            return self.repeat()
        found = self._noise.measure(wall, box, f"sample@{slot}")
        before = self._filter.estimate.copy()
        if self._scheme.particles:
            self._resample(slot, found.estimate(), wall)
        else:
            self._filter.correct(found.estimate(), self._noise.variance)
        self._control(slot, before)
        sd = float(np.sqrt(self._filter.variance.mean()))
        return self.renew(self._filter.estimate.copy(), sd, found.tainted)

    def _control(self, slot: int, before: Values) -> None:
        now = self._filter.estimate
        moved = np.abs(now - before).mean() / max(float(np.abs(now).mean()), 1.0)
        self._errors = [*self._errors, float(moved)][-self._scheme.pid.memory - 1 :]
        gap = float(slot - self._sampled) if self._sampled >= 0 else 1.0
        if len(self._errors) >= self._scheme.pid.memory:
            self._interval = self._scheme.pid.interval(self._interval, self._errors, gap)
        self._sampled = slot
        self._next = slot + self._interval

    def _coins(self, slot: int, wall: Wall, what: str) -> np.random.Generator:
        key = wall.sampling_key(f"particles/{what}@{slot}")
        return np.random.default_rng(int.from_bytes(key, "little"))

    def _shaken(self, slot: int, wall: Wall) -> Values:
        assert self._cloud is not None
        spread = np.sqrt(self._filter.process)[:, None]
        return self._cloud + spread * self._coins(slot, wall, "move").standard_normal(
            self._cloud.shape, dtype=np.float32
        )

    def _resample(self, slot: int, observed: Values, wall: Wall) -> None:
        """Weight each particle by the Laplace density, then systematic resampling."""
        rng = self._coins(slot, wall, "weigh")
        scale = float(self._noise.parameter)
        if self._cloud is None:
            size = (observed.size, self._scheme.particles)
            self._cloud = observed[:, None] + rng.laplace(0.0, scale, size)
        else:
            weights = np.exp(-np.abs(self._cloud - observed[:, None]) / scale)
            weights += 1e-12
            sums = np.cumsum(weights, axis=1)
            sums /= sums[:, -1:]
            count = self._cloud.shape[1]
            marks = (np.arange(count) + rng.random((observed.size, 1))) / count
            # Rows are searched together: row r lives in [r, r + 1).
            row = np.arange(observed.size)[:, None]
            found = np.searchsorted((sums + row).ravel(), (marks + row).ravel())
            found = np.minimum(
                found, (row * count + count - 1 + 0 * marks).astype(np.int64).ravel()
            )
            self._cloud = self._cloud.ravel()[found].reshape(self._cloud.shape)
        self._filter.estimate = self._cloud.mean(axis=1)
        self._filter.variance = self._cloud.var(axis=1)

    def state(self) -> State:
        more: dict[str, Any] = {
            "estimate": self._filter.estimate,
            "variance": self._filter.variance,
            "control": [self._interval, self._next, self._sampled],
            "errors": self._errors,
        }
        if self._cloud is not None:
            more["cloud"] = self._cloud
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._filter.estimate, self._filter.variance = state["estimate"], state["variance"]
        self._interval, self._next, sampled = state["control"]
        self._sampled = int(sampled)
        self._errors = [float(error) for error in state["errors"]]
        self._cloud = state.get("cloud")


scheme = Fast()
particles = Fast(particles=64)
