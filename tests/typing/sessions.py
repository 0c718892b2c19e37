"""What type checkers say about sessions. mypy checks this file; nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, assert_type

from sessiontree import (
    AsyncSessionManager,
    BlobStore,
    Entry,
    FileSessionStorage,
    HistoryStorage,
    SessionContext,
    SessionManager,
    SessionTreeNode,
    SessionWarning,
    build_session_context,
    convert_to_llm,
    load_entries_from_file,
    migrate_entries,
    parse_jsonl_lenient,
)


def keep_a_conversation(folder: Path) -> None:
    with SessionManager.create(folder) as session:
        assert_type(session, SessionManager)
        assert_type(session.append_message({"role": "user", "content": "Hi"}), str)
        assert_type(session.session_file, str | None)
        assert_type(session.session_name, str | None)
        assert_type(session.leaf_id, str | None)
        assert_type(session.get_entries(), list[Entry])
        assert_type(session.get_branch(), list[Entry])
        assert_type(session.get_entry("a0000001"), Entry | None)
        assert_type(session.get_tree(), list[SessionTreeNode])
        assert_type(session.build_session_context(), SessionContext)
        assert_type(session.warnings, list[SessionWarning])
        assert_type(session.follow(timeout_s=1), Generator[Entry, None, None])


def build_on_it(folder: Path) -> None:
    with SessionManager.open_or_create("nightly-build", folder) as session:
        ids = session.append_many(
            [{"type": "message", "message": {"role": "user", "content": "Hi"}}],
            expected_leaf=None,
            expected_revision=session.revision,
        )
        assert_type(ids, list[str])
        assert_type(session.append_many(lambda: [{"type": "custom", "customType": "x"}]), list[str])
        assert_type(session.set_record("step", {"done": 3}), str)
        assert_type(session.get_record("step"), Any)
        assert_type(session.create_branched_session(ids[-1]), str | None)
        assert_type(session.fork(), tuple[str, str] | None)
        session.append_message("Hi")  # type: ignore[arg-type]
        session.branch(None)  # type: ignore[arg-type]


class OurManager(SessionManager):
    """Constructors give the class they are called on."""


def keep_it_our_way(folder: Path) -> None:
    assert_type(OurManager.create(folder), OurManager)
    assert_type(OurManager.open(folder / "session.jsonl"), OurManager)
    assert_type(OurManager.continue_recent(folder, scope="team/ada"), OurManager)
    assert_type(OurManager.fork_from(folder / "session.jsonl", folder), OurManager)
    assert_type(OurManager.in_memory(), OurManager)


async def keep_it_in_an_event_loop(folder: Path) -> None:
    async with await AsyncSessionManager.create(folder) as session:
        assert_type(await session.append_message({"role": "user", "content": "Hi"}), str)
        assert_type(await session.get_branch(), list[Entry])
        assert_type(session.leaf_id, str | None)
        assert_type(session.follow(), AsyncGenerator[Entry, None])


def work_on_entries(session: SessionManager, file: Path) -> None:
    assert_type(build_session_context(session.get_entries(), session.leaf_id), SessionContext)
    records = load_entries_from_file(file)
    assert_type(records, list[dict[str, Any]])
    assert_type(parse_jsonl_lenient(file.read_bytes()), list[dict[str, Any]])
    assert_type(migrate_entries(records), bool)
    convert_to_llm(session.build_session_context().messages, repair=True)


def keep_what_is_beside_sessions(folder: Path) -> None:
    blobs = BlobStore(folder, FileSessionStorage())
    assert_type(blobs.put(b"picture"), str)
    assert_type(blobs.get("blob:sha256:00"), bytes | None)
    history = HistoryStorage.for_profile("pi")
    history.add("Why does the login fail?", folder)
    assert_type(history.flush(), bool)
