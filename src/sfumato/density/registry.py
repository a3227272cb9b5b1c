"""The schemes by name. A new one is a file of its own and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sfumato.density.baselines import Gaussian, Laplace
from sfumato.density.bayes import Bayes
from sfumato.density.grouping import Grouping
from sfumato.density.paris import Paris
from sfumato.density.scheme import Scheme
from sfumato.errors import UsageError

DEFAULT = "bayes"
SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Laplace(),
            Gaussian(),
            Grouping(),
            Paris(),
            Bayes(),
        )
    }
)


def scheme_named(name: str) -> Scheme:
    """The scheme of that name, or an error that lists them."""
    if name not in SCHEMES:
        raise UsageError(
            f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(sorted(SCHEMES))}."
        )
    return SCHEMES[name]
