"""How Spark SQL writes the name of a column."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column name as an identifier."""
    return "`" + name.replace("`", "``") + "`"
