"""`sfumato sanitise`: charged like a release, repeatable after a kill, honest in its manifest."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from sfumato.cli.sanitise import sanitise as command
from sfumato.errors import BudgetRefused, ReservationRefused, SfumatoError, UsageError
from sfumato.io.traces import to_frame
from sfumato.model.private import Private
from sfumato.model.traces import Box, Found, Traces
from sfumato.privacy.events import Tab, Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.mechanisms.planar import Prediction
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.published.statement import check_claim
from sfumato.traces import publish as publishing
from sfumato.traces import statement
from sfumato.traces.bounds import TraceSource, eligible
from sfumato.traces.mechanisms import draw_reports, pseudonyms
from sfumato.traces.publish import Sanitised
from sfumato.traces.request import GaussianTraces, Kind, Outside, SanitiseRequest, sanitise_request

pytestmark = pytest.mark.privacy

Walkers = Callable[..., Traces]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.initialise()
    made.add_dataset("walkers", Cap(epsilon=5.0, delta=0.0), Unit.parse("point:1m"))
    return made


def asked(**more: object) -> SanitiseRequest:
    given: dict[str, object] = {
        "dataset": "walkers",
        "name": "november",
        "kind": Kind.INDEPENDENT,
        "start": date(2008, 11, 1),
        "end": date(2008, 11, 2),
        "strength": Strength.from_noise(100.0),
        "most_reports": 30,
    }
    return SanitiseRequest(**(given | more))  # type: ignore[arg-type]


def sanitise(traces: Traces, request: SanitiseRequest, ledger: Ledger, out: Path) -> Sanitised:
    return publishing.publish_request(request, TraceSource(traces), ledger, out)


def test_a_release_of_traces(tmp_path: Path, ledger: Ledger, walkers: Walkers) -> None:
    made = sanitise(walkers(), asked(), ledger, tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "traces.parquet").to_pandas()
    assert table.groupby("user").size().tolist() == [30, 30, 30]
    assert made.withheld == 30
    assert set(table["user"]) == {"p0", "p1", "p2"}
    privacy = made.manifest.privacy
    assert privacy.unit == "point"
    assert privacy.epsilon == pytest.approx(30 * 0.02)
    assert privacy.method == "per metre"
    assert made.manifest.scheme.parameters["finite_precision_eta"] < 1e-5
    text = (tmp_path / "out" / "README.txt").read_text()
    for word in ("2.7 m", "time stamps", "47 %", "density"):
        assert word in text
    assert "walker-" not in text + (tmp_path / "out" / "traces.csv").read_text()
    assert ledger.book().find("walkers", "november").status == "committed"


def test_the_cap_refuses(tmp_path: Path, ledger: Ledger, walkers: Walkers) -> None:
    sanitise(walkers(), asked(most_reports=200), ledger, tmp_path / "one")
    with pytest.raises(BudgetRefused):
        sanitise(walkers(), asked(name="two", most_reports=60), ledger, tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_killed_and_run_again_is_the_same_release(
    tmp_path: Path, ledger: Ledger, walkers: Walkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "traces_statement", die)
        with pytest.raises(KeyboardInterrupt):
            sanitise(walkers(), asked(), ledger, tmp_path / "out")
    reserved = ledger.book().find("walkers", "november")
    made = sanitise(walkers(), asked(), ledger, tmp_path / "out")
    assert made.how == "resumed"
    assert made.manifest.release.id == reserved.id
    assert sanitise(walkers(), asked(), ledger, tmp_path / "out").how == "already"
    assert len(ledger.book().charges) == 1


def test_the_same_noise_never_meets_two_inputs(
    tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    sanitise(walkers(), asked(), ledger, tmp_path / "out")
    with pytest.raises(ReservationRefused, match="the events"):
        sanitise(walkers(fixes=41), asked(), ledger, tmp_path / "out")


def test_a_clock_release_that_another_overtook_does_not_pass_the_rolling_budget(
    tmp_path: Path, ledger: Ledger, walkers: Walkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look before the reservation and the draw another process may have spent it."""
    hours = {"kind": Kind.CLOCK, "window_s": 7200, "most_reports": None, "rolling_per_metre": 0.3}
    looked = publishing.refuse_if_spent

    def overtaken(*given: object) -> None:
        looked(*given)  # type: ignore[arg-type]
        monkeypatch.setattr(publishing, "refuse_if_spent", looked)
        sanitise(walkers(), asked(name="other", **hours), ledger, tmp_path / "other")

    monkeypatch.setattr(publishing, "refuse_if_spent", overtaken)
    with pytest.raises(BudgetRefused, match="rolling"):
        sanitise(walkers(), asked(**hours), ledger, tmp_path / "out")
    assert (tmp_path / "other").exists()
    assert not (tmp_path / "out").exists()


