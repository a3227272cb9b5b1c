"""sfumato: publish what crowds do without giving away what any person did.

The door: every verb here is a command of the same name, with the same words (`start` and `end` are
`--from` and `--to`, since `from` is a word of Python's own). What a verb is given is held against
its signature here (`sfumato.model.arguments`), as a command's words are against its options.

==================================  =============================================================
to begin with                       `demo`: a made-up city, from records to a page
through the wall, charged           `release`, `stream`, `sanitise`, `synth`; `plan` tells costs
questions to the data, charged      `query`, `Desk`
on the way to a stream              `foreach_batch`, for Spark Structured Streaming
from what is published              `read_release`, `ask`, `refine`, `report`, `export`
free, too: from customers to all    `weigh`, `combine`
free, too: from sanitised traces    `hotspots`, `spread`
for the holder's eyes alone         `inspect`, `evaluate`, `attack`, `audit`
what was ever released about whom   `Ledger`
==================================  =============================================================

Protection by rules, which is not private, has verbs of its own in `sfumato_lab`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.attacks.run import attack
    from sfumato.audits.audit import audit
    from sfumato.density.evaluate import evaluate
    from sfumato.density.plan import plan
    from sfumato.density.publish import release
    from sfumato.density.reanalysis import refine
    from sfumato.people.combine import combine
    from sfumato.people.weigh import weigh
    from sfumato.preview import inspect
    from sfumato.privacy.ledger import Ledger
    from sfumato.published.ask import ask
    from sfumato.published.export import export
    from sfumato.published.release import Release, read_release
    from sfumato.queries.desk import Desk
    from sfumato.queries.query import query
    from sfumato.queries.question import Question
    from sfumato.reports.page import report
    from sfumato.streams.publish import stream
    from sfumato.streams.spark import foreach_batch
    from sfumato.synthesis.publish import synth
    from sfumato.tour import demo
    from sfumato.traces.publish import sanitise
    from sfumato.utility.placement import hotspots
    from sfumato.utility.spreading import spread

__version__: str  # read from the installed package when it is asked for

__all__ = [
    "Desk",
    "Ledger",
    "Question",
    "Release",
    "__version__",
    "ask",
    "attack",
    "audit",
    "combine",
    "demo",
    "evaluate",
    "export",
    "foreach_batch",
    "hotspots",
    "inspect",
    "plan",
    "query",
    "read_release",
    "refine",
    "release",
    "report",
    "sanitise",
    "spread",
    "stream",
    "synth",
    "weigh",
]

_HOMES = {
    "Desk": "sfumato.queries.desk",
    "Ledger": "sfumato.privacy.ledger",
    "Question": "sfumato.queries.question",
    "Release": "sfumato.published.release",
    "ask": "sfumato.published.ask",
    "attack": "sfumato.attacks.run",
    "audit": "sfumato.audits.audit",
    "combine": "sfumato.people.combine",
    "demo": "sfumato.tour",
    "evaluate": "sfumato.density.evaluate",
    "export": "sfumato.published.export",
    "foreach_batch": "sfumato.streams.spark",
    "hotspots": "sfumato.utility.placement",
    "inspect": "sfumato.preview",
    "plan": "sfumato.density.plan",
    "query": "sfumato.queries.query",
    "read_release": "sfumato.published.release",
    "refine": "sfumato.density.reanalysis",
    "release": "sfumato.density.publish",
    "report": "sfumato.reports.page",
    "sanitise": "sfumato.traces.publish",
    "spread": "sfumato.utility.spreading",
    "stream": "sfumato.streams.publish",
    "synth": "sfumato.synthesis.publish",
    "weigh": "sfumato.people.weigh",
}
"""Loaded by name when they are asked for: a verb brings every engine with it."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("sfumato")
    from sfumato.model.arguments import opened

    globals()[name] = opened("sfumato", _HOMES, name)  # the same object when it is asked for again
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
