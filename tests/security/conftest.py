"""A profile, a machine and a file of the user's, for all who attack them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Machine, make_machine

from sessiontree.profiles import Profile, get_profile


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path / "machine")


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))
    return get_profile()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of the user's that is none of our business."""
    path = tmp_path / "outside" / "secret.txt"
    path.parent.mkdir()
    path.write_text("not yours\n")
    return path
