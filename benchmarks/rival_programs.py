"""The programs that people use to find and look at sessions, installed once into ``.bench/rivals``.

Owns which versions we compare with, where they lie, and why one could not be had. agentsview
answers through a server of its own, so one runs while a benchmark asks it.
"""

from __future__ import annotations

import json
import platform
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FAST_RESUME = "fast-resume"
AGENTSVIEW = "agentsview"
CCUSAGE = "ccusage"
CLAUDE_CODE_LOG = "claude-code-log"
TRANSCRIPTS = "claude-code-transcripts"
VERSIONS = {
    FAST_RESUME: "2.14.0",
    AGENTSVIEW: "0.46.1",
    CLAUDE_CODE_LOG: "1.7.0",
    TRANSCRIPTS: "0.6",
    CCUSAGE: "20.0.24",
}
QUIET = {
    "AGENTSVIEW_TELEMETRY_ENABLED": "false",
    "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
    "AGENTSVIEW_NO_BROWSER": "1",
    "DO_NOT_TRACK": "1",
}
_INSTALL_S = 600
_START_S = 60


@dataclass
class Rivals:
    """The commands that could be had, and why the others could not."""

    commands: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    @classmethod
    def ensure(cls, folder: Path, names: Iterable[str] = tuple(VERSIONS)) -> Rivals:
        """Install those of them that are missing."""
        made = cls()
        python = folder / "venv" / "bin" / "python"
        if not python.exists():
            venv.create(folder / "venv", with_pip=True)
        for name in names:
            error = _install(folder, python, name)
            command = _find_command(folder, python, name)
            if command is not None and error is None:
                made.commands[name] = str(command)
            else:
                made.lacking[name] = error or "it was installed without its program"
        return made


def _install(folder: Path, python: Path, name: str) -> str | None:
    """Install one rival, if it is not there; why that failed."""
    marker = folder / f"{name}-{VERSIONS[name]}"
    if marker.exists():
        return None
    print(f"rivals: installing {name} {VERSIONS[name]}", file=sys.stderr, flush=True)
    if name == CCUSAGE:
        npm = shutil.which("npm")
        if npm is None:
            return "npm is not on PATH"
        (folder / "package.json").write_text(json.dumps({"private": True}) + "\n")
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        command = [npm, "install", *options, f"{name}@{VERSIONS[name]}"]
    else:
        options = ["-q", "--disable-pip-version-check"]
        command = [str(python), "-m", "pip", "install", *options, f"{name}=={VERSIONS[name]}"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        return (told or ["the registry does not have it"])[-1].strip()[:120]
    marker.touch()
    return None


def _find_command(folder: Path, python: Path, name: str) -> Path | None:
    """The program itself: a rival that is native is started without a launcher in front."""
    if name == CCUSAGE:
        arch = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        package = f"ccusage-{platform.system().lower()}-{arch}"
        found = [folder / "node_modules" / "@ccusage" / package / "bin" / "ccusage"]
    elif name == AGENTSVIEW:
        found = list(folder.glob("venv/lib/python*/site-packages/agentsview/bin/agentsview"))
    else:
        found = [python.with_name(name)]
    for path in filter(Path.exists, found):
        path.chmod(path.stat().st_mode | 0o111)  # npm leaves that to a script, which is off
        return path
    return None


@contextmanager
def serving(command: str, env: Mapping[str, str], log: Path) -> Iterator[str | None]:
    """Run agentsview's server; yields why it does not answer, or None if it does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [command, "serve", "--no-browser", "--no-update-check", "--port", str(port)],
            env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            yield _wait_for(server, port)
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int) -> str | None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return f"its server ended with {server.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return None
    return f"its server does not answer in {_START_S} s"
