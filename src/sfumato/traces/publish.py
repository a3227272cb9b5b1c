"""`sanitise`: from traces to published reports, charged to the ledger like every release.

Reserve, draw, persist, commit: killed at any instant and run again, the same reports are
made from the same key and paid once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.io.beforehand import require_possible
from sfumato.io.traces import read_traces, to_table
from sfumato.io.write import folder_to_fill, write_bytes, write_csv, write_parquet
from sfumato.model.source import Progress
from sfumato.model.traces import Found, Traces
from sfumato.privacy.ledger import Ledger, Reservation
from sfumato.privacy.noise.planar import parse_seconds
from sfumato.privacy.transaction import digests, publish
from sfumato.privacy.wall import Wall
from sfumato.published.manifest import MANIFEST_NAME, Manifest, manifest_text, read_manifest
from sfumato.published.release import read_release
from sfumato.published.statement import check_claim
from sfumato.traces.bounds import TraceSource, eligible
from sfumato.traces.mechanisms import draw_reports
from sfumato.traces.request import SanitiseRequest, sanitise_request
from sfumato.traces.rolling import refuse_if_spent, within_rolling
from sfumato.traces.statement import traces_manifest, traces_statement


@dataclass(frozen=True, slots=True)
class Sanitised:
    """Published reports: where they are, their statement, and how this run ended."""

    folder: Path
    manifest: Manifest
    how: str
    """`new`, `resumed` after an interruption, or `already` there."""
    withheld: int
    """Fixes left out by the public bounds and the rolling budget; for the holder's eyes."""

    def __repr__(self) -> str:
        return f"<Sanitised {self.folder.name!r}: {self.manifest.privacy.unit}, {self.how}>"

    def _repr_html_(self) -> str:
        return read_release(self.folder)._repr_html_()


