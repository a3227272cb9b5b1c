"""`sfumato audit`: attack a scheme on made-up neighbours and compare with what it claims.

No real record is read and no budget is spent: the data are invented, the charges are kept
in memory. The pipeline is the real one, from event tables through the engine and the wall to
the released table, with a fresh release key in every run.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sfumato.api import parse_bound
from sfumato.density.registry import SCHEMES, scheme_named
from sfumato.density.scheme import Density, Plan, PublicFacts, Scheme
from sfumato.engine.local import LocalSource
from sfumato.model.bound import Bound, Counting
from sfumato.model.errors import UsageError
from sfumato.privacy.audit.mechanisms import mechanism_subjects
from sfumato.privacy.audit.pipeline import pipeline
from sfumato.privacy.audit.plot import save_plot
from sfumato.privacy.audit.recall import SAMPLES
from sfumato.privacy.audit.report import as_json, as_markdown, as_table
from sfumato.privacy.audit.run import Audit, Subject, worst
from sfumato.privacy.audit.run import audit as run_audit
from sfumato.privacy.audit.stage import Stage
from sfumato.privacy.audit.statistics import best_of, known_direction, projection

MECHANISMS = "mechanisms"
_LARGEST_CROWD = 400
_LOUD, _LISTEN = 200.0, 32
"""An epsilon at which the noise hardly hides the shift, and runs to hear it from."""
_EXPECTED_USERS = 500
"""What schemes that plan for a number of users are told."""
_SCOUTING_SHARE, _LEAST_SCOUTING, _SCOUTING_SAMPLES = 20, 200, 6

Released = Callable[[Density], NDArray[np.float64]]


def audit(
    scheme: Annotated[
        str, typer.Argument(help="A scheme, or 'mechanisms' for all mechanisms of the wall.")
    ],
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Epsilons to audit at [default: 1, 2, 4, 8].")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of every claim.")] = 1e-6,
    runs: Annotated[int, typer.Option(help="Runs on each of the two inputs.")] = 4_000,
    bound: Annotated[str, typer.Option(help="sample:L or weight:C.")] = "weight:3",
    count: Annotated[Counting, typer.Option(help="What is counted.")] = Counting.VISITS,
    measurements: Annotated[
        bool, typer.Option("--measurements", help="Audit the noisy measurements, too.")
    ] = False,
    scouting: Annotated[
        int | None, typer.Option(help="Runs to look at each pair with [default: runs / 20].")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the table as a whole.")] = 0.999,
    seed: Annotated[int, typer.Option(help="The same seed gives the same table.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for audit.json, audit.md and audit.png.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Bound from below what a release really costs, and compare with its claim."""
    if not 0 < delta < 1 or not 0.5 <= confidence < 1:
        raise UsageError("Delta lies between 0 and 1, confidence between 0.5 and 1.")
    epsilons = sorted(epsilon or [1.0, 2.0, 4.0, 8.0])
    if not all(math.isfinite(e) and e > 0 for e in epsilons):
        raise UsageError("Every epsilon must be finite and positive.")
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=quiet or as_json_,
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def say(what: str) -> None:
            bar.update(task, description=what, advance=1)

        if scheme == MECHANISMS:
            subjects = [s for e in epsilons for s in mechanism_subjects(e, delta)]
        else:
            if scheme not in SCHEMES:
                raise UsageError(
                    f"There is no scheme {scheme!r}.",
                    remedy=f"Choose from {', '.join([*sorted(SCHEMES), MECHANISMS])}.",
                )
            subjects = scheme_subjects(
                scheme_named(scheme),
                epsilons,
                delta,
                bound=parse_bound(bound),
                counting=count,
                measurements=measurements,
                scouting=scouting or max(_LEAST_SCOUTING, runs // _SCOUTING_SHARE),
                seed=seed,
                progress=say,
            )
        bar.update(task, total=len(subjects), completed=0)
        result = run_audit(subjects, runs=runs, confidence=confidence, seed=seed, progress=say)
    _hand_over(result, out, quiet=quiet, as_json_=as_json_)


def scheme_subjects(
    scheme: Scheme,
    epsilons: Sequence[float],
    delta: float,
    *,
    bound: Bound,
    counting: Counting = Counting.VISITS,
    measurements: bool = False,
    scouting: int = _LEAST_SCOUTING,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    only: str = "",
) -> list[Subject]:
    """The scheme at every epsilon, on the pair that looks worst at the largest of them.

    `only` restricts the search to pairs whose name holds this text.
    """
    stage = Stage.for_bound(bound)
    facts = {e: _facts(stage, e, delta, bound, counting) for e in epsilons}
    plans = {e: scheme.plan(known) for e, known in facts.items()}
    crowd = min(_LARGEST_CROWD, math.ceil(6 * plans[min(epsilons)].sd))
    views: dict[str, Released] = {"table": _table}
    if measurements:
        views["measurements"] = _measurements
    subjects: list[Subject] = []
    sources = {
        pair.name: (
            LocalSource(pair.with_user, stage.places, stage.grid, threads=1),
            LocalSource(pair.without_user, stage.places, stage.grid, threads=1),
        )
        for pair in stage.pairs(crowd)
        if only in pair.name
    }

    def subject(pair: str, e: float, view: str, samples: int = SAMPLES) -> Subject:
        recipe = _planned_once(scheme, plans[e])
        return pipeline(
            f"{scheme.name} {view}",
            pair,
            *sources[pair],
            lambda source, wall: views[view](recipe.run(source, wall, facts[e])),
            plans[e].events,
            delta,
            samples,
        )

    facts[_LOUD] = _facts(stage, _LOUD, delta, bound, counting)
    plans[_LOUD] = scheme.plan(facts[_LOUD])
    for view in views:
        candidates = [
            subject(pair, max(epsilons), view, samples=_SCOUTING_SAMPLES) for pair in sources
        ]
        pair = worst(candidates, runs=scouting, seed=seed, progress=progress).pair
        loud = subject(pair, _LOUD, view)
        shift = (loud.draw(True, _LISTEN, seed) - loud.draw(False, _LISTEN, seed + 1)).mean(axis=0)
        guess = best_of(known_direction(shift), projection)
        subjects += [replace(subject(pair, e, view), shift=guess) for e in epsilons]
    return subjects


def _facts(
    stage: Stage, epsilon: float, delta: float, bound: Bound, counting: Counting
) -> PublicFacts:
    return PublicFacts(
        place_ids=stage.places.ids,
        grid=stage.grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=min(_EXPECTED_USERS, math.floor(1 / delta)),
        bound=bound,
        counting=counting,
    )


def _planned_once(scheme: Scheme, plan: Plan) -> Scheme:
    """The scheme with its plan remembered: it follows from public facts, the same each run."""
    remembered = copy.copy(scheme)
    try:
        object.__setattr__(remembered, "plan", lambda _facts: plan)
    except AttributeError:  # a scheme with slots plans anew in every run: slower, the same
        return scheme
    return remembered


def _table(density: Density) -> NDArray[np.float64]:
    return density.values.astype(np.float64)


def _measurements(density: Density) -> NDArray[np.float64]:
    return np.concatenate([m.values.ravel() for m in density.measurements]).astype(np.float64)


def _hand_over(result: Audit, out: Path | None, *, quiet: bool, as_json_: bool) -> None:
    plain = json.dumps(as_json(result), indent=2, ensure_ascii=False)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "audit.json").write_text(plain + "\n", encoding="utf-8")
        (out / "audit.md").write_text(as_markdown(result), encoding="utf-8")
        try:
            save_plot(result, out / "audit.png")
        except UsageError as error:  # the plot is optional; the table is not
            Console(stderr=True, quiet=quiet).print(f"no plot: {error}", highlight=False)
    if as_json_:
        typer.echo(plain)
    elif not quiet:
        Console().print(as_table(result))
    if result.violations:
        raise typer.Exit(1)
