"""Context edits, usage, and what compactions save: written by us, read by whoever comes next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, calling, result, user

from sessiontree import EntryNotFoundError, SessionManager, resolve_session
from sessiontree.core.usage import Usage, total_usage


@pytest.fixture(params=["pi", "sessiontree"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionManager]:
    with SessionManager.create(tmp_path, tmp_path / "s", profile=request.param) as made:
        yield made


def contents(manager: SessionManager) -> list[object]:
    return [message.get("content") for message in manager.build_session_context().messages]


def last_line(manager: SessionManager) -> dict[str, Any]:
    lines = Path(str(manager.session_file)).read_text().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_an_edit_is_written_as_pi_writes_it_and_holds_after_reopening(
    manager: SessionManager,
) -> None:
    manager.append_message(user("1"))
    manager.append_message(calling("c"))
    output = manager.append_message(result("c", "40,000 lines"))
    manager.build_session_context()
    edit = manager.append_context_edit(output, {"content": "[output removed]"})
    removed = [{"type": "text", "text": "[output removed]"}]
    assert contents(manager)[-1] == removed
    line = last_line(manager)
    assert {key: line[key] for key in line.keys() - {"id", "parentId", "timestamp"}} == {
        "type": "context_edit",
        "targetId": output,
        "replacement": {"content": removed},
    }
    assert line["id"] == edit == manager.leaf_id
    manager.append_context_edit(output, None)
    assert last_line(manager)["replacement"] is None
    assert len(contents(manager)) == 2
    found = manager.get_entry(output)
    assert found is not None
    assert found.data["message"] == result("c", "40,000 lines")
    with SessionManager.open(str(manager.session_file)) as again:
        assert contents(again) == contents(manager)


def test_a_context_that_was_built_is_carried_on_past_an_edit(manager: SessionManager) -> None:
    first = manager.append_message(user("1"))
    manager.append_message(assistant("2"))
    assert len(contents(manager)) == 2
    manager.append_context_edit(first, None)
    manager.append_message(user("3"))
    assert contents(manager)[1:] == ["3"]


def test_only_messages_on_the_path_can_be_edited(manager: SessionManager) -> None:
    first = manager.append_message(user("1"))
    other = manager.append_message(assistant("2"))
    manager.branch(first)
    label = manager.append_label_change(first, "x")
    command = {"role": "bashExecution", "command": "ls", "output": "", "timestamp": 1}
    bash = manager.append_message(command)
    before = len(manager.get_entries())
    with pytest.raises(EntryNotFoundError):
        manager.append_context_edit("gone", None)
    for target in (other, label, bash):
        with pytest.raises(ValueError, match=target):
            manager.append_context_edit(target, None)
    for replacement in ("text", {}, {"content": None}, {"content": 7}):
        with pytest.raises(ValueError, match="replacement"):
            manager.append_context_edit(first, replacement)  # type: ignore[arg-type]
    assert len(manager.get_entries()) == before


def test_a_custom_message_can_be_edited(manager: SessionManager) -> None:
    note = manager.append_custom_message_entry("x", "old", True)
    manager.append_context_edit(note, {"content": "new"})
    assert contents(manager) == ["new"]


def test_usage_is_written_as_pi_writes_it_and_counts(manager: SessionManager) -> None:
    manager.append_message(assistant("hi"))
    used = {"input": 0, "output": 0, "cacheRead": 50_000, "cost": {"total": 0.015}}
    manager.append_usage("cache_warm", "anthropic", "claude", used)
    line = last_line(manager)
    assert list(line)[4:] == ["kind", "provider", "model", "usage"]
    manager.append_usage("other", "anthropic", "claude", used, "why")
    assert last_line(manager)["note"] == "why"
    total = total_usage(entry.data for entry in manager.get_entries())
    assert total == Usage(100, 20, 100_000, 0, 100_120, 0.03)
    assert len(contents(manager)) == 1


def test_a_compaction_without_a_first_kept_entry_keeps_nothing(manager: SessionManager) -> None:
    manager.append_message(user("1"))
    manager.append_message(assistant("2"))
    made = manager.append_compaction("so far", None, 10, usage={"input": 5})
    line = last_line(manager)
    assert line["firstKeptEntryId"] == made == line["id"]
    assert line["usage"] == {"input": 5}
    manager.append_message(user("3"))
    roles = [message["role"] for message in manager.build_session_context().messages]
    assert roles == ["compactionSummary", "user"]


def test_a_branch_summary_says_what_it_cost(manager: SessionManager) -> None:
    first = manager.append_message(user("1"))
    manager.append_message(assistant("2"))
    manager.branch_with_summary(first, "left", usage={"input": 7})
    assert last_line(manager)["usage"] == {"input": 7}


def test_a_compaction_of_a_pi_session_saves_the_prompt(tmp_path: Path) -> None:
    with SessionManager.create(tmp_path, tmp_path / "s", profile="pi") as manager:
        prompt = {"role": "system", "content": "be brief", "sections": {"a": "1", "b": "2"}}
        tools = [{"name": "read"}, {"name": "bash"}]
        manager.append_message({**prompt, "toolsAdded": tools, "timestamp": 1})
        kept = manager.append_message(user("1"))
        manager.append_message(assistant("2"))
        change = {"role": "system", "content": "", "sections": {"a": None}, "timestamp": 2}
        manager.append_message({**change, "toolsRemoved": [{"name": "bash"}]})
        manager.append_compaction("so far", kept, 10)
        saved = last_line(manager)["systemMessage"]
        assert saved.pop("timestamp") > 2
        assert saved == {
            "role": "system",
            "content": "be brief",
            "sections": {"b": "2"},
            "toolsAdded": [{"name": "read"}],
        }
        messages = manager.build_session_context().messages
        roles = [message["role"] for message in messages]
        assert roles == ["system", "compactionSummary", "user", "assistant"]


@pytest.mark.parametrize("session_id", ["my.session", "a", "fix-login_2", "2026", "deadbeef" * 8])
def test_a_session_id_of_the_users_own_choice_is_found(tmp_path: Path, session_id: str) -> None:
    """pi takes any with ``--session-id``."""
    header = {"type": "session", "version": 3, "id": session_id, "cwd": str(tmp_path)}
    folder = tmp_path / "s"
    folder.mkdir()
    path = folder / f"2026-02-16T10-20-30-000Z_{session_id}.jsonl"
    entry = {"type": "message", "id": "a1", "parentId": None, "message": user("hello")}
    lines = [{**header, "timestamp": "2026-02-16T10:20:30.000Z"}, {**entry, "timestamp": ""}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = resolve_session(session_id, tmp_path, session_dir=folder, profile="pi")
    assert (found.id, found.path) == (session_id, str(path))
    with SessionManager.open(path, profile="pi") as manager:
        assert manager.session_id == session_id
