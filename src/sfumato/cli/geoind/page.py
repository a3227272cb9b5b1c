"""The internal page of the study: our figures beside the paper's."""

from __future__ import annotations

from html import escape
from typing import Any

from sfumato.attacks.traces.internal_html import head, percent, table
from sfumato.cli.geoind import paper

_TITLE = "Sanitised traces in two uses and one attack"


def page(results: list[dict[str, Any]]) -> str:
    """One page for all data sets."""
    parts = [head(_TITLE), f"<h1>{_TITLE}</h1>"]
    for result in results:
        parts += [f"<h2>{escape(result['name'])}</h2>"]
        parts += [f"<p>{escape(note)}</p>" for note in result["notes"]]
        parts += [_hotspots(result), _gossip(result), _linking(result), _network(result)]
        parts += [f'<p><img src="{escape(n)}" alt="{escape(n)}"></p>' for n in result["figures"]]
    parts += ["<h2>Beside the paper</h2><ul>", *(f"<li>{escape(r)}</li>" for r in paper.REMARKS)]
    return "\n".join([*parts, "</ul></html>", ""])


def _hotspots(result: dict[str, Any]) -> str:
    placed = result["hotspots"]
    rows = []
    for row in placed["rows"]:
        theirs = paper.HOTSPOT.get(row["noise_m"], (None, None))
        rows.append(
            [
                f"{row['noise_m']:g} m",
                percent(row["plain"]),
                f"{percent(row['plain_low'])} to {percent(row['plain_high'])}",
                percent(row["updated"]),
                percent(row["stopped_early"]),
                percent(theirs[0]),
                percent(theirs[1]),
                f"{row['last_change']:.1e}",
            ]
        )
    columns = ["noise", "reports", "ways to break ties", "updated, 50 steps", "stopped early"]
    columns += ["paper, reports", "paper, updated"]
    text = (
        f"<h3>Hot spots</h3><p>{placed['hotspots']:,} of {placed['cells']:,} cells are non-empty "
        f"and chosen; the paper has {paper.HOTSPOTS:,} of {paper.CELLS:,} (Geolife).</p>"
    )
    return text + table([*columns, "change in the last step"], rows)


def _gossip(result: dict[str, Any]) -> str:
    spread = result["gossip"]
    rows = [[name, *(percent(rate) for rate in rates)] for name, rates in spread["rates"].items()]
    text = (
        f"<h3>Gossip</h3><p>Without noise a message reaches {percent(spread['baseline'])} of the "
        f"users (paper, Geolife: {percent(paper.BASELINE)}; with windows of 2 and 10 minutes at "
        "1000 m about 50 % and 20 %).</p>"
    )
    return text + table(["", *(f"{noise:g} m" for noise in spread["noises"])], rows)


def _linking(result: dict[str, Any]) -> str:
    linked = result["linking"]
    rows = [
        [name, percent(rate), percent(paper.CLASSIFIER.get(name))]
        for name, rate in linked["rates"].items()
    ]
    text = (
        "<h3>Who is recognised at 100 m of noise</h3><p>By heat maps of the first half of the "
        f"period; guessing gets {percent(linked['chance'])}. The paper's column is its recurrent "
        "network among eleven classes, a different task.</p>"
    )
    return text + table(["reports", "linked to their user", "paper's network"], rows)


def _network(result: dict[str, Any]) -> str:
    if not result["classifier"]:
        return "<p>The recurrent network was not trained (it needs the extra rnn).</p>"
    rows = [
        [
            name,
            *(percent(row[key]) for key in ("accuracy", "balanced", "nearest", "majority")),
            percent(ours),
        ]
        for (name, row), ours in zip(
            result["classifier"].items(), paper.CLASSIFIER.values(), strict=True
        )
    ]
    text = (
        "<h3>The recurrent network among eleven classes</h3><p>Ten users and the rest, at 100 m; "
        "units, windows, optimiser and split are ours, the paper does not print its own. What the "
        "nearest training window by mean place and always guessing the largest class get stands "
        "beside it.</p>"
    )
    columns = ["reports", "accuracy", "mean over classes", "nearest window", "largest class"]
    columns += ["paper's accuracy"]
    return text + table(columns, rows)
