"""sfumato: publish what crowds do without giving away what any person did."""

from importlib import import_module
from typing import Any

__version__: str  # read from the installed package when it is asked for

__all__ = ["__version__", "inspect", "read_release", "release"]

_HOMES = {
    "inspect": "sfumato.io.inspect",
    "read_release": "sfumato.published",
    "release": "sfumato.density.publish",
}


def __getattr__(name: str) -> Any:
    """`sfumato.release`, loaded by name when it is asked for: it brings every engine with it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sfumato")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
