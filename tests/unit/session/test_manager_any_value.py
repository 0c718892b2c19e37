"""Any JSON value in any place of a session: whatever reads it passes over what it can't use."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, dump, header, message, user

from sessiontree import MemorySessionStorage, SessionManager, build_session_context, convert_to_llm
from sessiontree.agents.messages import from_model_messages, to_model_messages
from sessiontree.agents.outgoing import outgoing_messages
from sessiontree.core.compaction import CompactionError, CompactionSettings, plan_compaction
from sessiontree.core.tree_entries import Digester
from sessiontree.core.usage import estimate_context, total_usage
from sessiontree.export.documents import render_json, render_markdown
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view
from sessiontree.model import codec
from sessiontree.runtime.models import Model
from sessiontree.stores.files.reader import load_document
from sessiontree.tui.transcript.blocks import Conversation

GOLDEN = Path(__file__).parents[2] / "golden"
SESSIONS = [path for path in sorted(GOLDEN.glob("*/*.jsonl")) if path.parent.name in ("omp", "pi")]
DEEP = b"[" * 1_200 + b"]" * 1_200
VALUES: list[Any] = [None, True, [], {"a": []}, 10**400, -1e300, "\ud83d"]
MARK = "@deep@"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value where another could stand."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


def spoiled(lines: list[dict[str, Any]], value: Any) -> Iterator[bytes]:
    """The file with ``value`` in one place after the other."""
    for at, line in enumerate(lines):
        for number in range(len(list(places(line)))):
            changed = copy.deepcopy(line)
            holder, key = list(places(changed))[number]
            holder[key] = value
            made = [*lines[:at], changed, *lines[at + 1 :]]
            text = "\n".join(map(json.dumps, made)) + "\n"
            yield text.encode().replace(json.dumps(MARK).encode(), DEEP)


def read_in_every_way(data: bytes) -> None:
    storage = MemorySessionStorage()
    storage.ensure_dir("/x")
    storage.write_atomic("/x/s.jsonl", data)
    session = SessionManager.open("/x/s.jsonl", storage=storage)
    messages = session.build_session_context().messages
    build_session_context([entry.data for entry in session.get_entries()])
    convert_to_llm(messages, repair=True)
    total_usage({"type": "message", "message": m} for m in messages)
    estimate_context(messages)
    outgoing_messages(messages, Model("acme", "m", images=True))
    from_model_messages(to_model_messages(messages))
    try:
        plan_compaction(session.get_branch(), CompactionSettings(keep_recent_tokens=20))
    except CompactionError:
        pass
    session.append_message(assistant("one more"))
    session.rewrite_entries()
    session.close()
    with open_view("/x/s.jsonl", storage=storage) as view:
        "".join(render_markdown(view, redactor=Redactor()))
        json_text = "".join(render_json(view))
        codec.decode(json_text.encode("utf-8", "surrogatepass"))
        Conversation().add_entries(view.path)
        list(Digester().digest_all(view.tree.entries))


@pytest.mark.parametrize("value", [*VALUES, MARK], ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.parent.name)
def test_a_value_of_another_type_stops_nobody(path: Path, value: Any) -> None:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    tried = 0
    for data in spoiled(lines, value):
        read_in_every_way(data)
        tried += 1
    assert tried > 100


@pytest.fixture(params=[1_000, 10_000])
def recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("depth", [900, 1_000, 1_200, 1_240, 1_260, 1_490, 2_010, 3_010, 50_000])
@pytest.mark.parametrize("core", [b"1", b"1e999", rb'"\ud83d"'])
@pytest.mark.usefixtures("recursion_limit")
def test_what_is_deep_is_read_always_or_never(depth: int, core: bytes) -> None:
    """However much stack is left: what was read once can be read again, copied and rewritten."""
    deep = b"[" * depth + core + b"]" * depth
    odd = dump(message("a0000002", "a0000001", user(MARK))).replace(dump(MARK), deep)
    lines = [dump(header()), dump(message("a0000001", None, user())), odd]
    storage = MemorySessionStorage()
    storage.ensure_dir("/x")
    storage.write_atomic("/x/s.jsonl", b"\n".join(lines) + b"\n")

    def go_down(levels: int) -> None:
        if levels:
            go_down(levels - 1)
            return
        document = load_document(storage, "/x/s.jsonl")
        assert document is not None
        assert len(document.tree.entries) == (2 if depth < 1_250 else 1)
        for entry in document.tree.entries:
            codec.copy(entry.data)

    for levels in (0, 100, 300):
        go_down(levels)
    session = SessionManager.open("/x/s.jsonl", storage=storage)
    session.append_message(assistant())
    session.rewrite_entries()
    session.close()
    kept = [storage.read(file.path) for file in storage.list_files("/x")]
    assert any(deep in data for data in kept)
