"""A scheme that states a median, intervals and a total, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato.published.estimate import Estimate
from sfumato.streams.scheme import Publication
from sfumato.streams.schemes.baselines import Direct


class WithIntervals(Direct):
    """`direct` with a median, intervals and a total, as a scheme with a posterior has them."""

    def plan(self, facts: Any) -> Any:
        return replace(super().plan(facts), coverage=0.9, median=True)

    def publisher(self, facts: Any) -> Any:
        inner = super().publisher(facts)

        class Publisher:
            def publish(self, *given: Any) -> Publication:
                made = inner.publish(*given)
                half, total = 1.6449 * made.sd, float(made.values.sum())
                of_sum = half * np.sqrt(made.values.size)
                return replace(
                    made,
                    median=made.values - 0.25,
                    lower=made.values - half,
                    upper=made.values + half,
                    total=Estimate(total, total - of_sum, total + of_sum, 0.9),
                )

            state, restore = inner.state, inner.restore

        return Publisher()


def use_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every stream of the test be published by this scheme."""
    monkeypatch.setattr("sfumato.streams.publish.stream_scheme", lambda *_: WithIntervals())
