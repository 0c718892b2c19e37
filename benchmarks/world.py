"""Where a benchmark runs: whose home, which folders, which command starts which contender.

Owns environments and commands, so that a case says only what is done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.corpus import Corpus
from benchmarks.measure import Run

CHECKOUT = Path(__file__).resolve().parent.parent
_LEAKS = (
    "PI_", "OMP_", "SESSIONTREE_", "XDG_", "ZELLIJ", "TMUX", "KITTY_", "WEZTERM_", "CMUX_",
    "PYTHON",  # without its byte code a program is compiled at every start
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """The folder ``.bench`` and what is in it."""

    root: Path

    @property
    def peer_root(self) -> Path:
        return peers.find_root()

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.root / "corpus")

    def us(
        self,
        op: str,
        args: dict[str, Any],
        agent: Path | None = None,
        before: Callable[[], None] | None = None,
    ) -> Run:
        command = [sys.executable, "-m", "benchmarks.driver", op, self._arguments("us", args)]
        return Run(
            command,
            self._env("us", agent),
            scratch=self._scratch("us"),
            before=before,
            cwd=CHECKOUT,
        )

    def peer(self, name: str, op: str, args: dict[str, Any], agent: Path | None = None) -> Run:
        driver = str(Path(__file__).with_name("peer.mjs"))
        given = self._arguments(name, args)
        command = [self.runner(name), driver, name, str(self.peer_root), op, given]
        return Run(
            command,
            self._env(name, agent),
            scratch=self._scratch(name),
            cwd=self.corpus.cwd(),
        )

    def floor(self, op: str, file: Path) -> Run:
        given = json.dumps({"file": str(file)})
        command = [sys.executable, "-m", "benchmarks.floors", op, given]
        return Run(command, self._env("floor", None), cwd=CHECKOUT)

    def program(self, name: str, words: list[str], agent: Path | None = None) -> Run:
        """A contender's command line program, the whole process counted."""
        started = {
            "us": [str(Path(sys.executable).with_name("sessiontree"))],
            "pi": [peers.node_path(), str(self.peer_root / peers.OLD_PI[0] / "dist" / "cli.js")],
            "omp": [self.runner("omp"), str(self.peer_root / peers.OMP[0] / "dist" / "cli.js")],
        }[name]
        env = self._env(name, agent)
        return Run([*started, *words], env, whole=True, cwd=self.corpus.cwd())

    def runner(self, peer: str) -> str:
        return peers.node_path() if peer == "pi" else str(peers.bun_path(self.peer_root))

    def forget_what_we_know(self, agent: Path) -> None:
        """Remove every index of ours, so that the next listing is the first one ever."""
        home = self._home("us")
        shutil.rmtree(home, ignore_errors=True)
        (home / "tmp").mkdir(parents=True)
        for left in agent.iterdir() if agent.is_dir() else ():
            if left.name != "sessions":
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def clean_env(self) -> dict[str, str]:
        """The environment without what would show in a measurement."""
        return {k: v for k, v in os.environ.items() if not k.startswith(_LEAKS)}

    def _home(self, name: str) -> Path:
        return self.root / "home" / name

    def _scratch(self, name: str) -> Path:
        return self.root / "scratch" / name

    def _arguments(self, name: str, args: dict[str, Any]) -> str:
        given = {"cwd": str(self.corpus.cwd()), "scratch": str(self._scratch(name)), **args}
        return json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in given.items()})

    def _env(self, name: str, agent: Path | None) -> dict[str, str]:
        home = self._home(name)
        agent = agent or home / "agent"
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        return self.clean_env() | {
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "PI_CODING_AGENT_DIR": str(agent),
            "SESSIONTREE_AGENT_DIR": str(agent),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "NO_COLOR": "1",
        }
