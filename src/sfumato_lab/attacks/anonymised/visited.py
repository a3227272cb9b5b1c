"""One question put to every release, private or not: *did the target visit (L, t)?*

**The game.** A target is drawn at random, then a fair coin: the pair of place and slot is one that
the target visited, or one that somebody else did and the target did not. Both kinds of pairs have
the same law but for the target, so that a map of crowded places alone answers nothing. The
adversary gives a score; the higher, the more likely "yes".

**The advantage** is the share of yes among the visited pairs less that among the others: 0 for
guessing, 1 for certainty. The threshold between yes and no is chosen on one half of the
questions and judged on the other, both ways round; the interval is Newcombe's (1998, method 10)
for a difference of two proportions, at 95 %. A chosen threshold can lose, so that an advantage may
be a little below zero.

**Adversaries.**

* `from_table`: *knows all others.* Has all records but the target's, and compares the
  published count of (L, t) with what the others make. This is the adversary that differential
  privacy speaks of, and it reads any release that gives a density.
* `from_answers`: the same one, with answers about ranges instead of a table.
* `from_traces` and `records.from_items`: *knows a few points* of the target (four, unless said
  otherwise), finds the published records that fit them best, and reads there.

**With and without John** (section 2.2 of Acs, Biczók & Castelluccia 2018): targets whose record is
in the release and targets whose record is not are asked about alike. What is found out about the
second kind is what crowds tell of people like them; only the difference is due to taking part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.attacks.traces.reidentify import wilson
from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.queries.workload import Workload

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TARGETS, KNOWN = 1_000, 4


@dataclass(frozen=True, slots=True, eq=False)
class Visited:
    """Who was where: the pairs of each person in one array, cut at `starts`.

    A pair is `slot * places + place`; those of a person ascend and are distinct.
    """

    starts: Ints
    pairs: Ints
    places: int
    slots: int

    @classmethod
    def of(cls, user: Ints, place: Ints, slot: Ints, places: int, slots: int) -> Visited:
        """From rows in any order; users are numbered anew in the order of their numbers."""
        _, who = np.unique(np.asarray(user), return_inverse=True)
        rows = np.unique(
            np.column_stack((who, np.asarray(slot, np.int64) * places + place)), axis=0
        )
        people = int(rows[-1, 0]) + 1 if len(rows) else 0
        starts = np.searchsorted(rows[:, 0], np.arange(people + 1))
        return cls(starts.astype(np.int64), rows[:, 1].astype(np.int64), places, slots)

    @classmethod
    def of_cells(cls, cells: NDArray[np.int32], places: int) -> Visited:
        """From people x slots, -1 where nobody knows; everybody is kept, in order."""
        seen = cells >= 0
        pairs = np.arange(cells.shape[1]) * places + cells
        starts = np.r_[0, np.cumsum(seen.sum(axis=1))].astype(np.int64)
        return cls(starts, pairs[seen].astype(np.int64), places, cells.shape[1])

    @property
    def people(self) -> int:
        return self.starts.size - 1

    @property
    def user(self) -> Ints:
        """The person of each pair."""
        return np.repeat(np.arange(self.people), np.diff(self.starts))

    @property
    def place(self) -> Ints:
        return self.pairs % self.places

    @property
    def slot(self) -> Ints:
        return self.pairs // self.places

    def counts(self) -> Ints:
        """Visits, place x slot."""
        flat = np.bincount(self.pairs, minlength=self.places * self.slots)
        return flat.reshape(self.slots, self.places).T.astype(np.int64)

    def take(self, people: Ints) -> Visited:
        """These people, in this order."""
        parts = [self.pairs[self.starts[p] : self.starts[p + 1]] for p in people.tolist()]
        starts = np.r_[0, np.cumsum([part.size for part in parts])].astype(np.int64)
        pairs = np.concatenate([np.empty(0, np.int64), *parts])
        return Visited(starts, pairs, self.places, self.slots)

    def coarser(self, place_to: Ints, slots_each: int) -> Visited:
        """At another resolution: `place_to` names the larger place of each, -1 for none."""
        place = place_to[self.place]
        kept = place >= 0
        larger, slot = int(place_to.max(initial=-1)) + 1, self.slot[kept] // slots_each
        slots = -(-self.slots // slots_each)
        return Visited.of(self.user[kept], place[kept], slot, larger, slots)


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """So many times: did this person visit this pair, and what the adversary knows of them."""

    person: Ints
    pair: Ints
    answer: NDArray[np.bool_]
    known: Ints
    """Pairs of the target beside the one asked about, question x points."""
    half: NDArray[np.bool_]
    """Which half a question is in, for the choice of a threshold."""

    def __len__(self) -> int:
        return self.person.size


def draw_questions(
    held: Visited, many: int = TARGETS, *, known: int = KNOWN, seed: int = 1
) -> Questions:
    """Targets at random among who has enough pairs; everybody once before anybody twice."""
    rng = np.random.default_rng([seed, 0x4C])
    able = np.flatnonzero(np.diff(held.starts) >= known + 1)
    if not able.size or many < 4:
        raise UsageError(
            f"Nobody visited {known + 1} pairs of place and slot: there is nobody to ask about.",
            remedy="Take a longer period, a shorter slot, or let fewer points be known.",
        )
    # Whoever was everywhere that anybody was cannot be asked about a pair they did not visit.
    met = np.unique(held.pairs[np.isin(held.user, able)]).size
    asked = able[np.diff(held.starts)[able] < met]
    if not asked.size:
        raise UsageError(
            "Nobody lacks a visit that somebody else made: there is nothing to ask.",
            remedy="Take more people, a longer period or a shorter slot.",
        )
    rounds = [rng.permutation(asked) for _ in range(-(-many // asked.size))]
    person = np.concatenate(rounds)[:many]
    answer = rng.permutation(many) < many // 2
    pair, points = np.empty(many, np.int64), np.empty((many, known), np.int64)
    for number, who in enumerate(person.tolist()):
        own = rng.permutation(held.pairs[held.starts[who] : held.starts[who + 1]])
        points[number] = own[1 : known + 1]
        pair[number] = own[0]
        while not answer[number] and pair[number] in own:
            # A pair of a person drawn as the target was, so that both kinds have one law.
            other = int(rng.choice(able))
            pair[number] = held.pairs[rng.integers(held.starts[other], held.starts[other + 1])]
    half = np.zeros(many, np.bool_)
    for kind in (False, True):
        mine = rng.permutation(np.flatnonzero(answer == kind))
        half[mine[: mine.size // 2]] = True
    return Questions(person, pair, answer, points, half)


@dataclass(frozen=True, slots=True)
class Advantage:
    """Share of yes among visited pairs less that among others, with its 95 % interval."""

    value: float
    low: float
    high: float
    right: float
    """Share of yes where the answer is yes."""
    wrong: float
    """Share of yes where it is no."""
    targets: int

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def advantage(scores: Floats, asked: Questions) -> Advantage:
    """Of one adversary's scores."""
    return pooled([(decided(scores, asked), asked.answer)])


