"""The parts of `sfumato reproduce recovery`, one function each: plain rows, and a plot where due.

INTERNAL by nature, though the crowd is synthetic: every figure compares with the truth.

*Leave-fold-out* (`leave_fold_out_accuracy`): the same scheme and the same attack had a person not
been in the data: the promise, played out. Differential privacy compares a release with the one that
would have been made without the person.
Here that is done: people are dealt into folds by lot; for each fold the scheme publishes everybody
*outside* it, with noise of its own, and the attack recovers as many trajectories as there are
people. All people pair with them greedily, the left-out ones too, and only the fold's own people
are scored. What the attack reaches on the whole table *above* this, it learned from people's own
records; the rest is the map, which is told whether or not they take part.

The adversary knows how many people there are and scales every slot to that number, whatever the
table shows, for those who take part and for those who do not: the comparison must not turn on a
total that a fold makes smaller.

This stands beside the baseline that knows all others and does not replace it: it explains how
much of an accuracy is the scheme telling the map well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.attack import Method, Solver, recover
from sfumato.attacks.recovery.baselines import JUDGED_BY, greedy_pairing
from sfumato.attacks.report import BASELINES, save_curves
from sfumato.attacks.trajectories import Fill, People, counts_of
from sfumato.city.crowd import CrowdPlan
from sfumato_lab.studies.recovery import points as paper
from sfumato_lab.studies.recovery import points as taxis
from sfumato_lab.studies.recovery.figure6 import (
    Protected,
    printed_schemes,
    publish_printed,
    readings,
    with_past,
)
from sfumato_lab.studies.recovery.points import READINGS, Point, score_readings, truth_of
from sfumato_lab.studies.recovery.schemes import Attacked, attacked, pooled, pooled_unprotected

FOLDS = 20


def leave_fold_out_accuracy(
    town: Attacked, scheme: str, epsilon: float, seed: int, *, folds: int = FOLDS
) -> float:
    """Greedy accuracy on people whom the attacked table does not count."""
    people = len(town.truth.cells)
    rng = np.random.default_rng([0x1EF7, seed])
    right = 0
    for k, part in enumerate(np.array_split(rng.permutation(people), min(folds, people))):
        who = np.ones(people, dtype=bool)
        who[part] = False
        table = town.published(scheme, epsilon, 1_000 * (seed + 1) + k, who=who)
        right += int(_right(town, table, seed)[part].sum())
    return right / town.truth.cells.size


def taking_part(town: Attacked, scheme: str, epsilon: float, seed: int) -> float:
    """The same attack on the table that counts everybody."""
    return float(_right(town, town.published(scheme, epsilon, seed), seed).mean())


def _right(town: Attacked, table: NDArray[np.float64], seed: int) -> NDArray[np.bool_]:
    """Person x slot: whether the attack has them right."""
    truth, ground = town.truth.cells, town.truth.ground
    method = Method(solver=Solver.CELLS, fill=Fill.SCALE, people=len(truth))
    found = recover(table, ground, town.truth.clock, method, seed=seed).cells
    partner = greedy_pairing(truth, found, ground.cells)
    paired = np.where((partner >= 0)[:, None], found[partner], -1)
    return np.asarray(paired == truth)


Tell = Callable[[str, float], None]
Curves = dict[str, tuple[list[float], list[float]]]
Rows = list[dict[str, Any]]
SIDE = 30
"""Cells along a side of the small map."""
NOISE_SIDE = 20
NOISE = (30.0, 10.0, 3.0, 1.0, 0.1)
DELTA = 1e-6
_ACCURACY = "accuracy, %"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: crowds of `people` from the seed `first` on, `draws` of noise each."""

    people: int
    crowds: int
    draws: int
    first: int

    def plans(self, times: float = 1, side: int | None = None) -> list[CrowdPlan]:
        """One plan a crowd, of so many times the people; without a side, the paper's map."""
        people = max(4, round(times * self.people))
        seeds = range(self.first, self.first + self.crowds)
        plans = [CrowdPlan(people=people, days=1, seed=seed) for seed in seeds]
        return plans if side is None else [replace(p, columns=side, rows=side) for p in plans]

    def towns(self, times: float = 1, side: int | None = None) -> list[Attacked]:
        return [Attacked(plan, DELTA) for plan in self.plans(times, side)]


