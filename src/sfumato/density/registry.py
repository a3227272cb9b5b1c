"""The schemes by name. A new one is a file of its own and a line here."""

from __future__ import annotations

from sfumato.density.baselines import Gaussian, Laplace
from sfumato.density.bayes import Bayes
from sfumato.density.paris import Paris
from sfumato.density.scheme import Scheme
from sfumato.errors import UsageError
from sfumato.model.extensions import Registry

DEFAULT = "bayes"
SCHEMES: Registry[Scheme] = Registry(
    "density scheme",
    {
        scheme.name: scheme
        for scheme in (
            Laplace(),
            Gaussian(),
            Paris(),
            Bayes(),
        )
    },
)
"""The product's own, and what others offer."""


def scheme_named(name: str) -> Scheme:
    """The scheme of that name, or an error that lists them."""
    if name not in SCHEMES:
        raise UsageError(
            f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(sorted(SCHEMES))}."
        )
    return SCHEMES[name]
