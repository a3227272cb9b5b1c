"""`sfumato attack traces`: what an adversary makes of sanitised traces. Internal results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.internal import tell
from sfumato.cli.options import Quiet

app = typer.Typer(help="Attacks on sanitised traces; results are internal.")


@app.command()
def traces(
    source: Annotated[
        Path, typer.Argument(help="True traces: CSV, Parquet, GPX, Geolife or Cabspotting.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the internal page and numbers.")],
    expected_noise: Annotated[str, typer.Option(help="Noise to attack: 100m.")] = "100m",
    window: Annotated[str, typer.Option(help="Windows of the time-dependent noise.")] = "5min",
    region: Annotated[
        str | None, typer.Option(help="west,south,east,north; default: where most fixes are.")
    ] = None,
    tz: Annotated[str | None, typer.Option(help="Zone of times that carry none.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same attack.")] = 1,
    classifier: Annotated[
        bool, typer.Option("--classifier", help="Train the recurrent network too (extra `rnn`).")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Sanitise the traces as a release would, then take the noise off and recognise people."""
    from sfumato.attacks.traces.page import page
    from sfumato.attacks.traces.run import attack_traces
    from sfumato.io.writers import write_bytes
    from sfumato.traces.level import parse_metres, parse_seconds
    from sfumato.traces.outside import Box
    from sfumato.traces.read import read_traces

    read, _ = read_traces(source, tz=tz)
    noise, window_s = parse_metres(expected_noise), parse_seconds(window)
    box = None if region is None else Box.parse(region)
    found = attack_traces(read, noise, window_s=window_s, box=box, seed=seed)
    if classifier:
        from sfumato.attacks.traces.classifier import classify

        found["classifier"] = classify(read, noise, window_s=window_s, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=2).encode()
    write_bytes(out / "traces-attack.internal.json", text, 0o600)
    write_bytes(out / "traces-attack.internal.html", page(found).encode(), 0o600)
    if not quiet:
        tell([f"do not publish {out / 'traces-attack.internal.html'}"])
