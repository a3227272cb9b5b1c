"""What other distributions add: schemes, methods, commands, found by their entry points.

A distribution names one table in the group `sfumato.extensions`:

    [project.entry-points."sfumato.extensions"]
    waves = "sfumato_waves.offers:OFFERS"

The table is a tuple of rows (kind, name, help, "module:attribute") in a module that imports
nothing, so that `sfumato --help` lists what there is without loading it. `sfumato_lab`, which comes
in the same wheel, uses no other way. Names of the product cannot be taken: a registry asks here
only for names that it has not. A table or a module that does not load is a finding of `sfumato
doctor`, and an error only for who asks for what it offers.

Whatever comes in stands under the wall's rules (`private.bind`) before anything of it runs. This
stops mistakes, not malice: Python hides nothing from code that runs beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from sfumato.errors import UsageError
from sfumato.model.private import bind

GROUP = "sfumato.extensions"
KINDS = (
    "command",
    "attack",
    "density scheme",
    "stream scheme",
    "synthesis method",
    "questions together",
    "question session",
    "trace classifier",
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that a distribution adds."""

    kind: str
    name: str
    help: str
    module: str
    attribute: str
    distribution: str
    version: str

    def load(self) -> Any:
        """What is offered.

        Raises:
            UsageError: Its code does not load.
        """
        for package in packages(self.distribution, self.module):
            bind(package)
        try:
            return getattr(import_module(self.module), self.attribute)
        except (Exception, SystemExit) as error:  # any code of others may fail in any way
            raise UsageError(
                f"The {self.kind} {self.name} of {self.distribution} does not load "
                f"({type(error).__name__}).",
                remedy=f"Install {self.distribution} again, or a version for this sfumato.",
            ) from error

    def provenance(self) -> dict[str, str]:
        """What a reservation binds of the code: another one cannot finish what this one began."""
        return {
            "distribution": self.distribution,
            "version": self.version,
            "modules": digest_of(self.module, packages(self.distribution, self.module)),
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """A table, or a row of one, that is of no use."""

    distribution: str
    problem: str


def offers(kind: str) -> dict[str, Offer]:
    """By name, in the order of distributions' names and of their tables."""
    return {offer.name: offer for offer in _tables()[0] if offer.kind == kind}


def offered(kind: str, name: str) -> Offer:
    """What is offered under a name.

    Raises:
        UsageError: Nothing of that name is installed.
    """
    if name not in offers(kind):
        raise UsageError(
            f"No {kind} {name} is installed.",
            remedy="`sfumato doctor` says what did not load.",
        )
    return offers(kind)[name]


def failures() -> tuple[Failure, ...]:
    """What could not be read, for `sfumato doctor`."""
    return _tables()[1]


@cache
def _tables() -> tuple[tuple[Offer, ...], tuple[Failure, ...]]:
    rows: dict[tuple[str, str], Offer] = {}
    failed: list[Failure] = []
    for owner, version, where in _points():
        module, _, attribute = where.partition(":")
        try:
            bind(module)
            table = getattr(import_module(module), attribute)
            if not isinstance(table, tuple):  # anything else may have no end
                raise TypeError(f"no tuple: {type(table)}")
            offered = [_row(owner, version, row) for row in table]
        except (Exception, SystemExit) as error:
            # Any code of others may fail in any way, and must not take --help with it.
            failed.append(Failure(owner, f"its table of offers: {type(error).__name__}"))
            continue
        for offer in offered:
            if (offer.kind, offer.name) in rows:
                first = rows[offer.kind, offer.name].distribution
                failed.append(Failure(owner, f"{offer.kind} {offer.name} is that of {first}"))
            else:
                rows[offer.kind, offer.name] = offer
    return tuple(rows.values()), tuple(failed)


def _points() -> list[tuple[str, str, str]]:
    """Distribution, version and table of every entry point of the group, in this order.

    `importlib.metadata` reads the same files. It brings parsers of mail, tables and archives along,
    for which `sfumato --help` would take a sixth longer.
    """
    points: list[tuple[str, str, str]] = []
    seen: set[str] = set()
    for folder in dict.fromkeys(path or "." for path in sys.path):
        for entry in _entries(folder):
            stem, ending = os.path.splitext(entry)
            name, _, version = stem.partition("-")
            if ending in (".dist-info", ".egg-info") and name.lower() not in seen:
                seen.add(name.lower())  # of two that are installed Python imports the first
                owner = name.replace("_", "-").lower()
                tables = _declared(os.path.join(folder, entry, "entry_points.txt"))
                points += [(owner, version, table) for table in tables]
    return sorted(points)


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # an archive, or a folder that is no longer there
        return []


def _declared(path: str) -> list[str]:
    """What a file of entry points names in the group, as `module:attribute`."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return []
    section = f"\n{text}".partition(f"\n[{GROUP}]")[2].partition("\n[")[0]
    lines = (line.partition("=")[2].strip() for line in section.splitlines() if line[:1] != "#")
    return [line for line in lines if line]


def _row(owner: str, version: str, row: Any) -> Offer:
    kind, name, about, where = row
    module, _, attribute = where.partition(":")
    if kind not in KINDS or not (name.replace("-", "_").isidentifier() and module and attribute):
        raise ValueError(f"no row of a table of offers: {row!r}")
    return Offer(kind, name, str(about).replace("[/", "[ /"), module, attribute, owner, version)


class Registry(Mapping[str, T], Generic[T]):
    """What there is of a kind, by name: the product's own first, then what others offer.

    An offer is loaded when it is taken, so that listing names loads nothing.
    """

    def __init__(self, kind: str, own: Mapping[str, T]) -> None:
        self.kind = kind
        self._own = dict(own)

    def __getitem__(self, name: str) -> T:
        if name in self._own:
            return self._own[name]
        loaded: T = offers(self.kind)[name].load()
        return loaded

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in offers(self.kind) if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in offers(self.kind)

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the product alone."""
        return tuple(self._own)

    def provenance(self, name: str) -> dict[str, str]:
        """What a reservation binds of the code behind a name; nothing for the product's own."""
        return {} if name in self._own else offers(self.kind)[name].provenance()


def packages(distribution: str, module: str) -> frozenset[str]:
    """Whatever a distribution installs to be imported by, beside the package of the module.

    What it brings along under another name is its code like the rest.
    """
    from importlib import machinery, metadata

    code = tuple(machinery.all_suffixes())
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:  # code that is on the path without being installed
        files = ()
    names = {Path(file.parts[0]).stem for file in files if file.name.endswith(code)}
    return frozenset({module.partition(".")[0], *filter(str.isidentifier, names)} - {"sfumato"})


def digest_of(module: str, own: Collection[str] = ()) -> str:
    """SHA-256 over a module, its packages and all that it imports of its own ones."""
    import hashlib

    own = {*own, module.partition(".")[0]}
    seen: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen and (source := _source(name)) is not None:
            seen[name] = source[0]
            waiting += [used for used in _imported(*source) if used.partition(".")[0] in own]
    whole = hashlib.sha256()
    for name in sorted(seen):
        whole.update(f"{name}\0{len(seen[name])}\0".encode() + seen[name])
    return whole.hexdigest()


def _source(name: str) -> tuple[bytes, str] | None:
    from importlib.machinery import all_suffixes
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(tuple(all_suffixes())):
        return None
    return Path(spec.origin).read_bytes(), spec.parent or ""


def _imported(source: bytes, inside: str) -> Iterator[str]:
    import ast

    yield from (inside, inside.rpartition(".")[0])
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # compiled, or no Python: its bytes are all that counts
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = inside.rsplit(".", node.level - 1)[0] if node.level else ""
            whole = ".".join(filter(None, (above, node.module)))
            yield from (whole, *(f"{whole}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
