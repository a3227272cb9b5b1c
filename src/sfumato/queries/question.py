"""`Question`: what may be asked of the data, in one closed form.

    {"measure": "unique_people", "zones": ["Z00003", "Z00004"], "hours": "8-10",
     "from": "2007-09-10", "to": "2007-09-15", "want": {"plus_minus": 50}}

A question is a set of places times a set of slots, and what is counted there: `visits` (a person
once per place and slot) or `unique_people` (a person once). However it is written, it becomes
sorted numbers of places and slots of a `Frame`, so that two questions are equal, or one holds the
other, exactly when their sets say so: what is stored is found again under every paraphrase.

Words mean what they mean to `sfumato ask`. A place lies in a polygon where its point does, for a
zone a point inside of it: a question has whole places only, so that its answer is a whole number
and no share of an area has to be paid for. Everything is judged against public facts, the declared
period and places, never against the data: where nobody was, the answer is 0 and noise.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.published.selection import as_polygon, place_weights, slot_weights

__all__ = ["Frame", "Measure", "Question", "QuestionSet", "Want", "parse_question"]

LONGEST_TEXT = 1 << 20
"""Characters of a question: 30,000 zones by name."""
LONGEST_NAME = 200
_FORM = (
    'Write for example {"measure": "visits", "zones": ["Z1"], "from": "2007-09-10", '
    '"to": "2007-09-11", "want": {"plus_minus": 50}}.'
)
_KEYS = frozenset(
    {"measure", "zones", "polygon", "from", "to", "hours", "weekdays", "want", "clip"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The public ground that a question is judged against: all places and all slots.

    `geometry` (points of towers, outlines of zones) is there where polygons may be asked for.
    """

    place_ids: NDArray[np.str_]
    grid: TimeGrid
    geometry: NDArray[np.object_] | None = None
    zones: Mapping[str, tuple[int, ...]] | None = None
    """Where places are towers and zones were given: the towers that stand in each zone."""
    fingerprint: str = field(init=False)
    """SHA-256 of the ids, in their order, and the slots."""

    @classmethod
    def of(cls, counted: Places, grid: TimeGrid, zones: Places | None = None) -> Frame:
        """The frame of places that are counted; zones, if any, name the towers inside of them."""
        if zones is None:
            return cls(counted.ids, grid, counted.geometry)
        zone, place = shapely.STRtree(counted.geometry).query(zones.geometry, "intersects")
        inside: dict[str, tuple[int, ...]] = {}
        for number, name in enumerate(zones.ids.tolist()):
            inside[name] = tuple(sorted(place[zone == number].tolist()))
        return cls(counted.ids, grid, counted.geometry, inside)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(f"frame/1|{self.grid.fingerprint()}|".encode())
        for name in self.place_ids.tolist():
            encoded = name.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        object.__setattr__(self, "fingerprint", digest.hexdigest())

    @property
    def places(self) -> int:
        return int(self.place_ids.size)

    @property
    def slots(self) -> int:
        return self.grid.slots

    def question(
        self, measure: Measure | str, places: Iterable[int], slots: Iterable[int]
    ) -> Question:
        """The question about these places and slots, by their numbers, in whatever order.

        Raises:
            UsageError: There is no such measure, place or slot, or none is named.
        """
        return Question(
            _measure(measure),
            _sorted(places, self.places, "place"),
            _sorted(slots, self.slots, "slot"),
            self.fingerprint,
        )

    def stored(self, data: Mapping[str, Any]) -> Question:
        """A question as `Question.stated` wrote it.

        Raises:
            UsageError: It was asked of other places or slots.
        """
        if data["frame"] != self.fingerprint:
            raise UsageError("The question was asked of other places or slots.")
        return self.question(data["measure"], _members(data["places"]), _members(data["slots"]))

    def told(self, question: Question) -> str:
        """The question in words."""
        named = [str(self.place_ids[place]) for place in question.places[:3]]
        many = len(question.places)
        if many == self.places:
            where = f"all {many:,} places" if many > 1 else named[0]
        else:
            more = f" and {many - 3:,} other{'' if many == 4 else 's'}" if many > 3 else ""
            where = ", ".join(named) + more
        first, last = question.slots[0], question.slots[-1]
        gaps = "" if last - first + 1 == len(question.slots) else ", with gaps"
        slots = f"{len(question.slots):,} slot{'' if len(question.slots) == 1 else 's'}"
        form = "%a %Y-%m-%d %H:%M"
        begin, end = self.grid.start(first).strftime(form), self.grid.end(last).strftime(form)
        what = str(question.measure).replace("_", " ")
        return f"{what} in {where}, {slots} from {begin} to {end}{gaps}"


