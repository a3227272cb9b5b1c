"""Steering: every constant of every scheme has a name and a range, is bound, and is audited.

A parameter says how a budget is divided, never how much of it there is. So at other values than
the defaults the plan must still fit into epsilon and the exact replay must find no more than what
was promised; and a stream that is resumed with another value must be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.audits.streams import stream_rows
from sfumato.cli.main import app
from sfumato.errors import ReservationRefused, UsageError
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.accounting import event_rho
from sfumato.privacy.events import Unit, event_to_json
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.parameters import in_force, shown, value_of
from sfumato.streams.registry import SCHEMES, settings_of, stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import StreamScheme
from sfumato.streams.statement import stream_manifest
from sfumato_lab.streams.threshold import Threshold

Facts = Callable[..., StreamFacts]
PARAMETERS = {name: scheme.declares.parameters for name, scheme in SCHEMES.items()}
EACH = [(name, one) for name in SCHEMES for one in PARAMETERS[name]]
STEERED = [name for name in SCHEMES if PARAMETERS[name]]
FORMS = {"name", "finished", "adaptive", "absorb", "root", "filtered"}
"""What makes one class several schemes."""


def at_other_values(name: str, *leave: str) -> StreamScheme:
    """The scheme with every parameter but some at another value than the default."""
    others = {one: setting.other for one, setting in PARAMETERS[name].items() if one not in leave}
    return stream_scheme(name, others)


def small(facts: Facts, unit: str = "user-day", delta: float = 1e-6) -> StreamFacts:
    return facts(unit, delta=delta, days=2, per_day=6, cells=6, people=60, columns=3)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_field_of_a_scheme_is_a_parameter(name: str) -> None:
    """Of the scheme, or of another form of the same class."""
    scheme = stream_scheme(name)
    alike = [other for other in SCHEMES if type(stream_scheme(other)) is type(scheme)]
    settings = [setting for other in alike for setting in PARAMETERS[other].values()]
    named = {setting.field.partition(".")[0] for setting in settings}
    assert {field.name for field in fields(scheme)} - FORMS <= named  # type: ignore[arg-type]


@pytest.mark.privacy
@pytest.mark.parametrize(("name", "one"), EACH)
def test_a_parameter_at_another_value_is_in_the_claim(
    name: str, one: str, asked: StreamRequest
) -> None:
    """A reservation that did not hold it could be finished with another one."""
    setting, scheme = PARAMETERS[name][one], stream_scheme(name)
    other = stream_scheme(name, {one: setting.other})
    assert value_of(other, setting) != value_of(scheme, setting)
    assert in_force(other)[one] == setting.other
    assert replace(asked, scheme=other).config() != replace(asked, scheme=scheme).config()
    same = value_of(scheme, setting)
    if same is not None:
        again = stream_scheme(name, {one: float(same) if isinstance(same, Fraction) else same})
        assert settings_of(again) == settings_of(scheme)


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "user-period"])
@pytest.mark.parametrize("name", STEERED)
def test_at_other_values_the_plan_still_fits_into_the_budget(
    name: str, unit: str, facts: Facts
) -> None:
    for delta, leave in ((1e-6, ()), (0.0, ("noise",))):
        known = small(facts, unit, delta)
        accounts = at_other_values(name, *leave).plan(known).accounts
        assert accounts
        if all(account.pure for account in accounts):
            assert sum(account.whole for account in accounts) <= Fraction(repr(known.epsilon))
        else:
            spent = sum(event_rho(account.event) for account in accounts)
            assert spent <= Fraction(repr(known.rho)) * (1 + Fraction(1, 1 << 30))


@pytest.mark.privacy
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "comb" else n for n in STEERED]
)
def test_at_other_values_no_unit_loses_more_than_was_promised(name: str, facts: Facts) -> None:
    for delta, leave in ((1e-6, ()), (0.0, ("noise",))):
        if "noise" not in PARAMETERS[name] if delta else {*PARAMETERS[name]} == {"noise"}:
            continue  # the same as without it, or as at the defaults
        rows = stream_rows(at_other_values(name, *leave), small(facts, delta=delta), seed=7)
        assert not [row for row in rows if row.violated], delta
        assert rows[0].measured > 0


@pytest.mark.slow
@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-period", "user-day"])
@pytest.mark.parametrize(("name", "one"), EACH)
def test_each_parameter_alone_at_another_value(
    name: str, one: str, unit: str, facts: Facts
) -> None:
    scheme = stream_scheme(name, {one: PARAMETERS[name][one].other})
    rows = stream_rows(scheme, small(facts, unit), seed=7, every=True)
    assert not [row for row in rows if row.violated]


@pytest.mark.privacy
def test_a_share_that_is_spent_twice_is_caught(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: comparing takes its share, and histograms do not leave it to them."""
    from sfumato_lab.streams import threshold

    whole = threshold.noise_of
    monkeypatch.setattr(threshold, "noise_of", lambda *given: whole(*given[:3], 1))
    known = small(facts, "user-period", 0.0)
    rows = stream_rows(Threshold(threshold=1, cutoff=12, compare=Fraction(2, 5)), known)
    assert rows[0].violated


