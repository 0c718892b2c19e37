"""A living peer: one long-running process of pi (new or old) or omp, spoken to in JSON lines.

Owns the process and its private home; knows nothing of sessions. A peer that cannot be had is an
error, never a skip: interop that did not run must not look like interop that passed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

PeerName = Literal["pi", "old-pi", "omp"]

CHECKOUT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("driver.mjs")
ANSWER_TIMEOUT_S = 60.0
# Variables by which a terminal or a user's own agent would leak into a peer's folders.
_LEAKS = (
    "PI_",
    "OMP_",
    "SESSIONTREE_",
    "ZELLIJ",
    "TMUX",
    "KITTY_",
    "WEZTERM_",
    "CMUX_",
    "TERM_SESSION",
)


class PeerError(Exception):
    """The peer raised; the text is its own."""


class PeerHangsError(Exception):
    """The peer gave no answer in time and was ended."""


class PeerDiedError(Exception):
    """The peer's process ended instead of answering."""


def find_peers() -> Path:
    """The ``node_modules`` folder with all peers, installed if need be. Raises RuntimeError."""
    script = CHECKOUT / "benchmarks" / "peers.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"interop needs the living peers: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def peer_environment(home: Path) -> dict[str, str]:
    """A user of its own: home, agent folder and temp folder below ``home``."""
    agent = home / "agent"
    temp = home / "tmp"
    agent.mkdir(parents=True, exist_ok=True)
    temp.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_LEAKS)}
    kept |= {
        "HOME": str(home),
        "TMPDIR": str(temp),
        "PI_CODING_AGENT_DIR": str(agent),
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "NO_COLOR": "1",
    }
    return kept


class Peer:
    """One running peer; ``ask`` is a request and its answer."""

    def __init__(
        self,
        name: PeerName,
        root: Path,
        home: Path,
        timeout_s: float = ANSWER_TIMEOUT_S,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.home = home
        self.agent_dir = home / "agent"
        self._timeout_s = timeout_s
        runner = {"pi": str(find_node(root)), "old-pi": "node", "omp": str(root / ".bin" / "bun")}
        self._process = subprocess.Popen(
            [runner[name], str(DRIVER), name, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**peer_environment(home), **(env or {})},
            cwd=home,
        )
        self._read(ANSWER_TIMEOUT_S)

    def ask(self, op: str, **given: Any) -> Any:
        """The peer's answer. Raises PeerError, PeerHangsError or PeerDiedError."""
        request = {"op": op, **{k: _plain(v) for k, v in given.items()}}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerDiedError(f"{self.name} is gone") from error
        return self._read(self._timeout_s)

    def close(self) -> None:
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.close()
            except OSError:
                pass
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, timeout_s: float) -> Any:
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        watchdog = threading.Timer(timeout_s, end)
        watchdog.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            code = self._process.wait()
            if late.is_set():
                raise PeerHangsError(f"{self.name} gave no answer in {timeout_s} s")
            raise PeerDiedError(f"{self.name} ended with {code}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["ok"]


def find_node(root: Path) -> Path:
    """Find the node installed with the peers: pi asks for a newer one than many machines have."""
    return next(root.glob("node-*/bin/node"))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, os.PathLike) else value
