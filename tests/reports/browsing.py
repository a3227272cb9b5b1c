"""A real headless Chromium with the network cut, and what the browser tests do with it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US",
    "--force-color-profile=srgb", "--force-device-scale-factor=1", "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
)  # fmt: skip


def missing() -> str | None:
    """Why there is no browser, in words; `None` if there is one."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium is installed; tools/ensure_chromium.sh installs it"
    if shutil.which("chromedriver") is None:
        return "chromedriver is not installed; tools/ensure_chromium.sh installs it"
    return None


class Browser:
    """Chromium on one page at a time."""

    def __init__(self, home: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
        for flag in (*FLAGS, f"--user-data-dir={home / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.downloads = home / "downloads"
        self.downloads.mkdir()
        self.cdp(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(self.downloads),
            eventsEnabled=False,
        )

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=mobile,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.cdp("Emulation.setEmulatedMedia", features=[feature])

    def open(self, page: Path, width: int = 1280, height: int = 900) -> None:
        self.size(width, height)
        self.prefer("light")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(page.as_uri())
        self.until(lambda: self.js("return document.documentElement.dataset.ready") == "yes")

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def find(self, css: str) -> WebElement:
        return self.driver.find_element("css selector", css)

    def text(self, css: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", css)).strip()

    def until(self, true: Callable[[], object], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise AssertionError("the page did not get there in time")
            time.sleep(0.05)

    def settle(self) -> None:
        """Two frames, so that what was asked for has been painted."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def requests(self) -> list[str]:
        """Everything the page asked for since it was opened, itself and inline data apart."""
        sent = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                params = message["params"]
                sent.append(params.get("request", params)["url"])
        own = self.driver.current_url.partition("#")[0]
        return [url for url in sent if url != own and not url.startswith(("data:", "blob:"))]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def pixels(self, css: str) -> np.ndarray:
        """What the user sees of an element, as numbers."""
        self.settle()
        path = self.downloads.parent / "shot.png"
        self.find(css).screenshot(str(path))
        return np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)

    def at_zone(self, zone: int) -> tuple[float, float]:
        """Where on the screen a zone's middle is."""
        x, y = self.js(
            "const m = sfumato.page.map, a = m.map.anchors[arguments[0]], "
            "b = m.frame.getBoundingClientRect();"
            "return [b.left + m.view.x + m.view.scale * a[0], "
            "b.top + m.view.y + m.view.scale * a[1]];",
            zone,
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def press(self, key: str, css: str = "body") -> None:
        self.find(css).send_keys(key)

    def downloaded(self, name_end: str) -> str:
        def found() -> list[Path]:
            return [p for p in self.downloads.iterdir() if p.name.endswith(name_end)]

        self.until(found)
        path = found()[0]
        self.until(lambda: path.stat().st_size > 0)
        text = path.read_text("utf-8")
        path.unlink()
        return text

    def close(self) -> None:
        self.driver.quit()
