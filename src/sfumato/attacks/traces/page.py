"""The internal page of the attacks on traces."""

from __future__ import annotations

from typing import Any

from sfumato.attacks.traces.internal_html import head, table


def page(found: dict[str, Any]) -> str:
    """Every table of `attack_traces`, in words a holder can act on."""
    errors = [
        [name, f"{row['mean']:.0f} m", f"{row['median']:.0f} m"]
        for name, row in found["position_error_m"].items()
    ]
    still = [[n, f"{metres:.1f} m"] for n, metres in found["stationary_error_m"].items()]
    linked = [[name, f"{rate:.1%}"] for name, rate in found["linkage"].items()]
    parts = [
        head("attacks on traces"),
        f"<h1>Attacks at {found['noise_m']:g} m of expected noise</h1>",
        f"<p>{found['users']:,} users, {found['fixes']:,} fixes.</p>",
        "<h2>Where people were</h2>",
        table(["an adversary's guess", "mean error", "median error"], errors),
        "<h2>Somebody who stays in one place</h2>",
        table(["independent reports of it", "error of the most likely place"], still),
        "<h2>Who they are</h2><p>Second half of the period linked to heat maps of the first; "
        f"guessing gets {found['linkage_by_chance']:.1%}.</p>",
        table(["reports", "linked to their user"], linked),
        "<p>Trials in which so many known points of a trace (cell of 800 m, hour) fit one user "
        "only:</p>",
        _shares(found["unicity"], "points"),
        "<p>Users whose most visited cells are nobody else's:</p>",
        _shares(found["unique_top_places"], "places"),
        "</html>",
    ]
    if "classifier" in found:
        parts.insert(-1, _classifier(found["classifier"]))
    return "\n".join(parts) + "\n"


def _classifier(found: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{row[key]:.1%}" for key in ("accuracy", "balanced", "nearest", "majority"))]
        for name, row in found.items()
    ]
    columns = ["reports", "accuracy", "mean over classes", "nearest window", "largest class"]
    return "<h2>The recurrent classifier</h2>" + table(columns, rows)


def _shares(found: dict[str, dict[str, float]], what: str) -> str:
    first = next(iter(found.values()))
    rows = [[name, *(f"{share:.1%}" for share in row.values())] for name, row in found.items()]
    return table(["reports", *(f"{n} {what}" for n in first)], rows)
