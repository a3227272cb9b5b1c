"""Real headless browsers with the network cut, and what the browser tests do with them.

Chromium is driven by chromedriver; Firefox by the protocol that it speaks itself (WebDriver BiDi
over a local socket), so that it needs no driver.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import websocket
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
FIREFOXES = ("firefox-esr", "firefox")
STARTING, ANSWERING = 30, 20  # seconds a browser may take to start, and for one answer
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US",
    "--force-color-profile=srgb", "--force-device-scale-factor=1", "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
)  # fmt: skip
_PREFERENCES = {
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.allow_hijacking_localhost": False,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.startup.page": 0,
    "intl.accept_languages": "en-US",
    "layout.css.devPixelsPerPx": "1.0",
    "gfx.color_management.mode": 0,
}


def missing(name: str = "chromium") -> str | None:
    """Why there is no browser of that name, in words; `None` if there is one."""
    if name == "firefox":
        if not any(map(shutil.which, FIREFOXES)):
            return "no Firefox is installed; tools/ensure_firefox.sh installs it"
        return None
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium is installed; tools/ensure_chromium.sh installs it"
    if shutil.which("chromedriver") is None:
        return "chromedriver is not installed; tools/ensure_chromium.sh installs it"
    return None


class NotStarted(Exception):
    """There is a browser, and it does not run here (a stub of a package, no memory left)."""


class Page:
    """What every browser can do with the page that is open."""

    home: Path

    def js(self, code: str, *arguments: Any) -> Any:
        raise NotImplementedError

    def goto(self, url: str) -> None:
        raise NotImplementedError

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        raise NotImplementedError

    def move(self, x: float, y: float) -> None:
        raise NotImplementedError

    def click_at(self, x: float, y: float) -> None:
        raise NotImplementedError

    def screen(self, left: float, top: float, width: float, height: float) -> Image.Image:
        raise NotImplementedError

    def forget(self) -> None:
        """Nothing that was asked for or complained of before counts."""

    def open(self, page: Path, width: int = 1280, height: int = 900, hash: str = "") -> None:
        self.size(width, height)
        self.forget()
        self.goto("about:blank")  # another hash alone would not load the page again
        self.goto(page.as_uri() + hash)
        self.until(lambda: self.js("return document.documentElement.dataset.ready") == "yes")

    def text(self, css: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", css)).strip()

    def click(self, css: str) -> None:
        """A click as scripts see one, wherever on the page the element is."""
        self.js("document.querySelector(arguments[0]).click()", css)

    def seen(self, css: str) -> bool:
        return bool(
            self.js(
                "const e = document.querySelector(arguments[0]);"
                "return !!e && e.checkVisibility() && e.getBoundingClientRect().height > 0",
                css,
            )
        )

    def box(self, css: str) -> dict[str, float]:
        found: dict[str, float] = self.js(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return {left: b.left, top: b.top, width: b.width, height: b.height}",
            css,
        )
        return found

    def until(self, true: Callable[[], object], seconds: float = ANSWERING) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise AssertionError("the page did not get there in time")
            time.sleep(0.05)

    def picture(self, css: str) -> np.ndarray:
        """What is seen of an element that is in sight, as numbers."""
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.settle()
        box = self.box(css)
        image = self.screen(box["left"], box["top"], box["width"], box["height"])
        return np.asarray(image.convert("RGB"), dtype=np.int16)

    def settle(self) -> None:
        """Two frames, so that what was asked for has been painted."""
        self.js("window.framed = 0; requestAnimationFrame(() => requestAnimationFrame(() => "
                "{ window.framed = 1; }))")  # fmt: skip
        self.until(lambda: self.js("return window.framed") == 1)

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


class Browser(Page):
    """Chromium on one page at a time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        options = webdriver.ChromeOptions()
        options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
        for flag in (*FLAGS, f"--user-data-dir={home / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(ANSWERING)
        self.driver.set_script_timeout(ANSWERING)
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

    def forget(self) -> None:
        self.prefer("light")
        for log in ("browser", "performance"):
            self.driver.get_log(log)

    def goto(self, url: str) -> None:
        self.driver.get(url)

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def find(self, css: str) -> WebElement:
        return self.driver.find_element("css selector", css)

    def settle(self) -> None:
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
        return [url for url in sent if _elsewhere(url, own)]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def pixels(self, css: str) -> np.ndarray:
        """What the user sees of an element, as numbers."""
        self.settle()
        path = self.home / "shot.png"
        self.find(css).screenshot(str(path))
        return np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)

    def screen(self, left: float, top: float, width: float, height: float) -> Image.Image:
        shot = self.cdp("Page.captureScreenshot", format="png")["data"]
        image = Image.open(io.BytesIO(base64.b64decode(shot)))
        return image.crop((round(left), round(top), round(left + width), round(top + height)))

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)

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