def crowd(size: Size, out: Path, tell: Tell) -> Rows:
    """Figure 5a: accuracy against the number of points."""
    found = score_readings(
        [truth_of(plan) for plan in size.plans()],
        range(10, 20, 3),
        READINGS,
        seeds=size.draws,
        progress=lambda share: tell("crowd", share),
    )
    curves: Curves = {}
    for point in found:
        _add(curves, _named(point.reading), point.points, point.greedy)
    curves["paper"] = ([float(n) for n in paper.CROWD], list(paper.CROWD.values()))
    save_curves({"synthetic crowd": curves}, ("points", _ACCURACY), out / "recovery-crowd.png")
    return [asdict(point) for point in found]


def taxi_fleet(size: Size, fleet: taxis.Fleet, path: Path, picture: Path, tell: Tell) -> Any:
    """Figure 5b at every starting hour, for taxis seen in every slot and taxis held in place."""
    cells, ground = taxis.read_fleet(fleet, path)
    chosen = {name: READINGS[name] for name in ("prediction by day", "distance alone")}
    found: dict[str, dict[int, Rows]] = {}
    panels: dict[str, Curves] = {}
    for how, held in (("seen", False), ("held", True)):

        def told(share: float, how: str = how) -> None:
            tell(f"{fleet.name}, {how}", share)

        by_hour = taxis.taxi_study(
            cells, ground, chosen, held=held, seeds=size.draws, progress=told
        )
        found[how] = {hour: [asdict(point) for point in rows] for hour, rows in by_hour.items()}
        for points in (5, 10):
            panels[f"{how}, {points} points"] = _by_hour(by_hour, points)
    save_curves(panels, ("starting hour", _ACCURACY), picture, fleet.name)
    return found


def printed(size: Size, budgets: Sequence[float], out: Path, tell: Tell) -> Rows:
    """Figure 6a: the four schemes of Chen et al. as printed, 19 points of the crowd."""
    crowds = [with_past(plan) for plan in size.plans()]
    picture = out / "recovery-protected.png"
    return _printed(crowds, budgets, size.draws, picture, "after protection", tell)


def printed_taxis(
    size: Size, fleet: taxis.Fleet, path: Path, budgets: Sequence[float], out: Path, tell: Tell
) -> Rows:
    """Figure 6b: the same on taxis that are held at their last known place, 10 points from 8 on.

    The days before are the dynamic scheme's past, as many of the seven as the data have.
    """
    before = [
        replace(fleet, day=str(np.datetime64(fleet.day) - np.timedelta64(days, "D")))
        for days in range(7, 0, -1)
    ]
    tell(f"{fleet.name}: reading", 0.0)
    today = taxis.windows(*taxis.read_fleet(fleet, path), _HOUR, _POINTS, size.people, held=True)
    past = []
    for day in before:
        cells, ground = taxis.read_fleet(day, path)
        if (cells >= 0).any():
            part = taxis.windows(cells, ground, _HOUR, _POINTS, size.people, held=True)
            past.append(counts_of(part.cells, ground.cells).T)
    history = np.stack(past or [today.counts.T * 0])
    picture = out / f"recovery-protected-{fleet.name.lower()}.png"
    title = f"{fleet.name}, after protection"
    return _printed([(today, history)], budgets, size.draws, picture, title, tell)


_HOUR, _POINTS = 8, 10
"""The paper does not say which hour its taxis begin at; 10 points is its longer window."""


