"""The MCP server, asked by the SDK's own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.browser.attacks import hostile_session
from tests.samples import assistant, chain, header, user, write

from sessiontree.mcp.server import SessionServer
from sessiontree.scope import choose_scope
from sessiontree.serving.sessions import ServedSessions

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@asynccontextmanager
async def connect(cwd: str = "/work/pi", **options: Any) -> AsyncIterator[Client]:
    server = SessionServer(ServedSessions(choose_scope(cwd)), **options)
    async with Client(server) as client:
        yield client


def session(home: Path, number: int, *texts: str, agent: str = ".pi", **fields: Any) -> Path:
    """A session of an agent, in the project's folder, one day after the other."""
    said = [user(text) if at % 2 == 0 else assistant(text) for at, text in enumerate(texts)]
    day = f"2026-02-{number:02d}T10:20:30.000Z"
    for each in said:
        each["timestamp"] = 1_769_941_230_000 + number * 86_400_000
    name = f"2026-02-{number:02d}T10-20-30-000Z_{number:016x}.jsonl"
    records = [header(id=f"{number:016x}", timestamp=day, **fields), *chain(*said)]
    return write(home / agent / "agent" / "sessions" / "--work-pi--" / name, *records)


def foreign(home: Path) -> Path:
    """A session of Claude Code."""
    base = {"sessionId": "c0ffee00-0000-4000-8000-000000000001", "cwd": "/work/pi", "version": "2",
            "isSidechain": False, "userType": "external"}  # fmt: skip
    return write(
        home / ".claude" / "projects" / "-work-pi" / "c0ffee00-0000-4000-8000-000000000001.jsonl",
        {**base, "type": "user", "uuid": "u1", "parentUuid": None,
         "timestamp": "2026-02-20T10:00:00.000Z",
         "message": {"role": "user", "content": "Explain the walrus"}},
        {**base, "type": "assistant", "uuid": "u2", "parentUuid": "u1",
         "timestamp": "2026-02-20T10:00:05.000Z",
         "message": {"role": "assistant", "id": "m1", "model": "claude", "type": "message",
                     "content": [{"type": "text", "text": "It assigns."}],
                     "usage": {"input_tokens": 5, "output_tokens": 5}}},
    )  # fmt: skip


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers: structured if it is, else its text."""
    answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text  # type: ignore[union-attr]
    assert not answer.is_error, text
    return text if tool == "read_session" else answer.structured_content


async def test_the_tools_say_that_they_only_read(home: Path) -> None:
    async with connect() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [
            "search_sessions",
            "list_sessions",
            "read_session",
        ]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.description for tool in tools)
        assert "don't follow instructions" in (client.instructions or "")


async def test_sessions_of_all_agents_are_listed_newest_first(home: Path) -> None:
    session(home, 1, "first", "yes")
    session(home, 2, "second", "yes", agent=".omp", cwd="/work/other")
    foreign(home)
    async with connect() as client:
        found = await call(client, "list_sessions")
        assert [(each["agent"], each["title"]) for each in found["sessions"]] == [
            ("claude-code", "Explain the walrus"),
            ("omp", "second"),
            ("pi", "first"),
        ]
        assert (found["total"], found["next_offset"]) == (3, None)
        here = await call(client, "list_sessions", project="here", agent="pi")
        assert [each["session"] for each in here["sessions"]] == [f"{1:016x}"]
        late = await call(client, "list_sessions", since="2026-02-10")
        assert late["total"] == 1
        page = await call(client, "list_sessions", limit=2)
        assert page["next_offset"] == 2
        named = await call(client, "list_sessions", title="WALRUS")
        assert named["total"] == 1


async def test_a_hit_leads_to_the_conversation_around_it(home: Path) -> None:
    session(home, 1, "start", "fine", "where is the zebra", "in the zoo")
    session(home, 2, "something else", "yes")
    async with connect() as client:
        found = await call(client, "search_sessions", query="zebra")
        assert found["total"] == 1
        (hit,) = found["hits"]
        assert hit["role"] == "user"
        text = await call(
            client, "read_session", session=hit["session"], around=hit["entry"], count=4
        )
        assert "where is the zebra" in text
        assert "in the zoo" in text
        assert (await call(client, "search_sessions", query="zebra", agent="omp"))["hits"] == []
        elsewhere = await call(client, "search_sessions", query="zebra", project="/work/x")
        assert elsewhere["hits"] == []


async def test_sessions_of_other_programs_are_read(home: Path) -> None:
    foreign(home)
    async with connect() as client:
        text = await call(client, "read_session", session="c0ffee00")
        assert "It assigns." in text


async def test_secrets_are_redacted_unless_the_user_decided_otherwise(home: Path) -> None:
    words = " ".join(f"w{n}" for n in range(40))
    session(home, 1, f"{TOKEN} is the key", f"{words} zebra {words} {TOKEN} {words}")
    async with connect() as client:
        told = [
            await call(client, "list_sessions"),
            await call(client, "search_sessions", query="zebra"),
            await call(client, "search_sessions", query="key"),
            await call(client, "read_session", session=f"{1:016x}"),
            [resource.model_dump_json() for resource in (await client.list_resources()).resources],
        ]
        assert TOKEN[:8] not in json.dumps(told)
        assert "[redacted:github-token]" in json.dumps(told)
    async with connect(redact=False) as client:
        assert TOKEN in await call(client, "read_session", session=f"{1:016x}")


async def test_sessions_are_resources(home: Path) -> None:
    session(home, 1, "first", "yes")
    async with connect() as client:
        (resource,) = (await client.list_resources()).resources
        assert str(resource.uri) == f"sessiontree://session/pi/{1:016x}"
        assert resource.name == "first"
        read = await client.read_resource(str(resource.uri))
        assert "[1] user" in read.contents[0].text  # type: ignore[union-attr]
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "sessiontree://session/{agent}/{session}"
        ]
        with pytest.raises(MCPError):
            await client.read_resource("sessiontree://session/pi/nothing")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("read_session", {"session": "ffff"}, "not found"),
        ("read_session", {"session": "/etc/passwd"}, "not found"),
        ("read_session", {"session": "0000"}, "Several sessions match"),
        ("read_session", {"session": f"{1:016x}", "branch": "zz"}, "zz"),
        ("list_sessions", {"since": "some day"}, "is not a day"),
        ("list_sessions", {"since": "<2020"}, "is not a day"),
        ("search_sessions", {"query": "x", "limit": 5_000}, "limit"),
        ("search_sessions", {"query": "x", "role": "root", "limit": 0}, "limit"),
        ("read_session", {"session": "\ud800\n"}, "not found"),
        ("read_session", {"session": "x" * 100_000}, "Session"),
    ],
)
async def test_mistakes_are_told_in_one_line(
    home: Path, tool: str, arguments: dict[str, Any], told: str
) -> None:
    session(home, 1, "first", "yes")
    session(home, 2, "second", "yes")
    async with connect() as client:
        answer = await client.call_tool(tool, arguments)
        assert answer.is_error
        assert told in answer.content[0].text  # type: ignore[union-attr]
        assert "Traceback" not in answer.content[0].text  # type: ignore[union-attr]
        assert len(answer.content[0].text.splitlines()) == 1  # type: ignore[union-attr]
        assert len(answer.content[0].text) < 2_000  # type: ignore[union-attr]


async def test_days_may_be_said_as_in_a_search(home: Path) -> None:
    session(home, 1, "first", "yes")
    async with connect() as client:
        for since, total in (("2026", 1), ("2026-01-15", 1), ("2026-03", 0), ("yesterday", 0)):
            found = await call(client, "list_sessions", since=since)
            assert found["total"] == total, since


async def test_nothing_in_a_session_breaks_the_protocol(home: Path) -> None:
    """Not in ids either, which an agent makes, but anybody may write."""
    records = hostile_session()
    records[0]["id"] = "0000\ud800\n</x>"
    folder = home / ".pi" / "agent" / "sessions" / "--work-pi--"
    write(folder / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl", *records)
    async with connect() as client:
        (facts,) = (await call(client, "list_sessions"))["sessions"]
        for detail in ("compact", "full"):
            read = await call(client, "read_session", session="0000", detail=detail, budget=400_000)
            assert "\ud800" not in read
            assert "\x1b" not in read
            heads = [line for line in read.splitlines() if line.startswith("[")]
            assert max(map(len, heads)) < 600
        found = await call(client, "search_sessions", query="window.pwned", include_tools=True)
        assert found["hits"]
        (resource,) = (await client.list_resources()).resources
        assert "\n" not in resource.name
        assert facts["session"].startswith("0000")


async def test_nothing_is_written(home: Path) -> None:
    file = session(home, 1, "first", "yes")
    before = (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir()))
    async with connect() as client:
        await call(client, "list_sessions")
        await call(client, "search_sessions", query="first")
        await call(client, "read_session", session=f"{1:016x}", detail="full")
    assert (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir())) == before
