"""Search over all agents: one index, exact for what was said and for what tools printed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent_samples import (
    claude_answer,
    claude_output,
    claude_prompt,
    put_claude,
    put_codex,
    put_subagent,
)
from tests.samples import message, result, user
from tests.unit.discovery.places import put, talk

from sessiontree import search
from sessiontree.discovery import catalogue
from sessiontree.discovery.adapters import UnknownAgentError
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.search import SearchResults, update_search_index
from sessiontree.profiles import get_profile

Finder = Callable[..., SearchResults]
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
ROADS = {"index": None, "scan": 0.0}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(freshness, "_TICK_NS", -(10**12))
    catalogue.forget_process_memory()
    yield
    catalogue.forget_process_memory()


@pytest.fixture(params=ROADS)
def find(request: pytest.FixtureRequest) -> Finder:
    """Each answer twice: from an index that is complete, and without one."""
    return functools.partial(search, max_indexing_s=ROADS[request.param])


def ids(results: SearchResults) -> set[str]:
    return {hit.session.id for hit in results}


@pytest.fixture
def three(home: Path) -> None:
    """The same words in a session of each of three agents."""
    folder = Path(get_profile("pi").sessions_dir) / "--srv-shop--"
    put(folder, *talk("why is the cache cold", "It expires. 量子纠缠"), session_id="a" * 16)
    put_claude(
        home, ONE, claude_prompt("why is the cache cold"), claude_answer("Clear it. 量子纠缠")
    )
    put_codex(home, TWO, ("user", "why is the cache cold"), ("assistant", "Café. 量子纠缠"))


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cache", {"a" * 16, ONE, TWO}),
        ('"cache cold"', {"a" * 16, ONE, TWO}),
        ('"cold cache"', set()),
        ("子纠", {"a" * 16, ONE, TWO}),
        ("cache -clear", {"a" * 16, TWO}),
        ("cafe", {TWO}),
        ("expir*", {"a" * 16}),
        ("->", set()),
    ],
)
def test_all_agents_are_searched_alike(find: Finder, query: str, expected: set[str]) -> None:
    found = find(query)
    assert ids(found) == expected
    assert found.total == len(expected)
    assert len(found) == len(expected)  # an event and an item of Codex are one text


@pytest.mark.usefixtures("three")
def test_some_agents_can_be_asked_alone(find: Finder) -> None:
    assert ids(find("cache", agents="codex")) == {TWO}
    assert ids(find("cache", agents=["codex", "pi"])) == {TWO, "a" * 16}
    assert ids(find("cache", profile="pi")) == {"a" * 16}
    assert ids(find("cache", cwd="/srv/shop", agents=["codex", "claude-code"])) == {ONE, TWO}
    assert ids(find("cache", cwd="/srv/other")) == set()
    with pytest.raises(UnknownAgentError, match="nonesuch"):
        find("cache", agents="nonesuch")


@pytest.mark.usefixtures("three")
def test_a_hit_says_whose_it_is_and_how_its_agent_goes_on(find: Finder) -> None:
    commands = {hit.profile: hit.resume_command for hit in find("cache")}
    assert commands["claude-code"] == f"cd /srv/shop && claude --resume {ONE}"
    assert commands["codex"] == f"cd /srv/shop && codex resume {TWO}"
    assert commands["pi"].startswith("sessiontree --profile pi --resume ")


def test_a_subagent_is_found_as_its_session(home: Path, find: Finder) -> None:
    put_claude(home, ONE, claude_prompt("look for marmots"), claude_answer("Sure"))
    put_subagent(home, ONE, "a1", claude_prompt("explore the burrow"), claude_answer("a quokka"))
    (hit,) = find("quokka")
    assert (hit.session.id, hit.role, hit.snippet) == (ONE, "assistant", "a quokka")
    assert ids(find("marmots quokka")) == {ONE}  # the words are in two files of one session
    assert ids(find("marmots -quokka")) == set()
    assert find("marmots").total == 1


def test_tool_output_counts_only_on_request(home: Path, find: Finder) -> None:
    put_claude(
        home, ONE, claude_prompt("run"), claude_answer("ok"), claude_output("obsidian heron")
    )
    put_codex(home, TWO, ("user", "run"), ("tool", "heron_of obsidian"), ("assistant", "heron?"))
    folder = Path(get_profile("pi").sessions_dir) / "--srv-shop--"
    printed = message("b1", "a1", result("c1", "an obsidian-heron x=½"))
    put(folder, message("a1", None, user("run")), printed, session_id="b" * 16)
    tools = functools.partial(find, include_tools=True)
    assert ids(find("heron")) == {TWO}
    assert ids(tools("heron")) == {ONE, TWO, "b" * 16}
    assert tools("heron").total == 3
    assert ids(tools('"obsidian heron"')) == {ONE, "b" * 16}
    assert ids(tools('run -"obsidian heron"')) == {TWO}
    assert ids(tools("ran heron")) == set()
    assert ids(tools("obsid*")) == {ONE, TWO, "b" * 16}
    assert ids(tools("½")) == {"b" * 16}
    assert ids(find("obsidian", role="tool")) == {ONE, TWO, "b" * 16}
    assert ids(find("heron", role="assistant")) == {TWO}
    assert ids(find("obsidian", role="toolCall")) == set()
    assert ids(tools("heron", since="2026-01-02")) == {"b" * 16}


def test_signs_in_tool_output_part_words(home: Path, find: Finder) -> None:
    put_codex(home, ONE, ("user", "run"), ("tool", "src→heron │ ✓obsidian… «quokka»"))
    put_codex(home, TWO, ("user", "run"), ("tool", "│ cafe\u0301s → naïve│heron½"))
    tools = functools.partial(find, include_tools=True)

    for word in ("src", "obsidian", "quokka", '"src heron"'):
        assert ids(tools(word)) == {ONE}, word
    for word in ("cafés", "cafes", "naive", '"naive heron½"'):
        assert ids(tools(word)) == {TWO}, word
    assert ids(tools("heron")) == {ONE}  # with a half it is another word
    assert ids(tools("cafe")) == set()
    assert ids(tools("s")) == set()


def test_chinese_in_tool_output_is_exact(home: Path, find: Finder) -> None:
    put_codex(home, ONE, ("user", "run"), ("tool", "error: 量子纠缠缓存 (x)"))
    put_codex(home, TWO, ("user", "run"), ("tool", "缓存量子的纠缠"))
    assert ids(find("量子纠缠", include_tools=True)) == {ONE}
    assert ids(find("缓存", include_tools=True)) == {ONE, TWO}
    assert ids(find("缓", include_tools=True)) == {ONE, TWO}
    assert ids(find("缓存", include_tools=False)) == set()


def test_a_grown_session_is_read_from_its_old_end(home: Path) -> None:
    long = [claude_prompt("prose " * 60_000, 1), claude_answer("a marmot", 2)]
    path = put_claude(home, ONE, *long)
    assert update_search_index().is_complete
    assert ids(search("marmot")) == {ONE}
    added = [claude_prompt("now a walrus", 3), claude_output("with grapes", 4)]
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in added)
    assert ids(search("walrus marmot", max_indexing_s=None)) == {ONE}
    assert ids(search("grapes", include_tools=True)) == {ONE}
    assert search("walrus").indexing.is_complete


def test_a_session_of_many_segments_keeps_its_exactness(home: Path) -> None:
    said = [("user", f"word{number} " + "filler " * 40_000) for number in range(4)]
    said.insert(2, ("tool", "printed " * 700_000 + "needle"))
    put_codex(home, ONE, *said)
    assert update_search_index().is_complete
    for number in range(4):
        assert ids(search(f"word{number} filler", max_indexing_s=0.0)) == {ONE}
    (hit,) = search("needle word3", include_tools=True, max_indexing_s=0.0)
    assert "needle" in hit.snippet or "word3" in hit.snippet


@pytest.mark.usefixtures("three")
def test_other_agents_folders_stay_as_they_were(home: Path) -> None:
    """Even their times, and even where they may not be written."""

    def state() -> dict[str, tuple[str, int, int]]:
        return {
            str(path): (
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
                path.stat().st_mtime_ns,
                path.stat().st_mode,
            )
            for root in (".claude", ".codex", ".pi")
            for path in sorted([home / root, *(home / root).rglob("*")])
        }

    before = state()
    folders = [path for path in map(Path, before) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert update_search_index().is_complete
        assert len(search("cache", include_tools=True)) == 3
    finally:
        for folder in folders:
            os.chmod(folder, before[str(folder)][2])
    assert state() == before
