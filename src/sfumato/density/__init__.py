"""Schemes for a finished period, each a recipe of measurements and refinements."""
