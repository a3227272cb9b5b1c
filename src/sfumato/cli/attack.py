"""`sfumato attack`: what an adversary makes of a release, before one does. INTERNAL.

`sfumato attack RELEASE --events …` is short for `sfumato attack recovery RELEASE --events …`;
`sfumato attack traces` says what an adversary makes of sanitised traces. Other distributions offer
attacks of their own, among them the laboratory. All results are internal.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.main import Commands, Menu
from sfumato.cli.options import (
    PLACES,
    AsJson,
    BoundText,
    Columns,
    DropBadTowers,
    EventsOption,
    EventsTz,
    Format,
    Grid,
    InternalFolder,
    Layer,
    Quiet,
    ReadTz,
    Region,
    RepairZones,
    Results,
    Seed,
    TimeUnit,
    Towers,
    ZoneId,
    ZoneName,
    Zones,
    called,
    columns_of,
    shared,
)
from sfumato.cli.telling import Working, print_json, tell
from sfumato.errors import InputError, UsageError

traces_app = typer.Typer(help="Attacks on sanitised traces; results are internal.")


@traces_app.command()
def traces(
    source: Annotated[
        str, typer.Argument(help="True traces: files, a folder or an address, as for sanitise.")
    ],
    out: Results,
    release: Annotated[
        Path | None,
        typer.Option(help="Attack the reports in this folder of sanitise, made of these traces."),
    ] = None,
    expected_noise: Annotated[
        str | None, typer.Option(help="Noise to attack where no release is; default: 100m.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Windows of its time-dependent form; default: 5min.")
    ] = None,
    region: Annotated[
        str | None,
        shared(
            PLACES,
            "--region",
            "west,south,east,north; default: where most fixes are, or the globe.",
        ),
    ] = None,
    tz: ReadTz = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    seed: Seed = 1,
    classifier: Annotated[
        bool, typer.Option("--classifier", help="Train the recurrent network too (extra `rnn`).")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="Steps of its training; default: by the size of the data.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Take the noise off sanitised traces and recognise people in them.

    With --release those of a release; without it the traces are first sanitised as one would.

    Example:
        sfumato attack traces traces.parquet --expected-noise 100m --out attacked
    """
    with Working(quiet, "reading traces") as progress:  # loading what follows takes a while
        from sfumato.attacks.traces.released import released
        from sfumato.attacks.traces.run import attack_released, attack_traces, write
        from sfumato.io.traces import read_traces
        from sfumato.model.traces import Box
        from sfumato.privacy.noise.planar import parse_metres, parse_seconds
        from sfumato.published.folder import check_internal
        from sfumato.published.manifest import MANIFEST_NAME

        check_internal(out)  # refused before an hour of work, not after it
        noise = parse_metres(expected_noise or "100m")
        window_s = parse_seconds(window or "5min")
        box = None if region is None else Box.parse(region)
        if release is not None and (classifier or expected_noise or window):
            raise UsageError(
                "A release says what its noise is, and the classifier trains on noise of its own.",
                remedy="Leave out `expected_noise`, `window` and `classifier`, or `release`.",
            )
        if (Path(source) / MANIFEST_NAME).is_file():
            raise UsageError(
                f"{source} holds what was published.",
                remedy=f"Give the true traces it was made of, and --release {source}.",
            )
        read, _ = read_traces(
            source, columns=columns_of(column), tz=tz, time_unit=time_unit, format=format
        )
        if not len(read):
            raise InputError("there is not a single usable fix.")
        if release is None:
            found = attack_traces(
                read, noise, window_s=window_s, box=box, seed=seed, progress=progress
            )
        else:
            progress("finding the users of the release", -1.0)
            found = attack_released(released(read, release), box=box, seed=seed, progress=progress)
        if classifier:
            from sfumato.model.extensions import offered

            classify = offered("trace classifier", "recurrent").load()
            progress("training the recurrent network", -1.0)
            found["classifier"] = classify(read, noise, window_s=window_s, seed=seed, steps=steps)
    written, remark = write(found, out)
    if not quiet:
        tell([*([remark] if remark else []), *(f"do not publish {path}" for path in written)])


DEFAULT = "recovery"


class _WithDefault(Menu):
    """A group whose default command may be left out: `attack RELEASE`; attacks are added to it."""

    entries = Commands("attack", {})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """With the options of the default command, which is run where no other is named."""
        whole = copy(self)
        whole.params = self.commands[DEFAULT].get_params(ctx)
        whole.add_help_option = False  # it is among these
        whole.subcommand_metavar = "| COMMAND [ARGS]..."
        super(_WithDefault, whole).format_help(ctx, formatter)


app = typer.Typer(
    cls=_WithDefault,
    help="Attack a release before others do; results are internal. Without the name of a command "
    f"it is {DEFAULT}, whose options are these.",
    epilog="Example:\n\nsfumato attack releases/week-37 --events events.parquet",
    no_args_is_help=True,
)
app.command()(traces)


@app.command()
def recovery(
    releases: Annotated[list[Path], typer.Argument(help="Release or stream folders.")],
    events: EventsOption,
    zones: Zones = None,
    towers: Towers = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    tz: ReadTz = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    suppress: Annotated[
        list[int] | None,
        typer.Option(help="Also attack counts suppressed below k; default: 5, 15."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs that break ties differently.")] = 2,
    predict: Annotated[
        bool, typer.Option("--predict/--no-predict", help="By day, expect steps to be repeated.")
    ] = True,
    link: Annotated[str, typer.Option(help="Days are linked to: accumulate, adjacent.")] = (
        "accumulate"
    ),
    solver: Annotated[str, typer.Option(help="auto, people or cells.")] = "auto",
    group: Annotated[
        int, typer.Option(help="Size of the groups of the membership game; 0 leaves it out.")
    ] = 100,
    rounds: Annotated[
        int, typer.Option(min=8, help="Tables published in the membership game, a multiple of 4.")
    ] = 24,
    bound: BoundText = None,
    out: InternalFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recover trajectories from the counts alone, with and without protection.

    --bound is the one that the releases were made with.

    Example:
        sfumato attack releases/week-37 --events events.parquet
        --towers towers.csv --zones zones.geojson
    """
    options = dict(locals())
    from rich.console import Console

    from sfumato.attacks.report import as_json as plain
    from sfumato.attacks.report import show, write
    from sfumato.attacks.run import attack
    from sfumato.published.folder import check_internal

    if out is not None:
        check_internal(out)
    console = Console(stderr=True)
    with Working(quiet or as_json, "reading releases and places") as progress:
        found = called(attack, options, progress=progress)
    for remark in found.remarks:
        tell([remark])
    said = (found.study, found.membership, found.allowed)
    folder = out or releases[0].absolute().parent / f"internal-{releases[0].absolute().name}"
    written = write(*said, folder, console if not quiet else None)
    if as_json:
        print_json({}, plain(*said))
    elif not quiet:
        show(*said)
        tell([f"do not publish {', '.join(str(path) for path in written)}"])
        typer.echo("On the map: sfumato evaluate with the same --out shows recovered trajectories.")
