"""Trips that do not exist, from a file of traces to a folder, by the one door."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.synthesis.trips.made_up import BOX, METHODS, hostile_trips, towns_trips, traces_of
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import ReservationRefused, Unfit, UsageError
from sfumato.io.traces import to_table
from sfumato.model.extensions import Offer
from sfumato.model.traces import Traces
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.ledger.limits import standing
from sfumato.synthesis import registry

pytestmark = pytest.mark.privacy
REGION = ",".join(f"{side}" for side in BOX.bounds)
TRIPS = traces_of([*towns_trips(120), *hostile_trips().values()])


def book(folder: Path) -> Ledger:
    found = Ledger(folder / "ledger.sqlite")
    found.initialise()
    found.add_dataset("town trips", Cap(4.0, 1e-3), Unit.parse("trajectory"))
    return found


def asked(method: str, folder: Path, **more: object) -> dict[str, object]:
    words: dict[str, object] = {
        "out": folder / method,
        "dataset": "town trips",
        "start": "2024-03-04",
        "end": "2024-03-06",
        "tz": "Europe/Paris",
        "epsilon": 1.0,
        "delta": 1e-3,
        "expected_users": 100,
        "people": 40,
        "method": method,
        "region": REGION,
        "anyway": True,
    }
    if method == "fit":
        words["parameter"] = {"candidates": 1000}
    return words | more


def table_of(traces: Traces, folder: Path) -> Path:
    path = folder / "traces.parquet"
    pq.write_table(to_table(traces), path)
    return path


@pytest.mark.parametrize("method", METHODS)
def test_trips_are_published_charged_by_trajectory_and_found_again(
    method: str, tmp_path: Path
) -> None:
    ledger, path = book(tmp_path), table_of(TRIPS, tmp_path)
    made = sfumato.synth(path, ledger=ledger, **asked(method, tmp_path))  # type: ignore[arg-type]
    assert made.manifest.privacy.unit == "trajectory"
    assert made.manifest.privacy.epsilon <= 1.0
    found = standing(ledger.book(), "town trips", Unit.parse("trajectory"), 1e-3)
    assert 0.5 <= found.lifetime.epsilon <= 1.0
    table = pq.read_table(made.folder / "events.parquet")
    users, lon, lat = (table[name].to_numpy() for name in ("user_id", "lon", "lat"))
    assert np.unique(users).tolist() == list(range(1, 41))
    assert BOX.inside(lon, lat).all()
    times = table["timestamp"].to_numpy().astype("datetime64[us]").astype(np.int64)
    assert ((np.diff(times) > 0) | (np.diff(users) != 0)).all()
    shown = json.loads((made.folder / "figures.json").read_text("utf-8"))
    assert shown["trips"]
    for name in ("slots", "cells"):  # made-up trips beside noisy numbers about true ones
        beside = shown[name]
        assert len(beside["made"]) == len(beside["released"])
        assert 0.9 < sum(beside["made"]) < 1.1
    if method in ("fit", "adatrace"):
        assert shown["lengths"]["released"]
        assert shown["flows"][0]["released"] is not None
    again = sfumato.synth(path, ledger=ledger, **asked(method, tmp_path))  # type: ignore[arg-type]
    assert again.how == "already"


@pytest.mark.parametrize("method", METHODS)
def test_the_command_says_what_it_costs_and_reads_nothing(method: str, tmp_path: Path) -> None:
    words = [
        "synth", "none.parquet", "--method", method, "--from", "2024-03-04", "--to", "2024-03-06",
        "--tz", "Europe/Paris", "--region", REGION, "--dataset", "town trips", "--epsilon", "1",
        "--delta", "1e-4", "--expected-users", "100", "--dry-run", "--out", str(tmp_path / "made"),
    ]  # fmt: skip
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "Nothing was read and nothing was spent." in told.output


def test_a_region_and_a_known_parameter_are_asked_for(tmp_path: Path) -> None:
    for more in ({"region": None}, {"parameter": {"candidates": 3}}, {"people": 0}):
        with pytest.raises(UsageError):
            sfumato.synth(
                "none.parquet",
                ledger=book(tmp_path / str(len(list(tmp_path.iterdir())))),
                **asked("fit", tmp_path, **more),  # type: ignore[arg-type]
            )


def test_made_up_trips_pass_through_release_and_sanitise(tmp_path: Path) -> None:
    ledger, path = book(tmp_path), table_of(TRIPS, tmp_path)
    made = sfumato.synth(path, ledger=ledger, **asked("prefix", tmp_path))  # type: ignore[arg-type]
    ledger.add_dataset("made up", Cap(20.0, 1e-3))
    when = {"dataset": "made up", "start": "2024-03-04", "end": "2024-03-06", "ledger": ledger}
    events = made.folder / "events.parquet"
    density = sfumato.release(
        events, out=tmp_path / "density", epsilon=1.0, delta=1e-4, expected_users=40, grid="5km",
        region=REGION, scheme="gaussian", tz="Europe/Paris", anyway=True, **when,
    )  # fmt: skip
    assert density.manifest.kind == "density"
    ledger.add_dataset("made up", Cap(5000.0, 1e-3), Unit.parse("point:200m"))
    moved = sfumato.sanitise(
        events, out=tmp_path / "moved", expected_noise="100m", most_reports=5, **when
    )
    assert moved.manifest.kind == "traces"


@pytest.mark.parametrize("method", METHODS)
def test_too_few_trips_are_refused_from_public_facts(method: str, tmp_path: Path) -> None:
    with pytest.raises(Unfit):
        sfumato.synth(
            "none.parquet",
            ledger=book(tmp_path),
            **asked(method, tmp_path, anyway=False, epsilon=0.01),  # type: ignore[arg-type]
        )


def test_no_trips_at_all_are_trips_of_noise(tmp_path: Path) -> None:
    nobody = TRIPS.pick(np.zeros(len(TRIPS), np.bool_))
    path = table_of(nobody, tmp_path)
    made = sfumato.synth(path, ledger=book(tmp_path), **asked("ngrams", tmp_path))  # type: ignore[arg-type]
    assert pq.read_metadata(made.folder / "events.parquet").num_rows >= 40


def test_other_code_does_not_finish_what_a_method_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another distribution, version or digest is refused; the same goes on and pays once."""
    ledger, path = book(tmp_path), table_of(TRIPS, tmp_path)
    words = asked("ngrams", tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def again() -> str:
        return sfumato.synth(path, ledger=ledger, **words).how  # type: ignore[arg-type]

    with monkeypatch.context() as during:
        during.setattr("sfumato.synthesis.publish.write_people", killed)
        with pytest.raises(KeyboardInterrupt):
            again()
    same = registry.METHODS.provenance("ngrams")
    assert same["distribution"] == "sfumato"
    for part in ("distribution", "version", "modules"):
        other = same | {part: "another"}
        with monkeypatch.context() as during:
            during.setattr(Offer, "provenance", lambda _, other=other: other)
            with pytest.raises(ReservationRefused, match="code"):
                again()
    assert again() == "resumed"
    assert registry.METHODS.provenance("fit") == {}


def test_pauses_alone_cut_trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit has one meaning, so trips that a file has of its own are not asked for."""
    seen: dict[str, object] = {}

    def read(*_: object, **words: object) -> None:
        seen.update(words)
        raise UsageError("enough was seen")

    monkeypatch.setattr("sfumato.synthesis.publish.read_traces", read)
    with pytest.raises(UsageError, match="enough"):
        sfumato.synth("traces.parquet", ledger=book(tmp_path), **asked("ngrams", tmp_path))
    assert seen["own_trips"] is False
    assert "gap_s" not in seen
