"""`sfumato.audit`: attack a scheme on made-up neighbours and compare with what it claims.

Schemes of densities are attacked from outside, by many runs, and looked at from inside, exactly
(`schemes`); mechanisms of the wall by runs alone (`mechanisms`); streams exactly (`streams`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sfumato.audits.mechanisms import mechanism_subjects
from sfumato.audits.run import Audit, Row
from sfumato.audits.run import audit as run_audit
from sfumato.audits.schemes import (
    EXPECTED_USERS,
    Progress,
    exact_rows,
    other_rows,
    scheme_subjects,
    world_of,
)
from sfumato.audits.streams import stream_audit, stream_other_rows
from sfumato.density.registry import SCHEMES, scheme_named
from sfumato.density.request import counting_of, parse_bound
from sfumato.density.scheme import Parameter
from sfumato.errors import UsageError
from sfumato.model.counts import Bound, Counting
from sfumato.streams.registry import SCHEMES as STREAMS
from sfumato.streams.registry import stream_scheme

MECHANISMS = "mechanisms"
STREAM = "stream/"
"""Before the name of a stream's scheme."""
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_SCOUTING_SHARE, _LEAST_SCOUTING = 20, 200


def audit(
    scheme: str,
    *,
    epsilon: Sequence[float] = _EPSILONS,
    delta: float = 1e-6,
    runs: int = 4_000,
    bound: Bound | str = "weight:3",
    count: Counting | str = Counting.VISITS,
    expected_users: int | None = None,
    parameter: Mapping[str, Parameter] | None = None,
    measurements: bool = False,
    scouting: int | None = None,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Progress | None = None,
) -> Audit:
    """Bound from below what a release really costs, and compare with its claim.

    No real record is read and no budget is spent: the data are invented, the charges are kept in
    memory. The pipeline is the real one, from event tables through engine and wall to the
    released table, with a fresh release key in every run.

    The scheme of a stream is audited exactly, by replay, under every unit that it has. Chance has
    no part in that: `runs`, `scouting`, `measurements` and `confidence` change nothing there. Nor
    do `bound` and `count`: a stream counts a person once a slot.

    Args:
        scheme: A scheme of densities, one of streams (`stream/rhythm`), or `mechanisms` for all
            mechanisms of the wall.
        epsilon: Epsilons to audit at.
        delta: Delta of every claim.
        runs: Runs on each of the two inputs.
        bound: What one person may contribute: weight:3 or sample:30.
        count: What is counted: visits or people.
        expected_users: What schemes that ask for a number of people are told.
        parameter: Settings of the scheme's own, by name; exactly these are then audited.
        measurements: Audit the noisy measurements, too.
        scouting: Runs to look at each pair with; default: a twentieth of `runs`.
        confidence: Of the table as a whole.
        seed: The same seed gives the same table.
        progress: Told what is being done.

    Returns:
        The table; `violations` are the rows above their claim.

    Raises:
        UsageError: There is no such scheme, it has no such parameter, or a number is out of range.

    Example:
        >>> found = sfumato.audit("laplace", epsilon=[1.0], runs=400)      # doctest: +SKIP
        >>> found.violations                                               # doctest: +SKIP
        []
    """
    if not 0 < delta < 1 or not 0.5 <= confidence < 1:
        raise UsageError("Delta lies between 0 and 1, confidence between 0.5 and 1.")
    epsilons = sorted(epsilon)
    if not epsilons or not all(math.isfinite(e) and e > 0 for e in epsilons):
        raise UsageError("Every epsilon must be finite and positive.")
    say: Progress = progress or (lambda _: None)
    exact: list[Row] = []
    if scheme.startswith(STREAM) and scheme.removeprefix(STREAM) in STREAMS:
        rows = stream_audit(
            stream_scheme(scheme.removeprefix(STREAM), parameter),
            epsilons,
            delta,
            expected_users=expected_users,
            seed=seed,
            progress=say,
        )
        if not parameter:  # otherwise exactly these settings are meant
            say("each parameter at another value")
            rows += stream_other_rows(
                scheme.removeprefix(STREAM), min(epsilons), delta, expected_users, seed
            )
        return Audit(tuple(rows), confidence, seed)
    if scheme == MECHANISMS:
        subjects = [s for e in epsilons for s in mechanism_subjects(e, delta)]
    else:
        if scheme not in SCHEMES:
            raise UsageError(
                f"There is no scheme {scheme!r}.",
                remedy="Choose from "
                + ", ".join([*sorted(SCHEMES), *(STREAM + name for name in STREAMS), MECHANISMS])
                + ".",
            )
        world = world_of(
            scheme_named(scheme),
            epsilons,
            delta,
            bound=parse_bound(bound) if isinstance(bound, str) else bound,
            counting=counting_of(count),
            expected_users=expected_users or EXPECTED_USERS,
            parameters=dict(parameter or {}),
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
    found = run_audit(subjects, runs=runs, confidence=confidence, seed=seed, progress=say)
    return found.plus(exact)
