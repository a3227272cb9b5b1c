"""The methods of synthesis by name. A new one is a file of its own and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sfumato.errors import UsageError
from sfumato.model.extras import required
from sfumato.synthesis.method import Method
from sfumato.synthesis.trips.adatrace import AdaTrace
from sfumato.synthesis.trips.dpt import Dpt
from sfumato.synthesis.trips.fit import Fit
from sfumato.synthesis.trips.recurrent import Recurrent
from sfumato.synthesis.trips.trees import NGrams, Prefix
from sfumato.synthesis.weeks import Weeks
from sfumato.synthesis.where import Where

DEFAULT = "weeks"
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (Weeks(), Where(), Fit(), AdaTrace(), NGrams(), Prefix(), Dpt(), Recurrent())
    }
)


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        UsageError: There is none, or it needs an extra that is not installed.
    """
    if name not in METHODS:
        raise UsageError(
            f"There is no method {name!r}.", remedy=f"Choose from {', '.join(sorted(METHODS))}."
        )
    found = METHODS[name]
    if extra := found.declares.extra:
        required(extra, what=f"The method {name}")
    return found
