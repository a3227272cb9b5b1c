"""How active people are, read from a noisy ladder: a posterior of the total and of its law.

The ladder (`sfumato.model.ladder`) holds, for doubling steps, how much of everybody's activity lies
between c_(k-1) and c_k. A step's sum over its width is the mean number of people more active than
the points of the step. What is known beforehand is weak: about how many people there are, how often
a person is seen, and that the number of people above an activity falls smoothly with its logarithm,
like a normal tail whose slope may differ on both sides of the middle and which may bend above it
towards a power law, up to some slack in every step. It ends at a ceiling: nobody is seen in more
than all slots, at as many places in each as people here are. (Without it, those who live in a small
area were drawn out to a tail: with one in ten living there and the others passing through, the
total of 20,000 people came out 9 % too high, outside its interval in 15 of 16 simulated ladders.)
One step above the top is inferred and not measured: the tail. Where a slot counts once for a
person (`people`), all slots are the top and nobody can be above it: there is neither tail nor
ceiling. (With both, 12,000 people who are seen in every one of 48 slots came out 23 % too high.)

The posterior has a dozen dimensions and may be very sharp (two million people) or hardly informed
(a thousand), so its mode is found first, and points around it are weighed, in rounds whose
proposal follows the weights of the one before (Cappe et al. 2004). Everything reads noisy numbers
and public facts: post-processing. The random numbers it needs are the same in every release.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sfumato.model.matrices import inverse, root, solved

Vector = NDArray[np.float64]
Table = NDArray[np.float64]

REACH, FAR_REACH = 4, 16
"""Places in a slot that the ladder goes up to, and the top of its last step: cabs in a city of 195
zones are seen at eleven of them in an hour."""
PEOPLE_SD = 0.5
"""How far the number of people may lie from what was said, as a standard deviation of its log."""
VISITS_SD, STATED_SD = 1.2, 0.7
"""The same for how often a person is seen: as in call records, and as the holder states it."""
_WIDTH, _WIDTH_SD, _SIDES_SD = 1.0, 0.55, 0.65
"""Standard deviation of the logarithm of activity: typical, how far off, and how far its two sides
differ. Call records have 1.0, hours of cabs seen by satellite 0.3, check-ins up to 2."""
FLEET_WIDTH = math.log(0.3 / _WIDTH) / _WIDTH_SD
"""Where that of cabs lies on this scale, for forecasts of a fleet; no reading is told of it."""
_SLACK, _OWN_SLACK, _REACH_OF_SLACK = 0.3, 0.15, 1.5
"""Departures from the normal tail, in its own units: shared by neighbouring steps, a step's own."""
_PLACES_SD, _CEILING = 2.0, 0.1
"""How many places a slot may have for one person, on a log scale around hardly more than one; and
how sharp the ceiling is that all slots at so many places are."""
_HEAVY_SD, _LIGHT = 1.5, 2.5
"""How far the upper side may bend from a normal tail towards a power law, whose normal score falls
with the root of the logarithm: hardly, usually. Without it the total of check-ins was 13 % low."""
_MODEL = 0.003
"""Relative error of the total that no ladder shows: steps are read as means over their widths."""
_TAIL = 1.25
"""How far activity may reach above the top, relative to it. The top is all slots at several places
each, so hardly anybody is there."""
_NODES = 4
POINTS, _ROUNDS, _STARTS, _DRAWS = 6000, 8, 4000, 256
_TAILS, _MOST_WEIGHT = 6.0, 0.01
"""Degrees of freedom of the proposal, and the most weight of one of its points."""
_FARTHEST = 40.0
"""Standard deviations beyond which nothing is told apart: less likely than e^-800."""
_LEAST_TOTAL = 1e-3
"""Of less than a thousandth of a visit nothing is published."""
_SEED = 20140824


def ladder_steps(slots: int, places: int) -> tuple[int, ...]:
    """1, 2, 4, … up to the public top: the slots times the places that one of them may count for
    one person, at most `FAR_REACH`."""
    steps = [1]
    top = slots * min(places, REACH)
    while steps[-1] * 2 < top:
        steps.append(steps[-1] * 2)
    steps += [top, slots * min(places, FAR_REACH)]
    return tuple(dict.fromkeys(steps))


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """Draws of the total, and the mean law of activity among those seen at all."""

    totals: Vector
    """Draws of the sum of everybody's activity, in rising order."""
    visits: float
    """Mean activity of a person who was seen."""
    levels: Vector
    """Activities, rising …"""
    shares: Vector
    """… and the share of people at each of them."""

    @property
    def total(self) -> float:
        return float(self.totals.mean())

    def weighted(self, weights: Vector) -> Activity:
        """The same draws where each counts by its weight."""
        reached = np.cumsum(weights / weights.sum())
        middle = reached - 0.5 * np.diff(reached, prepend=0.0)
        ranks = (np.arange(self.totals.size) + 0.5) / self.totals.size
        return replace(self, totals=np.interp(ranks, middle, self.totals))

    def stratified(self, count: int) -> Vector:
        """`count` totals at evenly spaced ranks, so that few draws have the spread of many."""
        ranks = (np.arange(count) + 0.5) / count * self.totals.size - 0.5
        found = np.interp(ranks, np.arange(self.totals.size), self.totals)
        return np.asarray(found * (self.total / found.mean()))


