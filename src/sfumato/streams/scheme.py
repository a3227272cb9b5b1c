"""The contract of stream schemes, their noise, and the meter that keeps every window's budget.

**The contract.** A scheme plans from public facts and makes a publisher. A publisher is given the
private counts of one slot and a wall, and returns what is published. It keeps what it needs in a
`State` that can be put away and taken up again: plain numbers and arrays, and private boxes where
the scheme compares with raw counts of an earlier slot. `Repeating` is what most publishers share: a
last publication that is repeated until something is measured.

**The noise.** A window holds at most `most` measurements of a slot's counts. Laplace noise then has
scale most * l1 / epsilon (pure), Gaussian noise variance most * l2^2 / (2 rho). For few
measurements Laplace is the smaller, for many Gaussian: its variance grows with `most`, not its
square. `NoiseKind.BEST` takes the smaller variance; delta 0 leaves only Laplace.

**The meter** knows what every window of a stream has spent, and refuses before noise is drawn. A
plan opens *accounts*; each is one event that the ledger has charged for the whole stream
(for the stream's unit), such as "19 histograms with Laplace noise of scale 19". Measurements
draw on an account slot by slot, and choose their size in the light of what was published; the
meter adds up exactly and keeps every window's sum within the account. That is a privacy
filter: sums of pure epsilons and of rho may be spent adaptively (Feldman & Zrnic 2021;
Whitehouse et al. 2023). A unit touches the slots of one window only, so what the slots
outside it spend costs that unit nothing.

Labels are `account@slot` or `account@slot/part`. Only the current window is remembered, and those
that were measured ahead of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import event_epsilon, event_rho
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, Measurement, PrivacyEvent
from sfumato.privacy.exact import Number, exact, rounded_up
from sfumato.privacy.mechanisms.additive import gaussian_variance, laplace_variance
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts

if TYPE_CHECKING:  # it comes with scipy.stats, which most schemes do without
    from sfumato.published.estimate import Estimate
    from sfumato.streams.kept import Vectors
    from sfumato.streams.parameters import Declaration


@dataclass(frozen=True, slots=True)
class Account:
    """A named event of the ledger on which many measurements draw."""

    label: str
    event: PrivacyEvent
    run: bool = False
    """One measurement that goes on over several slots, and may be taken up again after a stop."""
    ahead: int = 0
    """Windows beyond the published one that may already be measured, in a finished history."""

    @property
    def pure(self) -> bool:
        return event_epsilon(self.event) is not None

    @property
    def whole(self) -> Fraction:
        """All there is, in epsilon for a pure event and in rho for a Gaussian one."""
        return self.cost(self.event)

    def cost(self, event: PrivacyEvent) -> Fraction:
        """What an event takes from this account."""
        if not self.pure:
            return event_rho(event)
        epsilon = event_epsilon(event)
        if epsilon is None:
            raise UsageError(f"The account {self.label!r} is pure; Gaussian noise is not.")
        return epsilon


class Meter:
    """A `Charger` over the accounts of a plan, for slots in increasing order."""

    def __init__(self, accounts: Iterable[Account], facts: StreamFacts) -> None:
        self._facts = facts
        self._accounts = {account.label: account for account in accounts}
        self._spent: dict[str, deque[tuple[int, Fraction]]] = {
            label: deque() for label in self._accounts
        }
        self._last: dict[str, tuple[int, set[str]]] = {}
        self._open: set[str] = set()

    def charge(self, label: str, event: PrivacyEvent) -> None:
        name, _, rest = label.partition("@")
        if name not in self._accounts or not rest.split("/")[0].isdigit():
            raise UsageError(f"The measurement {label!r} was not planned.")
        slot = int(rest.split("/")[0])
        at, used = self._last.get(name, (-1, set()))
        if label in self._open:
            self._open.remove(label)
            return
        if slot < at or (slot == at and label in used):
            raise UsageError(f"The measurement {label!r} was already taken.")
        account = self._accounts[name]
        cost = account.cost(event)
        if self.spent(name, slot) + cost > account.whole:
            raise BudgetRefused(
                f"The measurement {label!r} would spend more than its window has.",
                remedy="This is a fault of the scheme: it must ask what is left.",
            )
        self._spent[name].append((slot, cost))
        self._last[name] = (slot, used | {label} if slot == at else {label})

    def spent(self, account: str, slot: int) -> Fraction:
        """What the account has spent in the part of the window that ends at `slot`.

        Where windows are measured ahead of what is published: in the whole window of `slot`.
        """
        kept, facts = self._spent[account], self._facts
        ahead = self._accounts[account].ahead
        while kept and facts.windows_between(kept[0][0], slot) > ahead:
            kept.popleft()
        if not ahead:
            return sum((cost for _, cost in kept), Fraction(0))
        ends = ((min(at, slot), max(at, slot), cost) for at, cost in kept)
        return sum((cost for a, b, cost in ends if facts.same_window(a, b)), Fraction(0))

    def left(self, account: str, slot: int) -> Fraction:
        """What a measurement at `slot` may still cost."""
        return self._accounts[account].whole - self.spent(account, slot)

    def affords(self, account: str, slot: int, event: PrivacyEvent) -> bool:
        """Whether such a measurement at `slot` stays within every window."""
        return self._accounts[account].cost(event) <= self.left(account, slot)

    def share_spent(self, slot: int) -> float:
        """The largest share of any account that the current window has spent."""
        shares = [self.spent(a.label, slot) / a.whole for a in self._accounts.values()]
        return float(max(shares, default=Fraction(0)))

    def state(self) -> dict[str, Any]:
        return {
            "spent": {
                name: [[slot, str(cost)] for slot, cost in kept]
                for name, kept in self._spent.items()
            },
            "last": {name: [slot, sorted(used)] for name, (slot, used) in self._last.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        for name, kept in state["spent"].items():
            self._spent[name] = deque((int(slot), Fraction(cost)) for slot, cost in kept)
        self._last = {name: (int(s), set(used)) for name, (s, used) in state["last"].items()}
        self._open = {
            label
            for name, (_, used) in self._last.items()
            for label in used
            if self._accounts[name].run
        }


class NoiseKind(StrEnum):
    BEST = "best"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Noise:
    """Laplace of a scale, or Gaussian of a variance parameter, in people."""

    kind: NoiseKind
    parameter: Fraction

    @property
    def variance(self) -> float:
        if self.kind is NoiseKind.LAPLACE:
            return laplace_variance(self.parameter)
        return gaussian_variance(self.parameter)

    @property
    def sd(self) -> float:
        return float(self.variance**0.5)

    def measure(
        self, wall: Wall, box: Private[Counts], label: str, touched: int = 2
    ) -> Measurement:
        """`touched` is the most cells that one unit moves: of a slot's counts no more than two."""
        if self.kind is NoiseKind.LAPLACE:
            return wall.laplace(box, scale=self.parameter, label=label)
        return wall.gaussian(box, sigma2=self.parameter, label=label, touched=touched)

    def event(self, l1: float, l2: float) -> PrivacyEvent:
        """What one such measurement is charged as."""
        if self.kind is NoiseKind.LAPLACE:
            return LaplaceEvent(rounded_up(l1), self.parameter)
        return GaussianEvent(rounded_up(l2), self.parameter, 2)

    def account(self, label: str, most: int, l1: float, l2: float, touched: int = 2) -> Account:
        """The event of `most` such measurements in one window, each of `touched` cells."""
        if self.kind is NoiseKind.LAPLACE:
            return Account(label, LaplaceEvent(rounded_up(l1 * most), self.parameter))
        whole = rounded_up(most**0.5 * rounded_up(l2))
        return Account(label, GaussianEvent(whole, self.parameter, touched * most))


