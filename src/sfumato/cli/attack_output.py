"""What `sfumato attack` writes and shows. Every file is internal and says so in its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from sfumato.attacks.membership import Membership
from sfumato.attacks.plot import save_study
from sfumato.attacks.recovery.beside import JUDGED_BY
from sfumato.attacks.recovery.study import Study
from sfumato.attacks.report import (
    WORDS,
    as_json,
    as_markdown,
    header,
    membership_rows,
    rows,
)
from sfumato.io.writers import write_atomically, write_bytes
from sfumato.model.errors import UsageError
from sfumato.report.attack_panel import AttackPanel, AttackResult, AttackTracks, write_panel

SHOWN = ("table", "greedy", "(range)", "random", "stays", "the map", "all others", "learned")


def write(
    study: Study,
    membership: Mapping[str, Membership],
    allowed: Mapping[str, float],
    folder: Path,
    console: Console | None,
) -> list[Path]:
    """JSON, text and picture, and what the internal page will show."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"internal-attack.{ending}" for ending in ("json", "md", "png")]
    text = json.dumps(as_json(study, membership, allowed), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    write_bytes(written[1], as_markdown(study, membership, allowed).encode(), mode=0o600)
    write_panel(panel(study, membership, allowed), folder)
    try:
        write_atomically(written[2], lambda path: save_study(study, path), mode=0o600)
    except UsageError as error:  # the picture is optional, the numbers are not
        if console is not None:
            console.print(f"no picture: {error.problem}", highlight=False)
        written.pop()
    return written


def show(study: Study, membership: Mapping[str, Membership], allowed: Mapping[str, float]) -> None:
    """The study as tables on standard error, and what it means."""
    console = Console(stderr=True)
    kept = [header().index(name) for name in SHOWN]  # a terminal is narrow; the files hold all
    body = [[row[k] for k in kept] for row in rows(study)]
    console.print(_rich("internal: trajectories recovered from counts", list(SHOWN), body))
    if membership:
        head, body = membership_rows(membership, allowed)
        console.print(_rich("internal: was somebody counted?", head, body))
    for words in WORDS:
        console.print(f"- {words}", highlight=False)


def _rich(title: str, head: list[str], body: list[list[str]]) -> RichTable:
    table = RichTable(title=title)
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if k == 0 else "right")
    for row in body:
        table.add_row(*row)
    return table


def panel(
    study: Study, membership: Mapping[str, Membership], allowed: Mapping[str, float]
) -> AttackPanel:
    """The study for the attack panel of the internal page."""
    found = [
        AttackResult(
            attack="trajectory recovery",
            contender=one.name,
            measure="greedy accuracy",
            reached=one.scores["greedy"].mean,
            guessing=one.baselines[JUDGED_BY]["greedy"],
            note=f"knows the map: {one.baselines['map']['greedy']:.3f}; "
            f"everybody stays: {one.baselines['stay']['greedy']:.3f}; "
            f"linked by lot: {one.baselines['random']['greedy']:.3f}",
        )
        for one in study.outcomes
    ]
    found += [
        AttackResult(
            attack="membership",
            contender=name,
            measure="AUC",
            reached=one.worst.value,
            guessing=0.5,
            bound=allowed.get(name),
            note=f"groups of about {one.game.group}; {one.worst.low:.2f} to {one.worst.high:.2f}",
        )
        for name, one in membership.items()
    ]
    tracks = tuple(
        AttackTracks(
            one.name,
            one.by_slot.tolist(),
            one.others.tolist(),
            one.shown[0].tolist(),
            one.shown[1].tolist(),
        )
        for one in study.outcomes
    )
    return AttackPanel(tuple(found), tracks)
