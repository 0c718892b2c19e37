"""``sessiontree mcp`` as agents start it: the real program, asked by the SDK's own client."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.postgres_server import Server, shared_server

from sessiontree import SessionManager

from .conftest import PROGRAM, Machine

TOKEN = "token-of-the-environment-1"


@asynccontextmanager
async def over_stdio(machine: Machine, *args: str, **env: str) -> AsyncIterator[Any]:
    """A transport to the program as a child."""
    started = StdioServerParameters(
        command=PROGRAM,
        args=["mcp", *args],
        env={**machine.env, **env},
        cwd=str(machine.project),
    )
    with _nowhere() as log:
        async with stdio_client(started, errlog=log) as streams:
            yield streams


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return str(answer.content[0].text)  # type: ignore[union-attr]


async def test_an_agent_finds_and_reads_over_stdio(machine: Machine) -> None:
    machine.session("1f9d2a6b9c0d1234", "where is the zebra", "in the zoo")
    async with Client(over_stdio(machine)) as client:
        assert client.server_info is not None
        assert client.server_info.name == "sessiontree"
        assert "1f9d2a6b9c0d1234" in await text_of(client, "search_sessions", query="zebra")
        assert "in the zoo" in await text_of(client, "read_session", session="1f9d2a6b")
        assert "zebra" in await text_of(client, "list_sessions", project="here")


def test_an_agent_that_is_gone_ends_it_without_a_word(machine: Machine) -> None:
    process = subprocess.Popen(
        [PROGRAM, "mcp"],
        env=machine.env,
        cwd=machine.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdin.write(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":'
            b'"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
        )
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n')
        process.stdin.flush()
        time.sleep(0.5)  # it has tried to answer
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


@dataclass
class Listening:
    """The program, serving HTTP."""

    process: subprocess.Popen[str]
    url: str
    token: str


@contextmanager
def over_http(machine: Machine, *args: str, **env: str) -> Iterator[Listening]:
    process = subprocess.Popen(
        [PROGRAM, "mcp", "--http", "--port", "0", *args],
        env={**machine.env, **env},
        cwd=machine.project,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = process.stderr.readline().split()[-1]
        token = process.stderr.readline().split()[-1]
        threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
        yield Listening(process, url, env.get("SESSIONTREE_MCP_TOKEN", token))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def _drain(stream: Iterable[str]) -> None:
    for _ in stream:
        pass


async def test_an_agent_finds_over_http_with_the_token(machine: Machine) -> None:
    machine.session("1f9d2a6b9c0d1234", "where is the zebra", "in the zoo")
    with over_http(machine) as served:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            async with Client(streamable_http_client(served.url, http_client=http)) as client:
                assert "zebra" in await text_of(client, "search_sessions", query="zebra")
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for changes, status in (
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Host": "evil.example"}, 403),
                ({"Origin": "https://evil.example"}, 403),
            ):
                answer = await http.post(served.url, json=body, headers=changes)
                assert answer.status_code == status
                assert "access-control-allow-origin" not in answer.headers
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) in (0, -signal.SIGTERM)


def test_the_token_may_come_from_the_environment_and_must_be_long(machine: Machine) -> None:
    with over_http(machine, SESSIONTREE_MCP_TOKEN=TOKEN) as served:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx2.post(served.url, headers=headers).status_code not in (401, 403)
    done = machine.run("mcp", "--http", SESSIONTREE_MCP_TOKEN="short")
    assert done.code == 2
    assert "shorter than 16" in done.err


def test_a_taken_port_is_told_in_one_line(machine: Machine) -> None:
    with over_http(machine) as served:
        port = served.url.split(":")[2].split("/")[0]
        done = machine.run("mcp", "--http", "--port", port)
        assert done.code == 1
        assert done.err.startswith(f"Can't listen on 127.0.0.1:{port}")
        assert len(done.err.splitlines()) == 1


def test_without_the_extra_one_line_says_how_to_get_it(machine: Machine) -> None:
    blocked = machine.root / "blocked"
    blocked.mkdir()
    (blocked / "mcp.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n"
    )
    done = machine.run("mcp", PYTHONPATH=str(blocked))
    assert done.code == 1
    assert done.err == 'The MCP server needs mcp: pip install "sessiontree[mcp]"\n'


@pytest.fixture(scope="module")
def server() -> Server:
    return shared_server(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))


async def test_it_serves_a_database(machine: Machine, server: Server) -> None:
    name = f"mcp_{os.getpid()}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    url = server.url(name)
    with SessionManager.create(str(machine.project), storage=url) as session:
        session.append_message({"role": "user", "content": "where is the zebra", "timestamp": 0})
        answer = {"role": "assistant", "content": [{"type": "text", "text": "in the zoo"}]}
        session.append_message({**answer, "stopReason": "stop", "timestamp": 0})
        found = session.session_id
    async with Client(over_stdio(machine, "--store", url)) as client:
        assert found in await text_of(client, "search_sessions", query="zebra")
        assert found in await text_of(client, "list_sessions")
        assert "in the zoo" in await text_of(client, "read_session", session=found)
