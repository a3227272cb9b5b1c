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

from sfumato.model.lives import (
    ACTIVITY,
    COARSE,
    LENGTHS,
    PARTS,
    PERIODS,
    STANDINGS,
    VARIETY,
    LifeQuestion,
)
from sfumato.synthesis.method import Noisy

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


def expected_activity(mean: float) -> Floats:
    """Standing x class of visits from public guesses: a log-normal law of that mean."""
    low = np.exp2(np.arange(ACTIVITY))
    centre = np.log(max(mean, 1.0)) - _SPREAD**2 / 2
    z = (np.log(np.append(low, np.inf)) - centre) / _SPREAD
    z[0] = -np.inf
    share = np.diff(0.5 * (1 + np.vectorize(_erf)(z / np.sqrt(2))))
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
    return found / found.sum()


def _erf(value: float) -> float:
    from math import erf

    return erf(value)


def expected_roles() -> Floats:
    """Hour of the week x role from public guesses."""
    hours = np.arange(48)
    night = (hours % 24 >= 20) | (hours % 24 < 7)
    office = (hours % 24 >= 9) & (hours % 24 < 17) & (hours < 24)
    home = np.where(night, 0.75, np.where(office, 0.25, 0.4))
    work = np.where(night, 0.02, np.where(office, 0.5, 0.08))
    return np.stack([home, work, 1 - home - work], axis=1)


def distance_classes(question: LifeQuestion, at: Floats) -> tuple[Floats, Floats]:
    """Upper ends (metres) of the classes, and the class of every pair is `class_of`."""
    del at
    return np.sqrt(question.edges.astype(np.float64)), np.empty(0)


def classes(centres: Floats, edges: Floats, rows: slice | Ints) -> Ints:
    """Class of distance from some places to all, place x place."""
    apart = centres[rows, None, :] - centres[None, :, :]
    square = np.square(apart).sum(axis=2)
    return np.searchsorted(edges, square.ravel(), side="left").reshape(square.shape)


def fit(
    question: LifeQuestion,
    noisy: Noisy,
    sd: float,
    table: Floats,
    slots: tuple[Ints, Ints],
    at: Floats,
    region: Ints,
    part: Ints,
    to_released: Floats | None,
    mean: float,
) -> Population:
    """The population.

    Args:
        question: What was asked.
        noisy: Its blocks, in people; empty where nothing was measured.
        sd: Of the noise on a cell of a block whose gain is the whole lattice.
        table: Released place x slot, not negative.
        slots: Period and hour of the week of each slot.
        at: Coordinates of released places in the question's units.
        region: Of released places.
        part: Of released places.
        to_released: Counted place x released place shares, where these differ.
        mean: Visits of a person, from the table and the number of people.
    """
    period, hour = slots
    gains = question.gains / question.gains.max()
    top = float(question.gains.max())
    noise = {name: sd / (gains[k] * top) for k, name in enumerate(question.sizes)}

    def block(name: str, expected: Floats, cv: float) -> Floats:
        if name not in noisy:
            return expected
        return shrunk(noisy[name].reshape(expected.shape), expected, noise[name], cv)

    people = float(noisy["activity"].sum()) if "activity" in noisy else 1.0
    people = max(people, 1.0)
    activity = block("activity", people * expected_activity(mean), 2.0)
    activity /= activity.sum()
    with_home = people * activity[[1, 3, 4]].sum()
    with_work = people * activity[[2, 3, 4]].sum()
    total = np.maximum(table.sum(axis=1), _LEAST)
    nights = table[:, period == 0].sum(axis=1) + _LEAST * total
    office = table[:, period == 1].sum(axis=1) + _LEAST * total

    def margin(name: str, expected: Floats, size: float, cv: float) -> Floats:
        guess = expected / expected.sum() * size
        if name not in noisy:
            return guess / guess.sum()
        seen, spread = noisy[name], noise[name]
        if to_released is not None:
            seen = to_released.T @ seen
            spread = spread * float(np.sqrt(np.square(to_released).sum(axis=0).mean()))
        found = shrunk(seen, guess, spread, cv) + 1e-6 * guess
        return found / found.sum()

    homes = margin("homes", nights, with_home, 0.3)
    works = margin("works", office, with_work, 0.5)
    return Population(
        activity,
        homes,
        works,
        _pairs(question, block, people, activity, homes, works, at, region, part),
        _roles(block, table, hour, homes, works, people * mean),
        _errands(question, block, at, total, homes),
        _variety(noisy, noise.get("variety", 0.0)),
    )


