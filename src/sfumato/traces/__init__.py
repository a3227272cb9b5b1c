"""Sanitised traces: noise on every location, and one call for a single location on a device."""

from sfumato.traces.region import sanitise_location

__all__ = ["sanitise_location"]
