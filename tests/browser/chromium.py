"""A real Chromium for tests, driven over a pipe with the DevTools protocol: no driver needed.

One browser with a profile of its own, any number of pages. What a page may not do (run a script of
a session, ask the network, break its policy, log an error) is written down in its ``log`` as it
happens, so that a test can look at all of it in the end.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import queue
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
_PATIENCE_S = 15.0
_KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Backspace": ("Backspace", 8, ""),
}


class BrowserError(AssertionError):
    """The browser answered with an error, or a page did not get where it should."""


class Browser:
    """One Chromium process."""

    def __init__(self) -> None:
        binary = next(filter(None, map(shutil.which, _NAMES)), None)
        if binary is None:
            raise BrowserError("The browser tests need Chromium: run scripts/system_tools.sh")
        self._folder = tempfile.mkdtemp(prefix="chromium-")
        theirs_in, ours_out = _apart(os.pipe())
        ours_in, theirs_out = _apart(os.pipe())
        arguments = [binary, *_FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        silent = (os.POSIX_SPAWN_OPEN, 2, os.path.join(self._folder, "log"), 0o102, 0o600)
        self._pid = os.posix_spawn(
            binary,
            arguments,
            {**os.environ, "HOME": self._folder},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
                silent,
            ],
            setpgroup=0,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = ours_out, ours_in
        self._number = 0
        self._lock = threading.Lock()
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def page(self, width: int = 1280, height: int = 800) -> Page:
        """A new page in a context of its own: no cookies of others."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], target["targetId"])
        self._pages[attached["sessionId"]] = page
        page.start(width, height)
        return page

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command; its result."""
        answer: queue.Queue[dict[str, Any]] = queue.Queue()
        with self._lock:
            self._number += 1
            number = self._number
            self._answers[number] = answer
            message: dict[str, Any] = {"id": number, "method": method, "params": params}
            if session is not None:
                message["sessionId"] = session
            _write_all(self._out, json.dumps(message).encode() + b"\0")
        try:
            told = answer.get(timeout=_PATIENCE_S)
        except queue.Empty:
            raise BrowserError(f"{method}: no answer") from None
        if "error" in told:
            raise BrowserError(f"{method}: {told['error'].get('message')}")
        result: dict[str, Any] = told.get("result", {})
        return result

    def close(self) -> None:
        """End the process and remove its profile."""
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        with contextlib.suppress(ProcessLookupError):
            deadline = time.monotonic() + 5
            while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.killpg(self._pid, signal.SIGKILL)
                    os.waitpid(self._pid, 0)
                    break
                time.sleep(0.02)
        self._reader.join(5)
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        waiting = b""
        while True:
            try:
                piece = os.read(self._in, 1 << 20)
            except OSError:
                piece = b""
            if not piece:
                break
            *messages, waiting = (waiting + piece).split(b"\0")
            for text in messages:
                self._take(json.loads(text))
        for answer in list(self._answers.values()):
            answer.put({"error": {"message": "the browser is gone"}})

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            answer = self._answers.pop(message["id"], None)
            if answer is not None:
                answer.put(message)
        elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
            page.hear(message["method"], message["params"])


class Page:
    """One tab. ``log`` has what went wrong, ``requests`` what it asked the network for."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self.log: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.downloads: list[str] = []
        self._loaded = threading.Event()

    def start(self, width: int, height: int) -> None:
        """Listen to everything."""
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self._browser.call(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Take an event; runs in the reader's thread, so it must not wait."""
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
                threading.Thread(
                    target=self.call, args=("Page.handleJavaScriptDialog",), kwargs={"accept": True}
                ).start()
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                thrown = details.get("exception", {}).get("description", "")
                self.log.append(f"exception: {details['text']} {thrown}")
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                self.log.append(f"console: {params['args']}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                entry = params["entry"]
                self.log.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
            case "Audits.issueAdded":
                if params["issue"]["code"] == "ContentSecurityPolicyIssue":
                    self.log.append(f"policy: {params['issue']['details']}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    # -- where it is -----------------------------------------------------------------------

    def go(self, url: str | Path) -> None:
        """Open an address, or a file, and wait until it is loaded."""
        self._loaded.clear()
        address = url.as_uri() if isinstance(url, Path) else url
        told = self.call("Page.navigate", url=address)
        if told.get("errorText"):
            raise BrowserError(f"{address}: {told['errorText']}")
        if "loaderId" in told and not self._loaded.wait(_PATIENCE_S):
            raise BrowserError(f"{address} did not load")

    def wait_for_load(self) -> None:
        """Wait for a page that a click opens: clear with ``expect_load`` before it."""
        if not self._loaded.wait(_PATIENCE_S):
            raise BrowserError("nothing was loaded")

    @contextlib.contextmanager
    def expect_load(self) -> Iterator[None]:
        """What is done within opens another page, which is loaded when this ends."""
        self._loaded.clear()
        yield
        self.wait_for_load()

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def media(self, *, dark: bool = False, medium: str = "") -> None:
        """Prefer dark or light colours; show the page as for another medium (``print``)."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def without_scripts(self) -> None:
        """Run no scripts of pages that are opened from now on."""
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    # -- what it shows ---------------------------------------------------------------------

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        told = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            raise BrowserError(f"{details['text']} {thrown}")
        return told["result"].get("value")

    def wait(self, expression: str, patience_s: float = _PATIENCE_S) -> Any:
        """Wait until an expression is true; its value."""
        deadline = time.monotonic() + patience_s
        while True:
            value = self.js(expression)
            if value not in (None, False, 0, ""):  # an element comes as an empty object
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {expression}")
            time.sleep(0.02)

    def text(self, selector: str = "body") -> str:
        """The visible text of an element."""
        return str(self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.js(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page."""
        told = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page."""
        told = self.call("Page.printToPDF", printBackground=True)
        path.write_bytes(base64.b64decode(told["data"]))

    # -- hands -----------------------------------------------------------------------------

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        place = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "if (!e) return null; e.scrollIntoView({block: 'nearest'});"
            "const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        if place is None:
            raise BrowserError(f"nothing to click: {selector}")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="none" if kind == "mouseMoved" else "left",
                clickCount=1,
            )

    def type(self, text: str) -> None:
        """Type text where the focus is."""
        for character in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=character, key=character)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    def key(self, name: str, *, shift: bool = False) -> None:
        """Press a key that has a name."""
        code, number, text = _KEYS[name]
        held = 8 if shift else 0
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=code,
                windowsVirtualKeyCode=number,
                modifiers=held,
                **({"text": text} if kind == "keyDown" and text else {}),
            )

    def close(self) -> None:
        """Close the tab."""
        with contextlib.suppress(BrowserError):
            self._browser.call("Target.closeTarget", targetId=self._target)


def _apart(ends: tuple[int, int]) -> tuple[int, int]:
    """The ends of a pipe, on numbers that are out of the way of 3 and 4 and not inherited."""
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 16) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
