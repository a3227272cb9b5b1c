"""What the printed forms give away, measured: each is run on two neighbouring data sets.

Of a form whose flaw shows in what it makes up, an observer looks for one public sign and says which
of the two data sets went in. Under epsilon alone the sign may be e^epsilon times as likely in one
as in the other; both shares are taken over `RUNS` runs, and the loss that they prove is the
logarithm of the lower end over the upper end of their 95 % intervals (Clopper & Pearson 1934). Of a
form whose noise is charged too little, the loss is how much one unit moves what it publishes, over
what was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from sfumato.utility.trips import Trips
from sfumato_lab.as_printed import trips as forms
from sfumato_lab.as_printed.synthesis import FLAWS, Callers, class_loss, tree_loss, where
from sfumato_lab.studies.queries.page import Grid, Section, Tell
from sfumato_lab.studies.synthesis.ground import Ground
from sfumato_lab.synthesis.grams import cell_chains

EPSILON = 1.0
RUNS = 100
SOME = 400
"""Trips that the forms are run on."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One printed form on one pair of neighbours, claimed epsilon 1."""

    method: str
    sign: str
    """What the observer looks for, or what moves."""
    with_one: float | None
    without: float | None
    """Shares of runs with the sign."""
    loss: float
    """Proved by the runs, or moved over charged."""


def interval(hits: int, runs: int) -> tuple[float, float]:
    """95 % of a share."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, runs - hits + 1))
    high = 1.0 if hits == runs else float(beta.ppf(0.975, hits + 1, runs - hits))
    return low, high


def told_apart(
    method: str,
    sign: str,
    run: Callable[[Trips, np.random.Generator], forms.Printed],
    pair: tuple[Trips, Trips],
    seen: Callable[[forms.Printed], bool],
    seed: int,
    runs: int = RUNS,
) -> Loss:
    """How often the sign is there, with the one trip and without."""
    hits = [
        sum(seen(run(trips, np.random.default_rng([seed, side, k]))) for k in range(runs))
        for side, trips in enumerate(pair)
    ]
    low, high = interval(hits[0], runs)[0], interval(hits[1], runs)[1]
    proved = math.log(max(low, 1e-12) / high)
    return Loss(method, sign, hits[0] / runs, hits[1] / runs, max(proved, 0.0))


def losses(city: Ground, seed: int, tell: Tell, runs: int = RUNS) -> list[Loss]:
    """Every printed form on days of a made-up city."""
    rng = np.random.default_rng(seed)
    everybody = city.on_plane()
    some = everybody.pick(rng.choice(len(everybody), min(SOME, len(everybody)), replace=False))
    west, east, south, north = some.box
    box = (west - 1.0, east + 1.0, south - 1.0, north + 1.0)
    # One more: it goes farther east than all, is longer than all, and waits in a far corner first.
    across = np.linspace(east + 0.9, west, 400)
    wave = south + (north - south) * (0.5 + 0.45 * np.sin(np.arange(400)))
    across[:2], wave[:2] = east + 0.9, north + 0.9
    one = Trips(
        np.concatenate([some.x, across]),
        np.concatenate([some.y, wave]),
        np.append(some.starts, some.x.size + 400),
    )
    pair = (one, some)
    side, h = 8, 6
    most = int(np.diff(cell_chains(forms.in_box(some, box), side, 1 << 12, marks=2).starts).max())
    spot = forms.in_box(one, box)
    corner = (int(spot.x[some.x.size] * 32), int(spot.y[some.x.size] * 32))

    def begins_there(found: forms.Printed) -> bool:
        first = found.made.starts[:-1]
        at = np.stack([found.made.x[first] * 32, found.made.y[first] * 32], axis=1).astype(int)
        return bool((at == corner).all(axis=1).any())

    tell("printed forms: AdaTrace, n-grams, DPT", -1.0)
    found = [
        told_apart(
            "AdaTrace", "a made-up point east of everybody else's",
            lambda trips, r: forms.adatrace(trips, EPSILON, r), pair,
            lambda out: bool(_east_of(out) > east), seed, runs,
        ),
        told_apart(
            "n-grams", "the published cut l_max",
            lambda trips, r: forms.ngrams(forms.in_box(trips, box), box, EPSILON, r, side), pair,
            lambda out: out.longest > most, seed, runs,
        ),
        told_apart(
            "DPT", "a made-up trip that begins where nobody else does",
            lambda trips, r: forms.dpt(forms.in_box(trips, box), box, EPSILON, r), pair,
            begins_there, seed, runs,
        ),
    ]  # fmt: skip
    tell("printed forms: what one unit moves", -1.0)
    found.append(
        Loss("DPT", "move-grams in four trees, each charged alone", None, None,
             tree_loss(everybody, (4, 8, 16, 32)))
    )  # fmt: skip
    found.append(
        Loss("prefix tree", f"prefixes of one person's days, charged {h} for {h} levels", None,
             None, _person_loss(everybody, h))
    )  # fmt: skip
    people = callers(seed)
    where(people, 40, EPSILON, rng)
    worst = max(class_loss(people.profile, k) for k in range(len(people.profile)))
    found.append(Loss("DP-WHERE", "calls by class and hour, charged 1", None, None, worst))
    return found


def _east_of(found: forms.Printed) -> float:
    west, east, _, _ = found.box
    return float(west + (east - west) * found.made.x.max())


def _person_loss(trips: Trips, levels: int, days: int = 7) -> float:
    """A person who makes the same trip every day of a week is in every prefix of it seven times.

    Counted: prefixes of so many levels with the person's trips and without, over the charge.
    """
    inside = forms.in_box(trips.pick(np.zeros(days, np.int64)), trips.box)
    chains = cell_chains(inside, 6, 20, marks=1)
    moved = np.minimum(np.diff(chains.starts), levels).sum()
    alone = min(int(np.diff(chains.starts)[0]), levels)
    return float(moved / alone)


def callers(seed: int, people: int = 300, places: int = 40) -> Callers:
    """People of the day and of the night, and one between: k-means begins with first and last."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24)
    day = np.exp(-np.square(hours - 13) / 18)
    night = np.exp(-np.square((hours - 23 + 12) % 24 - 12) / 18)
    share = np.clip(rng.normal(0.5, 0.25, people), 0, 1)[:, None]
    profile = share * day / day.sum() + (1 - share) * night / night.sum()
    home, work = rng.integers(0, places, (2, people))
    return Callers(home, work, rng.exponential(5.0, people), profile)


def printed_section(found: list[Loss]) -> Section:
    """Claims, verdicts, corrections, and what was measured."""
    shown = [
        [
            one.method,
            one.sign,
            "" if one.with_one is None else f"{one.with_one:.2f}",
            "" if one.without is None else f"{one.without:.2f}",
            f"{one.loss:.2f}",
        ]
        for one in found
    ]
    words = (
        f"Each form was run as printed, claiming ε {EPSILON:g}, on days of a made-up city with and "
        f"without one unit ({RUNS} runs each). The last column is the loss that the runs prove "
        "with 95 % confidence, or, where there are no shares, how many times its charge one unit "
        "moves what is published. A sign that is never there without the unit has no bound at "
        "all: what is proved grows with the runs."
    )
    lines = [[one.method, one.claim, one.verdict, one.correction] for one in FLAWS]
    return Section(
        "Printed forms",
        [
            words,
            Grid(
                "What the printed forms lose",
                ["method", "sign, or what moves", "with", "without", "loss"],
                shown,
            ),
            Grid(
                "What is wrong, and what was changed",
                ["method", "claim", "as printed", "here"],
                lines,
            ),
        ],
    )
