"""Reserve, commit, abandon; reruns; caps; links. On SQLite and on PostgreSQL."""

from __future__ import annotations

import multiprocessing
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.errors import BudgetRefused, LedgerError, ReservationRefused, UsageError
from sfumato.privacy.events import USER_PERIOD, Unit, UnitKind
from sfumato.privacy.ledger import Cap, Charge, Claim, Ledger, Reservation, Status, remembered
from sfumato.privacy.ledger.limits import Room, how_many_more, standing

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]


def reserve(ledger: Ledger, claim: Claim) -> Reservation:
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    return found


def keys(ledger: Ledger) -> list[Path]:
    return sorted(ledger.keyring.path.with_suffix(".keys").glob("*"))


def test_a_release_is_reserved_committed_and_its_key_destroyed(
    ledger: Ledger, claim: Claims
) -> None:
    reservation = reserve(ledger, claim())
    assert len(reservation.key) == 32
    assert [path.read_bytes() for path in keys(ledger)] == [reservation.key]
    ledger.commit(reservation.id, {"density.csv": "0" * 64})
    assert keys(ledger) == []
    row = ledger.book().charges[reservation.id]
    assert row.status is Status.COMMITTED
    assert row.files == {"density.csv": "0" * 64}


def test_the_key_stays_if_the_holder_asks(ledger: Ledger, claim: Claims) -> None:
    reservation = reserve(ledger, claim())
    ledger.commit(reservation.id, {}, keep_key=True)
    reserve(ledger, claim("week-1", week=1))
    assert ledger.keyring.release_key(reservation.id) == reservation.key


def test_a_rerun_finds_its_reservation_and_key_and_pays_once(ledger: Ledger, claim: Claims) -> None:
    first = reserve(ledger, claim())
    again = reserve(ledger, claim())
    assert (again.id, again.key, again.resumed) == (first.id, first.key, True)
    assert again.standing == first.standing
    assert [entry.kind for entry in ledger.entries()].count("reserve") == 1


def test_the_standing_of_a_rerun_is_that_of_the_reservation_whatever_came_after(
    ledger: Ledger, claim: Claims
) -> None:
    first = reserve(ledger, claim())
    reserve(ledger, claim("week-1", week=1))
    again = reserve(ledger, claim())
    assert again.standing == first.standing
    assert again.standing.lifetime.releases == 1


def test_a_finished_release_is_found_and_not_paid_again(ledger: Ledger, claim: Claims) -> None:
    reservation = reserve(ledger, claim())
    ledger.commit(reservation.id, {"a": "1"})
    found = ledger.reserve(claim())
    assert isinstance(found, Charge)
    assert found.status is Status.COMMITTED
    ledger.commit(reservation.id, {"a": "1"})
    assert [entry.kind for entry in ledger.entries()].count("commit") == 1


@pytest.mark.parametrize(
    "change",
    [{"config": {"epsilon": 0.3, "slot": "2h"}}, {"fingerprint": "e" * 64}, {"delta": 1e-6}],
)
def test_a_rerun_with_other_settings_or_events_is_refused(
    ledger: Ledger, claim: Claims, change: dict[str, object]
) -> None:
    reservation = reserve(ledger, claim())
    with pytest.raises(ReservationRefused, match="must never meet two inputs"):
        ledger.reserve(claim(**change))
    ledger.commit(reservation.id, {})
    with pytest.raises(ReservationRefused, match="published already"):
        ledger.reserve(claim(**change))


def test_an_abandoned_release_stays_charged_and_frees_its_name(
    ledger: Ledger, claim: Claims
) -> None:
    reservation = reserve(ledger, claim(rho=2**-8))
    ledger.abandon(reservation.id)
    assert keys(ledger) == []
    with pytest.raises(ReservationRefused, match="abandoned"):
        ledger.commit(reservation.id, {})
    other = reserve(ledger, claim(rho=2**-8))
    assert other.id != reservation.id
    assert other.key != reservation.key
    assert other.standing.lifetime.rho == 2**-7
    remembered.forget()  # the next process adds up rows that say abandoned already
    with pytest.raises(BudgetRefused):
        ledger.reserve(claim("next", rho=2**-20))


def test_a_published_release_cannot_be_abandoned(ledger: Ledger, claim: Claims) -> None:
    reservation = reserve(ledger, claim())
    ledger.commit(reservation.id, {})
    with pytest.raises(UsageError, match="published"):
        ledger.abandon(reservation.id)


def test_a_lost_key_is_said_and_not_replaced(ledger: Ledger, claim: Claims) -> None:
    reservation = reserve(ledger, claim())
    ledger.keyring.destroy(reservation.id)
    with pytest.raises(ReservationRefused, match="not on this machine"):
        ledger.reserve(claim())