def sanitise(
    traces: object,
    *,
    out: str | os.PathLike[str],
    dataset: str,
    start: str | date,
    end: str | date,
    kind: str = "independent",
    expected_noise: str | float | None = None,
    radius: str | float | None = None,
    level: str | float | None = None,
    most_reports: int | None = None,
    window: str | None = None,
    threshold: str | float | None = None,
    test_share: float = 0.1,
    epsilon: float | None = None,
    delta: float | None = None,
    region: str | tuple[float, float, float, float] | None = None,
    outside: str = "keep",
    lattice: int = 100_000,
    daily_level: str | float | None = None,
    name: str | None = None,
    column: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    gap: str = "20min",
    ledger: Ledger | str | os.PathLike[str] | None = None,
    keep_key: bool = False,
    internal: Callable[[Found], None] | None = None,
    progress: Progress | None = None,
) -> Sanitised:
    """Publish traces with noise on every location, charged to the ledger.

    Run again after an interruption, the call finishes the same release and pays once.

    Args:
        traces: Files or a folder of traces (CSV, Parquet, NDJSON, GPX, T-Drive, Geolife,
            Cabspotting), a table in PostgreSQL, a frame of another package, or `Traces`.
        out: Folder to make; it must not exist yet.
        dataset: Whose people these are, as the ledger knows them.
        start: First day (UTC).
        end: First day that is no longer part of it.
        kind: `independent` noise on every fix; one report for every window of a public `clock` or
            of a `printed-clock` that counts from a trip's first fix; `predictive`; `gaussian`.
        expected_noise: Mean distance of a report from the place, `100m`.
        radius: Radius of the protection, `200m`: with `level`, or for `gaussian`.
        level: Privacy loss within the radius, `ln4`.
        most_reports: Most reports of a person; later fixes are left out. Every kind but `clock`.
        window: Length of a clock's window, `5min`.
        threshold: Predictive: how far the last report may be off.
        test_share: Predictive: a test's strength as a share of a report's.
        epsilon: Gaussian: loss within the radius.
        delta: Gaussian: its delta.
        region: Public region: west, south, east, north in degrees.
        outside: Reports outside the region: `keep`, `clamp` or `drop`.
        lattice: Rows of the public lattice a degree.
        daily_level: Most level within 200 m of a person on any day, `ln10`.
        name: Name of the release; that of the folder by default.
        column: Which column is what: `{"user": "uid", "lon": "x"}`.
        tz: Zone of times that carry none.
        time_unit: Unit of times that are numbers: `s`, `ms`, `us`, `ns`.
        format: Format of the source, where names and folders do not tell.
        gap: A pause so long ends a trip.
        ledger: The ledger, or where it is; by default the one of this user.
        keep_key: Keep the key of the noise after the release, to show how it was drawn.
        internal: Told what was wrong with rows, before anything is reserved: for the holder's eyes.
        progress: Told the stage and its share.

    Returns:
        The folder, its manifest, and how the run ended.

    Raises:
        UsageError: The request makes no sense; nothing was read.
        InputError: The traces cannot be read; nothing was charged.
        BudgetRefused: The release does not fit the ledger's caps or the rolling budget.
        ReservationRefused: A release of this name was begun with other data or settings.

    Example:
        >>> sfumato.sanitise(                                              # doctest: +SKIP
        ...     "traces.parquet", out="out/cabs", dataset="city cabs", start="2008-05-19",
        ...     end="2008-05-20", expected_noise="100m", most_reports=60,
        ... )
    """
    folder = folder_to_fill(out)
    asked = sanitise_request(
        dataset=dataset,
        name=folder.name if name is None else name,
        start=start,
        end=end,
        kind=kind,
        expected_noise=expected_noise,
        radius=radius,
        level=level,
        most_reports=most_reports,
        window=window,
        threshold=threshold,
        test_share=test_share,
        epsilon=epsilon,
        delta=delta,
        region=region,
        outside=outside,
        lattice=lattice,
        daily_level=daily_level,
    )
    require_possible(traces, format, zones=True, period=asked.period)
    pause = float(parse_seconds(gap))
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    book.require_room(asked.claim("", folder))
    stage = progress or (lambda *_: None)
    if isinstance(traces, Traces):
        source = TraceSource(traces)
    else:
        stage("reading traces", -1.0)
        read, found = read_traces(
            traces, columns=column, tz=tz, time_unit=time_unit, format=format, gap_s=pause
        )
        if internal is not None:
            internal(found)
        source = TraceSource(read)
        del read  # from here on in boxes
    stage("adding noise and writing traces", -1.0)
    return publish_request(asked, source, book, folder, keep_key=keep_key)


def publish_request(
    asked: SanitiseRequest,
    source: TraceSource,
    ledger: Ledger,
    out: Path,
    *,
    keep_key: bool = False,
) -> Sanitised:
    """Reserve, draw, persist, commit."""
    secret = ledger.fingerprint_key()
    chosen = source.bounded(lambda traces: eligible(traces, asked))

    def fingerprint() -> str:
        return source.fingerprint(secret)

    def check_input() -> None:
        chosen.map(lambda traces: refuse_if_spent(traces, asked, ledger))

    def persist(reservation: Reservation, folder: Path) -> None:
        box = source.bounded(
            lambda traces: within_rolling(eligible(traces, asked), asked, ledger, reservation)
        )
        made = draw_reports(box, asked, Wall(reservation, reservation.key, "traces"))
        if made.tainted:
            raise SfumatoError("Noise from a test seed is never published.")
        table = to_table(made.traces)
        write_parquet(folder / "traces.parquet", table)
        write_csv(folder / "traces.csv", table)
        manifest = traces_manifest(asked, reservation, len(made.traces), digests(folder))
        check_claim(manifest)
        write_bytes(folder / "README.txt", traces_statement(asked, manifest).encode())
        manifest = traces_manifest(asked, reservation, len(made.traces), digests(folder))
        write_bytes(folder / MANIFEST_NAME, manifest_text(manifest).encode())

    outcome = publish(
        ledger,
        asked.claim(fingerprint(), out),
        out,
        fingerprint,
        persist,
        check_input=check_input,
        keep_key=keep_key,
    )
    return Sanitised(out, read_manifest(out / MANIFEST_NAME), outcome.how, source.withheld)
