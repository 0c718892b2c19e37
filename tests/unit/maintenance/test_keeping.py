"""Keeping sessions: every byte, once, whatever happens to the originals or to the run."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agent_databases import OpenCodeDatabase
from tests.agent_samples import (
    claude_answer,
    claude_prompt,
    put_claude,
    put_codex,
    put_subagent,
)

from sessiontree import SessionManager, search
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.kept import kept_dir
from sessiontree.discovery.kept.index import SCHEMA
from sessiontree.discovery.kept.reading import open_kept
from sessiontree.discovery.kept.removal import forget_kept
from sessiontree.errors import PersistenceError
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.imports import import_session
from sessiontree.maintenance.keeping import cut_chunks, keep_sessions, read_status
from sessiontree.maintenance.kept_restoring import RestoreRefusedError, restore_session
from sessiontree.scope import choose_scope
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat
from sessiontree.storage.packs import PackFolder

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file written a moment ago may change again unnoticed; these tests don't wait for that."""
    monkeypatch.setattr("sessiontree.discovery.catalogue.freshness._TICK_NS", 0)


def content(path: Path | str, version: int = 0) -> bytes | None:
    reader = open_kept(str(path), version=version)
    return reader.read_at(0, reader.stat().size) if reader is not None else None


def talk(home: Path, session_id: str = ONE, word: str = "hello") -> Path:
    return put_claude(home, session_id, claude_prompt(word), claude_answer("yes"))


def test_every_byte_is_kept_and_a_second_run_adds_nothing(home: Path) -> None:
    claude = talk(home)
    claude.write_bytes(claude.read_bytes() + b'\xff\xfe{"torn')
    codex = put_codex(home, TWO, ("user", "hi"), ("assistant", "yes"))
    report = keep_sessions()
    assert (report.new, report.checked, report.unreadable) == (2, 2, [])
    assert content(claude) == claude.read_bytes()
    assert content(codex) == codex.read_bytes()
    before = {path: path.read_bytes() for path in Path(kept_dir()).iterdir()}
    assert keep_sessions().changed == 0
    assert {path: path.read_bytes() for path in Path(kept_dir()).iterdir()} == before


def test_what_has_grown_adds_its_end(home: Path) -> None:
    path = talk(home)
    path.write_bytes(path.read_bytes() + os.urandom(400_000).hex().encode() + b"\n")
    assert keep_sessions().new == 1
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":"more"}\n')
    report = keep_sessions()
    assert (report.new, report.grown, report.rewritten) == (0, 1, 0)
    assert report.written_bytes < 100_000
    assert content(path) == path.read_bytes()


def test_what_a_rewrite_lost_is_still_there(home: Path) -> None:
    path = talk(home)
    first = path.read_bytes()
    keep_sessions()
    path.write_bytes(b"{}\n")
    assert keep_sessions().rewritten == 1
    path.write_bytes(b"")
    assert keep_sessions().rewritten == 1
    assert (content(path), content(path, 1), content(path, 2)) == (b"", b"{}\n", first)
    assert content(path, 3) is None
    assert read_status().versions == 2


