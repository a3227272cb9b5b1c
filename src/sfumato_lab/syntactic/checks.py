"""l-diversity and t-closeness: how much a group of alike records tells about its people. INTERNAL.

That k records are alike says nothing about what they have in common: where all of a group share a
sensitive value, whoever finds the group knows it (homogeneity). Two measures of that are reported
of every output, and neither is promised:

* *l-diversity* (Machanavajjhala et al. 2007): how many different values a group has; also as
  entropy, exp(H), which a value that nearly all share lowers;
* *t-closeness* (Li, Li & Venkatasubramanian 2007): how far the group's law of values is from that
  of everybody, by total variation (earth mover's distance where all values are equally far apart).

A record of visits has no column that is sensitive once and for all (section 2.1 of Acs, Biczók &
Castelluccia). The value taken is the sensitive place that a person was at most often, or none;
where no places are named sensitive, the place where they were most often, which is mostly home.

A *group* is what is published as one: records that are the same, a cluster of paths, the people of
a published count. Both are computed from the truth, so the figures are the holder's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato_lab.syntactic.people import Held

Ints = NDArray[np.int64]


def sensitive_values(held: Held, sensitive: NDArray[np.bool_] | None) -> Ints:
    """Everybody's value: the (sensitive) place they were at in most slots, -1 for none."""
    person, place = held.person, held.place.astype(np.int64)
    if sensitive is not None and sensitive.any():
        keep = sensitive[place]
        person, place = person[keep], place[keep]
    out = np.full(len(held), -1, np.int64)
    width = int(held.place.max(initial=0)) + 1
    pair, times = np.unique(person * width + place, return_counts=True)
    order = np.lexsort((-pair, times))  # the last of a person is the most frequent, ties by number
    out[pair[order] // width] = pair[order] % width
    return out


def diversity(group: Ints, value: Ints) -> dict[str, Any]:
    """l-diversity and t-closeness of groups.

    Args:
        group: Of each member; negative ones are in none.
        value: Of each member.

    Returns:
        Least and median number of different values and exp(entropy), the share of groups of one
        value, and the largest and mean distance to the law of everybody.

    Example:
        >>> found = diversity(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 8]))
        >>> found["l_least"], found["groups_of_one_value"], found["t_largest"]
        (1, 0.5, 0.25)
    """
    group, value = group[group >= 0], value[group >= 0]
    if not group.size:
        return {"groups": 0}
    groups, at = np.unique(group, return_inverse=True)
    values, which = np.unique(value, return_inverse=True)
    everybody = np.bincount(which) / which.size
    cell, many = np.unique(at * values.size + which, return_counts=True)
    row, column = cell // values.size, cell % values.size
    share = many / np.bincount(at)[row]
    different = np.bincount(row, minlength=groups.size)
    entropy = np.bincount(row, -share * np.log(share), groups.size)
    # Total variation: half of |p - q| where p > 0, and all of q where p = 0.
    above = np.bincount(row, np.maximum(share - everybody[column], 0.0), groups.size)
    return {
        "groups": int(groups.size),
        "l_least": int(different.min()),
        "l_median": float(np.median(different)),
        "l_entropy_least": round(float(np.exp(entropy.min())), 4),
        "l_entropy_median": round(float(np.exp(np.median(entropy))), 4),
        "groups_of_one_value": round(float((different == 1).mean()), 4),
        "t_largest": round(float(above.max()), 4),
        "t_mean": round(float(np.average(above, weights=np.bincount(at))), 4),
    }
