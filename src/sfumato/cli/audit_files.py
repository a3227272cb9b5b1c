"""Everything a density release writes, for an audit: the real files of a made-up reservation.

The budget is reserved once, in a ledger of its own that is thrown away, so that two outputs
which are compared share every public fact: name, time, spend so far. What still differs between
their files comes from the scheme.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from sfumato.density.scheme import Density, Plan, PublicFacts
from sfumato.model.errors import UsageError
from sfumato.model.places import Places
from sfumato.privacy.audit.finished import Publisher, parts_of
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation
from sfumato.release_folder import Finish, write_release

_DATASET = "made-up people"


def release_files(facts: PublicFacts, plan: Plan, counted: Places, released: Places) -> Publisher:
    """From a density to its own fields and to the bytes of all files of its release."""
    reservation = _reserved(facts, plan)

    def publish(output: object) -> Mapping[str, bytes]:
        assert isinstance(output, Density)
        with tempfile.TemporaryDirectory(prefix="sfumato-audit-") as name:
            folder = Path(name)
            write_release(folder, facts, plan, Finish(), output, reservation, counted, released)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return {**parts_of(output), **files}

    return publish


def _reserved(facts: PublicFacts, plan: Plan) -> Reservation:
    with tempfile.TemporaryDirectory(prefix="sfumato-audit-") as name:
        ledger = Ledger(Path(name) / "ledger.sqlite", Path(name) / "ledger.key")
        ledger.initialise()
        ledger.add_dataset(
            _DATASET, Cap(epsilon=10 * facts.epsilon, delta=min(0.5, 10 * facts.delta))
        )
        found = ledger.reserve(
            Claim(
                dataset=_DATASET,
                name=f"audit of {plan.scheme}",
                unit=facts.unit,
                delta=facts.delta,
                period=(int(facts.grid.edges[0]), int(facts.grid.edges[-1])),
                events=tuple(plan.events.items()),
                config={},
                fingerprint="made up",
                out=str(Path(name) / "out"),
            )
        )
    if not isinstance(found, Reservation):
        raise UsageError("A new ledger knows no release.")
    return found
