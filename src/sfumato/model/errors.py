"""Errors that say what is wrong, where, and what to do, and never show a record.

Exit codes of the command follow from the class: 1 the data or the request is at
fault, 2 wrong usage, 3 the budget refuses.
"""

from __future__ import annotations

from typing import ClassVar


class SfumatoError(Exception):
    """Base of every error that is meant for the user's eyes."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())


class InputError(SfumatoError):
    """The data is at fault. Names the file, the column and the row *number*, never a value."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        column: str | None = None,
        row: int | None = None,
        remedy: str = "",
    ) -> None:
        self.file = file
        self.column = column
        self.row = row
        where = ", ".join(
            part
            for part in (
                file or "",
                f"column {column!r}" if column is not None else "",
                f"row {row}" if row is not None else "",
            )
            if part
        )
        super().__init__(f"{where}: {problem}" if where else problem, remedy=remedy)


class UsageError(SfumatoError):
    """The request itself makes no sense: a missing or contradictory option."""

    exit_code = 2


class BudgetRefused(SfumatoError):
    """The ledger says no. Carries what is left and what would fit."""

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        remaining_rho: float | None = None,
        would_fit_epsilon: float | None = None,
        remedy: str = "",
    ) -> None:
        self.remaining_rho = remaining_rho
        self.would_fit_epsilon = would_fit_epsilon
        super().__init__(problem, remedy=remedy)


class PrivateNumbers(SfumatoError):
    """Code tried to look at numbers that have not passed the wall."""
