"""sfumato: publish what crowds do without giving away what any person did."""

from importlib.metadata import version

__version__ = version("sfumato")

__all__ = ["__version__"]
