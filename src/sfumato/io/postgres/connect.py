"""The address of tables in PostgreSQL, and a driver's failures; neither gives the connection away.

**Address.** The connection is a secret, a table's name is not.

    postgresql://user@host:5432/database/schema.table
    postgresql://user@host/database/events.calls,events.sms
    postgresql://user@host/database?table=schema.table

An address is what libpq reads (host, port, user, password, options; `PGPASSWORD`, `~/.pgpass` and
services work), with the tables or views as a second part of the path or as `table=`. Several are
read as one, in one snapshot. Names are taken as they are, upper and lower case too; a dot, comma,
slash or @ inside a name is written %2E, %2C, %2F or %40. So are these letters inside a password:
what follows the database is shown, and must not be the end of one. Nothing in here shows the
connection: not the `repr` of an `Address`, not an error.

**Failures.** What a driver complains about is said in our words, with no host, user, password,
query or record in them. A driver's message names the server and the user and may quote a value, so
nothing of it is passed on but the five letters of its SQLSTATE. An error raised while another is
handled carries that one along as its context; `guarded` therefore raises only after the handler has
been left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.tables import quoted

_FORM = "Write it as postgresql://user@host/database/schema.table."
_DEFAULTS = {"connect_timeout": "15", "fallback_application_name": "sfumato"}


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


T = TypeVar("T")

_NOTHING = "Nothing was published or spent; run the same command again."
_KNOWN = {
    "28P01": ("the server refuses the user or the password.", "Check the address or PGPASSWORD."),
    "28000": ("the server refuses the user or the password.", "Check the address or PGPASSWORD."),
    "3D000": ("there is no such database.", "Check the address."),
    "42P01": ("there is no such table or view.", "Write schema.table, in the letters it has."),
    "3F000": ("there is no such schema.", "Write schema.table, in the letters it has."),
    "42501": ("no permission to read it.", "Have the user granted USAGE and SELECT."),
    "25006": ("reading it would write to the database.", "Read a view that does not write."),
    "53300": ("the server has no connection left.", _NOTHING),
    "57014": ("the server stopped the query, perhaps for its time limit.", _NOTHING),
}
_LOST = ("the connection was lost while it was read.", _NOTHING)
_CONNECTING = (
    "no connection to the server was made.",
    "Check the host, port, user, password and database of the address.",
)


def guarded(label: str, action: Callable[[], T], *, connecting: bool = False) -> T:
    """Run something that talks to the server; what it raises leaves as our own error."""
    try:
        return action()
    except SfumatoError:
        raise
    except Exception as error:
        failure = _failure(error, label, connecting)
    raise failure


def no_such_table(label: str) -> InputError:
    problem, remedy = _KNOWN["42P01"]
    return InputError(problem, file=label, remedy=remedy)


def _failure(error: Exception, label: str, connecting: bool) -> InputError:
    problem, remedy = _words(_state(error), str(error), connecting)
    return InputError(problem, file=label, remedy=remedy)


def _state(error: Exception) -> str:
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) and state.isalnum() and len(state) == 5 else ""


def _words(state: str, message: str, connecting: bool) -> tuple[str, str]:
    """Problem and remedy. A failed connection and a batch that fails carry no SQLSTATE here, and
    then a few words of the message (the server's, where it speaks English) must tell them apart.
    """
    if connecting and not state:
        return _KNOWN["28P01"] if "password" in message else _CONNECTING
    if not state and "read-only transaction" in message:
        state = "25006"
    if state in _KNOWN:
        return _KNOWN[state]
    if state.startswith(("08", "57P")) or (not state and "connection" in message):
        return _LOST
    said = f" (SQLSTATE {state})" if state else ""
    return f"the server could not read it to its end{said}.", f"Ask its log why. {_NOTHING}"
