"""Full disclosure: which single visits do exact answers give away for certain?

Definition 5 of Acs, Biczok & Castelluccia: a bit of the data is fully disclosed by a set of
questions if it is the same in all data sets that are consistent with the answers. A counting
question is a sum of bits, so this is about Q x = c with x in {0, 1} (their eq. 1), or with x in
[0, 1] (eq. 2), and deciding it is coNP-hard in general (Kleinberg, Papadimitriou & Raghavan 2000).

**Blocks.** Bits that every question covers alike have identical columns and can be exchanged in any
solution. They are merged into a block of n bits with one unknown total y in 0..n. A bit is
disclosed exactly if its block's total is forced to 0 or to n: a total that is forced in between
says how many, never who, and one that is not forced at all says less. The bits are those of a
*universe*, which is what an adversary is taken to think possible:

* the chapter's D_(i,L,t): any of N people may have been in any place L and slot t, so that a pair
  of place and slot has N exchangeable bits;
* Kleinberg's: known people, one bit each, in a public order, so that a pair of place and slot has
  as many bits as people are known there, often a single one.

**Ranges** (`forced_ranges`). Where every question covers a run of blocks in an order, prefix sums s
turn eq. 1 into difference constraints, s_r - s_l = c and 0 <= s_(j+1) - s_j <= n_j, and the LP is
exact. Shortest paths answer it: s_(j+1) - s_j is at most the distance from j to j+1. The auditor
has a solution at hand, the truth, and in lengths reduced by it all arcs are at least 0, those with
equality are *tight*. A total at 0 is forced if a path of tight arcs leads from j to j+1, and the
tight arc of 0 <= s_(j+1) - s_j leads back: both ends lie in one strongly connected component of
tight arcs. The same holds for n. One pass over the arcs decides all blocks.

**Other questions** (`forced`). The truth shows every block strictly between 0 and n to be free. Of
the rest an integer program asks for the solution that is furthest from the truth: every block that
moves is free, and when none can, all that are left are forced. Two or three programs do, as a rule.

**Reconstruction** (`reconstruct`). Eq. 2 by linear programming, rounded at one half and compared
with the truth, as the chapter says. Of all solutions it takes one nearest to one half in L1, so
that bits which nothing is known about stay at one half and are called 0.

Nothing here is private in the sense of `sfumato.privacy`: it is syntactic protection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, hstack
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

from sfumato.errors import InputError

Ints = NDArray[np.int64]
FREE, NOBODY, EVERYBODY = -1, 0, 1
"""What is known of a block's bits: nothing for certain, all are 0, all are 1."""
MARGIN = 0.05
"""Recovered share above guessing that counts as a success. Rounding wins nothing over guessing
where no answer says more than a mean; 5 points lie outside of what a lucky vertex brings."""
SECONDS = 20.0
"""For one program. Whoever takes longer is told so, and an auditor then refuses."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Questions over blocks of exchangeable bits: `low` <= `rows` @ y <= `high`, 0 <= y <= `most`.

    `sizes` are the bits of the blocks. `low` and `high` are both the answer where visits were
    counted; the number of different people only bounds them. `most` is the size where nothing
    else is known.
    """

    sizes: Ints
    rows: csr_array
    low: Ints
    high: Ints
    most: Ints

    @classmethod
    def of(cls, sizes: Ints, rows: csr_array, answers: Ints) -> System:
        """Questions that were answered exactly."""
        return cls(sizes, rows, answers, answers, sizes)

    def fits(self, totals: Ints) -> bool:
        """Whether these totals are consistent with every answer, in whole numbers."""
        sums = self.rows @ totals
        inside = (totals >= 0).all() and (totals <= self.most).all()
        return bool(inside and (sums >= self.low).all() and (sums <= self.high).all())


@dataclass(frozen=True, slots=True, eq=False)
class Disclosure:
    """What a set of answers discloses, block by block. INTERNAL: it was compared with the truth."""

    state: NDArray[np.int8]
    """`FREE`, `NOBODY` or `EVERYBODY` for each block."""
    decided: bool
    """False where a program ran out of time: what is left undecided is then called disclosed."""
    recovered: float
    """Share of all bits that eq. 2, rounded, gets right."""
    guessed: float
    """Share that the commoner value gets right: max(mean, 1 - mean)."""

    @property
    def any_forced(self) -> bool:
        return bool((self.state != FREE).any()) or not self.decided

    def successful(self, margin: float = MARGIN) -> bool:
        """Whether an attack succeeds: a forced bit, or more recovered than guessed by `margin`."""
        return self.any_forced or self.recovered > self.guessed + margin


