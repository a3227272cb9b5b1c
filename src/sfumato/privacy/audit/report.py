"""An audit as a table for people (terminal, Markdown) and as JSON for machines."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sfumato.privacy.audit.run import Audit, Row

_HEADS = ("what", "neighbours", "claim", "measured at least", "verdict", "runs", "how")


def as_table(result: Audit) -> Table:
    """For the terminal."""
    table = Table(title=f"Empirical audit, all bounds together at {result.confidence:.4g}")
    shown = _HEADS[:-1]  # how each bound was found is in the Markdown and the JSON
    for head in shown:
        table.add_column(head, justify="right" if head in ("measured at least", "runs") else "left")
    for row in result.rows:
        cells = list(_cells(row))[: len(shown)]
        cells[4] = f"[bold red]{cells[4]}[/]" if row.violated else f"[green]{cells[4]}[/]"
        table.add_row(*cells)
    return table


def as_markdown(result: Audit) -> str:
    """For the documentation."""
    lines = [f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in result.rows]
    return "\n".join(lines) + "\n"


def as_json(result: Audit) -> dict[str, Any]:
    """Plain values; every bound with the confidence it has on its own."""
    return {
        "format": "sfumato-audit/1",
        "confidence": result.confidence,
        "seed": result.seed,
        "violations": len(result.violations),
        "rows": [_plain(row) for row in result.rows],
    }


def _plain(row: Row) -> dict[str, Any]:
    claim = asdict(row.claim)
    return {
        "subject": row.subject,
        "neighbours": row.pair,
        "claim": claim,
        "measured_at_least": _finite(row.measured),
        "measured_if_normal": None if row.if_normal is None else _finite(row.if_normal),
        "violated": row.violated,
        "runs": row.runs,
        "confidence": row.confidence,
        "how": row.how,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cells(row: Row) -> tuple[str, ...]:
    measured = f"{row.measured:.4g}"
    if row.if_normal is not None:
        measured += f" ({row.if_normal:.4g} if normal)"
    return (
        row.subject,
        row.pair,
        str(row.claim),
        measured,
        row.verdict,
        f"{row.runs:,}",
        row.how,
    )
