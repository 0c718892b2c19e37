"""The examples of docs/agents.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "agents.md"


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    scope: dict[str, object] = {"__name__": "example"}
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), scope)
