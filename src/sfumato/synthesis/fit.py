"""A population fitted to noisy measurements and a released table. Post-processing, no randomness.

Every noisy block is weighed against what public facts alone would expect: the posterior mean of a
cell with prior mean m and prior deviation cv m under Gaussian noise sd is m + k (y - m),
k = (cv m)^2 / ((cv m)^2 + sd^2). Where the noise drowns a block, the public expectation is left.

* Homes and works by place: the released nights and office hours, corrected by what was measured.
* Home-work pairs: a doubly constrained gravity model (Wilson 1971) on these margins, its decay by
  distance and its table of regions raked to what was measured (iterative proportional fitting,
  Deming & Stephan 1940).
* Roles: the released table cut into visits at home, at work and elsewhere, alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sfumato.model.lives import (
    ACTIVITY,
    COARSE,
    DAYPARTS,
    EXTENT,
    LENGTHS,
    PARTS,
    PERIODS,
    VARIETY,
    LifeQuestion,
)
from sfumato.synthesis.method import Figures, Noisy
from sfumato.synthesis.regions import Ground

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDS = 12
"""Of raking: margins of made cities then agree to one in a thousand."""
_CHANCE = {"night": 0.33, "office": 0.38}
"""Public guesses: the share of a person's visits that fall into the night, into office hours."""
_SPREAD = 1.2
"""Public guess: standard deviation of the logarithm of people's activity (call records:
18.33 / 13.55 as deviation over mean, Acs & Castelluccia 2014)."""
_DECAY = 0.25
"""Public guess: mean distance of work and errands as a share of the map's extent."""
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """What is known of people, in shares of all, for the released places."""

    activity: Floats
    """Standing x class of visits; sums to 1."""
    homes: Floats
    works: Floats
    """Of people with a home, with work; each sums to 1."""
    pairs: Floats
    """Home x work of people with both; sums to 1."""
    roles: Floats
    """Place x slot x role; sums over roles to the table."""
    errands: Floats
    """Period x class of distance: how attractive a place at that distance is, per place."""
    variety: Floats
    """Distinct places of a person, by coarse class of visits."""


def shrunk(noisy: Floats, expected: Floats, sd: float, cv: float) -> Floats:
    """Posterior means, not negative."""
    wide = np.square(cv * expected)
    weight = wide / (wide + sd * sd + _LEAST)
    return np.maximum(expected + weight * (noisy - expected), 0.0)


def _shares(found: Floats, guess: Floats) -> Floats:
    """Of the whole; where noise left nothing of it, those of the guess."""
    whole = float(found.sum())
    return np.asarray(found / whole if whole > _LEAST else guess / guess.sum(), dtype=np.float64)


def expected_activity(mean: float) -> Floats:
    """Standing x class of visits from public guesses: a log-normal law of that mean."""
    low = np.exp2(np.arange(ACTIVITY))
    centre = np.log(max(mean, 1.0)) - _SPREAD**2 / 2
    z = (np.log(np.append(low, np.inf)) - centre) / _SPREAD
    z[0] = -np.inf
    share = np.diff(ndtr(z))
    visits = low * 1.4
    night, office = (1 - (1 - chance) ** visits for chance in _CHANCE.values())
    both = night * office
    table = np.stack(
        [
            (1 - night) * (1 - office),
            night * (1 - office),
            (1 - night) * office,
            0.75 * both,
            0.25 * both,
        ]
    )
    found: Floats = table * share
    return np.asarray(found / found.sum(), dtype=np.float64)


def expected_roles() -> Floats:
    """Hour of the week x role from public guesses."""
    hours = np.arange(48)
    night = (hours % 24 >= 20) | (hours % 24 < 7)
    office = (hours % 24 >= 9) & (hours % 24 < 17) & (hours < 24)
    home = np.where(night, 0.75, np.where(office, 0.25, 0.4))
    work = np.where(night, 0.02, np.where(office, 0.5, 0.08))
    return np.stack([home, work, 1 - home - work], axis=1)


def classes(centres: Floats, edges: Ints, rows: slice | Ints) -> Ints:
    """Class of distance from some places to all, place x place."""
    apart = centres[rows, None, :] - centres[None, :, :]
    square = np.square(apart).sum(axis=2)
    return np.asarray(
        np.searchsorted(edges, square.ravel(), side="left").reshape(square.shape), dtype=np.int64
    )


class _Blocks:
    """Noisy blocks of lives beside what public facts expect."""

    def __init__(self, question: LifeQuestion, noisy: Noisy, sd: float) -> None:
        self._noisy = noisy
        self.sd = {
            name: sd / float(gain)
            for name, gain in zip(question.sizes, question.gains, strict=True)
            if gain
        }

    def __contains__(self, name: str) -> bool:
        return name in self._noisy

    def people(self) -> float:
        """How many there are; one, where nobody counted."""
        return max(float(self._noisy["activity"].sum()), 1.0) if "activity" in self else 1.0

    def raw(self, name: str) -> Floats:
        return np.asarray(self._noisy[name], dtype=np.float64)

    def posterior(self, name: str, expected: Floats, cv: float) -> Floats:
        """What the block says of what was expected; that, where it was not measured."""
        if name not in self:
            return expected
        return shrunk(self.raw(name).reshape(expected.shape), expected, self.sd[name], cv)


