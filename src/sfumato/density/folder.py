"""The folder of a density release: its files, in which order, and the manifest. Post-processing.

The manifest is made from public facts, the measurements and the reservation. The page is made from
the folder's files and a manifest that vouches for them, and leaves the list of digests out; the
manifest that is written lists the digests of all other files, the page's too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.density.bayes.measured import Kept
from sfumato.density.common import bound_in_words
from sfumato.density.fitness import MOST, Fitness
from sfumato.density.posterior import Posterior
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, Plan, PublicFacts
from sfumato.density.tables import (
    density_table,
    level_table,
    whole_city,
    whole_numbers,
)
from sfumato.geography.border import FIRST, BorderLoss, border_lines
from sfumato.io.write import (
    write_arrays,
    write_bytes,
    write_csv_parts,
    write_parquet,
    write_parquet_parts,
    write_places,
    write_places_parquet,
)
from sfumato.model.counts import Counting, SampleBound
from sfumato.model.places import Places
from sfumato.model.rounding import percent
from sfumato.model.tiles import give_back, tiles
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import event_to_json
from sfumato.privacy.last_resort import numbers
from sfumato.privacy.ledger import Claim, Reservation
from sfumato.privacy.ledger.views import cumulative, ledger_row, release_facts
from sfumato.privacy.transaction import digests
from sfumato.published.about import About, csv_name
from sfumato.published.folder import MEASUREMENTS
from sfumato.published.manifest import (
    MANIFEST_NAME,
    NOT_COVERED,
    FitnessFacts,
    GridFacts,
    Manifest,
    Measured,
    PlacesFacts,
    PosteriorFacts,
    Privacy,
    SchemeFacts,
    TotalFacts,
    manifest_text,
)
from sfumato.published.posterior import POSTERIOR, unpacked
from sfumato.published.release import Release
from sfumato.published.statement import check_claim
from sfumato.published.tables import readme, with_local_times


def places_facts(places: Places) -> PlacesFacts:
    """Kind, number and hash of a list of places."""
    return PlacesFacts(
        kind=places.kind.value, count=len(set(places.ids.tolist())), sha256=places.fingerprint()
    )


def _measured(claim: Claim, plan: Plan, density: Density) -> list[Measured]:
    """Everything that was paid for, in the order of the plan: tables, and choices without one."""
    tables = {measured.label: measured for measured in density.measurements}
    cells = {planned.label: planned.cells for planned in plan.measurements}
    found = []
    for label, event in claim.events:
        table = tables.get(label)
        found.append(
            Measured(
                label=label,
                event=event_to_json(event),
                # Of a large table the numbers are let go as soon as they were read.
                cells=int(table.values.size) if table and table.values.size else cells[label],
                units_per_count=1 if table is None else table.units_per_count,
                variance=None if table is None else table.variance,
                sd=None if table is None else table.sd,
            )
        )
    return found


def density_manifest(
    facts: PublicFacts,
    plan: Plan,
    density: Density,
    reservation: Reservation,
    counted: Places,
    released: Places,
    files: Mapping[str, str],
    further_inputs: Mapping[str, bool | int | float | str | None] | None = None,
    fitness: Fitness | None = None,
) -> Manifest:
    """Everything a reader needs to judge the release; the same bytes on every rerun.

    The plan's own words on the bound win over the facts': a scheme may bound each of its
    measurements in another way.
    """
    row = reservation.charge_row
    claimed = guarantee([event for _, event in row.claim.events], facts.delta)
    return Manifest(
        kind="density",
        tainted=density.tainted,
        release=release_facts(reservation),
        privacy=Privacy(
            unit=str(facts.unit),
            neighbours=facts.unit.neighbours,
            bound=plan.bound or bound_in_words(facts.bound, facts.counting),
            counting=facts.counting.value,
            measurements=_measured(row.claim, plan, density),
            rho=claimed.rho,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            method=claimed.method.value,
            cumulative=cumulative(reservation),
        ),
        counted=places_facts(counted),
        released=places_facts(released),
        grid=GridFacts.of(facts.grid),
        scheme=SchemeFacts(
            name=plan.scheme,
            parameters=dict(facts.parameters),
            interval_coverage=density.coverage or 0.0,
            median=density.median is not None,
        ),
        public_inputs={
            "expected_users": facts.expected_users,
            **earlier_inputs(facts.earlier),
            **(further_inputs or {}),
        },
        fitness=None if fitness is None else _fitness_facts(fitness),
        total=total_facts(density),
        posterior=posterior_facts(
            density, density.sums_unknown or scheme_named(plan.scheme).declares.no_posterior
        ),
        software={"sfumato": version("sfumato")},
        ledger=ledger_row(reservation),
        files=dict(files),
        caveats=caveats(facts, plan, density, further_inputs or {}, fitness),
        not_covered=list(NOT_COVERED),
    )


def _fitness_facts(found: Fitness) -> FitnessFacts:
    """What was forecast. A useless release is only made where the holder insists, so that a rerun
    that finishes it writes the same, whatever it was told."""
    return FitnessFacts(
        figures=None if found.figures is None else dict(found.figures),
        ranges=dict(found.ranges),
        most=dict(MOST),
        signal=round(found.signal.whole, 1),
        signal_per_place=round(found.signal.place, 3),
        failing=list(found.failing),
        anyway=found.useless,
    )


def total_facts(density: Density) -> TotalFacts | None:
    """The sum of everything before it was rounded, from the posterior where there is one."""
    if density.posterior is None or density.coverage is None:
        return None
    found = density.posterior.total(density.coverage)
    value, lower, upper = np.round((density.values.sum(), *found.ends), 3).tolist()
    return TotalFacts(value=value, lower=lower, upper=upper, coverage=density.coverage)


def posterior_facts(density: Density, why_not: str) -> PosteriorFacts:
    """Whether the release states how errors of its cells hang together, and why it does not."""
    stated = density.posterior is not None and density.coverage is not None
    return PosteriorFacts(stated=stated, why_not="" if stated else why_not)


def earlier_inputs(earlier: tuple[Kept, ...]) -> dict[str, str]:
    """For the manifest and the reservation: what names the measurements of earlier releases."""
    if not earlier:
        return {}
    text = "\n".join(sorted(one.digest for one in earlier))
    return {"earlier": hashlib.sha256(text.encode()).hexdigest()}


def caveats(
    facts: PublicFacts,
    plan: Plan,
    density: Density,
    inputs: Mapping[str, bool | int | float | str | None],
    fitness: Fitness | None = None,
) -> list[str]:
    """What readers should know first; `inputs` say what the border takes."""
    found, bound = list(density.remarks), facts.bound
    found += [] if fitness is None else fitness.caveats
    if plan.bound:  # the scheme's own rules, and a level that it restores
        pass
    elif isinstance(bound, SampleBound):
        found.append(
            "Sampling keeps one visit per person and time slot and only some of the slots, so the "
            "numbers are a thinned count of people, below the true level by an unknown factor."
        )
    elif facts.counting is Counting.VISITS or bound.limit**2 < facts.grid.slots:
        found.append(  # one unit of a person in every slot has norm sqrt(slots): nothing is cut
            "Busy people were weighted down to the limit on each person's share and nothing "
            "restores the level, so counts may be too low by an unknown factor."
        )
    if facts.expected_users is None:
        found.append(
            "Nobody said how many people are in the data, so it was not checked that delta is "
            "below one over their number."
        )
    if facts.overlay is not None:
        found.append(
            "Visits were counted at towers and spread over zones by area, as if people stood "
            "anywhere around a tower with equal chance."
        )
    fold = GridFacts.of(facts.grid).fold
    if fold is not None:
        found.append(fold.words())
    return [*found, *border_lines(inputs)]


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """Public choices about the form of the output: no budget hangs on them."""

    parents: NDArray[np.str_] | None = None
    """The district of each released place, where levels above it are wanted."""
    integers: bool = False
    loss: BorderLoss | None = None
    """What the border takes, where towers are spread over zones."""
    csv: str = "auto"
    """Form of the text table: auto, yes, gz or no."""
    about: About | None = None
    """Who publishes it, in the holder's words."""

    def inputs(self) -> dict[str, bool | int | float | str | None]:
        """For the manifest and the reservation; empty where nothing was asked for."""
        found: dict[str, bool | int | float | str | None] = {}
        if self.parents is not None:
            text = "\n".join(str(parent) for parent in self.parents)
            found["hierarchy"] = hashlib.sha256(text.encode()).hexdigest()
        if self.integers:
            found["integers"] = True
        if self.csv != "auto":
            found["csv"] = self.csv
        if self.loss is not None and self.loss.border != FIRST:
            found["border"] = str(self.loss.border)
        return found

    def facts(self) -> dict[str, bool | int | float | str | None]:
        """For the manifest: the inputs, and what public geometry makes of them."""
        return self.inputs() | ({} if self.loss is None else self.loss.facts())


