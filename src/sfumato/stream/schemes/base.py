"""What most publishers share: a last publication that is repeated until something is measured."""

from __future__ import annotations

import numpy as np

from sfumato.stream.contract import Publication, State, Values
from sfumato.stream.facts import StreamFacts


class Repeating:
    """Keeps the last publication. Starts with zeros, which is public knowledge of nothing."""

    finished = False

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
