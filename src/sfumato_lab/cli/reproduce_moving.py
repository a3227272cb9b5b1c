"""`sfumato reproduce moving` and `geoind`: the studies of people who move.

* `moving`: publishing while people move, as printed and as it should be.
* `geoind`: Figures 1 to 6 of the study of sanitised traces on Geolife.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import Epsilons, Quiet, Results, Seed
from sfumato.model.extras import required
from sfumato_lab.cli.reproduce_queries import DRAWING

if TYPE_CHECKING:
    from sfumato_lab.as_printed.streams import Printed
    from sfumato_lab.studies.moving.cities import City
    from sfumato_lab.studies.moving.study import Row


def geoind(
    data: Annotated[
        Path, typer.Option(help="Your Geolife folder, or the folder of the public data sets.")
    ],
    out: Results,
    seed: Seed = 1,
    draws: Annotated[int, typer.Option(help="Draws of noise to average the spreading over.")] = 3,
    noise: Annotated[
        list[float] | None, typer.Option(help="Expected noise in metres; default 50 to 1000.")
    ] = None,
    classifier: Annotated[
        bool, typer.Option(help="Train the recurrent network where torch is installed.")
    ] = True,
    steps: Annotated[
        int | None, typer.Option(help="Steps of its training; default: by the size of the data.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Placement of hot spots, gossip and recognition with sanitised traces. Internal results.

    Example:
        sfumato reproduce geoind --data Geolife --out geoind
    """
    from sfumato_lab.studies.geoind.study import NOISES

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    chosen = tuple(noise) if noise else NOISES
    run(
        data,
        out,
        seed=seed,
        draws=draws,
        noises=chosen,
        classifier=classifier,
        steps=steps,
        say=say,
    )
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
    steps: int | None = None,
    say: Any,
) -> list[dict[str, Any]]:
    """The study on every data set of the folder; returns what the page shows."""
    from sfumato.io.write import make_folder, write_bytes
    from sfumato_lab.attacks.traces.classifier import available, classify
    from sfumato_lab.studies.geoind import output as figures
    from sfumato_lab.studies.geoind.output import page
    from sfumato_lab.studies.geoind.study import hotspots, linking, sources, spreading

    make_folder(out)
    results = []
    for source in sources(data):
        placed = hotspots(source, noises, seed, say)
        spread = spreading(source.groups, noises, seed, draws, say)
        linked = linking(source, seed)
        network: dict[str, Any] = {}
        if classifier and available():
            say(f"{source.name}: the recurrent network")
            among = source.traces if source.recognised is None else source.recognised
            network = classify(among, 100.0, seed=seed, steps=steps)
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


Say = Callable[[str], None]


