"""The privacy label: what a manifest says, as rows of plain words; the pages' words and clock.

Missing fields give fewer rows, never an invented value. Epsilon in words: with or without one
person's data, any outcome has at most e^epsilon times the probability, plus delta.

All words of the pages come from one JSON file; a translation is another file beside it.

The clock of a page is its slots' instants, and the offset and name of local time wherever they
change. The page formats times from these alone. It does not ask the browser for a time zone, so an
old file in a new browser, or the other way round, still shows the hours of the release.
"""

from __future__ import annotations

import json
import math
import string
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS, zone

Words = dict[str, Any]


def load_words(language: str = "en") -> Words:
    """The table of words of a language."""
    text = resources.files("sfumato.reports").joinpath(f"words/{language}.json").read_text("utf-8")
    words: Words = json.loads(text)
    return words


def fill(template: str, **values: object) -> str:
    """A sentence with its {gaps} filled; a gap without a value stays as it is."""
    parts = []
    for literal, field, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if field is not None:
            parts.append(str(values.get(field, "{" + field + "}")))
    return "".join(parts)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode_clock(edges: NDArray[np.int64], ends: NDArray[np.int64], tz: str) -> dict[str, Any]:
    """Starts and lengths in seconds, run-length coded, and the changes of local time."""
    starts = edges[:-1] // MICROSECONDS
    lengths = ends // MICROSECONDS - starts
    local = zone(tz)
    changes: list[list[Any]] = []
    for k, second in enumerate(starts.tolist()):
        moment = (_EPOCH + timedelta(seconds=second)).astimezone(local)
        offset = moment.utcoffset() or timedelta(0)
        entry = [int(offset.total_seconds()), moment.tzname() or tz]
        if not changes or changes[-1][1:] != entry:
            changes.append([k, *entry])
    return {
        "tz": tz,
        "first": int(starts[0]),
        "steps": _runs(np.diff(starts)),
        "lengths": _runs(lengths),
        "changes": changes,
    }


def _runs(values: NDArray[np.int64]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values.tolist():
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([int(value), 1])
    return runs


def label_facts(manifest: dict[str, Any], words: Words) -> dict[str, Any]:
    """Rows for the label, warnings that must be seen, and the texts for citing."""
    privacy, release = _part(manifest, "privacy"), _part(manifest, "release")
    scheme, grid = _part(manifest, "scheme"), _part(manifest, "grid")
    label = words["label"]
    unit = str(privacy.get("unit", ""))
    rows: list[dict[str, str]] = []

    def row(term: str, value: object, note: str = "") -> None:
        if value not in (None, ""):
            rows.append({"term": label[term], "value": str(value), "note": note})

    protects = _protects(unit, words)
    row("protects", protects, str(privacy.get("neighbours") or ""))
    epsilon, delta = _number(privacy.get("epsilon")), _number(privacy.get("delta"))
    if epsilon is not None:
        row("epsilon", upward(epsilon), fill(label["epsilon_note"], change=_change(epsilon, words)))
    if delta is not None:
        row("delta", upward(delta), _chance(delta, words))
    _cumulative(privacy, row, words)
    counting = privacy.get("counting")
    how = "stream" if manifest.get("kind") == "stream" else str(counting)
    fold = {key: str(value)[:10] for key, value in _part(grid, "fold").items()}
    folded = fill(label["fold_note"], **fold) if fold else ""
    estimates = _part(manifest, "made_from").get("estimates")
    row("counting", estimates or words["counting"].get(how, counting), folded)
    row("bound", privacy.get("bound"))
    row("scheme", scheme.get("name"))
    coverage = _number(scheme.get("interval_coverage")) or None  # 0: none is stated
    if coverage is not None:
        row("interval", fill(label["interval_value"], percent=figure(100 * coverage)))
    total = {key: _number(value) for key, value in _part(manifest, "total").items()}
    if total.get("value") is not None:
        said = {key: f"{value or 0:,.0f}" for key, value in total.items()}
        percent = figure(100 * (total.get("coverage") or 0.0))
        row("total", fill(label["total_value"], **said, percent=percent))
    row("median", label["median_value"] if scheme.get("median") else None)
    row("date", str(release.get("reserved_at") or "")[:10] or None)
    software = manifest.get("software")
    version = software.get("sfumato") if isinstance(software, dict) else None
    about = _part(manifest, "about")
    for term in ("publisher", "licence", "contact"):
        row(term, about.get(term))
    row("software", f"sfumato {version}" if version else None)
    return {
        "rows": rows,
        "epsilon": None if epsilon is None else upward(epsilon),
        "delta": None if delta is None else upward(delta),
        "unit": protects,
        "coverage": None if coverage is None else figure(100 * coverage),
        "counting": str(privacy.get("counting") or "visits"),
        "name": str(about.get("title") or release.get("name") or ""),
        "dataset": str(about.get("publisher") or release.get("dataset") or ""),
        "id": str(release.get("id") or ""),
        "year": str(release.get("reserved_at") or "")[:4],
        "version": str(version or ""),
        "tz": str(grid.get("tz") or ""),
        **({"period": fill(words["page"]["folded"], **fold)} if fold else {}),
        "warnings": _warnings(manifest, scheme, words),
        "caveats": _texts(manifest.get("caveats")),
        "not_covered": _texts(manifest.get("not_covered")),
    }


def figure(value: float) -> str:
    """Up to three significant figures; small ones as a power of ten."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"10{power}" if mantissa == "1" else f"{mantissa}×10{power}"


def upward(value: float) -> str:
    """The same, but never less than the value: a privacy loss is not rounded down."""
    if value <= 0:
        return figure(value)
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return figure(math.ceil(value / unit * (1 - 1e-12)) * unit)


def _cumulative(privacy: dict[str, Any], row: Any, words: Words) -> None:
    total = _part(privacy, "cumulative")
    life, known = _part(total, "lifetime"), _number(total.get("releases"))
    spent, releases = _number(life.get("epsilon")), life.get("releases")
    if spent is None or total.get("datasets") == []:  # a stream of the first version does not tell
        return
    delta = _number(life.get("delta"))
    note = fill(words["label"]["cumulative_note"], delta="?" if delta is None else upward(delta))
    key = "cumulative_one" if releases == 1 else "cumulative_many"
    if known is not None and known != releases:  # streams for days or windows, locations
        key = "cumulative_part"
    many = "?" if known is None else f"{known:.0f}"
    text = fill(words["label"][key], n=releases, all=many, epsilon=upward(spent))
    row("cumulative", text, note)


def _protects(unit: str, words: Words) -> str:
    """The unit in words; a window with its number of slots."""
    kind, _, window = unit.partition(":")
    return fill(words["units"].get(kind, unit), window=window)


def _warnings(manifest: dict[str, Any], scheme: dict[str, Any], words: Words) -> list[str]:
    found = []
    if manifest.get("tainted"):
        found.append(words["warnings"]["tainted"])
    if scheme.get("as_published"):
        found.append(words["warnings"]["as_published"])
    if manifest.get("differential_privacy") is False:
        found.append(words["warnings"]["not_private"])
    return found


def _change(epsilon: float, words: Words) -> str:
    factor = math.exp(min(epsilon, 700.0))
    if factor < 2:
        return fill(words["label"]["percent"], n=math.ceil((factor - 1) * 100 - 1e-9))
    return fill(words["label"]["factor"], n=figure(math.ceil(factor * 10 - 1e-9) / 10))


def _chance(delta: float, words: Words) -> str:
    if delta <= 0:
        return str(words["label"]["delta_zero"])
    return fill(words["label"]["delta_note"], n=f"{round(1 / delta):,}")


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []
