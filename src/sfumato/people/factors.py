"""Errors of people: the posterior of a release, carried through weights, zones and operators.

`published.posterior.Factors` keeps what is not known of a table as draws in factors and a variance
for each cell. Here it is multiplied by weights that are not known either, brought to other zones,
and put together with that of another operator. Three errors come on top of the release's own:

* *weights*: a share's or a census' own error, and that of the night counts it is held against;
* *origins*: the homes of those who are in a zone are modelled (`origins`), and the model is off by
  some part of how much the weights of those homes differ (`ORIGINS`);
* *sampling*: an operator's customers are a sample of the people (`sampling`). Part of it stays from
  slot to slot, because the same people are there.

First-order: relative errors are added, products of two of them are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.published.estimate import count_quantiles
from sfumato.published.posterior import Factors

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

ORIGINS = 0.25
"""Error of a zone's own weight through its origins, over `Origins.error`. Set with `EXPECTED` on
crowds of seeds 101 to 114: 90 % intervals of cells held 93 to 94 %, with .35 one more."""
STAYS = 0.5
"""Share of the sampling variance of a zone's counts that is the same in all slots, if everybody is
seen in all of them: in made-up crowds half of the people of a zone are the same from slot to
slot."""
_BUSY = 2.0
"""Of those who are counted in a slot, how much oftener they are seen than people in the mean: in
call records, where few are seen much, about twice."""
EXPECTED = 0.15
"""Share of the variance of a count's expectation in what a release states for the count. On crowds
of seeds 101 to 106 released by `bayes`, .25 held 93 and 92 % of cells (census, shares), .2 held 91;
with the error that all zones share on top, .2 held 94 and 93, and this was taken."""
_RANK = 3
"""Fields that the error of origins is kept in; what they leave out becomes chance."""


def normals(pairs: int, columns: int, *key: int) -> Table:
    """Fixed standard normal numbers, pairs x columns, of mean square one in each column.

    Few draws have a mean square of their own: it would make one zone's interval wide and the
    next one's narrow.
    """
    found = np.random.default_rng((20261117, *key)).standard_normal((pairs, columns))
    scaled: Table = found / np.sqrt(np.square(found).mean(axis=0, keepdims=True))
    return scaled


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """People for one person counted, zones x slots, and what is not known of them."""

    values: Table
    relative: Table
    """Pairs x zones: relative deviation of each draw, the same in all slots."""
    origins: Table
    """Zones x slots: standard deviation through the origins, relative, a zone's own up to
    `ORIGINS` …"""
    common: Table
    """… and that of all zones together."""

    @property
    def zones(self) -> Vector:
        """The weight of each zone over all slots."""
        found: Vector = self.values.mean(axis=1)
        return found


def weighed(factors: Factors, weights: Weights, key: int = 0) -> Factors:
    """The posterior of counts times weights, without sampling (`with_sampling`).

    Nor does it have the chance of a count around its expectation: `sampling` has that of people.
    """
    factors = _of_expectations(factors)
    counts = factors.counts * weights.values
    # Weights as zone x slot, for the fields, which have no cells of their own.
    by_zone = counts.sum(axis=1) / np.maximum(factors.counts.sum(axis=1), 1e-9)
    even = by_zone[:, None] * factors.counts
    by_slot = counts.sum(axis=0) / np.maximum(even.sum(axis=0), 1e-9)
    found = replace(
        factors,
        counts=counts,
        places=factors.places + weights.relative,
        strengths=(factors.strengths * by_zone[:, None]).astype(np.float32),
        rhythms=factors.rhythms * by_slot[:, None],
        chance=factors.chance * np.square(weights.values),
    )
    drawn = normals(found.pairs, counts.shape[0], key, 1)
    found = _with_table(found, ORIGINS * weights.origins * counts, drawn)
    alike = np.repeat(normals(found.pairs, 1, key, 8), counts.shape[0], axis=1)
    return _with_table(found, weights.common * counts, alike)


def _expectations(factors: Factors) -> tuple[Table, Table]:
    """How far each count was seen, and the variance of what was expected of it.

    A release estimates counts, and people want their expectation: a count is off by chance, which
    a sample of other people does not share. With c visits by chance around an expectation that has
    variance v, and gain g on what was measured, the count's posterior variance is (1 - g)(v + c).
    The release states that sum; v is taken for `EXPECTED` of it, and for all that c cannot explain.
    """
    whole = cell_variances(factors)
    chance = np.maximum(np.maximum(factors.counts, 0.0) * factors.piece[:, None], 1e-9)
    expected = np.maximum(EXPECTED * whole, whole - chance)
    gain: Table = np.clip(1.0 - whole / (chance + expected), 0.0, 1.0)
    return gain, (1.0 - gain) * expected


def unseen(factors: Factors) -> Table:
    """The share of the chance of each count that its measurement did not see, zones x slots."""
    return 1.0 - _expectations(factors)[0]


def _of_expectations(factors: Factors) -> Factors:
    """The posterior of what was expected: level, places and slots stay, fields shrink to it."""
    wanted = _expectations(factors)[1]
    none = replace(factors, chance=np.zeros_like(factors.chance))
    fields = cell_variances(none)
    margins = cell_variances(
        replace(none, strengths=none.strengths[:, :0], rhythms=none.rhythms[:, :0])
    )
    fields = np.maximum(fields - margins, 0.0)
    rest = np.maximum(wanted - margins, 0.0)
    kept = np.clip(rest.sum(axis=1) / np.maximum(fields.sum(axis=1), 1e-12), 0.0, 1.0)
    return replace(
        factors,
        strengths=(factors.strengths * np.sqrt(kept)[:, None]).astype(np.float32),
        chance=np.maximum(rest - kept[:, None] * fields, 0.0),
    )


def _with_table(factors: Factors, sd: Table, drawn: Table) -> Factors:
    """Further errors of these deviations, drawn (pairs x zones) for all slots of a zone at once."""
    if not sd.any():
        return factors
    left, strength, right = np.linalg.svd(sd, full_matrices=False)
    left, right = left[:, :_RANK] * strength[:_RANK], right[:_RANK]
    rest = np.maximum(np.square(sd) - np.square(left @ right), 0.0)
    return replace(
        with_fields(factors, drawn.T[:, :, None] * left[:, None, :], right.T),
        chance=factors.chance + rest,
    )


def with_fields(factors: Factors, strengths: Table, rhythms: Table) -> Factors:
    """Further fields: places x pairs x fields, slots x fields."""
    places, pairs = factors.counts.shape[0], factors.pairs
    own = factors.strengths.reshape(places, pairs, factors.fields)
    both = np.concatenate((own, strengths.astype(np.float32)), axis=2)
    return replace(
        factors,
        strengths=both.reshape(places, -1),
        rhythms=np.concatenate((factors.rhythms, rhythms), axis=1),
    )


def lasting_share(counts: Table, users: object) -> float:
    """The share of sampling errors that is the same people's in all slots.

    Args:
        counts: Zones x slots.
        users: How many people are expected in the records; all are seen always where nobody said.
    """
    if not isinstance(users, int | float) or users <= 0:
        return STAYS
    seen = float(counts.sum()) / (float(users) * counts.shape[1])
    return float(STAYS * min(1.0, _BUSY * seen))


def lasting(counts: Table, weights: Vector, stays: float) -> Vector:
    """Relative standard deviation of the part of a zone's sampling error that lasts."""
    mean = np.maximum(counts.mean(axis=1), 1.0)
    found: Vector = np.sqrt(stays * np.maximum(weights - 1.0, 0.0) / (weights * mean))
    return found


