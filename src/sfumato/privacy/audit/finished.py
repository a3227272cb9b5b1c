"""What a scheme publishes under equal answers of the wall, byte by byte.

Everything behind the wall's answers must be post-processing: a function of these answers and of
public facts. So a scheme that is run on one input and replayed on its neighbour with the very
same answers must hand back the same bytes: the table, its intervals, its remarks, the files that
are made from them. A byte that differs was decided from private numbers that nobody paid for,
and so was a run that is refused on one of the two inputs only.

There is no chance in the comparison, and it does not ask how the numbers got out: through a
box that was opened, a function that looked around inside one, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

import numpy as np

from sfumato.model.source import Source
from sfumato.privacy.audit.transcript import ListeningWall, Scheme, Step, same_measurements
from sfumato.privacy.charging import Charger

Publisher = Callable[[object], Mapping[str, bytes]]
"""From what a scheme hands back to everything that is published of it, by name."""

REFUSED = "refusal"


@dataclass(frozen=True, slots=True)
class Finished:
    """One run to its end: the transcript, and what was published or why nothing was."""

    steps: list[Step]
    parts: Mapping[str, bytes]
    refusal: Exception | None = None


def play(
    scheme: Scheme,
    source: Source,
    charger: Charger,
    key: bytes,
    publish: Publisher,
    answers: Sequence[Step] = (),
) -> Finished:
    """Run to the end, or replay with the `answers` of another run, and publish."""
    wall = ListeningWall(charger, key, answers)
    try:
        parts = publish(scheme(source, wall))
    except Exception as error:  # a refusal is an answer too: it is compared like the rest
        said = f"{type(error).__name__}: {error}".encode()
        return Finished(wall.steps, {REFUSED: said}, error)
    return Finished(wall.steps, parts)


def differing(one: Finished, other: Finished) -> list[str]:
    """Names of the parts that are not the same bytes, and the measurements if others were taken."""
    names = [*one.parts, *(name for name in other.parts if name not in one.parts)]
    found = [name for name in names if one.parts.get(name) != other.parts.get(name)]
    if not same_measurements(one.steps, other.steps):
        found.insert(0, "measurements taken")
    return found


def parts_of(output: object, name: str = "") -> dict[str, bytes]:
    """Every field of what a scheme hands back, by its path: `values`, `measurements/0/label`."""
    if isinstance(output, np.ndarray):
        return {name: f"{output.dtype} {output.shape} ".encode() + output.tobytes()}
    below: Mapping[str, object]
    if is_dataclass(output) and not isinstance(output, type):
        below = {field.name: getattr(output, field.name) for field in fields(output)}
    elif isinstance(output, Mapping):
        below = {str(key): value for key, value in output.items()}
    elif isinstance(output, list | tuple):
        below = {str(i): value for i, value in enumerate(output)}
    else:
        return {name: repr(output).encode()}
    found = {name: f"{type(output).__name__} of {len(below)}".encode()} if name else {}
    for key, value in below.items():
        found |= parts_of(value, f"{name}/{key}" if name else key)
    return found