def moving(
    out: Results,
    cabspotting: Annotated[
        Path | None, typer.Option(help="Cabspotting: its folder, or its Parquet file.")
    ] = None,
    tdrive: Annotated[Path | None, typer.Option(help="The T-Drive folder, if you have it.")] = None,
    c2tm: Annotated[Path | None, typer.Option(help="C2TM: hourly users of clusters.")] = None,
    hangzhou: Annotated[Path | None, typer.Option(help="Hangzhou call records.")] = None,
    city: Annotated[Path | None, typer.Option(help="A folder made by `sfumato city`.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of noise to average over.")] = 20,
    few: Annotated[
        int, typer.Option(help="Draws for peers, hybrids and printed forms, which are far behind.")
    ] = 5,
    days: Annotated[int, typer.Option(help="Days of the crowd; the last seven are scored.")] = 15,
    people: Annotated[int, typer.Option(help="People in the crowd; 0 leaves it out.")] = 130_000,
    thin: Annotated[
        list[int] | None, typer.Option(help="Thinner crowds too: how many people, several times.")
    ] = None,
    crowd_seed: Annotated[int, typer.Option(help="Which crowd; thin ones take the next.")] = 31,
    epsilon: Epsilons = None,
    figures: Annotated[bool, typer.Option(help="Also the figures of the paper.")] = True,
    peers: Annotated[
        bool, typer.Option(help="Also all that is neither default nor baseline, printed forms too.")
    ] = True,
    threshold: Annotated[
        float | None, typer.Option(help="T, in mean distances of a day; default 0.25.")
    ] = None,
    cutoff: Annotated[
        int | None, typer.Option(help="c; default: a quarter of a day's slots.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Base of the logarithm in equation 7; default 12.")
    ] = None,
    compare: Annotated[
        float | None,
        typer.Option(help="Share of a threshold's epsilon for comparing; printed 0.5."),
    ] = None,
    past: Annotated[
        int | None, typer.Option(help="H, the past days of Algorithm 5; printed 7.")
    ] = None,
    division: Annotated[
        float | None, typer.Option(help="Share of epsilon for dividing the day; printed 0.1.")
    ] = None,
    day: Annotated[
        float | None, typer.Option(help="Share of epsilon for the day; the night has the rest.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Streams of a crowd and of taxis: every scheme, printed and corrected. Internal results.

    The default epsilons are 0.4 and 1. What is chosen of T, c, alpha, H and the shares holds for
    the printed forms, and for the corrected ones that have it; the rest keeps each one's default.

    Example:
        sfumato reproduce moving --out moving --cabspotting cabspotting.parquet
    """
    required(*DRAWING[figures], what="This study", instead="Or give --no-figures.")
    from sfumato.io.write import make_folder
    from sfumato_lab.as_printed.streams import Printed
    from sfumato_lab.studies.moving.cities import (
        c2tm_city,
        cabspotting_city,
        crowd_city,
        hangzhou_city,
        masts_city,
        tdrive_city,
    )

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    made: list[Callable[[], City]] = []
    if people:
        made.append(lambda: crowd_city(days, people, crowd_seed))
    for number, fewer in enumerate(thin or ()):
        made.append(
            lambda fewer=fewer, seed=crowd_seed + 1 + number: crowd_city(days, fewer, seed)  # type: ignore[misc]
        )
    for path, open_city in (
        (cabspotting, cabspotting_city),
        (tdrive, tdrive_city),
        (c2tm, c2tm_city),
        (hangzhou, hangzhou_city),
        (city, masts_city),
    ):
        if path is not None:
            made.append(lambda path=path, open_city=open_city: open_city(path))  # type: ignore[misc]
    chosen = {
        "threshold": threshold,
        "cutoff": cutoff,
        "alpha": alpha,
        "compare": compare,
        "past": past,
        "division": division,
        "day": day,
    }
    steer = {name: value for name, value in chosen.items() if value is not None}
    terms = Printed(**steer)  # type: ignore[arg-type]
    from sfumato.attacks.report import study_page

    make_folder(out)
    epsilons = tuple(epsilon or (0.4, 1.0))
    rows: list[Row] = []
    for open_one in made:
        one = open_one()
        own = _table(one, epsilons, seeds, min(few, seeds), peers, say, steer)
        own += _finished(one, epsilons, seeds, peers, say)
        rows += own
        _write(out / "moving", rows, steer)
        if figures:
            _figures(one, own, epsilons, min(seeds, 3), out, say, terms)
        study_page(out / "moving.internal.md", sorted(out.glob("*.internal.png")))
    if not quiet:
        typer.echo(f"Read {out / 'moving.internal.html'}.")


def _write(stem: Path, rows: list[Row], steer: Mapping[str, float]) -> None:
    stem.with_suffix(".internal.json").write_text(json.dumps([_flat(r) for r in rows], indent=1))
    stem.with_suffix(".internal.md").write_text(markdown(rows, steer))


def _table(
    city: City,
    epsilons: tuple[float, ...],
    seeds: int,
    few: int,
    peers: bool,
    say: Say,
    steer: Mapping[str, float],
) -> list[Row]:
    from sfumato_lab.as_printed.streams import Printed
    from sfumato_lab.studies.moving.study import (
        BASELINES,
        CORRECTED,
        DEFAULTS,
        FAR_BEHIND,
        PEERS,
        corrected,
        printed,
    )

    rows = []
    for epsilon in epsilons:
        # `uniform` is `direct` by another name.
        near = (*DEFAULTS, *BASELINES[:3])
        rows += corrected(city, epsilon, near, range(seeds), say=say, steer=steer)
        if peers:
            others = tuple(name for name in CORRECTED if name not in FAR_BEHIND)
            rows += corrected(city, epsilon, others, range(seeds), say=say, steer=steer)
            far = (*FAR_BEHIND, *PEERS)
            rows += corrected(city, epsilon, far, range(few), say=say, steer=steer)
            rows += printed(city, epsilon, range(few), Printed(**steer))  # type: ignore[arg-type]
            say(f"{city.name}, epsilon {epsilon:g}: as printed")
    return rows


def _finished(
    city: City, epsilons: tuple[float, ...], seeds: int, peers: bool, say: Say
) -> list[Row]:
    from sfumato_lab.studies.moving.study import finished

    others = ("sample", "uniform", "rhythm") if peers else ()
    names = ("zeros", "mean", "smoother", "profile", *others)
    rows = []
    for epsilon in epsilons:
        for days in (1, min(7, city.counts.shape[0])):
            rows += finished(city, epsilon, days, range(seeds), names)
    say(f"{city.name}: finished periods")
    return rows


def _figures(
    city: City,
    rows: list[Row],
    epsilons: tuple[float, ...],
    seeds: int,
    out: Path,
    say: Say,
    terms: Printed,
) -> None:
    from sfumato_lab.studies.moving import plots, study
    from sfumato_lab.studies.moving.study import by_day

    found = {
        "distances": study.distances_by_hour(city),
        "day": study.chosen_day(city, 1.0, terms=terms),
        "threshold": study.utility_by_threshold(city, range(seeds), terms=terms),
        "epsilon": study.utility_by_epsilon(city, range(seeds), terms=terms),
    }
    names = ("rhythm", "profile", "mean", "sample")
    errors = {f"{epsilon:g}": by_day(city, epsilon, names, range(seeds)) for epsilon in epsilons}
    numbers = json.dumps(found | {"by_day": errors}, indent=1)
    (out / f"{city.name}-figures.internal.json").write_text(numbers)
    plots.paper_figures(city.name, found, out / f"{city.name}-paper.internal.png")
    table = [row for row in rows if "user-period" not in row.form]
    plots.comparison(table, out / f"{city.name}-schemes.internal.png")
    plots.learning(city.name, errors, out / f"{city.name}-days.internal.png")
    say(f"{city.name}: figures")


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = asdict(row)
    scores: dict[str, Any] = found.pop("score")
    return found | scores


def markdown(rows: list[Row], steer: Mapping[str, float] = MappingProxyType({})) -> str:
    """One table a city and epsilon, best first on the busiest cells; finished periods apart."""
    text = "Internal: computed with the truth.\n"
    if steer:
        text += f"Chosen: {', '.join(f'{name} {value:g}' for name, value in steer.items())}.\n"
    for city, epsilon, period in dict.fromkeys(map(_key, rows)):
        text += f"\n**{city}, epsilon {epsilon:g}{', ' if period else ''}{period}**\n\n"
        text += "| scheme | form | MAE, 200 busiest | MAE, all cells | relative error, busiest "
        text += "| draws |\n|---|---|---|---|---|---|\n"
        chosen = [row for row in rows if _key(row) == (city, epsilon, period)]
        for row in sorted(chosen, key=lambda row: row.score.busiest):
            s = row.score
            form = "corrected" if period else row.form
            text += (
                f"| {row.scheme} | {form} | {_digits(s.busiest)} | {_digits(s.all_cells)} "
                f"| {s.relative:.3f} | {'any' if row.scheme == 'zeros' else row.draws} |\n"
            )
    return text


def _digits(value: float) -> str:
    """Three figures, and no exponents."""
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def _key(row: Row) -> tuple[str, float, str]:
    return row.city, row.epsilon, row.form if "user-period" in row.form else ""
