"""The public artefact: manifest, statement, and the one reader that checks every digest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.published.release import Release, read_release

__all__ = ["Release", "read_release"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the ledger needs the manifest's form, and the reader the ledger's."""
    if name in __all__:
        return getattr(import_module("sfumato.published.release"), name)
    raise AttributeError(f"module 'sfumato.published' has no attribute {name!r}")
