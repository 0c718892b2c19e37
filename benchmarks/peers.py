"""Installs the living agents (pi, omp) and bun into ``.peers/``, once.

Owns which versions we compare with and where they lie. Standard library only and runnable as a
script (``python benchmarks/peers.py`` prints the ``node_modules`` folder), so that the interop
tests and the benchmark share one installation. ``PEER_ROOT`` points at a ready one instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PI = ("@mariozechner/pi-coding-agent", "0.73.1")
OMP = ("@oh-my-pi/pi-coding-agent", "18.2.3")
BUN = ("bun", "1.4.4")
WANTED = (PI, OMP, BUN)

CHECKOUT = Path(__file__).resolve().parent.parent
PEERS_DIR = CHECKOUT / ".peers"
INSTALL_TIMEOUT_S = 1200


class PeersMissingError(RuntimeError):
    """The peers are not installed and could not be."""


def find_root() -> Path:
    """The ``node_modules`` folder in use; says nothing about what it holds."""
    chosen = os.environ.get("PEER_ROOT")
    return Path(chosen).resolve() if chosen else PEERS_DIR / "node_modules"


def ensure() -> Path:
    """A ``node_modules`` folder that holds every peer; installs what is missing.

    Raises PeersMissingError when it cannot be had.
    """
    root = find_root()
    lacking = missing(root)
    if not lacking:
        return root
    if "PEER_ROOT" in os.environ:
        raise PeersMissingError(f"PEER_ROOT={root} lacks {', '.join(lacking)}")
    install(PEERS_DIR)
    lacking = missing(root)
    if lacking:
        raise PeersMissingError(f"after the installation {root} still lacks {', '.join(lacking)}")
    return root


def missing(root: Path) -> list[str]:
    """What of the wanted versions this folder does not hold, in words."""
    lacking = [f"{name}@{version}" for name, version in WANTED if _version(root, name) != version]
    if not lacking and not _runs([str(bun_path(root)), "--version"], BUN[1]):
        lacking.append("a working bun")
    return lacking


def bun_path(root: Path) -> Path:
    return root / ".bin" / "bun"


def node_path() -> str:
    """The node on PATH. Raises PeersMissingError."""
    found = shutil.which("node")
    if found is None:
        raise PeersMissingError("node is not on PATH (20 or newer)")
    return found


def install(folder: Path) -> None:
    """Put the peers into this folder with npm. Raises PeersMissingError."""
    npm = shutil.which("npm")
    if npm is None:
        raise PeersMissingError("npm is not on PATH (node 20 or newer brings it)")
    names = [f"{name}@{version}" for name, version in WANTED]
    say(f"installing {', '.join(names)} into {folder} (a minute or two, about 1.6 GB)")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True}) + "\n")
    # Install scripts of third parties stay off; bun's own unpacks its binary and is run by name.
    options = [
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--loglevel=error",
    ]
    done = _run([npm, "install", *options, *names], folder)
    if done.returncode != 0:
        raise PeersMissingError(
            f"npm install failed: {(done.stderr or done.stdout)[-600:].strip()}"
        )
    root = folder / "node_modules"
    if not _runs([str(bun_path(root)), "--version"], BUN[1]):
        # It may report an error and have worked: ensure() looks at the result, not at the message.
        _run([node_path(), str(root / "bun" / "install.js")], folder)


def say(text: str) -> None:
    print(f"peers: {text}", file=sys.stderr, flush=True)


def _version(root: Path, name: str) -> str | None:
    try:
        found = json.loads((root / name / "package.json").read_bytes()).get("version")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, str) else None


def _runs(command: list[str], output: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == output


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeersMissingError(str(error)) from error


if __name__ == "__main__":
    try:
        print(ensure())
    except PeersMissingError as error:
        sys.exit(f"peers: {error}")
