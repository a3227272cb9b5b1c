"""`compiled`: numba's decorator with the type of what it decorates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile at the first call, keep the result on disk, let go of the lock while it runs."""
    return cast(_Function, njit(cache=True, nogil=True)(function))