def noise_of(
    facts: StreamFacts,
    kind: NoiseKind,
    most: int,
    share: Number = 1,
    l1: float | None = None,
    l2: float | None = None,
) -> Noise:
    """The least noise of a kind for `most` measurements of `share` of a window's budget."""
    one, two = facts.l1 if l1 is None else l1, facts.l2 if l2 is None else l2
    if kind is NoiseKind.LAPLACE:
        return Noise(kind, laplace_scale(one * most, exact(facts.epsilon) * exact(share)))
    if kind is NoiseKind.GAUSSIAN:
        if facts.delta == 0:
            raise UsageError("Gaussian noise needs a delta.", remedy="Give `delta`, say 1e-6.")
        # The account's sensitivity is rounded up twice, so the noise covers the rounded one.
        whole = rounded_up(most**0.5 * rounded_up(two))
        return Noise(kind, gaussian_sigma2(whole, exact(facts.rho) * exact(share)))
    candidates = [noise_of(facts, NoiseKind.LAPLACE, most, share, l1, l2)]
    if facts.delta > 0:
        candidates.append(noise_of(facts, NoiseKind.GAUSSIAN, most, share, l1, l2))
    return min(candidates, key=lambda noise: noise.variance)


Values = NDArray[np.float64]
State = Mapping[str, Any]
"""JSON values, numpy arrays and private boxes of numpy arrays, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """What leaves at one slot. `fresh` where something was measured for it.

    A scheme with a posterior publishes more than one number a cell. `values` is then the posterior
    mean, which adds up, and `median` has the least absolute error. Schemes that cannot state
    intervals leave the optional parts out.
    """

    values: Values
    fresh: bool
    sd: float
    """Standard deviation of the noise in one value, as far as public facts tell."""
    tainted: bool = False
    median: Values | None = None
    lower: Values | None = None
    """Lower end of every cell's interval, of the probability that `total` states."""
    upper: Values | None = None
    total: Estimate | None = None
    """The slot's sum over all cells, with its interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """How errors of all cells and slots hang together (`published.posterior.Factors`): what half
    of the draws add to the counts, the other half being its mirror image."""

    slots: Values
    """Pairs x slots, relative to the counts."""
    strengths: NDArray[np.float32]
    """Pairs x cells x rhythms."""
    rhythms: Values
    """Slots x rhythms."""
    chance: Values
    """Variance of each cell that no other shares, cells x slots."""

    def mapped(self, shares: Any) -> Joint:
        """About other places (place x cell shares), each a weighted sum of cells."""
        strengths = np.stack([np.asarray(shares @ one) for one in self.strengths])
        squared = shares.multiply(shares)
        chance = np.asarray(squared @ self.chance)
        return Joint(self.slots, strengths.astype(np.float32), self.rhythms, chance)

    def arrays(self, coverage: float) -> dict[str, NDArray[Any]]:
        """Those of `posterior.npz`. Neither the level nor places have draws of their own."""
        from sfumato.published.posterior import packed

        pairs, cells = self.strengths.shape[:2]
        none, alone = np.zeros(pairs), np.zeros((pairs, cells))
        return packed(
            *(none, alone, self.slots, self.strengths, self.rhythms, self.chance),
            np.ones(cells),
            coverage,
        )


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The accounts that the ledger reserves, and the plan in plain words."""

    scheme: str
    accounts: tuple[Account, ...]
    lines: tuple[str, ...] = ()
    coverage: float = 0.0
    """Probability of the intervals that every publication carries; 0 where none are stated."""
    median: bool = False
    """Whether every publication carries a median."""
    sums: float = 0.0
    """Probability of the interval of every slot's sum, where single counts have none."""
    keeps: bool = False
    """Whether what was measured is kept for later streams (`Keeping`)."""
    joint: bool = False
    """Whether it is stated how errors are correlated, so that sums have intervals (`Stating`)."""
    no_joint: str = ""
    """Why it is not, where single counts have intervals; empty for the common reason."""

    def __post_init__(self) -> None:
        labels = [account.label for account in self.accounts]
        if len(set(labels)) != len(labels) or any("@" in label for label in labels):
            raise UsageError("Accounts have names of their own, without the sign @.")
        if len({account.pure for account in self.accounts}) > 1:
            raise UsageError("A plan is pure throughout or Gaussian throughout.")


