"""`internal.html`: original, private and error side by side, for the holder's eyes only.

The page shows true counts, so it says INTERNAL in its title, on a banner that stays in sight
and across every printed sheet. It works offline like the public page and from the same parts.

An evaluation hands it an `InternalEvaluation`, which holds the truth:

    InternalEvaluation(
        title="Week 37, three schemes", zone_ids=ids, zone_names=names, geometry=shapes,
        edges=grid.edges, tz=grid.tz, counting="visits", truth=truth,
        contenders=(Contender("bayes", 0.3, values, lower, upper, error=relative_error(...)),),
    )

Tables are zone x slot. The report only averages and draws; what an error is, the evaluation says.

`sfumato attack` leaves it an `AttackPanel`: figures, and some people's trajectories. INTERNAL:
`true` is where real people were. The file lies beside the evaluation's own, readable by its owner
alone, and the page that shows it says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.foreign import contents, document
from sfumato.io.write import write_bytes
from sfumato.reports.classes import per_area, shown_bounds
from sfumato.reports.encode import encode_numbers, encode_outlines
from sfumato.reports.page import render
from sfumato.reports.privacy_label import encode_clock, load_words

PANEL = "internal-attack-panel.json"
"""Where an attack leaves its results for the page of an evaluation in the same folder."""
Trajectory = Sequence[int]
"""The place of each slot, as its row in the table; -1 where none is known."""


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What an adversary reached against a contender, beside what guessing reaches."""

    attack: str
    contender: str
    measure: str
    reached: float
    guessing: float
    bound: float | None = None
    """What the guarantee allows at most, where that can be said."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class AttackTracks:
    """Some people where they were and where the attack has them, and its accuracy by slot."""

    contender: str
    by_slot: Sequence[float]
    guessing: Sequence[float]
    """By slot, what is reached by who knows all others, and nothing of the person."""
    true: Sequence[Trajectory]
    found: Sequence[Trajectory]

    def check(self, places: int, slots: int) -> None:
        """Refuse trajectories of another map or another period."""
        rows = (*self.true, *self.found)
        lengths = {len(self.by_slot), len(self.guessing), *(len(row) for row in rows)}
        inside = all(-1 <= place < places for row in rows for place in row)
        if lengths != {slots} or len(self.true) != len(self.found) or not inside:
            raise UsageError(
                "The attack in this folder is about other places or another period.",
                remedy="Run sfumato attack on the same release, or choose another `out`.",
            )


@dataclass(frozen=True, slots=True)
class AttackPanel:
    """Everything the page shows of attacks."""

    results: tuple[AttackResult, ...] = ()
    tracks: tuple[AttackTracks, ...] = field(default=())


def write_panel(panel: AttackPanel, folder: Path) -> Path:
    """Leave the panel where the page will look for it."""
    path = folder / PANEL
    text = json.dumps(asdict(panel), ensure_ascii=False, separators=(",", ":"))
    write_bytes(path, f"{text}\n".encode(), mode=0o600)
    return path


def read_panel(folder: Path) -> AttackPanel:
    """What an attack left in the folder; nothing where there was none."""
    try:
        found = document(contents(folder / PANEL))
        return AttackPanel(
            tuple(AttackResult(**one) for one in found["results"]),
            tuple(AttackTracks(**one) for one in found["tracks"]),
        )
    except FileNotFoundError:
        return AttackPanel()
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(
            "the results of the attack cannot be read.",
            file=str(folder / PANEL),
            remedy="Run sfumato attack again, or remove the file.",
        ) from None


__all__ = ["AttackPanel", "AttackResult", "AttackTracks", "Contender", "InternalEvaluation"]
Table = NDArray[np.float64]
_NOTHING: Mapping[str, Table] = MappingProxyType({})
_NO_FIGURES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One scheme at one budget: its table, its errors, its figures."""

    name: str
    epsilon: float | None
    values: Table
    lower: Table | None = None
    upper: Table | None = None
    error: Table | None = None
    """Relative error of every cell; |values - truth| / max(1, truth) where not given."""
    by_hour: Mapping[str, Table] = field(default_factory=lambda: _NOTHING)
    """One number a slot; `emd`, `top_k` and `pearson` have names on the page."""
    overall: Mapping[str, float] = field(default_factory=lambda: _NO_FIGURES)
    """One number for the whole; the same keys and `mre`, `coverage`."""
    note: str = ""
    """Said beside the name: for example that a printed calibration guarantees nothing."""

    @property
    def label(self) -> str:
        return self.name if self.epsilon is None else f"{self.name}, ε {self.epsilon:g}"


