"""What may be chosen about the Paris release. All public, all in the manifest.

The defaults were found on synthetic cities other than those that figures are reported for;
docs/decisions/paris-tuning.md has the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sfumato.density.common import flag, no_others, number, whole, word
from sfumato.density.refine.fourier import Transform
from sfumato.density.scheme import PublicFacts
from sfumato.errors import UsageError


class Space(StrEnum):
    """Where counts get their noise on the way from towers to zones."""

    TOWERS = "towers"
    ZONES = "zones"
    COVER = "cover"


class Histogram(StrEnum):
    """How the places' totals are measured."""

    CLIPPED = "clipped"
    """Each user's totals, scaled to a norm: heavy users count for more than one visit."""
    ONE_VISIT = "one-visit"
    """One random visit of each user, as the paper has it."""


class Keep(StrEnum):
    """What becomes of the noisy coefficients of a cluster's series."""

    SHRINK = "shrink"
    """All kept, shrunk towards the shape that clusters share. Chosen after the noise: free."""
    CUT = "cut"
    """The first k, k by an estimate of the error after the noise: free."""
    EXPONENTIAL = "exponential"
    """The first k, k by the exponential mechanism before the noise: paid for (EFPAG)."""
    FIRST = "first"
    """The first k, k given (FPA)."""


class Noise(StrEnum):
    """The law of the noise, and with it the claim."""

    GAUSSIAN = "gaussian"
    """(epsilon, delta)-DP: EFPAG."""
    LAPLACE = "laplace"
    """Pure epsilon-DP: EFPA. Needs one visit a user and a cut before the noise."""


class Cut(StrEnum):
    """For whom k is chosen where `keep` is exponential."""

    COMMON = "common"
    """One k for all clusters."""
    EACH = "each"
    """One k for every cluster, as the paper has it."""


WORDS = {
    "space": "towers, zones or cover",
    "histogram": "clipped or one-visit",
    "histogram_limit": "the norm that users' totals are scaled to",
    "histogram_share": "share of the budget",
    "total_share": "share of the budget; 0 leaves the grand total to the histogram",
    "total_cap": "visits of one user that the grand total counts at most",
    "choice_share": "share of the budget, if keep is exponential",
    "cut": "common or each: one k for all clusters or one for each, if keep is exponential",
    "noise": "gaussian, or laplace for a promise without delta",
    "tolerance": "tolerated error of a cluster's series relative to its total",
    "keep": "shrink, cut, exponential or first",
    "k": "coefficients, if keep is first",
    "transform": "dct or dft",
    "nights": "true or false: exponential curves through the small hours",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices, checked."""

    space: Space
    histogram: Histogram
    histogram_limit: float
    histogram_share: float
    total_share: float
    total_cap: int
    choice_share: float
    cut: Cut
    noise: Noise
    tolerance: float
    keep: Keep
    k: int
    transform: Transform
    nights: bool

    @classmethod
    def of(cls, facts: PublicFacts) -> Settings:
        """From the facts' parameters, defaults where nothing is said."""
        no_others("paris", facts, WORDS)
        slots = facts.grid.slots
        noise = Noise(word(facts, "noise", Noise.GAUSSIAN, list(Noise)))
        pure = noise is Noise.LAPLACE
        keep = Keep(word(facts, "keep", Keep.EXPONENTIAL if pure else Keep.SHRINK, list(Keep)))
        histogram = Histogram.ONE_VISIT if pure else Histogram.CLIPPED
        # Every default below is a row of the grid in docs/decisions/paris-tuning.md (two cities of
        # 300,000 users, seeds 101 and 102; none of the cities that figures are reported for):
        # tolerance 0.005, histogram clipped at 8 with share 0.1, grand total share 0.02 and cap
        # 250, shrinkage after the noise, nights smoothed, noise at towers, DCT.
        found = cls(
            space=Space(word(facts, "space", Space.TOWERS, list(Space))),
            histogram=Histogram(word(facts, "histogram", histogram, list(Histogram))),
            histogram_limit=number(facts, "histogram_limit", 8.0, 0.01, 1e4),
            histogram_share=number(facts, "histogram_share", 0.1, 0.001, 0.98),
            total_share=number(facts, "total_share", 0.02, 0.0, 0.9),
            total_cap=whole(facts, "total_cap", 250, 1, 1 << 40),
            choice_share=number(facts, "choice_share", 0.1 if pure else 0.03, 0.001, 0.9),
            cut=Cut(word(facts, "cut", Cut.COMMON, list(Cut))),
            noise=noise,
            tolerance=number(facts, "tolerance", 0.005, 1e-6, 1e6),
            keep=keep,
            k=whole(facts, "k", min(30, slots), 1, slots),
            transform=Transform(word(facts, "transform", Transform.DCT, list(Transform))),
            nights=flag(facts, "nights", True),
        )
        if found.series_share <= 0:
            raise UsageError(
                "The shares of paris leave nothing for the series.",
                remedy="Lower histogram_share, total_share or choice_share.",
            )
        if found.space is not Space.TOWERS and facts.overlay is None:
            raise UsageError(
                f"The space {found.space} needs both towers and zones.",
                remedy="Give `towers` and `zones`, or leave space at towers.",
            )
        if pure:
            found._check_pure()
        return found

    def _check_pure(self) -> None:
        """What Laplace noise asks for."""
        if self.keep not in (Keep.EXPONENTIAL, Keep.FIRST) or self.cut is not Cut.COMMON:
            raise UsageError(
                "With noise laplace only as many coefficients as are kept get noise.",
                remedy="Take keep exponential or first, and cut common.",
            )
        if self.histogram is not Histogram.ONE_VISIT or self.space is not Space.TOWERS:
            raise UsageError(
                "With noise laplace totals come from one visit a user, and noise is at towers.",
                remedy="Take histogram one-visit and space towers.",
            )

    @property
    def series_share(self) -> float:
        """What the other measurements leave."""
        choice = self.choice_share if self.keep is Keep.EXPONENTIAL else 0.0
        return round(1.0 - self.histogram_share - self.total_share - choice, 9)
