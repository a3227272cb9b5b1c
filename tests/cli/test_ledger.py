"""`sfumato ledger`: init, show, history, plan, verify, export, link, abandon."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner, Result

from sfumato.cli.accounts import spent
from sfumato.cli.main import app
from sfumato.errors import LedgerError, UsageError
from sfumato.model.time_grid import period_of
from sfumato.privacy.accounting import gaussian_mu, zcdp_epsilon
from sfumato.privacy.events import USER_PERIOD, GaussianEvent
from sfumato.privacy.ledger import Claim, Ledger, Reservation, Status

WEEK = 7 * 86_400 * 1_000_000


class Office:
    """A ledger file and the command run on it."""

    def __init__(self, home: Path) -> None:
        self.file = home / "ledger.sqlite"

    def run(self, *arguments: str) -> Result:
        result = CliRunner().invoke(app, ["ledger", *arguments, "--ledger", str(self.file)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").output)

    def reserve(self, name: str, dataset: str = "city", week: int = 0) -> Reservation:
        claim = Claim(
            dataset=dataset,
            name=name,
            unit=USER_PERIOD,
            delta=2e-6,
            period=(week * WEEK, (week + 1) * WEEK),
            events=(("counts", GaussianEvent(1.0, Fraction(256), 1)),),
            config={},
            fingerprint="f",
            out=str(self.file.parent / "out" / name),
        )
        found = Ledger(self.file).reserve(claim)
        assert isinstance(found, Reservation)
        return found


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.run("init", "--dataset", "city", "--cap-epsilon", "2", "--cap-delta", "2e-6")
    return office


def test_init_names_the_cap_and_where_the_key_is(tmp_path: Path) -> None:
    result = Office(tmp_path).run("init", "--dataset", "city", "--cap-rho", "0.1")
    assert "at most rho 0.1" in result.output
    assert str(tmp_path / "ledger.key") in result.output


@pytest.mark.parametrize("flags", [[], ["--cap-epsilon", "2"], ["--cap-rho", "-1"]])
def test_a_cap_must_make_sense(tmp_path: Path, flags: list[str]) -> None:
    with pytest.raises(UsageError):
        Office(tmp_path).run("init", "--dataset", "city", *flags)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_an_allowance_without_a_number_is_told_so(office: Office) -> None:
    with pytest.raises(UsageError, match="No cap is given"):
        office.run("allow", "--dataset", "city", "--analyst", "ann")
    said = office.run("allow", "--dataset", "city", "--analyst", "ann", "--cap-rho", "0.01").output
    assert "without --analyst is the holder's own" in " ".join(said.split())


def test_a_cap_is_replaced_only_when_asked(office: Office) -> None:
    with pytest.raises(UsageError, match="--replace-cap"):
        office.run("init", "--dataset", "city", "--cap-rho", "1")
    office.run("init", "--dataset", "city", "--cap-rho", "1", "--replace-cap")
    (unit,) = office.json("show")["datasets"][0]["units"]
    assert unit["caps"] == [{"rho": 1.0, "epsilon": None, "delta": None}]


def test_show_has_the_lifetime_and_the_worst_period(office: Office) -> None:
    office.reserve("a", week=0)
    office.reserve("b", week=1)
    (entry,) = office.json("show", "--dataset", "city")["datasets"]
    (unit,) = entry["units"]
    assert unit["lifetime"]["rho"] == 2 / 512
    assert unit["worst_period"]["rho"] == 1 / 512
    assert unit["worst_period"]["period"][0].startswith("1970-01-01")
    assert unit["by_status"] == {"reserved": 2, "committed": 0, "abandoned": 0}
    assert "2 reserved" in office.run("show").output


@pytest.mark.privacy
def test_show_says_the_loss_per_unit_that_results(office: Office) -> None:
    """Charged for whole records, and lost by days and records as well: rho four times."""
    office.reserve("a", week=0)
    (entry,) = office.json("show")["datasets"]
    losses = {loss["unit"]: loss for loss in entry["losses"]}
    assert losses["user-period"]["rho"] == 1 / 512
    assert losses["user-day@UTC"]["rho"] == losses["event"]["rho"] == 4 / 512
    assert "user-day@UTC: epsilon" in office.run("show").output


@pytest.mark.privacy
def test_a_ledger_without_its_head_is_refused_until_it_is_trusted(office: Office) -> None:
    office.file.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match="no note"):
        office.run("show")
    assert office.run("verify").exit_code == 1
    told = office.run("trust")
    assert "3 rows, last seal" in told.output
    assert office.run("verify").exit_code == 0
    with pytest.raises(UsageError, match="already"):
        office.run("trust")


@pytest.mark.privacy
def test_trust_looks_at_published_manifests_first(office: Office, tmp_path: Path) -> None:
    office.file.with_suffix(".head").unlink()
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "manifest.json").write_text("{}")
    with pytest.raises(LedgerError, match="does not agree"):
        office.run("trust", "--manifests", str(tmp_path / "shelf"))
    assert not office.file.with_suffix(".head").exists()


def test_history_lists_every_release(office: Office) -> None:
    office.reserve("a")
    (entry,) = office.json("history")
    assert (entry["name"], entry["status"], entry["row"]) == ("a", "reserved", 4)
    assert entry["cost"]["rho"] == 1 / 512
    assert "reserved" in office.run("history", "--dataset", "city").output


def test_plan_says_how_many_more_weekly_releases_fit(office: Office) -> None:
    """Rho adds over releases: n of mu each cost n mu^2 / 2, and rho says how many fit."""
    flags = ["--dataset", "city", "--epsilon", "0.3", "--delta", "2e-6"]
    found = office.json("plan", *flags, "--releases", "52")
    more, mu = found["more_releases"], gaussian_mu(0.3, 2e-6)
    assert zcdp_epsilon(more * mu**2 / 2, 2e-6) <= 2
    assert zcdp_epsilon((more + 1) * mu**2 / 2, 2e-6) > 2
    assert found["then_spent"]["epsilon"] <= 2
    each = found["for_releases"]["largest_epsilon_each"]
    assert 0.2 < each < 0.3
    assert f"{more} more releases" in office.run("plan", *flags).output


def test_verify_is_sound_until_somebody_edits(office: Office) -> None:
    assert office.run("verify").exit_code == 0
    with Ledger(office.file).database.writing() as connection:
        connection.execute(text("DROP TRIGGER sfumato_no_UPDATE"))
        connection.execute(text("UPDATE sfumato_entries SET time = 'never' WHERE seq = 2"))
    result = office.run("verify", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["findings"] == [
        "the ledger: row 2 was edited, or sealed with another key"
    ]
    assert "NOT sound" in office.run("verify").output


def test_export_gives_every_row_and_no_key(office: Office, tmp_path: Path) -> None:
    reservation = office.reserve("a")
    lines = office.run("export").output.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4]
    out = tmp_path / "rows.jsonl"
    office.run("export", "--out", str(out))
    assert out.read_text().splitlines() == lines
    secrets = (reservation.key.hex(), (tmp_path / "ledger.key").read_text().strip())
    assert not any(secret in out.read_text() for secret in secrets)


def test_link_adds_spends(office: Office) -> None:
    office.run("init", "--dataset", "town", "--cap-rho", "1")
    office.reserve("a")
    office.reserve("b", dataset="town")
    office.run("link", "city", "town")
    for entry in office.json("show")["datasets"]:
        assert entry["units"][0]["lifetime"]["releases"] == 2
    assert "the same people as: town" in office.run("show").output


def test_abandon_stays_charged(office: Office) -> None:
    reservation = office.reserve("a")
    assert "stays charged" in office.run("abandon", "a", "--dataset", "city").output
    book = Ledger(office.file).book()
    assert book.charges[reservation.id].status is Status.ABANDONED
    with pytest.raises(UsageError, match="no open release"):
        office.run("abandon", "b", "--dataset", "city")


@pytest.mark.privacy
def test_abandoning_again_destroys_the_key_that_a_kill_left(office: Office) -> None:
    """Killed between the row and the key, it could not be run again, and the key stayed."""
    release, book = office.reserve("a").id, Ledger(office.file)
    key = book.keyring.release_key(release)
    office.run("abandon", "a", "--dataset", "city")
    (office.file.parent / "ledger.keys" / f"{release}.key").write_bytes(key)
    office.run("abandon", "a", "--dataset", "city")
    assert not book.keyring.has_release_key(release)
    assert [row.kind for row in book.entries()].count("abandon") == 1


def test_a_missing_ledger_and_an_unknown_data_set_are_said(office: Office, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        Office(tmp_path / "elsewhere").run("show")
    with pytest.raises(UsageError, match="knows no data set 'town'"):
        office.run("show", "--dataset", "town")


def _charge(office: Office, tz: str, name: str, fold: str | None = None) -> None:
    grid = period_of("2024-03-04", "2024-04-15" if fold else "2024-03-11", "1h", tz, fold)
    claim = Claim(
        dataset="city",
        name=name,
        unit=USER_PERIOD,
        delta=2e-6,
        period=grid.period,
        events=(("counts", GaussianEvent(1.0, Fraction(256), 1)),),
        config={"time grid": grid.fingerprint(), "clock": grid.tz},
        fingerprint="f",
        out=str(office.file.parent / "out" / name),
    )
    assert isinstance(Ledger(office.file).reserve(claim), Reservation)


@pytest.mark.parametrize("tz", ["Europe/Paris", "America/New_York", "Asia/Tokyo", "UTC"])
def test_history_shows_dates_in_the_clock_of_the_data(office: Office, tz: str) -> None:
    """Monday in Paris begins on a Sunday of UTC, and it is Monday that was released."""
    _charge(office, tz, "week-10")
    assert f"2024-03-04 to 2024-03-11 ({tz})" in office.run("history").output
    (entry,) = office.json("history")
    assert entry["clock"] == tz
    assert datetime.fromisoformat(entry["period"][0]).utcoffset() == timedelta(0)


def test_history_says_in_utc_when_a_release_was_begun(office: Office) -> None:
    """Unlabelled, an instant in the clock of Shanghai's data reads as tomorrow at the office."""
    _charge(office, "Asia/Shanghai", "week-10")
    (entry,) = office.json("history")
    begun = datetime.fromisoformat(entry["reserved_at"])
    assert begun.utcoffset() == timedelta(0)
    assert f"begun {begun:%Y-%m-%d %H:%M} UTC" in office.run("history").output