@dataclass(frozen=True, slots=True)
class Question:
    """Sorted numbers of places times sorted numbers of slots, and what is counted in them.

    Made by `Frame.question` or `parse_question`, which sort and check; equal questions are equal
    values. Containment and disjointness are those of the sets of (place, slot) pairs, whatever is
    counted in them.

    Example:
        >>> from datetime import timedelta
        >>> grid = TimeGrid(np.arange(4) * 3_600_000_000, timedelta(hours=1), "UTC")
        >>> frame = Frame(np.array(["a", "b"]), grid)
        >>> morning = frame.question("visits", [1, 0], [0, 1])
        >>> morning.contains(frame.question("visits", [1], [1]))
        True
        >>> morning.key() == frame.question("visits", [0, 1, 1], [1, 0]).key()
        True
    """

    measure: Measure
    places: tuple[int, ...]
    slots: tuple[int, ...]
    frame: str = ""
    """Fingerprint of the places and slots that the numbers count."""

    def __repr__(self) -> str:
        places, slots = len(self.places), len(self.slots)  # their numbers may be a megabyte
        return f"<Question: {self.measure}, {places:,} of the places, {slots:,} of the slots>"

    def key(self) -> str:
        """Digest of frame, measure and sets: equal questions, equal keys."""
        digest = hashlib.sha256(f"question/1|{self.frame}|{self.measure}|".encode())
        for members in (self.places, self.slots):
            digest.update(len(members).to_bytes(8, "little"))
            digest.update(np.asarray(members, "<i8").tobytes())
        return digest.hexdigest()

    def contains(self, other: Question) -> bool:
        """Whether every (place, slot) of the other is one of this."""
        self._same_frame(other)
        return set(self.places) >= set(other.places) and set(self.slots) >= set(other.slots)

    def disjoint(self, other: Question) -> bool:
        """Whether no (place, slot) belongs to both."""
        self._same_frame(other)
        places = set(self.places).isdisjoint(other.places)
        return places or set(self.slots).isdisjoint(other.slots)

    def stated(self) -> dict[str, Any]:
        """As it is kept: runs of numbers, first and last; `Frame.stored` reads it."""
        return {
            "frame": self.frame,
            "measure": str(self.measure),
            "places": _runs(self.places),
            "slots": _runs(self.slots),
        }

    def _same_frame(self, other: Question) -> None:
        if self.frame != other.frame:
            raise UsageError("The two questions are about different places or slots.")


def _sorted(given: Iterable[int], size: int, what: str) -> tuple[int, ...]:
    found = sorted({int(number) for number in given})
    if not found or found[0] < 0 or found[-1] >= size:
        raise UsageError(f"A question names at least one {what}, from 0 to {size - 1}.")
    return tuple(found)


def _runs(members: tuple[int, ...]) -> list[list[int]]:
    numbers = np.asarray(members, np.int64)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate([[0], breaks + 1])]
    lasts = numbers[np.concatenate([breaks, [numbers.size - 1]])]
    return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)]


