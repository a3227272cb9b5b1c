"""Run a subject on both of two neighbouring inputs, bound its loss from below, give a verdict.

A `Subject` is anything that can be run many times with fresh randomness on either input: a
single mechanism, or a whole scheme from events to released table. Everything it claims is
tested; with m tests in one audit each is made at confidence 1 - (1 - confidence) / m, so that
the table as a whole accuses an honest subject with probability at most 1 - confidence.

Claims are what a mechanism says about itself, as statements that runs can contradict. `claims_of`
reads them off the privacy events that were charged, through the same accounting that the manifest
uses: the epsilon at delta, and for purely Gaussian releases mu.

Which pair of neighbours is worst is not known beforehand: `worst` tries many with few runs
and keeps the one that looks worst. The runs it looked at are thrown away, so the search
does not weaken the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from scipy.special import ndtr

from sfumato.audits.bounds import SMALLEST_SAMPLE, epsilon_lower_bound, mu_lower_bound, parametric
from sfumato.audits.statistics import EVERYTHING, Released, Statistic, as_released, projection
from sfumato.errors import UsageError
from sfumato.privacy.accounting.compose import guarantee, total_rho
from sfumato.privacy.accounting.gaussian import LEAST_SIGMA2, variation
from sfumato.privacy.events import GaussianEvent, PrivacyEvent

_TOO_COARSE = 0.2
"""Above this total variation from continuous noise a test of mu could accuse nobody."""


@dataclass(frozen=True, slots=True)
class EpsilonClaim:
    """(epsilon, delta)-DP."""

    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        return self.epsilon

    def __str__(self) -> str:
        at = f" at δ = {self.delta:.2g}" if self.delta else ""
        return f"ε ≤ {self.epsilon:.4g}{at}"


@dataclass(frozen=True, slots=True)
class MuClaim:
    """mu-GDP up to a total variation of `slack` on each input (see `bounds`)."""

    mu: float
    slack: float = 0.0

    @property
    def value(self) -> float:
        return self.mu

    def __str__(self) -> str:
        return f"μ ≤ {self.mu:.4g}"


@dataclass(frozen=True, slots=True)
class RhoClaim:
    """rho-zCDP."""

    rho: float

    @property
    def value(self) -> float:
        return self.rho

    def __str__(self) -> str:
        return f"ρ ≤ {self.rho:.4g}"


@dataclass(frozen=True, slots=True)
class SensitivityClaim:
    """One person moves a measurement by at most `limit` in its norm."""

    limit: float
    norm: str

    @property
    def value(self) -> float:
        return self.limit

    def __str__(self) -> str:
        return f"{self.norm} ≤ {self.limit:.5g}"


@dataclass(frozen=True, slots=True)
class SameOutputClaim:
    """Under equal answers of the wall everything that is published is the same, byte for byte."""

    differing: int = 0
    """Parts (columns, remarks, files) that may differ: none."""

    @property
    def value(self) -> float:
        return float(self.differing)

    def __str__(self) -> str:
        return "same bytes under equal answers"


Claim = EpsilonClaim | MuClaim | RhoClaim | SensitivityClaim | SameOutputClaim


def claims_of(events: Iterable[PrivacyEvent], delta: float) -> tuple[Claim, ...]:
    """All that these events claim together at this delta."""
    listed = list(events)
    claims: list[Claim] = [EpsilonClaim(guarantee(listed, delta).epsilon, delta)]
    gaussians = [event for event in listed if isinstance(event, GaussianEvent)]
    if listed and len(gaussians) == len(listed):
        slack = math.fsum(_from_continuous(event) for event in gaussians)
        if slack < _TOO_COARSE:
            claims.append(MuClaim(math.sqrt(2 * float(total_rho(gaussians))), slack))
    return tuple(claims)


def _from_continuous(event: GaussianEvent) -> float:
    """Total variation from rounded continuous noise: the proved bound, or summed up exactly.

    The bound is proved for fine lattices only. A manifest keeps to it; an audit may compute the
    same distance number by number where the noise is small.
    """
    if event.sigma2 >= LEAST_SIGMA2:
        return variation(event.sigma2, event.touched)
    sigma = math.sqrt(event.sigma2)
    k = np.arange(-60.0, 61.0)
    discrete = np.exp(-(k**2) / (2 * sigma**2))
    rounded = ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma)
    apart = float(np.abs(discrete / discrete.sum() - rounded).sum()) / 2
    return min(1.0, event.touched * (apart + 1e-12))


Draw = Callable[[bool, int, int], Released]
"""(with the user?, runs, seed) -> runs x released numbers, each run with fresh randomness."""
Progress = Callable[[str], None]
_FINALISTS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """What is audited: a name, the pair of inputs, what is claimed, and how to run it."""

    name: str
    pair: str
    claims: tuple[Claim, ...]
    draw: Draw
    statistics: tuple[Statistic, ...] = EVERYTHING
    shift: Statistic = projection
    """The score of the mu test."""


@dataclass(frozen=True, slots=True)
class Row:
    """One claim, what the runs prove about it, and the verdict."""

    subject: str
    pair: str
    claim: Claim
    measured: float
    how: str
    runs: int
    confidence: float
    if_normal: float | None = None
    """The parametric bound of mu, which relies on normality; shown, never judged by."""
    if_doubled: float | None = None
    """What these runs would have proved of a person who counts twice; None where it is exact."""

    @property
    def violated(self) -> bool:
        return self.measured > self.claim.value

    @property
    def powerless(self) -> bool:
        """Whether even a bound that is enforced at twice its claim would have gone unseen."""
        return self.if_doubled is not None and self.if_doubled <= self.claim.value

    @property
    def verdict(self) -> str:
        if self.violated:
            return "VIOLATED"
        return "no power" if self.powerless else "holds"


@dataclass(frozen=True, slots=True)
class Audit:
    """The table. All its bounds hold together with probability `confidence`."""

    rows: tuple[Row, ...]
    confidence: float
    seed: int

    @property
    def violations(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.violated)

    def plus(self, exact: Sequence[Row]) -> Audit:
        """With rows that chance has no part in."""
        return replace(self, rows=(*self.rows, *exact))

    def __repr__(self) -> str:
        return f"<Audit: {len(self.rows)} rows, {len(self.violations)} above their claim>"

    def _repr_html_(self) -> str:
        from sfumato.audits.report import as_markdown  # which knows this class

        return f"<pre>{escape(as_markdown(self))}</pre>"


def audit(
    subjects: Sequence[Subject],
    *,
    runs: int,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Progress | None = None,
) -> Audit:
    """Test every claim of every subject with `runs` runs on each input."""
    tests = sum(len(subject.claims) for subject in subjects)
    if tests == 0 or runs < SMALLEST_SAMPLE:
        raise UsageError(
            f"An audit needs something to test and at least {SMALLEST_SAMPLE} runs.",
            remedy="Try `runs=20000`.",
        )
    each = 1 - (1 - confidence) / tests
    rows: list[Row] = []
    for number, subject in enumerate(subjects):
        if progress:
            progress(f"{subject.name}, {subject.pair}")
        pair = _both(subject, runs, (seed, number))
        rows += [_judge(subject, claim, *pair, each) for claim in subject.claims]
    return Audit(tuple(rows), confidence, seed)


def worst(
    subjects: Sequence[Subject],
    *,
    runs: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Subject:
    """The subject whose inputs look furthest apart, in runs that are then thrown away.

    All are looked at with `runs` runs, the best few again with four times as many.
    """
    if not subjects:
        raise UsageError("There is nothing to choose from.")
    left = list(range(len(subjects)))
    for turn in (1, 2):
        distance = {}
        for i in left:
            if progress:
                progress(f"looking at {subjects[i].name}, {subjects[i].pair}")
            size = max(runs, SMALLEST_SAMPLE) * (1 if turn == 1 else 4)
            distance[i] = _apart(subjects[i], *_both(subjects[i], size, (seed, i, turn)))
        left = sorted(left, key=lambda i: -distance[i])[: _FINALISTS if turn == 1 else 1]
    return subjects[left[0]]


def _apart(subject: Subject, one: Released, other: Released) -> float:
    """How far the inputs seem apart: the shift, or what a single event proves, if more."""
    half = len(one) // 2
    score = subject.shift.fit(one[:half], other[:half])
    shift = parametric(score(one[half:]), score(other[half:]), confidence=0.5)
    event = epsilon_lower_bound(one, other, confidence=0.9, statistics=subject.statistics)
    return max(shift, event.epsilon)


def _both(subject: Subject, runs: int, entropy: tuple[int, ...]) -> tuple[Released, Released]:
    seeds = np.random.SeedSequence(entropy).generate_state(2, np.uint64)
    one, other = (
        as_released(subject.draw(side, runs, int(seeds[i]))) for i, side in enumerate((True, False))
    )
    if one.shape != other.shape:
        raise UsageError(f"{subject.name} released tables of different sizes.")
    return one, other


def _judge(
    subject: Subject, claim: Claim, one: Released, other: Released, confidence: float
) -> Row:
    if isinstance(claim, EpsilonClaim):
        proof = epsilon_lower_bound(
            one, other, delta=claim.delta, confidence=confidence, statistics=subject.statistics
        )
        return Row(
            subject.name,
            subject.pair,
            claim,
            proof.epsilon,
            proof.event,
            proof.runs,
            confidence,
            if_doubled=proof.if_doubled,
        )
    if not isinstance(claim, MuClaim):
        raise UsageError("A sensitivity is compared exactly, not by runs: see `exact_shifts`.")
    shift = mu_lower_bound(
        one, other, confidence=confidence, statistic=subject.shift, slack=claim.slack
    )
    return Row(
        subject.name,
        subject.pair,
        claim,
        shift.mu,
        shift.statistic,
        shift.runs,
        confidence,
        shift.parametric,
        shift.if_doubled,
    )
