"""How much one person may contribute, in words for a manifest."""

from __future__ import annotations

from sfumato.model.bound import Bound, Counting, SampleBound


def bound_in_words(bound: Bound, counting: Counting) -> str:
    """A bound as a sentence about each person."""
    if isinstance(bound, SampleBound):
        return (
            "Of each person at most one visit in a time slot and at most "
            f"{bound.slots} time slots were kept, chosen at random."
        )
    what = "places visited" if counting is Counting.VISITS else "presence"
    return (
        f"Each person's {what} were weighted down so that, over all time slots together, one "
        f"person counts for at most {bound.limit:g} (Euclidean norm of the counts per slot)."
    )
