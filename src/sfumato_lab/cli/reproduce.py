"""`sfumato reproduce`: the published studies, made again; each is a package of `studies`.

* `frontier`: every scheme and outside baseline against the possible.
* `paris`: the figures of the Paris release, the paper's numbers beside ours.
* `recovery`: Figures 5 and 6 of Chen et al., ours beside the paper's. Internal by nature, though
  the crowd is synthetic: every figure compares with the truth. The crowd was fitted on seed 1;
  figures are of other seeds.
* The others stand in files of their own beside this one: `reproduce_moving` (and `geoind`),
  `reproduce_queries`, `reproduce_chapter`, `reproduce_synthesis`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import Epsilons, Quiet, Results, Seed
from sfumato.cli.telling import Working
from sfumato.errors import UsageError
from sfumato.model.extras import required
from sfumato_lab.cli.reproduce_chapter import chapter
from sfumato_lab.cli.reproduce_moving import geoind, moving
from sfumato_lab.cli.reproduce_queries import DRAWING, queries
from sfumato_lab.cli.reproduce_synthesis import synthesis

if TYPE_CHECKING:
    from sfumato_lab.studies.recovery.study import Size, Tell


def frontier(
    out: Results,
    users: Annotated[str, typer.Option(help="Sizes of the cities.")] = "2000000,200000",
    cities: Annotated[
        str, typer.Option(help="Kinds: ordinary, other, place, events, small.")
    ] = "ordinary,other,place,events,small",
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,0.3,1",
    draws: Annotated[int, typer.Option(help="Draws in the ordinary city.")] = 5,
    draws_elsewhere: Annotated[int, typer.Option(help="Draws in the other cities.")] = 2,
    emd_every: Annotated[int, typer.Option(help="Earth mover's distance every so many hours.")] = 7,
    towers: Annotated[int, typer.Option(help="Towers of the ordinary city.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of the ordinary city.")] = 989,
    again: Annotated[
        list[str] | None, typer.Option(help="Draw this method again; may be repeated.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with c2tm/, for real aggregates."),
    ] = None,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the PNG.")] = True,
    quiet: Quiet = False,
) -> None:
    """Compare all methods on made-up people: one table, one plot. Internal results.

    The whole takes about 40 CPU-minutes. A run that was stopped goes on where it was.

    Example:
        sfumato reproduce frontier --out frontier --users 200000
    """
    required("emd", *DRAWING[figures], what="This study")
    from sfumato.io.write import make_folder
    from sfumato_lab.studies.frontier.cities import Kind
    from sfumato_lab.studies.frontier.methods import LABELS
    from sfumato_lab.studies.frontier.output import Record
    from sfumato_lab.studies.frontier.study import NUMBERS, TABLE, Settings, finish, study

    known = {"ordinary": Kind.ORDINARY, "other": Kind.OTHER, "place": Kind.PLACE}
    known |= {"events": Kind.EVENTS, "small": Kind.SMALL}
    chosen = [name.strip() for name in cities.split(",")]
    if any(name not in known for name in chosen):
        raise UsageError(
            "There is no such kind of city.", remedy=f"Choose from {', '.join(known)}."
        )
    unknown = sorted(set(again or []) - set(LABELS))
    if unknown:
        raise UsageError(
            f"There is no method {', '.join(unknown)}.", remedy=f"Choose from {', '.join(LABELS)}."
        )
    if min(draws, draws_elsewhere, emd_every) < 1:
        raise UsageError("Draws and the step between hours are at least 1.")
    settings = Settings(
        users=tuple(int(n) for n in _positive_numbers(users)),
        kinds=tuple(known[name] for name in chosen),
        epsilons=_positive_numbers(epsilons),
        draws=draws,
        draws_elsewhere=draws_elsewhere,
        emd_every=emd_every,
        towers=towers,
        zones=zones,
    )
    make_folder(out)
    record = Record(out / NUMBERS)
    record.forget(again or [], settings.covers)
    with Working(quiet, "cities") as tell:
        study(settings, out, record, tell)
        finish(record, out, data, tell, figures=figures)
    if not quiet:
        typer.echo(f"INTERNAL: {(out / TABLE).with_suffix('.html')}")


def _positive_numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(not value > 0 for value in found):
        raise UsageError(f"{text!r} is not a list of positive numbers.", remedy="Write 0.1,0.3,1.")
    return found


def paris(
    out: Results,
    users: Annotated[int, typer.Option(help="People of the synthetic city.")] = 2_000_000,
    towers: Annotated[int, typer.Option(help="Towers of a generated map.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of a generated map.")] = 989,
    geometry: Annotated[str, typer.Option(help="generated, or paris for the real map.")] = (
        "generated"
    ),
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with the real map, for --geometry paris."),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Draws of samples and noise.")] = 20,
    other_repetitions: Annotated[
        int | None, typer.Option(help="Draws away from epsilon 0.3 and of variants; as many.")
    ] = None,
    slow_repetitions: Annotated[
        int | None,
        typer.Option(help="Draws of bayes, which reads the records every time; as many."),
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,0.3,0.5,1",
    emd_every: Annotated[int, typer.Option(help="Earth mover's distance every so many hours.")] = 7,
    studies: Annotated[
        str, typer.Option(help="Some of main, corrected, variants, samples, chapter, …; or all.")
    ] = "all",
    zone: Annotated[
        str | None, typer.Option(help="Zone of Figures 3 to 5; default: that of the median total.")
    ] = None,
    seed: Seed = 1,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw PNGs.")] = True,
    quiet: Quiet = False,
) -> None:
    """Repeat the study of Acs & Castelluccia (2014) on made-up people. Internal results.

    Example:
        sfumato reproduce paris --out paris --users 200000 --repetitions 5
    """
    required("emd", *DRAWING[figures], what="This study")
    from sfumato.attacks.report import study_page
    from sfumato.city import CityPlan, Geometry
    from sfumato_lab.studies.paris.setup import make_city, open_city
    from sfumato_lab.studies.paris.study import STUDIES, TABLE, Settings, study

    draws = (repetitions, other_repetitions, slow_repetitions)
    if any(n is not None and n < 1 for n in draws) or emd_every < 0:
        raise UsageError("There is at least one repetition, and no negative number of hours.")
    if geometry not in tuple(Geometry):
        raise UsageError(
            f"There is no geometry {geometry!r}.", remedy=f"Choose from {', '.join(Geometry)}."
        )
    wanted = STUDIES if studies == "all" else tuple(studies.split(","))
    if unknown := sorted(set(wanted) - set(STUDIES)):
        raise UsageError(
            f"There is no study {', '.join(unknown)}.", remedy=f"Choose from {', '.join(STUDIES)}."
        )
    settings = Settings(_epsilons(epsilons), *draws, emd_every, studies=wanted)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    say("the city")
    plan = CityPlan(
        users=users, towers=towers, zones=zones, seed=seed, geometry=Geometry(geometry), data=data
    )
    make_city(plan, out / "city")
    stage = open_city(out / "city", seed, zone)
    found = study(stage, settings, out, say)
    if figures:
        from sfumato_lab.studies.paris.figures import draw_all

        say("figures")
        draw_all(stage, found, out)
    study_page(out / TABLE, sorted(out.glob("*.internal.png")))  # of earlier runs as well
    if not quiet:
        typer.echo(f"INTERNAL: {(out / TABLE).with_suffix('.html')}")


def _epsilons(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(not 0 < value < 100 for value in found):
        raise UsageError(
            f"{text!r} is not a list of epsilons.", remedy="Write --epsilons 0.1,0.3,1."
        )
    return found


PARTS = (
    "crowd",
    "taxis",
    "protected",
    "protected-taxis",
    "readings",
    "schemes",
    "whole-map",
    "left-out",
    "left-out-whole-map",
    "noise",
    "suppression",
    "membership",
)
FIRST = 401
"""Seed of the first crowd that figures are reported for."""


def recovery(
    out: Results,
    cabspotting: Annotated[
        Path | None, typer.Option(help="Cabspotting as one Parquet file.")
    ] = None,
    tdrive: Annotated[Path | None, typer.Option(help="T-Drive: the folder of text files.")] = None,
    people: Annotated[int, typer.Option(help="People of a crowd.")] = 1_000,
    crowds: Annotated[int, typer.Option(help="Crowds to average over.")] = 3,
    seeds: Annotated[int, typer.Option(help="Tie-breaking seeds and draws of noise a crowd.")] = 4,
    first: Annotated[int, typer.Option(help="Seed of the first crowd.")] = FIRST,
    epsilon: Epsilons = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="Schemes to attack; default: all, and both default streams."),
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help=f"Only {', '.join(PARTS)}.")] = None,
    quiet: Quiet = False,
) -> None:
    """Trajectories recovered from counts: by number of points, and after each scheme.

    The default epsilons are 0.1, 0.3 and 1.

    Example:
        sfumato reproduce recovery --out recovery --part crowd
    """
    required("emd", "plots", what="This study")
    from sfumato.attacks.report import study_page
    from sfumato.density.registry import scheme_named
    from sfumato.io.write import make_folder
    from sfumato_lab.studies.recovery.output import as_markdown
    from sfumato_lab.studies.recovery.schemes import DENSITY, STREAMS
    from sfumato_lab.studies.recovery.study import Size

    if people < 4 or crowds < 1 or seeds < 1:
        raise UsageError("A study needs four people, a crowd and a seed.")
    parts = part or list(PARTS)
    if not set(parts) <= set(PARTS):
        raise UsageError("There is no such part.", remedy=f"Choose from {', '.join(PARTS)}.")
    names = scheme if scheme is not None else [*DENSITY, *STREAMS]
    for name in names:
        if name not in STREAMS:
            scheme_named(name)
    make_folder(out)
    fleets = {"cabspotting": cabspotting, "tdrive": tdrive}
    size = Size(people, crowds, seeds, first)
    found: dict[str, Any] = {"size": asdict(size), "cpu_s": {}}
    with Working(quiet, "crowd") as tell:
        for key, run in works(size, fleets, names, epsilon or [0.1, 0.3, 1.0], out, tell).items():
            if key.partition(":")[0] in parts or (key in fleets and "taxis" in parts):
                tell(key, 0.0)
                start = time.process_time()
                found[key] = run()
                found["cpu_s"][key] = round(time.process_time() - start, 1)
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (out / "recovery.internal.json").write_text(f"{text}\n", "utf-8")
    page = as_markdown(found)
    (out / "recovery.internal.md").write_text(page, "utf-8")
    study_page(out / "recovery.internal.md", sorted(out.glob("recovery-*.png")))
    if not quiet:
        typer.echo(page)


def works(
    size: Size,
    fleets: dict[str, Path | None],
    names: Sequence[str],
    budgets: Sequence[float],
    out: Path,
    tell: Tell,
) -> dict[str, Callable[[], Any]]:
    """The parts by name, to be run in this order; a fleet that is not given is none."""
    from sfumato_lab.studies.recovery import points as taxis
    from sfumato_lab.studies.recovery import study as figures

    facts = {"cabspotting": taxis.CABSPOTTING, "tdrive": taxis.T_DRIVE}

    def fleet(name: str, path: Path) -> Callable[[], Any]:
        picture = out / f"recovery-{name}.png"
        return lambda: figures.taxi_fleet(size, facts[name], path, picture, tell)

    def protected(name: str, path: Path) -> Callable[[], Any]:
        return lambda: figures.printed_taxis(size, facts[name], path, budgets, out, tell)

    return {
        "crowd": lambda: figures.crowd(size, out, tell),
        **{name: fleet(name, path) for name, path in fleets.items() if path is not None},
        "protected": lambda: figures.printed(size, budgets, out, tell),
        **{
            f"protected-taxis:{name}": protected(name, path)
            for name, path in fleets.items()
            if path is not None
        },
        "readings": lambda: figures.figure6(size, budgets, tell),
        "schemes": lambda: figures.schemes(size, names, budgets, figures.SIDE, tell),
        "whole-map": lambda: figures.schemes(size, names, budgets, None, tell),
        "left-out": lambda: figures.without(size, names, budgets, figures.SIDE, tell),
        "left-out-whole-map": lambda: figures.without(size, names, budgets, None, tell),
        "noise": lambda: figures.noise(size, out, tell),
        "suppression": lambda: figures.suppression(size),
        "membership": lambda: membership_tables(size, names, tell),
    }


def membership_tables(size: Size, names: Sequence[str], tell: Tell) -> dict[str, Any]:
    """AUC on true and suppressed counts and after each scheme; and where counts are large."""
    from sfumato.attacks.membership import Game, allowed
    from sfumato_lab.studies.recovery.schemes import play_schemes
    from sfumato_lab.studies.recovery.study import DELTA, NOISE_SIDE, SIDE

    plan, dense = size.plans(1, NOISE_SIDE)[0], size.plans(20, SIDE)[0]
    told = {
        "sparse": play_schemes(
            plan, 1.0, DELTA, Game(group=size.people // 2), schemes=names,
            progress=lambda share: tell("membership", share),
        ),
        "dense": play_schemes(
            dense, 1.0, DELTA, Game(group=10 * size.people), schemes=[], suppress=(5, 15)
        ),
    }  # fmt: skip
    return {
        key: {
            name: {side: asdict(getattr(made, side)) for side in ("knows", "trained", "blind")}
            | {"allowed": allowed(1.0, DELTA) if name in names else None}
            for name, made in found.items()
        }
        for key, found in told.items()
    }


app = typer.Typer(
    help="Repeat published studies. Internal results.",
    epilog="Example:\n\nsfumato reproduce paris --out out/paris",
    no_args_is_help=True,
)
app.command()(chapter)
app.command()(frontier)
app.command()(geoind)
app.command()(moving)
app.command()(queries)
app.command()(synthesis)
app.command()(recovery)
app.command()(paris)
