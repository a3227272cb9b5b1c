"""`sfumato reproduce chapter`: the parts of the study, each by its name, and the page they make.

A part works, keeps its numbers in the folder and hands back its section of the page. Results
compare with the truth, so they are internal, though the people are made up or cabs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import canvas
from sfumato.io.write import make_folder, write_bytes
from sfumato_lab.attacks.anonymised.visited import Advantage
from sfumato_lab.studies.chapter import figure1, models
from sfumato_lab.studies.chapter.thesis import (
    ANSWERS,
    DENSITY,
    EVERYBODY,
    METHODS,
    POINTS,
    RECORDS,
    Row,
    thesis_rows,
)
from sfumato_lab.studies.chapter.towns import Town, cab_town, made_town
from sfumato_lab.studies.queries.page import (
    Grid,
    Picture,
    Section,
    Tell,
    html_page,
    markdown_page,
    save_figure,
)

TITLE = "Privacy-preserving release of spatio-temporal density, made again"
PAGE, HTML = "chapter.internal.md", "chapter.internal.html"
NUMBERS = "chapter-{part}.internal.json"
PICTURE = "chapter-thesis.internal.png"
FIRST_SEED = 2_301
"""Of the city that is judged. What was tried while this was written was tried on seed 2101."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is to be done."""

    users: int = 200_000
    towers: int = 1_303
    zones: int = 989
    ranges: int = 2_000
    epsilons: tuple[float, ...] = (0.3, 1.0)
    draws: int = 5
    targets: int = 1_000
    methods: tuple[str, ...] = METHODS
    together: int = 20_000
    """People of each of two releases."""
    together_k: int = 50
    together_draws: int = 3
    trips: int = 1_000
    seed: int = FIRST_SEED
    data: Path | None = None
    figures: bool = True


Part = Callable[[Settings, Path, Tell], Section]


def _keep(out: Path, part: str, numbers: object) -> None:
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    write_bytes(out / NUMBERS.format(part=part), f"{text}\n".encode())


def table_part(_settings: Settings, _out: Path, _tell: Tell) -> Section:
    """Table 1."""
    return models.table_section()


def figure_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Figure 1."""
    folder = (settings.data or Path()) / "oldenburg"
    trips = figure1.make_trips(figure1.read_roads(folder), settings.trips, settings.seed)
    rows = []
    for number, (k, delta) in enumerate(((3, 2_000.0), (3, 0.0), (5, 2_000.0), (10, 2_000.0))):
        tell("Figure 1", number / 4)
        rows.append((k, delta, figure1.walk(trips, k, delta, settings.seed)))
    if settings.figures:
        figure1.draw_figure(rows[0][2], out / figure1.PICTURE)
    section = figure1.figure_section(rows, settings.figures)
    grid = next(block for block in section.blocks if isinstance(block, Grid))
    _keep(out, "figure", [dict(zip(grid.head, row, strict=True)) for row in grid.rows])
    return section


def john_part(settings: Settings, out: Path, _tell: Tell) -> Section:
    """With and without John."""
    rows = models.johns((0.1, 0.3, 1.0), 100_000, settings.seed)
    _keep(out, "john", [asdict(row) for row in rows])
    return models.john_section(rows)


def composition_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Two k-anonymous releases of overlapping people."""
    # Three thirds make two releases; people seen in one slot alone have no trajectory (3 %).
    users = round(1.04 * settings.together * 3 / 2)
    rows = []
    for draw in range(settings.together_draws):
        tell("two releases together", draw / settings.together_draws)
        town = made_town(
            users, settings.seed + draw, towers=settings.towers, zones=settings.zones, outside=0
        )
        found = models.two_releases(
            town.held, town.centres, town.slots, k=settings.together_k, seed=settings.seed + draw
        )
        rows.append(found)
    _keep(
        out,
        "composition",
        [
            {
                "people": one.people,
                "common": one.common,
                "k": one.k,
                "smallest": one.smallest,
                "median": one.left.median,
                "alone": one.left.share_at_most(1),
                "at_most_3": one.left.share_at_most(3),
            }
            for one in rows
        ],
    )
    where = f"Made cities of {users:,} people and {settings.towers:,} towers, a week by hour."
    return models.together_section(rows, where)


def weeks_part(settings: Settings, out: Path, _tell: Tell) -> Section:
    """52 weeks."""
    rows = models.weeks_rows()
    _keep(out, "weeks", [asdict(row) for row in rows])
    if settings.figures:
        models.draw_weeks(out / models.PICTURE_WEEKS)
    return models.weeks_section(rows, settings.figures)