@dataclass(frozen=True, slots=True, eq=False)
class InternalEvaluation:
    """The truth, the contenders, and how they were judged. Never for publication."""

    title: str
    zone_ids: tuple[str, ...]
    zone_names: tuple[str, ...]
    geometry: NDArray[np.object_] | None
    edges: NDArray[np.int64]
    tz: str
    counting: str
    truth: Table
    contenders: tuple[Contender, ...]
    districts: tuple[str, ...] = ()
    attacks: tuple[AttackResult, ...] = ()
    tracks: tuple[AttackTracks, ...] = ()
    quality_bar: float = 0.3
    """A zone fails where its mean relative error is above this."""

    def __post_init__(self) -> None:
        zones, slots = self.truth.shape
        if not self.contenders:
            raise UsageError("An evaluation needs at least one release to judge.")
        if len(self.edges) != slots + 1 or len(self.zone_ids) != zones:
            raise UsageError("The truth does not have the zones and slots it is said to have.")
        if len(self.zone_names) != zones or len(self.districts) not in (0, zones):
            raise UsageError("There must be a name for every zone.")
        for track in self.tracks:
            track.check(zones, slots)
        for one in self.contenders:
            tables = (one.values, one.lower, one.upper, one.error)
            if any(t is not None and t.shape != self.truth.shape for t in tables):
                raise UsageError(
                    f"{one.label}: its tables do not have the truth's zones and slots."
                )
            if any(np.shape(series) != (slots,) for series in one.by_hour.values()):
                raise UsageError(f"{one.label}: a series does not have one number a slot.")


INTERNAL_NAME = "internal.html"
_WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)
_SIZES = 10


def build_internal_page(evaluation: InternalEvaluation, language: str = "en") -> str:
    """The page of an evaluation. The same evaluation gives the same bytes."""
    shapes = evaluation.geometry
    outlines = None if shapes is None else encode_outlines(shapes)
    towers = shapes is not None and bool((shapely.get_dimensions(shapes) <= 0).all())
    words = load_words(language, ["towers" if towers else "zones"])
    truth = evaluation.truth
    sizes, edges = size_groups(truth)
    data = {
        "title": evaluation.title,
        "map": {
            "ids": list(evaluation.zone_ids),
            "names": list(evaluation.zone_names),
            "districts": list(evaluation.districts or [""] * len(evaluation.zone_ids)),
            "outlines": outlines,
        },
        "clock": encode_clock(evaluation.edges, evaluation.edges[1:], evaluation.tz),
        "counting": evaluation.counting,
        "truth": encode_numbers(truth, truth, truth),
        "sizes": [_short(size) for size in edges],
        "bar": evaluation.quality_bar,
        "bounds": shown_bounds([per_area(truth, (outlines or {}).get("km2"))]),
        "contenders": [_contender(one, evaluation, sizes) for one in evaluation.contenders],
        "attacks": [
            {
                "attack": a.attack,
                "contender": a.contender,
                "measure": a.measure,
                "reached": _short(a.reached),
                "guessing": _short(a.guessing),
                "bound": None if a.bound is None else _short(a.bound),
                "note": a.note,
            }
            for a in evaluation.attacks
        ],
        "tracks": [
            {
                "contender": one.contender,
                "right": _list(np.asarray(one.by_slot)),
                "guessing": _list(np.asarray(one.guessing)),
                "true": [list(row) for row in one.true],
                "found": [list(row) for row in one.found],
            }
            for one in evaluation.tracks
        ],
    }
    return render(
        "internal.html",
        "internal",
        data,
        words,
        styles=("page", "internal"),
        title=f"{words['internal']['mark']} · {evaluation.title}",
    )


