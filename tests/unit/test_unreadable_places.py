"""Places that cannot be read or written: every public name tells it in an error of ours.

Either what the documents say (nothing there, nothing found), or a ``SessionTreeError`` of one line
that names a path. Never a bare error of the system.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, chain, header, user, write

import sessiontree
from sessiontree import (
    BlobStore,
    FileSessionStorage,
    FileStore,
    HistoryStorage,
    PersistenceError,
    Profile,
    SessionManager,
    SessionStorage,
    SessionTreeError,
    create_agent_session,
    find_most_recent_session,
    get_recent_sessions,
    load_entries_from_file,
    relink,
    resolve_session,
    search,
)
from sessiontree.testing import FaultyStorage, ScriptedAgent
from sessiontree.testing.faults import OPERATIONS

LONG = "y" * 600_000
Use = Callable[[str, SessionStorage, SessionManager], object]


def live(path: str, storage: SessionStorage, **options: Any) -> None:
    async def run() -> None:
        agent = ScriptedAgent(["answer"])
        async with await create_agent_session(agent, storage=storage, **options) as session:
            await session.prompt("prompt")
            await session.fork()
            await session.switch_session(path)
            await session.branch(session.manager.get_entries()[0].id)

    asyncio.run(run())


def fill_up(session: SessionManager) -> None:
    session.append_message(user(LONG))
    session.append_message(assistant("answer"))
    session.flush()


def begin_another(session: SessionManager) -> None:
    session.new_session()
    fill_up(session)


def leave_at(session: SessionManager, entry_id: str) -> None:
    session.branch(entry_id)
    session.close()


def use_history(path: str) -> None:
    with HistoryStorage(path) as history:
        history.add("prompt")
        history.flush(0.01)  # it goes on trying
        history.recent(5)
        history.search("prompt", 5)


def start(cwd: str, folder: str | None, storage: SessionStorage, **options: Any) -> None:
    with SessionManager.create(cwd, folder, storage=storage, **options) as session:
        fill_up(session)


def omp_at(path: str) -> Profile:
    """A profile that finds folders under two spellings, and so has to look."""
    return Profile("omp", path, "omp")


# What is done with a bad path, or with a good one in a storage that fails: (path, storage, an open
# session in that storage).
USES: dict[str, Use] = {
    "load_entries_from_file": lambda path, storage, _: load_entries_from_file(
        path, storage=storage
    ),
    "get_recent_sessions": lambda path, storage, _: get_recent_sessions(path, storage=storage),
    "get_recent_sessions of a folder": lambda path, storage, _: get_recent_sessions(
        os.path.dirname(path), storage=storage
    ),
    "find_most_recent_session": lambda path, storage, _: find_most_recent_session(
        os.path.dirname(path), storage=storage
    ),
    "resolve_session by path": lambda path, storage, _: resolve_session(path, storage=storage),
    "resolve_session by id": lambda path, storage, _: resolve_session(
        "1f9d", path, session_dir=os.path.dirname(path), storage=storage
    ),
    "resolve_session in all projects": lambda path, storage, _: resolve_session(
        "1f9d", path, storage=storage
    ),
    "search": lambda path, storage, _: search("hello", cwd=path, storage=storage),
    "search all": lambda _, storage, __: search("hello", storage=storage),
    "relink": lambda path, storage, _: relink("/work/pi", path, dry_run=False, storage=storage),
    "SessionManager.create in a folder": lambda path, storage, _: start("/p", path, storage),
    "SessionManager.create for a project": lambda path, storage, _: start(path, None, storage),
    "SessionManager.open": lambda path, storage, _: fill_up(
        SessionManager.open(path, storage=storage)
    ),
    "SessionManager.continue_recent": lambda path, storage, _: fill_up(
        SessionManager.continue_recent("/work/pi", path, storage=storage)
    ),
    "SessionManager.continue_recent for a project": lambda path, storage, _: fill_up(
        SessionManager.continue_recent(path, storage=storage)
    ),
    "SessionManager.fork_from": lambda path, storage, _: SessionManager.fork_from(
        path, "/other", storage=storage
    ),
    "SessionManager.fork_from into": lambda path, storage, session: SessionManager.fork_from(
        str(session.session_file), "/other", path, storage=storage
    ),
    "SessionManager.in_memory": lambda path, storage, _: SessionManager.in_memory(
        path, storage=storage
    ),
    "SessionManager.list": lambda path, storage, _: [
        info.all_messages_text for info in SessionManager.list("/p", path, storage=storage)
    ],
    "SessionManager.list of a folder": lambda path, storage, _: [
        info.all_messages_text
        for info in SessionManager.list("/p", os.path.dirname(path), storage=storage)
    ],
    "SessionManager.list_all": lambda _, storage, __: [
        info.all_messages_text for info in SessionManager.list_all(storage=storage)
    ],
    "SessionManager.create of an id": lambda path, storage, _: SessionManager.create(
        "/p", path, id="chosen", storage=storage
    ),
    "SessionManager.create in a scope": lambda path, storage, _: SessionManager.create(
        "/p", path, id="chosen", scope="tenant", storage=storage
    ),
    "SessionManager.open_or_create": lambda path, storage, _: fill_up(
        SessionManager.open_or_create("chosen", "/p", path, storage=storage)
    ),
    "append_many": lambda _, __, session: session.append_many(
        [{"type": "custom", "customType": "x"}], expected_leaf=session.leaf_id
    ),
    "FileStore.list": lambda path, storage, _: FileStore(storage, session_dir=path).list(limit=3),
    "FileStore.find": lambda path, storage, _: FileStore(storage, session_dir=path).find("1f9d"),
    "FileStore.find_entry": lambda path, storage, _: FileStore(
        storage, session_dir=path
    ).find_entry("a1"),
    "FileStore.locate": lambda path, storage, _: FileStore(storage, session_dir=path).locate("1"),
    "FileStore.latest": lambda path, storage, _: FileStore(storage, session_dir=path).latest(None),
    "FileStore.search": lambda path, storage, _: FileStore(storage, session_dir=path).search("a"),
    "FileStore.read": lambda path, storage, _: FileStore(storage).read(path).close(),
    "FileStore.exists": lambda path, storage, _: FileStore(storage).exists(path),
    "FileStore.delete": lambda path, storage, _: FileStore(storage).delete(path),
    "FileStore.delete for good": lambda path, storage, _: FileStore(storage).delete(
        path, permanently=True
    ),
    "FileStore.restore": lambda path, storage, _: FileStore(storage).restore("1f9d"),
    "FileStore.watch": lambda path, storage, _: FileStore(storage).watch(path).wait(0),
    "set_session_file": lambda path, _, session: session.set_session_file(path),
    "move_to": lambda path, _, session: session.move_to(path),
    "fork": lambda _, __, session: session.fork(),
    "create_branched_session": lambda _, __, session: session.create_branched_session("a2"),
    "new_session": lambda _, __, session: begin_another(session),
    "set_session_name": lambda _, __, session: session.set_session_name("name"),
    "rewrite_entries": lambda _, __, session: session.rewrite_entries(),
    "rewrite_tool_call_args": lambda _, __, session: session.rewrite_tool_call_args("call", {}),
    "append": lambda _, __, session: session.append_message(user(LONG)),
    "branch and close": lambda _, __, session: leave_at(session, "a1"),
    "branch_with_summary": lambda _, __, session: session.branch_with_summary("a1", "summary"),
    "append and flush": lambda _, __, session: fill_up(session),
    "refresh": lambda _, __, session: session.refresh(),
    "recover": lambda _, __, session: session.recover(),
    "reading": lambda _, __, session: [
        (entry.data, session.get_branch(entry.id), session.build_session_context())
        for entry in session.get_entries()
    ],
    "create_agent_session": lambda path, storage, _: live(path, storage, cwd="/p"),
    "create_agent_session in a folder": lambda path, storage, session: live(
        str(session.session_file), storage, cwd="/p", session_dir=path
    ),
    "create_agent_session on a file": lambda path, storage, _: live(
        path, storage, cwd="/p", resume=path
    ),
    "SessionManager.move_to in omp": lambda path, storage, session: SessionManager.open(
        str(session.session_file), profile="omp", storage=storage
    ).move_to(path),
    "SessionManager.create in omp": lambda path, storage, _: start(
        path, None, storage, profile="omp"
    ),
    "SessionManager.create in an agent's folder": lambda path, storage, _: start(
        "/p", None, storage, profile=omp_at(path)
    ),
    "SessionManager.continue_recent in an agent's folder": lambda path, storage, _: (
        SessionManager.continue_recent("/p", profile=omp_at(path), storage=storage)
    ),
    "SessionManager.list_all in an agent's folder": lambda path, storage, _: (
        SessionManager.list_all(profile=omp_at(path), storage=storage)
    ),
    "SessionManager.open with an agent's folder": lambda path, storage, session: fill_up(
        SessionManager.open(
            str(session.session_file), profile=omp_at(path), storage=storage, durability="entry"
        )
    ),
    "resolve_session in an agent's folder": lambda path, storage, _: resolve_session(
        "1f9d", "/p", profile=omp_at(path), storage=storage
    ),
    "search in an agent's folder": lambda path, storage, _: search(
        "hello", profile=omp_at(path), storage=storage
    ),
    "relink in an agent's folder": lambda path, storage, _: relink(
        "/p", "/q", dry_run=False, profile=omp_at(path), storage=storage
    ),
    "HistoryStorage in an agent's folder": lambda path, _, __: use_history(
        omp_at(path).history_path
    ),
    "HistoryStorage": lambda path, _, __: use_history(path),
    "BlobStore": lambda path, storage, _: (
        BlobStore(path, storage).get("blob:sha256:" + "0" * 64),
        BlobStore(path, storage).put(b"x"),
    ),
}
# Values, pure functions and seams; and what the uses above go through.
WITHOUT_A_DISK = {
    *("__version__", "SessionContext", "build_session_context", "convert_to_llm", "Entry"),
    *("SessionTreeNode", "SessionWarning", "parse_jsonl_lenient", "migrate_entries"),
    *("SessionStorage", "SessionStorageReader", "SessionStorageWriter", "MemorySessionStorage"),
    *("SessionInfo", "RecentSessionInfo", "Profile", "get_profile", "Agent", "AgentBase"),
    *(
        "AgentSession",
        "FileSessionStorage",
        "SessionStore",
        "SessionLog",
        "MemoryStore",
        "AsyncSessionManager",
    ),
    "open_store",
}


def test_every_public_name_that_touches_a_disk_is_tried() -> None:
    used = {use.split()[0].split(".")[0] for use in USES}
    errors = {name for name in sessiontree.__all__ if name.endswith("Error")}
    assert set(sessiontree.__all__) - used - errors == WITHOUT_A_DISK


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A session in a folder of its own, and one in the profile's."""
    folder = tmp_path / "sessions"
    talk = chain(user("hello"), assistant("hi"), user(LONG))
    call = {"type": "toolCall", "id": "call", "name": "read", "arguments": {"a": 1}}
    talk[1]["message"]["content"].append(call)
    write(folder / "x.jsonl", header(), *talk)
    write(folder / "damaged.jsonl", b"garbage\n", *talk)
    (folder / "x").mkdir()
    (folder / "x" / "artifact").write_bytes(b"1")
    with SessionManager.create("/work/pi") as session:
        session.append_message(user("hello"))
        session.append_message(assistant("hi"))
    return folder