def _printed(
    crowds: Sequence[tuple[People, NDArray[np.int64]]],
    budgets: Sequence[float],
    draws: int,
    picture: Path,
    title: str,
    tell: Tell,
) -> Rows:
    """Each printed scheme attacked at each budget, on people with their past."""
    rows: list[Protected] = []
    curves: Curves = {}
    for k, name in enumerate(printed_schemes(crowds[0][1])):
        for budget in budgets:
            runs = [
                attacked(name, truth, publish_printed(scheme, truth.counts, budget, seed), seed)
                for truth, past in crowds
                for scheme in (printed_schemes(past)[name],)
                for seed in range(draws)
            ]
            rows.append(Protected.of(name, budget, runs))
            _add(curves, name, budget, rows[-1].greedy)
            if k == 0:  # the baseline does not see the table, so one curve is enough
                _add(curves, BASELINES[JUDGED_BY], budget, rows[-1].others)
        tell(f"printed schemes, {title}", (k + 1) / 4)
    for level in paper.PROTECTED:
        curves[f"paper, {level:g} %"] = ([min(budgets), max(budgets)], [level, level])
    save_curves({title: curves}, ("ε", _ACCURACY), picture)
    return [asdict(row) for row in rows]


def figure6(size: Size, budgets: Sequence[float], tell: Tell) -> Rows:
    """Every reading of Figure 6 on the first crowd: what its text leaves open."""
    ends = sorted({min(budgets), max(budgets)})
    found = readings(
        size.plans()[0], ends, size.draws, progress=lambda share: tell("readings", share)
    )
    return [asdict(row) for row in found]


def schemes(
    size: Size, names: Sequence[str], budgets: Sequence[float], side: int | None, tell: Tell
) -> Rows:
    """Schemes of this package on the small map, or on the paper's."""
    towns = size.towns(side=side)
    rows = pooled_unprotected(towns, seeds=size.draws)
    for k, name in enumerate(names):
        rows += [pooled(towns, name, budget, range(size.draws)) for budget in budgets]
        tell("schemes", (k + 1) / len(names))
    return [asdict(row) for row in rows]


def without(
    size: Size, names: Sequence[str], budgets: Sequence[float], side: int | None, tell: Tell
) -> Rows:
    """What is found of people who take part and of people who do not, by scheme."""
    towns, rows = size.towns(side=side), []
    for k, name in enumerate(names):
        for budget in budgets:
            runs = [(town, seed) for town in towns for seed in range(size.draws)]
            inside = [taking_part(town, name, budget, seed) for town, seed in runs]
            outside = [leave_fold_out_accuracy(town, name, budget, seed) for town, seed in runs]
            rows.append(
                {
                    "scheme": name,
                    "epsilon": budget,
                    "runs": len(runs),
                    "inside": float(np.mean(inside)),
                    "inside_spread": float(np.std(inside)),
                    "outside": float(np.mean(outside)),
                    "outside_spread": float(np.std(outside)),
                }
            )
        tell("left out", (k + 1) / len(names))
    return rows


def noise(size: Size, out: Path, tell: Tell) -> Rows:
    """One scheme from hardly any noise to very much of it."""
    towns, rows, curves = size.towns(0.4, NOISE_SIDE), [], Curves()
    for k, budget in enumerate(NOISE):
        rows.append(pooled(towns, "gaussian", budget, range(size.draws)))
        _add(curves, "attack", budget, rows[-1].greedy)
        _add(curves, BASELINES[JUDGED_BY], budget, rows[-1].others)
        tell("noise", (k + 1) / len(NOISE))
    save_curves({"gaussian": curves}, ("ε", _ACCURACY), out / "recovery-noise.png", log=True)
    return [asdict(row) for row in rows]


def suppression(size: Size) -> Rows:
    """Counts below 5 and 15 left out in towns with five and twenty times the people."""
    rows = []
    for times in (5, 20):
        towns = size.towns(times, SIDE)
        for row in pooled_unprotected(towns, suppress=(5, 15), seeds=size.draws):
            name = f"{len(towns[0].days):,} people, {row.scheme}"
            rows.append(asdict(replace(row, scheme=name)))
    return rows


def _by_hour(by_hour: dict[int, list[Point]], points: int) -> Curves:
    curves: Curves = {}
    for hour, rows in by_hour.items():
        for row in rows:
            if row.points == points:
                _add(curves, _named(row.reading), hour, row.greedy)
    return curves


def _add(curves: Curves, name: str, x: float, share: float) -> None:
    along, values = curves.setdefault(name, ([], []))
    along.append(x)
    values.append(100 * share)


def _named(reading: str) -> str:
    """Baselines in words."""
    name = reading.removeprefix("baseline: ")
    return BASELINES.get(name, name)
