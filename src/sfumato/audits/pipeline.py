"""Whole pipelines under audit: by runs with fresh noise, and exactly, by replay.

**By runs.** A pipeline is source, wall, recipe, and what it publishes. Every run gets a fresh
release key, so sampling and noise are drawn anew exactly as in a release; only the counting is
remembered between runs (`model.source.RecallingSource`). What the
recipe charged must be what its claims were computed from, or the audit stops: a pipeline that
measures more than it says would be caught by its own bill. `pipeline` looks at what is published,
`transcripts` at the answers of the wall themselves, before refinement has smoothed anything away.

**The same bytes under equal answers.** Everything behind the wall's answers must be
post-processing: a function of these answers and of
public facts. So a scheme that is run on one input and replayed on its neighbour with the very
same answers must hand back the same bytes: the table, its intervals, its remarks, the files that
are made from them. A byte that differs was decided from private numbers that nobody paid for,
and so was a run that is refused on one of the two inputs only. There is no chance in the
comparison, and it does not ask how the numbers got out: through a
box that was opened, a function that looked around inside one, or an error.

**Exact shifts**: what one person really moves, measurement by measurement, against the charge.
Every pair of neighbouring inputs is run and replayed a few times (`transcript`), each time
with fresh noise, in both directions. The largest shift of each measurement stands in the
table beside the sensitivity it was charged for. There is no chance in the comparison: one
shift above its sensitivity is a proof, whatever its share of the budget, and at the epsilon
in use. Both runs go to the end, and everything they publish is compared byte for byte: that
is how a leak is seen which does not pass the wall. What is still left to attacks from outside
(`pipeline`) is a wall that draws other noise than it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.run import Row, SameOutputClaim, SensitivityClaim, Subject, claims_of
from sfumato.audits.statistics import (
    EVERYTHING,
    Released,
    best_of,
    column,
    discriminant,
    projection,
)
from sfumato.audits.transcript import (
    ListeningWall,
    Scheme,
    Shift,
    Step,
    joint_share,
    listen,
    log_ratio,
    same_measurements,
    shifts,
)
from sfumato.errors import UsageError
from sfumato.model.source import SAMPLES, Source, recalling
from sfumato.privacy.events import Charger, PrivacyEvent, Tab
from sfumato.privacy.wall import Wall

Recipe = Callable[[Source, Wall], NDArray[np.float64]]
"""From private counts to the numbers that are published."""


def release_key(seed: int, run: int) -> bytes:
    """A fresh 256-bit key for each run of an audit, repeatable from the audit's seed."""
    return hashlib.sha256(f"sfumato/audit/{seed}/{run}".encode()).digest()


def pipeline(
    name: str,
    pair: str,
    with_user: Source,
    without_user: Source,
    recipe: Recipe,
    events: Mapping[str, PrivacyEvent],
    delta: float,
    samples: int = SAMPLES,
) -> Subject:
    """Runs `recipe` on either source; claims what `events` (the plan) cost."""
    sources = {True: recalling(with_user, samples), False: recalling(without_user, samples)}

    def draw(with_it: bool, runs: int, seed: int) -> Released:
        rows: list[NDArray[np.float64]] = []
        for run in range(runs):
            tab = Tab()
            rows.append(np.ravel(recipe(sources[with_it], Wall(tab, release_key(seed, run)))))
            if run == 0 and tab.charged != dict(events):
                raise UsageError(f"{name} charged something other than what it planned.")
        return np.array(rows, dtype=np.float64)

    claims, statistics = claims_of(events.values(), delta), (*EVERYTHING, discriminant)
    return Subject(name, pair, claims, draw, statistics, best_of(projection, discriminant))


LIKELIHOOD = column(0, "likelihood ratio of the answers")


def transcripts(
    name: str,
    pair: str,
    with_user: Source,
    without_user: Source,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    cells: Mapping[str, int],
    delta: float,
    samples: int = SAMPLES,
) -> Subject:
    """The answers of the wall, and before them their likelihood ratio, by replay.

    `cells` are the most numbers of each measurement; where a run took fewer (clusters that
    merged) the rest is absent.
    """
    sources = {True: recalling(with_user, samples), False: recalling(without_user, samples)}

    def draw(with_it: bool, runs: int, seed: int) -> Released:
        rows = np.full((runs, 1 + sum(cells.values())), np.nan)
        for run in range(runs):
            key, tab = release_key(seed, run), Tab()
            here = listen(scheme, sources[with_it], tab, key, most=len(events))
            there = listen(scheme, sources[not with_it], Tab(), key, here, most=len(events))
            if run == 0 and tab.charged != dict(events):
                raise UsageError(f"{name} charged something other than what it planned.")
            ratio = log_ratio(here, there)
            rows[run, 0] = ratio if with_it else -ratio
            at = 1
            for step in here:
                rows[run, at : at + step.answer.size] = step.answer.ravel()
                at += cells[step.label]
        return rows

    claims = claims_of(events.values(), delta)
    statistics = (LIKELIHOOD, *EVERYTHING, discriminant)
    return Subject(
        name, pair, claims, draw, statistics, best_of(LIKELIHOOD, projection, discriminant)
    )


Publisher = Callable[[object], Mapping[str, bytes]]
"""From what a scheme hands back to everything that is published of it, by name."""

REFUSED = "refusal"


@dataclass(frozen=True, slots=True)
class Finished:
    """One run to its end: the transcript, and what was published or why nothing was."""

    steps: list[Step]
    parts: Mapping[str, bytes]
    refusal: Exception | None = None


