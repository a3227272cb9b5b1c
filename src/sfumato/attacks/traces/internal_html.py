"""What the internal pages about traces are built of: a head with its warning, and tables."""

from __future__ import annotations

from html import escape

_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>INTERNAL: {title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse;margin:1rem 0}}td,th{{border:1px solid #999;padding:.2rem .6rem;
text-align:right}}th:first-child,td:first-child{{text-align:left}}img{{max-width:100%}}
.mark{{background:#a00;color:#fff;padding:.5rem 1rem;font-weight:bold}}</style>
<p class="mark">INTERNAL. Made with the true locations; not for publication.</p>"""


def head(title: str) -> str:
    """The page up to its first heading."""
    return _HEAD.format(title=escape(title))


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A table of text; whatever stands in a cell is shown as it is."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def percent(value: float | None) -> str:
    """A share with one decimal, or nothing where there is none."""
    return "" if value is None else f"{100 * value:.1f} %"
