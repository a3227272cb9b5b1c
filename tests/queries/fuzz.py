"""Malformed questions from a seed: valid ones with one to four things wrong, and plain rubbish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

WORDS = ("measure", "zones", "polygon", "from", "to", "hours", "weekdays", "want", "clip")
VALID: dict[str, list[Any]] = {
    "measure": ["visits", "unique_people"],
    "zones": ["all", ["a"], ["a", "b"]],
    "polygon": ["2,48,3,49", "POLYGON((2 48,3 48,3 49,2 49,2 48))"],
    "from": ["2024-03-04", "2024-03-04T06:00"],
    "to": ["2024-03-05", "2024-03-04T18:00+01:00"],
    "hours": ["8-10", [8, 9], 7],
    "weekdays": ["mon-fri", ["mon"], "sat,sun"],
    "want": [{"epsilon": 0.1}, {"plus_minus": 50}],
    "clip": [1, 3],
}
_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
ODD: list[Any] = [
    None, True, False, 0, -1, 3.5, 1e308, -0.0, 2**63, -(2**70), 10**30, "", " ", "\x00", "\ud800",
    "\u202eabc", "a" * 5_000, "é\u0301", "NaN", "Infinity", "../../etc/passwd", "/etc/passwd",
    "events.csv", "'; DROP TABLE events; --", "%s%s%n", "{}", "[]", "0x41", "١٢٣", [], [[]], {},
    [None], [True], ["a", 1], [{"a": "b"}], {"a": {"b": {}}}, ["zzz"], ["a"] * 3_000, [*range(50)],
    "POLYGON EMPTY", "POLYGON((0 0,1 1))", "POINT(2 48)", "LINESTRING(0 0,1 1)", "1,2,3", "9,9,9,9",
    "nan,nan,nan,nan", "1e400,0,1e400,1", "3,49,2,48", "GEOMETRYCOLLECTION EMPTY",
    {"type": "Polygon"}, {"type": "Polygon", "coordinates": None},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]},
    {"type": "Polygon", "coordinates": [[["a", "b"]] * 4]},
    {"type": "FeatureCollection", "features": [{}]}, {"type": "Feature", "geometry": None},
    {"epsilon": 0}, {"epsilon": -1}, {"epsilon": "1"}, {"epsilon": None}, {"epsilon": 1e400},
    {"plus_minus": "5 %"}, {"plus_minus": True}, {"epsilon": 1, "plus_minus": 1}, {"rho": 1},
    "2024-02-30", "2024-13-01", "0000-00-00", "9999-12-31", "2024-03-04T25:00", "now", "yesterday",
    "2024-03-04T06:00+99:00", "2024-W10-1", "24-25", "25", "8-", "-8", "10-8", "8-10-12", "8.5-10",
    "mon-fri-sun", "Monday", "8", "lundi", [7], [-1], [1.5], "0-24", "99999999999999999999-3",
    _DEEP,
]  # fmt: skip
RUBBISH = (
    "", "   ", "{", "}", "[", "]", "null", "true", "17", '"visits"', "[[]]", "{}{}", '{"measure"',
    '{"measure": "visits",}', '{"measure": visits}', "{'measure': 'visits'}", "\ufeff{}", "\x00",
    '{"measure": "visits", "measure": "visits"}', '{"measure": NaN}', "[" * 100_000, "{" * 3_000,
    '{"a":' * 900 + "1" + "}" * 900, '{"clip": ' + "9" * 6_000 + "}", "measure=visits",
    "SELECT * FROM events", "<xml/>", "\ud83d", "{\"measure\": \"visits\"} trailing", "nul\x00l",
)  # fmt: skip


def malformed(seed: int, many: int) -> Iterator[str]:
    """So many texts, most of them JSON; some happen to be questions all the same."""
    rng = np.random.default_rng(seed)
    yield from RUBBISH[:many]
    for _ in range(max(0, many - len(RUBBISH))):
        chosen = [word for word in WORDS if rng.random() < (0.9 if word == "measure" else 0.25)]
        words = {word: _pick(rng, VALID[word]) for word in chosen}
        for _ in range(int(rng.integers(1, 5))):
            _spoil(words, rng)
        text = json.dumps(words, ensure_ascii=bool(rng.random() < 0.5))
        yield _cut(text, rng) if rng.random() < 0.15 else text


def _pick(rng: np.random.Generator, among: list[Any]) -> Any:
    return among[int(rng.integers(len(among)))]


def _spoil(words: dict[str, Any], rng: np.random.Generator) -> None:
    kind, word = int(rng.integers(5)), str(_pick(rng, list(WORDS)))
    if kind <= 1:
        words[word] = _pick(rng, ODD)
    elif kind == 2:
        words[str(_pick(rng, [" zones", "Measure", "sql", "", "\x00", "x" * 400, "__class__"]))] = 1
    elif kind == 3:
        words[word] = [words.get(word), _pick(rng, ODD)]
    else:
        words.pop(word, None)


def _cut(text: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(len(text)))
    return text[:at] + str(_pick(rng, ["", "\x00", "}", '"', "\\", "\ud800"])) + text[at + 1 :]
