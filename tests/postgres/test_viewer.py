"""The viewer on a database: a role that may only read sees everything and is offered no change."""

from __future__ import annotations

import http.cookiejar
import itertools
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.browser.viewer import run_viewer
from tests.cli.conftest import make_machine
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import grant

_numbers = itertools.count()


@dataclass
class Roles:
    """The addresses of a writer and of a reader."""

    writer: str
    reader: str


@pytest.fixture
def roles(server: Server) -> Iterator[Roles]:
    name = f"viewed_{next(_numbers)}_{id(server)}"
    writer, reader = f"writer_{name}", f"reader_{name}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    owner = PostgresStore(server.url(name))
    for role, right in ((writer, "writer"), (reader, "reader")):
        server.execute(f"CREATE ROLE {role} LOGIN")
        grant(owner.database, role, right, "blue")  # type: ignore[arg-type]
    made = Roles(server.url(name, user=writer), server.url(name, user=reader))
    store = PostgresStore(made.writer)
    for words in ("the bluebird sings", "an old song"):
        with SessionManager.create("/work/viewed", storage=store) as session:
            session.append_message(user(words))
            session.append_message(assistant("it does"))
    store.delete(session.ref)
    yield made
    for each in (owner, store):
        each.close()
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    for role in (writer, reader):
        server.execute(f"DROP ROLE {role}")


class Visitor:
    """A browser without scripts."""

    def __init__(self, url: str) -> None:
        self.root = url.partition("/?")[0]
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)
        self._ask(urllib.request.Request(url, headers={"accept": "text/html"}))

    def get(self, path: str) -> tuple[int, str]:
        return self._ask(
            urllib.request.Request(f"{self.root}{path}", headers={"accept": "text/html"})
        )

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        token = re.search('form-token" content="([^"]+)"', self.get("/trash")[1])
        assert token is not None
        body = urllib.parse.urlencode({**fields, "token": token[1]}).encode()
        origin = "//".join(self.root.split("/")[0:3:2])
        return self._ask(
            urllib.request.Request(f"{self.root}{path}", body, headers={"Origin": origin})
        )

    def _ask(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with self._opener.open(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def key_of(visitor: Visitor) -> str:
    while "Reading your sessions" in (page := visitor.get("/")[1]):
        pass
    found = re.search(r'/s/([^"#/]+)"', page)
    assert found is not None
    return found[1]


def test_a_reader_sees_everything_and_is_offered_no_change(roles: Roles, tmp_path: Path) -> None:
    with run_viewer(tmp_path, SESSIONTREE_STORE=roles.reader) as viewer:
        visitor = Visitor(viewer.url)
        key = key_of(visitor)
        assert "read only" in visitor.get("/")[1]
        found = visitor.get("/rows?q=bluebird")
        assert found[0] == 200
        assert "the <mark>bluebird</mark> sings" in found[1]
        for path in (
            f"/s/{key}",
            f"/s/{key}/tree",
            f"/s/{key}/compare",
            f"/s/{key}/entries?n=0-1",
            f"/s/{key}/find?q=bird",
            f"/s/{key}/news?count=0",
            f"/s/{key}/export.html",
            "/rows?q=is:named",
            "/usage",
            "/trash",
        ):
            status, page = visitor.get(path)
            assert status == 200, path
            for control in ('id="rename"', 'id="trash"', "<dialog", "/restore"):
                assert control not in page, path
        assert "an old song" in visitor.get("/trash")[1]
        for path, fields in (
            (f"/s/{key}/rename", {"name": "x"}),
            (f"/s/{key}/label", {"entry": "0", "label": "x"}),
            (f"/s/{key}/trash", {}),
            ("/trash/0123456789abcdef/restore", {}),
        ):
            assert visitor.post(path, **fields) == (403, "You may only look.\n"), path


def test_a_writer_is_offered_them(roles: Roles, tmp_path: Path) -> None:
    with run_viewer(tmp_path, SESSIONTREE_STORE=roles.writer) as viewer:
        visitor = Visitor(viewer.url)
        key = key_of(visitor)
        assert "<dialog" in visitor.get(f"/s/{key}")[1]
        assert "/restore" in visitor.get("/trash")[1]
        assert visitor.post(f"/s/{key}/rename", name="Song")[0] == 200
        assert visitor.post(f"/s/{key}/trash")[0] == 200


def test_a_replica_takes_no_changes(roles: Roles) -> None:
    replica = PostgresStore(f"{roles.writer}?options=-c%20default_transaction_read_only%3Don")
    assert not replica.can_write
    replica.close()


def test_a_database_out_of_reach_is_said_at_once(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    machine.env["SESSIONTREE_STORE"] = "postgresql://nobody@127.0.0.1:1/none"
    told = machine.run("view", "--no-open")
    assert told.code == 1
    assert "postgresql://nobody@127.0.0.1:1/none" in told.err
    assert len(told.err.splitlines()) == 1
