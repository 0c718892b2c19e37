"""A profile, a machine and a file of the user's, for all who attack them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.conftest import Machine

from sessiontree.profiles import Profile, get_profile


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "machine")
    for folder in (made.home, made.project):
        folder.mkdir(parents=True)
    made.env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(made.home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SESSIONTREE_AGENT_DIR": str(made.agent_dir),
        "SESSIONTREE_CACHE_DIR": str(made.root / "cache"),
    }
    return made


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
