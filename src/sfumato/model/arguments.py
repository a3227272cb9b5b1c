"""What a verb is given, held against its own signature before anything is read or spent.

`checked` is put on every verb where `sfumato` hands it out, and on `Desk` and `Ledger`. A number
where a path belongs would otherwise fail wherever it is first used, with a message about the
inside of the program, perhaps after a reservation; here it is an error of ours that names the
parameter.

The annotations are the table: `float` takes any real number and gives a `float`, `int` a whole
one, an alias what it stands for; items of lists and mappings are judged likewise. A name that is
imported for type checkers alone is compared with the names of the value's own classes. What is
annotated `object` is judged by the code that reads it. Words that a verb does not have stay
Python's own `TypeError`.
"""

from __future__ import annotations

import builtins
import errno
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from sfumato.errors import TOO_LONG, UsageError

P = ParamSpec("P")
R = TypeVar("R")

_SAID: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    date: "a date",
    os.PathLike: "a path",
    Mapping: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    tuple: "a tuple",
    Callable: "a function",
    types.NoneType: "None",
}


class _Names(dict[str, Any]):
    """A verb's globals; what only type checkers import is a class of that name."""

    def __missing__(self, name: str) -> Any:
        return type(name, (_Unknown,), {})


class _Unknown:
    """A class that is not imported at run time."""


class _Refused(Exception):
    """The value is of none of the kinds that fit."""


def opened(door: str, homes: Mapping[str, str], name: str) -> Any:
    """What a package offers by this name; a verb is `checked`."""
    if name not in homes:
        raise AttributeError(f"no attribute {name!r} in {door}: see dir(sfumato), dir(sfumato_lab)")
    offered = getattr(import_module(homes[name]), name)
    return checked(offered) if isinstance(offered, types.FunctionType) else offered


def checked(verb: Callable[P, R]) -> Callable[P, R]:
    """The same verb, which refuses arguments of the wrong kind and takes numbers as its own.

    Raises:
        UsageError: When it is called: the parameter, what it takes, and the kind of what was given,
            never the value.
    """
    signature = inspect.signature(verb)

    @wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        kinds = _kinds(verb)
        for name, value in bound.arguments.items():
            if name in kinds:
                taken = bound.arguments[name] = _taken(name, value, kinds[name])
                needed = signature.parameters[name].default is inspect.Parameter.empty
                if needed and isinstance(taken, tuple) and not taken:
                    raise UsageError(f"`{name}` is empty.")
        try:
            return verb(*bound.args, **bound.kwargs)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise UsageError(TOO_LONG) from None

    return call


@cache
def _kinds(verb: Callable[..., object]) -> dict[str, Any]:
    """By parameter what its annotation stands for."""
    known = _Names(vars(builtins) | verb.__globals__)
    return {
        name: eval(one.annotation, {}, known)
        for name, one in inspect.signature(verb).parameters.items()
        if isinstance(one.annotation, str)
    }


def _taken(name: str, value: object, kind: Any) -> object:
    try:
        taken = _as(value, kind)
    except _Refused:
        raise UsageError(f"`{name}` takes {_said(kind)}, and was given {_given(value)}.") from None
    # A path may hold bytes that are no characters; a name ends in files that are UTF-8.
    if isinstance(taken, str) and "PathLike" not in str(kind):
        try:
            taken.encode()
        except UnicodeEncodeError:
            raise UsageError(f"`{name}` holds something that is no character.") from None
    return taken


def _as(value: object, kind: Any) -> object:
    """The value, as a number of Python's own where the kind is one; refused where it is another."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _as_one_of(value, parts)
    kind = origin or kind
    if kind in (object, Any):
        return value
    if kind in (int, float):
        return _number(value, kind)
    if kind in (Sequence, Iterable, tuple):
        return _several(value, parts)
    if kind is Mapping:
        return _by_name(value, parts)
    if issubclass(kind, _Unknown):
        fits = any(one.__name__ == kind.__name__ for one in type(value).__mro__)
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise _Refused
    return value


def _as_one_of(value: object, kinds: Sequence[Any]) -> object:
    """Of the first kind that fits; a value that is one of them already is left as it is."""
    if any(type(value) is kind for kind in kinds if kind is not str):
        return value
    for kind in kinds:
        try:
            return _as(value, kind)
        except _Refused:
            continue
    raise _Refused


def _number(value: object, kind: type) -> object:
    """`True` is no number, and neither is an infinite one a whole one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _Refused
    try:
        taken = kind(value)
    except (OverflowError, ValueError):
        raise _Refused from None
    if kind is int and taken != value:
        raise _Refused
    return taken


def _several(value: object, parts: Sequence[Any]) -> object:
    """A list, item by item; a text is not a list of letters."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _Refused
    items = list(value)
    kinds = [one for one in parts if one is not Ellipsis]
    if len(kinds) == 1:
        kinds *= len(items)
    elif len(kinds) != len(items):
        raise _Refused
    return tuple(_as(one, kind) for one, kind in zip(items, kinds, strict=True))


def _by_name(value: object, parts: Sequence[Any]) -> object:
    if not isinstance(value, Mapping):
        raise _Refused
    return {_as(key, parts[0]): _as(one, parts[1]) for key, one in value.items()}


def _said(kind: Any) -> str:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        said = dict.fromkeys(_said(one) for one in typing.get_args(kind))
        *first, last = said
        return f"{', '.join(first)} or {last}" if first else last
    kind = typing.get_origin(kind) or kind
    return _SAID.get(kind) or f"a {getattr(kind, '__name__', 'function')}"


def _given(value: object) -> str:
    return "nothing (None)" if value is None else f"one of type {type(value).__name__}"
