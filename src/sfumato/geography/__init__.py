"""Cells, overlays, covers, grids and distances. Public facts only."""