def fit(
    question: LifeQuestion, ground: Ground, noisy: Noisy, sd: float, table: Floats, mean: float
) -> Population:
    """The population.

    Args:
        question: What was asked.
        ground: Where places are.
        noisy: The blocks, in people; empty where nothing was measured.
        sd: Of the noise on a cell of the vector, in lattice units.
        table: Released place x slot, not negative.
        mean: Visits of a person, from the table and the number of people.
    """
    blocks = _Blocks(question, noisy, sd)
    period = question.period
    people = blocks.people()
    guessed = expected_activity(mean)
    activity = _shares(blocks.posterior("activity", people * guessed, 2.0), guessed)
    total = np.maximum(table.sum(axis=1), _LEAST)
    nights = table[:, period == 0].sum(axis=1) + _LEAST * total
    office = table[:, period == 1].sum(axis=1) + _LEAST * total

    def margin(name: str, expected: Floats, size: float, cv: float) -> Floats:
        guess = expected / expected.sum() * max(size, _LEAST)
        if name not in blocks:
            return np.asarray(guess / guess.sum(), dtype=np.float64)
        seen, spread = blocks.raw(name), blocks.sd[name]
        if ground.shares is not None:
            seen = ground.shares.T @ seen
            spread *= float(np.sqrt(np.square(ground.shares).sum(axis=0).mean()))
        found = shrunk(seen, guess, spread, cv) + 1e-6 * guess
        return np.asarray(found / found.sum(), dtype=np.float64)

    # The released nights say where people live to some 15 %, office hours where they work to
    # less, since many of these visits are at home: the prior deviations are twice that.
    homes = margin("homes", nights, people * activity[[1, 3, 4]].sum(), 0.3)
    works = margin("works", office, people * activity[[2, 3, 4]].sum(), 0.5)
    return Population(
        activity,
        homes,
        works,
        _pairs(question, ground, blocks, people * activity, homes, works),
        _roles(question, blocks, table, homes, works),
        _errands(question, ground, blocks, total, homes),
        _variety(blocks),
    )


def _pairs(
    question: LifeQuestion,
    ground: Ground,
    blocks: _Blocks,
    standings: Floats,
    homes: Floats,
    works: Floats,
) -> Floats:
    """Gravity raked to margins, distances by part of the map, and regions."""
    both = max(float(standings[3:].sum()), _LEAST)
    size, regions = homes.size, question.regions
    far = np.concatenate(
        [classes(ground.at, question.edges, slice(k, k + 256)) for k in range(0, size, 256)]
    )
    table = homes[:, None] * works[None, :] * _decay(question)[far]
    same = standings[4].sum() / max(both, _LEAST)
    own = np.eye(size, dtype=np.bool_)
    table[own] *= same / max(table[own].sum() / table.sum(), _LEAST)
    table *= both / table.sum()
    cell = (ground.region[:, None] * regions + ground.region[None, :]).ravel()
    ring = (ground.part[:, None] * LENGTHS + far).ravel()

    def margins(table: Floats) -> Floats:
        table = table * (both * homes / np.maximum(table.sum(axis=1), _LEAST))[:, None]
        columns = both * works / np.maximum(table.sum(axis=0), _LEAST)
        return np.asarray(table * columns[None, :], dtype=np.float64)

    apart = np.zeros((PARTS, LENGTHS))
    apart += np.bincount(ring, table.ravel(), PARTS * LENGTHS).reshape(PARTS, LENGTHS)
    rings = blocks.posterior("commutes", apart, 1.0).ravel()
    for _ in range(_ROUNDS):  # distances first: they make the regions' expectation
        table = margins(_raked(table, ring, rings))
    full = np.zeros((regions + 1, regions + 1))
    now = np.bincount(cell, table.ravel(), regions * regions)
    full[:regions, :regions] = now.reshape(regions, regions)
    # Gravity with fitted decay is off by some 40 % in a pair of regions of made cities.
    cells = blocks.posterior("pairs", full, 0.4)[:regions, :regions].ravel()
    for _ in range(_ROUNDS):
        table = _raked(_raked(margins(table), ring, rings), cell, cells)
    return _shares(table, np.outer(homes, works))


def _decay(question: LifeQuestion) -> Floats:
    """Public guess of how many go how far: exponential in distance, by class."""
    edges = np.sqrt(np.append(question.edges, question.edges[-1] * 1.3).astype(np.float64))
    found: Floats = np.exp(-edges / (_DECAY * edges[-2]))
    return found


