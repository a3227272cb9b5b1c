"""sfumato: publish what crowds do without giving away what any person did."""

from importlib.metadata import version
from typing import Any

__version__ = version("sfumato")

__all__ = ["__version__", "release"]


def __getattr__(name: str) -> Any:
    """`sfumato.release`, loaded when it is asked for: it brings the engine with it."""
    if name == "release":
        from sfumato.api import release

        return release
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
