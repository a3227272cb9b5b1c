"""`sfumato spread`: whom a message reaches over contacts of sanitised traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.hotspots import TracesFolder
from sfumato.cli.options import DATA, OUTPUT, AsJson, Quiet, called, own, shared
from sfumato.cli.telling import Working, print_json
from sfumato.model.rounding import number_of, percent


def spread(
    traces: TracesFolder,
    range: Annotated[str, own(DATA, "--range", "How near reports are in contact.")] = "50m",
    slot: Annotated[str, own(DATA, "--slot", "Reports so close in time are at once.")] = "5s",
    meaning: Annotated[
        str, own(DATA, "--meaning", "Within a slot: component (chains) or one-hop.")
    ] = "component",
    out: Annotated[Path | None, shared(OUTPUT, "--out", "Folder for figures and page.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Let a message spread over contacts. No records are read, nothing is spent.

    Example:
        sfumato spread out/cabs --range 100m --out out/spread
    """
    options = dict(locals())
    from sfumato.utility.spreading import spread as let_spread

    with Working(quiet or as_json, "spreading") as progress:
        found = called(let_spread, options, progress=progress)
    if as_json:
        print_json(found.to_json())
    elif not quiet:
        if found.users:
            typer.echo(
                f"{number_of(found.users, 'users')}, {number_of(found.contacts, 'contacts')}: a "
                f"message reaches {percent(found.reached, 1)} of them ({percent(found.fewest, 1)} "
                f"to {percent(found.most, 1)} by sender)."
            )
        if found.latency is not None:
            typer.echo(
                f"Hours until it arrives: {found.latency.lower:.1f}, {found.latency.median:.1f}, "
                f"{found.latency.upper:.1f} (quartiles)."
            )
        for note in found.notes:
            typer.echo(note)
        if out is not None:
            typer.echo(f"Figures and page in {out}.")
