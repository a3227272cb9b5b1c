"""`sfumato attack anonymised` and `sfumato attack queries`, of rules and of answers. INTERNAL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    PRIVACY,
    AsJson,
    Columns,
    DropBadTowers,
    End,
    EventsTz,
    Format,
    Grid,
    Layer,
    Quiet,
    Region,
    RepairZones,
    Results,
    Seed,
    Slot,
    Start,
    TimeUnit,
    Towers,
    Tz,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import Working, print_json, tell


def queries(
    out: Results,
    people: Annotated[int, typer.Option(help="Of the made-up town, one a zone.")] = 64,
    k: Annotated[int, typer.Option(help="Exact desks refuse below it.")] = 5,
    epsilon: Annotated[float, shared(PRIVACY, "--epsilon", "Budget of the private desk.")] = 1.0,
    delta: Annotated[float, shared(PRIVACY, "--delta", "Budget of the private desk.")] = 1e-6,
    draws: Annotated[
        int, typer.Option(help="Towns attacked as a whole; eight times as many people alone.")
    ] = 16,
    real: Annotated[
        bool,
        typer.Option("--real", help="Also attack sfumato.Desk itself, with a ledger: minutes."),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Attack these exact answers instead: an auditor's log, or a list."),
    ] = None,
    seed: Seed = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack desks that answer counting questions: exactly, with free noise, and privately.

    The people are made up; no file is read. With --log, find the sets of answers in a log that
    give fewer than --k people away.

    Example:
        sfumato attack queries --people 128 --epsilon 1 --out attacked
    """
    options = dict(locals())
    if log is not None:
        from sfumato.attacks.queries import logged_page as page

        with Working(quiet or as_json, "looking for sets of answers"):
            attacked, answers = page.attack_logged(log, k=k)
        written = page.write(attacked, answers, out)
        if as_json:
            print_json({}, page.to_json(attacked))
        elif not quiet:
            page.show(attacked, answers)
            tell([f"do not publish {', '.join(map(str, written))}"])
        return
    from sfumato_lab.attacks.queries.run import attack_queries, show, write

    with Working(quiet or as_json, "attacking desks") as progress:
        found = called(attack_queries, options, progress=progress)
    written, remark = write(found, out)
    if as_json:
        print_json({}, found.to_json())
    elif not quiet:
        show(found)
        tell([*([remark] if remark else []), f"do not publish {', '.join(map(str, written))}"])


def anonymised(
    events: Annotated[str, typer.Argument(help="Files, a folder, or the address of a table.")],
    out: Results,
    start: Start,
    end: End,
    tz: Tz,
    slot: Slot = "1h",
    release: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of anonymise, or of release; may be repeated."),
    ] = None,
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    k: Annotated[int, typer.Option(help="Also attack counts with those below k left out.")] = 5,
    points: Annotated[int, typer.Option(help="Points of a target that are known.")] = 4,
    targets: Annotated[int, typer.Option(help="People that are asked about.")] = 1_000,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    seed: Seed = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """What breaks suppression, generalisation and groups, on your own people.

    One question is put to every release, private or not: did the target visit (L, t)?

    Example:
        sfumato attack anonymised events.parquet --towers towers.csv
        --from 2007-09-10 --to 2007-09-17 --tz Europe/Paris
        --release anonymised/week-37 --out attacked
    """
    options = dict(locals())
    from sfumato.published.folder import check_internal
    from sfumato_lab.attacks.anonymised.report import show, to_json, write
    from sfumato_lab.attacks.anonymised.run import attack_anonymised

    check_internal(out)
    with Working(quiet or as_json, "reading places") as progress:
        found = called(attack_anonymised, options, progress=progress)
    written, remark = write(found, out)
    if as_json:
        print_json({}, to_json(found))
    elif not quiet:
        show(found)
        tell([*([remark] if remark else []), f"do not publish {', '.join(map(str, written))}"])
