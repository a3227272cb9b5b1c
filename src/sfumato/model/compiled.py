"""numba's decorators with the types of what they decorate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile at the first call, keep the result on disk, let go of the lock while it runs."""
    return cast(_Function, njit(cache=True, nogil=True)(function))


def inlined(function: _Function) -> _Function:
    """The same, written into its callers: for a step that inner loops take."""
    return cast(_Function, njit(cache=True, nogil=True, inline="always")(function))
