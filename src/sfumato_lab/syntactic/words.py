"""What each method promises, against whom it helps and what breaks it: the words of its label."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato_lab.syntactic.published import Promise

COMPOSITION = (
    "Composition: another release about some of the same people, by anybody. Two independent "
    "k-anonymous releases together often leave a single person, whatever k is (Ganta, "
    "Kasiviswanathan & Smith 2008)."
)
HOMOGENEITY = (
    "Homogeneity: what all records of a group have in common is known of everybody in it, however "
    "large the group is. The internal figures have l-diversity and t-closeness of this output."
)
LEFT_OUT = (
    "Who is left out: that somebody has no record may itself tell that they were somewhere unusual."
)


def k_anonymity(k: int, how: str) -> Promise:
    """Definition 1."""
    return Promise(
        "generalise" if "depth" in how else "suppress",
        f"Every record is the same as {k - 1:,} others or more ({how}): k-anonymity, Definition 1 "
        f"of Acs, Biczók & Castelluccia (2018), with k = {k:,}.",
        (
            "Somebody who knows anything about where a person was and looks for their record in "
            f"this release alone: at least {k:,} records fit as well as each other.",
        ),
        (HOMOGENEITY, COMPOSITION, LEFT_OUT),
    )


def k_delta(method: str, k: int, delta_m: float, *, clocked: bool) -> Promise:
    """(k, delta)."""
    notes = []
    if delta_m > 0:
        notes.append(
            "(k, delta) with delta > 0 is NOT k-anonymity (Definition 1): records of a cluster "
            "differ within the tube, and whoever knows exact points can tell them apart "
            "(Trujillo-Rasua & Domingo-Ferrer 2013)."
        )
    what = (
        "Positions are on a public clock: some are interpolated between records and were never "
        "observed"
        if clocked
        else "Some points were made up to match a pivot's"
    )
    notes.append(f"{what}; the manifest has their share.")
    return Promise(
        method,
        f"At every instant each record is within {delta_m:,.0f} m of {k - 1:,} others or more of "
        "its cluster: (k, delta)-anonymity (Abul, Bonchi & Nanni).",
        (
            f"Somebody who knows a person's positions no better than {delta_m:,.0f} m, all the "
            f"time: at least {k:,} records of this release fit."
            if delta_m > 0
            else "Somebody who looks for a person's record in this release alone: the records of "
            f"a cluster are the same, {k:,} or more.",
        ),
        (
            "Points that are known exactly: few of them are unique even after they were moved, "
            "since most points are not moved at all."
            if delta_m > 0
            else HOMOGENEITY,
            "Homes and work places: a cluster's members live near each other and are published so.",
            COMPOSITION,
            LEFT_OUT,
        ),
        tuple(notes),
    )


def km(method: str, k: int, m: int, items: str) -> Promise:
    """Definition 2."""
    what = {
        "visits": "visits (place and time)",
        "places": "places",
    }.get(items, "places in their order")
    return Promise(
        method,
        f"Any {m} or fewer {what} of a person are in at least {k:,} records, or in none: "
        f"k^m-anonymity, Definition 2 of Acs, Biczók & Castelluccia (2018), k = {k:,}, m = {m}.",
        (
            f"Somebody who knows at most {m} {what} of a person and nothing else: at least {k:,} "
            "records of this release fit.",
        ),
        (
            f"Knowledge beyond m: whoever knows {m + 1} or more may find a single record.",
            "Frequencies: how often somebody was at a place is not among the items that are "
            "counted, and may single them out.",
            "How long a record is, which is published as it is.",
            HOMOGENEITY,
            COMPOSITION,
        ),
    )


def probabilistic(k: int, m: int, p: float, confidence: float, law: str, items: str) -> Promise:
    """Probabilistic k^m, with its law."""
    how = (
        "uniformly among the distinct sets of so many items that occur in this release"
        if law == "sets"
        else "as so many random items of a random person of this release"
    )
    what = "visits (place and time)" if items == "visits" else "places"
    return Promise(
        "probabilistic-km",
        f"A set of {m} {what} drawn {how} is in at least {k:,} records with probability {p:g} or "
        f"more, at confidence {confidence:g}: probabilistic k^m-anonymity (Acs, Achara & "
        "Castelluccia 2015).",
        (
            f"Somebody who knows {m} {what} of a person, in most cases: for at least the share "
            f"{p:g} of all such sets {k:,} records or more fit.",
        ),
        (
            f"The share {1 - p:g} of sets that is allowed to be rare: people whose records are "
            "unusual have more than their part of them.",
            f"Knowledge beyond {m} items, and of how often somebody was at a place.",
            HOMOGENEITY,
            COMPOSITION,
        ),
        (
            f"The law is named because it matters: `{law}`. Uniform over distinct sets gives rare "
            "sets the weight of common ones; by people, common ones count more. Both are measured, "
            "the other one for the holder alone.",
        ),
    )


def p_confidentiality(p: float, walks: bool, made: Sequence[str]) -> Promise:
    """p-confidentiality."""
    notes = ["Dwell times are withheld, and so are all others: they tell a stop from a passage."]
    if not walks:
        notes.append(
            "The promise is about simple paths from an entry to an exit. What a record began or "
            "ended with inside a group was left out; whoever went in and out by the same road is "
            "not covered (the parameter paths=any covers all walks)."
        )
    if made:
        notes.append(f"Made and not given: {', '.join(made)}.")
    return Promise(
        "p-confidentiality",
        f"On any {'walk' if walks else 'simple path'} through a group of places the stop was at a "
        f"sensitive one with probability {p:g} at most, given one stop and the public "
        "stop probabilities: p-confidentiality (Cicek, Nergiz & Saygin 2014).",
        (
            "Somebody who knows a person's path and how likely people stop at each place, and "
            "nothing about this person's habits.",
        ),
        (
            "Better knowledge of where people stop: by hour, by person, from opening hours. The "
            "promise is about the stop probabilities that were given and no others.",
            "Everything that is not sensitive: places outside the groups are published as they "
            "are, in order, and a few of them single a person out.",
            COMPOSITION,
            LEFT_OUT,
        ),
        tuple(notes),
    )


def counts(k: int, totals: bool, secondary: bool, rounding: str, base: int) -> Promise:
    """Counts below k suppressed."""
    says = f"Counts of people by place and slot below {k:,} are not published."
    if totals:
        says += (
            " Totals count a person once for each place and slot; those behind which fewer than "
            f"{k:,} different people stand are not published."
        )
    if totals and secondary:
        says += " More are left out, so that none of these follows from the totals exactly."
    if rounding != "none":
        says += f" What is published is rounded to multiples of {base:,} ({rounding})."
    broken = [
        "Differencing: the same table a little later, for a slightly different area or without "
        "one person gives that person away where a count changes, or appears.",
        "Recovery of trajectories: people are followed from slot to slot through the counts "
        "themselves; that small ones are missing hardly matters (Xu et al. 2017).",
    ]
    if rounding == "random":
        broken.append(
            "Rounding again: another table of the same people has other lots, and two multiples "
            "around a count confine it."
        )
    if totals and not secondary:
        broken.insert(0, "Subtraction: what is left out follows from the totals beside it.")
    elif totals:
        broken.insert(0, "Bounds: the totals beside it confine what is left out, often narrowly.")
    return Promise(
        "counts",
        says,
        (f"Somebody who reads one table: no number in it is about fewer than {k:,} people.",),
        tuple(broken),
    )
