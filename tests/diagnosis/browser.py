"""A real Chromium, driven over a pipe with the DevTools protocol: nothing but the browser is needed.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

OPTIONS = (
    "--headless",
    "--no-sandbox",  # as root in a container there is none
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
ANSWER_SECONDS = 30


def _moved_up(descriptor: int) -> int:
    """The same file at a number that is neither 3 nor 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)
    os.close(descriptor)
    return moved


class Browser:
    """One page. Use it as a context manager; the browser ends with it."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads from descriptor 3 and writes to 4; the shell puts the pipes there.
        to_read, to_write = _moved_up(to_read), _moved_up(to_write)
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = [
            "bash",
            "-c",
            script,
            "chromium",
            executable,
            *OPTIONS,
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # its helpers end with it
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session = None
        with suppress(OSError, RuntimeError):
            self.send("Browser.close")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    # --- the protocol -----------------------------------------------------------------------------------------

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command; its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._read, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self._rest += data
        raw, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message

    # --- what tests do ----------------------------------------------------------------------------------------

    def open(
        self,
        page: Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        js: bool = True,
        fragment: str = "",
        media: str = "",
    ) -> None:
        """Load a file, at a fragment of its address, and wait until it is there."""
        phone = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.send("Emulation.setScriptExecutionDisabled", value=not js)
        if fragment:  # only another fragment of the page that is open would not load it again
            self._load("about:blank")
        self._load(page.as_uri() + (f"#{fragment}" if fragment else ""))

    def _load(self, address: str) -> None:
        self.events.clear()
        self.send("Page.navigate", url=address)
        end = time.monotonic() + ANSWER_SECONDS
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive(end)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; works where the page's own scripts are off, too."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(
                answer["exceptionDetails"]["exception"].get("description", "an exception")
            )
        return answer["result"].get("value")

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """A key as the keyboard sends it."""
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def screenshot(self, *, whole: bool = False) -> bytes:
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        return base64.b64decode(data)

    def printed_pages(self) -> int:
        """The number of A4 pages that printing takes."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69}
        data = base64.b64decode(
            self.send("Page.printToPDF", preferCSSPageSize=True, generateTaggedPDF=False, **size)[
                "data"
            ]
        )
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", data))

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors and violations of the policy, as the console shows them."""
        logged = [
            event["params"]["entry"]["text"]
            for event in self.events
            if event["method"] == "Log.entryAdded"
        ]
        thrown = [
            event["params"]["exceptionDetails"]["text"]
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
        ]
        return logged + thrown