def test_what_cannot_be_is_said_with_what_can() -> None:
    with pytest.raises(UsageError, match="no parameter alpha") as error:
        stream_scheme("threshold", {"alpha": 0.5})
    assert "compare (a number from 0.001 to 0.999)" in str(error.value.remedy)
    for bad in (1, 0, -0.1, float("nan"), "half", True):
        with pytest.raises(UsageError, match="compare is a number from"):
            stream_scheme("threshold", {"compare": bad})
    for bad in (2.5, 0, "c", False):
        with pytest.raises(UsageError, match="cutoff is a whole number from"):
            stream_scheme("threshold", {"cutoff": bad})
    with pytest.raises(UsageError, match="noise is best, laplace or gaussian"):
        stream_scheme("direct", {"noise": "none"})
    with pytest.raises(UsageError, match="whole is true or false"):
        stream_scheme("rhythm", {"whole": 1})
    with pytest.raises(UsageError, match="It has none"):
        stream_scheme("zeros", {"noise": "best"})


def test_shares_that_leave_nothing_for_the_night_are_refused(facts: Facts) -> None:
    scheme = stream_scheme("static-hybrid", {"day": 0.9, "division": 0.1})
    with pytest.raises(UsageError, match="nothing of the budget for the night"):
        scheme.plan(small(facts))


def test_a_missing_threshold_names_what_there_is(facts: Facts) -> None:
    known = replace(small(facts), expected_users=None)
    with pytest.raises(UsageError, match="parameter threshold") as error:
        stream_scheme("threshold").plan(known)
    assert "`parameter`" in str(error.value.remedy)
    stream_scheme("threshold", {"threshold": 9}).plan(known)


def test_the_command_lists_schemes_with_ranges_and_defaults() -> None:
    said = CliRunner().invoke(app, ["stream", "--schemes"])
    assert said.exit_code == 0
    for name in SCHEMES:
        assert f"\n{name}\n" in f"\n{said.stdout}"
        for one, setting in PARAMETERS[name].items():
            assert f"  {one}: {setting.meaning}\n      {setting.range}; default: " in said.stdout


def rows_of_the_page() -> list[str]:
    """One row for a parameter and all schemes that have it alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in SCHEMES:
        for one, setting in PARAMETERS[name].items():
            value = value_of(stream_scheme(name), setting)
            default = setting.unset if value is None else str(shown(value)).lower()
            alike.setdefault((one, default, setting.range, setting.meaning), []).append(name)
    return [
        f"| `{one}` | `{'`, `'.join(names)}` | {meaning} | {default} | {range_} |"
        for (one, default, range_, meaning), names in alike.items()
    ]


def test_the_page_of_the_command_lists_every_parameter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands" / "stream.md").read_text()
    missing = [row for row in rows_of_the_page() if row not in page.splitlines()]
    assert not missing, "\n".join(missing)


@pytest.fixture
def asked(tmp_path: Path) -> StreamRequest:
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "UTC")
    facts = StreamFacts(2, Calendar.of(grid), 1.0, 0.0, Unit.parse("user-day"), 100)
    scheme = stream_scheme("threshold", {"compare": 0.25, "cutoff": 2})
    return StreamRequest("city", "s", scheme, facts, grid, np.array(["a", "b"]), tmp_path / "out")


@pytest.mark.privacy
def test_a_steered_stream_is_resumed_as_it_was_begun(asked: StreamRequest, tmp_path: Path) -> None:
    book = Ledger(tmp_path / "books" / "ledger.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
    with LiveStream(book, asked) as live:
        live.publish(0, boxed(np.array([5, 0]), asked.facts))
    for other in ({"compare": 0.1, "cutoff": 2}, {"compare": 0.25, "cutoff": 3}, {}):
        changed = replace(asked, scheme=stream_scheme("threshold", other))
        with pytest.raises(ReservationRefused), LiveStream(book, changed):
            pass
    with LiveStream(book, asked) as live:
        assert live.next_slot == 1
        manifest = stream_manifest(asked, book.reserve(asked.claim()), {})  # type: ignore[arg-type]
    said = manifest.scheme.parameters
    assert (said["compare"], said["cutoff"], said["noise"]) == (0.25, 2, "best")
    assert said["threshold"] == "by public facts: a twentieth of the expected users"
    events = dict(asked.claim().events)
    assert event_to_json(events["histogram"])["scale"] == "8/3", "three quarters, two histograms"
