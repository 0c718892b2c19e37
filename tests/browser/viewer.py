"""The real ``sessiontree view`` for browser tests: a home of its own, and its address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.samples import write

from .chromium import Page

_PROGRAM = str(Path(sys.executable).with_name("sessiontree"))


@dataclass
class Viewer:
    """A viewer that runs; ``url`` lets one in, ``root`` is where its pages are."""

    home: Path
    url: str

    @property
    def root(self) -> str:
        return self.url.partition("/?")[0]

    def session(self, name: str, *records: dict[str, Any], project: str = "work-pi") -> Path:
        """Write a session file."""
        return write_session(self.home, name, *records, project=project)

    def enter(self, page: Page) -> None:
        """Open the address that the command printed, and wait for the list."""
        page.go(self.url)
        page.wait(
            "!location.search.includes('token') && document.readyState === 'complete' && "
            "document.querySelector('#filters')"
        )

    def open(self, page: Page, title: str) -> None:
        """Open a session of the list by its title."""
        self.enter(page)
        page.wait(f"[...document.querySelectorAll('a.name')].some(a => a.innerText === {title!r})")
        link = f"[...document.querySelectorAll('a.name')].find(a => a.innerText === {title!r}).href"
        page.go(page.js(link))
        page.wait("window.sessiontreePage && document.querySelector('#rows li')")


def write_session(
    home: Path, name: str, *records: dict[str, Any], project: str = "work-pi"
) -> Path:
    """Write a file of the default profile."""
    folder = home / ".sessiontree" / "agent" / "sessions" / f"--{project}--"
    return write(folder / f"2026-02-16T10-20-30-000Z_{name}.jsonl", *records)


@contextmanager
def run_viewer(home: Path, *options: str, **env: str) -> Iterator[Viewer]:
    """Start the command on a free port, and end it as Ctrl+C does."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    started = subprocess.Popen(
        [_PROGRAM, "view", "--no-open", *options],
        env={**kept, "HOME": str(home), "TZ": "UTC", **env},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert started.stdout is not None
        first = started.stdout.readline()
        assert first.startswith("Sessions: http://"), first
        yield Viewer(home, first.removeprefix("Sessions: ").strip())
    finally:
        started.send_signal(signal.SIGINT)
        try:
            started.communicate(timeout=10)
        finally:
            started.kill()
            started.wait()
