"""Readers of public data sets in the form in which they are distributed."""