def play(
    scheme: Scheme,
    source: Source,
    charger: Charger,
    key: bytes,
    publish: Publisher,
    answers: Sequence[Step] = (),
) -> Finished:
    """Run to the end, or replay with the `answers` of another run, and publish."""
    wall = ListeningWall(charger, key, answers)
    try:
        parts = publish(scheme(source, wall))
    except Exception as error:  # a refusal is an answer too: it is compared like the rest
        said = f"{type(error).__name__}: {error}".encode()
        return Finished(wall.steps, {REFUSED: said}, error)
    return Finished(wall.steps, parts)


def differing(one: Finished, other: Finished) -> list[str]:
    """Names of the parts that are not the same bytes, and the measurements if others were taken."""
    names = [*one.parts, *(name for name in other.parts if name not in one.parts)]
    found = [name for name in names if one.parts.get(name) != other.parts.get(name)]
    if not same_measurements(one.steps, other.steps):
        found.insert(0, "measurements taken")
    return found


def parts_of(output: object, name: str = "") -> dict[str, bytes]:
    """Every field of what a scheme hands back, by its path: `values`, `measurements/0/label`."""
    if isinstance(output, np.ndarray):
        return {name: f"{output.dtype} {output.shape} ".encode() + output.tobytes()}
    below: Mapping[str, object]
    if is_dataclass(output) and not isinstance(output, type):
        below = {field.name: getattr(output, field.name) for field in fields(output)}
    elif isinstance(output, Mapping):
        below = {str(key): value for key, value in output.items()}
    elif isinstance(output, list | tuple):
        below = {str(i): value for i, value in enumerate(output)}
    else:
        return {name: repr(output).encode()}
    found = {name: f"{type(output).__name__} of {len(below)}".encode()} if name else {}
    for key, value in below.items():
        found |= parts_of(value, f"{name}/{key}" if name else key)
    return found


Pairs = Mapping[str, tuple[Source, Source]]
"""Name of a pair to the source with the user and the one without."""
_NAMED = 3
"""Parts that differ and are named in the table; more are counted."""


@dataclass(frozen=True, slots=True)
class ExactShifts:
    """Rows for the table, and how much of the whole loss each pair uses up (1 is all of it)."""

    rows: tuple[Row, ...]
    joint: dict[str, float]

    @property
    def worst_first(self) -> list[str]:
        return sorted(self.joint, key=lambda pair: -self.joint[pair])

    @property
    def same_output(self) -> bool:
        """Whether everything published was the same under equal answers."""
        return not [r for r in self.rows if isinstance(r.claim, SameOutputClaim) and r.violated]


def exact_shifts(
    name: str,
    pairs: Pairs,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    *,
    transcripts: int = 2,
    seed: int = 0,
    publish: Publisher = parts_of,
) -> ExactShifts:
    """The largest shift of every measurement over all pairs, and the joint one of each pair.

    `publish` makes of a scheme's output everything that leaves; all of it is compared.
    """
    largest: dict[tuple[str, str], tuple[str, Shift]] = {}
    joint: dict[str, float] = {}
    apart: tuple[str, list[str]] = ("all pairs", [])
    for pair, sources in pairs.items():
        for turn in range(transcripts):
            first, second = sources if turn % 2 == 0 else sources[::-1]
            run, replay = _both(
                name, first, second, scheme, events, release_key(seed, turn), publish
            )
            found = differing(run, replay)
            if len(found) > len(apart[1]):
                apart = (pair, found)
            joint.setdefault(pair, 0.0)
            if run.refusal or not same_measurements(run.steps, replay.steps):
                continue
            joint[pair] = max(joint[pair], joint_share(run.steps, replay.steps))
            for shift in shifts(run.steps, replay.steps):
                where = (shift.label, shift.norm)
                if where not in largest or shift.moved > largest[where][1].moved:
                    largest[where] = (pair, shift)
    runs = "1 transcript" if transcripts == 1 else f"{transcripts} transcripts"
    how = f"exact, {runs} of {len(pairs)} pairs"
    rows = [
        Row(
            f"{name} {label}",
            pair,
            SensitivityClaim(shift.allowed, norm),
            shift.moved,
            how,
            transcripts,
            1.0,
        )
        for (label, norm), (pair, shift) in largest.items()
    ]
    return ExactShifts((*rows, output_row(name, *apart, how, transcripts)), joint)


def output_row(name: str, pair: str, parts: Sequence[str], how: str, runs: int) -> Row:
    """How many parts of what is published differ under equal answers; the first are named."""
    if parts:
        more = len(parts) - _NAMED
        how += ", apart in " + ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Row(f"{name} output", pair, SameOutputClaim(), float(len(parts)), how, runs, 1.0)


def _both(
    name: str,
    first: Source,
    second: Source,
    scheme: Scheme,
    events: Mapping[str, PrivacyEvent],
    key: bytes,
    publish: Publisher,
) -> tuple[Finished, Finished]:
    """A run and its replay. A scheme that is refused whoever is in the data cannot be audited."""
    tab = Tab()
    run = play(scheme, first, tab, key, publish)
    replay = play(scheme, second, Tab(), key, publish, run.steps)
    if run.refusal and run.parts[REFUSED] == replay.parts.get(REFUSED):
        raise run.refusal
    if not run.refusal and tab.charged != dict(events):
        raise UsageError(f"{name} charged something other than what it planned.")
    return run, replay