def _members(runs: Iterable[Sequence[int]]) -> list[int]:
    return [number for first, last in runs for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Want:
    """How exact an answer is wanted: for what epsilon, or how wide; and the clip of visits.

    `plus_minus` is the absolute half-width of a 90 % interval. `clip` is C, the most that one
    person's visits count in the answer; the number of slots of the question where none is given.
    """

    epsilon: float | None = None
    plus_minus: float | None = None
    clip: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class QuestionSet:
    """Questions about one frame, in their order, and the bits by which they are counted."""

    frame: Frame
    questions: tuple[Question, ...]
    masks: Masks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if any(question.frame != self.frame.fingerprint for question in self.questions):
            raise UsageError("A question is about other places or slots than the others.")
        sets = [(question.places, question.slots) for question in self.questions]
        object.__setattr__(self, "masks", Masks.of(self.frame.places, self.frame.slots, sets))

    def __len__(self) -> int:
        return len(self.questions)


def parse_question(
    given: str | Mapping[str, Any] | Question, frame: Frame
) -> tuple[Question, Want]:
    """A question in its closed form, as text or mapping, against the places and slots it is about.

    Args:
        given: JSON, or the same as a mapping: `measure`; `zones` (ids, or "all", the default) or a
            `polygon`; `from` and `to`; `hours`; `weekdays`; `want` with `epsilon` or `plus_minus`;
            `clip`. A `Question` is taken as it is.
        frame: What it is about.

    Returns:
        The question, and how exact its answer is wanted (empty where nothing is said).

    Raises:
        UsageError: It is not of that form; no other word is accepted.
        InputError: There is no such place or time in the frame.

    Example:
        >>> from datetime import timedelta
        >>> grid = TimeGrid(np.arange(25) * 3_600_000_000, timedelta(hours=1), "UTC")
        >>> frame = Frame(np.array(["a", "b"]), grid)
        >>> parse_question('{"measure": "visits", "zones": ["b"], "hours": "8-10"}', frame)[0].slots
        (8, 9)
    """
    if isinstance(given, Question):
        if given.frame != frame.fingerprint:
            raise UsageError("The question is about other places or slots.")
        return given, Want()
    words = _words(given)
    unknown = sorted(str(key)[:40] for key in words.keys() - _KEYS)
    if unknown:
        raise UsageError(
            f"A question has no word {unknown[0]!r}.", remedy=f"It has {', '.join(sorted(_KEYS))}."
        )
    measure = _measure(words.get("measure"))
    places = np.flatnonzero(_places(words, frame))
    slots = np.flatnonzero(_slots(words, frame.grid))
    question = frame.question(measure, places.tolist(), slots.tolist())
    return question, _want(words, question)


def _refuse(problem: str) -> NoReturn:
    raise UsageError(problem, remedy=_FORM)


def _words(given: object) -> Mapping[str, Any]:
    if isinstance(given, str):
        if len(given) > LONGEST_TEXT:
            _refuse("The question is longer than a megabyte.")
        given = read_json(given)
    if not isinstance(given, Mapping):
        _refuse("A question is a JSON object.")
    return given


def read_json(text: str) -> Any:
    """JSON whose objects name every word once, and whose numbers are finite.

    Raises:
        UsageError: It is not that.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except SfumatoError:
        raise
    except (ValueError, RecursionError):
        _refuse("The question is not JSON.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("A word of the question stands in it twice.")
    return found


def _no_number(text: str) -> NoReturn:
    _refuse(f"{text} is not a number that can be asked for.")


def _measure(given: object) -> Measure:
    try:
        return Measure(str(given) if isinstance(given, str) else "")
    except ValueError:
        raise UsageError(
            "A question says what is counted in `measure`.",
            remedy=f"Choose from {', '.join(Measure)}.",
        ) from None


def _places(words: Mapping[str, Any], frame: Frame) -> NDArray[np.float64]:
    zones, polygon = words.get("zones"), words.get("polygon")
    if zones is not None and polygon is not None:
        raise UsageError("Zones and a polygon were given.", remedy="Give one of the two.")
    if polygon is not None:
        return _inside(polygon, frame)
    if zones is None or (isinstance(zones, str) and zones == "all"):
        return np.ones(frame.places)
    named = [zones] if isinstance(zones, str) else zones
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        _refuse('`zones` are ids, as a list of texts, or "all".')
    if any(len(one) > LONGEST_NAME for one in named):
        raise InputError("One of the zones has a name that no place has.")
    if frame.zones is None:
        return place_weights(frame.place_ids, named, of="map")
    place_weights(np.array(list(frame.zones)), named, of="map")
    found = np.zeros(frame.places)
    found[[place for one in named for place in frame.zones[one]]] = 1.0
    if not found.any():
        raise InputError(
            "No tower stands in these zones, so nobody is ever counted there.",
            remedy="Name zones with towers; a question is about towers, whole ones.",
        )
    return found


def _inside(given: object, frame: Frame) -> NDArray[np.float64]:
    if not isinstance(given, str | Mapping | shapely.Geometry):
        _refuse("`polygon` is GeoJSON, WKT, or west,south,east,north.")
    if frame.geometry is None:
        raise InputError("The places have no outlines here.", remedy="Name the zones instead.")
    try:
        area = as_polygon(given, files=False)  # whoever asks may not open the holder's files
        points = shapely.point_on_surface(frame.geometry)
        shapely.prepare(area)
        found = np.asarray(shapely.intersects(area, points)).astype(np.float64)
    except (OSError, RecursionError, KeyError, AttributeError):
        raise UsageError(
            "The polygon cannot be read.", remedy="Give GeoJSON, WKT, or west,south,east,north."
        ) from None
    if not found.any():
        west, south, east, north = shapely.total_bounds(points)
        raise InputError(
            "No place lies in the polygon.",
            remedy=f"The places lie between {west:.3f} and {east:.3f} degrees east and between "
            f"{south:.3f} and {north:.3f} degrees north.",
        )
    return found


def _slots(words: Mapping[str, Any], grid: TimeGrid) -> NDArray[np.float64]:
    for key in ("from", "to"):
        if not isinstance(words.get(key), str | None):
            _refuse(f"`{key}` is a date or a time, as text.")
    for key in ("hours", "weekdays"):
        said = words.get(key)
        many = said if isinstance(said, list | tuple) else () if said is None else (said,)
        allowed = int if key == "hours" and isinstance(said, list | tuple) else int | str
        if any(isinstance(one, bool) or not isinstance(one, allowed) for one in many):
            _refuse(f"The {key} are not understood.")
    return slot_weights(
        grid,
        words.get("from"),
        words.get("to"),
        words.get("hours"),
        words.get("weekdays"),
        "period",
    )


def _want(words: Mapping[str, Any], question: Question) -> Want:
    said, clip = words.get("want"), words.get("clip")
    if clip is not None:
        if question.measure is Measure.UNIQUE_PEOPLE:
            raise UsageError(
                "A person counts once in `unique_people`: there is nothing to clip.",
                remedy="Leave `clip` out.",
            )
        most = len(question.slots)
        if isinstance(clip, bool) or not isinstance(clip, int) or not 1 <= clip <= most:
            raise UsageError(
                f"The clip of this question is a whole number from 1 to {most}, its slots.",
                remedy="Leave it out for the largest.",
            )
    if said is None:
        return Want(clip=clip)
    if not isinstance(said, Mapping) or len(said) != 1 or not {*said} <= {"epsilon", "plus_minus"}:
        raise UsageError(
            "`want` names one of `epsilon` and `plus_minus`.",
            remedy='Write {"epsilon": 0.1}, or {"plus_minus": 50} for a number and not a share: '
            "an answer that is exact to a share of itself would have to look at itself first.",
        )
    ((key, value),) = said.items()
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        raise UsageError(f"`{key}` of a question is a positive number.", remedy=_FORM)
    return Want(**{key: number}, clip=clip)
