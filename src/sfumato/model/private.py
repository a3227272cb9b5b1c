"""`Private`: a box around numbers that have not passed the wall.

Nothing about the content can be printed, logged, compared, iterated, converted or
pickled by accident. The box knows its shape in public terms only (what the caller
said about it), and `sfumato.privacy.door` is the one place that opens it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

from sfumato.errors import PrivateNumbers, SfumatoError

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

_DOOR = "sfumato.privacy.door"
_LIBRARY = sys.stdlib_module_names - {"__main__"}
_BOUND = {"sfumato", "sfumato_lab"}


def bind(package: str) -> None:
    """Put a package under the wall's rules, before anything of it runs.

    The product and its laboratory always stand under them; a package that adds schemes or
    commands is bound when it is loaded. This stops mistakes, not malice: Python hides nothing
    from code that runs beside it.
    """
    _BOUND.add(package.partition(".")[0])


def is_bound(module: str) -> bool:
    """Whether code of this module stands under the wall's rules; the holder's own does not."""
    return module.partition(".")[0] in _BOUND


def calling_module() -> str:
    """Name of the module whose code called the caller of this; empty where there is none.

    Code of the standard library (a thread pool, `functools`) is looked through: it calls on
    behalf of somebody. A thread that nobody's code is behind has no name, and gets nothing.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _LIBRARY:
            return name
        frame = frame.f_back
    return ""


class Private(Generic[T]):
    """A value left of the wall. `label` is public and must not depend on the data."""

    __slots__ = ("__content", "label")

    def __init__(self, content: T, label: str) -> None:
        self.__content = content
        self.label = label

    def map(self, function: Callable[[T], S], label: str | None = None) -> Private[S]:
        """Compute on the content without leaving the box.

        An error of the function may carry the content in its message, its arguments or its
        frames, so it does not leave the box either: only its kind does. Our own errors never
        show a record and pass as they are.
        """
        try:
            return Private(function(self.__content), label or self.label)
        except SfumatoError:
            raise
        except Exception as error:
            kind = type(error).__name__
        raise PrivateNumbers(
            f"A computation on {self!r} failed with {kind}; its message stays private.",
            remedy="Try the same computation on made-up numbers to see it.",
        )

    def map_with(self, other: Private[R], function: Callable[[T, R], S], label: str) -> Private[S]:
        """Compute on two contents together; the result stays in a box, errors too."""
        mine = self.__content
        return other.map(lambda theirs: function(mine, theirs), label)

    def _through_the_door(self) -> T:
        """For `sfumato.privacy.door` alone: any other module of a bound package is refused."""
        caller = calling_module()
        if not caller or (is_bound(caller) and caller != _DOOR):
            self._refuse()
        return self.__content

    def __repr__(self) -> str:
        return f"<private {self.label}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PrivateNumbers(
            f"{self!r} has not passed the wall and cannot be looked at.",
            remedy="Take a measurement of it (sfumato.privacy.mechanisms), which the ledger "
            "charges first.",
        )

    __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __bool__ = __int__ = __float__ = __index__ = __complex__ = _refuse
    __array_ufunc__ = __array_function__ = _refuse
    __array__ = __arrow_c_array__ = __arrow_c_stream__ = __dataframe__ = __buffer__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __neg__ = __abs__ = _refuse
    __rmatmul__ = __rfloordiv__ = __rmod__ = __rpow__ = __divmod__ = __round__ = _refuse
    __and__ = __or__ = __xor__ = __invert__ = __reversed__ = __bytes__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __hash__ = None  # type: ignore[assignment]
