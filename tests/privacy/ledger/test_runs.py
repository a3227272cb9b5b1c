"""Events of which only an (epsilon, delta) is known: taken off first, and first in an account."""

from __future__ import annotations

import math

import pytest

from sfumato.errors import UsageError
from sfumato.privacy.accounting import Method, event_epsilon, event_rho, guarantee
from sfumato.privacy.events import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    event_from_json,
    event_to_json,
)
from sfumato.privacy.ledger import Cap
from sfumato.privacy.ledger.limits import Room
from sfumato.privacy.ledger.nesting import scaled
from sfumato.privacy.ledger.totals import Totals, compose, fits_caps

pytestmark = pytest.mark.privacy


def test_a_run_is_taken_off_the_budget_before_the_rest() -> None:
    run = ApproximateEvent(0.5, 4e-7, "a run")
    gaussian = GaussianEvent(1.0, 400, 1)
    assert event_from_json(event_to_json(run)) == run
    assert event_epsilon(run) is None
    with pytest.raises(UsageError, match="no rho"):
        event_rho(run)
    alone = guarantee([run], 1e-6)
    assert (alone.epsilon, alone.rho, alone.method) == (0.5, None, Method.APPROXIMATE)
    both = guarantee([run, gaussian], 1e-6)
    assert both.epsilon == pytest.approx(0.5 + guarantee([gaussian], 6e-7).epsilon)
    assert guarantee([run], 3e-7).epsilon == math.inf
    pure = guarantee([run, PureEvent(0.2, "x")], 4e-7)
    assert pure.epsilon == pytest.approx(0.7)


def test_runs_come_first_in_an_account() -> None:
    """After any other answer, to subtract a run would be no filter: it passes all caps."""
    run, gaussian = ApproximateEvent(0.5, 4e-7, "a run"), GaussianEvent(1.0, 400, 1)
    assert compose([run, gaussian], 1e-6, 2).epsilon < 2
    assert compose([gaussian, run], 1e-6, 2).epsilon == math.inf
    assert compose([gaussian, run], 1e-6, 1).epsilon < 2  # one plan, fixed beforehand
    assert compose([run, run], 1e-6, 2).epsilon == 1.0
    cap = Cap(epsilon=3.0, delta=1e-6)
    assert fits_caps([run, gaussian], [cap])
    assert not fits_caps([gaussian, run], [cap])
    assert not fits_caps([run], [Cap(rho=5.0)])
    assert Totals.of([run], 1).plus([gaussian], 1).fits(cap)
    assert not Totals.of([gaussian], 1).plus([run], 1).fits(cap)
    assert Totals.of([run, gaussian], 2).spend(1e-6) == compose([run, gaussian], 1e-6, 2)
    assert Room.flat([], [cap]).fits([run])
    assert not Room.flat([run, run], [Cap(epsilon=3.0, delta=9e-7)]).fits([run])


def test_a_run_counts_for_parts_of_a_record_by_group_privacy() -> None:
    run = ApproximateEvent(0.5, 1e-7, "a run")
    twice = scaled(run, 2)
    assert isinstance(twice, ApproximateEvent)
    assert twice.epsilon == pytest.approx(1.0)
    assert twice.delta >= 1e-7 * (1 + math.exp(0.5))
