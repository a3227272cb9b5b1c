"""The privacy statement: the manifest in words, and whether its measurements add up to its claim.

The words are for a reader without training. They are short, and promise nothing that cannot be
kept.

A reader has the manifest alone: every measurement that was paid for must stand in it, and
the list must give the rho and the epsilon beside it by the method that is named. The claim comes
from the ledger's row, and so does what may be measured: a reservation refuses anything else. A list
that left out a paid choice would not give the claim. Publishers ask (`check_claim`) before the
manifest is written.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import SfumatoError
from sfumato.model.rounding import number_of, percent, rounded_up
from sfumato.privacy.accounting import (
    Method,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
)
from sfumato.privacy.events import MetricEvent, PrivacyEvent, event_from_json
from sfumato.privacy.exact import decimal_up, exact
from sfumato.privacy.exact import total as exact_sum
from sfumato.privacy.ledger.totals import PER_METRE
from sfumato.published.manifest import ADDED, LARGEST, Manifest, Privacy, Source

_SAME = 1e-9
"""Far below any published digit, far above what a processor's last bits can do."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What a list of events amounts to by one method."""

    rho: float | None
    epsilon: float


def recomputed_claim(privacy: Privacy, sources: Sequence[Source] = ()) -> Recomputed:
    """The loss that the manifest's measurements add up to, by the method that it names.

    Unit and neighbours: those of the manifest. `pure` and `zcdp` are sums, valid however the
    events were chosen; `gaussian` and `numerical` are the curves of events fixed beforehand. Of
    several `sources` each has a list, a delta and a method of its own; `together` says what they
    amount to.
    """
    if privacy.method in (ADDED, LARGEST):
        return _of_several(privacy, sources)
    events = [event_from_json(measured.event) for measured in privacy.measurements]
    if privacy.method == PER_METRE:
        return Recomputed(None, decimal_up(total_per_metre(events)))
    if any(isinstance(event, MetricEvent) for event in events):
        return Recomputed(None, math.inf)  # a loss per metre beside others has no one number
    rho = decimal_up(total_rho(events)) if events else 0.0
    return Recomputed(rho, _epsilon(events, rho, privacy.delta, Method(privacy.method)))


def _of_several(privacy: Privacy, sources: Sequence[Source]) -> Recomputed:
    """Every source's own list, by its own method; then all of them. Each paid for stands once."""
    lists = {measured.label: measured for measured in privacy.measurements}
    labels = [label for source in sources for label in source.measurements]
    if sorted(labels) != sorted(lists):
        return Recomputed(None, math.inf)
    found = []
    for source in sources:
        own = privacy.model_copy(
            update={
                "measurements": [lists[label] for label in source.measurements],
                "delta": source.delta,
                "method": source.method,
            }
        )
        one = recomputed_claim(own)
        if not (_equal(one.epsilon, source.epsilon) and _equal(one.rho, source.rho)):
            return Recomputed(None, math.inf)
        found.append(one)
    every = together(found, [source.delta for source in sources], privacy.method)
    return every[0] if every[1] == privacy.delta else Recomputed(None, math.inf)


def together(
    losses: Sequence[Recomputed], deltas: Sequence[float], method: str
) -> tuple[Recomputed, float]:
    """What releases of several operators lose together, and the delta of it.

    Claim: **added**, for the unit and neighbours that all of them have, taken over every operator
    at once (one person's records at all of them): each is (epsilon_i, delta_i) for that person,
    whatever the others published, so together they are (sum, sum) by basic composition. rho adds
    likewise. **largest**: where nobody is at two operators, one person's records are at one of
    them, the others' releases do not change at all, and the loss is the largest one's (parallel
    composition). Everything made from the releases is post-processing.
    """
    known = [one.rho for one in losses if one.rho is not None]
    rho = _all_of(known, method) if len(known) == len(losses) else None
    epsilon = _all_of([one.epsilon for one in losses], method)
    return Recomputed(rho, epsilon), _all_of(deltas, method)


def _all_of(parts: Sequence[float], method: str) -> float:
    """The sum, rounded up, or the largest."""
    if method == LARGEST or not all(map(math.isfinite, parts)):
        return max(parts)
    return decimal_up(exact_sum(map(exact, parts)))


def _epsilon(events: list[PrivacyEvent], rho: float, delta: float, method: Method) -> float:
    match method:
        case Method.NOTHING:
            return 0.0 if not events else math.inf
        case Method.PURE:
            pure = total_epsilon(events)
            return math.inf if pure is None else decimal_up(pure)
        case Method.ZCDP:
            return zcdp_epsilon(rho, delta)
        case Method.GAUSSIAN | Method.NUMERICAL | Method.UNBOUNDED:
            return guarantee(events, delta).epsilon


