"""The methods of synthesis by name: the product's own, and those that others offer.

A new one is a file of its own and a line here, or a row in another distribution's table of offers
(`sfumato.model.extensions`), kind "synthesis method": a class that takes no arguments. Of one that
others offer a reservation binds distribution, version and a digest of its code.
"""

from __future__ import annotations

from collections.abc import Callable

from sfumato.errors import UsageError
from sfumato.model.extensions import Registry
from sfumato.synthesis.method import Method
from sfumato.synthesis.trips.fit import Fit
from sfumato.synthesis.weeks import Weeks

DEFAULT = "weeks"
METHODS = Registry[Callable[[], Method]]("synthesis method", {"weeks": Weeks, "fit": Fit})


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        UsageError: There is none, or its code does not load.
    """
    if name not in METHODS:
        raise UsageError(
            f"There is no method {name!r}.", remedy=f"Choose from {', '.join(sorted(METHODS))}."
        )
    return METHODS[name]()
