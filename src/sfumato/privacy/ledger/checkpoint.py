"""What a process had checked and added up, sealed beside the key: the next one goes on from there.

A checkpoint holds the seals of the first n rows, the book that they add up to and its sums. It is
authenticated with a key of its own, derived from the ledger's, so only whoever could write any
history can write one. It is a copy of what rows say and never stands in for them:

* it is used only where row n of the ledger has the seal that it names, and the rows after it and a
  slice of those before it are checked as for a process that remembers (`remembered`);
* the noted head must lie on its chain or after it, as ever;
* an older one of the same ledger is a shorter prefix, checked once, and costs more rows to read;
* one that is missing, altered, of another ledger, or made by other code is as none: every row is
  read. Sums depend on how charges are counted, so a digest of that code is part of it, and so are
  the days of every clock that was charged, which another edition of the time zones may move.

It is written by a process that had to read many rows, once, and on no ledger of fewer than `LEAST`:
those are checked whole by every process. What is lost if it is deleted is time.

The file: a tag of 32 bytes, the length of a header as 8 bytes, the header as JSON, and parts whose
sizes it names: the seals, a line for each release, and for each tally its numbers and its texts.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import nesting
from sfumato.privacy.ledger.accounts import Account, View, accounts_of
from sfumato.privacy.ledger.chain import Keyring, canonical, subkey
from sfumato.privacy.ledger.claims import Cap
from sfumato.privacy.ledger.records import Book, Charges
from sfumato.privacy.ledger.tally import Columns, Tally, kinds_of, tally_of

FORMAT = 1
LEAST = 512
"""Rows that every process reads and checks by itself: about 0.1 s of CPU."""
STEP = 64
"""Rows since the last checkpoint that are worth a new one: with 10,000 releases a fresh process
takes about as long to add them up as to write it."""
_TAG = 32
_SIZE = 8


def load(keyring: Keyring, key: bytes) -> tuple[list[str], Book] | None:
    """Seals and book of the checkpoint, if there is one that this key sealed for this code."""
    try:
        content = keyring.checkpoint.read_bytes()
    except OSError:
        return None
    tag, body = content[:_TAG], memoryview(content)[_TAG:]
    if not hmac.compare_digest(tag, hmac.digest(_key(key), body, "sha256")):
        return None
    try:
        return _unpacked(body)
    except (ValueError, KeyError, IndexError, TypeError, OSError, SfumatoError):
        return None  # sealed by other code: it knows better what it wrote


def save(keyring: Keyring, key: bytes, seals: list[str], book: Book) -> None:
    """Write a checkpoint of a book that is added up, unless another process is about to.

    What cannot be written is left out.

    Nothing waits for the disk: a file that a power cut leaves half written has no right tag.
    """
    temporary = keyring.checkpoint.with_name(f".sfumato-{keyring.checkpoint.name}")
    try:
        body = _packed(seals, book)
        with keyring.path.open("rb") as own:
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(hmac.digest(_key(key), body, "sha256"))
                    file.write(body)
                temporary.rename(keyring.checkpoint)
            except OSError:
                temporary.unlink(missing_ok=True)
    except OSError:
        return


@lru_cache(maxsize=8)
def _key(key: bytes) -> bytes:
    return subkey(key, "checkpoint")


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of everything by which charges are counted."""
    found, here = hashlib.sha256(__version__.encode()), Path(__file__).resolve().parents[1]
    for path in (*sorted(here.rglob("*.py")), here.parent / "model" / "time_grid.py"):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _packed(seals: list[str], book: Book) -> bytes:
    parts = [bytes.fromhex("".join(seals)), "\n".join(book.charges.lines.values()).encode()]
    tallies = []
    for (group, analyst), tally in book.tallies.items():
        found = tally() if callable(tally) else tally
        facts, blobs = _packed_tally(found)
        tallies.append({"group": sorted(group), "analyst": analyst, **facts})
        parts += blobs
    header = {
        "format": FORMAT,
        "code": _code(),
        "ledger": book.ledger_id,
        "schema": book.schema,
        "caps": {name: _caps(caps) for name, caps in book.caps.items()},
        "linked": [sorted(group) for group in set(book.linked.values())],
        "units": {name: str(unit) for name, unit in book.units.items()},
        "named": [[*names, release] for names, release in book.named.items()],
        "keyed": sorted(book.keyed),
        "allowances": {
            name: {who: _caps(caps) for who, caps in of.items()}
            for name, of in book.allowances.items()
        },
        "answered": book.answered,
        "asked": book.asked,
        "by rules": book.by_rules,
        "clocks": _clocks(book),
        "tallies": tallies,
        "parts": [len(part) for part in parts],
    }
    text = canonical(header).encode()
    return b"".join((len(text).to_bytes(_SIZE, "little"), text, *parts))


def _caps(caps: dict[str, Cap]) -> dict[str, Any]:
    return {unit: cap.to_json() for unit, cap in caps.items()}


def add_up(book: Book) -> None:
    """Add up every account that a cap or an allowance asks for."""
    for group in set(book.linked.values()):
        dataset = min(group)
        caps = {None: book.caps_of(dataset)} | {
            who: book.allowances_of(dataset, who) for who in book.asked
        }
        for analyst, of in caps.items():
            tally = tally_of(book, dataset, analyst) if of else Tally()
            for unit, _ in of:
                for account in accounts_of(unit, tally.kinds.values()):
                    tally.columns(account)


