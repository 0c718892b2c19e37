"""Agents of pi's family: found in their own folders, opened in place, continued by themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessiontree import SessionManager, resolve_session, search
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.native_agent import native_command
from sessiontree.discovery.sources import find_sources
from sessiontree.profiles import get_profile

ID = "0199a3f2-0000-7000-8000-000000000001"
FAMILY = {
    "prime-agent": (".prime/agent/sessions", ["prime-agent", "--resume"]),
    "omo": (".omo/agent/sessions/--srv-shop--", ["omo", "--session"]),
    "stepcode": (".stepcode/agent/sessions/--srv-shop--", ["step", "--session"]),
}
VARIABLES = {
    # As each agent documents them: StepCode's program is called step.
    "prime-agent": ("PRIME_AGENT_CODING_AGENT_DIR", "PRIME_AGENT_SESSION_DIR"),
    "omo": ("OMO_CODING_AGENT_DIR", None),
    "stepcode": ("STEP_CODING_AGENT_DIR", "STEP_CODING_AGENT_SESSION_DIR"),
}
pytestmark = pytest.mark.parametrize("agent", FAMILY)


def put(home: Path, agent: str) -> Path:
    """A session as these agents write it, with entries that only Prime Agent has."""
    stamp = "2026-01-01T09:00:00.000Z"
    usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done with the walrus."}],
        "provider": "openai",
        "model": "gpt-5.4",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1_767_258_001_000,
    }
    prompt = {"role": "user", "content": "Add a price column", "timestamp": 1_767_258_000_000}
    entries: list[dict[str, object]] = [
        {"type": "message", "message": prompt},
        {"type": "service_tier_change", "serviceTier": "priority"},
        {"type": "message", "message": answer},
        {"type": "child_usage_attributed", "targetId": "00000003", "childUsage": usage},
        {"type": "agent_status", "status": "idle"},
    ]
    lines: list[dict[str, object]] = [
        {
            "type": "session",
            "version": 3,
            "id": ID,
            "timestamp": stamp,
            "cwd": "/srv/shop",
            "rlmDepth": 0,
        }
    ]
    for number, entry in enumerate(entries, 1):
        parent = f"{number - 1:08}" if number > 1 else None
        lines.append({"id": f"{number:08}", "parentId": parent, "timestamp": stamp, **entry})
    path = home / FAMILY[agent][0] / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_it_is_listed_found_and_opened(home: Path, agent: str) -> None:
    path = put(home, agent)
    (info,) = list_agent_sessions("all")
    assert (info.agent, info.id, info.cwd, info.path) == (agent, ID, "/srv/shop", str(path))
    assert (info.message_count, info.status) == (2, "complete")
    assert [hit.session.agent for hit in search("walrus")] == [agent]
    assert [hit.session.id for hit in search("walrus", cwd="/srv/shop", profile=agent)] == [ID]
    assert [each.id for each in list_agent_sessions(agent, "/srv/shop")] == [ID]
    assert resolve_session(ID[:8], "/srv/shop", profile=agent).path == str(path)
    command = native_command(agent, info.path, info.id, None)
    assert list(command.argv) == [*FAMILY[agent][1], str(path)]
    (source,) = find_sources(agent)
    assert [len(found.rows) for found in source.survey_answers().values()] == [1]


def test_it_goes_on_in_its_own_file_and_keeps_what_only_its_agent_knows(
    home: Path, agent: str
) -> None:
    path = put(home, agent)
    before = path.read_bytes()
    with SessionManager.open(path, profile=agent) as session:
        session.append_message({"role": "user", "content": "And a narwhal?"})
        session.append_message({"role": "assistant", "content": [], "stopReason": "stop"})
    assert path.read_bytes().startswith(before)


def test_a_new_session_is_where_the_agent_looks_for_it(
    home: Path, agent: str, tmp_path: Path
) -> None:
    with SessionManager.create(tmp_path, profile=agent) as session:
        session.append_message({"role": "user", "content": "hello"})
        session.append_message({"role": "assistant", "content": [], "stopReason": "stop"})
        assert session.session_file is not None
        folder = os.path.dirname(session.session_file)
    base = home / FAMILY[agent][0].split("/--")[0]
    assert (folder == str(base)) == (agent == "prime-agent")
    assert Path(folder).is_relative_to(base)


def test_another_home_and_its_own_variable_are_looked_at(
    home: Path, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, agent)
    assert len(list(find_sources(agent, tmp_path)[0].places.files())) == 1
    assert not list_agent_sessions(agent)
    variable, sessions_variable = VARIABLES[agent]
    folder = tmp_path / FAMILY[agent][0].split("/sessions")[0]
    if sessions_variable is not None:
        monkeypatch.setenv(sessions_variable, str(tmp_path / FAMILY[agent][0]))
        assert [info.agent for info in list_agent_sessions("all")] == [agent]
        monkeypatch.delenv(sessions_variable)
        assert not list_agent_sessions(agent)
    monkeypatch.setenv(variable, str(folder))
    assert [info.agent for info in list_agent_sessions("all")] == [agent]
    assert get_profile(agent).agent_dir == str(folder)
    assert get_adapter(agent).title[0].isupper()
