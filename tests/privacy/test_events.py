"""Events: they survive JSON to the last digit and refuse what has no meaning."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
    event_from_json,
    event_to_json,
)

quick = settings(deadline=None, derandomize=True, max_examples=60)

positive = st.floats(1e-9, 1e9)
fractions = st.fractions(min_value=Fraction(1, 16), max_value=1 << 40)
events: st.SearchStrategy[PrivacyEvent] = st.one_of(
    st.builds(GaussianEvent, positive, fractions, st.integers(1, 10**6)),
    st.builds(LaplaceEvent, positive, fractions),
    st.builds(BoundedRangeEvent, positive),
    st.builds(PureEvent, positive, st.text(max_size=9)),
    st.builds(MetricEvent, positive, st.text(max_size=9)),
)


@quick
@given(events)
def test_json_keeps_everything(event: PrivacyEvent) -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_the_record_is_readable() -> None:
    assert event_to_json(GaussianEvent(3.0, Fraction(1, 3), 7)) == {
        "kind": "discrete-gaussian",
        "l2": 3.0,
        "sigma2": "1/3",
        "touched": 7,
    }


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="quantum"):
        event_from_json({"kind": "quantum"})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_losses_are_finite_and_positive(bad: float) -> None:
    for make in (
        lambda x: GaussianEvent(x, Fraction(1), 1),
        lambda x: LaplaceEvent(x, Fraction(1)),
        BoundedRangeEvent,
        lambda x: PureEvent(x, "x"),
        lambda x: MetricEvent(x, "x"),
    ):
        with pytest.raises(UsageError):
            make(bad)


def test_scales_and_cells_are_positive() -> None:
    with pytest.raises(UsageError):
        GaussianEvent(1.0, Fraction(0), 1)
    with pytest.raises(UsageError):
        GaussianEvent(1.0, Fraction(1), 0)
    with pytest.raises(UsageError):
        LaplaceEvent(1.0, Fraction(-1))