def adds_up_to_claim(manifest: Manifest) -> bool:
    """Whether the manifest's own list gives the loss that it claims.

    A list that this version cannot read does not: nobody could say what the numbers cost.
    """
    try:
        found = recomputed_claim(manifest.privacy, sources_of(manifest))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, SfumatoError):
        return False
    return _equal(found.epsilon, manifest.privacy.epsilon) and _equal(
        found.rho, manifest.privacy.rho
    )


_MOST_MEASURED = 100_000
"""Measurements of a statement; a stream has one account, a release at most some dozens."""


def why_not_believed(manifest: Manifest) -> str:
    """What is wrong with a statement of whatever origin; empty where nothing is.

    Numbers about people that nothing was paid for are either invented or not private, and a loss
    that is no positive number is no promise.
    """
    privacy = manifest.privacy
    losses = [(privacy.epsilon, privacy.delta, privacy.rho)]
    losses += [(one.epsilon, one.delta, one.rho) for one in sources_of(manifest)]
    for epsilon, delta, rho in losses:
        if not (0 < epsilon < math.inf and 0 <= delta < 1 and (rho is None or 0 < rho < math.inf)):
            return "its manifest states a privacy loss that is no positive number."
    if not privacy.measurements:
        return "its manifest lists no measurement, so nothing vouches for its privacy loss."
    if len(privacy.measurements) > _MOST_MEASURED or not adds_up_to_claim(manifest):
        return "its manifest's list of measurements does not give the loss that it claims."
    return ""


def sources_of(manifest: Manifest) -> list[Source]:
    """The releases that this one was made from; none where it measured itself."""
    return [] if manifest.made_from is None else manifest.made_from.sources


def check_claim(manifest: Manifest) -> None:
    """Refuse to publish a manifest whose list does not give its claim, or that claims nothing."""
    problem = why_not_believed(manifest)
    if not problem:
        return
    privacy = manifest.privacy
    if adds_up_to_claim(manifest):
        raise SfumatoError(
            f"Nothing was published: {problem}",
            remedy="This is a fault of sfumato: please report it with the options you gave.",
        )
    found = recomputed_claim(privacy, sources_of(manifest))
    raise SfumatoError(
        "The measurements in the manifest do not add up to its claim (rho "
        f"{_said(found.rho)} against {_said(privacy.rho)}, epsilon {_said(found.epsilon)} against "
        f"{_said(privacy.epsilon)}), so nothing was published.",
        remedy="This is a fault of sfumato: please report it with the options you gave.",
    )


def _equal(found: float | None, claimed: float | None) -> bool:
    if found is None or claimed is None:
        return found is claimed
    return found == claimed or math.isclose(found, claimed, rel_tol=_SAME)


