"""Sections 2 and 5: Table 1, John, two k-anonymous releases together, and 52 weeks.

* *Table 1* prints NYC and Boston generalised to "West US", a misprint: the printed labels and
  "East US" are both held against Definitions 1 and 2, and against the map of cities and coasts.
* *John* (section 2.2): 40 people like him, 38 of whom visited the hospital. What is concluded
  about him with his record in the data, and without it; by who looks at people like him, and by
  who knows all others.
* *Composition* (section 2.2, after Ganta, Kasiviswanathan & Smith 2008): two releases of as many
  people, k-anonymous each, half of the people in both, clustered independently.
* *52 weeks* (section 5): k epsilon by Theorem 1, against the root of k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from sfumato.attacks.report import canvas
from sfumato.privacy.accounting import zcdp_epsilon, zcdp_rho
from sfumato_lab.attacks.anonymised.groups import Left, left_after
from sfumato_lab.studies.queries.page import Grid, Picture, Section, save_figure
from sfumato_lab.syntactic.never_walk_alone import cluster_paths
from sfumato_lab.syntactic.people import Held, on_clock

Record = frozenset[str]
ORIGINAL: tuple[Record, ...] = (
    frozenset({"LA"}),
    frozenset({"LA", "Seattle"}),
    frozenset({"NYC", "Boston"}),
    frozenset({"NYC", "Boston"}),
    frozenset({"LA", "Seattle", "NYC"}),
    frozenset({"LA", "Seattle", "NYC"}),
    frozenset({"LA", "Seattle", "NYC", "Boston"}),
)
COVERS = {"West US": {"LA", "Seattle"}, "East US": {"NYC", "Boston"}}
"""What the labels stand for."""


def printed_tables(east: str) -> dict[str, tuple[Record, ...]]:
    """(b) and (c) with this label where NYC and Boston were generalised."""
    mixed = frozenset({"LA", "Seattle", east})
    west, both = frozenset({"West US"}), frozenset({"NYC", "Boston"})
    return {
        "(b) 2-anonymous": (west, west, both, both, mixed, mixed, mixed),
        "(c) 2²-anonymous": (
            frozenset({"LA"}),
            frozenset({"LA", "Seattle"}),
            frozenset({east}),
            frozenset({east}),
            *(mixed,) * 3,
        ),
    }


def smallest_group(records: Sequence[Record]) -> int:
    """The largest k for which Definition 1 holds: records that are entirely the same."""
    return min(sum(one == other for other in records) for one in records)


def smallest_support(records: Sequence[Record], m: int) -> tuple[int, list[tuple[str, ...]]]:
    """The largest k for which Definition 2 holds, and the sets of up to m items that few have."""
    items = sorted(set().union(*records))
    support = {
        some: sum(set(some) <= one for one in records)
        for size in range(1, m + 1)
        for some in combinations(items, size)
    }
    there = {some: many for some, many in support.items() if many}
    least = min(there.values())
    return least, [some for some, many in there.items() if many == least]


def true_to_the_map(original: Sequence[Record], published: Sequence[Record]) -> bool:
    """Whether every published item stands for a place that the person visited, and none is lost."""
    for was, told in zip(original, published, strict=True):
        meant = [COVERS.get(item, {item}) for item in told]
        if any(not (one & was) for one in meant) or not was <= set().union(*meant):
            return False
    return True


def table_section() -> Section:
    """Table 1 as printed and as meant."""
    least, few = smallest_support(ORIGINAL, 2)
    rows = [
        ["(a) original", "", str(smallest_group(ORIGINAL)), f"{least}", "yes"],
    ]
    for east in ("West US", "East US"):
        word = "as printed" if east == "West US" else "as meant"
        for name, records in printed_tables(east).items():
            support = smallest_support(records, 2)[0]
            true = "yes" if true_to_the_map(ORIGINAL, records) else "no"
            label = f"{east!r}, {word}"
            rows.append([name, label, str(smallest_group(records)), str(support), true])
    head = ["", "NYC and Boston become", "Definition 1, k", "Definition 2 with m = 2, k", "true"]
    words = ", ".join("{" + ", ".join(some) + "}" for some in few)
    return Section(
        "Table 1",
        [
            "The largest k for which each definition holds, by brute force over all records and "
            "all sets of at most two items. *True*: every item stands for a place that was "
            "visited.",
            Grid("Both readings of the labels", head, rows),
            f"In (a) {words} have one record each, and nothing else has fewer than two. The "
            "misprint changes no k: the syntax does not see what a label means, which is the "
            "chapter's point about syntactic models. Read as a place it is false. (c) is even "
            "3²-anonymous.",
        ],
    )


@dataclass(frozen=True, slots=True)
class John:
    """How often "John visited the hospital" is concluded."""

    release: str
    epsilon: float | None
    adversary: str
    visited: float
    """His record is there and says that he did."""
    did_not: float
    """It is there and says that he did not."""
    left_out: float
    """It is not there."""


LIKE_JOHN, WENT = 39, 37
"""People of his age and trade beside him, and those of them who visited: with him 38 of 40."""


def johns(epsilons: Sequence[float], draws: int, seed: int) -> list[John]:
    """By the rate among people like him, and by what is left when everybody else is subtracted."""
    rng = np.random.default_rng([seed, 22])
    found = []
    for epsilon in (None, *epsilons):
        release = "exact counts" if epsilon is None else "Laplace noise"
        noise = np.zeros((2, draws))
        if epsilon is not None:  # one person changes either count by one: two counts, half each
            noise = rng.laplace(0, 2 / epsilon, (2, draws))
        told: dict[str, list[float]] = {"people like him": [], "knows all others": []}
        for like, went in ((40, WENT + 1), (40, WENT), (39, WENT)):
            noisy = like + noise[0], went + noise[1]
            rate = noisy[1] / np.maximum(noisy[0], 1.0)
            told["people like him"].append(float((rate >= 0.9).mean()))
            told["knows all others"].append(float((noisy[1] - WENT >= 0.5).mean()))
        found += [John(release, epsilon, who, *shares) for who, shares in told.items()]
    return found


def john_section(rows: Sequence[John]) -> Section:
    """With and without John."""
    body = []
    for one in rows:
        most = "" if one.epsilon is None else f"{math.exp(one.epsilon):.2f}"
        shares = [one.visited, one.did_not, one.left_out]
        low, high = min(shares), max(shares)
        ratio = "∞" if low == 0 else f"{high / low:.2f}"
        body.append(
            [
                *(one.release, "" if one.epsilon is None else f"{one.epsilon:g}", one.adversary),
                *(f"{share:.3f}" for share in shares),
                ratio if high > low else "1.00",
                most,
            ]
        )
    head = [
        *("release", "ε", "adversary", "in, visited", "in, did not", "left out"),
        *("largest ratio", "e^ε"),
    ]
    return Section(
        "With and without John (section 2.2)",
        [
            "Of 39 people like John 37 visited the hospital. The share of draws in which the "
            "adversary concludes that John did: from people like him (a noisy rate of .9 or "
            "more), and by the adversary who knows all others (more than the others make).",
            Grid("What is concluded about him", head, body),
            "Who looks at people like him concludes the same whatever his record says, and also "
            "without it: that is what the data tell about hospitals and trades, and no privacy "
            "model takes it back. Who knows all others is certain from exact counts, and "
            "only if John took part. With noise the same adversary's conclusions differ by no "
            "more than e^ε between any two columns one record apart (the first two are two "
            "records apart: e^2ε).",
        ],
    )


PICTURE_WEEKS = "chapter-weeks.internal.png"


@dataclass(frozen=True, slots=True)
class Weeks:
    """What so many weekly releases cost together."""

    weeks: int
    basic: float
    advanced: float
    concentrated: float
    root: float
    """epsilon sqrt(k)."""


def weeks_rows(
    epsilon: float = 0.3, delta: float = 2e-6, weeks: Sequence[int] = (1, 4, 13, 26, 52)
) -> list[Weeks]:
    """Theorem 1; advanced composition (Dwork & Roth 2014, Theorem 3.20), half of delta each; zCDP.

    The total has the delta of one release, but for Theorem 1, whose delta grows with k.
    """
    rho = zcdp_rho(epsilon, delta)
    rows = []
    for k in weeks:
        slack = math.sqrt(2 * k * math.log(2 / delta)) * epsilon
        advanced = slack + k * epsilon * math.expm1(epsilon)
        rows.append(
            Weeks(k, k * epsilon, advanced, zcdp_epsilon(k * rho, delta), epsilon * math.sqrt(k))
        )
    return rows


def weeks_section(rows: Sequence[Weeks], picture: bool) -> Section:
    """52 weeks."""
    body = [
        [
            *(str(one.weeks), f"{one.basic:.2f}", f"{one.advanced:.2f}"),
            *(f"{one.concentrated:.3f}", f"{one.root:.3f}", f"{one.concentrated / one.root:.2f}"),
        ]
        for one in rows
    ]
    head = ["weeks", "k ε (Theorem 1)", "advanced", "concentrated", "ε √k", "concentrated / ε √k"]
    last = rows[-1]
    blocks: list[str | Grid | Picture] = [
        Grid("What k weekly releases at ε 0.3, δ 2e-6 cost together", head, body),
        f"A year at {last.basic:.1f} by Theorem 1 is {last.concentrated:.2f} in truth: the "
        f"constant before ε √k is {last.concentrated / last.root:.2f}, and nears 1 for few weeks. "
        "The advanced theorem of the textbook beats k ε only beyond 65 weeks. This is what "
        "`sfumato ledger` adds up.",
    ]
    if picture:
        blocks.append(Picture(PICTURE_WEEKS, "ε of k weeks: Theorem 1, concentrated, and ε √k"))
    return Section("52 weeks (section 5)", blocks)


def draw_weeks(path: Path) -> None:
    """The curves."""
    rows = weeks_rows(weeks=range(1, 53))
    figure = canvas((6.4, 3.6))
    axes = figure.subplots()
    k = [one.weeks for one in rows]
    axes.plot(k, [one.basic for one in rows], color="#b3261e", label="k ε, Theorem 1")
    axes.plot(k, [one.concentrated for one in rows], color="#1d4ed8", lw=2, label="concentrated")
    axes.plot(k, [one.root for one in rows], color="black", ls=":", label="ε √k")
    axes.set(xlabel="weekly releases", ylabel="ε together", ylim=(0, 16))
    axes.legend(frameon=False)
    axes.grid(alpha=0.25, lw=0.5)
    save_figure(figure, path)


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Two releases about overlapping people."""

    people: int
    """In each release."""
    common: int
    k: int
    left: Left
    smallest: int
    """Records of the smallest group in either release."""


