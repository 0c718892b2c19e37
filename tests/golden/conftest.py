"""The golden sessions of agents, each copied to where its agent keeps sessions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the session beside the test, in an agent folder of pi or omp."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    folder = tmp_path / "agent" / "sessions" / "--srv-shop--"
    folder.mkdir(parents=True)
    return Path(shutil.copy(request.path.parent / "every-entry.jsonl", folder))
