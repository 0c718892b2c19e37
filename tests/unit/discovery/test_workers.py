"""Reading many new sessions in several processes: the same answers as in one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.agent_samples import claude_answer, claude_output, claude_prompt, put_claude, put_codex
from tests.unit.discovery.places import put, talk

from sessiontree import search
from sessiontree.discovery import catalogue, workers
from sessiontree.discovery.adapters import get_adapter, register_adapter, unregister_adapter
from sessiontree.discovery.adapters.claude_code import ClaudeCode
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.catalogue.answers import Answers
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search import index as search_index
from sessiontree.discovery.search import update_search_index
from sessiontree.discovery.sources import find_sources
from sessiontree.profiles import get_profile
from sessiontree.storage import sqlite

CLAUDE = [f"1111111{n}-1111-4111-8111-111111111111" for n in range(5)]
CODEX = "22222222-2222-4222-8222-222222222222"
PI = "a" * 16


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[None]:
    """Sessions of three agents, of which every byte counts as much."""
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    for number, session_id in enumerate(CLAUDE):
        put_claude(
            home,
            session_id,
            claude_prompt(f"prompt {number}"),
            claude_answer("Clear the cache. 量子纠缠"),
            claude_output(f"heron {number}"),
        )
    put_codex(home, CODEX, ("user", "why is the cache cold"), ("assistant", "Café"))
    put(Path(get_profile("pi").sessions_dir) / "--srv-shop--", *talk("cache", "It"), session_id=PI)
    time.sleep(0.05)  # what was written a moment ago is not indexed
    catalogue.forget_process_memory()
    yield
    catalogue.forget_process_memory()


def answers(cores: int = 2) -> list[Any]:
    """What a machine with so many cores and nothing indexed answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_count_cores", lambda: cores)
        return _answers()


def _answers() -> list[Any]:
    sqlite.replace(catalogue.SCHEMA)
    sqlite.replace(search_index.SCHEMA)
    catalogue.forget_process_memory()
    listed = list_agent_sessions()
    done = update_search_index(agents="all")
    facts = [facts_of(each) for each in listed]
    found = [
        {hit.session.id for hit in search(word, agents="all", include_tools=True)}
        for word in ("cache", "子纠", "cafe", "heron", "3")
    ]
    return [sorted(facts, key=str), found, done]


def test_workers_read_as_one_process_does(home: Path) -> None:
    odd = home / ".claude" / "projects" / "-srv-shop" / f"{CLAUDE[4]}.jsonl"
    odd.write_text(odd.read_text().replace("prompt 4", r"half an emoji \ud83d"))
    time.sleep(0.05)

    alone = answers(cores=1)

    assert alone[1] == [{*CLAUDE, CODEX, PI}, {*CLAUDE}, {CODEX}, {*CLAUDE}, {CLAUDE[3]}]
    assert answers() == alone


def test_this_process_reads_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError("this process has read a session")

    expected = answers(cores=1)
    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "_read_file", fail)
        patch.setattr(search_index, "read_text", fail)

        assert answers() == expected


def test_what_is_read_for_the_index_is_known_to_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError("a session was read again")

    expected = [facts_of(each) for each in list_agent_sessions()]
    sqlite.replace(catalogue.SCHEMA)
    catalogue.forget_process_memory()
    monkeypatch.setattr(workers, "_count_cores", lambda: 2)

    update_search_index(agents="all")

    monkeypatch.setattr(catalogue, "_read_file", fail)
    monkeypatch.setattr(workers, "_ask_workers", fail)
    catalogue.forget_process_memory()
    assert [facts_of(each) for each in list_agent_sessions()] == expected


def test_what_is_read_for_the_index_is_known_to_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError("a session was read again")

    def paid() -> dict[str, Answers]:
        made = (source.survey_answers() for source in find_sources(["claude-code", "codex"]))
        return {path: each[path] for each in made for path in each}

    expected = paid()
    sqlite.replace(catalogue.SCHEMA)
    catalogue.forget_process_memory()
    monkeypatch.setattr(workers, "_count_cores", lambda: 2)

    update_search_index(agents="all")

    monkeypatch.setattr(catalogue, "_read_file", fail)
    catalogue.forget_process_memory()
    assert paid() == expected
    assert any(each.rows for each in expected.values())


def facts_of(info: SessionInfo) -> tuple[object, ...]:
    return info.id, info.title, info.message_count, info.first_message, info.cwd, info.status


@pytest.mark.parametrize("executable", ["/bin/false", "/no/such/python", ""])
def test_without_workers_this_process_reads(
    monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    expected = answers(cores=1)

    monkeypatch.setattr(sys, "executable", executable)

    assert answers() == expected


def test_a_worker_that_dies_takes_only_its_own_jobs_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the system ends, for want of memory say, must not stop the index."""
    monkeypatch.setattr(workers, "_count_cores", lambda: 2)
    begun: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def begin(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        begun.append(real(*arguments, **options))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", begin)
    jobs = [workers.Job(get_adapter("claude-code"), stat) for stat in _stats("claude-code")] * 40
    done = workers.work_at_once("sessiontree.discovery.catalogue:read_encoded", jobs)

    first = next(done)
    begun[0].kill()
    rest = list(done)

    assert first is not None
    assert len(rest) == len(jobs) - 1
    assert sum(answer is not None for answer in rest) >= len(jobs) // 3
    assert all(process.poll() is not None for process in begun)


def test_a_file_that_is_gone_is_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_count_cores", lambda: 2)
    gone = home / ".claude" / "projects" / "-srv-shop" / f"{CLAUDE[0]}.jsonl"
    jobs = [workers.Job(get_adapter("claude-code"), stat) for stat in _stats("claude-code")]
    gone.unlink()

    done = list(workers.work_at_once("sessiontree.discovery.catalogue:read_encoded", jobs))

    assert [not answer for answer in done] == [job.stat.path == str(gone) for job in jobs]


def test_an_adapter_of_somebody_else_is_asked_here() -> None:
    asked = []

    class Mine(ClaudeCode):
        def read(self, reader: Any, path: str, size: int, known: Any) -> Any:
            asked.append(path)
            return super().read(reader, path, size, known)

    before = get_adapter("claude-code")
    register_adapter(Mine())
    try:
        expected = answers()
    finally:
        unregister_adapter("claude-code")

    assert len(asked) == len(CLAUDE)
    assert get_adapter("claude-code") is not before
    assert answers(cores=1) == expected


def test_a_stopped_listing_keeps_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_count_cores", lambda: 1)
    read: list[str] = []
    real = ClaudeCode.read

    def note(self: ClaudeCode, reader: Any, path: str, size: int, known: Any) -> Any:
        read.append(path)
        return real(self, reader, path, size, known)

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ClaudeCode, "read", note)
    with pytest.raises(KeyboardInterrupt):
        list_agent_sessions("claude-code", on_progress=stop)
    catalogue.forget_process_memory()
    first = list(read)

    list_agent_sessions("claude-code")

    assert len(first) == 3
    assert sorted(read) == sorted(_paths("claude-code"))


def test_stopping_the_index_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_count_cores", lambda: 2)
    stops = iter([False, False, True])

    done = update_search_index(agents="claude-code", should_stop=lambda: next(stops))

    assert done.done == 2
    assert update_search_index(agents="claude-code").done == len(CLAUDE)


def _stats(agent: str) -> list[Any]:
    return list(get_adapter(agent).find(None, lambda _: {}).files())


def _paths(agent: str) -> list[str]:
    return [stat.path for stat in _stats(agent)]
