"""Living peers for the interop tests, each with a home of its own for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .living import Peer, find_peers
from .talk import talk

pytest.register_assert_rewrite("tests.interop.likeness")

DEFAULT_SESSIONS = 200


def session_count() -> int:
    """How many random sessions each relation is tried with (``INTEROP_SESSIONS``)."""
    return int(os.environ.get("INTEROP_SESSIONS", DEFAULT_SESSIONS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(session_count()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def peer_root() -> Path:
    return find_peers()


@pytest.fixture(scope="session")
def pi_process(peer_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with Peer("pi", peer_root, tmp_path_factory.mktemp("pi-home")) as peer:
        yield peer


@pytest.fixture(scope="session")
def old_pi(peer_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """pi as it was before it moved to its new name."""
    with Peer("old-pi", peer_root, tmp_path_factory.mktemp("old-pi-home")) as peer:
        yield peer


@pytest.fixture(scope="session")
def omp_process(peer_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with Peer("omp", peer_root, tmp_path_factory.mktemp("omp-home")) as peer:
        yield peer


@pytest.fixture
def pi(pi_process: Peer, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """pi, and this process at home in the same folders."""
    _share_home(pi_process, monkeypatch)
    return pi_process


@pytest.fixture
def omp(omp_process: Peer, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """omp, and this process at home in the same folders."""
    _share_home(omp_process, monkeypatch)
    return omp_process


@pytest.fixture(params=["pi", "omp"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each peer in turn."""
    chosen = request.getfixturevalue(request.param)
    assert isinstance(chosen, Peer)
    return chosen


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working directory that exists: omp does not adopt one that does not."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def session_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
def file(peer: Peer, project: Path, session_dir: Path) -> Path:
    """A session of three turns, written by the peer."""
    return Path(peer.ask("write", cwd=project, dir=session_dir, steps=talk(3))["file"])


@pytest.fixture
def twin(file: Path, tmp_path: Path) -> Path:
    """Where a copy of the same file for us goes: the peer may destroy its own."""
    folder = tmp_path / "ours"
    folder.mkdir()
    return folder / file.name


def _share_home(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(peer.home))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(peer.agent_dir))
