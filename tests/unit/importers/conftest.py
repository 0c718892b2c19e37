"""A home folder with the fixtures' sessions in it, and nothing of the real one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(autouse=True)
def no_real_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "SESSIONTREE_AGENT_DIR", "SESSIONTREE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    return home


@pytest.fixture
def home(no_real_home: Path) -> Path:
    """Both agents' folders, as their users have them."""
    project = no_real_home / ".claude" / "projects" / "-home-ana-projects-parser"
    shutil.copytree(GOLDEN / "claude-code", project)
    shutil.copytree(GOLDEN / "codex", no_real_home / ".codex")
    for age, path in enumerate(sorted(no_real_home.rglob("*.jsonl"))):
        os.utime(path, (1_790_000_000 - age, 1_790_000_000 - age))
    return no_real_home


@pytest.fixture
def claude_file(home: Path) -> Path:
    (path,) = home.rglob("3f2a9c10-7b1e-4c55-9d0a-5e6f7a8b9c01.jsonl")
    return path


@pytest.fixture
def codex_file(home: Path) -> Path:
    (path,) = home.rglob("rollout-*-0197f0aa-1111-7000-8000-00000000000a.jsonl")
    return path
