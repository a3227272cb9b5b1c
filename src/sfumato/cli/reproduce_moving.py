"""`sfumato reproduce moving`: publishing while people move, as printed and as it should be."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sfumato.stream.study.cities import City
    from sfumato.stream.study.compare import Row


def moving(
    out: Annotated[Path, typer.Option(help="Folder for the numbers, the table and the plots.")],
    cabspotting: Annotated[
        Path | None, typer.Option(help="Cabspotting: its folder, or its Parquet file.")
    ] = None,
    tdrive: Annotated[Path | None, typer.Option(help="The T-Drive folder, if you have it.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of noise to average over.")] = 20,
    days: Annotated[int, typer.Option(help="Days of the crowd; the last seven are scored.")] = 15,
    people: Annotated[int, typer.Option(help="People in the crowd.")] = 130_000,
    epsilon: Annotated[list[float] | None, typer.Option(help="Default 0.4 and 1.")] = None,
    figures: Annotated[bool, typer.Option(help="Also the figures of the paper.")] = True,
    peers: Annotated[bool, typer.Option(help="Also the schemes that came before.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Streams of a crowd and of taxis: every scheme, printed and corrected. Internal results."""
    from sfumato.stream.study.cities import cabspotting_city, crowd_city, tdrive_city

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    cities = [crowd_city(days, people)]
    if cabspotting is not None:
        cities.append(cabspotting_city(cabspotting))
    if tdrive is not None:
        cities.append(tdrive_city(tdrive))
    out.mkdir(parents=True, exist_ok=True)
    rows, studies = [], {}
    for city in cities:
        rows += _table(city, tuple(epsilon or (0.4, 1.0)), seeds, peers, say)
        (out / "moving.internal.json").write_text(json.dumps([_flat(r) for r in rows], indent=1))
        (out / "moving.internal.md").write_text(markdown(rows))
        if figures:
            studies[city.name] = _figures(city, min(seeds, 3), say)
            (out / "figures.internal.json").write_text(json.dumps(studies, indent=1))
    if figures:
        _draw(studies, out)
    if not quiet:
        typer.echo(f"Read {out / 'moving.internal.md'}.")


def _table(city: City, epsilons: tuple[float, ...], seeds: int, peers: bool, say: Any) -> list[Row]:
    from sfumato.stream.study.compare import BASELINES, CORRECTED, PEERS, corrected, printed

    rows = []
    for epsilon in epsilons:
        main = (*BASELINES[:3], *CORRECTED, "rhythm")
        rows += corrected(city, epsilon, main, range(seeds), say=say)
        if peers:
            rows += corrected(city, epsilon, PEERS, range(min(seeds, 5)), say=say)
        rows += printed(city, epsilon, range(seeds))
    return rows


def _figures(city: City, seeds: int, say: Any) -> dict[str, Any]:
    from sfumato.stream.study import moving as study

    say(f"{city.name}: figures")
    return {
        "distances": study.distances_by_hour(city),
        "day": study.chosen_day(city, 1.0),
        "threshold": study.utility_by_threshold(city, range(seeds)),
        "epsilon": study.utility_by_epsilon(city, range(seeds)),
    }


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = asdict(row)
    scores: dict[str, Any] = found.pop("score")
    return found | scores


def markdown(rows: list[Row]) -> str:
    """One table a city and epsilon, best first on the busiest cells."""
    text = "Internal: computed with the truth.\n"
    for city, epsilon in dict.fromkeys((row.city, row.epsilon) for row in rows):
        text += f"\n**{city}, epsilon {epsilon:g}**\n\n"
        text += "| scheme | form | MAE, 200 busiest | MAE, all cells | relative error, busiest |\n"
        text += "|---|---|---|---|---|\n"
        chosen = [row for row in rows if (row.city, row.epsilon) == (city, epsilon)]
        for row in sorted(chosen, key=lambda row: row.score.busiest):
            s = row.score
            text += (
                f"| {row.scheme} | {row.form} | {s.busiest:.2f} | {s.all_cells:.3f} "
                f"| {s.relative:.3f} |\n"
            )
    return text


def _draw(studies: dict[str, Any], out: Path) -> None:
    """Distances by hour and utility against epsilon, where matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        typer.echo("Plots need matplotlib: pip install 'sfumato[plots]'.", err=True)
        return
    for name, study in studies.items():
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(study["distances"]["hours"], study["distances"]["distances"])
        left.set(xlabel="hour", ylabel="people moved (L1)", title=f"{name}: distances")
        for scheme in dict.fromkeys(point["scheme"] for point in study["epsilon"]):
            points = [p for p in study["epsilon"] if p["scheme"] == scheme and p["processed"]]
            right.plot([p["epsilon"] for p in points], [p["mae"] for p in points], label=scheme)
        right.set(xlabel="epsilon", ylabel="MAE, all cells", title="as printed", yscale="log")
        right.legend(fontsize=7)
        figure.savefig(out / f"{name}.internal.png", dpi=110)
