"""`Address`: where a table is. The connection is a secret, the table's name is not.

    postgresql://user@host:5432/database/schema.table
    postgresql://user@host/database/events.calls,events.sms
    postgresql://user@host/database?table=schema.table

An address is what libpq reads (host, port, user, password, options; `PGPASSWORD`, `~/.pgpass` and
services work), with the tables or views as a second part of the path or as `table=`. Several are
read as one, in one snapshot. Names are taken as they are, upper and lower case too; a dot, comma,
slash or @ inside a name is written %2E, %2C, %2F or %40. So are these letters inside a password:
what follows the database is shown, and must not be the end of one.

Nothing in here shows the connection: not its `repr`, not an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import quote, unquote, urlencode, urlsplit

from sfumato.model.errors import UsageError

_SCHEME = re.compile(r"\s*postgres(ql)?:/", re.IGNORECASE)
_KEYWORDS = re.compile(r"(^|[\s?&;])(password|passfile|sslpassword)\s*=", re.IGNORECASE)
"""libpq's other form, `host=… password=…`, and whatever else brings a password along."""
_FORM = "Write it as postgresql://user@host/database/schema.table."
_DEFAULTS = {"connect_timeout": "15", "fallback_application_name": "sfumato"}


def is_address(source: object) -> bool:
    """True for a text that means a database, also one that a path has mangled."""
    if not isinstance(source, str):
        return False
    return _SCHEME.match(source) is not None or _KEYWORDS.search(source) is not None


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view; without a schema, the server's search path decides."""

    name: str
    schema: str | None = None

    @property
    def label(self) -> str:
        """For messages and notes."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """As an identifier, exactly as written."""
        parts = (self.name,) if self.schema is None else (self.schema, self.name)
        return ".".join(quoted(part) for part in parts)


@dataclass(frozen=True, slots=True)
class Address:
    """A connection, which is never shown, and the tables to read."""

    tables: tuple[Table, ...]
    connection: str = field(repr=False)

    @property
    def label(self) -> str:
        return ", ".join(table.label for table in self.tables)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parse_address(text: str, tables: tuple[Table, ...] | None = None) -> Address:
    """Cut an address up. `tables` stands for the part after the database where there is none."""
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        parts = None
    if parts is None:  # outside the handler: its error may quote the address
        _refuse("The address of the database is not well formed.")
    if not text.strip().lower().startswith(("postgresql://", "postgres://")):
        _refuse("This is not the address of a database.")
    if parts.fragment:
        _refuse("The address has a # in it, which must be written %23.")
    path = parts.path.removeprefix("/")
    database, slash, named = path.partition("/")
    options = _options(parts.query)
    in_options = options.pop("table", None)
    if slash and in_options is not None:
        _refuse("The address names its table twice.")
    if in_options is not None:
        # The query is decoded already: a name that needs %2E has to stand in the path.
        named = quote(in_options, safe=".,/@")
    if "/" in named or "@" in database + named:
        _refuse("A / or @ that belongs to a name or a password must be written %2F or %40.")
    if named:
        tables = tuple(_table(part) for part in named.split(","))
    if not tables:
        _refuse("The address names no table.")
    options = {**_DEFAULTS, **options}
    rest = urlencode(options, quote_via=quote)
    return Address(tables, f"postgresql://{parts.netloc}/{database}?{rest}")


def _options(query: str) -> dict[str, str]:
    """As libpq reads them: a + is a plus, not a space."""
    pairs = (part.partition("=") for part in query.split("&") if part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def _table(text: str) -> Table:
    parts = [unquote(part) for part in text.split(".")]
    if not 1 <= len(parts) <= 2 or any(not part or "\0" in part for part in parts):
        _refuse("The address names a table in a way that cannot be read.")
    return Table(parts[-1], parts[0] if len(parts) == 2 else None)


def _refuse(problem: str) -> NoReturn:
    raise UsageError(problem, remedy=_FORM)
