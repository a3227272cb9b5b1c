"""The one place that opens private boxes.

Two callers are legitimate: a mechanism that has just been charged, and the holder's own
internal comparison with the truth (`evaluate`, `attack`), whose results are marked
internal. The import rules name them; nothing else may import this module.
"""

from __future__ import annotations

from typing import TypeVar

from sfumato.model.private import Private

T = TypeVar("T")


def open_private(box: Private[T]) -> T:
    """The content. Whoever calls this answers for where the numbers go."""
    return box._through_the_door()
