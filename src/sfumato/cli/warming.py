"""`sfumato doctor --warm`: compile beforehand what a first release would wait for.

numba compiles a function when it is first called, for the types of that call, and what it keeps
depends on the processor: a wheel cannot carry it. So a small made-up city is released, streamed
and sanitised in a temporary folder, with a ledger of its own, once for every kind of input that
has compiled code of its own. Nothing of it stays but the compiled code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.city import CityPlan, Fixes, IdKind, write_city
from sfumato.density.evaluate import evaluate
from sfumato.density.publish import release
from sfumato.engine.partition import FEW
from sfumato.io.write import write_bytes, write_csv
from sfumato.model.source import Progress
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.publish import stream
from sfumato.traces.publish import sanitise

_PEOPLE = 2_000
"""Enough for tables of people to grow, which is compiled apart; more compile nothing else."""
_DAYS: dict[str, Any] = {"start": "2007-09-10", "end": "2007-09-12"}
_LOSS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def warm(progress: Progress) -> None:
    """Run every compiled path of a release, a stream and of traces once, on made-up people.

    Args:
        progress: Told what is being done and how much of it is over.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-warm-") as folder:
        steps = _steps(Path(folder))
        for done, (stage, step) in enumerate(steps):
            progress(stage, done / len(steps))
            step()


def _steps(folder: Path) -> list[tuple[str, Callable[[], Any]]]:
    ledger = Ledger(folder / "ledger.sqlite")
    phones, cars = folder / "phones", folder / "cars"
    places: dict[str, Any] = {"towers": phones / "towers.csv", "zones": phones / "zones.geojson"}
    shared: dict[str, Any] = {**_DAYS, "tz": "Europe/Paris", "dataset": "made up"}
    shared |= {"ledger": ledger, "expected_users": _PEOPLE}

    def make() -> None:
        ledger.initialise()
        for unit in ("user-period", "user-day", "point:1m"):
            ledger.add_dataset("made up", Cap(100.0, 1e-3, None), Unit.parse(unit))
        common: dict[str, Any] = {"users": _PEOPLE, "towers": 14, "zones": 9, "days": 2}
        write_city(CityPlan(**common), phones)
        write_city(CityPlan(**common, fixes=Fixes.GPS, id_kind=IdKind.TEXT), cars)
        fixes = pq.read_table(cars / "events.parquet")
        write_csv(cars / "events.csv", fixes)
        named = fixes.rename_columns(["user", "time", "lon", "lat"]).to_pandas()
        lines = named.to_json(orient="records", lines=True, date_format="iso")
        write_bytes(cars / "events.ndjson", lines.encode())
        calls = pq.read_table(phones / "events.parquet")
        texts = calls.set_column(0, calls.column_names[0], calls.column(0).cast(pa.string()))
        many = pa.concat_tables([texts] * (1 + FEW // texts.num_rows))
        pq.write_table(many, phones / "texts.parquet", compression="snappy", use_dictionary=False)

    def publish(source: Path, name: str, **options: Any) -> Callable[[], Any]:
        given = shared | _LOSS | {"anyway": True} | options
        return lambda: release(source, out=folder / name, **given)

    spread: dict[str, Any] = {"zones": places["zones"]}
    return [
        ("making a city", make),
        ("release: bayes, Parquet", publish(phones / "events.parquet", "bayes", **places)),
        (
            "evaluate",
            lambda: evaluate(folder / "bayes", phones / "events.parquet", **places),
        ),
        (
            "release: bounded by a sample, CSV",
            publish(cars / "events.csv", "csv", scheme="gaussian", bound="sample:5", **spread),
        ),
        (
            "release: many ids that are texts",
            publish(
                phones / "texts.parquet", "texts", scheme="gaussian", bound="sample:5", **places
            ),
        ),
        ("release: NDJSON", publish(cars / "events.ndjson", "json", scheme="laplace", **spread)),
        (
            "stream",
            lambda: stream(
                phones / "events.parquet", out=folder / "stream", **shared, **_LOSS, **places
            ),
        ),
        (
            "sanitise",
            lambda: sanitise(
                cars / "events.csv",
                out=folder / "traces",
                dataset="made up",
                **_DAYS,
                expected_noise="100m",
                most_reports=5,
                region="2.2,48.7,2.5,49.0",
                ledger=ledger,
            ),
        ),
    ]