def test_rolling_budget_withholds_and_remembers(
    tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    daily = asked(rolling_per_metre=0.2)
    sanitise(walkers(), daily, ledger, tmp_path / "one")
    first = pq.read_table(tmp_path / "one" / "traces.parquet").to_pandas()
    assert first.groupby("user").size().tolist() == [10, 10, 10]
    with pytest.raises(BudgetRefused, match="rolling"):  # nothing is left for that day
        sanitise(walkers(), asked(name="again", rolling_per_metre=0.2), ledger, tmp_path / "again")


def test_linked_data_sets_share_the_rolling_budget_of_a_user(
    tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    """Ten reports a day at 0.02: what one data set spent is gone in the other, from the link on."""
    ledger.add_dataset("same walkers", Cap(epsilon=5.0, delta=0.0), Unit.parse("point:1m"))
    sanitise(walkers(), asked(rolling_per_metre=0.2, most_reports=7), ledger, tmp_path / "one")

    def other(name: str) -> list[int]:
        request = asked(dataset="same walkers", name=name, rolling_per_metre=0.2, most_reports=8)
        sanitise(walkers(), request, ledger, tmp_path / name)
        table = pq.read_table(tmp_path / name / "traces.parquet").to_pandas()
        return table.groupby("user").size().tolist()

    ledger.link(["walkers", "same walkers"])
    assert other("after the link") == [3, 3, 3]
    with pytest.raises(BudgetRefused, match="rolling"):
        other("once more")


def test_data_sets_that_are_not_linked_have_budgets_of_their_own(
    tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    ledger.add_dataset("others", Cap(epsilon=5.0, delta=0.0), Unit.parse("point:1m"))
    for dataset in ("walkers", "others"):
        request = asked(dataset=dataset, rolling_per_metre=0.2, most_reports=8)
        sanitise(walkers(), request, ledger, tmp_path / dataset)
        table = pq.read_table(tmp_path / dataset / "traces.parquet").to_pandas()
        assert table.groupby("user").size().tolist() == [8, 8, 8]


def test_public_clock_is_checked_against_the_rolling_budget_before_anything() -> None:
    with pytest.raises(BudgetRefused, match="every window"):
        asked(kind=Kind.CLOCK, window_s=300, most_reports=None, rolling_per_metre=0.2)


BOX = Box(116.0, 39.6, 116.8, 40.3)
KINDS = {
    Kind.CLOCK: {"window_s": 3600, "most_reports": None},
    Kind.PRINTED_CLOCK: {"window_s": 300},
    Kind.PREDICTIVE: {
        "prediction": Prediction(Strength(0.01), Strength(0.001), 500.0, 30, 100),
    },
    Kind.GAUSSIAN: {"strength": None, "gaussian": GaussianTraces(BOX, 200.0, 30, 2.0, 1e-6)},
}


@pytest.mark.privacy
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_nothing_in_the_period_is_an_empty_release(
    tmp_path: Path, walkers: Walkers, kind: Kind | None
) -> None:
    """That nobody was there is an answer like any other, and is paid like any other."""
    how = KINDS[kind] if kind is not None else {"rolling_per_metre": 0.2}
    later = {"start": date(2009, 1, 1), "end": date(2009, 1, 2), "box": BOX}
    request = asked(kind=kind or Kind.INDEPENDENT, **(later | how))
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("walkers", Cap(epsilon=50.0, delta=1e-5), Unit.parse("point:1m"))
    made = sanitise(walkers(), request, book, tmp_path / "o")
    assert pq.read_table(made.folder / "traces.parquet").num_rows == 0
    assert len(book.book().charges) == 1


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_is_charged_before_it_draws(kind: Kind, walkers: Walkers, drawn_blocks) -> None:
    request = asked(kind=kind, box=BOX, outside=Outside.CLAMP, **KINDS[kind])
    tab = Tab()
    box = Private(eligible(walkers(), request), "walkers")
    reports = draw_reports(box, request, Wall.seeded(1, tab)).traces
    assert tab.charged == {"locations": request.event}
    assert BOX.inside(reports.lon, reports.lat).all()
    assert request.expected_noise_m > 0

    class Refuses:
        def charge(self, *_: object) -> None:
            raise BudgetRefused("no")

    drawn_blocks.asked.clear()
    with pytest.raises(BudgetRefused):
        draw_reports(box, request, Wall.seeded(2, Refuses()))
    assert not drawn_blocks.asked


def test_predictive_repeats_instead_of_leaving_out(walkers: Walkers) -> None:
    few = Prediction(Strength(0.01), Strength(0.001), 500.0, 2, 10)
    request = asked(kind=Kind.PREDICTIVE, prediction=few, most_reports=2)
    box = Private(eligible(walkers(), request), "walkers")
    reports = draw_reports(box, request, Wall.seeded(1)).traces
    assert len(reports) == 120
    places = np.column_stack((reports.user, reports.lon, reports.lat))
    assert len(np.unique(places, axis=0)) <= 3 * 2


def test_public_choices_are_demanded() -> None:
    for missing in ({"most_reports": None}, {"strength": None}, {"outside": Outside.DROP}):
        with pytest.raises(UsageError, match="need"):
            asked(**missing)
    with pytest.raises(UsageError, match="need"):
        asked(kind=Kind.CLOCK)


def test_pseudonyms_do_not_follow_the_order_of_ids(walkers: Walkers) -> None:
    orders = {
        tuple(pseudonyms(walkers(people=4, fixes=1), Wall.seeded(seed)).lat.tolist())
        for seed in range(8)
    }
    assert len(orders) > 3
    trips = pseudonyms(walkers(people=2), Wall.seeded(1)).trip
    assert trips.tolist() == [0] * 80


@pytest.mark.usefixtures("ledger")
def test_the_command(tmp_path: Path, walkers: Walkers) -> None:
    app = typer.Typer()
    app.command()(command)
    to_frame(walkers(), "scikit-mobility").to_csv(
        tmp_path / "traces.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S"
    )
    common = [str(tmp_path / "traces.csv"), "--dataset", "walkers", "--from", "2008-11-01"]
    common += ["--to", "2008-11-02", "--tz", "UTC", "--ledger", str(tmp_path / "ledger.sqlite")]
    runner = CliRunner()
    options = ["--expected-noise", "100m", "--most-reports", "30"]
    dry = runner.invoke(app, [*common, "--out", str(tmp_path / "dry"), *options, "--dry-run"])
    assert "Nothing was read" in dry.output, dry.output
    done = runner.invoke(app, [*common, "--out", str(tmp_path / "out"), *options, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epsilon"] == pytest.approx(0.6)
    wrong = runner.invoke(app, [*common, "--out", str(tmp_path / "x"), "--radius", "200m"])
    assert isinstance(wrong.exception, UsageError)
    level = ["--radius", "200m", "--level", "ln4", "--kind", "clock", "--window", "6h"]
    done = runner.invoke(app, [*common, "--out", str(tmp_path / "clock"), *level])
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "clock" / "traces.csv")
    assert len(table) == 3 * 4
    gauss = ["--kind", "gaussian", "--radius", "200m", "--epsilon", "2", "--delta", "1e-6"]
    gauss += ["--region", "116,39.6,116.8,40.3", "--most-reports", "36", "--dry-run"]
    done = runner.invoke(app, [*common, "--out", str(tmp_path / "g"), *gauss, "--json"])
    assert json.loads(done.stdout)["expected_noise_m"] == pytest.approx(3355, rel=0.03)
    assert np.isfinite(table["lon"]).all()


def test_one_call_in_python_does_what_the_command_does(
    tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    to_frame(walkers(), "scikit-mobility").to_csv(
        tmp_path / "traces.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S"
    )
    told: list[Found] = []
    given: dict[str, Any] = {
        "dataset": "walkers",
        "start": "2008-11-01",
        "end": "2008-11-02",
        "expected_noise": "100m",
        "most_reports": 30,
        "tz": "UTC",
        "ledger": tmp_path / "ledger.sqlite",
        "internal": told.append,
    }
    made = publishing.sanitise(tmp_path / "traces.csv", out=tmp_path / "out", **given)
    assert (made.how, made.withheld, told[0].rows) == ("new", 30, 120)
    again = publishing.sanitise(str(tmp_path / "traces.csv"), out=str(tmp_path / "out"), **given)
    assert (again.how, again.withheld) == ("already", 30)
    claim = ledger.book().find("walkers", "out").claim
    assert claim.config["per_metre"] == 0.02
    frame = to_frame(walkers(), "scikit-mobility")
    also = publishing.sanitise(frame, out=tmp_path / "frame", **(given | {"expected_noise": 100}))
    assert also.manifest.privacy.epsilon == made.manifest.privacy.epsilon
    region = (116.0, 39.6, 116.8, 40.3)
    open_traces = publishing.sanitise(
        walkers(), out=tmp_path / "open", **given, region=region, outside="clamp"
    )
    assert open_traces.how == "new"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"expected_noise": None}, "`expected_noise='100m'`"),
        ({"radius": "200m"}, "must be given, once"),
        ({"kind": "clock"}, "`window`"),
        ({"kind": "predictive"}, "`threshold`"),
        ({"kind": "gaussian"}, "`radius`, `epsilon`, `delta`, `region` and `most_reports`"),
        ({"kind": "loud"}, "independent, clock"),
        ({"most_reports": None}, "`most_reports`"),
        ({"outside": "drop"}, "`region`"),
        ({"region": "1,2"}, "west,south,east,north"),
        ({"start": "yesterday"}, "2007-09-10"),
        ({"start": "0001-01-01"}, "years that clocks know"),
        ({"most_reports": 10**400}, "between 1 and"),
    ],
)
def test_errors_in_python_speak_python(wrong: dict[str, Any], words: str, tmp_path: Path) -> None:
    given = {
        "dataset": "walkers",
        "start": "2008-11-01",
        "end": "2008-11-02",
        "expected_noise": "100m",
        "most_reports": 30,
        "out": tmp_path / "out",
    }
    with pytest.raises(UsageError) as refused:
        publishing.sanitise(tmp_path / "no such file.csv", **(given | wrong))
    assert words in str(refused.value)
    assert "--" not in str(refused.value)


def test_the_command_has_the_words_of_the_verb() -> None:
    """Option and argument names are the same, but for what only a terminal needs."""
    verb = set(inspect.signature(publishing.sanitise).parameters)
    options = set(inspect.signature(command).parameters)
    assert options - verb == {"ledger_key", "dry_run", "quiet", "as_json"}
    assert verb - options == {"keep_key", "internal", "progress"}
    request = set(inspect.signature(sanitise_request).parameters)
    reading = {"traces", "out", "column", "tz", "time_unit", "format", "gap", "ledger", "keep_key"}
    assert verb - request == {*reading, "internal", "progress"}


@pytest.mark.privacy
@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_lists_what_it_claims(
    kind: Kind, tmp_path: Path, ledger: Ledger, walkers: Walkers
) -> None:
    ledger.add_dataset("cap", Cap(epsilon=1000.0, delta=1e-6), Unit.parse("point:1m"))
    request = asked(kind=kind, dataset="cap", box=BOX, **KINDS.get(kind, {}))
    made = sanitise(walkers(), request, ledger, tmp_path / "out").manifest
    check_claim(made)
    listed = made.privacy.measurements
    assert [m.label for m in listed] == ["locations", "tests"][: 1 + (kind is Kind.PREDICTIVE)]
    short = made.privacy.model_copy(update={"measurements": listed[1:]})
    with pytest.raises(SfumatoError, match="do not add up"):
        check_claim(made.model_copy(update={"privacy": short}))
    text = (tmp_path / "out" / "README.txt").read_text()
    for words in (made.privacy.neighbours, "memory and disk", made.ledger.id):
        assert words in " ".join(text.split())


@pytest.mark.privacy
def test_traces_are_not_published_where_the_list_does_not_add_up(
    tmp_path: Path, ledger: Ledger, walkers: Walkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "_measurements", lambda *_: [])
    with pytest.raises(SfumatoError, match="do not add up"):
        sanitise(walkers(), asked(), ledger, tmp_path / "out")
    assert not (tmp_path / "out").exists()
