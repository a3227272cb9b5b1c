"""`sfumato audit`: attack a scheme on made-up neighbours and compare with what it claims.

No real record is read and no budget is spent: the data are invented, the charges are kept
in memory. The pipeline is the real one, from event tables through the engine and the wall to
the released table, with a fresh release key in every run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    OUTPUT,
    AsJson,
    BoundText,
    Counted,
    Delta,
    Epsilons,
    MaybeExpectedUsers,
    Parameters,
    Quiet,
    Seed,
    called,
    shared,
)
from sfumato.cli.telling import Working
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.audits.run import Audit


def audit(
    scheme: Annotated[
        str,
        typer.Argument(
            help="A scheme, a stream's scheme as stream/NAME, or 'mechanisms': all of the wall."
        ),
    ],
    epsilon: Epsilons = None,
    delta: Delta = 1e-6,
    runs: Annotated[int, typer.Option(help="Runs on each of the two inputs.")] = 4_000,
    bound: BoundText = "weight:3",
    count: Counted = "visits",
    expected_users: MaybeExpectedUsers = None,
    parameter: Parameters = None,
    measurements: Annotated[
        bool, typer.Option("--measurements", help="Audit the noisy measurements, too.")
    ] = False,
    scouting: Annotated[
        int | None, typer.Option(help="Runs to look at each pair with; default: runs / 20.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the table as a whole.")] = 0.999,
    seed: Seed = 0,
    out: Annotated[
        Path | None, shared(OUTPUT, "--out", "Folder for audit.json, audit.md and audit.png.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Bound from below what a release really costs, and compare with its claim.

    The default epsilons are 1, 2, 4 and 8.

    Example:
        sfumato audit bayes --epsilon 1 --runs 20000 --out audit-bayes
    """
    options = dict(locals())
    from sfumato.audits.audit import audit as run_audit

    with Working(quiet or as_json, "starting") as progress:
        result = called(run_audit, options, progress=lambda what: progress(what, -1.0))
    _hand_over(result, out, quiet=quiet, as_json=as_json)


def _hand_over(result: Audit, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from sfumato.audits import report
    from sfumato.io.write import make_folder

    plain = json.dumps(report.as_json(result), indent=2, ensure_ascii=False)
    if out is not None:
        make_folder(out)
        (out / "audit.json").write_text(plain + "\n", encoding="utf-8")
        (out / "audit.md").write_text(report.as_markdown(result), encoding="utf-8")
        try:
            report.save_plot(result, out / "audit.png")
        except UsageError as error:  # the plot is optional; the table is not
            Console(stderr=True, quiet=quiet).print(f"no plot: {error}", highlight=False)
    if as_json:
        typer.echo(plain)
    elif not quiet:
        Console().print(report.as_table(result))
    if result.violations:
        raise typer.Exit(1)