def thesis_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Every approach on one made city, and on Cabspotting where it is."""
    rows: list[Row] = []
    for make in _towns(settings):
        for row in thesis_rows(
            make(),
            ranges=settings.ranges,
            epsilons=settings.epsilons,
            draws=settings.draws,
            targets=settings.targets,
            seed=settings.seed,
            methods=settings.methods,
            tell=tell,
        ):
            rows.append(row)
            _keep(out, "thesis", [asdict(one) for one in rows])
    if settings.figures:
        draw_thesis(rows, out / PICTURE)
    return thesis_section(rows, settings)


def _towns(settings: Settings) -> list[Callable[[], Town]]:
    where = {"towers": settings.towers, "zones": settings.zones}
    towns: list[Callable[[], Town]] = [lambda: made_town(settings.users, settings.seed, **where)]
    if settings.data is not None:
        towns.append(lambda: cab_town(settings.data, settings.seed))
    return towns


def _two(one: Advantage | None, other: Advantage | None) -> str:
    if one is None or other is None:
        return ""
    return f"{one.value:.2f} ({one.low:.2f}–{one.high:.2f}) / {other.value:.2f}"


def thesis_grid(rows: Sequence[Row]) -> Grid:
    """One town's table."""
    body = [
        [
            one.approach,
            one.method,
            "" if one.epsilon is None else f"{one.epsilon:g}",
            f"{one.mre:.3f}",
            "" if one.draws == 1 else f"{one.mre_low:.3f}–{one.mre_high:.3f}",
            _two(one.inside.get(POINTS), one.outside.get(POINTS)),
            _two(one.inside.get(EVERYBODY), one.outside.get(EVERYBODY)),
            "" if one.allowed is None else f"{one.allowed:.2f}",
            one.remark,
            f"{one.cpu:,.0f}",
        ]
        for one in rows
    ]
    head = [
        "approach",
        "method",
        "ε",
        "MRE",
        "over draws",
        POINTS,
        EVERYBODY,
        "allowed",
        "",
        "CPU-s",
    ]
    return Grid(f"{rows[0].town}: error of ranges, and advantage in / out", head, body)


def thesis_section(rows: Sequence[Row], settings: Settings) -> Section:
    """One table a town, and what they say."""
    towns = list(dict.fromkeys(row.town for row in rows))
    blocks: list[str | Grid | Picture] = [
        f"{settings.ranges:,} ranges (discs of 0.5 to 3 km, 1 to 48 hours, at most the period). "
        "MRE is the mean relative error of ranges with ten true visits or more; a refusal is an "
        f"error of 1. Did the target visit (L, t)? {settings.targets:,} targets in each draw who "
        "are in the data, and as many who are not (after the stroke); 0 is guessing, 1 is "
        "certainty, 95 % intervals. *Allowed*: the most that ε lets anybody have.",
        *(thesis_grid([row for row in rows if row.town == town]) for town in towns),
    ]
    if settings.figures:
        blocks.append(Picture(PICTURE, "Error against attack: down and left is better"))
    return Section("The thesis", blocks)


_COLOURS = {ANSWERS: "#a16207", RECORDS: "#b3261e", DENSITY: "#1d4ed8"}


def draw_thesis(rows: Sequence[Row], path: Path) -> None:
    """Utility x attack, a panel a town."""
    towns = list(dict.fromkeys(row.town for row in rows))
    figure = canvas((7.2 * len(towns), 5.4))
    panels: Any = np.atleast_1d(figure.subplots(1, len(towns), sharey=True))
    for axes, town in zip(panels, towns, strict=True):
        mine = sorted((row for row in rows if row.town == town), key=lambda row: row.worst.value)
        for number, row in enumerate(mine, 1):
            worst, x = row.worst, max(row.mre, 1e-3)
            spread = [[max(worst.value - worst.low, 0)], [max(worst.high - worst.value, 0)]]
            mark = "o" if row.epsilon is None else "D"
            axes.errorbar(
                *(x, worst.value, spread), fmt=mark, ms=6, capsize=2, color=_COLOURS[row.approach]
            )
            axes.annotate(
                str(number), (x, worst.value), xytext=(5, 3), textcoords="offset points", fontsize=9
            )
        names = [
            f"{n}  {row.method}" + ("" if row.epsilon is None else f", ε {row.epsilon:g}")
            for n, row in enumerate(mine, 1)
        ]
        # Numbers, since labels of points that lie together would hide each other.
        axes.text(
            *(0.2, 0.66, "\n".join(names[::-1])),
            transform=axes.transAxes,
            fontsize=8,
            va="center",
        )
        axes.set_xscale("log")
        axes.axhline(0, color="grey", ls=":", lw=1)
        axes.set(xlabel="mean relative error of ranges (exact answers at 0.001)", ylim=(-0.1, 1.05))
        axes.set_title(town, fontsize=10)
        axes.grid(alpha=0.25, lw=0.5)
    panels[0].set_ylabel("advantage of the stronger adversary")
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=c, marker="o", lw=0, label=name) for name, c in _COLOURS.items()]
    panels[-1].legend(handles=lines, frameon=False, fontsize=8, loc="lower left")
    save_figure(figure, path)


PARTS: Mapping[str, Part] = {
    "table": table_part,
    "figure": figure_part,
    "john": john_part,
    "composition": composition_part,
    "weeks": weeks_part,
    "thesis": thesis_part,
}
"""Run in this order."""


def study(settings: Settings, parts: Sequence[str], out: Path, tell: Tell) -> str:
    """The page; every part has written its numbers before the next one begins."""
    make_folder(out)
    sections = []
    for name, part in PARTS.items():
        if name in parts:
            tell(name, 0.0)
            sections.append(part(settings, out, tell))
    page = markdown_page(sections, TITLE)
    write_bytes(out / PAGE, page.encode())
    write_bytes(out / HTML, html_page(sections, TITLE).encode())
    return page
