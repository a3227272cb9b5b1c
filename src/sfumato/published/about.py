"""Who publishes a release: title, publisher, licence, contact; and the form of its text table.

They are the holder's words, given as options or in `sfumato.toml`. They stand in the manifest,
from which `README.txt`, the page and the files of a publication package take them. All are checked
before anything is read or spent. None is required of a release; a package asks for publisher and
licence (`published.package`).

A licence is named by its SPDX identifier or by its address. For identifiers that open-data portals
know, the address and the entry of the EU's authority table of licences are here.

The text table, `density.csv`, doubles a large folder. `auto` writes it as it is while a spreadsheet
can open it, and compressed beyond. That depends on the number of places and slots alone, which is
public.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import UsageError

CSV, COMPRESSED = "density.csv", "density.csv.gz"
CSV_FORMS = ("auto", "yes", "gz", "no")
SPREADSHEET_ROWS = 1_048_575
"""What a sheet of today's spreadsheet programs holds besides a header: 2^20 rows in all."""
_MOST = 300
"""Characters of one word of these; a title is a line, not a page."""
_MAIL = re.compile(r"[^\s@<>\"]+@[^\s@<>\"]+\.[^\s@<>\"]+")
_WEB = re.compile(r"https?://[^\s<>\"]+")
_EU = "http://publications.europa.eu/resource/authority/licence/"


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence by its identifier: what it is called, where it is, what portals know it by."""

    name: str
    title: str
    address: str
    authority: str | None = None
    """Its entry in the EU's authority table, where there is one."""

    @property
    def concept(self) -> str:
        """The address by which catalogues of the EU know it."""
        return self.address if self.authority is None else _EU + self.authority


_CC = "https://creativecommons.org/"
_KNOWN = (
    Licence("CC0-1.0", "Creative Commons Zero 1.0", f"{_CC}publicdomain/zero/1.0/", "CC0"),
    Licence("CC-BY-4.0", "Creative Commons Attribution 4.0", f"{_CC}licenses/by/4.0/", "CC_BY_4_0"),
    Licence(
        "CC-BY-SA-4.0",
        "Creative Commons Attribution Share-Alike 4.0",
        f"{_CC}licenses/by-sa/4.0/",
        "CC_BYSA_4_0",
    ),
    Licence(
        "CC-BY-NC-4.0",
        "Creative Commons Attribution Non-Commercial 4.0",
        f"{_CC}licenses/by-nc/4.0/",
        "CC_BYNC_4_0",
    ),
    Licence(
        "ODbL-1.0",
        "Open Data Commons Open Database License 1.0",
        "https://opendatacommons.org/licenses/odbl/1-0/",
        "ODC_BL",
    ),
    Licence(
        "ODC-By-1.0",
        "Open Data Commons Attribution License 1.0",
        "https://opendatacommons.org/licenses/by/1-0/",
        "ODC_BY",
    ),
    Licence(
        "PDDL-1.0",
        "Open Data Commons Public Domain Dedication and License 1.0",
        "https://opendatacommons.org/licenses/pddl/1-0/",
        "ODC_PDDL",
    ),
    Licence(
        "OGL-UK-3.0",
        "Open Government Licence 3.0 (United Kingdom)",
        "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
        "OGL_3_0",
    ),
)
LICENCES: Mapping[str, Licence] = {one.name.lower(): one for one in _KNOWN}


class About(BaseModel):
    """Title, publisher, licence and contact, as the holder gave them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str | None = Field(default=None, description="What readers call it, beside its name.")
    publisher: str | None = Field(default=None, description="Who publishes it.")
    licence: str | None = Field(default=None, description="SPDX identifier or address.")
    contact: str | None = Field(default=None, description="Mail or web address for questions.")

    def given(self) -> dict[str, str]:
        """What was said, by name: bound by a reservation, so that a rerun writes the same."""
        found: dict[str, str | None] = self.model_dump()
        return {name: text for name, text in found.items() if text is not None}

    def over(self, other: About | None) -> About:
        """These words, and those of `other` where nothing was said here."""
        return self if other is None else About(**(other.given() | self.given()))


def about(
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
) -> About | None:
    """The words, checked; `None` where none was said.

    Raises:
        UsageError: One is empty or too long, the licence is unknown, or the contact no address.

    Example:
        >>> about(licence="cc-by-4.0").licence
        'CC-BY-4.0'
    """
    said = {"title": title, "publisher": publisher, "licence": licence, "contact": contact}
    found = {name: _line(name, text) for name, text in said.items() if text is not None}
    if not found:
        return None
    if "licence" in found:
        found["licence"] = licence_named(found["licence"]).name
    if "contact" in found and not (_MAIL.fullmatch(found["contact"]) or is_web(found["contact"])):
        raise UsageError(
            "A contact is an address that answers.",
            remedy="Write `contact` as data@example.org or https://example.org/contact.",
        )
    return About(**found)


def licence_named(text: str) -> Licence:
    """The licence that an identifier or an address stands for.

    Raises:
        UsageError: It is neither.
    """
    known = LICENCES.get(text.lower())
    if known is not None:
        return known
    if is_web(text):
        return Licence(text, text, text)
    raise UsageError(
        f"{text!r} is not a licence that sfumato knows.",
        remedy=f"Choose from {', '.join(one.name for one in _KNOWN)}, or give its https:// "
        "address.",
    )


def is_web(text: str) -> bool:
    """Whether it is an address of the web."""
    return _WEB.fullmatch(text) is not None


def _line(name: str, text: str) -> str:
    line = " ".join(text.split())
    if not line or len(line) > _MOST or not line.isprintable():
        raise UsageError(
            f"The {name} is a line of text, of at most {_MOST} characters.",
            remedy=f"Give `{name}` in fewer words, or leave it out.",
        )
    return line


def csv_form(text: str) -> str:
    """The option `csv`, checked.

    Raises:
        UsageError: It is none of `auto`, `yes`, `gz`, `no`.
    """
    if text not in CSV_FORMS:
        raise UsageError(
            f"{text!r} is not a form of the text table.",
            remedy=f"Choose `csv` from {', '.join(CSV_FORMS)}.",
        )
    return text


def csv_name(form: str, places: int, slots: int) -> str | None:
    """The file of the text table, if one is written: from public numbers alone.

    Args:
        form: `auto`, `yes`, `gz` or `no`.
        places: How many places the release has.
        slots: How many time slots.

    Example:
        >>> csv_name("auto", 989, 168), csv_name("auto", 989, 8760), csv_name("no", 3, 2)
        ('density.csv', 'density.csv.gz', None)
    """
    if form == "no":
        return None
    large = form == "gz" or (form == "auto" and places * slots > SPREADSHEET_ROWS)
    return COMPRESSED if large else CSV