def two_releases(held: Held, centres: np.ndarray, slots: int, *, k: int, seed: int = 1) -> Together:
    """Two thirds of the people each, so that half of a release is in the other one.

    Each is clustered on its own as Never Walk Alone does, which with delta = 0 publishes groups of
    at least k records that are entirely the same.
    """
    clock = on_clock(held, centres, slots)
    rng = np.random.default_rng([seed, 0xC0])
    order = rng.permutation(len(clock.at))
    third = order.size // 3
    first, second = order[: 2 * third], order[third : 3 * third]
    labels = []
    for number, rows in enumerate((first, second)):
        group = np.full(len(clock.at), -1, np.int64)
        group[rows] = cluster_paths(clock.at[rows], k, seed=seed + number).cluster
        labels.append(group)
    common = order[third : 2 * third]
    smallest = min(int(np.bincount(one[one >= 0]).min()) for one in labels)
    left = left_after(labels[0][common], labels[1][common], k=k)
    return Together(first.size, common.size, k, left, smallest)


def together_section(rows: Sequence[Together], where: str) -> Section:
    """What is left of k."""
    body = [
        [
            *(f"{one.people:,}", f"{one.common:,}", str(one.k), str(one.smallest)),
            *(f"{one.left.median:g}", f"{one.left.share_at_most(1):.1%}"),
            f"{one.left.share_at_most(3):.1%}",
        ]
        for one in rows
    ]
    sizes = np.concatenate([one.left.sizes for one in rows])
    head = [
        *("people a release", "in both", "k", "smallest group"),
        *("anonymity left, median", "nobody else left", "at most 3 left"),
    ]
    return Section(
        "Two releases together (section 2.2)",
        [
            f"{where} Groups as Never Walk Alone makes them, each release with its own first "
            "pivot. Whoever knows the target's group in both is left with the people in both "
            "groups.",
            Grid("People consistent with both groups, for everybody in both releases", head, body),
            f"Over all {len(rows)} draws together the median is {np.median(sizes):g}.",
        ],
    )