def decided(scores: Floats, asked: Questions) -> NDArray[np.bool_]:
    """Yes or no; each half by the threshold that served best on the other half.

    A score that is not a number says nothing: it is the lowest.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    yes = np.zeros(len(asked), np.bool_)
    for half in (False, True):
        learn, judge = asked.half == half, asked.half != half
        yes[judge] = scores[judge] >= _threshold(scores[learn], asked.answer[learn])
    return yes


def pooled(told: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> Advantage:
    """Of what was said and what is true, over all draws together."""
    said = np.concatenate([one for one, _ in told])
    true = np.concatenate([one for _, one in told])
    hits, visited = int(said[true].sum()), int(true.sum())
    false, others = int(said[~true].sum()), int((~true).sum())
    right, wrong = hits / max(visited, 1), false / max(others, 1)
    low_r, high_r = wilson(hits, visited)
    low_w, high_w = wilson(false, others)
    value = right - wrong
    low = value - math.hypot(right - low_r, high_w - wrong)
    high = value + math.hypot(high_r - right, wrong - low_w)
    return Advantage(value, low, high, right, wrong, true.size)


def _threshold(scores: Floats, answer: NDArray[np.bool_]) -> float:
    """Where yes less false yes is most; halfway between two scores, so that ties stay together."""
    order = np.argsort(-scores, kind="stable")
    sorted_scores, true = scores[order], answer[order]
    gain = np.cumsum(true) / max(true.sum(), 1) - np.cumsum(~true) / max((~true).sum(), 1)
    last = np.r_[sorted_scores[1:] != sorted_scores[:-1], True]
    best = int(np.argmax(np.where(last, gain, -np.inf)))
    if gain[best] <= 0:
        return math.inf
    here, below = sorted_scores[best], sorted_scores[min(best + 1, scores.size - 1)]
    return float(here if not np.isfinite(below) else (here + below) / 2)


def allowed(epsilon: float, delta: float) -> float:
    """No adversary's advantage exceeds this under (epsilon, delta) for a whole record.

    Two answers about one pair are two records of a person: one removed and one added. With T the
    share of yes under one and F under the other, T <= e^(2 eps) F + (1 + e^eps) delta and the same
    for no; the difference is largest where both are equalities.
    """
    both = (1 + math.exp(epsilon)) * delta
    return min(1.0, math.tanh(epsilon) + 2 * both / (1 + math.exp(2 * epsilon)))


def from_table(
    table: Floats,
    held: Visited,
    asked: Questions,
    *,
    inside: bool = True,
    least: int | None = None,
) -> Floats:
    """Knows all others: the published count less theirs, in units of what is usual there.

    `table` is place x slot with NaN where nothing is published; `held` are the people who were
    counted; `inside`: whether the targets are among them. Where a table leaves out what is below
    `least`, a missing count says something too: one visit more would have shown it.
    """
    counts = held.counts().astype(np.float64)
    place, slot = asked.pair % held.places, asked.pair // held.places
    others = counts[place, slot] - (asked.answer if inside else 0)
    rest = table[place, slot] - others
    # Noise differs with the level of a count where a release smooths: residuals of all cells with
    # about as many people tell how much is usual. The adversary can compute them.
    level = np.digitize(counts, np.unique(np.quantile(counts, np.linspace(0, 1, 21)[1:-1])))
    away = np.abs(table - counts)
    usual = np.zeros(int(level.max()) + 1)
    for number in range(usual.size):
        mine = away[(level == number) & np.isfinite(away)]
        usual[number] = np.sqrt(np.mean(mine**2)) if mine.size else 0.0
    scores = rest / np.maximum(usual[level[place, slot]], 1e-3)
    if least is not None:
        missing = ~np.isfinite(rest)
        scores[missing] = np.where(others[missing] == least - 1, -np.inf, -1e-9)
    return scores


def from_answers(
    answers: Floats,
    exact: Floats,
    sd: Floats,
    rows: Workload,
    held: Visited,
    asked: Questions,
    *,
    clip: int | None = None,
    inside: bool = True,
) -> Floats:
    """Knows all others, and has answers about ranges (NaN: refused).

    Each answer less the others' visits says how often the target was in the range. Exact answers
    (`sd` 0): a range without a visit rules the pair out, otherwise the smallest range decides.
    Noisy ones: the sum over the ranges that hold the pair, weighed by their noise. `exact` are the
    answers before noise, in which a person counts at most `clip` times.
    """
    told = np.isfinite(answers)
    members: Any = rows.places
    places = members.tocsc()
    by_place = [places.indices[places.indptr[p] : places.indptr[p + 1]] for p in range(held.places)]
    size = np.asarray(members.sum(axis=1)).ravel() * rows.slot_counts
    scores = np.full(len(asked), np.nan)
    for number in range(len(asked)):
        at, when = asked.pair[number] % held.places, asked.pair[number] // held.places
        of = by_place[at][(rows.slots[by_place[at], when] > 0) & told[by_place[at]]]
        if not of.size:
            continue
        own = np.zeros(of.size)
        if inside:  # the adversary subtracts everybody but the target
            who = asked.person[number]
            pairs = held.pairs[held.starts[who] : held.starts[who + 1]]
            mine = members[of][:, pairs % held.places].toarray()
            own = (mine * rows.slots[np.ix_(of, pairs // held.places)]).sum(axis=1)
        rest = answers[of] - (exact[of] - np.minimum(own, clip or np.inf))
        noise = sd[of]
        if (noise > 0).any():
            weight = 1 / np.maximum(noise, 1e-9) ** 2
            scores[number] = (rest * weight).sum() / math.sqrt(weight.sum())
        elif (rest < 0.5).any():
            scores[number] = -1.0
        else:
            scores[number] = (rest / size[of]).max()
    return scores


def from_traces(
    published: NDArray[np.float32],
    centres: Floats,
    asked: Questions,
    *,
    scale_m: float | None = None,
) -> Floats:
    """Knows a few points: the traces that fit them best, and how near they are to (L, t).

    `published` is record x slot x 2 in metres with NaN where a record has no point. A record
    weighs exp(-metres over all known points / scale); the score is how near those records are to
    the place in that slot, over how near records are on the whole. The scale is the usual
    distance of neighbouring places, or what the release is known to move points by.
    """
    places = len(centres)
    nearest = np.asarray(cKDTree(centres).query(centres, k=2)[0])
    scale = scale_m or float(np.median(nearest[:, 1]))
    slot, place = asked.known // places, asked.known % places
    return _fitting(
        published,
        slot,
        centres[place].astype(np.float32),
        asked.pair // places,
        centres[asked.pair % places].astype(np.float32),
        max(scale, 1.0),
    )


@compiled
def _fitting(
    published: NDArray[np.float32],
    slot: Ints,
    at: NDArray[np.float32],
    when: Ints,
    where: NDArray[np.float32],
    scale: float,
) -> Floats:
    many = published.shape[0]
    scores, metres = np.zeros(when.size), np.empty(many)
    far = 40.0 * scale  # a missing point, and the most that a point can count
    for q in range(when.size):
        least = np.inf
        for r in range(many):
            total = 0.0
            for k in range(slot.shape[1]):
                x = published[r, slot[q, k], 0] - at[q, k, 0]
                y = published[r, slot[q, k], 1] - at[q, k, 1]
                away = math.sqrt(x * x + y * y)
                total += away if away < far else far  # NaN compares as not below
            metres[r] = total
            least = min(least, total)
        near, weights, usual = 0.0, 0.0, 0.0
        for r in range(many):
            x = published[r, when[q], 0] - where[q, 0]
            y = published[r, when[q], 1] - where[q, 1]
            away = math.sqrt(x * x + y * y)
            close = math.exp(-away / scale) if away < far else 0.0
            usual += close
            if metres[r] - least < 20.0 * scale:
                weight = math.exp(-(metres[r] - least) / scale)
                near += weight * close
                weights += weight
        scores[q] = near / weights / (usual / many + 1e-6)
    return scores


def density_of_paths(metres: NDArray[np.float32], centres: Floats) -> Floats:
    """People by nearest place and slot."""
    slots, places = metres.shape[1], len(centres)
    tree, table = cKDTree(centres), np.zeros((places, slots))
    for t in range(slots):
        at = metres[:, t][np.isfinite(metres[:, t, 0])]
        table[:, t] = np.bincount(np.asarray(tree.query(at)[1], np.int64), minlength=places)
    return table