@functools.lru_cache(maxsize=4)
def read_ladder(
    sums: tuple[float, ...],
    sds: tuple[float, ...],
    steps: tuple[int, ...],
    users: float,
    visits: float,
    stated: bool,
    slots: int,
    points: int = POINTS,
) -> Activity:
    """The posterior behind noisy step sums. The last few are remembered: a release asks thrice.

    Args:
        sums: Noisy S_k.
        sds: Standard deviations of their noise.
        steps: c_1, … c_m.
        users: About how many people, from public knowledge.
        visits: About how often one of them is seen.
        stated: Whether the holder says so, or call records are assumed.
        slots: How many the period has.
        points: Of the importance sampling: fewer say the spread, not the last digits.
    """
    how_sure = STATED_SD if stated else VISITS_SD
    model = _Model(np.array(sums), np.array(sds), steps, users, visits, how_sure, slots)
    rng = np.random.default_rng(_SEED)
    latent, weights = model.population(rng, points)
    people = model.people(latent)
    jitter = np.exp(_MODEL * rng.standard_normal(weights.size))
    totals = np.maximum((people * model.widths).sum(axis=1) * jitter, _LEAST_TOTAL)
    order = np.argsort(totals, kind="stable")
    ranks = np.cumsum(weights[order]) - weights[order] / 2
    # Evenly spaced ranks; beyond the outermost lies what one stray point could be.
    even = (np.arange(_DRAWS) + 0.5) / _DRAWS
    found = np.interp(even, ranks, totals[order])
    # Few points may hold all weight, and their departures are few: no total is known better.
    missing = max(_MODEL**2 - float(np.log(found).var()), 0.0)
    found *= np.exp(math.sqrt(missing) * ndtri(even))
    above = weights @ people
    levels, shares = _law(above, model.edges)
    visits = max(float(found.mean()) / max(float(above[0]), 1e-9), 1.0)
    return Activity(found, visits, levels, shares)


