"""Traces of people, published with noise on every location."""

from sfumato.traces.location import sanitise_location

__all__ = ["sanitise_location"]
