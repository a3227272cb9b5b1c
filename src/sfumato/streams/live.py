"""`LiveStream`: a stream that can be killed at any instant and goes on with the same numbers.

Opening reserves the accounts of the plan in the ledger, once, for the whole stream and its
unit, and finds the release key; opening again finds the same reservation. Each slot's noise
comes from that key and the slot's own labels. A slot is published once: its output and the
state after it are one transaction (see `state`), and files are written from it afterwards.
When the last slot is out the reservation is committed, the key destroyed, the state removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato import __version__
from sfumato.errors import ReservationRefused, SfumatoError, UsageError
from sfumato.geography.overlay import Overlay
from sfumato.model.counts import Counts
from sfumato.model.places import Places
from sfumato.model.private import Private
from sfumato.model.rounding import number_of
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import event_to_json
from sfumato.privacy.last_resort import REMARK, HearingWall
from sfumato.privacy.ledger import Charge, Claim, Ledger, Reservation, Status
from sfumato.privacy.ledger.totals import compose
from sfumato.privacy.ledger.views import ledger_row
from sfumato.privacy.wall import Wall
from sfumato.published.about import About
from sfumato.published.manifest import Manifest
from sfumato.published.statement import check_claim
from sfumato.streams.facts import StreamFacts, charged_unit, windows_to_show
from sfumato.streams.output import Consistency, Outputs, Steady, line_bytes, table_bytes
from sfumato.streams.registry import code_of, settings_of
from sfumato.streams.scheme import Joint, Meter, Publication, StreamScheme
from sfumato.streams.spreading import split_over_zones, spread_over_zones
from sfumato.streams.state import Standing, Store, chained
from sfumato.streams.statement import stream_manifest, stream_readme
from sfumato.streams.surely import Surely

LIVE = "live"
_SOURCE = "source"
"""Part of the state that is the source's own."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamRequest:
    """Everything that shapes a stream: what a resumed run must have in common."""

    dataset: str
    name: str
    scheme: StreamScheme
    facts: StreamFacts
    grid: TimeGrid
    place_ids: NDArray[np.str_]
    out: Path
    fingerprint: str = LIVE
    """Keyed digest of a finished history; the word `live` where events are yet to come."""
    consistency: Consistency = Consistency.NONE
    delay_seconds: int = 0
    reading: tuple[tuple[str, str], ...] = ()
    """What else decides how events become counts, by name: where the places lie, the columns."""
    place_kind: str = "places"
    """What the places are, for readers; nothing is bound to it."""
    released: Places | None = None
    """Where the published numbers are about; `reading` binds it."""
    shares: Overlay | None = None
    """How the counted places are spread over the released ones, where these are others."""
    split: bool = False
    """Whether they are spread before the noise (`streams.spreading`); `reading` binds it."""
    border: Mapping[str, bool | int | float | str | None] = field(default_factory=dict)
    """What the border of the zones takes, from public geometry; for readers."""
    csv: str = "auto"
    """Form of the text table: auto, yes, gz or no."""
    about: About | None = None
    """Who publishes it, in the holder's words."""

    @property
    def released_ids(self) -> NDArray[np.str_]:
        """The places of the published numbers, in their order."""
        return self.place_ids if self.shares is None else self.shares.zone_ids

    def spread(self, made: Publication) -> Publication:
        """The publication about the released places."""
        if self.shares is None or self.split:
            return made
        return spread_over_zones(made, self.shares)

    def joint(self, found: Joint) -> Joint:
        """The same about the released places, each id once."""
        if self.shares is not None and not self.split:
            found = found.mapped(self.shares.shares.T)
        ids, row = np.unique(self.released_ids, return_inverse=True)
        if ids.size < row.size:  # a tower that moved: its rows are added up in the table
            found = found.mapped(csr_array((np.ones(row.size), (row, np.arange(row.size)))))
        return found

    def noise_of_sum(self, made: Publication) -> float:
        """Standard deviation of the noise in the sum of all values, were each noised by itself."""
        spread = None if self.split else self.shares
        weights = np.ones(made.values.size) if spread is None else spread.sums
        return made.sd * float(np.linalg.norm(weights))

    @property
    def live(self) -> bool:
        """Whether the events are yet to come, so that no input can be bound."""
        return self.fingerprint == LIVE

    def config(self) -> dict[str, Any]:
        """What a resumed run must have in common; the version is on record and not compared."""
        facts = self.facts
        return {
            "sfumato": __version__,
            "stream": self.scheme.name,
            "settings": settings_of(self.scheme),
            **code_of(self.scheme),
            "epsilon": facts.epsilon,
            "delta": facts.delta,
            "expected_users": facts.expected_users,
            "unit": str(facts.unit),
            "time grid": self.grid.fingerprint(),
            "clock": self.grid.tz,
            "places": self.place_ids.tolist()
            if self.place_ids.size <= 50
            else _digest(self.place_ids),
            "consistency": self.consistency.value,
            "delay_seconds": self.delay_seconds,
            "reading": dict(self.reading),
            **({} if self.csv == "auto" else {"csv": self.csv}),
            **({} if self.about is None else {"about": self.about.given()}),
        }

    def claim(self) -> Claim:
        accounts = self.scheme.plan(self.facts).accounts
        if not accounts:  # its statement would promise nothing, and no reader would take it
            raise UsageError(
                f"The scheme {self.scheme.name} measures nothing, so nothing can be published.",
                remedy="It is there for studies to compare with: choose another `scheme`.",
            )
        return Claim(
            dataset=self.dataset,
            name=self.name,
            unit=charged_unit(self.facts.unit, self.grid),
            delta=self.facts.delta or 1e-9,
            period=(int(self.grid.edges[0]), int(self.grid.edges[-1])),
            events=tuple((account.label, account.event) for account in accounts),
            config=self.config(),
            fingerprint=self.fingerprint,
            out=str(self.out),
        )