def test_the_cap_holds_over_disjoint_weeks_and_counts_every_state(
    ledger: Ledger, claim: Claims
) -> None:
    for week in range(4):
        reservation = reserve(ledger, claim(f"week-{week}", week=week))
        if week == 0:
            ledger.commit(reservation.id, {})
        if week == 1:
            ledger.abandon(reservation.id)
    with pytest.raises(BudgetRefused, match="does not allow") as refused:
        ledger.reserve(claim("week-4", week=4, rho=2**-40))
    assert refused.value.remaining_rho == 0
    assert refused.value.exit_code == 3
    assert len(ledger.book().charges) == 4


def test_a_refusal_says_what_would_fit_and_that_does_fit(ledger: Ledger, claim: Claims) -> None:
    from sfumato.privacy.accounting import zcdp_rho

    def events(epsilon: float) -> tuple[tuple[str, object], ...]:
        return (("counts", claim(rho=zcdp_rho(epsilon, 2e-6)).events[0][1]),)

    reserve(ledger, claim(rho=2**-8))
    with pytest.raises(BudgetRefused, match="would still fit") as refused:
        ledger.reserve(
            claim("big", events=events(1.0)), replan=lambda e: [event for _, event in events(e)]
        )
    fit = refused.value.would_fit_epsilon
    assert fit is not None
    assert 0.3 < fit < 0.45
    with pytest.raises(BudgetRefused):
        ledger.reserve(claim("larger", events=events(fit * 1.01)))
    reserve(ledger, claim("fits", events=events(fit)))


def test_a_cap_in_epsilon_and_delta_is_kept_to_the_last_digit(
    empty_ledger: Ledger, claim: Claims
) -> None:
    from sfumato.privacy.accounting import zcdp_rho

    empty_ledger.add_dataset("city", Cap(epsilon=0.3, delta=2e-6))
    whole = claim(rho=zcdp_rho(0.3, 2e-6))
    with pytest.raises(BudgetRefused):
        empty_ledger.reserve(claim(rho=zcdp_rho(0.3, 2e-6) * 1.001))
    reserve(empty_ledger, whole)
    with pytest.raises(BudgetRefused):
        empty_ledger.reserve(claim("more", rho=2**-40))


def test_the_worst_period_is_shown_beside_the_lifetime(ledger: Ledger, claim: Claims) -> None:
    day = 86_400 * 1_000_000
    reserve(ledger, claim("a", week=0))
    reserve(ledger, claim("b", week=1))
    last = reserve(ledger, claim("c", period=(6 * day, 9 * day)))
    state = last.standing
    assert (state.lifetime.releases, state.lifetime.rho) == (3, 3 * 2**-9)
    assert (state.worst.releases, state.worst.rho) == (2, 2 * 2**-9)
    assert state.worst_period == (6 * day, 7 * day)


def test_linked_data_sets_share_the_smaller_cap_and_their_spends_add(
    ledger: Ledger, claim: Claims
) -> None:
    ledger.add_dataset("other operator", Cap(rho=1.0))
    reserve(ledger, claim("a", rho=2**-8))
    reserve(ledger, claim("b", rho=2**-8, dataset="other operator"))
    ledger.link(["other operator", "city"])
    state = standing(ledger.book(), "other operator", USER_PERIOD, 2e-6)
    assert state.lifetime.rho == 2**-7
    assert state.datasets == ("city", "other operator")
    for dataset in ("city", "other operator"):
        with pytest.raises(BudgetRefused):
            ledger.reserve(claim("c", rho=2**-30, dataset=dataset))


def test_links_join_whole_groups(ledger: Ledger, claim: Claims) -> None:
    """Whoever is the same in the first and the second, and in the second and the third."""
    names = ("city", "second", "third", "fourth")
    for name in names[1:]:
        ledger.add_dataset(name, Cap(rho=1.0))
    ledger.link(["city", "second"])
    ledger.link(["third", "fourth"])
    ledger.link(["second", "third"])
    reserve(ledger, claim("all of it", rho=2**-7))
    for name in names:
        assert ledger.book().linked[name] == frozenset(names)
        with pytest.raises(BudgetRefused):
            ledger.reserve(claim("more", rho=2**-30, dataset=name))


def test_a_charge_for_whole_records_counts_in_the_account_of_days(
    ledger: Ledger, claim: Claims
) -> None:
    day = Unit.parse("user-day@UTC")
    with pytest.raises(UsageError, match="no cap for the unit user-day"):
        ledger.reserve(claim(unit=day))
    ledger.add_dataset("city", Cap(rho=2**-8), Unit(UnitKind.USER_DAY))
    with pytest.raises(BudgetRefused, match="counts 2 times"):
        ledger.reserve(claim("whole", rho=2**-9))
    reserve(ledger, claim("whole", rho=2**-11))  # rho four times: half of the cap
    with pytest.raises(BudgetRefused):
        ledger.reserve(claim("days", rho=2**-8, unit=day))
    reservation = reserve(ledger, claim("days", rho=2**-9, unit=day))
    assert reservation.standing.lifetime.rho == 2**-8
    elsewhere = claim("another week", rho=2**-9, unit=day, week=5)
    assert reserve(ledger, elsewhere).standing.lifetime.rho == 2**-8


