"""What can be done to a session, each with the state it needs: the targets of the fault attacks."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.samples import user

from sessiontree import SessionManager

Wire = dict[str, Any]
Prepare = Callable[[Path], SessionManager]
Act = Callable[[SessionManager], object]


@dataclass(frozen=True, slots=True)
class Operation:
    """``prepare`` makes a session below a folder; ``act`` is what the system will refuse.

    ``changes_messages``: what was said before reads otherwise afterwards.
    """

    name: str
    prepare: Prepare
    act: Act
    changes_messages: bool = False


FOREIGN = user("written by another process")


def answer(text: str) -> Wire:
    call = {"type": "toolCall", "id": "call", "name": "bash", "arguments": {"command": "ls"}}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}, call],
        "provider": "p",
        "model": "m",
        "timestamp": 2,
    }


def picture(seed: int = 0) -> Wire:
    data = base64.b64encode(random.Random(seed).randbytes(3_000)).decode()
    block = {"type": "image", "data": data, "mimeType": "image/png"}
    return {"role": "user", "content": [block], "timestamp": 3}


# -- states ------------------------------------------------------------------------------------


def fresh(folder: Path) -> SessionManager:
    """Nothing is on disk yet."""
    return SessionManager.create(folder / "project")


def drafted(folder: Path) -> SessionManager:
    session = fresh(folder)
    session.append_message(user("first"))
    return session


def talking(folder: Path) -> SessionManager:
    session = drafted(folder)
    session.append_message(answer("second"))
    session.append_message(picture())
    session.append_message(answer("fourth"))
    return session


def branched(folder: Path) -> SessionManager:
    """The leaf is not the last entry, so closing has something to write."""
    session = talking(folder)
    session.branch(session.get_entries()[1].id)
    return session


def with_artifacts(folder: Path) -> SessionManager:
    session = talking(folder)
    inner = Path(session.artifacts_dir or "") / "deep"
    inner.mkdir(parents=True)
    (inner / "note.txt").write_text("kept")
    return session


def synced_each_time(folder: Path) -> SessionManager:
    session = talking(folder)
    session.close()
    return SessionManager.open(str(session.session_file), durability="entry")


def slotted(folder: Path) -> SessionManager:
    """A file of omp 18, whose title has a slot of its own."""
    session = talking(folder)
    session.close()
    path = Path(str(session.session_file))
    slot = {"type": "title", "v": 1, "title": "old", "updatedAt": "2026-02-16T10:20:30.000Z"}
    bare = len(json.dumps({**slot, "pad": ""})) + 1
    lead = json.dumps({**slot, "pad": " " * (256 - bare)}) + "\n"
    path.write_bytes(lead.encode() + path.read_bytes())
    return SessionManager.open(path)


def damaged(folder: Path) -> SessionManager:
    """One line in the middle cannot be read, and the last is torn."""
    session = talking(folder)
    session.close()
    path = Path(str(session.session_file))
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(2, b'{"type":"message","id":\n')
    path.write_bytes(b"".join(lines) + b'{"type":"mess')
    return SessionManager.open(path)


def deleted(folder: Path) -> SessionManager:
    session = talking(folder)
    os.unlink(str(session.session_file))
    return session


def replaced(folder: Path) -> SessionManager:
    """Another program wrote the same session anew, with one more entry."""
    session = talking(folder)
    other = SessionManager.open(str(session.session_file))
    other.append_message(FOREIGN)
    other.rewrite_entries()
    other.close()
    return session


def grown(folder: Path) -> SessionManager:
    session = talking(folder)
    other = SessionManager.open(str(session.session_file))
    other.append_message(FOREIGN)
    other.close()
    return session


# -- operations --------------------------------------------------------------------------------


def _move(session: SessionManager) -> None:
    target = Path(session.cwd).parent / "elsewhere"
    session.move_to(target)


def _change_and_rewrite(session: SessionManager) -> None:
    entry = session.get_entries()[0]
    before = entry.data["message"]
    entry.data["message"] = user("changed")
    try:
        session.rewrite_entries()
    except BaseException:
        entry.data["message"] = before
        raise


def _switch(session: SessionManager) -> None:
    session.set_session_file(Path(session.session_dir) / "other.jsonl")


def _append_and_flush(session: SessionManager) -> None:
    session.append_message(user("more"))
    session.flush()


OPERATIONS = [
    Operation("the first prompt", fresh, lambda s: s.append_message(user("more"))),
    Operation("a prompt in a draft", drafted, lambda s: s.append_message(user("more"))),
    Operation("the first answer", drafted, lambda s: s.append_message(answer("more"))),
    Operation("an append", talking, lambda s: s.append_message(user("more"))),
    Operation("an append that is synced", synced_each_time, lambda s: s.append_message(user("x"))),
    Operation("a picture", talking, lambda s: s.append_message(picture(1))),
    Operation("a picture known before", talking, lambda s: s.append_message(picture())),
    Operation("a very long text", talking, lambda s: s.append_message(user("long " * 110_000))),
    Operation("a flush", talking, lambda s: s.flush()),
    Operation("a new name", talking, lambda s: s.set_session_name("name")),
    Operation("a new name in its slot", slotted, lambda s: s.set_session_name("name")),
    Operation("a rewrite", talking, _change_and_rewrite, changes_messages=True),
    Operation("a rewrite of a damaged file", damaged, lambda s: s.set_session_name("name")),
    Operation("an append to a damaged file", damaged, lambda s: s.append_message(user("more"))),
    Operation(
        "other arguments",
        talking,
        lambda s: s.rewrite_tool_call_args("call", {"x": 1}),
        changes_messages=True,
    ),
    Operation("a branch with a summary", talking, lambda s: s.branch_with_summary(None, "left")),
    Operation("a move", with_artifacts, _move),
    Operation("the move of a draft", drafted, _move),
    Operation("a fork", with_artifacts, lambda s: s.fork()),
    Operation("the fork of a branch", branched, lambda s: s.fork()),
    Operation(
        "a branched session",
        talking,
        lambda s: s.create_branched_session(s.get_entries()[1].id),
    ),
    Operation("a switch", branched, _switch),
    Operation("a new session", branched, lambda s: s.new_session()),
    Operation("a close", branched, lambda s: s.close()),
    Operation("an append to a deleted file", deleted, lambda s: s.append_message(user("more"))),
    Operation("an append to a replaced file", replaced, lambda s: s.append_message(user("more"))),
    Operation("a merge", grown, lambda s: s.refresh()),
    Operation("a rewrite of a grown file", grown, lambda s: s.set_session_name("name")),
]
"""What an open session can be asked to do."""


# -- ways to get a session ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrival:
    """``prepare`` leaves something on disk; ``act`` opens a session from it."""

    name: str
    prepare: Callable[[Path], Path]
    act: Callable[[Path], SessionManager]


def _closed(folder: Path) -> Path:
    session = talking(folder)
    session.close()
    return Path(str(session.session_file))


def _old(folder: Path) -> Path:
    path = _closed(folder)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    del lines[0]["version"]
    for line in lines[1:]:
        del line["id"], line["parentId"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _headless(folder: Path) -> Path:
    path = _closed(folder)
    path.write_bytes(b"\x00" * 40 + path.read_bytes()[40:])
    return path


def _only_a_draft(folder: Path) -> Path:
    session = drafted(folder)
    session.close()
    return Path(str(session.session_file))


ARRIVALS = [
    Arrival("opening", _closed, SessionManager.open),
    Arrival("opening a draft", _only_a_draft, SessionManager.open),
    Arrival("upgrading", _old, SessionManager.open),
    Arrival("recovering", _headless, SessionManager.open),
    Arrival("beginning at a path", lambda folder: folder / "new" / "s.jsonl", SessionManager.open),
    Arrival("forking a file", _closed, lambda path: SessionManager.fork_from(path, path.parent)),
    Arrival(
        "continuing",
        _closed,
        lambda path: SessionManager.continue_recent(path.parents[3] / "project"),
    ),
]
"""The ways by which a session becomes open."""
