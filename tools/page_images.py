"""Pictures of the pages for the documentation: python tools/page_images.py RELEASE OUT.

RELEASE is a release folder. Light, dark, a selection with its sum, phone width, print and, from
made-up numbers, the internal page are taken in headless Chromium and kept small.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image

from sfumato.reports.internal import write_internal_page
from sfumato.reports.page import write_page

TESTS = Path(__file__).resolve().parents[1] / "tests" / "reports"


def helper(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keep(browser: Any, path: Path) -> None:
    browser.settle()
    shot = browser.cdp("Page.captureScreenshot", format="png")["data"]
    image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
    image.save(path, optimize=True)


def paper(browser: Any, path: Path) -> None:
    """The first two printed sheets side by side, where pdftoppm can turn them into pixels."""
    if shutil.which("pdftoppm") is None:
        print("pdftoppm is not installed: no picture of the printed page")
        return
    sheet = {"paperWidth": 8.27, "paperHeight": 11.69}
    pdf = base64.b64decode(browser.cdp("Page.printToPDF", **sheet)["data"])
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "page.pdf").write_bytes(pdf)
        command = ["pdftoppm", "-r", "75", "-l", "2", "-png", "page.pdf", "sheet"]
        subprocess.run(command, cwd=home, check=True)
        sheets = [Image.open(p).convert("RGB") for p in sorted(Path(home).glob("sheet*.png"))]
    both = Image.new("RGB", (sum(s.width + 6 for s in sheets) - 6, sheets[0].height), "#888888")
    for k, one in enumerate(sheets):
        both.paste(one, (k * (one.width + 6), 0))
    both.save(path, optimize=True)


def outlined(browser: Any) -> None:
    """Zones that were drawn around in the middle of the map, and their sum over a day."""
    browser.size(1400, 1150)
    browser.js("sfumato.page.choose(-1); window.scrollTo(0, 0)")
    browser.find("#tool-outline").click()
    browser.settle()
    left, top, right, bottom = browser.js(
        "const b = sfumato.page.map.frame.getBoundingClientRect();"
        "return [b.left, b.top, b.right, b.bottom]"
    )
    path = []
    for k in range(40):
        turn = 2 * math.pi * k / 40
        far = (bottom - top) * (0.2 + 0.05 * math.sin(3 * turn))
        path.append(
            ((left + right) / 2 + far * math.cos(turn), (top + bottom) / 2 + far * math.sin(turn))
        )
    browser.mouse("mousePressed", *path[0], button="left", clickCount=1)
    for x, y in path[1:]:
        browser.mouse("mouseMoved", x, y, button="left", buttons=1)
    browser.mouse("mouseReleased", *path[-1], button="left", clickCount=1)
    browser.find("#sum-day").click()
    browser.js("window.scrollTo(0, document.getElementById('map-box').offsetTop - 50)")


def main(release: Path, out: Path) -> None:
    browsing = helper("browsing")
    reason = browsing.missing()
    if reason:
        raise SystemExit(f"There is no picture to take: {reason}.")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        page = write_page(release, Path(home) / "page.html")
        inside = write_internal_page(
            helper("test_internal").evaluation("Example City, two releases", 240, 7), home
        )
        browser = browsing.Browser(Path(home))
        try:
            browser.open(page, 1400, 1000)
            browser.js("sfumato.page.go(36); sfumato.page.choose(sfumato.page.release.busiest(36))")
            keep(browser, out / "page-light.png")
            browser.js("document.getElementById('theme').click()")
            browser.js("sfumato.page.pin(27); document.getElementById('uncertain').click()")
            keep(browser, out / "page-dark.png")
            browser.js("sfumato.page.pin(-1); document.getElementById('uncertain').click()")
            browser.js("document.getElementById('theme').click()")
            outlined(browser)
            keep(browser, out / "page-sum.png")
            browser.open(page, 1400, 1000)
            browser.js("sfumato.page.go(36); sfumato.page.choose(sfumato.page.release.busiest(36))")
            browser.size(390, 1500, mobile=True)
            keep(browser, out / "page-phone.png")
            browser.size(1280, 900)
            browser.settle()
            paper(browser, out / "page-print.png")
            browser.open(inside, 1400, 1700)
            keep(browser, out / "page-internal.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
