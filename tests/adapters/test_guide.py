"""The guide's examples and the example programs run, and do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall((ROOT / "docs/adapters.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/adapters.md", "exec"), {"__name__": "example"})


def run(name: str, cwd: Path) -> str:
    """What an example program prints."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    # only what the tree says beside itself: no warning, and the first process did not fail
    assert all(line.startswith("Hidden: ") for line in done.stderr.splitlines()), done.stderr
    assert "The first process ended with -9." in done.stdout
    return done.stdout


def test_the_pydantic_ai_program_is_killed_resumes_branches_and_forks(tmp_path: Path) -> None:
    printed = run("pydantic_ai_store.py", tmp_path)
    answers = re.findall(r"(.*) -> You have asked (\d) questions", printed)
    assert answers == [
        ("Where did we leave off?", "1"),
        ("And now?", "2"),
        ("Or rather this?", "2"),
    ]
    assert "A fork starts with 4 messages." in printed
    tree = printed[printed.index("fork starts") :]
    assert re.search(r"├─ ○ \S+ you And now\?", tree)
    assert re.search(r"└─ ● \S+ you Or rather this\?", tree)
    assert "Where did we leave off? -> You have asked 3 questions." in run(
        "pydantic_ai_store.py", tmp_path
    )


def test_the_openai_agents_program_is_killed_resumes_and_takes_a_turn_back(tmp_path: Path) -> None:
    printed = run("openai_agents_session.py", tmp_path)
    answers = re.findall(r"(.*) -> Answer (\d)", printed)
    assert [question for question, _ in answers] == [
        *("Where did we leave off?", "And now?", "Or rather this?"),
    ]
    assert "Resumed with 2 items." in printed
    assert "In sight: 4 items." in printed
    assert re.search(r"├─ ○ \S+ you And now\?", printed)
    assert re.search(r"└─ ● \S+ you Or rather this\?", printed)


def test_the_claude_program_is_killed_resumes_and_rewinds(tmp_path: Path) -> None:
    printed = run("claude_session_store.py", tmp_path)
    assert "Resumed with 2 messages." in printed
    assert "Sessiontree lists: Login" in printed
    assert re.search(r"├─ ○ \S+ you Fix it\.", printed)
    assert re.search(r"└─ ● \S+ you Only show me the line\.", printed)


def test_the_strands_program_is_killed_resumes_and_branches(tmp_path: Path) -> None:
    printed = run("strands_sessions.py", tmp_path)
    assert re.findall(r"(.*) -> Message (\d)", printed) == [
        *(("Where did we leave off?", "2"), ("And now?", "4"), ("Or rather this?", "4")),
    ]
    assert re.search(r"├─ ○ \S+ you And now\?", printed)
    assert re.search(r"└─ ● \S+ you Or rather this\?", printed)


def test_the_adk_program_is_killed_resumes_and_rewinds(tmp_path: Path) -> None:
    printed = run("google_adk_sessions.py", tmp_path)
    assert re.findall(r"(.*) -> Message (\d)", printed) == [
        *(("Where did we leave off?", "2"), ("And now?", "4"), ("Or rather this?", "4")),
    ]
    assert "State: {'last_answer': 'Message 4'}" in printed
    assert re.search(r"├─ ○ \S+ you And now\?", printed)
    assert re.search(r"└─ ● \S+ you Or rather this\?", printed)


def test_the_agent_framework_program_is_killed_resumes_and_branches(tmp_path: Path) -> None:
    printed = run("agent_framework_history.py", tmp_path)
    assert re.findall(r"(.*) -> Message (\d)", printed) == [
        *(("Where did we leave off?", "2"), ("And now?", "4"), ("Or rather this?", "4")),
    ]
    assert re.search(r"├─ ○ \S+ you And now\?", printed)
    assert re.search(r"└─ ● \S+ you Or rather this\?", printed)


def test_the_langgraph_program_is_killed_resumes_and_branches(tmp_path: Path) -> None:
    printed = run("langgraph_saver.py", tmp_path)
    assert re.findall(r"(.*) -> Message (\d)", printed) == [
        *(("Where did we leave off?", "2"), ("And now?", "4"), ("Or rather this?", "4")),
    ]
    assert re.search(r"├─ ○ \S+ you And now\?", printed)
    assert re.search(r"└─ ● \S+ you Or rather this\?", printed)
