"""What every agent that is described by its turns must do, through the public API."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_kinds import CWD, KINDS, PROMPT, Sample

from sessiontree import SessionManager, search
from sessiontree.discovery import adapters, catalogue
from sessiontree.discovery.adapters import get_adapter, is_absent
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.native_agent import native_command
from sessiontree.discovery.search import update_search_index
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.imports import import_all, import_session
from sessiontree.maintenance.keeping import keep_sessions
from sessiontree.maintenance.kept_restoring import restore_session
from sessiontree.storage.base import SessionStorage, SessionStorageReader

AGENTS = sorted(KINDS)
pytestmark = pytest.mark.parametrize("agent", AGENTS)


@pytest.fixture
def sample(agent: str, home: Path) -> Iterator[Sample]:
    catalogue.forget_process_memory()
    yield KINDS[agent](home)
    catalogue.forget_process_memory()


def age(sample: Sample) -> None:
    """Make all files old enough for what was read of them to be trusted."""
    for root in sample.roots:
        for path in [root, *root.rglob("*")]:
            os.utime(path, (1_760_000_000, 1_760_000_000))


def tree_hash(sample: Sample) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for root in sample.roots
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def found_by(query: str, **options: object) -> list[str]:
    return [hit.session.id for hit in search(query, max_indexing_s=None, **options)]  # type: ignore[arg-type]


def test_it_is_listed(agent: str, sample: Sample) -> None:
    (info,) = list_agent_sessions(agent)
    assert (info.id, info.cwd, info.agent) == (sample.id, CWD, agent)
    assert info.path == str(sample.path)
    assert (info.first_message, info.title) == (PROMPT, sample.title)
    assert (info.message_count, info.status) == (sample.messages, "complete")
    assert info.created.year == info.modified.year == 2026
    assert info.size > 100
    assert "walrus" in info.all_messages_text
    assert [each.id for each in list_agent_sessions("all")] == [sample.id]
    assert [each.id for each in list_agent_sessions(agent, CWD)] == [sample.id]
    assert not list_agent_sessions(agent, "/srv/other")


def test_only_agents_that_this_user_has_are_loaded(
    agent: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "_loaded", {})
    variables = adapters.BUILT_IN[agent][3]
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    assert is_absent(agent)
    assert agent not in [source.adapter.name for source in find_sources()]
    KINDS[agent](home)
    assert not is_absent(agent)
    assert agent in [source.adapter.name for source in find_sources()]


def test_a_variable_that_names_its_folder_loads_an_agent(
    agent: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in adapters.BUILT_IN[agent][3]:
        monkeypatch.setattr(adapters, "_loaded", {})
        assert is_absent(agent)
        monkeypatch.setenv(variable, str(home / "elsewhere"))
        assert not is_absent(agent)
        monkeypatch.delenv(variable)


def test_it_is_found_where_it_lies(agent: str, sample: Sample) -> None:
    assert found_by("walrus") == found_by("price column") == [sample.id]
    assert found_by("zebra") == []
    assert found_by("zebra", include_tools=True) == [sample.id]
    assert found_by("zebra", role="tool", agents=agent) == [sample.id]
    (hit,) = search("walrus", agents=agent)
    assert (hit.role, hit.session.agent) == ("assistant", agent)
    assert hit.time is not None
    assert "narwhal" not in hit.snippet


def test_growth_is_noticed_and_nothing_else_is_read_again(
    agent: str, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_search_index()
    opened: list[str] = []
    adapter = get_adapter(agent)
    original = adapter.open

    def open_noted(path: str, storage: SessionStorage) -> SessionStorageReader:
        opened.append(path)
        return original(path, storage)

    monkeypatch.setattr(adapter, "open", open_noted)
    sample.grow()
    catalogue.forget_process_memory()
    assert found_by("narwhal") == [sample.id]
    (info,) = list_agent_sessions(agent)
    assert info.message_count == sample.messages + 2
    assert set(opened) == {str(sample.path)}


def test_what_was_paid_is_counted(agent: str, sample: Sample) -> None:
    (source,) = find_sources(agent)
    (answers,) = source.survey_answers().values()
    if sample.tokens is None:
        assert answers.rows == []
        return
    counted = [(r.input, r.output, r.cache_read, r.cache_write) for r in answers.rows]
    assert tuple(map(sum, zip(*counted, strict=True))) == sample.tokens
    assert answers.models == [sample.model]


def test_it_can_be_shown_without_importing(agent: str, sample: Sample) -> None:
    document = load_foreign(sample.path)
    assert document.agent == agent
    assert (document.session_id, document.cwd, document.title) == (sample.id, CWD, sample.title)
    messages = document.build_session_context().messages
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert document.report.messages == sample.messages
    (call,) = [block for block in messages[1]["content"] if block["type"] == "toolCall"]
    assert call["arguments"] == {"command": "ls"}
    assert messages[2]["toolCallId"] == call["id"]
    assert "zebra" in messages[2]["content"][0]["text"]
    assert messages[2]["toolName"] == call["name"]
    assert sorted(document.report.kept) == sorted(sample.kept)
    assert document.report.skipped == []


def test_an_import_is_complete_idempotent_and_grows(
    agent: str, sample: Sample, tmp_path: Path
) -> None:
    first = import_session(sample.path, session_dir=tmp_path)
    assert first.is_new
    assert import_session(sample.path, agent=agent, session_dir=tmp_path).is_unchanged
    before = Path(first.path).read_bytes()
    sample.grow()
    again = import_session(sample.path, session_dir=tmp_path)
    assert (again.path, again.is_new, again.changed) == (first.path, False, 0)
    assert again.added
    assert Path(first.path).read_bytes().startswith(before)
    with SessionManager.open(first.path) as session:
        assert session.session_name == sample.title
        assert "narwhal" in str(session.build_session_context().messages[-1])
    assert import_all(agent, session_dir=tmp_path).imported[0].is_unchanged


def test_a_kept_copy_reads_the_same_and_restores_every_byte(agent: str, sample: Sample) -> None:
    age(sample)
    update_search_index()
    before = [entry.data for entry in load_foreign(sample.path).get_entries()]
    (was,) = list_agent_sessions(agent)
    database = sample.path.parent if sample.path.parent.is_file() else None
    written = sample.path.read_bytes() if database is None else b""
    keep_sessions()
    assert keep_sessions().changed == 0
    (database or sample.path).unlink()
    catalogue.forget_process_memory()
    for _ in range(2):  # the second time from the catalogue
        (info,) = list_agent_sessions(agent)
        assert info.is_kept
        assert (info.id, info.title, info.cwd) == (was.id, was.title, was.cwd)
        assert (info.message_count, info.size) == (was.message_count, was.size)
        assert found_by("walrus") == [sample.id]
    assert [entry.data for entry in load_foreign(sample.path).get_entries()] == before
    if database is None:
        restore_session(str(sample.path))
        assert sample.path.read_bytes() == written


def test_its_own_agent_resumes_it(agent: str, sample: Sample) -> None:
    (info,) = list_agent_sessions(agent)
    command = native_command(agent, info.path, info.id, None)
    assert list(command.argv) == sample.command


def test_nothing_of_its_agent_is_written(agent: str, sample: Sample, tmp_path: Path) -> None:
    before = tree_hash(sample)
    list_agent_sessions("all")
    found_by("walrus", include_tools=True)
    load_foreign(sample.path)
    import_session(sample.path, session_dir=tmp_path)
    list(find_sources(agent)[0].survey_answers())
    assert tree_hash(sample) == before


def test_another_home_can_be_looked_at(agent: str, sample: Sample, home: Path) -> None:
    assert sample.path.is_relative_to(home)
    other = home.with_name(home.name + "-other")
    home.rename(other)
    (source,) = find_sources(agent, other)
    moved = other / sample.path.relative_to(home)
    assert [stat.path for stat in source.places.files()] == [str(moved)]
