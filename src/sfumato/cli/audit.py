"""`sfumato audit`: attack a scheme on made-up neighbours and compare with what it claims.

No real record is read and no budget is spent: the data are invented, the charges are kept
in memory. The pipeline is the real one, from event tables through the engine and the wall to
the released table, with a fresh release key in every run.
"""

from __future__ import annotations

import json
import math
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
    parameters_of,
    shared,
)
from sfumato.cli.telling import Working
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.audit.run import Audit, Row

MECHANISMS = "mechanisms"
_SCOUTING_SHARE, _LEAST_SCOUTING = 20, 200


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
    from sfumato.audit.mechanisms import mechanism_subjects
    from sfumato.audit.run import audit as run_audit
    from sfumato.audit.schemes import (
        EXPECTED_USERS,
        exact_rows,
        other_rows,
        scheme_subjects,
        world_of,
    )
    from sfumato.density.registry import SCHEMES, scheme_named
    from sfumato.density.request import parse_bound
    from sfumato.model.counts import Counting

    if count not in tuple(Counting):
        raise UsageError(
            f"{count!r} cannot be counted.", remedy=f"Choose from {', '.join(Counting)}."
        )
    if not 0 < delta < 1 or not 0.5 <= confidence < 1:
        raise UsageError("Delta lies between 0 and 1, confidence between 0.5 and 1.")
    epsilons = sorted(epsilon or [1.0, 2.0, 4.0, 8.0])
    if not all(math.isfinite(e) and e > 0 for e in epsilons):
        raise UsageError("Every epsilon must be finite and positive.")
    with Working(quiet or as_json, "starting") as progress:

        def say(what: str) -> None:
            progress(what, -1.0)

        exact: list[Row] = []
        if scheme == MECHANISMS:
            subjects = [s for e in epsilons for s in mechanism_subjects(e, delta)]
        else:
            if scheme not in SCHEMES:
                raise UsageError(
                    f"There is no scheme {scheme!r}.",
                    remedy=f"Choose from {', '.join([*sorted(SCHEMES), MECHANISMS])}.",
                )
            world = world_of(
                scheme_named(scheme),
                epsilons,
                delta,
                bound=parse_bound(bound or "weight:3"),
                counting=Counting(count),
                expected_users=expected_users or EXPECTED_USERS,
                parameters=parameters_of(parameter),
            )
            say("exact shifts behind the wall, and what is published")
            exact = exact_rows(world, epsilons, seed)
            if not parameter:  # otherwise exactly these settings are meant
                say("each parameter at another value")
                exact += other_rows(world, min(epsilons), seed)
            subjects = scheme_subjects(
                world,
                epsilons,
                measurements=measurements,
                scouting=scouting or max(_LEAST_SCOUTING, runs // _SCOUTING_SHARE),
                seed=seed,
                progress=say,
            )
        done = iter(range(len(subjects)))

        def attacked(what: str) -> None:
            progress(what, next(done, 0) / len(subjects))

        result = run_audit(subjects, runs=runs, confidence=confidence, seed=seed, progress=attacked)
    _hand_over(result.plus(exact), out, quiet=quiet, as_json=as_json)


def _hand_over(result: Audit, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from sfumato.audit import report

    plain = json.dumps(report.as_json(result), indent=2, ensure_ascii=False)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
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