def write_release(
    folder: Path,
    facts: PublicFacts,
    plan: Plan,
    finish: Finish,
    density: Density,
    reservation: Reservation,
    counted: Places,
    released: Places,
    fitness: Fitness | None = None,
) -> None:
    """All files of a release."""
    give_back(density.values.shape)
    extra = write_tables(folder, density, facts.grid, finish)
    give_back(density.values.shape)
    counts, posterior, coverage = (
        written_counts(density, finish),
        density.posterior,
        density.coverage,
    )
    kept = density.kept
    told = density_manifest(
        facts, plan, density, reservation, counted, released, {}, finish.facts(), fitness
    ).model_copy(update={"about": finish.about})
    del density  # tables that are written; what follows needs room, and reads what it needs
    known = write_posterior(folder, counts, posterior, coverage, released.kind)
    told = told.model_copy(update={"caveats": [*known, *told.caveats]})
    shape = counts.shape
    del counts, posterior
    give_back(shape)
    write_places(folder / f"{released.kind}.geojson", released, extra=extra)
    write_places_parquet(folder / f"{released.kind}.parquet", released, extra=extra)
    if kept is not None:
        write_arrays(folder / MEASUREMENTS, kept)
    del kept
    seal(folder, lambda files: told.model_copy(update={"files": dict(files)}))


