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
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.rounding import rounded_up
from sfumato.model.time_grid import MICROSECONDS, zone
from sfumato.published.estimate import Estimate

Words = dict[str, Any]


def load_words(language: str = "en", kinds: Iterable[str] = ("zones",)) -> Words:
    """The table of words of a language, about zones or towers; of both or neither, places."""
    text = resources.files("sfumato.reports").joinpath(f"words/{language}.json").read_text("utf-8")
    found = set(kinds)
    known = json.loads(text)["places"]
    nouns = known.get(found.pop() if len(found) == 1 else "both", known["both"])
    for gap, noun in nouns.items():
        text = text.replace(f"{{{gap}}}", noun)
    words: Words = json.loads(text)
    return words


def number_of(what: str, n: int, words: Words) -> str:
    """So many `places` or `slots`, in the words of a page: 1 zone, 12 zones."""
    return fill(words["number_of"][what][n != 1], n=f"{n:,}")


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

    protects = unit_words(unit, words)
    row("protects", protects, str(privacy.get("neighbours") or ""))
    epsilon, delta = _number(privacy.get("epsilon")), _number(privacy.get("delta"))
    if epsilon is not None:
        # One epsilon on the label, never without its delta: what all releases come to has another
        # delta, and stands above the map (`spent`).
        loss = fill(label["loss_value"], epsilon=upward(epsilon), delta=_or_unknown(delta))
        note = fill(label["epsilon_note"], change=_change(epsilon, words))
        row("loss", loss, note if delta is None else f"{note} {_chance(delta, words)}")
    spent = _cumulative(privacy, row, words)
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
    ends = [total.get(key) for key in ("lower", "upper", "coverage")]
    value = total.get("value")
    row("total", None if value is None else str(Estimate(value, *ends)))
    row("median", label["median_value"] if scheme.get("median") else None)
    row("date", str(release.get("reserved_at") or "")[:10] or None)
    software = manifest.get("software")
    version = software.get("sfumato") if isinstance(software, dict) else None
    about = _part(manifest, "about")
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
        **({"synthetic": True} if manifest.get("kind") == "synthetic" else {}),
        "warnings": _warnings(manifest, scheme, words),
        "caveats": [*_texts(manifest.get("caveats")), *spent],
        "about": {
            term: str(about[term])
            for term in ("publisher", "licence", "contact")
            if about.get(term)
        },
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
    return figure(float(rounded_up(value)))


def _cumulative(privacy: dict[str, Any], row: Any, words: Words) -> list[str]:
    """How many releases there were, as a row; what they come to and what ε leaves out, in words."""
    total = _part(privacy, "cumulative")
    life, known = _part(total, "lifetime"), _number(total.get("releases"))
    spent, releases = _number(life.get("epsilon")), life.get("releases")
    if spent is None:
        return []
    every = releases if known is None else round(known)
    label, rules = words["label"], round(_number(total.get("by_rules")) or 0)
    uncovered = fill(label["by_rules"], n=number_of("publications", rules, words))
    notes = [uncovered] if rules else []
    if every == releases == 1:
        row("cumulative", label["cumulative_first" if rules else "cumulative_one"])
        return notes
    # Not all are for this unit: streams for days or windows, locations.
    key = "cumulative_many" if every == releases else "cumulative_part"
    text = fill(label[key], n=releases, all=every)
    row("cumulative", text, label["cumulative_note"])
    delta, own = (_number(part.get("delta")) for part in (life, privacy))
    said = fill(label["spent"], all=every, epsilon=upward(spent), delta=_or_unknown(delta))
    return [said if delta == own else f"{said} {label['other_delta']}", *notes]


def _or_unknown(delta: float | None) -> str:
    return "?" if delta is None else upward(delta)


def unit_words(unit: str, words: Words) -> str:
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