class LiveStream:
    """Use as a context: it holds the release for this process."""

    def __init__(self, ledger: Ledger, request: StreamRequest, *, resume: bool = True) -> None:
        self._ledger = ledger
        self._request = request
        self._resume = resume
        self._held = ExitStack()
        self.noise_of_sum = 0.0
        """Standard deviation of the noise in the last slot's sum, as far as public facts tell."""
        self.kept: Any = None
        """Where the source stood when the last slot was published, in its own words."""

    def __enter__(self) -> Self:
        request, claim = self._request, self._request.claim()
        known = self._ledger.book().find(claim.dataset, claim.name)
        if known is not None and not self._resume:
            raise UsageError(
                f"The stream {claim.name!r} was begun before.",
                remedy="Go on with it with `resume=True`, or choose another `name`.",
            )
        if known is None and Outputs(request.out).in_use():
            raise UsageError(f"{request.out} holds another stream.", remedy="Choose another `out`.")
        found = self._ledger.reserve(claim)
        if isinstance(found, Charge):
            self._standing, self.finished = Standing(request.grid.slots), True
            Store(self._ledger, found.id, b"").forget()  # a kill may have come before this
            return self
        self.finished = False
        with ExitStack() as held:
            held.enter_context(self._ledger.keyring.hold(found.id))
            if self._ledger.book().charges[found.id].status is not Status.RESERVED:
                # Its rows are gone, so this process would begin again at the first slot.
                raise ReservationRefused("This stream was ended by another process just now.")
            self._open(found)
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    def _open(self, reservation: Reservation) -> None:
        request = self._request
        for account in request.scheme.plan(request.facts).accounts:
            reservation.charge(account.label, account.event)
        self._release, self.key = reservation.id, reservation.key
        self.meter = Meter(request.scheme.plan(request.facts).accounts, request.facts)
        self._publisher = Surely(request.scheme, request.facts)
        self._store = Store(self._ledger, reservation.id, reservation.key)
        self._outputs = Outputs(request.out)
        self._standing, state = self._store.load()
        self._outputs.check(self._standing)
        self._begin(reservation)
        self._steady = Steady(request.consistency)
        self._lines = b""
        if state:
            self._lines = bytes.fromhex(state.pop("lines"))
            self.meter.restore(state.pop("meter"))
            self._steady.before = state.pop("published", None)
            self._steady.raw = state.pop("raw", None)
            self.kept = state.pop(_SOURCE, None)
            self._publisher.restore(state)
        self._outputs.write(self._standing)

    def _begin(self, reservation: Reservation) -> None:
        """The public files that do not grow; refused where the manifest's list does not add up."""
        request, outputs = self._request, self._outputs
        bare = stream_manifest(request, reservation, {})
        check_claim(bare)
        readme = stream_readme(request, bare)
        said = outputs.begin(request.released_ids, readme, request.released)
        self._manifest = bare.model_copy(update={"files": said})
        manifest = self._manifest.model_dump(mode="json")
        outputs.state(self._statement(reservation) | {"manifest": manifest})

    @property
    def next_slot(self) -> int:
        """The slot to publish next; those before it are out for good."""
        return self._standing.next_slot

    def times(self, slot: int) -> tuple[datetime, datetime]:
        """When a slot begins and ends."""
        return self._request.grid.start(slot), self._request.grid.end(slot)

    def page(self) -> None:
        """Write the page of what is out, as of the last slot, in one step. Post-processing."""
        self._outputs.page(self._vouched())

    def sampling_key(self) -> bytes:
        """256 bits for the keyed order of sampling, the same on every start."""
        return Wall(self.meter, self.key).sampling_key("positions")

    def windows_to_show(self, slot: int) -> list[tuple[int, int]]:
        """First slots and ends of the windows that a finished scheme must see before this slot."""
        if self._request.scheme.finished:
            return windows_to_show(self._request.facts, slot, self._publisher.ahead)
        return []

    def prepare(self, whole: Private[Counts], first: int) -> None:
        """Show a finished scheme a window that begins at `first`: see `windows_to_show`.

        What it measures is kept with the slot that is published next. A kill before that measures
        it again: the same labels of the same key on the same history, so the same numbers.
        """
        if self._request.scheme.finished:
            wall = HearingWall(self.meter, self.key)
            self._publisher.prepare(self._placed(whole, first, wall), first, wall)

    def _placed(self, box: Private[Counts], first: int, wall: Wall) -> Private[Counts]:
        """Counts at towers, of one slot or of several, in zones; of the same sensitivity."""
        shares = self._request.shares
        if shares is None or not self._request.split:
            return box

        def split(counts: Counts) -> Counts:
            slots = counts.values.reshape(len(counts.values), -1).T
            found = [
                split_over_zones(slot, shares, wall.sampling_key(f"zones@{first + k}"))
                for k, slot in enumerate(slots)
            ]
            zones = np.stack(found, axis=1)
            return replace(counts, values=zones[:, 0] if counts.values.ndim == 1 else zones)

        return box.map(split)

    def publish(self, slot: int, box: Private[Counts], kept: Any = None) -> Publication:
        """Publish one slot, in order, once; `kept` says where the source stands after it.

        Both are one transaction, so that a source whose records have numbers is read from where
        the published slots end: none of its records is left out, and none counts twice.
        """
        if slot != self.next_slot:
            raise UsageError(f"The slot to publish now is {self.next_slot}, not {slot}.")
        request = self._request
        wall = HearingWall(self.meter, self.key)
        placed = self._placed(box, slot, wall)
        raw = self._publisher.publish(slot, placed, wall, self.meter)
        made, self.noise_of_sum = request.spread(raw), request.noise_of_sum(raw)
        if made.tainted:
            raise SfumatoError("Noise from a test seed is never published.")
        made = self._steady.made(made, wall.sampling_key(f"consistency@{slot}"))
        start, end = (when.isoformat() for when in self.times(slot))
        standing = Standing(
            slot + 1,
            table_bytes(request.released_ids, made),
            line_bytes(slot, start, end, made),
            self._standing.offset + len(self._standing.line),
        )
        state = dict(self._publisher.state()) | {"meter": self.meter.state()}
        self._lines = chained(self._lines, standing.line)
        state["lines"] = self._lines.hex()
        if self._steady.before is not None:
            state["published"] = self._steady.before
        if self._steady.raw is not None and request.consistency is Consistency.RANDOM:
            state["raw"] = self._steady.raw
        if kept is not None:
            state[_SOURCE] = self.kept = kept
        self._store.save(standing, state)
        self._standing = standing
        self._outputs.write(standing)
        return made

    def close(self) -> None:
        """Complete the folder, commit: the key is destroyed and the state removed."""
        if self.finished:
            return
        if self.next_slot < self._request.grid.slots:
            raise UsageError("The stream is not at its end yet.")
        if self._outputs.chain() != self._lines:
            raise SfumatoError(
                f"A line of {self._request.out / 'stream.ndjson'} was changed after it was "
                "published, so no manifest will vouch for it.",
                remedy="Restore the file from a copy and run the same again.",
            )
        request, kept, joint = self._request, self._publisher.kept(), None
        if request.scheme.plan(request.facts).joint and (made := self._publisher.joint()):
            joint = request.joint(made)
        files = self._outputs.end(self._vouched(), request.released, kept, joint)
        self._ledger.commit(self._release, files)
        self._store.forget()
        self.finished = True

    def _vouched(self) -> Manifest:
        """The manifest, with the remark that the last resort asks for."""
        if not self._publisher.spread:
            return self._manifest
        first = f"{number_of(self._publisher.spread, 'slots')}: {REMARK}"
        return self._manifest.model_copy(update={"caveats": [first, *self._manifest.caveats]})

    def _statement(self, reservation: Reservation) -> dict[str, Any]:
        request, facts = self._request, self._request.facts
        accounts = request.scheme.plan(facts).accounts
        events = [account.event for account in accounts]
        cost = compose(events, facts.delta or 1e-9) if events else None
        return {
            "scheme": request.scheme.name,
            "plan": list(request.scheme.plan(facts).lines),
            "unit": str(facts.unit),
            "neighbours": facts.unit.neighbours,
            "epsilon": None if cost is None else cost.epsilon,
            "delta": facts.delta,
            "events": {a.label: event_to_json(a.event) for a in accounts},
            "slots": request.grid.slots,
            "first": request.grid.start(0).isoformat(),
            "delay_seconds": request.delay_seconds,
            "late_events": "a slot closes this long after its end by the clock; what comes later "
            "is not counted",
            "counts": "one position per person and slot, chosen at random",
            "release": reservation.id,
            "ledger": ledger_row(reservation).model_dump(),
        }


def _digest(ids: NDArray[np.str_]) -> str:
    return hashlib.sha256("\n".join(ids.tolist()).encode()).hexdigest()
