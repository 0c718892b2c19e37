"""Damage of every kind: what is whole is had, what is not is kept, and the session goes on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import assistant, dump, entry, header, lines, message, slot, user

from sessiontree import MemorySessionStorage, NotASessionError, SessionManager
from sessiontree.stores.files.reader import load_document

PATH = "/s/session.jsonl"
IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"])
TEXT = st.text(st.characters(exclude_categories=()), max_size=12)


@st.composite
def records(draw: st.DrawFn, *, unsound: bool = False) -> list[dict[str, Any]]:
    """Entries of a session; unsound ones may name any parent and use an id twice."""
    made: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 10))):
        entry_id = draw(IDS) if unsound else f"e{number}"
        known: list[str | None] = [None, *(record["id"] for record in made)]
        parent = (
            draw(st.sampled_from(known[-4:]) | IDS) if unsound else draw(st.sampled_from(known))
        )
        if draw(st.booleans()):
            made.append(message(entry_id, parent, user(draw(TEXT))))
        else:
            made.append(entry("custom", entry_id, parent, customType="x", data=draw(TEXT)))
    return made


def store(data: bytes) -> MemorySessionStorage:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic(PATH, data)
    return storage


def load(data: bytes) -> list[dict[str, Any]] | None:
    """The entries of a file's bytes as the tree has them; None if there is no valid header."""
    try:
        document = load_document(store(data), PATH)
    except NotASessionError:
        return None
    return [] if document is None else [found.data for found in document.tree.entries]


def shape(session: SessionManager) -> list[tuple[str, str | None]]:
    return [(found.id, found.parent_id) for found in session.get_entries()]


def parsed(record: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(record))
    return value


def _without_place(record: dict[str, Any]) -> dict[str, Any]:
    """A child of a lost entry is hung elsewhere, and a damaged id may be another entry's."""
    return {key: value for key, value in record.items() if key not in ("id", "parentId")}


HEADS = st.sampled_from([lines(header()), slot("title") + lines(header()), b"\n" + lines(header())])


@given(records(), HEADS, st.data())
@settings(max_examples=120, deadline=None)
def test_any_truncation_of_a_valid_file_is_a_valid_prefix(
    entries: list[dict[str, Any]], head: bytes, data: st.DataObject
) -> None:
    whole = head + b"".join(json.dumps(record).encode() + b"\n" for record in entries)
    cut = data.draw(st.integers(0, len(whole)), label="cut")
    found = load(whole[:cut])
    complete = whole[:cut].count(b"\n") - head.count(b"\n")
    if cut < len(head) - 1:
        assert found in (None, [])
        return
    assert found is not None
    expected = [parsed(record) for record in entries]
    assert found in (expected[:complete], expected[: complete + 1])