def write_tables(
    folder: Path, density: Density, grid: TimeGrid, finish: Finish
) -> dict[str, list[str]]:
    """The tables of a density; what they say of each place beyond its id."""
    if finish.integers:
        density = whole_numbers(density)

    def parts() -> Iterator[pa.Table]:
        return (density_table(density, grid, rows) for rows in tiles(density.values.shape))

    write_parquet_parts(folder / "density.parquet", parts())
    csv = csv_name(finish.csv, density.place_ids.size, grid.slots)
    if csv is not None:
        nothing = with_local_times(density_table(density, grid, slice(0)), grid)
        write_csv_parts(
            folder / csv, nothing.schema, lambda: (with_local_times(part, grid) for part in parts())
        )
    if finish.parents is None:
        return {}
    for name, parents in (("district", finish.parents), ("city", whole_city(density))):
        file = "density-districts.parquet" if name == "district" else "density-city.parquet"
        write_parquet(folder / file, level_table(density, parents, grid, f"{name}_id"))
    return {"district": finish.parents.tolist()}


def written_counts(density: Density, finish: Finish) -> NDArray[Any]:
    """The counts as the tables have them: whole numbers, where these are asked for."""
    return (whole_numbers(density) if finish.integers else density).values


def write_posterior(
    folder: Path,
    counts: NDArray[Any],
    posterior: Posterior | None,
    coverage: float | None,
    kind: str,
) -> tuple[str, ...]:
    """The posterior of these counts in factors, where one is stated; what it says of the totals of
    places of that kind, in words."""
    if posterior is None or coverage is None:
        return ()
    values = np.asarray(counts, dtype=np.float64)
    arrays = posterior.factors(values, coverage)
    numbers(*(array for array in arrays.values() if array.dtype.kind == "f"))
    write_arrays(folder / POSTERIOR, arrays)
    known = unpacked(arrays, values).places_known()
    about = f"to about {percent(known)}" if known < 1 else "to no better than their own size"
    return (f"Totals of {kind} are known {about} ({percent(coverage)}; each counts by its size).",)


def seal(folder: Path, manifest: Callable[[Mapping[str, str]], Manifest]) -> None:
    """The page, the README and the manifest, which is asked for with the digests of the rest."""
    from sfumato.reports.page import PAGE_NAME, build_page

    first = manifest(digests(folder))
    write_bytes(folder / PAGE_NAME, build_page(Release(folder, first)).encode())
    write_bytes(folder / "README.txt", readme(first, [p.name for p in folder.iterdir()]).encode())
    whole = manifest(digests(folder))
    check_claim(whole)
    write_bytes(folder / MANIFEST_NAME, manifest_text(whole).encode())
