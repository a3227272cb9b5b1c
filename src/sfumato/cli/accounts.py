"""What `sfumato ledger show` and `history` say, for people: readable in 80 columns.

A data set has several units, each with caps and spends that are sentences: they stand one below
the other, folded under their own label, since side by side they need twice the width of a terminal.
"""

from __future__ import annotations

import textwrap
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sfumato.model.rounding import number_of, rounded_up

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 40
"""Where a terminal says that it is narrower than this, lines are cut by the terminal instead."""


def tell_accounts(console: Console, data: dict[str, Any]) -> None:
    """For each data set: what was spent of each cap, the loss that results, the analysts."""
    if not data["datasets"]:
        _line(console, "The ledger knows no data set yet.")
    for number, entry in enumerate(data["datasets"]):
        if number:
            _line(console, "")
        _line(console, entry["dataset"])
        if entry["linked"]:
            _line(console, f"the same people as: {', '.join(entry['linked'])}", 2)
        for unit in entry["units"]:
            _tell_unit(console, unit)
        _tell_losses(console, entry)
        if entry["by_rules"]:
            from sfumato.published.statement import by_rules_words

            _line(console, by_rules_words(entry["by_rules"]), 2, 2)
        _tell_analysts(console, entry)


def _tell_unit(console: Console, unit: dict[str, Any]) -> None:
    over = ". OVER THE CAP" if unit["over_cap"] else ""
    states = ", ".join(f"{n} {status}" for status, n in unit["by_status"].items() if n)
    _line(console, f"unit {unit['unit']}", 2)
    for label, text in (
        ("cap", " and ".join(_cap(cap) for cap in unit["caps"]) or "none"),
        ("spent", spent(unit["lifetime"]) + over),
        ("worst period", spent(unit["worst_period"])),
        ("releases", states or "none"),
    ):
        _line(console, f"{label:<14}{text}", 4, 14)


def _tell_losses(console: Console, entry: dict[str, Any]) -> None:
    """The loss per unit that results: every release counts for all units."""
    _line(console, "all releases about these people, for each unit:", 2)
    for loss in entry["losses"]:
        line = spent(loss)
        if loss["with_days_and_windows"] is not None:
            always = spent(loss["with_days_and_windows"])
            line = (
                f"{always} for someone who is there on all days; of this the cap counts what was "
                f"charged for whole records, {line}"
            )
        if loss["not_bounded_by"]:
            open_to = number_of(loss["not_bounded_by"], "releases")
            line = f"no bound, since {open_to} did not protect this unit; the others: {line}"
        _line(console, f"{loss['unit']}: {line}", 4, 2)
    over = [unit["unit"] for unit in entry["units"] if unit["over_cap"]]
    if over:
        _line(
            console,
            f"Over the cap by the way charges are counted now: {', '.join(over)}. What is "
            "reserved can be finished; nothing new is admitted until the cap is raised with "
            "sfumato ledger init --replace-cap.",
            2,
        )


def _tell_analysts(console: Console, entry: dict[str, Any]) -> None:
    """What every analyst may ask for, and did."""
    for who in entry["analysts"]:
        for unit in who["units"]:
            caps = " and ".join(_cap(cap) for cap in unit["allowances"]) or "none"
            _line(
                console,
                f"{who['analyst']} of {entry['dataset']}, {unit['unit']}: allowance {caps}; "
                f"spent {spent(unit['spent'])} in {number_of(who['releases'], 'releases')}",
                2,
                2,
            )


_BY_RULES = "no bound: by rules and without noise, which no epsilon covers"
_WITHIN_M = 200
"""The radius that documentation and examples state losses of locations for."""


def tell_history(console: Console, data: list[dict[str, Any]]) -> None:
    """Every release in the order of the ledger: when it was begun in UTC, its period in the clock
    of its data, each with its clock."""
    if not data:
        _line(console, "Nothing was released yet.")
    for entry in data:
        when = _local(entry["reserved_at"], "UTC")
        start, end = (_local(text, entry["clock"])[:10] for text in entry["period"])
        _line(console, f"{entry['row']:>4}  {entry['name']} of {entry['dataset']}", 0, 6)
        for label, text in (
            ("status", f"{entry['status']}, begun {when} UTC"),
            ("period", f"{start} to {end} ({entry['clock']})"),
            ("cost", _BY_RULES if entry["cost"] is None else spent(entry["cost"])),
        ):
            _line(console, f"{label:<8}{text}", 6, 8)


def spent(spend: dict[str, Any]) -> str:
    """What was lost, in words."""
    rho = "" if spend["rho"] is None else f" (rho {rounded_up(spend['rho'], 4)})"
    much = "no bound" if spend["epsilon"] is None else f"epsilon {rounded_up(spend['epsilon'], 4)}"
    if spend.get("method") == "per metre":  # else it would read as a small loss
        within = rounded_up(_WITHIN_M * spend["epsilon"], 4)
        much += f" per metre, which is {within} within {_WITHIN_M} m,"
    return f"{much} at delta {rounded_up(spend['delta'])}{rho}"


def _line(console: Console, text: str, indent: int = 0, hanging: int = 0) -> None:
    """One line, or several of the console's width; names are printed as they are, not as markup."""
    for line in textwrap.wrap(
        text,
        max(console.width, _NARROWEST),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_on_hyphens=False,
    ) or [""]:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _local(instant: str, clock: str) -> str:
    """An instant as a clock shows it."""
    from sfumato.model.time_grid import zone

    return f"{datetime.fromisoformat(instant).astimezone(zone(clock)):%Y-%m-%d %H:%M}"


def _cap(cap: dict[str, Any]) -> str:
    from sfumato.privacy.ledger import Cap

    return str(Cap.from_json(cap))
