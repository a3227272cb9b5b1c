"""What catalogues ask of a release: DCAT-AP and Frictionless.

Two descriptions of one folder, each made from its manifest, the holder's words (`About`) and the
names, sizes and digests of its files. Nothing else is read, so they depend on no person beyond what
the release does, and the same folder gives the same bytes.

* `dcat` is DCAT-AP 3 as JSON-LD: a catalogue of one data set with a distribution for every file
  that holds data. Addresses of files are relative, so they are right wherever the folder is put.
* `datapackage` is a Frictionless Data Package: every file, and columns and types of the table.

A third, for the registry of deployments, is in `published.deployments`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.model.rounding import percent, rounded_up
from sfumato.published.about import COMPRESSED, CSV, About, is_web, licence_named
from sfumato.published.manifest import Manifest
from sfumato.published.statement import noise, whose

Box = tuple[float, float, float, float]
"""West, south, east, north of all places, in degrees."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of the package."""

    name: str
    size: int
    sha256: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """Media type, the EU's name of the format, and what it is in a word."""
        for ending, found in _KINDS.items():
            if self.name.endswith(ending):
                return found
        return "application/octet-stream", "", "file"


_KINDS = {
    ".parquet": ("application/vnd.apache.parquet", "PARQUET", "parquet"),
    ".csv": ("text/csv", "CSV", "csv"),
    ".csv.gz": ("text/csv", "CSV", "csv"),
    ".geojson": ("application/geo+json", "GEOJSON", "geojson"),
    ".gpkg": ("application/geopackage+sqlite3", "GPKG", "gpkg"),
    ".qml": ("application/xml", "XML", "qml"),
    ".html": ("text/html", "HTML", "html"),
    ".txt": ("text/plain", "TXT", "txt"),
    ".json": ("application/json", "JSON", "json"),
    ".ndjson": ("application/x-ndjson", "JSON", "ndjson"),
    ".npz": ("application/zip", "ZIP", "npz"),
}
_WORDS = ("differential privacy", "mobility", "population density")


@dataclass(frozen=True, slots=True)
class Described:
    """A release and what its catalogues need to know beside the manifest."""

    manifest: Manifest
    about: About
    items: Sequence[Item]
    box: Box | None

    @property
    def title(self) -> str:
        return self.about.title or self.manifest.release.name

    @property
    def publisher(self) -> str:
        return self.about.publisher or self.manifest.release.dataset

    @property
    def summary(self) -> str:
        """What it is, in two sentences."""
        found, privacy = self.manifest, self.manifest.privacy
        interval = found.scheme.interval_coverage
        exact = f", each with an interval for {percent(interval)} of cases" if interval else ""
        return (
            f"Estimated numbers of {privacy.counting} in {found.released.count} "
            f"{found.released.kind} and {found.grid.slots} time slots, {found.grid.days()} "
            f"({found.grid.tz}){exact}. Differentially private: epsilon "
            f"{rounded_up(privacy.epsilon)}, delta {rounded_up(privacy.delta)}, protecting "
            f"{whose(privacy.unit, privacy.neighbours)}."
        )

    @property
    def urn(self) -> str:
        return f"urn:sfumato:release:{self.manifest.release.id}"