def bad_places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_bytes(b"text\n")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    long = "n" * 300
    return {
        "below a file": str(tmp_path / "file" / "x.jsonl"),
        "far below a file": str(tmp_path / "file" / "a" / "b" / "x.jsonl"),
        "a link to itself": str(tmp_path / "loop.jsonl"),
        "below a link to itself": str(tmp_path / "loop" / "x.jsonl"),
        "a long name": str(tmp_path / f"{long}.jsonl"),
        "below a long name": str(tmp_path / long / "x.jsonl"),
        "a long path": str(tmp_path / "/".join(["n" * 200] * 30) / "x.jsonl"),
        "a folder": str(tmp_path / "folder.jsonl"),
        "a pipe": str(tmp_path / "pipe.jsonl"),
        "missing": str(tmp_path / "missing" / "x.jsonl"),
    }


def require_error_of_ours(use: Callable[[], object]) -> None:
    """If it fails, then as documented: one line, which says where and what."""
    try:
        use()
    except SessionTreeError as error:
        found = error
    else:
        return
    assert str(found)
    assert "\n" not in str(found)
    if isinstance(found, PersistenceError):
        assert os.path.isabs(found.path)
        assert found.reason
        assert str(found) == f"{found.path}: {found.reason}"


@pytest.mark.parametrize("use", USES)
def test_a_place_that_cannot_be_used_is_an_error_of_ours(
    use: str, tmp_path: Path, project: Path
) -> None:
    for place in bad_places(tmp_path).values():
        storage = FileSessionStorage()
        session = SessionManager.open(project / "x.jsonl", storage=storage)
        require_error_of_ours(partial(USES[use], place, storage, session))


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_a_storage_that_fails_is_an_error_of_ours(
    operation: str, code: int, tmp_path: Path, project: Path
) -> None:
    good = project / "x.jsonl"
    before = good.read_bytes()
    for number, use in enumerate(use for use in USES if not use.startswith("History")):
        for name in ("x.jsonl", "damaged.jsonl"):
            folder = tmp_path / f"{number}-{name}"
            write(folder / "x.jsonl", before)
            write(folder / "damaged.jsonl", b"garbage\n", before)
            storage = FaultyStorage(FileSessionStorage())
            session = SessionManager.open(folder / "x.jsonl", storage=storage)
            storage.fail(operation, code, times=None)
            require_error_of_ours(partial(USES[use], str(folder / name), storage, session))
            storage.heal()