@given(records(), st.data())
@settings(max_examples=100, deadline=None)
def test_after_any_truncation_the_session_goes_on(
    entries: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = lines(header()) + b"".join(json.dumps(record).encode() + b"\n" for record in entries)
    cut = data.draw(st.integers(len(lines(header())) - 1, len(whole)), label="cut")
    storage = store(whole[:cut])
    with SessionManager.open(PATH, storage=storage) as session:
        known = [found.id for found in session.get_entries()]
        made = [session.append_message(user("on")), session.append_message(assistant("and on"))]
    assert storage.read(PATH).startswith(whole[:cut])
    again = SessionManager.open(PATH, storage=storage)
    assert [found.id for found in again.get_entries()] == known + made
    assert [found.id for found in again.get_branch()][-2:] == made


@given(records(), st.data())
@settings(max_examples=120, deadline=None)
def test_one_damaged_byte_costs_at_most_the_lines_it_touches(
    entries: list[dict[str, Any]], data: st.DataObject
) -> None:
    body = [json.dumps(record).encode() + b"\n" for record in entries]
    whole = lines(header()) + b"".join(body)
    at = data.draw(st.integers(len(lines(header())), len(whole)), label="at")
    byte = data.draw(st.integers(0, 255), label="byte")
    damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
    found = load(damaged)
    assert found is not None
    start = len(lines(header()))
    for record, line in zip(entries, body, strict=True):
        if not start - 1 <= at < start + len(line):
            assert _without_place(parsed(record)) in map(_without_place, found)
        start += len(line)


@given(st.binary(max_size=300), records())
@settings(max_examples=120, deadline=None)
def test_whatever_is_opened_nothing_of_it_is_lost(
    junk: bytes, entries: list[dict[str, Any]]
) -> None:
    data = junk + b"".join(json.dumps(record).encode() + b"\n" for record in entries)
    storage = store(data)
    try:
        session = SessionManager.open(PATH, storage=storage)
    except NotASessionError:  # untouched: there was nothing of ours in it
        assert not entries
        assert storage.read(PATH) == data
        assert [f"/s/{name}" for name in storage.list_names("/s")] == [PATH]
        return
    with session:
        made = session.append_message(assistant("on"))
    kept = [storage.read(f"/s/{name}") for name in storage.list_names("/s")]
    assert any(content.startswith(data) for content in kept)
    again = SessionManager.open(PATH, storage=storage)
    assert again.leaf_id == made
    assert shape(again) == shape(session)


@given(records(unsound=True), st.lists(st.integers(0, 10), max_size=3), st.data())
@settings(max_examples=120, deadline=None)
def test_any_tree_that_a_file_brings_can_be_worked_on_and_saved(
    entries: list[dict[str, Any]], bad: list[int], data: st.DataObject
) -> None:
    body = [dump(parsed(record)) + b"\n" for record in entries]
    for at in bad:
        body.insert(min(at, len(body)), b"garbage\n")
    storage = store(lines(header()) + b"".join(body))
    session = SessionManager.open(PATH, storage=storage)
    assert len(session.get_entries()) == len(entries)
    assert len({found.id for found in session.get_entries()}) == len(entries)
    count, stack = 0, session.get_tree()
    while stack:
        node = stack.pop()
        count += 1
        stack += node.children
    assert count == len(entries)
    session.append_message(user("on"))
    known = shape(session)
    reopened = SessionManager.open(PATH, storage=storage)
    assert shape(reopened) == known
    session.rewrite_entries()
    sound = SessionManager.open(PATH, storage=storage)
    assert [found_id for found_id, _ in shape(sound)] == [found_id for found_id, _ in known]
    assert not [warning for warning in sound.warnings if warning.line is not None]
    assert [found.data for found in sound.get_branch()] == [
        found.data for found in session.get_branch()
    ]


@given(records(unsound=True), st.lists(st.integers(0, 10), max_size=2), st.data())
@settings(max_examples=120, deadline=None)
def test_what_is_merged_is_what_a_fresh_opening_reads(
    entries: list[dict[str, Any]], bad: list[int], data: st.DataObject
) -> None:
    body = [dump(parsed(record)) + b"\n" for record in _without_forward_parents(entries)]
    for at in bad:
        body.insert(min(at, len(body)), b"garbage\n")
    split = data.draw(st.integers(0, len(body)), label="split")
    storage = store(lines(header()) + b"".join(body[:split]))
    session = SessionManager.open(PATH, storage=storage)
    writer = storage.open_writer(PATH)
    for line in body[split:]:
        writer.write_line(line)
        if data.draw(st.booleans()):
            session.refresh()
    session.refresh()
    fresh = SessionManager.open(PATH, storage=storage)
    assert shape(session) == shape(fresh)
    assert [warning.line for warning in session.warnings if warning.line] == [
        warning.line for warning in fresh.warnings if warning.line
    ]


def _without_forward_parents(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A parent that is not there yet is missing for the one reader and known to the other."""
    ids = [record["id"] for record in entries]
    return [
        {**record, "parentId": f"never-{record['parentId']}"}
        if record["parentId"] in ids[at:] and record["parentId"] not in ids[:at]
        else record
        for at, record in enumerate(entries)
    ]
