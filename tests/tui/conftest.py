"""A profile with two projects for every test that wants one."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import Shop


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", made.profile.agent_dir)
    return made
