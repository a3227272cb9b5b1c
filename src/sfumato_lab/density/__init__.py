"""Schemes of density to compare with."""