def test_the_same_lines_are_stored_once(home: Path) -> None:
    chance = random.Random(7)
    lines = [chance.randbytes(2_000).hex().encode() for _ in range(1_000)]
    one, two = talk(home), talk(home, TWO)
    one.write_bytes(one.read_bytes() + b"\n".join(lines) + b"\n")
    keep_sessions()
    alone = sum(PackFolder(kept_dir()).sizes().values())
    two.write_bytes(b'{"type":"summary"}\n' * 3 + one.read_bytes())
    keep_sessions()
    assert sum(PackFolder(kept_dir()).sizes().values()) < 1.25 * alone
    assert content(two) == two.read_bytes()


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def stat(self) -> FileStat:
        return FileStat("x", len(self.data), 0, 0)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("size", [0, 1, 131_071, 131_072, 131_073, 1 << 20, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("line", [1, 100, 5_000, 10 << 20])
def test_chunks_are_the_content(size: int, line: int) -> None:
    data = (os.urandom(line // 2 + 1).hex()[:line].encode() + b"\n") * (size // line + 1)
    data = data[:size]
    chunks = list(cut_chunks(_Bytes(data), 0, size))
    assert b"".join(chunks) == data
    assert all(0 < len(chunk) <= 1 << 20 for chunk in chunks)


# -- when the originals are gone ---------------------------------------------------------------


def delete_all(home: Path) -> None:
    shutil.rmtree(home / ".claude")
    shutil.rmtree(home / ".codex", ignore_errors=True)


def test_a_deleted_session_stays_in_listing_search_and_usage(home: Path) -> None:
    talk(home, word="find the quokka")
    put_subagent(home, ONE, "x", claude_prompt("below a wombat", 7), claude_answer("yes", 8))
    put_codex(home, TWO, ("user", "in codex"), ("assistant", "a heron"))
    scope = choose_scope("/srv/shop").reaching("all", agents="all")
    before = [(info.agent, info.id, info.modified, info.message_count) for info in scope.list()]
    used = scope.usage().total
    keep_sessions()
    delete_all(home)
    found = scope.list()
    after = [(info.agent, info.id, info.modified, info.message_count) for info in found]
    assert after == before
    assert all(info.is_kept for info in found)
    assert found[0].all_messages_text
    for word in ("quokka", "wombat", "heron"):
        assert len(search(word)) == 1, word
    assert scope.usage().total == used
    sqlite.replace(SCHEMA)
    shutil.rmtree(sqlite.cache_dir())
    after = [(info.agent, info.id, info.modified, info.message_count) for info in scope.list()]
    assert after == before
    assert len(search("wombat")) == 1


def test_a_deleted_session_is_shown_and_imported_with_its_subagents(home: Path) -> None:
    path = talk(home)
    below = put_subagent(home, ONE, "x", claude_prompt("below", 7), claude_answer("deep", 8))
    (below.with_suffix("").parent / "agent-x.meta.json").write_text('{"description": "Explore"}')
    before = [entry.data for entry in load_foreign(path).get_entries()]
    keep_sessions()
    delete_all(home)
    assert [entry.data for entry in load_foreign(path).get_entries()] == before
    report = import_session(path)
    assert report.is_new
    assert import_session(path).is_unchanged


def test_a_session_that_was_moved_is_not_listed_twice(home: Path) -> None:
    path = talk(home)
    keep_sessions()
    other = path.parent.with_name("-srv-other")
    other.mkdir()
    path.rename(other / path.name)
    (info,) = SessionManager.list_all(agents="all")
    assert not info.is_kept


def test_what_was_removed_on_purpose_does_not_come_back(home: Path) -> None:
    with SessionManager.create("/srv/shop") as session:
        session.append_message({"role": "user", "content": "a secret", "timestamp": 1})
        session.append_message(
            {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "timestamp": 2}
        )
        path = session.session_file
    assert path is not None
    keep_sessions()
    store = choose_scope("/srv/shop").store
    item = store.delete(path)
    assert item is not None
    assert SessionManager.list_all(agents="all") == []
    store.restore(item.session_id)
    assert len(SessionManager.list_all(agents="all")) == 1
    store.delete(path, permanently=True)
    assert SessionManager.list_all(agents="all") == []
    assert open_kept(path) is None


def test_a_kept_session_of_ours_is_read_through_its_store(home: Path) -> None:
    with SessionManager.create("/srv/shop", profile="pi") as session:
        session.append_message({"role": "user", "content": "hi", "timestamp": 1})
        session.append_message(
            {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "timestamp": 2}
        )
        path = session.session_file
    assert path is not None
    keep_sessions()
    os.unlink(path)
    (info,) = SessionManager.list_all(agents="all")
    assert (info.is_kept, info.agent) == (True, "pi")
    log = choose_scope("/srv/shop", profile="pi").store.read(path)
    assert [entry.type for entry in log.tree.entries][-1] == "message"
    log.close()


def test_a_session_of_a_database_is_kept_as_the_lines_of_its_rows(home: Path) -> None:
    database = OpenCodeDatabase(home)
    for name, word in (("ses_1", "a walrus"), ("ses_2", "a heron")):
        database.session(name)
        database.prompt(name, word)
        database.answer(name, {"type": "text", "text": "yes"})
    scope = choose_scope("/srv/shop").reaching("all", agents="all")
    used = scope.usage().total
    assert keep_sessions().new == 2
    assert keep_sessions().changed == 0
    database.prompt("ses_1", "and a narwhal")
    assert keep_sessions().changed == 1
    path = f"{database.path}/ses_1"
    before = [entry.data for entry in load_foreign(path).get_entries()]
    database.run("DELETE FROM part WHERE session_id = 'ses_1'")
    database.run("DELETE FROM message WHERE session_id = 'ses_1'")
    database.run("DELETE FROM session WHERE id = 'ses_1'")
    found = {info.id: info.is_kept for info in scope.list()}
    assert found == {"ses_1": True, "ses_2": False}
    assert len(search("walrus")) == len(search("narwhal")) == 1
    assert scope.usage().total == used
    assert [entry.data for entry in load_foreign(path).get_entries()] == before
    with pytest.raises(RestoreRefusedError, match="database"):
        restore_session(path)
    database.close()
    for file in database.path.parent.glob("opencode.db*"):
        file.unlink()
    assert {info.id for info in scope.list()} == {"ses_1", "ses_2"}
    assert [entry.data for entry in load_foreign(path).get_entries()] == before


# -- crashes, damage, company ------------------------------------------------------------------


def test_the_index_can_be_lost_at_any_time(home: Path) -> None:
    paths = [talk(home), put_codex(home, TWO, ("user", "hi"), ("assistant", "yes"))]
    keep_sessions()
    sqlite.replace(SCHEMA)
    assert [content(path) for path in paths] == [path.read_bytes() for path in paths]
    Path(SCHEMA.path).write_bytes(b"no database" * 100)
    assert [content(path) for path in paths] == [path.read_bytes() for path in paths]
    assert keep_sessions().changed == 0


def test_a_run_that_is_killed_anywhere_loses_nothing_that_was_kept(home: Path) -> None:
    first = talk(home)
    keep_sessions()
    pack = Path(PackFolder(kept_dir()).path(1))
    committed = pack.read_bytes()
    second = talk(home, TWO, "another")
    keep_sessions()
    whole = pack.read_bytes()
    cuts = {len(committed), len(whole) - 1, *range(len(committed), len(whole), 37)}
    for cut in sorted(cuts):
        pack.write_bytes(whole[:cut])
        sqlite.replace(SCHEMA)
        assert content(first) == first.read_bytes()
        keep_sessions()
        assert (content(first), content(second)) == (first.read_bytes(), second.read_bytes())


def test_garbage_at_the_end_of_a_pack_is_written_over(home: Path) -> None:
    first = talk(home)
    keep_sessions()
    with Path(PackFolder(kept_dir()).path(1)).open("ab") as file:
        file.write(b"STK1c" + os.urandom(500))
    second = talk(home, TWO)
    assert keep_sessions().new == 1
    sqlite.replace(SCHEMA)
    assert (content(first), content(second)) == (first.read_bytes(), second.read_bytes())


def test_a_damaged_copy_says_so_and_the_next_run_is_whole_again(home: Path) -> None:
    path = talk(home)
    keep_sessions()
    pack = Path(PackFolder(kept_dir()).path(1))
    data = bytearray(pack.read_bytes())
    data[60] ^= 1
    pack.write_bytes(bytes(data))
    with pytest.raises(OSError, match="damaged"):
        content(path)


@pytest.mark.parametrize("failing", [1, 2, 38, 40, 41, 42, 80, "sync"])
def test_a_disk_that_fills_up_costs_no_copy_and_no_room(
    home: Path, monkeypatch: pytest.MonkeyPatch, failing: int | str
) -> None:
    """Half a record is written, then the disk takes the rest again: nothing is kept by halves."""
    first = talk(home, TWO)
    keep_sessions()
    pack = Path(PackFolder(kept_dir()).path(1))
    kept = pack.read_bytes()
    paths = [talk(home, f"{ONE[:-2]}{no:02d}", f"word{no}") for no in range(10, 50)]
    written = 0

    def refuse(number: int, data: bytes = b"") -> None:
        nonlocal written
        written += 1
        if failing in (written, "sync"):
            os.write(number, data[:50])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(number, data)

    with monkeypatch.context() as patch:
        refused = "os.fsync" if failing == "sync" else "sessiontree.storage.packs.write_all"
        patch.setattr(refused, refuse)
        with pytest.raises(PersistenceError, match="pack: No space left on device"):
            keep_sessions()
    assert pack.read_bytes() == kept
    assert read_status().sessions == 1
    assert keep_sessions().new == 40
    sqlite.replace(SCHEMA)
    assert [content(path) for path in [first, *paths]] == [
        path.read_bytes() for path in [first, *paths]
    ]


def test_several_processes_keep_at_once(home: Path) -> None:
    paths = [talk(home, ONE[:-1] + str(no), f"word{no}") for no in range(8)]
    code = "from sessiontree.maintenance.keeping import keep_sessions; keep_sessions()"
    runs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [run.wait(60) for run in runs] == [0, 0, 0, 0]
    sqlite.replace(SCHEMA)
    assert [content(path) for path in paths] == [path.read_bytes() for path in paths]
    packs = PackFolder(kept_dir())
    kinds = [record.kind for no in packs.sizes() for record in packs.scan(no)]
    assert kinds.count(b"m") == 8


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_kept(home: Path) -> None:
    good = talk(home)
    bad = good.with_name(f"{TWO}.jsonl")
    bad.symlink_to(bad)
    report = keep_sessions()
    assert content(good) == good.read_bytes()
    assert [each.path for each in report.unreadable] in ([], [str(bad)])


def test_names_that_are_no_text_are_kept(home: Path) -> None:
    path = talk(home)
    odd = os.fsencode(path.parent) + b"/\xff\xfe.jsonl"
    os.rename(path, odd)
    expected = Path(os.fsdecode(odd)).read_bytes()
    keep_sessions()
    sqlite.replace(SCHEMA)
    assert content(os.fsdecode(odd)) == expected


# -- what would be deleted -----------------------------------------------------------------------


@pytest.fixture
def settings(home: Path) -> Path:
    folder = home / ".claude"
    folder.mkdir()
    return folder / "settings.json"


def _age(path: Path, days: float) -> None:
    moment = time.time() - days * 86_400
    os.utime(path, (moment, moment))


def test_the_sessions_that_go_next_week_are_told(home: Path, settings: Path) -> None:
    soon, later = talk(home), talk(home, TWO)
    _age(soon, 25)
    _age(later, 20)
    assert keep_sessions().expiring == 1
    status = read_status()
    assert [(each.stat.path, each.is_kept) for each in status.expiring] == [(str(soon), True)]
    assert status.expiring[0].title == "hello"
    assert (status.sessions, status.unkept, status.gone) == (2, 0, 0)
    settings.write_text('{"cleanupPeriodDays": 24}')
    assert len(read_status().expiring) == 2
    settings.write_text('{"cleanupPeriodDays": 99999}')
    assert read_status().expiring == []


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"cleanupPeriodDays": "x"}', "{}", "null"])
def test_odd_settings_mean_thirty_days(settings: Path, text: str) -> None:
    settings.write_text(text)
    assert get_adapter("claude-code").retention_days() == 30


def test_what_is_forgotten_while_the_index_is_held_is_gone(home: Path) -> None:
    path, other = talk(home, ONE, "hello"), talk(home, TWO, "stays")
    keep_sessions()
    holder = sqlite3.connect(SCHEMA.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert forget_kept([str(path)]) == 1
    assert content(path) is None
    assert content(other) == other.read_bytes()
    holder.execute("ROLLBACK")
    holder.close()
    assert content(path) is None
    assert content(other) == other.read_bytes()
    packs = b"".join(file.read_bytes() for file in Path(kept_dir()).rglob("*") if file.is_file())
    assert os.fsencode(path.name) not in packs