def _clocks(book: Book) -> dict[str, list[Any]]:
    """The days of every clock that sums depend on: from, to, and a digest of their edges."""
    spans: dict[str, list[int]] = {}
    for tally in book.tallies.values():
        found = tally() if callable(tally) else tally
        units = [*found.periods, *(account.unit for account in found.accounts)]
        edges = [found.charges[:, 1:], *((c.begin, c.end) for c in found.accounts.values())]
        ends = [np.ravel(part) for part in edges if np.size(part)]
        for clock in {unit.clock for unit in units if unit.clock is not None}:
            near = [part[np.abs(part) < nesting.ALWAYS[1]] for part in ends]
            days = np.concatenate([*near, spans.get(clock, [])]).astype(np.int64)
            if days.size:
                spans[clock] = [int(days.min()), int(days.max())]
    return {clock: [*span, _days(clock, *span)] for clock, span in spans.items()}


def _days(clock: str, begin: int, end: int) -> str:
    return hashlib.sha256(nesting.day_edges(clock, begin, end).tobytes()).hexdigest()


def _packed_tally(tally: Tally) -> tuple[dict[str, Any], list[bytes]]:
    units = {unit: number for number, unit in enumerate(tally.periods)}
    charges = np.column_stack([tally.charges, np.zeros(len(tally), np.int64)])
    for unit, found in tally.periods.items():
        charges[found[:, 0], 3] = units[unit]
    numbers, texts = [charges.tobytes()], ["\n".join(tally.sorts)]
    for columns in tally.accounts.values():
        numbers += [part.tobytes() for part in (columns.begin, columns.end, columns.small)]
        texts += [" ".join(f"{n:x}" for n in big) for big in (columns.rho, columns.pure)]
    facts = {
        "seen": tally.seen,
        "least delta": tally.least_delta,
        "units": [str(unit) for unit in units],
        "charges": len(tally),
        "accounts": [
            [str(account.unit), account.phase_us, account.view.value, columns.begin.size]
            for account, columns in tally.accounts.items()
        ],
    }
    return facts, [b"".join(numbers), "\0".join(texts).encode()]


def _unpacked(body: memoryview) -> tuple[list[str], Book] | None:
    size = int.from_bytes(body[:_SIZE], "little")
    header = json.loads(bytes(body[_SIZE : _SIZE + size]))
    if (header["format"], header["code"]) != (FORMAT, _code()):
        return None
    for clock, (begin, end, days) in header["clocks"].items():
        if _days(clock, begin, end) != days:
            return None
    edges = accumulate(header["parts"], initial=_SIZE + size)
    parts = iter([body[a:b] for a, b in pairwise(edges)])
    marks = next(parts).hex()
    seals = [marks[at : at + 64] for at in range(0, len(marks), 64)]
    text = str(next(parts), "utf-8")
    lines = text.split("\n") if text else []
    book = Book(
        header["ledger"],
        {name: _caps_of(caps) for name, caps in header["caps"].items()},
        {name: group for group in map(frozenset, header["linked"]) for name in group},
        Charges({line[: line.index("\t")]: line for line in lines}),
        header["schema"],
        {name: Unit.parse(unit) for name, unit in header["units"].items()},
        {(dataset, name): release for dataset, name, release in header["named"]},
        set(header["keyed"]),
        dict(_tallies(header["tallies"], parts)),
        {
            name: {who: _caps_of(caps) for who, caps in of.items()}
            for name, of in header["allowances"].items()
        },
        header["answered"],
        header["asked"],
        header["by rules"],
    )
    return seals, book


def _caps_of(caps: dict[str, Any]) -> dict[str, Cap]:
    return {unit: Cap.from_json(cap) for unit, cap in caps.items()}


def _tallies(
    facts: list[dict[str, Any]], parts: Iterator[memoryview]
) -> Iterator[tuple[tuple[frozenset[str], str | None], Callable[[], Tally]]]:
    """Tallies that are opened when they are asked for: most questions ask for two of many."""
    for one in facts:
        opening = lru_cache(maxsize=1)(_opener(one, next(parts), next(parts)))
        yield (frozenset(one["group"]), one["analyst"]), opening


def _opener(facts: dict[str, Any], numbers: memoryview, texts: memoryview) -> Callable[[], Tally]:
    def opened() -> Tally:
        values = np.frombuffer(numbers, np.int64)
        sorts, *big = str(texts, "utf-8").split("\0")
        size = facts["charges"]
        charges, values = values[: 4 * size].reshape(size, 4), values[4 * size :]
        places, units = np.arange(size), [Unit.parse(name) for name in facts["units"]]
        periods = {}
        for number, unit in enumerate(units):
            own = charges[:, 3] == number
            periods[unit] = np.column_stack([places[own], charges[own, 1:3]])
        accounts = {}
        sums = iter([np.array([int(n, 16) for n in row.split()], dtype=object) for row in big])
        for name, phase, view, m in facts["accounts"]:
            begin, end, small = values[:m], values[m : 2 * m], values[2 * m : 10 * m]
            values = values[10 * m :]
            columns = Columns(begin, end, next(sums), next(sums), small.reshape(m, 8))
            accounts[Account(Unit.parse(name), phase, View(view))] = columns
        return Tally(
            charges[:, :3],
            {text: n for n, text in enumerate(sorts.split("\n"), start=1)} if sorts else {},
            kinds_of(periods),
            periods,
            accounts,
            facts["seen"],
            facts["least delta"],
        )

    return opened
