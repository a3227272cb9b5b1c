"""`sfumato reproduce queries`: the parts of the study, each by its name, and the page they make.

A part is a function that works, keeps its numbers in the folder and hands back its section of the
page. What it needs of the command's options is in `Settings`. Results compare with the truth, so
they are internal, though the people are made up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sfumato.io.write import write_bytes
from sfumato_lab.studies.queries import auditors, error_page, reconstruction
from sfumato_lab.studies.queries.errors import METHODS, Row, error_rows
from sfumato_lab.studies.queries.ground import made_city
from sfumato_lab.studies.queries.page import Section, Tell, html_page, markdown_page

PAGE, HTML = "queries.internal.md", "queries.internal.html"
NUMBERS = "queries-{part}.internal.json"
FIRST_SEED = 2_101
"""Of the cities that are judged. Settings were chosen on the city of seed 911."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is to be done."""

    users: tuple[int, ...] = (20_000, 200_000)
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0)
    questions: tuple[int, ...] = (10, 30, 100, 300, 1_000)
    draws: int = 3
    methods: tuple[str, ...] = METHODS
    towers: int = 1_303
    zones: int = 989
    seed: int = FIRST_SEED
    figures: bool = True
    people: tuple[int, ...] = (16, 64, 256, 1_024, 4_096)
    """Of the towns that are reconstructed, powers of two."""
    town: int = 24
    """People of the town that auditors guard: deciding takes exponentially long."""
    ranges: int = 150
    """That are asked of auditors in a city."""
    attack_draws: int = 8


AUDITED_CITY = {"users": 2_000, "towers": 40, "zones": 30}
"""Small, since an audit of ranges that lie anyhow solves an integer program for each."""
Part = Callable[[Settings, Path, Tell], Section]


def _keep(out: Path, part: str, numbers: object) -> None:
    text = json.dumps(numbers, indent=1)
    write_bytes(out / NUMBERS.format(part=part), f"{text}\n".encode())


def error_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Error against the number of questions, in a city of each size."""
    rows: list[Row] = []
    for number, users in enumerate(settings.users):
        city = made_city(
            users, settings.seed + number, towers=settings.towers, zones=settings.zones
        )
        rows += error_rows(
            city,
            questions=settings.questions,
            epsilons=settings.epsilons,
            draws=settings.draws,
            methods=settings.methods,
            seed=settings.seed,
            tell=tell,
        )
        _keep(out, "error", [asdict(row) for row in rows])
    if settings.figures:
        error_page.draw_errors(rows, out / error_page.PICTURE)
    return error_page.error_section(rows, settings.figures)


def reconstruction_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """Bits reconstructed from noisy answers, by questions and by noise."""
    rows = reconstruction.reconstruction_rows(
        settings.people, draws=settings.attack_draws, seed=settings.seed, tell=tell
    )
    _keep(out, "reconstruction", [asdict(row) | {"share": row.share} for row in rows])
    if settings.figures:
        reconstruction.draw_reconstruction(rows, out / reconstruction.PICTURE)
    return reconstruction.reconstruction_section(rows, settings.figures)


def auditor_part(settings: Settings, out: Path, tell: Tell) -> Section:
    """What auditors refuse and what still leaks."""
    city = made_city(seed=settings.seed, **AUDITED_CITY)
    refused = auditors.refused_rows(city, settings.ranges, seed=settings.seed, tell=tell)
    leaks = auditors.leak_rows(
        settings.town, draws=settings.attack_draws, seed=settings.seed, tell=tell
    )
    told = [asdict(row) | {"share": row.share} for row in leaks]
    _keep(out, "auditor", {"leaks": told, "refused": [asdict(row) for row in refused]})
    if settings.figures:
        auditors.draw_auditors(leaks, refused, out / auditors.PICTURE)
    where = f"{city.users:,} people, {city.shape[0]} towers, a week by hour"
    return auditors.auditor_section(leaks, refused, where, settings.figures)


PARTS: Mapping[str, Part] = {
    "error": error_part,
    "reconstruction": reconstruction_part,
    "auditor": auditor_part,
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
    page = markdown_page(sections)
    write_bytes(out / PAGE, page.encode())
    write_bytes(out / HTML, html_page(sections).encode())
    return page