def text_of(data: Mapping[str, Any]) -> str:
    """JSON for a file: the same bytes for the same content."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_FORMAT = "http://publications.europa.eu/resource/authority/file-type/"
_MEDIA = "https://www.iana.org/assignments/media-types/"
_THEME = "http://publications.europa.eu/resource/authority/data-theme/"
_ENGLISH = {"@id": "http://publications.europa.eu/resource/authority/language/ENG"}


def dcat(found: Described) -> dict[str, Any]:
    """The catalogue entry as JSON-LD; its context is inside, nothing is looked up."""
    manifest, grid = found.manifest, found.manifest.grid
    publisher = {"@id": f"{found.urn}#publisher"}
    agent = {**publisher, "@type": "foaf:Agent", "foaf:name": found.publisher}
    period = grid if grid.fold is None else grid.fold
    dataset: dict[str, Any] = {
        "@id": found.urn,
        "@type": "dcat:Dataset",
        "dct:title": _english(found.title),
        "dct:description": _english(found.summary),
        "dct:identifier": manifest.release.id,
        "dct:issued": _typed(manifest.release.reserved_at[:10], "date"),
        "dct:publisher": publisher,
        "dct:language": _ENGLISH,
        "dcat:keyword": [_english(word) for word in _WORDS],
        "dcat:theme": [{"@id": _THEME + name} for name in ("SOCI", "TRAN")],
        "dct:temporal": {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": _typed(period.start, "dateTime"),
            "dcat:endDate": _typed(period.end, "dateTime"),
        },
        "dcat:temporalResolution": _typed(f"PT{grid.step_seconds:.0f}S", "duration"),
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": _english(
                f"{manifest.privacy.bound} Noise was added before anything was published "
                f"({noise(manifest)}). README.txt says what that protects and what it does not."
            ),
        },
        "foaf:page": {"@id": "README.txt", "@type": "foaf:Document"},
        "dcat:distribution": [_distribution(found, item) for item in found.items if _data(item)],
    }
    if found.box is not None:
        dataset["dct:spatial"] = {
            "@type": "dct:Location",
            "dcat:bbox": {"@type": "geo:wktLiteral", "@value": _wkt(found.box)},
        }
    if (contact := found.about.contact) is not None:
        way = {"vcard:hasURL": {"@id": contact}}
        if not is_web(contact):
            way = {"vcard:hasEmail": {"@id": f"mailto:{contact}"}}
        dataset["dcat:contactPoint"] = {
            "@type": "vcard:Organization",
            "vcard:fn": found.publisher,
            **way,
        }
    catalogue = {
        "@id": f"{found.urn}#catalogue",
        "@type": "dcat:Catalog",
        "dct:title": _english(found.title),
        "dct:description": _english("The catalogue of one release, made by sfumato."),
        "dct:publisher": publisher,
        "dct:language": _ENGLISH,
        "dcat:dataset": {"@id": found.urn},
    }
    return {"@context": _CONTEXT, "@graph": [catalogue, dataset, agent]}


def _distribution(found: Described, item: Item) -> dict[str, Any]:
    media, form, _ = item.kind
    made: dict[str, Any] = {
        "@id": f"{found.urn}#{item.name}",
        "@type": "dcat:Distribution",
        "dct:title": _english(item.name),
        "dcat:accessURL": {"@id": item.name},
        "dcat:downloadURL": {"@id": item.name},
        "dcat:mediaType": {"@id": _MEDIA + media},
        "dct:format": {"@id": _FORMAT + form},
        "dcat:byteSize": _typed(str(item.size), "nonNegativeInteger"),
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": _typed(item.sha256, "hexBinary"),
        },
    }
    if item.name.endswith(".gz"):
        made["dcat:compressFormat"] = {"@id": _MEDIA + "application/gzip"}
    if found.about.licence is not None:
        made["dct:license"] = {"@id": licence_named(found.about.licence).concept}
    return made


def _data(item: Item) -> bool:
    return item.kind[2] in ("parquet", "csv", "geojson", "gpkg", "ndjson")


def _english(text: str) -> dict[str, str]:
    return {"@language": "en", "@value": text}


def _typed(text: str, kind: str) -> dict[str, str]:
    return {"@type": f"xsd:{kind}", "@value": text}


def _wkt(box: Box) -> str:
    west, south, east, north = (f"{degrees:.5f}" for degrees in box)
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    return f"POLYGON(({', '.join(f'{x} {y}' for x, y in corners)}))"


_FIELDS = {
    "zone_id": ("string", "Id of the place; leading zeros belong to it."),
    "time_start": ("datetime", "When the slot begins: local time with its offset from UTC."),
    "time_end": ("datetime", "When it ends; that instant is no longer part of it."),
    "count": ("number", "Estimate; counts add up."),
    "median": ("number", "As likely too high as too low; medians do not add up."),
    "lower": ("number", "Lower end of the interval."),
    "upper": ("number", "Upper end of the interval."),
}


def datapackage(found: Described) -> dict[str, Any]:
    """The data package; the table's schema stands at its text form, which its readers read."""
    manifest, about = found.manifest, found.about
    made: dict[str, Any] = {
        "name": slug(found.title),
        "id": manifest.release.id,
        "title": found.title,
        "description": found.summary,
        "created": manifest.release.reserved_at,
        "keywords": list(_WORDS),
        "contributors": [_contributor(found)],
    }
    if about.licence is not None:
        licence = licence_named(about.licence)
        known = {} if is_web(licence.name) else {"name": licence.name}
        made["licenses"] = [known | {"title": licence.title, "path": licence.address}]
    made["resources"] = [_resource(manifest, item) for item in found.items]
    return made


def _contributor(found: Described) -> dict[str, str]:
    said = {"title": found.publisher, "role": "publisher"}
    if (contact := found.about.contact) is not None:
        said["path" if is_web(contact) else "email"] = contact
    return said


def _resource(manifest: Manifest, item: Item) -> dict[str, Any]:
    media, _, form = item.kind
    made: dict[str, Any] = {
        "name": slug(item.name),
        "path": item.name,
        "format": form,
        "mediatype": media,
        "bytes": item.size,
        "hash": f"sha256:{item.sha256}",
    }
    if item.name not in (CSV, COMPRESSED):
        return made | {"type": "file"}
    names = ["zone_id", "time_start", "time_end", "count"]
    names += ["median"] if manifest.scheme.median else []
    names += ["lower", "upper"] if manifest.scheme.interval_coverage else []
    fields = []
    for name in names:
        kind, words = _FIELDS[name]
        field: dict[str, Any] = {"name": name, "type": kind, "description": words}
        if kind == "datetime":
            field["format"] = "%Y-%m-%dT%H:%M:%S%z"
        fields.append(field)
    made |= {"type": "table", "encoding": "utf-8"}
    made |= {"compression": "gz"} if item.name == COMPRESSED else {}
    return made | {"schema": {"fields": fields, "primaryKey": ["zone_id", "time_start"]}}


def slug(text: str) -> str:
    """Small letters, digits, dots and dashes; what other letters are closest to."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.") or "release"
