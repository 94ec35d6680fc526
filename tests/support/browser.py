"""Headless Chromium, driven through the DevTools protocol: console, requests, drawings and reactions of a page."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from websockets.sync.client import ClientConnection, connect

from tests.support.patience import PATIENCE

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The path of the browser; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@dataclass
class Page:
    """An open page: `console` has its warnings and errors, `requests` the requested addresses."""

    socket: ClientConnection
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    number: int = 0

    def send(self, method: str, **parameters: object) -> dict[str, object]:
        """The result of a command; events that arrive before it are noted."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE))
            if message.get("id") == self.number:
                assert "error" not in message, message
                result: dict[str, object] = message["result"]
                return result
            self.note(message)

    def note(self, event: dict[str, object]) -> None:
        match event:
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": str(url)}}}:
                self.requests.append(url)
            case {"method": "Runtime.exceptionThrown" | "Log.entryAdded", "params": dict(what)}:
                self.console.append(json.dumps(what))
            case {"method": "Runtime.consoleAPICalled", "params": {"type": "error" | "warning", "args": list(what)}}:
                self.console.append(json.dumps(what))
            case _:
                pass

    def evaluate(self, expression: str) -> object:
        """The value of an expression, awaited where it is a promise."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        match result:
            case {"result": {"value": value}}:
                return value
            case _:
                return None

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.02)

    def frame(self) -> None:
        """Wait for the next frame."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, x: float, y: float, to: float) -> None:
        """Drag horizontally."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for part in (0.5, 1.0):
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + (to - x) * part, y=y, button="left", buttons=1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=to, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def resize(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.frame()

    def prefer(self, scheme: str) -> None:
        """Emulate the system's colour scheme: light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.frame()

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(str(answer["data"])))


class Browser:
    """A running browser, which opens pages."""

    def __init__(self, address: str) -> None:
        self.address = address

    @contextmanager
    def page(
        self, path: Path | str, *, width: int = 1400, height: int = 1000, scheme: str = "light", script: bool = True
    ) -> Iterator[Page]:
        """The page of a file or a URL, opened after all listeners are registered. `script`: False turns JavaScript off."""
        url = path if isinstance(path, str) else path.resolve().as_uri()
        with urlopen(Request(f"http://{self.address}/json/new?about:blank", method="PUT"), timeout=PATIENCE) as answer:
            target = json.load(answer)
        with connect(target["webSocketDebuggerUrl"], max_size=None, open_timeout=PATIENCE) as socket:
            page = Page(socket)
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.send(f"{domain}.enable")
            page.send("Emulation.setScriptExecutionDisabled", value=not script)
            page.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            page.send("Page.navigate", url=url)
            page.wait("document.readyState === 'complete' && location.protocol !== 'about:'")
            if script:
                page.frame()
            yield page
            page.send("Page.close")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser without a profile of its own; it ends with the block."""
    program = chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--no-first-run", "--disable-gpu"]
        options += ["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        process = subprocess.Popen([program, *options, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = Path(profile) / "DevToolsActivePort"
            until = time.monotonic() + PATIENCE
            while not (port.exists() and port.read_text().count("\n")):
                assert process.poll() is None, f"{program} has ended with {process.returncode}"
                assert time.monotonic() < until, f"{program} does not answer"
                time.sleep(0.05)
            yield Browser(f"127.0.0.1:{port.read_text().splitlines()[0]}")
        finally:
            process.terminate()
            process.wait(PATIENCE)
