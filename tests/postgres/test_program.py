"""The program on a database, as a team uses it; and no output of it ever shows the password."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.cli.conftest import Machine, make_machine
from tests.postgres_server import Server, own_server
from tests.samples import assistant, user

from sessiontree import FileStore, SessionManager, scope
from sessiontree.errors import SessionTreeError, StoreError
from sessiontree.serving.filtered_search import FilteredSearch
from sessiontree.stores import open_store
from sessiontree.stores.postgres.address import parse_address
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.transfer import transfer

PASSWORD = "hunter2/@:%&"
SPELLINGS = (PASSWORD, quote(PASSWORD, safe=""), "hunter2")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that asks for passwords, and a database with tables that anna may write."""
    with own_server() as server:
        server.execute("CREATE ROLE anna LOGIN PASSWORD '" + PASSWORD + "'")
        server.execute("CREATE DATABASE agents")
        with_tables = make_machine(server.folder / "admin")
        admin = server.url("agents")
        assert with_tables.run("store", "init", admin).code == 0
        granted = with_tables.run("store", "grant", admin, "anna", "writer", "--tenant", "blue")
        assert granted.out == "anna: writer, tenant blue\n"
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all all scram-sha-256\n")
        server.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def address(guarded: Server) -> str:
    return guarded.url("agents", "anna", quote(PASSWORD, safe=""))


@pytest.fixture
def anna(tmp_path: Path, address: str) -> Machine:
    """Anna's machine: her store is the database."""
    machine = make_machine(tmp_path)
    machine.env["SESSIONTREE_STORE"] = address
    return machine


def say(machine: Machine, *args: str) -> str:
    done = machine.run(*args, "--model", "offline")
    assert done.code == 0, done.err
    return done.err


def ids(machine: Machine, *args: str) -> list[str]:
    return [each["id"] for each in machine.run("ls", "--json", *args).json]


# -- the password ----------------------------------------------------------------------------------


def test_no_output_and_no_file_of_the_program_shows_the_password(
    anna: Machine, address: str, guarded: Server, tmp_path: Path
) -> None:
    said: list[str] = []

    def run(*args: str, code: int | None = 0) -> str:
        done = anna.run(*args)
        assert code is None or done.code == code, (args, done.err)
        said.extend((done.out, done.err))
        return done.out

    run("demo")
    one, two, three = ids(anna)
    bundle = str(tmp_path / "one.zip")
    for args in (
        ("-p", "hello", "--model", "offline"),
        ("-c", "-p", "again", "--model", "offline"),
        ("-r", one, "-p", "more", "--model", "offline"),
        ("--fork", one, "-p", "other", "--model", "offline"),
        ("ls",), ("ls", "--json"), ("ls", "--all"), ("show", one), ("show", one, "--json"),
        ("tree", one), ("search", "basket"), ("search", "basket", "--json"), ("usage",),
        ("usage", "--json"), ("export", one), ("export", one, "-f", "json"),
        ("export", one, "-o", bundle), ("import", bundle), ("convert", one, "--to", "pi"),
        ("rename", one, "A name"), ("mv", two, str(tmp_path)), ("rm", three),
        ("restore", "--list"), ("restore",), ("history",), ("doctor",), ("gc",),
        ("push", "file:/" + str(tmp_path / "copy"), "--all"),
        ("pull", "file:/" + str(tmp_path / "copy"), "--all", "--json"),
        ("store", "status"), ("store", "status", "--json"), ("store", "vacuum"),
        ("store", "check"), ("store", "policy", "--keep", "90"), ("store", "upgrade"),
    ):  # fmt: skip
        run(*args)
    wrong = address.replace(quote(PASSWORD, safe=""), "hunter2wrong")
    for args in (
        ("doctor", "--repair"),
        ("show", "nothing-like-it"),
        ("show", f"{address}#nothing"),
        ("--store", wrong, "ls"),
        ("--store", address.replace("/agents", "/nowhere"), "ls"),
        ("--store", f"{address}?sslmode=nonsense", "ls"),
        ("--store", f"{address}?unknown=1", "ls"),
        ("--store", f"{address}?pool=hunter2", "ls"),
        ("--store", f"{address}#hunter2", "ls"),
        ("--store", address.replace("127.0.0.1", "nowhere.invalid"), "ls"),
        ("--store", f"postgresql://127.0.0.1/agents?user=anna&password={wrong[-9:]}hunter2", "ls"),
        ("--store", "postgresql://anna:hunter2@[::1/agents", "ls"),
        ("store", "grant", address, "anna", "owner"),
        ("store", "status", wrong),
    ):
        run(*args, code=None)
    assert any("password authentication failed" in each for each in said)
    told = anna.on_terminal("-p", "on a terminal", "--model", "offline")
    said.append(told.out)
    assert "--resume" in told.out
    shown = [spelling for spelling in SPELLINGS for each in said if spelling in each]
    assert not shown, next(each for each in said if shown[0] in each)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert not any(each.encode() in file.read_bytes() for each in SPELLINGS), file


def test_nothing_in_a_program_shows_it_either(address: str) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        listen = quote(address, safe="")
        store = open_store(f"{address}?listen={listen}&tenant=blue")
        assert isinstance(store, PostgresStore)
        store.database.patience_s = 0.1
        said = [repr(store), str(store), store.url, repr(store.database.address.shown)]
        with SessionManager.create("/work/quiet", storage=store) as session:
            session.append_message(user("question"))
            session.append_message(assistant("answer"))
            said += [session.address, repr(session), str(session.warnings)]
        for wrong in (f"{address}x", address.replace(":%", ":"), f"{address}?sslmode=nonsense"):
            try:
                open_store(wrong).list()
            except SessionTreeError as error:
                said += [repr(error), *traceback.format_exception(error)]
        said.append(heard.getvalue())
    finally:
        logging.getLogger().setLevel(before)
        logging.getLogger().removeHandler(handler)
    # a trace names the test's own lines, and they name no password
    assert not [each for each in said for spelling in SPELLINGS[:2] if spelling in each]


