"""Stored answers as the ledger has them, and the release that sums may be read from.

An answer stands in the row that commits its reservation: sealed, in order, and written once. Here
the rows become `Stored` answers about one frame and its places as they stand: a zone with another
outline is another place. Answers of one *edition* are used together, and of these only those about
the same input, by its fingerprint, as the newest of the data set's own: what was measured on other
records is about other records, in linked data sets too.

A desk that is tried out stands on made-up people instead: no record is read, nothing is stored.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import shapely

from sfumato.errors import UsageError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.ledger.records import Book, Charge
from sfumato.privacy.mechanisms.additive import gaussian_variance, laplace_variance
from sfumato.published.release import Release, read_release
from sfumato.queries.pricing import HALF_WIDTH, LABEL, LAPLACE_HALF_WIDTH
from sfumato.queries.question import Frame
from sfumato.queries.routing import Cube, Stored


class Store:
    """Answers to single questions about one frame, read from the ledger's rows as they come."""

    def __init__(self, frame: Frame, places: str, dataset: str, edition: str) -> None:
        self._frame, self._dataset, self._edition = frame, dataset, edition
        self._places = places
        self._seen: dict[str, tuple[str, Stored] | None] = {}

    def answers(self, book: Book, fingerprint: str | None = None) -> list[Stored]:
        """Those about this input; about that of the newest answer, where none is named."""
        others = sorted(book.linked[self._dataset] - {self._dataset})
        own = book.answered.get(self._dataset, [])
        ids = [one for name in others for one in book.answered.get(name, ())] + own
        for one in ids:
            if one not in self._seen:
                self._seen[one] = self._read(book.charges[one])
        if fingerprint is None:
            known = (self._seen[one] for one in reversed(own))
            fingerprint = next((found[0] for found in known if found is not None), None)
        found = [of for one in ids if (of := self._seen[one]) is not None]
        return [stored for of, stored in found if of == fingerprint]

    def _read(self, charge: Charge) -> tuple[str, Stored] | None:
        """The stored answer; None for one about other places, slots or editions."""
        claim = charge.claim
        config, made = claim.config, charge.answer
        if config.get("kind") != "question" or config.get("frame") != self._frame.fingerprint:
            return None
        if config.get("places") != self._places:
            return None
        if config.get("edition") != self._edition or made is None:
            return None
        event, units = dict(claim.events)[LABEL], int(made["units"])
        if isinstance(event, GaussianEvent):
            variance = gaussian_variance(event.sigma2) / units**2
            half = HALF_WIDTH * float(np.sqrt(variance))
        else:
            variance = laplace_variance(event.scale) / units**2  # type: ignore[union-attr]
            half = LAPLACE_HALF_WIDTH * float(event.scale) / units  # type: ignore[union-attr]
        question = self._frame.stored(config["question"])
        value = int(made["noisy"]) / units
        stored = Stored(charge.id, question, int(config["clip"]), value, variance, half)
        return claim.fingerprint, stored


def cube_of(release: Release | str | os.PathLike[str], frame: Frame, dataset: str) -> Cube:
    """The release as a cube that questions of the frame can be put to.

    Raises:
        UsageError: It counts something else, or other places or people.
        InputError: It cannot be read.
    """
    read = release if isinstance(release, Release) else read_release(release)
    facts = read.manifest
    why = ""
    if read.kind != "density" or facts.grid.fold is not None:
        why = "it is not a density of a period"
    elif facts.privacy.counting != "visits":
        why = "it counts people in slots, and questions count visits"
    elif dataset and dataset not in facts.privacy.cumulative.datasets:
        why = "it is about the people of another data set"
    elif facts.tainted:
        why = "its noise came from a test seed"
    elif read.ids.tolist() != frame.place_ids.tolist():
        why = "its places are others than those that questions are about"
        if frame.zones is not None:
            why += ", which are towers also where zones name them"
    elif _lie_elsewhere(read, frame):
        why = "its places have the same names and lie elsewhere"
    elif read.posterior is None:
        why = "it does not say how sure its sums are"
    if why:
        raise UsageError(
            f"The release cannot answer questions here: {why}.",
            remedy="Give one made with the same places and `count='visits'`, or none; "
            "`sfumato.ask` puts questions to any release.",
        )
    assert read.posterior is not None
    edges, own = frame.grid.edges, read.grid.edges
    at = np.searchsorted(own, edges[:-1])
    inside = at < own.size - 1
    near = np.where(inside, at, 0)
    after = own[np.minimum(near + 1, own.size - 1)]
    same = inside & (own[near] == edges[:-1]) & (after == edges[1:])
    slots = np.where(same, near, -1).astype(np.int64)
    return Cube(read.posterior, slots, facts.release.name, facts.release.id)


_NEAR = 1e-6
"""Degrees, a tenth of a metre: files of outlines are rounded."""


def _lie_elsewhere(read: Release, frame: Frame) -> bool:
    """Whether places of one name have two outlines; a tower and its cell are not compared."""
    ours, theirs = frame.geometry, read.geometry
    if ours is None or theirs is None:
        return False
    alike = shapely.get_dimensions(ours) == shapely.get_dimensions(theirs)
    same = shapely.equals_exact(shapely.normalize(ours), shapely.normalize(theirs), _NEAR)
    # The same area with other vertices, or begun elsewhere by rounding, is the same place.
    left = np.flatnonzero(alike & ~same)
    apart = shapely.hausdorff_distance(ours[left], theirs[left])
    return bool((apart > _NEAR).any())


DUMMY_PEOPLE = 1_000
DUMMY_VISITS = 20
DUMMY_AT_HOME = 0.6
"""Share of visits at the place where a person lives."""


def dummy_events(places: Places, grid: TimeGrid, people: int = DUMMY_PEOPLE) -> pa.Table:
    """Events of made-up people, for trying questions out: their numbers mean nothing."""
    rng = np.random.default_rng(20170911)
    home = np.repeat(rng.integers(len(places), size=people), DUMMY_VISITS)
    place = np.where(
        rng.random(home.size) < DUMMY_AT_HOME, home, rng.integers(len(places), size=home.size)
    )
    slot = rng.integers(grid.slots, size=home.size)
    middle = (grid.edges[slot] + grid.edges[slot + 1]) // 2
    user = np.repeat(np.arange(people), DUMMY_VISITS)
    columns = {"user": pa.array(user), "time": pa.array(middle, pa.timestamp("us", "UTC"))}
    if places.kind is PlaceKind.TOWERS:
        columns["tower"] = pa.array(places.ids[place].tolist())
    else:
        points = shapely.point_on_surface(places.geometry[place])
        columns |= {"lon": pa.array(shapely.get_x(points)), "lat": pa.array(shapely.get_y(points))}
    return pa.table(columns)