def with_sampling(factors: Factors, lasting: Table | None, chance: Table) -> Factors:
    """Sampling errors on top.

    Args:
        factors: Of people.
        lasting: Variance of each cell that is the same people's in all slots; `None` where the
            factors have it.
        chance: Variance of each cell on its own.
    """
    found = replace(factors, chance=factors.chance + np.maximum(chance, 0.0))
    if lasting is None:
        return found
    size = np.square(factors.counts).sum(axis=1)
    relative = np.sqrt(np.maximum(lasting, 0.0).sum(axis=1) / np.maximum(size, 1e-9))
    drawn = normals(factors.pairs, factors.counts.shape[0], 2)
    return replace(found, places=found.places + relative * drawn)


def cell_variances(factors: Factors) -> Table:
    """Variance of the error of every cell."""
    places, slots = factors.counts.shape
    strengths = factors.strengths.reshape(places, factors.pairs, factors.fields)
    found: Table = np.zeros((places, slots))
    for k in range(factors.pairs):
        shared = factors.level[k] + factors.places[k][:, None] + factors.slots[k]
        apart = factors.counts * shared
        if factors.fields:
            apart = apart + strengths[:, k] @ factors.rhythms.T
        found += np.square(apart)
    return found / factors.pairs + factors.chance


def cell_quantiles(factors: Factors, *levels: float) -> list[Table]:
    """Quantiles of every cell, a table for each level."""
    variance = cell_variances(factors)
    piece = np.broadcast_to(factors.piece[:, None], variance.shape)
    return list(count_quantiles(factors.counts, variance, piece, levels))


def brought_to(factors: Factors, shares: Table) -> Factors:
    """The posterior of sums over other zones.

    Args:
        factors: Of zones.
        shares: New zones x zones: which share of a zone's people goes to which new one.
    """
    counts = shares @ factors.counts
    total = factors.counts.sum(axis=1)
    share_of = shares * total / np.maximum(shares @ total, 1e-9)[:, None]
    return replace(
        factors,
        counts=counts,
        places=factors.places @ share_of.T,
        strengths=(shares @ factors.strengths).astype(np.float32),
        chance=np.square(shares) @ factors.chance,
        piece=share_of @ factors.piece,
    )


