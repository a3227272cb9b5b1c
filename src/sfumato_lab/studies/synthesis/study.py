"""`sfumato reproduce synthesis`: methods x epsilon x grounds, and the page of it. INTERNAL.

Parts, each a function that keeps its numbers in the folder and hands back its section:

* `trips`: every method for trips on four grounds, beside another true sample;
* `pairs`: the chapter's example, DP-WHERE against n-grams on home-work pairs, as a figure;
* `copying`: nearest neighbours and membership against trips that were held back;
* `printed`: what is wrong with the printed forms.

Methods plan, measure and generate as `sfumato synth` does, with seeded noise instead of a ledger's;
the recurrent network is trained here alone (`recurrent`).
Nothing here was tuned on: constants of methods are their own.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.density.scheme import PublicFacts
from sfumato.errors import UsageError
from sfumato.io.write import write_bytes
from sfumato.model.traces import Traces
from sfumato.privacy.wall import Wall
from sfumato.synthesis.evaluate import trips_on_plane
from sfumato.synthesis.method import SynthFacts, settings_of
from sfumato.synthesis.registry import method_named
from sfumato.traces.bounds import TraceSource
from sfumato.utility.copying import NEVER_A_GATE, Copying, copying_checks, trip_points
from sfumato.utility.trips import TripJudge, Trips, exact_repeats
from sfumato_lab.studies.queries.page import Grid, Picture, Section, Tell, html_page, markdown_page
from sfumato_lab.studies.synthesis import ground, pairs, printed, recurrent
from sfumato_lab.studies.synthesis.ground import Ground

PAGE, HTML = "synthesis.internal.md", "synthesis.internal.html"
NUMBERS = "synthesis-{part}.internal.json"
TITLE = "Synthetic data"
METHODS = ("fit", "adatrace", "ngrams", "prefix", "dpt")
NETWORK = "recurrent"
"""Trained only where it is named: it takes torch, and minutes."""
CHAPTER = ("ngrams", "prefix", "dpt")
GROUNDS = ("cabs", "phones", "city", "crowd")
TRUE = "another true sample"
JUDGED = 3_000
DELTA = 1e-6
SHOWN = {
    "query_R/3": ("query R/3", False),
    "query_R/10": ("R/10", False),
    "pattern_f1": ("F1", True),
    "trip_jsd": ("trip", False),
    "diameter_jsd": ("diameter", False),
    "length_jsd": ("length", False),
    "kendall_tau": ("Kendall τ", True),
    "density_jsd": ("density", False),
    "hotspot_ndcg": ("NDCG", True),
}
"""Figures of the table, and whether more is better."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is to be done."""

    epsilons: tuple[float, ...] = (0.1, 1.0, 2.0)
    methods: tuple[str, ...] = METHODS
    grounds: tuple[str, ...] = GROUNDS
    trips: int = 10_000
    people: int = 20_000
    """Of the made-up city and crowd."""
    draws: int = 1
    seed: int = 4_201
    figures: bool = True
    data: Path | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one ground at one epsilon, the mean of the draws."""

    ground: str
    method: str
    epsilon: float
    trips: int
    figures: dict[str, float]
    cpu_s: float


def grounds(settings: Settings, tell: Tell) -> list[tuple[Ground, Ground]]:
    """Trips that go in, and trips like them that are held back, of every ground there is."""
    found = []
    for name in settings.grounds:
        tell(f"cutting {name}", -1.0)
        whole = _cut(name, settings.data, settings.people, settings.seed)
        if whole is None:
            continue
        rng = np.random.default_rng(settings.seed)
        order = rng.permutation(whole.trips)
        size = min(settings.trips, (whole.trips + 1) // 2)
        found.append((whole.pick(order[:size]), whole.pick(order[size : 2 * size])))
    if not found:
        raise UsageError(
            "None of these trips are here.", remedy="Give `data`, or take city and crowd."
        )
    return found


@lru_cache(maxsize=4)
def _cut(name: str, data: Path | None, people: int, seed: int) -> Ground | None:
    """A ground; none where its data are absent."""
    if name in ("cabs", "phones"):
        folder = {"cabs": "cabspotting_sf", "phones": "saopaulo_gps"}[name]
        if data is None or not (data / folder).is_dir():
            return None
        return ground.cabs(data) if name == "cabs" else ground.phones(data)
    return (ground.city if name == "city" else ground.crowd)(people, seed)


def made_by(name: str, at: Ground, epsilon: float, delta: float, seed: int) -> Trips:
    """As many made-up trips as there are true ones, rounded as public knowledge would be."""
    expected = max(round(at.trips, -2), 100)
    with threadpool_limits(1):
        if name == NETWORK:
            columns = recurrent.made_trips(at, expected, (epsilon, delta), seed)
        else:
            columns = _by_method(name, at, expected, (epsilon, delta), seed)
    user, lon, lat = columns
    rows = np.arange(user.size)
    traces = Traces(np.empty(0, object), user, np.zeros_like(rows), rows, lon, lat, rows)
    return trips_on_plane(traces, at.plane)


def _by_method(
    name: str, at: Ground, expected: int, budget: tuple[float, float], seed: int
) -> list[NDArray[Any]]:
    """Person, longitude and latitude of records that a method of `sfumato synth` makes."""
    method, (epsilon, delta) = method_named(name), budget
    public = PublicFacts(
        place_ids=np.empty(0, dtype=np.str_),
        grid=at.grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected,
        unit=method.declares.unit,
    )
    facts = SynthFacts(public, expected, seed, settings_of(method, {}), box=at.box)
    noisy = method.measure(TraceSource(at.traces), Wall.seeded(seed), facts)
    chunks = list(method.generate(noisy, facts))
    columns = ("user", "lon", "lat")
    return [np.concatenate([getattr(chunk, column) for chunk in chunks]) for column in columns]


def some(trips: Trips, count: int, seed: int) -> Trips:
    """A few of the trips, or all."""
    rng = np.random.default_rng(seed)
    return trips.pick(rng.choice(len(trips), min(count, len(trips)), replace=False))


def trip_rows(settings: Settings, tell: Tell) -> list[Row]:
    """Every method on every ground at every epsilon, and the line of the possible."""
    rows: list[Row] = []
    for inside, outside in grounds(settings, tell):
        true = inside.on_plane()
        judge = TripJudge(some(true, JUDGED, 3))
        possible = judge.judge(some(outside.on_plane(), JUDGED, 4))
        rows.append(Row(inside.name, TRUE, 0.0, inside.trips, possible, 0.0))
        for method in settings.methods:
            for epsilon in settings.epsilons:
                tell(f"{inside.name}: {method} at {epsilon:g}", -1.0)
                figures, begun = [], time.process_time()
                for draw in range(settings.draws):
                    made = made_by(method, inside, epsilon, DELTA, settings.seed + draw)
                    scored = judge.judge(some(made, JUDGED, 5))
                    figures.append(scored | {"exact_repeats": exact_repeats(made)})
                seconds = (time.process_time() - begun) / settings.draws
                mean = {key: float(np.mean([one[key] for one in figures])) for key in figures[0]}
                rows.append(Row(inside.name, method, epsilon, inside.trips, mean, seconds))
    return rows


def trips_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Tables of figures, one for each ground."""
    rows = trip_rows(settings, tell)
    _keep(out, "trips", [asdict(row) for row in rows])
    blocks: list[str | Grid | Picture] = [
        f"Unit: a trip; (ε, {DELTA:g}) in each; mean of {settings.draws} draws of noise and trips. "
        f"Judged on {JUDGED:,} true trips at most and as many synthetic ones; grounds and the rule "
        "of cutting are in `sfumato_lab.studies.synthesis.ground`. Divergences in bits; F1, τ and "
        "NDCG: more is better; CPU-seconds include the judge."
    ]
    for name in dict.fromkeys(row.ground for row in rows):
        here = [row for row in rows if row.ground == name]
        lines = [
            [
                row.method,
                f"{row.epsilon:g}" if row.epsilon else "",
                *(_figure(row.figures[key]) for key in SHOWN),
                _figure(row.figures.get("exact_repeats", 0.0)),
                f"{row.cpu_s:.0f}",
            ]
            for row in here
        ]
        head = ["method", "ε", *(words for words, _ in SHOWN.values()), "repeats", "CPU-s"]
        blocks.append(Grid(f"{name}: {here[0].trips:,} trips", head, lines))
    blocks.append(_won(rows))
    return Section("Trips", blocks)


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def _won(rows: Sequence[Row]) -> str:
    """In how many cells each method is the best."""
    wins = dict.fromkeys((row.method for row in rows if row.method != TRUE), 0)
    cells = ahead = 0
    for name in dict.fromkeys(row.ground for row in rows):
        for epsilon in dict.fromkeys(row.epsilon for row in rows if row.epsilon):
            here = [row for row in rows if (row.ground, row.epsilon) == (name, epsilon)]
            for key, (_, more) in SHOWN.items():
                order = sorted(here, key=lambda row: row.figures[key], reverse=more)
                wins[order[0].method] += 1
                places = {row.method: row.figures[key] * (1 if more else -1) for row in here}
                rivals = [places.get(method, math.inf) for method in CHAPTER]
                ahead += places.get("fit", -math.inf) >= max(rivals)
                cells += 1
    told = ", ".join(f"{name} {count}" for name, count in wins.items())
    said = f"Best of all methods, of {cells} cells (grounds x ε x figures): {told}."
    if {"fit", *CHAPTER} <= set(wins):
        said += f" `fit` is at least level with n-grams, prefix tree and DPT at once in {ahead}."
    return said


