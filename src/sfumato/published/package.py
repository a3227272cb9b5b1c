"""The publication package: a release, and what data portals, registries and map programs ask for.

    sfumato.export("releases/week-37", "portal/week-37", to="package",
                   publisher="Metro Telecom", licence="CC-BY-4.0")

The package is the release as it was published, every file by its digest, so any reader of releases
reads it too. Beside it stand

    dcat.jsonld         DCAT-AP, for open-data portals
    datapackage.json    Frictionless Data Package, for programs
    registry.yaml       a draft for the registry of deployments of differential privacy
    density.gpkg        the numbers on the map, with a style (layer_styles)
    density.qml         the same style for QGIS

All of it is made from the release's files and four words of the holder. It spends nothing and reads
no record. The same release and words give the same bytes.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import shapely

from sfumato.errors import SfumatoError, UsageError
from sfumato.io.foreign import opened
from sfumato.io.write import write_bytes, write_folder
from sfumato.published.about import About
from sfumato.published.catalogue import Box, Described, Item, datapackage, dcat, text_of
from sfumato.published.deployments import registry, yaml_text
from sfumato.published.geopackage import GEOPACKAGE, STYLE, write_geopackage
from sfumato.published.manifest import MANIFEST_NAME, manifest_text
from sfumato.published.release import Release

DCAT, FRICTIONLESS, REGISTRY = "dcat.jsonld", "datapackage.json", "registry.yaml"


def write_package(found: Release, out: Path, said: About | None) -> list[Path]:
    """Write the package of a density or a stream into a folder that does not exist yet.

    Args:
        found: The release, every digest right.
        out: Folder to make.
        said: Words of the holder; they win over those of the manifest.

    Returns:
        The files, the release's own among them.

    Raises:
        UsageError: Traces; or nobody says who publishes it, or under which licence.
        InputError: A file is not as it was published.
    """
    if found.kind == "traces":
        raise UsageError(
            "A package is made of counts by place and time slot, and these are traces.",
            remedy="Publish the folder as it is.",
        )
    about = (said or About()).over(found.manifest.about)
    for name in ("publisher", "licence"):
        if getattr(about, name) is None:
            raise UsageError(
                f"The {name} is missing, and portals and the registry ask for it.",
                remedy=f"Give `{name}`, here or in sfumato.toml.",
            )
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out} exists.", remedy="Choose another folder, or remove it.")
    with write_folder(out) as place:
        for name in sorted(found.manifest.files):
            _copy(found, name, place)
        write_bytes(place / MANIFEST_NAME, manifest_text(found.manifest).encode())
        style = write_geopackage(found, place / GEOPACKAGE)
        if style is not None:
            write_bytes(place / STYLE, style.encode())
        items = [_item(path) for path in sorted(place.iterdir())]
        described = Described(found.manifest, about, items, _box(found))
        write_bytes(place / DCAT, text_of(dcat(described)).encode())
        write_bytes(place / FRICTIONLESS, text_of(datapackage(described)).encode())
        write_bytes(place / REGISTRY, yaml_text(registry(described)).encode())
    return sorted(out.iterdir())


def _copy(found: Release, name: str, place: Path) -> None:
    """One file, refused unless it is the one that was published."""
    target = place / name
    try:
        with opened(found.folder / name) as (file, _), target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
    except OSError as error:
        raise SfumatoError(f"{target.name} cannot be copied: {error.strerror}.") from None
    if _digest(target) != found.manifest.files[name]:
        found.files.read(name)  # says what is wrong with it


def _item(path: Path) -> Item:
    return Item(path.name, path.stat().st_size, _digest(path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _box(found: Release) -> Box | None:
    if found.geometry is None:
        return None
    west, south, east, north = shapely.total_bounds(found.geometry).tolist()
    return west, south, east, north
