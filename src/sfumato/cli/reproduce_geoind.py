"""`sfumato reproduce geoind`: Figures 1 to 6 of the study of sanitised traces on Geolife."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Quiet


def geoind(
    data: Annotated[
        Path, typer.Option(help="Your Geolife folder, or the folder of the public data sets.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and numbers.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same study.")] = 1,
    draws: Annotated[int, typer.Option(help="Draws of noise to average the spreading over.")] = 3,
    noise: Annotated[
        list[float] | None, typer.Option(help="Expected noise in metres; default 50 to 1000.")
    ] = None,
    classifier: Annotated[
        bool, typer.Option(help="Train the recurrent network where torch is installed.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Placement of hot spots, gossip and recognition with sanitised traces. Internal results."""
    from sfumato.cli.geoind.studies import NOISES

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    chosen = tuple(noise) if noise else NOISES
    run(data, out, seed=seed, draws=draws, noises=chosen, classifier=classifier, say=say)
    if not quiet:
        typer.echo(f"Read {out / 'geoind.internal.html'}.")


def run(
    data: Path,
    out: Path,
    *,
    seed: int,
    draws: int,
    noises: tuple[float, ...],
    classifier: bool,
    say: Any,
) -> list[dict[str, Any]]:
    """The study on every data set of the folder; returns what the page shows."""
    from sfumato.attacks.traces.classifier import available, classify
    from sfumato.cli.geoind import figures
    from sfumato.cli.geoind.page import page
    from sfumato.cli.geoind.sources import sources
    from sfumato.cli.geoind.studies import hotspots, linking, spreading
    from sfumato.io.writers import write_bytes

    out.mkdir(parents=True, exist_ok=True)
    results = []
    for source in sources(data):
        placed = hotspots(source, noises, seed, say)
        spread = spreading(source.groups, noises, seed, draws, say)
        linked = linking(source, seed)
        network: dict[str, Any] = {}
        if classifier and available():
            say(f"{source.name}: the recurrent network")
            network = classify(source.traces, 100.0, seed=seed)
        elif classifier:
            say("torch is not installed (extra `rnn`): the recurrent network is left out")
        drawn = []
        if figures.available():
            drawn = figures.draw_all(out, source, placed, spread, linked, network, seed)
        else:
            say("matplotlib is not installed (extra `plots`): the figures are left out")
        results.append(
            {
                "name": source.name,
                "notes": list(source.notes),
                "hotspots": placed.to_json(),
                "gossip": spread.to_json(),
                "linking": linked.to_json(),
                "classifier": network,
                "figures": drawn,
            }
        )
    write_bytes(out / "geoind.internal.json", json.dumps(results, indent=2).encode(), 0o600)
    write_bytes(out / "geoind.internal.html", page(results).encode(), 0o600)
    return results