def _pairs(question, block, people, activity, homes, works, at, region, part):  # type: ignore[no-untyped-def]
    """Gravity raked to margins, distances by part of the map, and regions."""
    both = people * activity[3:].sum()
    edges = question.edges
    size = homes.size
    far = np.concatenate([classes(at, edges, slice(k, k + 256)) for k in range(0, size, 256)])
    middles = np.sqrt(np.append(edges, edges[-1] * 1.3).astype(np.float64))
    decay = np.exp(-middles / (_DECAY * np.sqrt(float(edges[-1]))))
    table = homes[:, None] * works[None, :] * decay[far]
    same = activity[4].sum() / max(activity[3:].sum(), _LEAST)
    own = np.eye(size, dtype=bool)
    table[own] *= same / max(table[own].sum() / table.sum(), _LEAST)
    table *= both / table.sum()
    regions = question.regions
    cell = (region[:, None] * regions + region[None, :]).ravel()
    ring = (part[:, None] * LENGTHS + far).ravel()
    targets = {}
    for name, which, count, cv in (
        ("commutes", ring, PARTS * LENGTHS, 1.0),
        ("pairs", cell, regions * regions, 0.4),
    ):
        now = np.bincount(which, table.ravel(), count)
        if name == "commutes":
            targets[name] = block(name, now.reshape(PARTS, LENGTHS), cv).ravel()
            for _ in range(_ROUNDS):  # distances first: they make the regions' expectation
                table = _raked(table, ring, targets[name])
                table *= (both * homes / np.maximum(table.sum(axis=1), _LEAST))[:, None]
                table *= (both * works / np.maximum(table.sum(axis=0), _LEAST))[None, :]
        else:
            full = np.zeros((regions + 1, regions + 1))
            full[:regions, :regions] = now.reshape(regions, regions)
            targets[name] = block(name, full, cv)[:regions, :regions].ravel()
    for _ in range(_ROUNDS):
        table *= (both * homes / np.maximum(table.sum(axis=1), _LEAST))[:, None]
        table *= (both * works / np.maximum(table.sum(axis=0), _LEAST))[None, :]
        table = _raked(table, ring, targets["commutes"])
        table = _raked(table, cell, targets["pairs"])
    return table / table.sum()


def _raked(table: Floats, which: Ints, target: Floats) -> Floats:
    now = np.bincount(which, table.ravel(), target.size)
    factor = np.where(now > _LEAST, target / np.maximum(now, _LEAST), 1.0)
    return table * factor[which].reshape(table.shape)


def _roles(block, table, hour, homes, works, visits):  # type: ignore[no-untyped-def]
    """Place x slot x role: raked to the table, to roles by hour, to homes and works by place."""
    guess = expected_roles()
    by_hour = np.bincount(hour, table.sum(axis=0), 48)
    # Visits of busy people count less in the block: its level is brought to the table's.
    scale = by_hour.sum() / max(visits, 1.0)
    del scale
    expected = guess * by_hour[:, None]
    shares = block("roles", expected / max(expected.sum(), 1.0) * 1.0, 1e9)
    shares = np.maximum(shares, 1e-3 * shares.sum(axis=1, keepdims=True) + _LEAST)
    shares /= shares.sum(axis=1, keepdims=True)
    total = table.sum(axis=1)
    weight = np.stack([homes, works, total / max(total.sum(), _LEAST)], axis=1) + _LEAST
    cube = weight[:, None, :] * shares[hour][None, :, :]
    wanted = shares * by_hour[:, None]
    at_home, at_work = wanted[:, 0].sum(), wanted[:, 1].sum()
    for _ in range(_ROUNDS):
        now = cube.sum(axis=1)
        for role, margin, level in ((0, homes, at_home), (1, works, at_work)):
            cube[:, :, role] *= (margin * level / np.maximum(now[:, role], _LEAST))[:, None]
        by = np.zeros((48, 3))
        np.add.at(by, hour, cube.sum(axis=0))
        cube *= (wanted / np.maximum(by, _LEAST))[hour][None, :, :]
        cube *= (table / np.maximum(cube.sum(axis=2), _LEAST))[:, :, None]
    return cube


def _errands(question, block, at, total, homes):  # type: ignore[no-untyped-def]
    """Visits elsewhere by distance over what homes and attractive places alone would give."""
    edges = question.edges
    size = homes.size
    base = np.zeros(LENGTHS)
    attraction = total / total.sum()
    for k in range(0, size, 256):
        far = classes(at, edges, slice(k, k + 256))
        weight = homes[k : k + 256, None] * attraction[None, :]
        base += np.bincount(far.ravel(), weight.ravel(), LENGTHS)
    middles = np.sqrt(np.append(edges, edges[-1] * 1.3).astype(np.float64))
    decay = np.exp(-middles / (_DECAY * np.sqrt(float(edges[-1]))))
    decay[0] = 0.0  # at the anchor itself is no errand
    guess = np.tile(base * decay, (PERIODS, 1))
    guess /= guess.sum()
    found = block("errands", guess, 1e9)
    found[:, 0] = 0.0
    found = np.maximum(found, 1e-4 * guess * max(found.sum(), 1.0))
    ratio = found / np.maximum(base, 1e-7)[None, :]
    ratio[:, base < 1e-7] = 0.0
    return ratio / np.maximum(ratio.sum(axis=1, keepdims=True), _LEAST)


def _variety(noisy: Noisy, sd: float) -> Floats:
    """Mean distinct places by coarse class of visits."""
    guess = np.array([1.7, 3.0, 4.5, 6.0, 8.5])
    if "variety" not in noisy:
        return guess
    table = np.maximum(noisy["variety"].reshape(COARSE, VARIETY) - sd, 0.0)
    size = table.sum(axis=1)
    mean = (table * np.arange(1, VARIETY + 1)).sum(axis=1) / np.maximum(size, 1.0)
    weight = size / (size + 5 * sd * VARIETY + 1.0)
    return np.maximum(weight * mean + (1 - weight) * guess, 1.0)


assert STANDINGS == 5