def put_together(parts: Sequence[Factors], blend: Table) -> Factors:
    """The posterior of a mean of independent tables of the same cells.

    Every part keeps draws of its own, since parts do not know of each other: the draws of one leave
    the others where they are.

    Args:
        parts: Of the same places and slots.
        blend: Parts x places, the weight of each; columns sum to one.
    """
    places, slots = parts[0].counts.shape
    pairs = sum(part.pairs for part in parts)
    fields = sum(part.fields for part in parts)
    counts: Table = np.einsum("iz,izs->zs", blend, np.stack([part.counts for part in parts]))
    found = Factors(
        counts=counts,
        level=np.zeros(pairs),
        places=np.zeros((pairs, places)),
        slots=np.zeros((pairs, slots)),
        strengths=np.zeros(0, dtype=np.float32),
        rhythms=np.concatenate([part.rhythms for part in parts], axis=1),
        chance=np.zeros((places, slots)),
        piece=np.min([part.piece for part in parts], axis=0),
        coverage=min(part.coverage for part in parts),
    )
    strengths = np.zeros((places, pairs, fields), dtype=np.float32)
    pair, field = 0, 0
    for part, weight in zip(parts, blend, strict=True):
        own = slice(pair, pair + part.pairs)
        kept = slice(field, field + part.fields)
        scale = np.sqrt(pairs / part.pairs)
        # What this part's numbers are of the whole, by zone and by slot.
        mine = weight[:, None] * part.counts
        by_zone = mine.sum(axis=1) / np.maximum(counts.sum(axis=1), 1e-9)
        by_slot = mine.sum(axis=0) / np.maximum(counts.sum(axis=0), 1e-9)
        found.places[own] = scale * by_zone * (part.level[:, None] + part.places)
        found.slots[own] = scale * by_slot * part.slots
        own_fields = part.strengths.reshape(places, part.pairs, part.fields)
        strengths[:, own, kept] = scale * weight[:, None, None] * own_fields
        found.chance[:] += np.square(weight)[:, None] * part.chance
        pair, field = pair + part.pairs, field + part.fields
    return replace(found, strengths=strengths.reshape(places, -1))


def sampling(
    people: Table,
    weights: Sequence[Table],
    hidden: Sequence[Table],
    stays: Sequence[float],
    overlap: float,
) -> tuple[Table, Table]:
    """Covariance of operators' sampling errors: what lasts, and chance.

    P people are in a cell where Q were to be expected (a Poisson law). A person is at operator i
    with chance m_i = 1 / w_i, and at both i and j with chance `overlap` x min(m_i, m_j). The
    release knows the count C_i of i to a part: its estimate is Q / w_i + g_i (C_i - Q / w_i) +
    noise, where 1 - g_i is the share of chance that it did not see (`unseen`). Then P minus w_i
    times the estimate, noise included, has variance P ((1 - g_i) + g_i (w_i - 1)), and two of them
    the covariance P (1 - g_i - g_j + g_i g_j overlap min(w_i, w_j)). At g = 1 the former is
    P (w_i - 1), that of a sample, and without overlap the latter is -P: whoever is at the one is
    missing at the other.

    Args:
        people: Expected in each cell.
        weights: People for one person counted, zones x slots, of each operator.
        hidden: The share of chance that was not seen, likewise.
        stays: The share of sampling errors that lasts, of each operator.
        overlap: The share of the smaller one's people who are at the other, too.

    Returns:
        Operators x operators x zones x slots: the part that is the same people's in all slots,
        and the rest.
    """
    number = len(weights)
    lasting: Table = np.empty((number, number, *people.shape))
    chance: Table = np.empty_like(lasting)
    for i, (one, first) in enumerate(zip(weights, hidden, strict=True)):
        for j, (other, second) in enumerate(zip(weights, hidden, strict=True)):
            if i == j:
                sample = people * np.maximum(one - 1.0, 0.0)
                whole = people * first + (1 - first) * sample
            else:
                both = overlap * np.minimum(one, other)
                sample = people * (both - 1.0)
                whole = people * (first + second - 1.0 + (1 - first) * (1 - second) * both)
            stay = float(np.sqrt(stays[i] * stays[j]))
            lasting[i, j] = stay * sample
            chance[i, j] = whole - stay * (1 - first) * (1 - second) * sample
    return lasting, chance


def blend_of(own: Table, shared: Table) -> Table:
    """Operators x places: weights of least variance, none negative.

    Args:
        own: Operators x places: variance that an operator does not share with others.
        shared: Operators x operators x places: covariance of what they share.
    """
    number, places = own.shape
    found: Table = np.zeros((number, places))
    for place in range(places):
        kept = np.arange(number)
        while True:
            covariance = shared[np.ix_(kept, kept)][..., place] + np.diag(own[kept, place])
            covariance = covariance + 1e-9 * np.trace(covariance) * np.eye(kept.size)
            answer = np.linalg.solve(covariance, np.ones(kept.size))
            if (answer > 0).all() or kept.size == 1:
                break
            kept = kept[answer > 0] if (answer > 0).any() else kept[:1]
        found[kept, place] = 1.0 if kept.size == 1 else answer / answer.sum()
    return found
