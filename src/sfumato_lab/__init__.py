"""The laboratory: what the documents describe and a publisher does not run.

Printed forms, studies, schemes to compare with, methods that protect by rules. It comes in the same
wheel as `sfumato` and reaches it as any other distribution would (`sfumato_lab.offers`). Its verbs
are `anonymise_counts`, `anonymise_traces` and `anonymise_answers`, with their `Auditor`: protection
by rules about the output, which is not differential privacy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato_lab.syntactic.anonymise import anonymise_counts, anonymise_traces
    from sfumato_lab.syntactic.answers import anonymise_answers
    from sfumato_lab.syntactic.auditor import Auditor

__all__ = ["Auditor", "anonymise_answers", "anonymise_counts", "anonymise_traces"]

_HOMES = {
    "Auditor": "sfumato_lab.syntactic.auditor",
    "anonymise_answers": "sfumato_lab.syntactic.answers",
    "anonymise_counts": "sfumato_lab.syntactic.anonymise",
    "anonymise_traces": "sfumato_lab.syntactic.anonymise",
}
"""Loaded by name when they are asked for."""


def __getattr__(name: str) -> Any:
    from sfumato.model.arguments import opened

    globals()[name] = opened("sfumato_lab", _HOMES, name)  # the same object when asked for again
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