def copying_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Membership on trips, inside the bound or not."""
    lines: list[list[str]] = []
    numbers: list[dict[str, object]] = []
    epsilon = settings.epsilons[-1]

    def add(where: str, method: str, found: Copying) -> None:
        numbers.append({"ground": where, "method": method, **found.figures()})
        shown = (found.synthetic_nearer_members, found.membership, found.outliers_found)
        cells = [f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})" for one in shown]
        lines.append([where, method, f"{epsilon:g}", *cells, f"{found.bound:.3f}"])

    for inside, outside in grounds(settings, tell):
        members, held_back = (trip_points(one.on_plane()) for one in (inside, outside))
        for method in settings.methods:
            tell(f"{inside.name}: copies by {method}", -1.0)
            made = made_by(method, inside, epsilon, DELTA, settings.seed)
            found = copying_checks(members, held_back, trip_points(made), epsilon, DELTA)
            add(inside.name, method, found)
    if "city" in settings.grounds:
        for method, found in pairs.people_copies(settings.people, epsilon, settings.seed, tell):
            add("city, people", method, found)
    _keep(out, "copying", numbers)
    head = ["ground", "method", "ε", "nearer to members", "membership", "outliers", "bound"]
    words = (
        "Members went in, as many trips or people like them were held back. 0.5 of the synthetic "
        "ones lie nearer to members where nothing is copied; advantages with 95 % intervals stand "
        "beside what the claim allows."
    )
    return Section("Copies", [words, Grid("Copying checks", head, lines), NEVER_A_GATE])


def pairs_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """The chapter's example."""
    rows = pairs.pair_rows(settings.people, settings.epsilons, settings.draws, settings.seed, tell)
    _keep(out, "pairs", [asdict(row) for row in rows])
    if settings.figures:
        pairs.draw_pairs(rows, out / pairs.PICTURE)
    return pairs.pairs_section(rows, settings.people, settings.figures)


def printed_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """What is wrong with the printed forms, each run on neighbours and measured."""
    trips = _cut("city", None, settings.people, settings.seed)
    assert trips is not None
    found = printed.losses(trips, settings.seed, tell)
    _keep(out, "printed", [asdict(one) for one in found])
    return printed.printed_section(found)


def _keep(out: Path, part: str, numbers: object) -> None:
    write_bytes(out / NUMBERS.format(part=part), f"{json.dumps(numbers, indent=1)}\n".encode())


PARTS: Mapping[str, Callable[[Settings, Path, Tell], Section]] = {
    "trips": trips_part,
    "pairs": pairs_part,
    "copying": copying_part,
    "printed": printed_part,
}
"""Run in this order."""


def study(settings: Settings, parts: Sequence[str], out: Path, tell: Tell) -> str:
    """The page; every part has written its numbers before the next one begins."""
    out.mkdir(parents=True, exist_ok=True)
    sections = []
    for name, part in PARTS.items():
        if name in parts:
            tell(name, 0.0)
            sections.append(part(settings, out, tell))
    page = markdown_page(sections, TITLE)
    write_bytes(out / PAGE, page.encode())
    write_bytes(out / HTML, html_page(sections, TITLE).encode())
    return page