def _raked(table: Floats, which: Ints, target: Floats) -> Floats:
    now = np.bincount(which, table.ravel(), target.size)
    factor = np.where(now > _LEAST, target / np.maximum(now, _LEAST), 1.0)
    return table * factor[which].reshape(table.shape)


def _roles(
    question: LifeQuestion, blocks: _Blocks, table: Floats, homes: Floats, works: Floats
) -> Floats:
    """Place x slot x role: raked to the table, to roles by hour, to homes and works by place."""
    hour = question.hour
    by_hour = np.bincount(hour, table.sum(axis=0), 48)
    # Visits of busy people count less in the block, so it gives shares of roles, not their level.
    guess = expected_roles()
    shares = guess
    if "roles" in blocks:
        seen, sd = blocks.raw("roles").reshape(48, 3), blocks.sd["roles"]
        level = np.maximum(seen.sum(axis=1, keepdims=True), sd)
        shares = shrunk(seen / level, guess, 1.0, 1e9)
        weight = level / (level + 10 * sd)  # a hidden hour keeps the public guess
        shares = weight * shares + (1 - weight) * guess
    shares = np.maximum(shares, 1e-3)
    shares = shares / shares.sum(axis=1, keepdims=True)
    total = table.sum(axis=1)
    weights = np.stack([homes, works, total / max(total.sum(), _LEAST)], axis=1) + _LEAST
    cube = weights[:, None, :] * shares[hour][None, :, :]
    wanted = shares * by_hour[:, None]
    for _ in range(_ROUNDS):
        now = cube.sum(axis=1)
        for role, margin in ((0, homes), (1, works)):
            level = wanted[:, role].sum()
            cube[:, :, role] *= (margin * level / np.maximum(now[:, role], _LEAST))[:, None]
        by = np.zeros((48, 3))
        np.add.at(by, hour, cube.sum(axis=0))
        cube *= (wanted / np.maximum(by, _LEAST))[hour][None, :, :]
        cube *= (table / np.maximum(cube.sum(axis=2), _LEAST))[:, :, None]
    return np.asarray(cube, dtype=np.float64)


def _errands(
    question: LifeQuestion, ground: Ground, blocks: _Blocks, total: Floats, homes: Floats
) -> Floats:
    """Visits elsewhere by distance over what homes and attractive places alone would give."""
    base = np.zeros(LENGTHS)
    attraction = total / total.sum()
    for k in range(0, homes.size, 256):
        far = classes(ground.at, question.edges, slice(k, k + 256))
        weight = homes[k : k + 256, None] * attraction[None, :]
        base += np.bincount(far.ravel(), weight.ravel(), LENGTHS)
    guess = np.tile(base * _decay(question), (PERIODS, 1))
    guess[:, 0] = 0.0  # at the anchor itself is no errand
    guess /= max(guess.sum(), _LEAST)
    found = guess
    if "errands" in blocks:
        seen, sd = blocks.raw("errands").reshape(PERIODS, LENGTHS), blocks.sd["errands"]
        found = shrunk(seen, guess * max(float(seen.sum()), sd), sd, 2.0)
    found[:, 0] = 0.0
    ratio = np.where(base > 1e-7, found / np.maximum(base, 1e-7), 0.0)
    return np.asarray(
        ratio / np.maximum(ratio.sum(axis=1, keepdims=True), _LEAST), dtype=np.float64
    )


def _variety(blocks: _Blocks) -> Floats:
    """Mean distinct places by coarse class of visits."""
    guess = np.array([1.7, 3.0, 4.5, 6.0, 8.5])  # of made cities; a public guess
    if "variety" not in blocks:
        return guess
    sd = blocks.sd["variety"]
    table = np.maximum(blocks.raw("variety").reshape(COARSE, VARIETY) - sd, 0.0)
    size = table.sum(axis=1)
    mean = (table * np.arange(1, VARIETY + 1)).sum(axis=1) / np.maximum(size, 1.0)
    weight = size / (size + 5 * sd * VARIETY + 1.0)
    return np.asarray(np.maximum(weight * mean + (1 - weight) * guess, 1.0), dtype=np.float64)


def life_figures(
    vector: Floats, question: LifeQuestion, ground: Ground, density: Floats | None
) -> Figures:
    """Length of moves, and regions of home and work, of a vector of lives."""
    blocks = question.blocks(vector)
    size = question.regions + 1
    pairs = blocks["pairs"].reshape(size, size)[:-1, :-1] if "pairs" in blocks else None
    moves = blocks["moves"].reshape(DAYPARTS, LENGTHS).sum(axis=0) if "moves" in blocks else None
    metres = np.sqrt(question.edges.astype(np.float64)) * ground.span[2] / EXTENT
    return Figures(density, moves, pairs, tuple(np.round(metres / 1000, 2).tolist()))
