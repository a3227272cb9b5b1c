"""Pictures of pages for the documentation: python tools/page_images.py docs/images.

A city of 120,000 people who do not exist is made and released (zones at epsilon 0.3, towers at 1).
Light, doubt at night, dark, a selection with its sum, tablet, phone, print, towers and, from
made-up numbers, the internal page are taken in headless Chromium and kept small; and the attack on
the traces of 60 people who walk to work and back.
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

import numpy as np
from PIL import Image

import sfumato
from sfumato.attacks.traces.run import attack_traces, draw
from sfumato.city import CityPlan, write_city
from sfumato.model.traces import MICROSECONDS, Traces, make_traces
from sfumato.privacy.ledger import Cap
from sfumato.reports.internal import write_internal_page

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


def released(home: Path) -> tuple[Path, Path]:
    """Pages of two releases about one city: by zone, and by tower."""
    write_city(CityPlan(users=120_000, towers=500, zones=450, seed=3), home)
    ledger = sfumato.Ledger(home / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("example subscribers", Cap(epsilon=9, delta=1e-6))
    asked: dict[str, Any] = {"start": "2007-09-10", "end": "2007-09-17", "tz": "Europe/Paris"}
    asked |= {"dataset": "example subscribers", "expected_users": 120_000, "delta": 1e-6}
    asked |= {"ledger": ledger, "towers": home / "towers.csv", "publisher": "Example Statistics"}
    asked |= {"licence": "CC-BY-4.0", "contact": "data@example.org"}
    events, zones = home / "events.parquet", home / "zones.geojson"
    by_zone = sfumato.release(
        events, zones=zones, epsilon=0.3, out=home / "week-37",
        title="Example City, week 37", **asked,
    )  # fmt: skip
    by_tower = sfumato.release(
        events, epsilon=1, out=home / "towers-37", title="Example City, towers", **asked
    )
    return by_zone.folder / "index.html", by_tower.folder / "index.html"


def walkers(people: int = 60, days: int = 4, seed: int = 5) -> Traces:
    """A fix a minute on the way from home to work and back, along the axes of a town."""
    draw = np.random.default_rng(seed)
    rows = []
    for one in range(people):
        home, work = np.array([2.35, 48.85]) + draw.uniform(-0.02, 0.02, (2, 2))
        corners = np.array([home, (work[0], home[1]), work])
        for day, hour in ((d, h) for d in range(days) for h in (8, 17)):
            way = corners if hour == 8 else corners[::-1]
            at = np.linspace(0, 2, 40)
            lon, lat = (np.interp(at, [0, 1, 2], way[:, k]) for k in (0, 1))
            seconds = 1_710_000_000 + 86_400 * day + 3600 * hour + 60 * np.arange(40)
            rows.append((np.full(40, one), seconds, lon, lat))
    user, seconds, lon, lat = (np.concatenate(column) for column in zip(*rows, strict=True))
    names = np.array([f"p{k}" for k in range(people)], dtype=object)
    traces, _ = make_traces(user, names, seconds * MICROSECONDS, lon, lat, gap_s=600)
    return traces


def main(out: Path) -> None:
    browsing = helper("browsing")
    reason = browsing.missing()
    if reason:
        raise SystemExit(f"There is no picture to take: {reason}.")
    out.mkdir(parents=True, exist_ok=True)
    (out / "attack-traces.png").write_bytes(draw(attack_traces(walkers(), 100.0)))
    with tempfile.TemporaryDirectory() as home:
        page, towers = released(Path(home) / "city")
        inside = write_internal_page(
            helper("test_internal").evaluation("Example City, two releases", 240, 7), home
        )
        browser = browsing.Browser(Path(home))
        press = "document.getElementById('{}').click();".format
        noon = "sfumato.page.go(36); sfumato.page.choose(sfumato.page.release.busiest(36));"
        shots = {
            "page-light": (page, 1400, 1000, noon),
            "page-doubt": (page, 1400, 1000, "sfumato.page.go(28)"),
            "page-dark": (
                page, 1400, 1000,
                noon + press("theme") + press("uncertain") +
                "sfumato.page.go(30); sfumato.page.pin(27)",
            ),
            "page-tablet": (page, 820, 1180, noon + "sfumato.page.pin(30)"),
            "page-phone": (page, 390, 1500, noon),
            "page-towers": (towers, 1400, 1000, noon),
            "page-internal": (inside, 1400, 1700, "return 0"),
        }  # fmt: skip
        try:
            for name, (shown, width, height, code) in shots.items():
                browser.open(shown, width, height)
                browser.size(width, height, mobile=width < 500)
                browser.js(code)
                keep(browser, out / f"{name}.png")
            browser.open(page, 1400, 1150)
            browser.js("sfumato.page.go(36)")
            outlined(browser)
            keep(browser, out / "page-sum.png")
            browser.open(page, 1280, 900)
            browser.js(noon)
            browser.settle()
            paper(browser, out / "page-print.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
