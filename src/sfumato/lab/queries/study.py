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
from sfumato.lab.queries.error_page import PICTURE, draw_errors, error_section
from sfumato.lab.queries.errors import METHODS, Row, error_rows
from sfumato.lab.queries.ground import made_city

PAGE = "queries.internal.md"
ERRORS = "queries-error.internal.json"
FIRST_SEED = 2_101
"""Of the cities that are judged. Settings were chosen on the city of seed 911."""
Tell = Callable[[str, float], None]


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


Part = Callable[[Settings, Path, Tell], str]


def error_part(settings: Settings, out: Path, tell: Tell) -> str:
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
        text = json.dumps([asdict(row) for row in rows], indent=1)
        write_bytes(out / ERRORS, f"{text}\n".encode())
    if settings.figures:
        draw_errors(rows, out / PICTURE)
    return error_section(rows)


PARTS: Mapping[str, Part] = {"error": error_part}
"""Run in this order."""


def study(settings: Settings, parts: Sequence[str], out: Path, tell: Tell) -> str:
    """The page; every part has written its numbers before the next one begins."""
    out.mkdir(parents=True, exist_ok=True)
    sections = ["# Questions to the data (internal: compares with true counts)\n"]
    for name, part in PARTS.items():
        if name in parts:
            tell(name, 0.0)
            sections.append(part(settings, out, tell))
    page = "\n".join(sections)
    write_bytes(out / PAGE, page.encode())
    return page