class Publisher(Protocol):
    """Publishes slot after slot, in order, each once."""

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication: ...

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


@runtime_checkable
class Finished(Protocol):
    """A publisher that must see a whole window before its first slot leaves.

    With `ahead` it must see so many later windows, too.
    """

    ahead: int

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        """`whole` is cell x slot of one window, its first slot being `first`."""


@runtime_checkable
class Keeping(Protocol):
    """A publisher whose noisy measurements serve streams to come."""

    def kept(self) -> Vectors: ...


@runtime_checkable
class Stating(Protocol):
    """A publisher that knows after the last slot how errors of all of them hang together."""

    def joint(self) -> Joint: ...


class StreamScheme(Protocol):
    """A recipe: a frozen dataclass whose fields are its settings.

    `finished` says that it needs a window as a whole before it publishes.
    """

    @property
    def name(self) -> str: ...

    @property
    def finished(self) -> bool: ...

    @property
    def declares(self) -> Declaration: ...

    def plan(self, facts: StreamFacts) -> StreamPlan: ...

    def publisher(self, facts: StreamFacts) -> Publisher: ...


class Repeating:
    """Keeps the last publication. Starts with zeros, which is public knowledge of nothing."""

    finished = False
    ahead = 0

    def __init__(self, facts: StreamFacts) -> None:
        self.facts = facts
        self.last: Values = np.zeros(facts.cells)
        self.last_sd = 0.0
        self.tainted = False

    def repeat(self) -> Publication:
        return Publication(self.last, False, self.last_sd, self.tainted)

    def renew(self, values: Values, sd: float, tainted: bool) -> Publication:
        self.last, self.last_sd = values, sd
        self.tainted = self.tainted or tainted
        return Publication(values, True, sd, self.tainted)

    def state(self) -> State:
        return {"last": self.last, "last_sd": self.last_sd}

    def restore(self, state: State) -> None:
        self.last, self.last_sd = state["last"], float(state["last_sd"])
