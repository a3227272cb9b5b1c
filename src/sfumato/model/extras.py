"""Optional parts: which extra brings which packages, and the error where one is not installed.

What a release, a report, a question, a stream and an evaluation need is installed with sfumato;
everything here is not (weighed in docs/decisions/install.md). An optional package is loaded by
`optional` where it is used and nowhere else, so that a part that is not there costs nothing until
it is asked for, and then says which line installs it.
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
_PACKAGES = {"ot": "POT", "confluent_kafka": "confluent-kafka"}
"""What is installed, where its name is not that of the module."""


def line_for(extra: str) -> str:
    """The line that installs an extra."""
    return f"pip install 'sfumato[{extra}]'"


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def optional(module: str, what: str, *, instead: str = "") -> Any:
    """An optional module, loaded now.

    Args:
        module: Such as `ot`, or a part of it such as `matplotlib.figure`.
        what: Needs it; the beginning of the sentence that says so.
        instead: What else can be done, a sentence of the remedy.

    Returns:
        The module.

    Raises:
        UsageError: It is not installed. Names the extra.
    """
    try:
        return import_module(module)
    except ImportError:
        root = module.partition(".")[0]
        extra = next(name for name, modules in EXTRAS.items() if root in modules)
        raise UsageError(
            f"{what} needs {_PACKAGES.get(root, root)}, which is not installed.",
            remedy=f"Install it with {line_for(extra)}. {instead}".strip(),
        ) from None
