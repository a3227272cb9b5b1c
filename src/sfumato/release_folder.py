"""What a release puts in its folder, in which order. Everything is post-processing.

The page is made from the folder alone and leaves the manifest's list of digests out, so a
first manifest is written for it to read; the last one lists the digests of all other files,
the page's too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.density.disclosure import density_manifest
from sfumato.density.finish import level_table, whole_city, whole_numbers
from sfumato.density.readme import readme
from sfumato.density.scheme import Density, Plan, PublicFacts
from sfumato.density.table import density_table, with_local_times
from sfumato.io.places_writer import write_places, write_places_parquet
from sfumato.io.writers import write_bytes, write_csv, write_parquet
from sfumato.model.places import Places
from sfumato.privacy.claims import check_claim
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.manifest import MANIFEST_NAME, Manifest, manifest_text
from sfumato.privacy.transaction import digests


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """Public choices about the form of the output: no budget hangs on them."""

    parents: NDArray[np.str_] | None = None
    """The district of each released place, where levels above it are wanted."""
    integers: bool = False

    def inputs(self) -> dict[str, bool | int | float | str | None]:
        """For the manifest and the reservation; empty where nothing was asked for."""
        found: dict[str, bool | int | float | str | None] = {}
        if self.parents is not None:
            text = "\n".join(str(parent) for parent in self.parents)
            found["hierarchy"] = hashlib.sha256(text.encode()).hexdigest()
        if self.integers:
            found["integers"] = True
        return found


def write_release(
    folder: Path,
    facts: PublicFacts,
    plan: Plan,
    finish: Finish,
    density: Density,
    reservation: Reservation,
    counted: Places,
    released: Places,
) -> None:
    """All files of a release."""
    from sfumato.report.page import write_page

    if finish.integers:
        density = whole_numbers(density)
    grid = facts.grid
    table = density_table(density, grid)
    write_parquet(folder / "density.parquet", table)
    write_csv(folder / "density.csv", with_local_times(table, grid))
    extra: dict[str, list[str]] = {}
    if finish.parents is not None:
        extra["district"] = finish.parents.tolist()
        for name, parents in (("district", finish.parents), ("city", whole_city(density))):
            file = "density-districts.parquet" if name == "district" else "density-city.parquet"
            write_parquet(folder / file, level_table(density, parents, grid, f"{name}_id"))
    write_places(folder / f"{released.kind}.geojson", released, extra=extra)
    write_places_parquet(folder / f"{released.kind}.parquet", released, extra=extra)

    def manifest() -> Manifest:
        files = digests(folder)
        files.pop(MANIFEST_NAME, None)
        return density_manifest(
            facts, plan, density, reservation, counted, released, files, finish.inputs()
        )

    first = manifest()
    write_bytes(folder / MANIFEST_NAME, manifest_text(first).encode())
    write_page(folder)
    write_bytes(folder / "README.txt", readme(first, [p.name for p in folder.iterdir()]).encode())
    whole = manifest()
    check_claim(whole)
    write_bytes(folder / MANIFEST_NAME, manifest_text(whole).encode())
