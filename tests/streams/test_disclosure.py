"""The statement of a stream: like that of a release, whole, and true to its own list."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import SfumatoError, UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger, Reservation
from sfumato.privacy.ledger.views import verify
from sfumato.published.manifest import Manifest, read_manifest
from sfumato.published.statement import check_claim
from sfumato.streams import live as living
from sfumato.streams.facts import StreamFacts, charged_unit, unit_in_slots
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.registry import SCHEMES, stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.statement import stream_manifest, stream_statement

pytestmark = pytest.mark.privacy

Facts = Callable[..., StreamFacts]
UNITS = ("user-period", "user-day", "w-event:5", "event")
GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 7), "3h", "UTC")


def asked(known: StreamFacts, scheme: str, out: Path, **more: object) -> StreamRequest:
    ids = np.array([f"z{k:02d}" for k in range(known.cells)])
    given = {"dataset": "city", "name": "stream", "fingerprint": "f" * 64} | more
    return StreamRequest(
        scheme=stream_scheme(scheme), facts=known, grid=GRID, place_ids=ids, out=out, **given
    )


@pytest.fixture(params=UNITS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.initialise()
    capped = charged_unit(Unit.parse(request.param), GRID)
    made.add_dataset("city", Cap(epsilon=1000.0, delta=1e-6), capped)
    return made


def reserved(ledger: Ledger, request: StreamRequest) -> Reservation:
    found = ledger.reserve(request.claim())
    assert isinstance(found, Reservation)
    return found


def manifests(ledger: Ledger, facts: Facts, out: Path) -> list[tuple[StreamRequest, Manifest]]:
    """Every scheme, pure and with a delta, where the unit allows it."""
    capped = Unit.parse(next(iter(ledger.book().caps["city"])))
    unit = str(unit_in_slots(capped, GRID))
    made = []
    for name in SCHEMES:
        for delta in (0.0, 1e-6):
            try:
                request = asked(facts(unit, delta=delta), name, out, name=f"{name} {delta}")
                claim = request.claim()
            except UsageError:  # counters need a delta; comparisons need windows that stand still
                continue
            found = ledger.reserve(claim)
            assert isinstance(found, Reservation)
            made.append((request, stream_manifest(request, found, {})))
    return made


def test_what_measures_nothing_is_refused_before_it_is_reserved(
    facts: Facts, tmp_path: Path
) -> None:
    """Its folder would promise nothing, and nobody would read it."""
    request = asked(facts("user-day"), "zeros", tmp_path / "out")
    with pytest.raises(UsageError, match="measures nothing"):
        request.claim()


def test_every_scheme_lists_what_it_claims(ledger: Ledger, facts: Facts, tmp_path: Path) -> None:
    made = manifests(ledger, facts, tmp_path / "out")
    assert len(made) >= 25
    for request, manifest in made:
        check_claim(manifest)
        privacy = manifest.privacy
        assert privacy.epsilon <= request.facts.epsilon * (1 + 1e-9)
        assert privacy.delta == request.facts.delta
        assert [m.label for m in privacy.measurements] == [
            account.label for account in request.scheme.plan(request.facts).accounts
        ]
        text = " ".join(stream_statement(request, manifest).split())
        assert privacy.neighbours in text
        assert "how much memory and disk it used" in text
        if privacy.measurements:
            short = privacy.model_copy(update={"measurements": privacy.measurements[1:]})
            with pytest.raises(SfumatoError, match="do not add up"):
                check_claim(manifest.model_copy(update={"privacy": short}))


@pytest.fixture
def days(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.initialise()
    made.add_dataset("city", Cap(epsilon=3.0, delta=1e-6), Unit.parse("user-day"))
    return made


def run(stream: LiveStream, known: StreamFacts, slots: int) -> None:
    for slot in range(stream.next_slot, slots):
        stream.publish(slot, boxed(np.full(known.cells, 5), known))


def test_a_stream_has_its_statement_from_the_first_slot_on(
    days: Ledger, facts: Facts, tmp_path: Path
) -> None:
    known, out = facts(), tmp_path / "out"
    request = asked(known, "sample", out, fingerprint="live")
    with LiveStream(days, request) as stream:
        run(stream, known, 3)
        said = json.loads((out / "stream.json").read_text())
        running = Manifest.model_validate(said["manifest"])
        assert said["unit"] == running.privacy.unit == "user-day"
        assert not (out / "manifest.json").exists(), "its files still grow"
        assert verify(days, tmp_path).sound, "a stream that goes on is nothing wrong"
        words = (out / "README.txt").read_text()
        run(stream, known, GRID.slots)
        stream.close()
    whole = read_manifest(out / "manifest.json")
    assert whole.privacy == running.privacy
    live = {"places.json", "README.txt", "stream.json", "stream.ndjson"}
    assert set(whole.files) == live | {"density.parquet", "density.csv", "index.html"}
    assert all(name in words for name in whole.files)
    assert (out / "README.txt").read_text() == words
    assert verify(days, tmp_path).sound
    (out / "README.txt").write_text("no noise")
    assert not verify(days, tmp_path).sound


def test_killed_before_the_commit_it_is_finished_with_the_same_manifest(
    days: Ledger, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, out = facts(), tmp_path / "out"
    request = asked(known, "sample", out)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with LiveStream(days, request) as stream:
        run(stream, known, GRID.slots)
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "commit", die)
            with pytest.raises(KeyboardInterrupt):
                stream.close()
    before = (out / "manifest.json").read_bytes()
    with LiveStream(days, request) as stream:
        stream.close()
    assert (out / "manifest.json").read_bytes() == before
    assert verify(days, tmp_path).sound


def test_nothing_leaves_where_the_list_does_not_add_up(
    days: Ledger, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*given: object) -> Manifest:
        manifest = stream_manifest(*given)  # type: ignore[arg-type]
        privacy = manifest.privacy.model_copy(update={"measurements": []})
        return manifest.model_copy(update={"privacy": privacy})

    monkeypatch.setattr(living, "stream_manifest", short)
    request = asked(facts(), "sample", tmp_path / "out")
    with pytest.raises(SfumatoError, match="do not add up"), LiveStream(days, request):
        pass
    assert not (tmp_path / "out").exists()


def test_what_is_not_covered_is_said(days: Ledger, facts: Facts, tmp_path: Path) -> None:
    running = asked(facts(), "sample", tmp_path / "a", fingerprint="live", name="a")
    over = asked(facts(), "sample", tmp_path / "b", name="b")
    first, second = (
        stream_manifest(request, reserved(days, request), {}) for request in (running, over)
    )
    live, past = " ".join(first.not_covered), " ".join(second.not_covered)
    for words in (
        "more of somebody's record",
        "SHAKE-256",
        "how long the work took",
        "memory and disk",
    ):
        assert words in live
        assert words in past
    for words in ("floods the feed", "Resumed on other events it draws with the same key"):
        assert words in live
        assert words not in past
    assert first.privacy.cumulative.lifetime.releases == 1
    assert second.privacy.cumulative.lifetime.releases == 2
    text = " ".join(stream_statement(over, second).split())
    assert "Several days of one person add up" in text
    assert "For what one person did on any one day, if all of them are about it," in text
    assert "For someone who is in all of them" not in text


def test_a_whole_record_bears_what_its_days_and_windows_bear(
    ledger: Ledger, facts: Facts, tmp_path: Path
) -> None:
    """Quoting the capped account alone would promise epsilon 0 for a person's whole record."""
    for request, made in manifests(ledger, facts, tmp_path):
        whole = next(x for x in made.privacy.cumulative.per_unit if x.unit == "user-period")
        if whole.not_bounded_by:
            assert "user-period: no bound" in stream_statement(request, made)
        else:
            assert whole.epsilon is None or whole.epsilon > 0, request.name
