"""Publications by rules (`anonymise`) in the ledger: rows without a bound.

What leaves by rules about the output tells of the same people as what leaves with noise, and no
epsilon covers it. So it stands in the same book: every later manifest says that it does not count
it. A row holds what was public beforehand (whose people, by which method, with what settings,
about which days) and nothing that was read: no count, no fingerprint, no digest. It counts
nothing against a cap and refuses nothing.

The row is durable before the first table is in place, so nothing leaves without one. A run that
dies in between leaves a row about tables that may not have left, and **a rerun adds a row of its
own**: whether the tables of the first run were seen nobody can know, and lots are drawn afresh, so
that two runs with the same settings are two publications. Too many rows cost nothing; one that is
missing makes a manifest untrue.

This is the one function that what publishes by rules may know of the ledger: the other way round
nothing is exchanged, and the wall stays unknown to it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.privacy.ledger.ledger import Ledger
from sfumato.privacy.ledger.records import Kind
from sfumato.privacy.ledger.remembered import Change

Write = Callable[[str, Mapping[str, Any], tuple[int, int], str, Path], dict[str, Any]]
"""Writes the row: method, its public settings, the period in epoch microseconds and its clock, the
folder. Gives back which row of which ledger it is."""


def row_for(dataset: str, ledger: Ledger | str | os.PathLike[str] | None = None) -> Write:
    """What writes the row of a publication by rules, once the data set is found in the ledger.

    To be asked before a record is read, and called before the first table is in place.

    Raises:
        UsageError: The ledger does not know the data set.
        LedgerError: There is no ledger, or it does not hold together.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    book.require_dataset(dataset)

    def write(
        method: str, settings: Mapping[str, Any], period: tuple[int, int], tz: str, folder: Path
    ) -> dict[str, Any]:
        content = {
            "publication": secrets.token_hex(16),
            "dataset": dataset,
            "name": folder.name,
            "method": method,
            "settings": dict(settings),
            "period": list(period),
            "tz": tz,
            "out": str(folder),
        }
        with Change(book.database, book.keyring) as change:
            change.append(Kind.RULES, content)
            return {"id": change.book.ledger_id, "row": change.head.length}

    return write