def disclosure(
    system: System,
    totals: Ints,
    known: NDArray[np.int8] | None = None,
    *,
    margin: float | None = MARGIN,
    seconds: float = SECONDS,
) -> Disclosure:
    """What the answers disclose, by both of the chapter's ways.

    Args:
        system: The questions with their answers.
        totals: The truth, ones in every block.
        known: The state of every block, where ranges have told it already.
        margin: What the reconstruction is for; none leaves it out.
        seconds: For each program.

    Returns:
        Forced blocks, and how much is recovered.

    Raises:
        InputError: The truth is not consistent with the answers.

    Example:
        >>> rows = csr_array(np.array([[1, 1], [1, 0]]))
        >>> told = System.of(np.array([3, 3]), rows, np.array([2, 2]))
        >>> disclosure(told, np.array([2, 0])).state
        array([-1,  0], dtype=int8)
    """
    state, decided = known, True
    if state is None:
        state, decided = forced(system, totals, seconds=seconds)
    bits, ones = int(system.sizes.sum()), int(totals.sum())
    mean = ones / bits if bits else 0.0
    guessed = max(mean, 1 - mean)
    if margin is None or guessed + margin >= 1 or not system.rows.shape[0]:
        return Disclosure(state, decided, guessed, guessed)
    guess = reconstruct(system, seconds=seconds)
    if guess is None:
        return Disclosure(state, False, guessed, guessed)
    right = np.where(guess > 0.5, totals, system.sizes - totals).sum()
    return Disclosure(state, decided, float(right) / bits, guessed)


def forced(
    system: System, totals: Ints, *, seconds: float = SECONDS
) -> tuple[NDArray[np.int8], bool]:
    """Definition 5 for any questions: the state of every block, and whether all were decided.

    Args:
        system: The questions with their answers.
        totals: The truth, which is one of the solutions.
        seconds: For each program; blocks that are left undecided are called disclosed.

    Raises:
        InputError: The truth is not consistent with the answers.
    """
    if not system.fits(totals):
        raise InputError(
            "The data has changed since the answers were given, or holds people who are not known.",
            remedy="Audit the answers with the data that they were given from.",
        )
    state = np.full(totals.size, FREE, np.int8)
    state[totals == 0] = NOBODY
    state[totals == system.sizes] = EVERYBODY
    state[system.sizes == 0] = FREE
    # Most of a log is ranges or single cells: what no question covers is free without a program.
    covered = np.zeros(totals.size, bool)
    covered[np.unique(system.rows.indices)] = True
    state[~covered & (system.most == system.sizes)] = FREE
    constraint = LinearConstraint(system.rows, system.low, system.high)
    while (state != FREE).any():
        away = np.where(state == NOBODY, -1.0, 0.0) + np.where(state == EVERYBODY, 1.0, 0.0)
        solved = milp(
            away,
            integrality=np.ones(totals.size, np.int64),
            bounds=Bounds(np.zeros(totals.size), system.most),
            constraints=constraint if system.rows.shape[0] else (),
            options={"time_limit": seconds},
        )
        if solved.x is None:
            return state, False
        other = np.rint(solved.x).astype(np.int64)
        moved = (state != FREE) & (other != totals)
        if not system.fits(other):
            return state, False  # rounding of the solver: nothing was shown
        if not moved.any():
            # With a proof of optimality nothing else can move; without one nothing is known.
            return state, solved.status == 0
        state[moved] = FREE
    return state, True


def forced_ranges(
    sizes: Ints, left: Ints, right: Ints, answers: Ints, totals: Ints | None = None
) -> NDArray[np.int8]:
    """Definition 5 where question q covers blocks left[q] .. right[q] - 1 of a public order: exact.

    Args:
        sizes: Bits of every block.
        left: First block of every question.
        right: One past its last.
        answers: Its number of ones.
        totals: Ones of every block, where they are known; otherwise one solution is looked for,
            which is all that an adversary needs.

    Returns:
        The state of every block.

    Raises:
        InputError: No data set gives these answers.

    Example:
        >>> five = np.ones(5, dtype=np.int64)
        >>> forced_ranges(five, np.array([0, 0]), np.array([3, 2]), np.array([2, 1])).tolist()
        [-1, -1, 1, -1, -1]
    """
    nodes = sizes.size + 1
    if totals is None:
        totals = _some_totals(sizes, left, right, answers)
    sums = np.concatenate([[0], np.cumsum(totals)])
    wrong = (sums[right] - sums[left] != answers).any()
    if wrong or (totals < 0).any() or (totals > sizes).any():
        raise InputError("The data does not give these answers.")
    at = np.arange(sizes.size)
    none, full = at[totals == 0], at[totals == sizes]
    # Tight arcs: answers both ways, s_(j+1) >= s_j where the total is 0, <= s_j + n where it is n.
    start = np.concatenate([left, right, none + 1, full])
    end = np.concatenate([right, left, none, full + 1])
    arcs = coo_array((np.ones(start.size, bool), (start, end)), shape=(nodes, nodes))
    component = connected_components(arcs.tocsr(), directed=True, connection="strong")[1]
    stuck = component[:-1] == component[1:]
    state = np.full(sizes.size, FREE, np.int8)
    state[stuck & (totals == sizes)] = EVERYBODY
    state[stuck & (totals == 0)] = NOBODY
    state[sizes == 0] = FREE
    return state