def _said(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


_WHO = {
    "user-period": "one person's whole record in this period",
    "user-day": "what one person did on any one day",
    "w-event": "what one person did in any {window} successive time slots",
    "event": "any one record",
    "trajectory": "any one trip of one person",
}
_ADDS_UP = {
    "user-day": "Several days of one person add up: about d days of somebody, epsilon may be d "
    "times as much.",
    "w-event": "What somebody did over a longer time adds up, once for every window that it takes "
    "to cover it.",
    "trajectory": "Trips of one person add up without a limit: a person with n trips is protected "
    "by n times this epsilon.",
    "event": "Records of one person add up without a limit: a person with n records is protected "
    "by n times this epsilon, which may be no protection at all.",
}


def whose(unit: str, neighbours: str = "") -> str:
    """What is hidden, in words that follow 'without'; the neighbouring relation if unknown."""
    kind, _, window = unit.partition(":")
    return _WHO.get(kind, neighbours or unit).format(window=window)


def adds_up(unit: str) -> str:
    """What one person's several units amount to; empty for a whole record, which has no more."""
    return _ADDS_UP.get(unit.partition(":")[0], "")


def odds(epsilon: float) -> str:
    """By how much one person's data can change a probability: e^epsilon in words."""
    factor = math.exp(min(epsilon, 700.0))
    if factor < 1.9995:
        return f"{rounded_up((factor - 1) * 100, 2)} percent of itself"
    return f"a factor of {rounded_up(factor)}"


def by_rules_words(publications: int) -> str:
    """What no epsilon says of publications by rules about the same people; or nothing."""
    if not publications:
        return ""
    return (
        "Epsilon does not cover what was published about these people by rules and without noise: "
        f"{number_of(publications, 'publications')} so far in the holder's ledger."
    )


def take_note(manifest: Manifest) -> str:
    """What readers must know before they use a number, first wherever it is shown; or nothing."""
    return _wrapped(_listed("Take note.", manifest.caveats)) if manifest.caveats else ""


def statement(
    manifest: Manifest,
    *,
    how: str | None = None,
    exactness: str | None = None,
    figures: str = "manifest.json holds",
) -> str:
    """The privacy statement, in paragraphs of plain text, after what to take note of.

    `how`, `exactness` and `figures` (where they are) take the place of the words about a density
    where another kind of release was made.
    """
    privacy, total = manifest.privacy, manifest.privacy.cumulative
    who = whose(privacy.unit, privacy.neighbours)
    paragraphs = [f"What this is. {manifest.release.name}: {_what(manifest)}"]
    if manifest.caveats:
        paragraphs.insert(0, _listed("Take note.", manifest.caveats))
    if manifest.tainted:
        paragraphs.append(
            "WARNING. The noise in these files came from a test seed and can be taken off again. "
            "They protect nobody and must not be published."
        )
    if manifest.scheme.as_published or not manifest.differential_privacy:
        paragraphs.append(
            "WARNING. This was made by a method whose promise does not hold as it was printed. "
            "It is for study and must not be published."
        )
    paragraphs += [
        f"What is promised. These files would have looked almost the same without {who}. "
        "Whatever someone concludes from them about a person, that person's own data change the "
        f"probability of the conclusion by at most {odds(privacy.epsilon)} (epsilon "
        f"{rounded_up(privacy.epsilon)}) plus {_chance(privacy.delta)} (delta "
        f"{rounded_up(privacy.delta)}). "
        f"{_example(privacy.epsilon, privacy.delta)} {adds_up(privacy.unit)}".strip(),
        f"How. {privacy.bound} {how or _how(manifest)}",
        _together(manifest),
        f"How exact it is. {exactness or _exactness(manifest)}",
        _listed("What is not promised. This does not hide or cover:", manifest.not_covered),
    ]
    if total.per_unit:
        paragraphs.append(per_unit_words(manifest))
    paragraphs.append(
        f"For checking. Unit: {privacy.unit}; neighbours: {privacy.neighbours}. "
        f"{_rows(manifest)}, {number_of(len(total.datasets), 'data sets')}. {figures} every figure."
    )
    return "\n\n".join(map(_wrapped, paragraphs)) + "\n"


def _listed(title: str, items: list[str]) -> str:
    return "\n".join([title, *(f"- {item}" for item in items)])


def _wrapped(paragraph: str) -> str:
    lines = paragraph.split("\n")
    return "\n".join(
        textwrap.fill(line, 88, subsequent_indent="  " * (i > 0)) for i, line in enumerate(lines)
    )


def _what(manifest: Manifest) -> str:
    made = manifest.made_from
    if manifest.kind == "synthetic":
        people = manifest.public_inputs.get("people")
        of = "" if made is None else f" and {_releases(manifest)}"
        return (
            f"records of {people:,} people who do not exist {_period(manifest)}, generated from "
            f"noisy numbers about people ({manifest.release.dataset}){of}."
        )
    if made is not None:
        return (
            f"estimated numbers of {made.estimates} for {_cells(manifest)} {_period(manifest)}, "
            f"computed from {_releases(manifest)}."
        )
    unit = "people" if manifest.privacy.counting == "people" else "visits"
    return (
        f"estimated numbers of {unit} for {_cells(manifest)} {_period(manifest)}, computed from "
        f"records about people ({manifest.release.dataset})."
    )


def _cells(manifest: Manifest) -> str:
    places, slots = manifest.released, manifest.grid.slots
    return f"{number_of(places.count, places.kind)} and {number_of(slots, 'time slots')}"


def _rows(manifest: Manifest) -> str:
    if manifest.privacy.method not in (ADDED, LARGEST):
        return f"Ledger row {manifest.ledger.row} of {manifest.ledger.id}"
    rows = [f"{one.ledger.row} of {one.ledger.id}" for one in sources_of(manifest)]
    return f"Ledger rows {', '.join(rows)}"


def _releases(manifest: Manifest) -> str:
    named = [f"{one.name} ({one.dataset}, {one.id})" for one in sources_of(manifest)]
    return f"the release {named[0]}" if len(named) == 1 else f"the releases {'; '.join(named)}"


def _period(manifest: Manifest) -> str:
    grid, fold = manifest.grid, manifest.grid.fold
    if fold is None:
        return f"from {grid.start} to {grid.end}"
    return f"of a typical {fold.to} in the period from {fold.start} to {fold.end}"


def _how(manifest: Manifest) -> str:
    return (
        "Whole-number random noise was then added to every number before anything else was done "
        f"with it ({noise(manifest)}). All later steps saw only the noisy numbers. Every place and "
        "every time slot is listed, also where nobody was."
    )


def _exactness(manifest: Manifest) -> str:
    if not manifest.scheme.interval_coverage:
        return "No interval is stated for these numbers."
    return (
        "The columns lower and upper are meant to hold the count in "
        f"{percent(manifest.scheme.interval_coverage)} of cases. Of what the limit on each "
        "person's share left out they cover only what noisy numbers show."
    )


def noise(manifest: Manifest) -> str:
    """The noise of everything that was paid for."""
    return "; ".join(
        f"{m.label}: a choice made at random"
        if m.sd is None
        else f"{m.label}: standard deviation {m.sd:.3g}"
        for m in manifest.privacy.measurements
    )


def _together(manifest: Manifest) -> str:
    total = manifest.privacy.cumulative
    if manifest.privacy.method in (ADDED, LARGEST):
        return _operators(manifest)
    life = total.lifetime
    known = life.releases if total.releases is None else total.releases
    rules = by_rules_words(total.by_rules)
    if known <= 1:
        first = (
            f"the first with noise. {rules}" if rules else "the first release about these people."
        )
        return (
            f"Together with other releases. This is {first} Later "
            "ones add to it, and the holder's ledger refuses them above its limit "
            f"({'; '.join(total.caps)})."
        )
    return (
        f"Together with other releases. With this one, {known} releases about these "
        f"people stand in the holder's ledger, of which {life.releases} count here. "
        f"{_in_all(manifest.privacy.unit)} the change is at most {odds(life.epsilon)} "
        f"(epsilon {rounded_up(life.epsilon)} at delta {rounded_up(life.delta)}), if the "
        f"releases were planned beforehand; what is said about any single stretch of time amounts "
        f"to {odds(total.worst_period.epsilon)} at most. However they were chosen, the ledger "
        f"refuses what would pass its limit ({'; '.join(total.caps)}). {rules}".rstrip()
    )


def _operators(manifest: Manifest) -> str:
    privacy = manifest.privacy
    each = "; ".join(
        f"{one.dataset} epsilon {rounded_up(one.epsilon)}" for one in sources_of(manifest)
    )
    if privacy.method == LARGEST:
        claim = (
            "Nobody is said to be in the records of two of them, so the promise is that of the "
            "weakest; for somebody who is, their losses add up."
        )
    else:
        claim = "The same person may be in the records of several of them, so their losses add up."
    life = privacy.cumulative.lifetime
    return (
        f"Together with other releases. Several operators published ({each}). {claim} Nothing was "
        "measured or charged to put them together. With all earlier releases in their ledgers the "
        f"change is at most {odds(life.epsilon)} (epsilon {rounded_up(life.epsilon)} at delta "
        f"{rounded_up(life.delta)}). {by_rules_words(privacy.cumulative.by_rules)}".rstrip()
    )


def _in_all(unit: str) -> str:
    """Whose sum it is: a life's for whole records, that of one unit otherwise."""
    if adds_up(unit):
        return f"For {whose(unit)}, if all of them are about it,"
    return "For someone who is in all of them"


def per_unit_words(manifest: Manifest) -> str:
    """What everything released loses for each unit; units contain one another."""
    lines = []
    for loss in manifest.privacy.cumulative.per_unit:
        line = f"{loss.unit}: {_much(loss.epsilon)} at delta {rounded_up(loss.delta)}"
        if loss.whole_records is not None:
            line += (
                " for someone who is there all the time; releases for whole records alone, which a "
                f"cap holds, come to {_much(loss.whole_records.epsilon)}"
            )
        if loss.not_bounded_by:
            open_to = number_of(loss.not_bounded_by, "releases")
            line = f"{loss.unit}: no bound, since {open_to} did not protect this unit"
        lines.append(line + ".")
    return _listed(
        "What that means for each unit, all releases together (changing a part of a record may "
        "cost more than leaving all of it out, because the rest is then weighted or chosen anew):",
        lines,
    )


def _much(epsilon: float | None) -> str:
    return "no bound" if epsilon is None else f"epsilon {rounded_up(epsilon)}"


def _example(epsilon: float, delta: float) -> str:
    most = min(0.1 * math.exp(min(epsilon, 700.0)) + delta, 1.0)
    if most >= 0.995:
        return "That is no protection worth the name: a chance of 10 percent may become certainty."
    return (
        "For example, what would have been concluded with a chance of 10 percent without them is "
        f"concluded with a chance of at most {rounded_up(100 * most, 2)} percent with them."
    )


def _chance(delta: float) -> str:
    return f"1 in {round(1 / delta):,}" if delta > 0 else "zero"
