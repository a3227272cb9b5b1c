"""Results as JSON and as tables with the papers' numbers beside ours."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato_lab.studies.paris import cases
from sfumato_lab.studies.paris import cases as paper
from sfumato_lab.studies.paris.cases import FIGURES, Score
from sfumato_lab.studies.paris.setup import Stage

if TYPE_CHECKING:
    from sfumato_lab.studies.paris.study import Results, Settings

MARK = "INTERNAL: made from true counts (of made-up people, if the city is synthetic)."
_OTHERS = (
    *(*cases.SAMPLES, *cases.VARIANTS, *cases.CHAPTER),
    *(*cases.READINGS, *cases.OPTIONS),
)
_PLACES = {"mre": 3, "pearson": 3, "emd": 0}


def cover_figures(stage: Stage) -> dict[str, float]:
    """Sizes and mean counts per hour of zones, towers and the cover's cells."""
    visits = stage.at_towers
    return {
        "towers": len(stage.towers),
        "zones": len(stage.zones),
        "cells": stage.cover.size,
        "zone_mean": float(stage.truth.mean()),
        "cell_mean": float((stage.cover.forward @ visits).mean()),
    }


def as_json(stage: Stage, found: Results) -> str:
    """Every figure, with all repetitions."""
    data: dict[str, Any] = {
        "internal": MARK,
        "users": stage.users,
        "seed": stage.seed,
        "repetitions": found.settings.repetitions,
        "other_repetitions": found.settings.others,
        "slow_repetitions": found.settings.slow_repetitions,
        "emd_every_hours": found.settings.emd_every,
        "cover": cover_figures(stage),
        "paper": {"cover": paper.COVER, "averages": paper.PRINTED},
        "scores": [
            {
                "method": one.label,
                "epsilon": one.epsilon,
                "runs": {k: [_finite(v) for v in values] for k, values in one.runs.items()},
                "zone_mre_quartiles": np.quantile(one.zone_mre, (0.25, 0.5, 0.75)).tolist(),
                "zone_pearson_quartiles": np.quantile(one.zone_pearson, (0.25, 0.5, 0.75)).tolist(),
                "slot_mre": one.slot_mre.tolist(),
                "slot_emd": [_finite(v) for v in one.slot_emd],
            }
            for one in found.scores
        ],
        "histogram": [
            {"epsilon": h.epsilon, "sampling": h.sampling, "js": h.divergence, "mre": h.mre}
            for h in found.histogram
        ],
        "causes": [
            {key: _finite(v) if key == "emd" else v for key, v in asdict(one).items()}
            for one in found.causes
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(stage: Stage, found: Results) -> str:
    """The tables, most important first."""
    parts = [
        f"<!-- {MARK} -->",
        _effort(stage, found.settings),
        *(_main(found, epsilon) for epsilon in sorted(found.settings.epsilons)),
        _others(found),
        _differences(found),
        _one_zone(stage, found),
        _cover(stage),
        _hours(found),
        _histogram(found),
        _causes(found),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _effort(stage: Stage, settings: Settings) -> str:
    slow = settings.slow_repetitions
    few = "" if slow is None else f" (at most {slow} of bayes)"
    return (
        f"{stage.users:,} users; at ε = {settings.middle:g} {settings.repetitions} repetitions of "
        f"the main and the corrected methods{few}, {settings.others} of everything else and at "
        "other ε (mean ± standard deviation, samples and noise drawn anew); earth mover's distance "
        f"in one hour of {settings.emd_every}, which changes with the repetition."
    )


def _main(found: Results, epsilon: float) -> str:
    rows = []
    for case in (*cases.MAIN, *cases.CORRECTED):
        one = found.of(case.label, epsilon)
        if one is not None:
            told = paper.PRINTED.get(case.label, {}) if epsilon == 0.3 else {}
            rows.append(
                [
                    case.label,
                    "holds" if case.holds else "as printed",
                    *(_number(told.get(name), name) for name in FIGURES),
                    *(_cell(one, name) for name in FIGURES),
                ]
            )
    head = ["method", "promise", "paper MRE", "PC", "EMD (m)", "MRE", "Pearson", "EMD (m)"]
    return _table(f"**ε = {epsilon:g}**", head, rows)


def _others(found: Results) -> str:
    rows = []
    for case in _OTHERS:
        for one in (one for one in found.scores if one.label == case.label):
            told = paper.PRINTED.get(case.label, {}) if one.epsilon == 0.3 else {}
            printed = [_number(told.get(name), name) for name in ("mre", "pearson")]
            ours = [_cell(one, name) for name in FIGURES]
            rows.append([case.label, f"{one.epsilon:g}", *printed, *ours])
    head = ["method", "ε", "paper MRE", "PC", "MRE", "Pearson", "EMD (m)"]
    return _table("**Other sample sizes, variants and readings**", head, rows)


def _differences(found: Results) -> str:
    rows = []
    for what, before, after, mre, pearson in paper.DIFFERENCES:
        pairs = [(found.of(before, e), found.of(after, e)) for e in found.settings.epsilons]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if both:
            ours = [np.mean([b.mean(n) - a.mean(n) for a, b in both]) for n in ("mre", "pearson")]
            rows.append(
                [what, f"{mre:+.2f}", f"{pearson:+.2f}", f"{ours[0]:+.3f}", f"{ours[1]:+.3f}"]
            )
    head = ["change", "paper MRE", "PC", "MRE", "Pearson"]
    return _table("**Differences, averaged over ε**", head, rows)


def _one_zone(stage: Stage, found: Results) -> str:
    rows = []
    for label in (
        *paper.ONE_ZONE,
        "chapter⁻(30)",
        "chapter(30)",
        *(c.label for c in cases.CORRECTED),
    ):
        one = found.of(label, found.settings.middle)
        if one is not None:
            told = paper.ONE_ZONE.get(label)
            rows.append(
                [
                    label,
                    *(("", "") if told is None else (f"{told[0]:.2f}", f"{told[1]:.2f}")),
                    f"{one.zone_mre[stage.example]:.2f}",
                    f"{one.zone_pearson[stage.example]:.2f}",
                ]
            )
    head = ["method", "paper MRE", "PC", "MRE", "Pearson"]
    return _table(
        "**One zone (Figures 3 to 5; ours is the zone with the median total)**", head, rows
    )


def _cover(stage: Stage) -> str:
    ours = cover_figures(stage)
    names = {
        "towers": "towers",
        "zones": "zones",
        "cells": "cells of the cover",
        "zone_mean": "mean count of a zone and hour",
        "cell_mean": "mean count of a cover cell and hour",
    }
    rows = [[text, f"{paper.COVER[key]:g}", f"{ours[key]:.4g}"] for key, text in names.items()]
    return _table("**Cover (Figures 1 and 2)**", ["", "paper", "ours"], rows)


def _hours(found: Results) -> str:
    before, after = (found.of(k, found.settings.middle) for k in ("EFPAG⁻(30)", "EFPAG(30)"))
    if before is None or after is None:
        return ""
    ratio = before.slot_mre / after.slot_mre
    return (
        f"Error by hour (Figure 9): the improvements divide the error of an hour by "
        f"{float(np.median(ratio)):.2f} in the median and {float(ratio.max()):.1f} at most "
        f"(paper: almost {paper.DAYLIGHT_GAIN:g} in daylight)."
    )


def _histogram(found: Results) -> str:
    rows = [
        [f"{h.epsilon:g}", "one" if h.sampling else "all", f"{h.divergence:.2e}", f"{h.mre:.3f}"]
        for h in found.histogram
    ]
    head = ["ε′", "visits taken", "Jensen-Shannon (bits)", "MRE of totals"]
    return _table("**Histogram of towers (Figure 6)**", head, rows)


def _causes(found: Results) -> str:
    methods = list(dict.fromkeys(one.method for one in found.causes))
    known = {(one.variation, one.method): one for one in found.causes}
    rows = []
    for variation in dict.fromkeys(one.variation for one in found.causes):
        row = [variation]
        for method in methods:
            one = known.get((variation, method))
            row.append("" if one is None else _three(one.mre, one.pearson, one.emd))
        rows.append(row)
    title = (
        f"**What moves the figures at ε = {found.settings.middle:g}** (MRE / Pearson / EMD in m)"
    )
    return _table(title, ["", *methods], rows)


def _three(mre: float, pearson: float, emd: float) -> str:
    return f"{mre:.3f} / {pearson:.3f} / " + (f"{emd:.0f}" if math.isfinite(emd) else "–")


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return title + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(one: Score, figure: str) -> str:
    mean, spread = one.mean(figure), one.spread(figure)
    if not math.isfinite(mean):
        return ""
    text = _number(mean, figure)
    return text if not math.isfinite(spread) else f"{text} ± {_number(spread, figure)}"


def _number(value: float | None, figure: str) -> str:
    return "" if value is None else f"{value:.{_PLACES[figure]}f}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