@pytest.mark.parametrize("fold", ["week", "day"])
@pytest.mark.parametrize("tz", ["Europe/Paris", "Asia/Shanghai"])
def test_a_folded_period_has_its_clock(office: Office, tz: str, fold: str) -> None:
    """Also over a change of the clock, as in Paris on 31 March."""
    _charge(office, tz, "typical", fold)
    assert f"2024-03-04 to 2024-04-15 ({tz})" in office.run("history").output


def test_a_row_that_does_not_prove_its_clock_is_told_by_the_others(office: Office) -> None:
    office.reserve("a")
    assert [entry["clock"] for entry in office.json("history")] == ["UTC"]
    _charge(office, "Europe/Paris", "b")
    assert [entry["clock"] for entry in office.json("history")] == ["Europe/Paris"] * 2
    _charge(office, "Asia/Tokyo", "c")
    clocks = [entry["clock"] for entry in office.json("history")]
    assert clocks == ["UTC", "Europe/Paris", "Asia/Tokyo"]


def test_show_and_history_are_readable_in_80_columns(office: Office) -> None:
    """No line is wider, and no word or number is broken over two lines."""
    name = "subscribers of the metropolitan area"
    office.run("init", "--dataset", name, "--cap-epsilon", "2", "--cap-delta", "2e-6")
    office.run("link", "city", name)
    office.run("allow", "--dataset", name, "--analyst", "ann", "--cap-rho", "0.01")
    office.reserve("a", dataset=name)
    shown, listed = office.run("show").output, office.run("history").output
    assert max(map(len, (shown + listed).splitlines())) <= 80
    assert f"{name}\n  the same people as: city\n  unit user-period\n" in shown
    for part in ("cap           epsilon 2 at delta 2e-06", "releases      1 reserved"):
        assert f"    {part}" in shown
    assert f"  a of {name}\n      status  reserved, begun " in listed


def test_a_loss_per_metre_is_not_told_as_a_small_one() -> None:
    spend = {"epsilon": 0.96, "delta": 0.0, "rho": None, "method": "per metre"}
    assert spent(spend) == "epsilon 0.96 per metre, which is 192 within 200 m, at delta 0"
    assert spent(spend | {"method": "pure"}) == "epsilon 0.96 at delta 0"
