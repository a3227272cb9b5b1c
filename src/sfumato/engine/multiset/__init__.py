"""A keyed digest of rows that come in no particular order."""
