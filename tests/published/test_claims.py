"""A manifest's own list of measurements gives its claim, by the method that it names."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import SfumatoError
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
    event_to_json,
)
from sfumato.privacy.ledger.totals import compose
from sfumato.published.manifest import Manifest, Measured
from sfumato.published.statement import adds_up_to_claim, check_claim, recomputed_claim

pytestmark = pytest.mark.privacy

GAUSSIAN = GaussianEvent(3e6, Fraction(9 * 10**14), 30)  # fine enough for the exact curve
LAPLACE = LaplaceEvent(1.0, Fraction(4))
CHOICE = BoundedRangeEvent(0.2)
LISTS = {
    "nothing": ([], 0.0),
    "pure": ([LAPLACE, PureEvent(0.1, "sparse vector")], 0.0),
    "gaussian": ([GAUSSIAN, GAUSSIAN], 1e-6),
    "numerical": ([GAUSSIAN, CHOICE], 1e-6),
    "zcdp": ([GAUSSIAN, ConcentratedEvent(0.01, "a choice of k")], 1e-6),
    "unbounded": ([GAUSSIAN], 0.0),
}


def claimed(manifest: Manifest, events: list[PrivacyEvent], **claim: object) -> Manifest:
    measurements = [
        Measured(
            label=f"m{k}",
            event=event_to_json(event),
            cells=1,
            units_per_count=1,
            variance=None,
            sd=None,
        )
        for k, event in enumerate(events)
    ]
    privacy = manifest.privacy.model_copy(update={"measurements": measurements, **claim})
    return manifest.model_copy(update={"privacy": privacy})


def of(manifest: Manifest, events: list[PrivacyEvent], delta: float) -> Manifest:
    found = guarantee(events, delta)
    return claimed(
        manifest,
        events,
        rho=found.rho,
        epsilon=found.epsilon,
        delta=delta,
        method=found.method.value,
    )


@pytest.mark.parametrize("name", LISTS)
def test_every_method_recomputes(name: str, manifest: Manifest) -> None:
    made = of(manifest, *LISTS[name])
    assert made.privacy.method == name
    assert adds_up_to_claim(made)
    if name not in ("nothing", "unbounded"):
        check_claim(made)
        return
    with pytest.raises(SfumatoError, match="no positive number"):
        check_claim(made)  # it adds up, and is no promise


def test_a_sum_over_releases_recomputes_by_the_method_it_names(manifest: Manifest) -> None:
    """What is chosen adaptively is claimed by sums, where a curve would be smaller."""
    spend = compose([LAPLACE, LAPLACE], 1e-6, releases=2)
    made = claimed(
        manifest,
        [LAPLACE, LAPLACE],
        rho=spend.rho,
        epsilon=spend.epsilon,
        delta=1e-6,
        method=spend.method,
    )
    check_claim(made)


def test_location_noise_adds_up_per_metre(manifest: Manifest) -> None:
    events: list[PrivacyEvent] = [MetricEvent(0.02, "reports"), MetricEvent(0.01, "tests")]
    right = claimed(manifest, events, rho=None, epsilon=0.03, delta=0.0, method="per metre")
    check_claim(right)
    with pytest.raises(SfumatoError, match="do not add up"):
        check_claim(claimed(right, events[:1]))


@pytest.mark.parametrize("name", ["pure", "gaussian", "numerical", "zcdp"])
def test_a_paid_measurement_that_is_not_listed_is_found(name: str, manifest: Manifest) -> None:
    events, delta = LISTS[name]
    short = of(manifest, events, delta)
    privacy = short.privacy.model_copy(update={"measurements": short.privacy.measurements[:-1]})
    with pytest.raises(SfumatoError, match="do not add up"):
        check_claim(short.model_copy(update={"privacy": privacy}))


@pytest.mark.parametrize("change", [{"epsilon": 0.5}, {"rho": 1e-3}, {"method": "pure"}])
def test_another_claim_is_not_that_of_the_list(
    change: dict[str, object], manifest: Manifest
) -> None:
    made = of(manifest, *LISTS["gaussian"])
    wrong = made.model_copy(update={"privacy": made.privacy.model_copy(update=change)})
    assert recomputed_claim(made.privacy).rho == pytest.approx(made.privacy.rho)
    with pytest.raises(SfumatoError, match="nothing was published"):
        check_claim(wrong)