class _Model:
    """Latent standard normal numbers to people above each step, and back by their posterior."""

    def __init__(
        self,
        sums: Vector,
        sds: Vector,
        steps: tuple[int, ...],
        users: float,
        visits: float,
        visits_sd: float,
        slots: int,
    ) -> None:
        self._closed = steps[-1] <= slots
        tail = () if self._closed else (_TAIL * steps[-1],)
        self.edges = np.array([0, *steps, *tail], dtype=np.float64)
        self.widths = np.diff(self.edges)
        self._sums, self._sds, self._measured = sums, sds, len(steps)
        self._log_users, self._visits_sd = math.log(users), visits_sd
        # The middle of a log-normal lies below its mean.
        self._log_visits = math.log(max(visits, 1e-3)) - 0.35
        rows = []
        for low, high in zip(self.edges[:-1], self.edges[1:], strict=True):
            points = max(min(int(high - low), _NODES), 1)  # a tail may be less than a visit wide
            within = low + (np.arange(points) + 0.5) * (high - low) / points
            rows.append(np.interp(np.linspace(0, points - 1, _NODES), np.arange(points), within))
        self._nodes = np.log(np.array(rows))
        step = np.arange(self.widths.size)
        shared = np.exp(-0.5 * np.square((step[:, None] - step) / _REACH_OF_SLACK))
        slack = _SLACK**2 * shared + _OWN_SLACK**2 * np.eye(step.size)
        self._slack = np.linalg.cholesky(slack).T
        self.size = 6 + step.size
        self._log_slots = math.log(slots)

    def people(self, latent: Table) -> Table:
        """Mean number of people above the points of each step."""
        latent = np.clip(latent, -_FARTHEST, _FARTHEST)
        log_people = self._log_users + PEOPLE_SD * latent[:, 0]
        middle = self._log_visits + self._visits_sd * latent[:, 1]
        width = math.log(_WIDTH) + _WIDTH_SD * latent[:, 2]
        below = np.exp(width + _SIDES_SD * latent[:, 3])
        above = np.exp(width - _SIDES_SD * latent[:, 3])
        away = middle[:, None, None] - self._nodes
        heavy = np.logaddexp(0.0, _HEAVY_SD * latent[:, 5] - _LIGHT)[:, None, None]
        over = np.maximum(-away, 0.0) / above[:, None, None]
        scaled = np.maximum(away, 0.0) / below[:, None, None]
        scaled -= 2.0 * over / (1.0 + np.sqrt(1.0 + 2.0 * heavy * over))
        scaled += (latent[:, 6:] @ self._slack)[:, :, None]
        if self._closed:
            return np.asarray(np.exp(log_people)[:, None] * ndtr(scaled).mean(axis=2))
        # Nobody is seen in more than all slots, at as many places in each as people here are.
        ceiling = self._log_slots + np.logaddexp(0.0, _PLACES_SD * latent[:, 4] - 2.0)
        below_ceiling = ndtr((ceiling[:, None, None] - self._nodes) / _CEILING)
        found: Table = np.exp(log_people)[:, None] * (ndtr(scaled) * below_ceiling).mean(axis=2)
        return found

    def expected(self, latent: Table) -> Table:
        """Mean sums of the steps."""
        kept = self._measured
        found: Table = self.people(latent)[:, :kept] * self.widths[:kept]
        return found

    def _score(self, latent: Table) -> Vector:
        """Logarithm of the posterior, up to a constant."""
        away = (self._sums - self.expected(latent)) / self._sds
        score: Vector = -0.5 * (np.square(away).sum(axis=1) + np.square(latent).sum(axis=1))
        return score

    def _start(self, rng: np.random.Generator) -> Vector:
        """A rough point: the best of many, with a tenth of slack in every step."""
        tried = 1.2 * rng.standard_normal((_STARTS, self.size))
        expected = self.expected(tried)
        error = np.hypot(self._sds, 0.1 * np.maximum(expected, 1.0))
        cost = np.square((self._sums - expected) / error).sum(axis=1) / 2
        cost += np.log(error).sum(axis=1) + np.square(tried).sum(axis=1) / 2
        best: Vector = tried[int(np.argmin(cost))]
        return best

    def _mode(self, rng: np.random.Generator) -> tuple[Vector, Table]:
        """The posterior's mode and its curvature there, by damped Gauss-Newton.

        With the noise taken to be larger at first: where a step is known to a part in a
        thousand, the way to the mode is a ridge.
        """
        point = self._start(rng)
        curvature = np.eye(self.size)
        for relative in (0.1, 0.01, 0.001, 0.0):
            sds = np.hypot(self._sds, relative * np.abs(self._sums))
            point, curvature = self._climb(point, sds)
        return point, curvature

    def _climb(self, point: Vector, sds: Vector) -> tuple[Vector, Table]:
        def away(latent: Table) -> Table:
            found: Table = (self._sums - self.expected(latent)) / sds
            return found

        def score_of(latent: Vector) -> float:
            return -0.5 * float(np.square(away(latent[None])).sum() + latent @ latent)

        score = score_of(point)
        damping, step = 1e-3, 1e-5
        unit = np.eye(self.size)
        curvature = unit
        for _ in range(100):
            now = away(point[None])[0]
            slopes = (away(point + step * unit) - now) / step
            curvature = slopes @ slopes.T + unit
            downhill = slopes @ now + point
            damped = curvature + damping * np.diag(np.diag(curvature))
            trial = point - solved(damped, downhill)
            trial_score = score_of(trial)
            if trial_score > score:
                rests = trial_score - score < 1e-11 * (1.0 + abs(trial_score))
                point, score = trial, trial_score
                damping = max(damping / 5, 1e-9)
                if rests:
                    break
            else:
                damping *= 5
                if damping > 1e9:
                    break
        return point, curvature

    def population(self, rng: np.random.Generator, count: int) -> tuple[Table, Vector]:
        """Points and their weights: importance sampling whose proposal learns from its own weights.

        Everything is a continuous function of the noisy sums. A chain that accepts or refuses is
        not: a last bit that differs between two processors would end in other draws.
        """
        centre, curvature = self._mode(rng)
        covariance = inverse(curvature)
        half = rng.standard_normal((count // 2, self.size))
        normal = np.concatenate((half, -half))
        scale = np.tile(rng.chisquare(_TAILS, count // 2) / _TAILS, 2)
        away = normal / np.sqrt(scale)[:, None]
        density = -0.5 * (_TAILS + self.size) * np.log1p(np.square(away).sum(axis=1) / _TAILS)
        points, weights = np.empty((0, self.size)), np.empty(0)
        for _ in range(_ROUNDS):
            points = centre + away @ root(covariance).T
            logs = self._score(points) - density
            weights = np.exp(logs - logs.max())
            weights /= weights.sum()
            # Few points may hold nearly all weight at first; each counts for a little at most.
            bounded = np.minimum(weights, _MOST_WEIGHT)
            bounded /= bounded.sum()
            centre = bounded @ points
            apart = points - centre
            seen = (bounded[:, None] * apart).T @ apart
            covariance = 0.8 * seen + 0.2 * covariance + 1e-9 * np.diag(np.diag(covariance))
        bounded = np.minimum(weights, _MOST_WEIGHT)
        return points, bounded / bounded.sum()


def _law(people: Vector, edges: Vector) -> tuple[Vector, Vector]:
    """Activities and shares of people, from the mean number of people above each step."""
    falling = np.minimum.accumulate(np.maximum(people, 1e-12))
    centres = np.log((edges[:-1] + edges[1:]) / 2)
    bounds = np.geomspace(0.5, edges[-1], 97)
    above = np.exp(np.interp(np.log(bounds), centres, np.log(falling / falling[0])))
    above[0], above[-1] = 1.0, 0.0
    shares = -np.diff(above)
    return np.maximum(np.sqrt(bounds[:-1] * bounds[1:]), 1.0), shares / shares.sum()