def test_a_cap_can_be_replaced_only_on_the_record(ledger: Ledger, claim: Claims) -> None:
    with pytest.raises(UsageError, match="has a cap"):
        ledger.add_dataset("city", Cap(rho=1.0))
    reserve(ledger, claim(rho=2**-7))
    ledger.set_cap("city", Cap(rho=2**-6))
    reserve(ledger, claim("more", rho=2**-7))
    assert [entry.kind for entry in ledger.entries()].count("cap") == 2


def test_how_many_more(claim: Claims) -> None:
    planned = [event for _, event in claim().events]
    assert how_many_more(Room.flat([], [Cap(rho=2**-7)]), planned) == 4
    assert how_many_more(Room.flat(planned, [Cap(rho=2**-7)]), planned) == 3
    assert how_many_more(Room.flat(planned * 4, [Cap(rho=2**-7)]), planned) == 0


def test_an_unknown_data_set_is_not_made_up(ledger: Ledger, claim: Claims) -> None:
    with pytest.raises(UsageError, match="knows no data set"):
        ledger.reserve(claim(dataset="town"))
    with pytest.raises(UsageError, match="knows no data set"):
        ledger.link(["city", "town"])


def test_a_charge_must_be_the_planned_one_and_is_taken_once(ledger: Ledger, claim: Claims) -> None:
    reservation = reserve(ledger, claim())
    ((label, event),) = claim().events
    with pytest.raises(UsageError, match="not reserved"):
        reservation.charge("totals", event)
    with pytest.raises(UsageError, match="not the one"):
        reservation.charge(label, claim(rho=2**-8).events[0][1])
    reservation.charge(label, event)
    with pytest.raises(UsageError, match="already"):
        reservation.charge(label, event)


def test_files_are_for_their_owner_alone(ledger: Ledger, claim: Claims) -> None:
    reserve(ledger, claim())
    files = [ledger.keyring.path, ledger.keyring.path.with_suffix(".head"), *keys(ledger)]
    if ledger.database.file is not None:
        files.append(ledger.database.file)
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_there_is_no_ledger_until_one_is_made(location: str, tmp_path: Path) -> None:
    missing = Ledger(location, key=tmp_path / "ledger.key")
    (tmp_path / "ledger.key").write_text("00" * 32)
    with pytest.raises(LedgerError, match="no ledger"):
        missing.book()


def test_initialising_twice_changes_nothing(ledger: Ledger) -> None:
    before = ledger.entries()
    ledger.initialise()
    assert ledger.entries() == before


def _race(location: str, key: str, claim: Claim, gate: object, results: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    try:
        Ledger(location, key=key).reserve(claim)
        results.put("reserved")  # type: ignore[attr-defined]
    except BudgetRefused:
        results.put("refused")  # type: ignore[attr-defined]


def test_32_processes_race_for_the_last_of_a_budget(
    ledger: Ledger, location: str, claim: Claims
) -> None:
    """Room for four; the cap is never passed, and nobody who fits is turned away."""
    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(32), context.Queue()
    workers = [
        context.Process(
            target=_race,
            args=(location, str(ledger.keyring.path), claim(f"racer-{n}", week=n), gate, results),
        )
        for n in range(32)
    ]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(outcomes) == ["refused"] * 28 + ["reserved"] * 4
    state = standing(ledger.book(), "city", USER_PERIOD, 2e-6)
    assert (state.lifetime.releases, state.lifetime.rho) == (4, 2**-7)


def test_a_cap_without_a_delta_says_that_gaussian_noise_never_fits(
    ledger: Ledger, claim: Claims
) -> None:
    ledger.add_dataset("city", Cap(epsilon=300.0, delta=0.0), Unit.parse("point:200m"))
    with pytest.raises(BudgetRefused, match="The cap has delta 0"):
        ledger.reserve(claim(), lambda _: [event for _, event in claim().events])


def test_a_missing_cap_names_the_unit_that_init_takes(ledger: Ledger, claim: Claims) -> None:
    for unit, cap in (("w-event:48h/1h", "w-event:48h "), ("user-day@Europe/Paris", "user-day ")):
        with pytest.raises(UsageError, match=f"for the unit {cap}"):
            ledger.reserve(claim(unit=Unit.parse(unit)))
