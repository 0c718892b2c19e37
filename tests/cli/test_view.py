"""``view``: who gets in, and how the browser learns the address."""

from __future__ import annotations

import contextlib
import http.client
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from tests.postgres_server import Server, shared_server

from sessiontree import SessionManager

from .conftest import Machine

_PROGRAM = str(Path(sys.executable).with_name("sessiontree"))
_PASSWORD = "correct horse"
_SECRET = "sixteen letters of a proxy"


@contextmanager
def running(machine: Machine, *options: str, **env: str) -> Iterator[str]:
    """A viewer; the address that it prints."""
    with started(machine, [_PROGRAM, "view", "--no-open", *options], env) as url:
        yield url


@contextmanager
def started(machine: Machine, command: list[str], env: Mapping[str, str]) -> Iterator[str]:
    """The same by another command."""
    process = subprocess.Popen(
        command,
        env={**machine.env, **env},
        cwd=machine.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("Sessions: ").strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)


def ask(
    url: str, path: str, form: dict[str, str] | None = None, **headers: Any
) -> tuple[int, str, str]:
    """Status, cookie and body of an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=20)
    given: dict[str, str] = {"host": f"127.0.0.1:{parts.port}", "accept": "text/html"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = urlencode(form) if form is not None else None
    connection.request("POST" if form is not None else "GET", path, body, given)
    try:
        answer = connection.getresponse()
        cookie = answer.headers.get("set-cookie", "")
        return answer.status, cookie, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("options", "env", "told"),
    [
        (["--host", "0.0.0.0"], {}, "Others can reach 0.0.0.0: set SESSIONTREE_VIEW_PASSWORD"),
        (["--host", "::"], {"SESSIONTREE_VIEW_PASSWORD": "short"}, "at least 8 characters"),
        (["--host", "192.0.2.1"], {}, "Others can reach 192.0.2.1"),
        (["--login-header", "X-User"], {}, "set SESSIONTREE_VIEW_SECRET"),
        (["--login-header", "X-User"], {"SESSIONTREE_VIEW_SECRET": "short"}, "at least 16"),
        (["--writer", "anna"], {}, "--writer goes with --login-header"),
    ],
)
def test_nobody_is_let_in_by_an_oversight(
    machine: Machine, options: list[str], env: dict[str, Any], told: str
) -> None:
    result = machine.run("view", "--no-open", *options, **env)
    assert result.code == 2
    assert told in result.err
    assert len(result.err.splitlines()) == 1


def test_a_password_lets_others_in_and_cannot_be_guessed(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "question", "answer", title="Login")
    env = {"SESSIONTREE_VIEW_PASSWORD": _PASSWORD}
    with running(machine, "--host", "0.0.0.0", **env) as url:
        own: dict[str, Any] = {"origin": f"http://127.0.0.1:{urlsplit(url).port}"}
        status, cookie, page = ask(url, "/")
        assert (status, cookie) == (401, "")
        assert 'type="password"' in page
        assert ask(url, "/login", {"password": _PASSWORD})[0] == 403  # a form of another site
        status, cookie, _ = ask(url, "/login", {"password": _PASSWORD}, **own)
        assert status == 303
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        mine: dict[str, Any] = {"cookie": cookie.partition(";")[0]}
        assert ask(url, "/", **mine)[0] == 200
        assert ask(url, "/", host="sessions.example.org", **mine)[0] == 403
        for _ in range(10):
            assert ask(url, "/login", {"password": "guess"}, **own)[0] == 401
        assert ask(url, "/login", {"password": _PASSWORD}, **own)[0] == 401  # for a minute
        assert ask(url, "/", **mine)[0] == 200  # who is in stays in


def test_a_proxy_says_who_somebody_is(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "question", "answer", title="Login")
    options = ["--login-header", "X-User", "--writer", "anna"]
    with running(machine, *options, SESSIONTREE_VIEW_SECRET=_SECRET) as url:
        proxy: dict[str, Any] = {"x_sessiontree_secret": _SECRET}
        assert ask(url, "/")[0] == 401
        assert ask(url, "/", x_user="anna")[0] == 401
        assert ask(url, "/", x_user="anna", x_sessiontree_secret="guess")[0] == 401
        status, _, page = ask(url, "/", x_user="anna", **proxy)
        assert (status, "anna" in page, "read only" in page) == (200, True, False)
        status, _, page = ask(url, "/", x_user="ben", **proxy)
        assert (status, "ben" in page, "read only" in page) == (200, True, True)
        key = re.search(r"/s/([0-9a-f]+)", page)
        token = re.search(r'form-token" content="([0-9a-f]+)"', page)
        assert key is not None
        assert token is not None
        form = {"name": "Changed", "token": token[1]}
        own: dict[str, Any] = {"origin": f"http://127.0.0.1:{urlsplit(url).port}"}
        assert ask(url, f"/s/{key[1]}/rename", form, x_user="ben", **proxy, **own)[0] == 403
        # ben's token is not anna's
        assert ask(url, f"/s/{key[1]}/rename", form, x_user="anna", **proxy, **own)[0] == 403


_HURRIED = """
from sessiontree.serving import listener
from sessiontree.web import gate
listener.REQUEST_S = gate._BODY_S = 0.5
from sessiontree.cli.main import run
run(["view", "--no-open"])
"""


@pytest.mark.parametrize("cut", ["head", "body", "chunk"])
def test_nobody_holds_a_connection_by_asking_slowly(machine: Machine, cut: str) -> None:
    """One byte at a time: a connection ends all the same, and others are answered meanwhile."""
    program = [sys.executable, "-c", _HURRIED]
    with started(machine, program, {}) as url, socket.socket() as slow:
        address = urlsplit(url)
        status, cookie, _ = ask(url, f"{address.path}?{address.query}")
        assert status == 200
        head = (
            f"POST {address.path}s/0123456789abcdef/rename HTTP/1.1\r\n"
            f"Host: {address.netloc}\r\nOrigin: http://{address.netloc}\r\n"
            f"Cookie: {cookie.partition(';')[0]}\r\n"
        )
        sent, more = {
            "head": (head, b"X: y\r\n"),
            "body": (f"{head}Content-Length: 9000\r\n\r\ntoken=", b"x"),
            "chunk": (f"{head}Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        }[cut]
        slow.connect(("127.0.0.1", address.port or 0))
        slow.sendall(sent.encode())
        slow.settimeout(0.1)
        got, began = b"", time.monotonic()
        while (piece := _next(slow, more)) != b"":
            got += piece or b""
            assert time.monotonic() - began < 10
        assert got.startswith(b"" if cut == "head" else b"HTTP/1.1 403")
        own: dict[str, Any] = {"cookie": cookie.partition(";")[0]}
        assert ask(url, address.path, **own)[0] == 200


def _next(slow: socket.socket, more: bytes) -> bytes | None:
    """The bytes that came; none at the end, None if there were none yet, and ``more`` was sent."""
    try:
        return slow.recv(10_000)
    except TimeoutError:
        with contextlib.suppress(OSError):
            slow.sendall(more)
        return None
    except OSError:
        return b""


def test_the_address_is_no_argument_that_others_can_see(machine: Machine, tmp_path: Path) -> None:
    browser, called, seen = tmp_path / "browser", tmp_path / "called", tmp_path / "seen"
    browser.write_text(
        f'#!/bin/sh\nprintf %s "$1" > {called}\ncp -p "${{1#file://}}" {seen}.new\n'
        f"mv {seen}.new {seen}\n"
    )
    browser.chmod(0o700)
    leader, follower = pty.openpty()
    env = {**machine.env, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [_PROGRAM, "view"],
        env=env | {"BROWSER": str(browser), "TERM": "dumb"},
        cwd=machine.home,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    printed = b""
    try:
        while b"ends it" not in printed:
            printed += os.read(leader, 1_000)
        address = re.search(rb"http://\S+token=[\w-]+", printed)
        assert address is not None
        _wait_for(seen)
        page = Path(called.read_text().removeprefix("file://"))
        assert called.read_text().startswith("file://")
        assert "token" not in called.read_text()
        assert address[0].decode() in seen.read_text()
        assert stat.S_IMODE(seen.stat().st_mode) == 0o600
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
        os.close(leader)
    assert not page.exists()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def server() -> Server:
    return shared_server(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))


def test_a_database_is_searched_read_and_changed_by_those_who_may(
    machine: Machine, server: Server
) -> None:
    name = f"view_{os.getpid()}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    url = server.url(name)
    with SessionManager.create(str(machine.project), storage=url) as session:
        question = session.append_message(
            {"role": "user", "content": "where is the zebra", "timestamp": 0}
        )
        answer = {"role": "assistant", "content": [{"type": "text", "text": "in the zoo"}]}
        session.append_message({**answer, "stopReason": "stop", "timestamp": 0})
        session.branch(question)
        session.append_message({**answer, "stopReason": "stop", "timestamp": 0})
    options = ["--store", url, "--login-header", "X-User"]
    proxy: dict[str, Any] = {"x_sessiontree_secret": _SECRET, "x_user": "anna"}
    with running(machine, *options, SESSIONTREE_VIEW_SECRET=_SECRET) as address:
        own = proxy | {"origin": f"http://127.0.0.1:{urlsplit(address).port}"}
        page = ask(address, "/", **proxy)[2]
        key = _found(r"/s/([0-9a-f]+)", page)
        token = _found(r'form-token" content="([0-9a-f]+)"', page)
        assert "<mark>zebra</mark>" in ask(address, "/rows?q=zebra", **proxy)[2].replace("\\", "")
        for path in ("", "/tree", "/compare", "/entries?n=0-9", "/export.html"):
            assert ask(address, f"/s/{key}{path}", **proxy)[0] == 200, path
        assert ask(address, "/usage", **proxy)[0] == 200
        form = {"name": "Animals", "token": token}
        assert ask(address, f"/s/{key}/rename", form, **own)[0] == 200
        assert "Animals" in ask(address, "/", **proxy)[2]
        label = {"entry": "0", "label": "begin", "token": token}
        assert ask(address, f"/s/{key}/label", label, **own)[0] == 200
        status, _, told = ask(address, f"/s/{key}/trash", {"token": token}, **own)
        assert status == 200
        assert "Animals" not in ask(address, "/rows?", **proxy)[2]
        assert "Animals" in ask(address, "/trash", **proxy)[2]
        trashed = _found(r'"trashed": ?"([0-9a-f]+)"', told)
        assert ask(address, f"/trash/{trashed}/restore", {"token": token}, **own)[0] == 200
        assert "Animals" in ask(address, "/rows?", **proxy)[2]
    with running(machine, *options, "--read-only", SESSIONTREE_VIEW_SECRET=_SECRET) as address:
        own = proxy | {"origin": f"http://127.0.0.1:{urlsplit(address).port}"}
        page = ask(address, "/", **proxy)[2]
        assert "read only" in page
        form["token"] = _found(r'form-token" content="([0-9a-f]+)"', page)
        assert ask(address, f"/s/{key}/rename", form, **own)[0] == 403
        assert "data-dialog" not in ask(address, f"/s/{key}", **proxy)[2]


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text[:500]
    return found[1]
