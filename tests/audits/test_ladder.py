"""A scheme that fits its limit to a measured ladder keeps its promise; a lying ladder is seen."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.audits.test_schemes import Lying

from sfumato.audits.run import SensitivityClaim
from sfumato.audits.schemes import world_of
from sfumato.density.baselines import Gaussian
from sfumato.density.common import released
from sfumato.density.scheme import Density, Plan, PlannedMeasurement
from sfumato.model.counts import WEIGHT_UNITS, Counting, WeightBound
from sfumato.model.ladder import LADDER_UNITS, step_sums
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent

pytestmark = pytest.mark.privacy
STEPS = (1, 2, 4, 8)
LIMIT, DELTA = 3.0, 1e-6


class Fitted(Gaussian):
    """Half of the budget on a ladder; then the table, its limit fitted to what the ladder says.

    People who turn out to be seen seldom count more than once each, busy ones less, for the same
    charge: the limit that was planned.
    """

    def plan(self, facts):
        each = gaussian_sigma2_for(facts.epsilon / 2, facts.delta / 2, 1.0, facts.cells).sigma2[0]
        sizes = {"ladder": (LADDER_UNITS, len(STEPS)), "table": (LIMIT * WEIGHT_UNITS, facts.cells)}
        planned = tuple(
            PlannedMeasurement(
                label,
                GaussianEvent(l2, each * int(l2) ** 2, cells),
                cells,
                float(each) ** 0.5 * l2 / WEIGHT_UNITS,
            )
            for label, (l2, cells) in sizes.items()
        )
        return Plan(self.name, planned, planned[1].sd, ())

    def run(self, source, wall, facts):
        events = self.plan(facts).events

        def measure(label, box):
            event = events[label]
            return wall.gaussian(box, sigma2=event.sigma2, touched=event.touched, label=label)

        ladder = measure("ladder", source.ladder(STEPS, facts.counting))
        sums, _ = step_sums(ladder.values, ladder.variance, STEPS)
        mean = sums.sum() / max(sums[0], 1.0)
        most = float(np.clip(LIMIT / math.sqrt(max(mean, 0.1)), 0.1, 30.0))
        bound = WeightBound(LIMIT, most)
        table = measure("table", source.weighted(bound, facts.counting))
        ids, values = released(facts, table.estimate() * WEIGHT_UNITS / bound.whole)
        return Density(ids, np.round(values, 3), None, None, None, (ladder, table))


def world(scheme, only, counting=Counting.VISITS):
    bound = WeightBound(LIMIT)
    return world_of(scheme, [8.0], DELTA, bound=bound, counting=counting, only=only, crowd=30)


@pytest.mark.parametrize("counting", Counting)
def test_a_limit_fitted_to_a_ladder_moves_nothing_further_than_was_charged(counting):
    """Both measurements reach their sensitivity, and equal answers give equal tables."""
    found = world(Fitted(), "some others", counting).exactly(8.0, seed=1)
    assert not [row for row in found.rows if row.violated]
    assert found.same_output
    reached = {
        row.subject.split(": ")[1]: row.measured / row.claim.value
        for row in found.rows
        if isinstance(row.claim, SensitivityClaim) and row.claim.norm == "L2"
    }
    assert reached.keys() == {"ladder", "table"}
    assert min(reached.values()) > 0.999


def test_a_ladder_without_the_root_of_its_steps_is_seen_exactly():
    lying = world(Lying(Fitted(), "ladder"), "every place in every slot, some others")
    (row,) = [row for row in lying.exactly(8.0, seed=1).rows if row.violated]
    assert "ladder" in row.subject
    assert row.measured == pytest.approx(2 * row.claim.value, rel=1e-6)


class Knowing(Fitted):
    """Fits its limit to the true activity of the people it counts, which nobody paid for."""

    def run(self, source, wall, facts):
        class Peeking:
            def __getattr__(self, name):
                return getattr(source, name)

            def weighted(self, bound, counting):
                seen = []
                source.exact(counting).map(lambda counts: seen.append(counts.values.sum()))
                return source.weighted(replace(bound, most=1.0 + seen[0] % 5), counting)

        return super().run(Peeking(), wall, facts)


def test_a_largest_weight_that_knows_the_data_is_seen():
    """Everybody else's visits then count more or less by one person's being there."""
    found = world(Knowing(), "a crowd").exactly(8.0, seed=1)
    assert [row for row in found.rows if row.violated and "table" in row.subject]