def _some_totals(sizes: Ints, left: Ints, right: Ints, answers: Ints) -> Ints:
    """Totals that give these answers: distances from a node that reaches all others."""
    nodes, at = sizes.size + 1, np.arange(sizes.size)
    start = np.concatenate([left, right, at + 1, at, np.full(nodes, nodes)])
    end = np.concatenate([right, left, at, at + 1, np.arange(nodes)])
    zeros = np.zeros(sizes.size, np.int64)
    length = np.concatenate([answers, -answers, zeros, sizes, np.zeros(nodes, np.int64)])
    # The shortest of parallel arcs: a sparse matrix would add them up.
    order = np.lexsort((length, end, start))
    start, end, length = start[order], end[order], length[order]
    first = np.ones(start.size, bool)
    first[1:] = (np.diff(start) != 0) | (np.diff(end) != 0)
    graph = csr_array(
        (length[first].astype(np.float64), (start[first], end[first])), shape=(nodes + 1, nodes + 1)
    )
    try:
        distance = bellman_ford(graph, indices=[nodes])[0]
    except NegativeCycleError:
        raise InputError("The answers contradict each other: no data gives them.") from None
    sums: Ints = np.rint(distance[:nodes]).astype(np.int64)
    return np.diff(sums)


def merged_ranges(bits: int, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Ranges of single bits as ranges of blocks: at most two blocks a question and one more.

    Args:
        bits: How many there are, in a public order.
        start: First bit of every question.
        end: One past its last.

    Returns:
        Sizes of the blocks, the first block of every question, and one past its last.
    """
    edges = np.unique(np.concatenate([[0, bits], start, end]))
    return np.diff(edges), np.searchsorted(edges, start), np.searchsorted(edges, end)


def disclosed_bits(
    bits: NDArray[np.bool_], start: Ints, end: Ints
) -> tuple[NDArray[np.int8], Ints, Ints]:
    """What exact answers to ranges of bits in a public order disclose: Kleinberg's universe.

    Args:
        bits: The truth, one bit for every known person, in the public order.
        start: First bit of every question.
        end: One past its last.

    Returns:
        State and size of every block of bits that no question separates, and the answers.

    Example:
        >>> truth = np.array([1, 0, 1, 1], dtype=bool)
        >>> state, sizes, _ = disclosed_bits(truth, np.array([0, 1]), np.array([4, 4]))
        >>> state.tolist(), sizes.tolist()
        ([1, -1], [1, 3])
    """
    sums = np.concatenate([[0], np.cumsum(bits, dtype=np.int64)])
    sizes, left, right = merged_ranges(bits.size, start, end)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    answers = sums[end] - sums[start]
    totals = np.diff(sums[edges])
    return forced_ranges(sizes, left, right, answers, totals), sizes, answers


def reconstruct(system: System, *, seconds: float = SECONDS) -> NDArray[np.float64] | None:
    """Eq. 2 by linear programming: the share of ones in every block, the same for all its bits.

    A solution nearest to one half in L1 (sum over bits of |x - 1/2|); symmetric over merged columns
    because it is sought among such, and the mean of a solution over them is always one.

    Args:
        system: The questions with their answers.
        seconds: For the program.

    Returns:
        The shares; none where the program ran out of time.
    """
    blocks = system.sizes.size
    sizes = system.sizes.astype(np.float64)
    # x = 1/2 + up - down: the two halves are never both used, since both cost.
    up_to = system.most / np.maximum(sizes, 1) - 0.5
    scale = 1.0 / np.maximum(system.rows @ sizes, 1.0)
    rows = system.rows.multiply(sizes).multiply(scale[:, None]).tocsr()
    middle = rows @ np.full(blocks, 0.5)
    least = np.concatenate([np.zeros(blocks), np.maximum(-up_to, 0.0)])
    most = np.concatenate([np.maximum(up_to, 0.0), np.full(blocks, 0.5)])
    solved = milp(  # no variable is an integer: a linear program
        np.concatenate([sizes, sizes]),
        bounds=Bounds(least, most),
        constraints=LinearConstraint(
            hstack([rows, -rows]).tocsr(),
            system.low * scale - middle,
            system.high * scale - middle,
        ),
        options={"time_limit": seconds},
    )
    if solved.x is None:
        return None
    return np.asarray(0.5 + solved.x[:blocks] - solved.x[blocks:], dtype=np.float64)