class Firefox(Page):
    """Firefox on one page at a time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        profile = home / "firefox"
        profile.mkdir()
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in _PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines))
        binary = next(filter(None, map(shutil.which, FIREFOXES)))
        said = home / "firefox.log"  # a file, as a pipe that nobody reads fills up and stops it
        with said.open("w") as log:
            self._process = subprocess.Popen(
                [binary, "--headless", "--no-remote", "--profile", str(profile),
                 "--remote-debugging-port=0"],
                stderr=log, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        end = time.monotonic() + STARTING
        while not (address := re.search(r"BiDi listening on (ws://\S+)\s", said.read_text())):
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                self._process.wait(ANSWERING)
                raise NotStarted(f"{binary} is installed but did not start within {STARTING} s")
            time.sleep(0.05)
        self._socket = websocket.create_connection(
            f"{address[1]}/session", suppress_origin=True, timeout=ANSWERING
        )
        self._calls = 0
        self._events: list[dict[str, Any]] = []
        self._ask("session.new", capabilities={})
        self._context = self._ask("browsingContext.getTree")["contexts"][0]["context"]
        self._ask("session.subscribe", events=["network.beforeRequestSent", "log.entryAdded"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") != self._calls:
                self._events.append(answer)
            elif answer["type"] == "error":
                raise AssertionError(f"{answer['error']}: {answer['message']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def goto(self, url: str) -> None:
        self._url = url
        self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def size(self, width: int, height: int, mobile: bool = False) -> None:  # noqa: ARG002
        viewport = {"width": width, "height": height}
        self._ask("browsingContext.setViewport", context=self._context, viewport=viewport)

    def forget(self) -> None:
        self._events.clear()

    def js(self, code: str, *arguments: Any) -> Any:
        """As Selenium runs it: `arguments`, and what is returned as plain data."""
        found = self._ask(
            "script.callFunction",
            functionDeclaration="(text) => JSON.stringify((function () {"
            f"{code}\n}}).apply(null, JSON.parse(text)) ?? null)",
            arguments=[{"type": "string", "value": json.dumps(arguments)}],
            awaitPromise=False,
            target={"context": self._context},
        )
        if found["type"] != "success":
            raise AssertionError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    def _pointer(self, *steps: dict[str, Any]) -> None:
        source = {"type": "pointer", "id": "mouse", "actions": list(steps)}
        self._ask("input.performActions", context=self._context, actions=[source])

    def move(self, x: float, y: float) -> None:
        self._pointer({"type": "pointerMove", "x": round(x), "y": round(y)})

    def click_at(self, x: float, y: float) -> None:
        there = {"type": "pointerMove", "x": round(x), "y": round(y)}
        self._pointer(
            there, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        )

    def screen(self, left: float, top: float, width: float, height: float) -> Image.Image:
        clip = {"type": "box", "x": left, "y": top, "width": width, "height": height}
        shot = self._ask("browsingContext.captureScreenshot", context=self._context, clip=clip)
        return Image.open(io.BytesIO(base64.b64decode(shot["data"])))

    def requests(self) -> list[str]:
        """Everything the page asked for since it was opened, itself and inline data apart."""
        self.js("return 0")  # whatever was sent before this answer has arrived
        own = self._url.partition("#")[0]
        sent = [e["params"] for e in self._events if e.get("method") == "network.beforeRequestSent"]
        urls = [s["request"]["url"] for s in sent if s["context"] == self._context]
        return [url for url in urls if _elsewhere(url, own)]

    def complaints(self) -> list[str]:
        self.js("return 0")
        logs = [e["params"] for e in self._events if e.get("method") == "log.entryAdded"]
        return [str(log["text"]) for log in logs if log["level"] in ("error", "warn")]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._ask("session.end")
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(ANSWERING)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _elsewhere(url: str, own: str) -> bool:
    inline = url.startswith(("data:", "blob:", "about:"))
    return not inline and url.partition("#")[0] != own