@pytest.mark.parametrize("mark", "/?#@:")
def test_a_password_with_marks_that_were_not_escaped_is_not_shown_in_part(mark: str) -> None:
    url = f"postgresql://anna:hun{mark}ter2@127.0.0.1:1/agents"
    try:
        made = parse_address(url)
    except StoreError as error:
        shown = str(error)
    else:
        shown = made.shown
    assert "hun" not in shown
    assert "ter2" not in shown


def test_an_address_is_shown_without_any_way_to_write_a_password() -> None:
    for url in (
        "postgresql://anna:hunter2@db/agents",
        "postgresql://anna:hun:ter2@db/agents?password=hunter2",
        "postgresql://db/agents?user=anna&password=hunter2&sslpassword=hunter2",
        "postgresql://db/agents?PASSWORD=hunter2",
        "postgresql://a:hunter2@db/x?listen=postgresql%3A%2F%2Fa%3Ahunter2%40db%2Fx",
    ):
        made = parse_address(url)
        assert "hunter2" not in made.shown
        assert "hunter2" not in repr(PostgresStore(url))


# -- as a team -------------------------------------------------------------------------------------


def test_a_page_says_what_it_left_out(machine_on: Machine) -> None:
    for number in range(4):
        say(machine_on, "-p", f"prompt {number}")
    page = machine_on.run("ls", "-n", "3")
    assert len(page.lines) == 3
    assert page.err == "1 older (-n 0 shows all)\n"
    assert machine_on.run("ls", "-n", "4").err == ""
    elsewhere = machine_on.run("ls", cwd=machine_on.root)
    assert "4 in other projects (--all)" in elsewhere.err


def test_a_name_finds_its_session_without_listing_all(machine_on: Machine) -> None:
    say(machine_on, "-p", "hello", "--name", "The parser, again")
    say(machine_on, "-p", "hello", "--name", "🌳")
    say(machine_on, "-p", "hello", "--name", "parser")
    shown = machine_on.run("show", "The parser, again", "--json").json
    assert shown["name"] == "The parser, again"
    assert machine_on.run("show", "🌳", "--json").json["name"] == "🌳"
    assert machine_on.run("show", "parser", "--json").json["name"] == "parser"
    assert "1 name contains it" in machine_on.run("show", "again").err


def test_commands_for_the_store_follow_its_option(machine_on: Machine, url: str) -> None:
    machine_on.env["SESSIONTREE_STORE"] = "postgresql://nobody@127.0.0.1:1/nothing"
    named = ("--store", url, "store")
    assert machine_on.run(*named, "policy", "--keep", "7").code == 0
    assert "until 7 days unused" in machine_on.run("store", "policy", url).out
    assert machine_on.run("store", "status").code == 1


@pytest.fixture
def machine_on(tmp_path: Path, url: str) -> Machine:
    """A machine whose store is a tenant of the shared server."""
    machine = make_machine(tmp_path)
    machine.env["SESSIONTREE_STORE"] = url
    return machine


def test_what_two_machines_write_both_see(machine_on: Machine, url: str, tmp_path: Path) -> None:
    other = make_machine(tmp_path / "other")
    other.env["SESSIONTREE_STORE"] = url
    other.project.rmdir()
    other.project.symlink_to(machine_on.project)
    say(machine_on, "-p", "from the first", "--name", "Ours")
    (mine,) = ids(machine_on)
    assert 'Resuming "Ours"' in say(other, "-r", mine, "-p", "from the second")
    told = json.dumps(machine_on.run("show", mine, "--json").json)
    assert "from the first" in told
    assert "from the second" in told
    hits = other.run("search", "first", "--json").json
    assert [hit["id"] for hit in hits] == [mine]
    assert machine_on.run("doctor").lines == ["Checked 1 session: no damage found"]


def test_filters_hold_as_they_do_for_files(
    machine_on: Machine, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileStore(session_dir=tmp_path / "sessions")
    for number in range(12):
        cwd = f"/work/{'even' if number % 2 == 0 else 'odd'}"
        with SessionManager.create(cwd, id=f"s{number}", storage=files) as session:
            session.append_message(user(f"word {number}"))
            answer = assistant("数据 of it")
            answer["model"] = f"model-{number % 3}"
            session.append_message(answer)
            if number % 4 == 0:
                session.set_session_name(f"name {number}")
    store = open_store(url)
    assert not transfer(files, store, files.list()).failed
    for query in (
        *("model:model-1", "word model:model-1", "-model:model-1", "数据 model:model-2 dir:even"),
        *("dir:odd", "is:named", "is:named word", "date:>2020-01-01", "date:<2020-01-01"),
        *("agent:omp", "word role:assistant", "in:tools word", "dir:even is:named -model:model-0"),
    ):
        shown = machine_on.run("search", query, "-n", "0", "--json").json
        found = {each["id"] for each in shown}
        here = scope.choose_scope(session_dir=files.root).reaching("all")
        hits = FilteredSearch.of(query, here).search(limit=None)
        assert found == {hit.session.id for hit in hits}, query
        assert query in ("date:<2020-01-01", "word role:assistant", "agent:omp") or found, query
    monkeypatch.setattr(scope, "_PAGE", 3)
    asked = FilteredSearch.of("dir:even", scope.choose_scope(url=url).reaching("all"))
    first = asked.search(limit=2)
    assert (len(first), first.total) == (2, None)
    assert len(asked.search(limit=None)) == 6