def write_internal_page(evaluation: InternalEvaluation, folder: str | Path) -> Path:
    """Write `internal.html`, readable by its owner alone."""
    path = Path(folder) / INTERNAL_NAME
    write_bytes(path, build_internal_page(evaluation).encode(), mode=0o600)
    return path


def size_groups(truth: Table) -> tuple[NDArray[np.int64], list[float]]:
    """Zones in up to ten groups of equal number by their true mean count, and each group's mean."""
    means = np.nanmean(truth, axis=1)
    order = np.argsort(means, kind="stable")
    groups = np.empty(len(order), np.int64)
    pieces = np.array_split(order, min(_SIZES, len(order)))
    for k, piece in enumerate(pieces):
        groups[piece] = k
    return groups, [float(means[piece].mean()) for piece in pieces]


def cell_errors(one: Contender, truth: Table) -> Table:
    """The errors an evaluation gave, or the plain relative ones."""
    if one.error is not None:
        return one.error
    plain: Table = np.abs(one.values - truth) / np.maximum(1.0, truth)
    return plain


def _contender(
    one: Contender, evaluation: InternalEvaluation, sizes: NDArray[np.int64]
) -> dict[str, Any]:
    errors = cell_errors(one, evaluation.truth)
    zones = np.nanmean(errors, axis=1)
    lower = one.values if one.lower is None else one.lower
    upper = one.values if one.upper is None else one.upper
    groups = range(int(sizes.max()) + 1)
    return {
        "label": one.label,
        "note": one.note,
        "numbers": encode_numbers(one.values, lower, upper),
        "interval": one.lower is not None and one.upper is not None,
        "error": {
            "hour": _list(np.nanmean(errors, axis=0)),
            "zone": _list(zones),
            "size": [_list(np.nanquantile(zones[sizes == k], _WHISKERS)) for k in groups],
            "box": _list(np.nanquantile(zones, _WHISKERS)),
            "mean": _short(float(np.nanmean(errors))),
        },
        "hours": {name: _list(values) for name, values in sorted(one.by_hour.items())},
        "overall": {name: _short(value) for name, value in sorted(one.overall.items())},
    }


def _list(values: Table) -> list[float | None]:
    return [_short(float(value)) for value in values]


def _short(value: float) -> float | None:
    """Five figures are more than the eye needs; what is not finite is absent."""
    return float(f"{value:.5g}") if np.isfinite(value) else None


_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>INTERNAL: {title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse;margin:1rem 0}}td,th{{border:1px solid #999;padding:.2rem .6rem;
text-align:right}}th:first-child,td:first-child{{text-align:left}}img{{max-width:100%}}
td{{white-space:nowrap}}.words td,.words th{{white-space:normal;text-align:left}}
.mark{{background:#a00;color:#fff;padding:.5rem 1rem;font-weight:bold}}</style>
<p class="mark">INTERNAL. {mark}; not for publication.</p>"""


def head(title: str, mark: str = "Made with the true locations") -> str:
    """The page up to its first heading; `mark` says why it is internal."""
    return _HEAD.format(title=escape(title), mark=escape(mark))


def table(columns: list[str], rows: list[list[str]], *, words: bool = False) -> str:
    """A table of figures, or of words; whatever stands in a cell is shown as it is."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    kind = ' class="words"' if words else ""
    return f"<table{kind}><tr>{top}</tr>{body}</table>"


def percent(value: float | None) -> str:
    """A share with one decimal, or nothing where there is none."""
    return "" if value is None else f"{100 * value:.1f} %"
