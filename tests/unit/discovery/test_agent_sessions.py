"""Listing all agents together."""

from __future__ import annotations

from pathlib import Path

from tests.agent_samples import (
    claude_answer,
    claude_prompt,
    put_claude,
    put_codex,
    put_subagent,
    write_lines,
)
from tests.unit.discovery.places import put, talk

from sessiontree import SessionManager
from sessiontree.profiles import get_profile

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def test_all_agents_are_listed_together_newest_first(home: Path) -> None:
    folder = Path(get_profile("pi").sessions_dir) / "--srv-shop--"
    put(folder, *talk("in pi", "yes"), session_id="a" * 16, cwd="/srv/other")
    put_claude(home, ONE, claude_prompt("in claude"), claude_answer("yes", 5))
    put_subagent(home, ONE, "x", claude_prompt("below", 7), claude_answer("yes", 8))
    put_codex(home, TWO, ("user", "in codex"), ("assistant", "yes"))
    write_lines(home / ".codex" / "sessions" / "rollout-2026-01-01T09-00-00-x.jsonl", [])

    found = SessionManager.list_all(agents="all")
    assert [(each.agent, each.first_message) for each in found] == [
        ("pi", "in pi"),
        ("claude-code", "in claude"),
        ("codex", "in codex"),
    ]
    assert (found.total, found.empty_count) == (3, 1)
    assert found[1].all_messages_text == "in claude yes"
    assert [each.id for each in SessionManager.list_all(agents=["codex", "pi"])] == ["a" * 16, TWO]
    assert SessionManager.list_all(agents="omp") == []
