"""Readers of traces: tables, GPX, Geolife folders, Cabspotting, and frames of other packages."""
