"""An audit as a picture: what was measured against what was claimed.

matplotlib is optional (`pip install 'sfumato[plots]'`) and imported only when asked for.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.model.errors import UsageError
from sfumato.privacy.audit.claims import EpsilonClaim, MuClaim
from sfumato.privacy.audit.run import Audit

_HOLDS, _VIOLATED = "#1b6e53", "#b3261e"


def save_plot(result: Audit, path: Path) -> None:
    """Two panels, epsilon and mu: a point above the diagonal is a broken promise."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
    except ImportError:
        raise UsageError(
            "The plot needs matplotlib.", remedy="Install it with pip install 'sfumato[plots]'."
        ) from None
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
        for violated, colour, word in ((False, _HOLDS, "holds"), (True, _VIOLATED, "violated")):
            points = [
                (c, max(m, small))
                for c, m, r in zip(claims, found, rows, strict=True)
                if r.violated is violated
            ]
            if points:
                axes.scatter(*zip(*points, strict=True), s=26, color=colour, label=word, alpha=0.8)
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
