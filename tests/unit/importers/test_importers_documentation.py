"""What the guide to importing shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sessiontree.discovery.adapters import unregister_adapter

GUIDE = Path(__file__).parents[3] / "docs" / "importing.md"


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    scope: dict[str, object] = {"__name__": "example"}
    try:
        for example in examples:
            exec(compile(example, str(GUIDE), "exec"), scope)
    finally:
        unregister_adapter("foo")  # the last one adds an agent
