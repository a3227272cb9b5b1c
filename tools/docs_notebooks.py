"""Notebooks of the documentation: executed, and rendered as pages with their outputs.

A notebook is plain Python without magics, so that any Jupyter runs it. Here its cells run in this
process, as a kernel would: what a cell's last expression gives is shown by its `_repr_html_`,
`_repr_png_` or `repr`, figures that pyplot has open are shown at the end of the cell. That is all a
kernel does for these cells, and it spares the 37 packages of one (docs/decisions/documentation.md).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST = 4000
"""Characters of a text output that a page shows."""


def execute(path: Path, *, write: bool = False) -> list[dict[str, Any]]:
    """Run every cell in order, in an empty folder with a ledger of its own.

    Args:
        path: The notebook.
        write: Also write the outputs into the file.

    Returns:
        The code cells, with outputs.

    Raises:
        RuntimeError: A cell failed; the cause is what it raised.
    """
    notebook = json.loads(path.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    with _elsewhere():
        for number, cell in enumerate(cells, 1):
            try:
                outputs = _run("".join(cell["source"]), names, f"{path.name}[{number}]")
            except Exception as error:
                raise RuntimeError(f"{path.name}: cell {number} failed: {error}") from error
            cell |= {"execution_count": number, "outputs": outputs}
            for one in outputs:
                if one["output_type"] == "execute_result":
                    one["execution_count"] = number
    if write:
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
    return cells


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """An empty working folder; ledgers go there too."""
    before, home = Path.cwd(), os.environ.get("XDG_DATA_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_DATA_HOME"] = folder
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("XDG_DATA_HOME")
            if home is not None:
                os.environ["XDG_DATA_HOME"] = home


def _run(source: str, names: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, shown = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), name, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        lines = said.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if shown is not None and not source.rstrip().endswith(";"):
        made = {"output_type": "execute_result", "metadata": {}, "data": _bundle(shown)}
        outputs.append(made)
    return outputs


def _bundle(shown: Any) -> dict[str, Any]:
    """MIME type to data, as Jupyter keeps it."""
    data: dict[str, Any] = {"text/plain": repr(shown).splitlines(keepends=True)}
    if hasattr(shown, "_repr_png_") and (png := shown._repr_png_()):
        data["image/png"] = base64.b64encode(png).decode()
    elif type(shown).__module__.startswith("matplotlib") and hasattr(shown, "savefig"):
        drawn = io.BytesIO()
        shown.savefig(drawn, format="png", dpi=110, bbox_inches="tight")
        data["image/png"] = base64.b64encode(drawn.getvalue()).decode()
    if hasattr(shown, "_repr_html_") and (html := shown._repr_html_()):
        data["text/html"] = html.splitlines(keepends=True)
    return data


# --- as pages


def write_pages(notebooks: Path, to: Path) -> None:
    """A page for each notebook, its pictures, the notebook itself to take along, and a list."""
    to.mkdir(parents=True, exist_ok=True)
    names = []
    for path in sorted(notebooks.glob("*.ipynb")):
        names.append(path.stem)
        (to / path.name).write_bytes(path.read_bytes())
        (to / f"{path.stem}.md").write_text(page(path, to), "utf-8")
    text = (notebooks / "index.md").read_text("utf-8").replace(".ipynb)", ".md)")
    listed = "\n".join(names)
    (to / "index.md").write_text(f"{text}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n", "utf-8")


def page(path: Path, to: Path) -> str:
    """A notebook as Markdown; pictures are written beside it."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    parts: list[str] = []
    pictures = 0
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(_block("".join(output["text"])))
                continue
            data = output["data"]
            if "image/png" in data:
                pictures += 1
                name = f"{path.stem}-{pictures}.png"
                (to / name).write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![Output of the cell above]({name})")
            elif "text/html" in data:
                html = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]))
                parts.append(f'<div class="cell-output">\n{html}\n</div>')
            else:
                parts.append(_block("".join(data["text/plain"])))
    parts.insert(1, f"The notebook itself: {{download}}`{path.name}`.")
    return "\n\n".join(parts) + "\n"


def _block(text: str) -> str:
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "\n…"
    return f"```none\n{text.rstrip()}\n```"
