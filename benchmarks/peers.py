"""Install the living agents (pi, omp), node and bun into ``.peers/``, once.

Owns which versions we compare with and where they lie. Standard library only and runnable as a
script (``python benchmarks/peers.py`` prints the ``node_modules`` folder), so that the interop
tests and the benchmark share one installation. ``PEER_ROOT`` points at a ready one instead.

pi is there twice. 0.73.1 is the last version that npm installs whole, so it is the one with a
command line. 1.5.2 is the living one; not all of its dependencies can be had, but its session
manager needs only a few functions of them. Its packages are therefore unpacked as they were
published, and ``_SHIMS`` say which of their modules stand for the dependencies.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

Package = tuple[str, str]

OLD_PI = ("@mariozechner/pi-coding-agent", "0.73.1")
PI = ("@earendil-works/pi-coding-agent", "1.5.2")
OMP = ("@oh-my-pi/pi-coding-agent", "18.2.3")
BUN = ("bun", "1.4.4")
NODE_VERSION = "22.23.3"
"""What pi 1.5.2 asks for; the node on PATH runs npm and the older pi."""

_UNPACKED = (PI, ("@earendil-works/pi-ai", PI[1]))
_SHIMS = {
    "@earendil-works/pi-ai": (
        'export { uuidv7 } from "./dist/utils/uuid.js";\n'
        'export { getCurrentSystemMessage } from "./dist/utils/transcript.js";\n'
    ),
    "@earendil-works/pi-tui": 'export { fuzzyMatch } from "@mariozechner/pi-tui";\n',
}
"""The one module that each of these packages exports here."""
_SHIM_FILE = "sessiontree-shim.mjs"

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
    lacking = [_spec(package) for package in _installed() if not _is_there(root, package)]
    lacking += [_spec((name, PI[1])) for name in _unpacked_names() if not _is_ready(root, name)]
    if not lacking and not _runs([str(bun_path(root)), "--version"], BUN[1]):
        lacking.append("a working bun")
    if not lacking and not _runs([str(new_node_path(root)), "--version"], f"v{NODE_VERSION}"):
        lacking.append("a working node 22")
    return lacking


def bun_path(root: Path) -> Path:
    return root / ".bin" / "bun"


def new_node_path(root: Path) -> Path:
    """The node that runs pi 1.5.2."""
    return root / _node_package()[0] / "bin" / "node"


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
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "node_modules"
    if not all(_is_there(root, package) for package in _installed()):
        _npm_install(npm, folder)
    if not _runs([str(bun_path(root)), "--version"], BUN[1]):
        # It may report an error and have worked: ensure() looks at the result, not at the message.
        _run([node_path(), str(root / "bun" / "install.js")], folder)
    # After npm, which removes the packages that it did not install itself.
    for package in _UNPACKED:
        if not _is_ready(root, package[0]):
            _unpack(npm, root, package)
    for name in _SHIMS.keys() - {name for name, _ in _UNPACKED}:
        _put_shim(root / name, name)


def _installed() -> tuple[Package, ...]:
    """What npm installs with all its dependencies."""
    return (OLD_PI, OMP, BUN, _node_package(), ("cross-spawn", "7.0.6"))


def _node_package() -> Package:
    """The package that holds node's binary for this machine."""
    system = platform.system().lower()
    machine = platform.machine().lower()
    arch = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    prefix = "node-bin" if (system, arch) == ("darwin", "arm64") else "node"
    return f"{prefix}-{system}-{arch}", NODE_VERSION


def _unpacked_names() -> list[str]:
    return sorted({name for name, _ in _UNPACKED} | _SHIMS.keys())


def _npm_install(npm: str, folder: Path) -> None:
    names = [_spec(package) for package in _installed()]
    say(f"installing {', '.join(names)} into {folder} (a minute or two, about 1.8 GB)")
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


def _unpack(npm: str, root: Path, package: Package) -> None:
    """Put one published package, without its dependencies, under ``root``.

    It is made ready in a folder of its own and then renamed, so a half unpacked one is never found.
    """
    name, _ = package
    say(f"unpacking {_spec(package)} (without its dependencies)")
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".unpacking-") as temp:
        command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", temp]
        done = _run([*command, _spec(package)], root.parent)
        archives = list(Path(temp).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            raise PeersMissingError(
                f"npm pack {_spec(package)} failed: {done.stderr[-600:].strip()}"
            )
        with tarfile.open(archives[0]) as archive:
            archive.extractall(temp, filter="data")
        fresh = Path(temp) / "package"
        if name in _SHIMS:
            _put_shim(fresh, name)
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            target.rename(Path(temp) / "replaced")
        fresh.rename(target)


def _put_shim(folder: Path, name: str) -> None:
    """Make ``folder`` a package of this name that exports its shim and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _SHIM_FILE).write_text(_SHIMS[name])
    package = {"name": name, "version": PI[1], "type": "module", "exports": f"./{_SHIM_FILE}"}
    (folder / "package.json").write_text(json.dumps(package) + "\n")


def _is_ready(root: Path, name: str) -> bool:
    if not _is_there(root, (name, PI[1])):
        return False
    try:
        return name not in _SHIMS or (root / name / _SHIM_FILE).read_text() == _SHIMS[name]
    except OSError:
        return False


def _is_there(root: Path, package: Package) -> bool:
    return _version(root, package[0]) == package[1]


def _spec(package: Package) -> str:
    return "@".join(package)


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
