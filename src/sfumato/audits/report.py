"""An audit as a table for people (terminal, Markdown), as JSON for machines, and as a picture.

The picture shows what was measured against what was claimed. matplotlib is optional
(the extra `plots`) and imported only when a picture is wanted.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from sfumato.audits.run import Audit, EpsilonClaim, MuClaim, Row
from sfumato.model.extras import optional

NO_POWER = (
    "no power: so many runs would not have shown a person who counts twice as much as claimed; "
    "the row says nothing for the scheme or against it."
)
_HEADS = ("what", "neighbours", "claim", "measured at least", "verdict", "runs", "how")


def as_table(result: Audit) -> Table:
    """For the terminal."""
    table = Table(title=f"Empirical audit, all bounds together at {result.confidence:.4g}")
    shown = _HEADS[:-1]  # how each bound was found is in the Markdown and the JSON
    for head in shown:
        table.add_column(head, justify="right" if head in ("measured at least", "runs") else "left")
    for row in result.rows:
        cells = list(_cells(row))[: len(shown)]
        colour = "bold red" if row.violated else "yellow" if row.powerless else "green"
        cells[4] = f"[{colour}]{cells[4]}[/]"
        table.add_row(*cells)
    if any(row.powerless and not row.violated for row in result.rows):
        table.caption = NO_POWER
    return table


def as_markdown(result: Audit) -> str:
    """For the documentation."""
    lines = [f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in result.rows]
    if any(row.powerless and not row.violated for row in result.rows):
        lines += ["", f"*{NO_POWER}*"]
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
        "if_doubled": None if row.if_doubled is None else _finite(row.if_doubled),
        "violated": row.violated,
        "verdict": row.verdict,
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


_COLOURS = {"holds": "#1b6e53", "no power": "#9a9a9a", "VIOLATED": "#b3261e"}


def save_plot(result: Audit, path: Path) -> None:
    """Two panels, epsilon and mu: a point above the diagonal is a broken promise."""
    optional("matplotlib", "The plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, 2), ("ε", "μ"), strict=True):
        kind = EpsilonClaim if name == "ε" else MuClaim
        rows = [row for row in result.rows if isinstance(row.claim, kind)]
        claims = [row.claim.value for row in rows]
        found = [row.measured for row in rows]
        edge = max([1e-3, *claims, *(m for m in found if m < 1e3)]) * 1.6
        small = min([edge / 10, *claims]) / 1.6
        axes.plot([small, edge], [small, edge], color="0.6", lw=1, label="the claim")
        for word, colour in _COLOURS.items():
            points = [
                (c, max(m, small))
                for c, m, r in zip(claims, found, rows, strict=True)
                if r.verdict == word
            ]
            if points:
                mark = {"s": 26, "color": colour, "label": word.lower(), "alpha": 0.8}
                axes.scatter(*zip(*points, strict=True), **mark)
        axes.set(xscale="log", yscale="log", xlim=(small, edge), ylim=(small, edge))
        axes.set_xlabel(f"{name} claimed")
        axes.set_ylabel(f"{name} proved at least")
        axes.legend(frameon=False, loc="upper left")
    figure.suptitle(f"All bounds together hold with probability {result.confidence:.4g}")
    for axes in figure.axes:  # plain numbers, and none on top of another
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
            axis.set_minor_formatter(NullFormatter())
    figure.savefig(path, dpi=110, metadata={"Software": None})
