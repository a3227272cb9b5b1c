"""What a driver complains about, in our words: no host, user, password, query or record in them.

A driver's message names the server and the user and may quote a value, so nothing of it is passed
on but the five letters of its SQLSTATE. An error raised while another is handled carries that one
along as its context; `guarded` therefore raises only after the handler has been left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sfumato.model.errors import InputError, SfumatoError

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
