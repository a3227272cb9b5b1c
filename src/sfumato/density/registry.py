"""The schemes by name: what `--scheme` chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sfumato.density import baselines, grouping
from sfumato.density.baselines import Gaussian, Laplace
from sfumato.density.bayes import Bayes
from sfumato.density.bayes import scheme as bayes
from sfumato.density.grouping import Grouping
from sfumato.density.paris import Paris
from sfumato.density.paris import settings as paris
from sfumato.density.scheme import Scheme
from sfumato.errors import UsageError

SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {scheme.name: scheme for scheme in (Laplace(), Gaussian(), Grouping(), Paris(), Bayes())}
)
PARAMETERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "laplace": baselines.WORDS,
        "gaussian": baselines.WORDS,
        "grouping": grouping.WORDS,
        "paris": paris.WORDS,
        "bayes": bayes.PARAMETERS,
    }
)
"""The parameters that each scheme declares, in words."""
OWN_BOUNDS = frozenset({"bayes"})
"""Schemes that bound people by rules of their own and take no `--bound`."""


def scheme_named(name: str) -> Scheme:
    """The scheme of that name, or an error that lists them."""
    if name not in SCHEMES:
        raise UsageError(
            f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(sorted(SCHEMES))}."
        )
    return SCHEMES[name]
