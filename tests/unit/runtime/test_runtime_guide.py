"""The guide's examples and the example program run, and do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_guides_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    examples = _PYTHON.findall((ROOT / "docs/runtime.md").read_text(encoding="utf-8"))
    assert len(examples) == 3
    scope: dict[str, object] = {"__name__": "guide"}
    for example in examples:
        exec(compile(example, "docs/runtime.md", "exec"), scope)


def test_the_example_program_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/custom_agent.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"HOME": str(tmp_path), "PATH": ""},
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].strip() == "olleh dlrow"
    assert lines[1].endswith("[count {'text': 'count these words please'}]")
    assert lines[2].strip() == "4 words"
    assert lines[3].strip() == "and once again"
    assert lines[4].strip() == "from the other session"
    assert re.fullmatch(r"back in \w+ with 4 messages", lines[5])
