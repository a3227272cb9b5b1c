"""Will made-up people be of any use? Forecast from public facts alone, before anything is spent.

* Where a table of places and slots is measured (`weeks`), it must be of use as a release would be:
  the forecast of `sfumato.density.fitness` with the table's share of the budget.
* Of other measurements the *signal* decides, expected people (or trips) times mu of the budget, as
  a whole and for each place: from `Declaration.least` and `least_place` on a method was better than
  an answer that costs nothing on a made-up city (docs/decisions/synthesis.md has the figures).

Nothing private decides: whether there are made-up people says nothing about true ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.density.fitness import Case, Fitness, fitness
from sfumato.errors import Unfit
from sfumato.privacy.accounting import gaussian_mu
from sfumato.synthesis.method import Method, SynthFacts


@dataclass(frozen=True, slots=True)
class Forecast:
    """The signal, what a method needs of it, and the verdict on its table."""

    signal: float
    place: float
    """For each place that people are put at."""
    least: float
    least_place: float
    table: Fitness | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is too little, in words."""
        found = []
        for name, got, least in (
            ("", self.signal, self.least),
            (" a place", self.place, self.least_place),
        ):
            if got < least:
                found.append(
                    f"the signal (expected number times the sharpness of the budget) is {got:.3g}"
                    f"{name}, and from {least:g} on this method beats an answer that costs nothing"
                )
        if self.table is not None and self.table.useless:
            found.extend(f"of the table, {reason}" for reason in self.table.reasons)
        return tuple(found)

    @property
    def useless(self) -> bool:
        """Whether it is refused unless it is asked for all the same."""
        return bool(self.reasons)

    @property
    def caveats(self) -> list[str]:
        """For the reader of people who were made up all the same."""
        if not self.useless:
            return []
        said = "; ".join(self.reasons)
        return [f"A forecast from public facts said that these would be of no use: {said}."]

    def lines(self) -> list[str]:
        """In plain words."""
        if not self.useless:
            return ["Will it be of use? By a forecast from public facts, yes."]
        return [
            "Will it be of use? No, and `synth` refuses it:",
            *(f"  {r}." for r in self.reasons),
        ]

    def refusal(self) -> Unfit:
        """The error."""
        return Unfit(
            "A forecast from public facts says that these made-up people would be of no use: "
            f"{'; '.join(self.reasons)}. Nothing was read and nothing was spent.",
            remedy="Raise `epsilon`, take fewer places or longer slots. `anyway` publishes it all "
            "the same.",
        )


def forecast(method: Method, facts: SynthFacts) -> Forecast | None:
    """What is to be expected; None where nobody says how many people there are."""
    public, declared = facts.public, method.declares
    if public.expected_users is None:
        return None
    signal = public.expected_users * gaussian_mu(public.epsilon, public.delta)
    places = max(len(set(public.released_ids.tolist())), 1)
    of_table = getattr(method, "table_facts", None)
    case = None
    if of_table is not None and facts.cube is None:
        case = Case.of("bayes", of_table(facts))
    table = None if case is None else fitness(case)
    return Forecast(signal, signal / places, declared.least, declared.least_place, table)
