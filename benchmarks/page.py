"""How large the page is and how fast it draws, measured in a real headless Chromium.

    python -m benchmarks.page            # writes docs/benchmarks/page.json and page.md

First paint is from the start of loading to the first frame with the map on it; a slider step
is the script's whole work for one hour and the frame that shows it. Both need Chromium.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.reports.page import write_page

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "benchmarks"
LIMITS = {1000: 1_200_000, 5000: 5_000_000}
FIRST_PAINT_MS, STEP_MS = 1000, 30
STEPS = """
const done = arguments[0], times = [];
const page = sfumato.page;
let k = 0;
function next() {
  const began = performance.now();
  page.go((7 * k) % page.release.slots);
  page.map.below.getContext('2d').getImageData(0, 0, 1, 1); // waits until it is painted
  times.push(performance.now() - began);
  k += 1;
  if (k < 60) requestAnimationFrame(next); else done(times);
}
next();
"""
PAINT = """
return {
  ready: sfumatoReady,
  contentful: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null,
};
"""
WATCH = """
new MutationObserver(() => requestAnimationFrame(() => requestAnimationFrame(() => {
  window.sfumatoReady ??= performance.now();
}))).observe(document, {subtree: true, attributes: true, attributeFilter: ['data-ready']});
"""


def _helper(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "reports" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(zones: int, home: Path, browsing: ModuleType) -> dict[str, Any]:
    """Size, first paint and slider steps of a week of so many zones."""
    folder = _helper("conftest").city_release(home / str(zones), zones, sums=True)
    page = write_page(folder)
    result: dict[str, Any] = {"zones": zones, "slots": 168, "bytes": page.stat().st_size}
    reason = browsing.missing()
    if reason:
        return result | {"skipped": reason}
    profile = home / f"browser-{zones}"
    profile.mkdir()
    browser = browsing.Browser(profile)
    try:
        browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        paints = []
        for _ in range(5):
            browser.open(page)
            browser.until(lambda: browser.js("return window.sfumatoReady"))
            paints.append(browser.js(PAINT)["ready"])
        browser.driver.set_script_timeout(60)
        steps = sorted(browser.driver.execute_async_script(STEPS))
    finally:
        browser.close()
    return result | {
        "first_paint_ms": round(statistics.median(paints)),
        "step_ms_median": round(statistics.median(steps), 1),
        "step_ms_p95": round(steps[int(0.95 * len(steps))], 1),
    }


def main() -> int:
    browsing = _helper("browsing")
    with tempfile.TemporaryDirectory() as home:
        rows = [measure(zones, Path(home), browsing) for zones in LIMITS]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "page.json").write_text(json.dumps(rows, indent=2) + "\n")
    lines = [
        "# The page\n",
        "A week of hours, one page, measured in headless Chromium without a graphics card "
        "(`python -m benchmarks.page`).\n",
        "| zones | bytes | first paint with the map, ms | slider step, ms (median) | (95 %) |",
        "|---|---|---|---|---|",
        *(
            f"| {r['zones']:,} | {r['bytes']:,} | {r.get('first_paint_ms', '–')} | "
            f"{r.get('step_ms_median', '–')} | {r.get('step_ms_p95', '–')} |"
            for r in rows
        ),
    ]
    (OUT / "page.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    small = rows[0]
    met = all(row["bytes"] <= LIMITS[row["zones"]] for row in rows)
    met &= small.get("first_paint_ms", 0) < FIRST_PAINT_MS
    met &= small.get("step_ms_median", 0) < STEP_MS
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
