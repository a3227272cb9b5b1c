"""Optional parts: which extra brings which packages, and the error where one is not installed.

What a release, a report, a question, a stream and an evaluation need is installed with sfumato;
everything here is not (weighed in docs/decisions/install.md). An optional package is loaded by
`optional` where it is used and nowhere else, so that a part that is not there costs nothing until
it is asked for, and then says which line installs it. Long work that ends in an optional package
asks with `required` before it begins.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sfumato.errors import UsageError

EXTRAS = {
    "emd": ("ot",),
    "h3": ("h3",),
    "plots": ("matplotlib",),
    "postgres": ("psycopg", "adbc_driver_postgresql"),
    "kafka": ("confluent_kafka",),
    "spark": ("pyspark",),
    "xarray": ("xarray",),
    "rnn": ("torch",),
}
"""The modules that each extra of `pyproject.toml` brings."""
PACKAGES = {
    "emd": ("POT>=0.9.7",),
    "h3": ("h3>=4.1",),
    "plots": ("matplotlib>=3.9",),
    "postgres": ("psycopg[binary]>=3.2", "adbc-driver-postgresql>=1.10"),
    "kafka": ("confluent-kafka>=2.6",),
    "spark": ("pyspark[connect]>=4.0",),
    "xarray": ("xarray>=2024.6",),
    "rnn": ("torch==2.13.0",),
}
"""The requirements of each extra, word for word as in `pyproject.toml`."""


def line_for(*extras: str) -> str:
    """The line that installs extras.

    It names packages rather than `sfumato[extra]`, which an index resolves: whoever runs a clone or
    a wheel file has a sfumato that no index may know.
    """
    return "pip install " + " ".join(f"'{one}'" for extra in extras for one in PACKAGES[extra])


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def required(*extras: str, what: str, instead: str = "") -> None:
    """Refuses at once, before long work, where an extra that it will need is not installed.

    Args:
        extras: Such as `emd`.
        what: Needs them; the beginning of the sentence that says so.
        instead: What else can be done, a sentence of the remedy.

    Raises:
        UsageError: One is not installed. Names its packages and the line for all that are absent.
    """
    if absent := [extra for extra in extras if missing(extra)]:
        raise _not_installed(absent, what, instead)


def optional(module: str, what: str, *, instead: str = "") -> Any:
    """An optional module, loaded now.

    Args:
        module: Such as `ot`, or a part of it such as `matplotlib.figure`.
        what: Needs it; the beginning of the sentence that says so.
        instead: What else can be done, a sentence of the remedy.

    Returns:
        The module.

    Raises:
        UsageError: It is not installed. Names the packages.
    """
    try:
        return import_module(module)
    except ImportError:
        root = module.partition(".")[0]
        extra = next(name for name, modules in EXTRAS.items() if root in modules)
        raise _not_installed([extra], what, instead) from None


def _not_installed(extras: list[str], what: str, instead: str) -> UsageError:
    packages = [one for extra in extras for one in PACKAGES[extra]]
    names = " and ".join(_bare(one) for one in packages)
    return UsageError(
        f"{what} needs {names}, which {'is' if len(packages) == 1 else 'are'} not installed.",
        remedy=f"Install {'it' if len(packages) == 1 else 'them'} with: {line_for(*extras)}. "
        f"{instead}".strip(),
    )


def _bare(requirement: str) -> str:
    """A requirement without its extras and versions."""
    return requirement.partition("[")[0].partition(">")[0].partition("=")[0]
