"""Summaries are read by frames and in pieces; they must say what the loader would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st
from tests.samples import (
    Wire,
    assistant,
    calling,
    dump,
    entry,
    header,
    message,
    result,
    slot,
    user,
)

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.summary import Summary, read_summary
from sessiontree.errors import NotASessionError
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.stores.files.reader import load_document

SECOND_HEADER = dump(header(id="second")) + b"\n"
JUNK = [
    b"junk\n",
    b"null\n",
    b"\n",
    b"  \r\n",
    b"\x00\x00\x00\n",
    b'{"type":"message","id":"\n',
    b'{"type":"message","id":"eeeeeeee",}\n',
    b"[1,2]\n",
    b"}}\n",
    SECOND_HEADER,
    slot("late"),
]


@st.composite
def records(draw: st.DrawFn) -> list[bytes]:
    """The lines of a session: mostly a chain, with branches, odd entries and damage in between."""
    made: list[bytes] = []
    ids: list[str | None] = [None]
    torn: str | None = None
    for number in range(draw(st.integers(0, 12))):
        if draw(st.integers(0, 9)) == 0:
            made.append(draw(st.sampled_from(JUNK)))
            continue
        entry_id = f"{number:08x}"
        parent = draw(st.sampled_from(ids[-3:])) if draw(st.integers(0, 4)) == 0 else ids[-1]
        line = dump(draw(entries(entry_id, parent))) + b"\n"
        if torn is not None:
            ids.remove(torn)  # only the one who wrote the torn line ever knew of it
            torn = None
        if draw(st.integers(0, 14)) == 0:
            line = line[: draw(st.integers(1, len(line) - 1))]
            torn = entry_id
        made.append(line)
        ids.append(entry_id)
    return made


def entries(entry_id: str, parent: str | None) -> st.SearchStrategy[Wire]:
    text = st.sampled_from(["", "hello", 'say "hi" {"type":"message","id":"', "é\n日本", "x" * 300])
    contents = st.one_of(
        st.builds(user, text),
        st.builds(assistant, text, stopReason=st.sampled_from(["stop", "error", "aborted", None])),
        st.just(calling("t1")),
        st.builds(result, st.just("t1"), text, details=st.just({"parentId": 1})),
        st.just({"role": "bashExecution", "command": "ls", "output": "x"}),
        st.none(),
    )
    return st.one_of(
        contents.map(lambda content: entry("message", entry_id, parent, message=content)),
        st.just(entry("custom", entry_id, parent, customType="x", data={"timestamp": 1})),
        st.just(entry("session_info", entry_id, parent, name="name")),
        st.just(
            entry("compaction", entry_id, parent, summary="s", shortSummary="short", tokensBefore=1)
        ),
        st.just(entry("label", entry_id, parent, targetId="x")),
    )


HEADS = st.sampled_from(
    [
        dump(header()) + b"\n",
        b"\xef\xbb\xbf" + dump(header(title="T")) + b"\r\n",
        slot("Slot") + dump(header(title="T")) + b"\n",
        b"\n" + dump(header()) + b"\n",
        b"torn{\n" + dump(header()) + b"\n",
    ]
)


def summarise(data: bytes, known: Summary | None = None) -> Summary:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic("/s/x.jsonl", data)
    return read_summary(storage.open_reader("/s/x.jsonl"), len(data), known)


@contextmanager
def pieces_of(size: int, long_line: int) -> Iterator[None]:
    with (
        mock.patch.object(fast_lines, "BLOCK_BYTES", size),
        mock.patch.object(fast_lines, "_LONG_LINE_BYTES", long_line),
    ):
        yield


@given(HEADS, records())
@example(dump(header()) + b"\n", [dump(message("0" * 8, None, user("x")))])
@example(dump(header()) + b"\n", [SECOND_HEADER])
def test_a_summary_counts_what_the_loader_loads(head: bytes, lines: list[bytes]) -> None:
    data = head + b"".join(lines)
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic("/s/x.jsonl", data)
    summary = summarise(data)
    try:
        document = load_document(storage, "/s/x.jsonl")
    except NotASessionError:  # headers and no entry: records of a dataset
        assert SECOND_HEADER in lines
        assert summary.message_count == 0
        return
    assert document is not None
    loaded = [item for item in document.tree.entries if item.type == "message"]
    assert summary.message_count == len(loaded)
    assert summary.session_id == document.header["id"]
    assert summary.header_title == (document.title or "")
    assert summary.skipped_count == len(document.skipped)
    assert (summary.status == "damaged") == bool(document.skipped)
    assert (summary.status == "empty") == (not loaded and not document.skipped)
    prompts = [
        item.data["message"]["content"]
        for item in loaded
        if item.data["message"] and item.data["message"]["role"] == "user"
    ]
    assert summary.first_message == next((text for text in prompts if text), None)


@given(records())
def test_a_headless_file_is_one_that_the_loader_refuses(lines: list[bytes]) -> None:
    data = b"".join(lines)
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic("/s/x.jsonl", data)
    summary = summarise(data)
    try:
        document = load_document(storage, "/s/x.jsonl")
    except NotASessionError:
        assert summary.is_headless
        assert summary.status == "damaged"
    else:
        assert document is None or document.header["id"] == summary.session_id


@given(HEADS, records(), st.integers(1, 2000), st.integers(1, 500))
def test_the_size_of_the_pieces_makes_no_difference(
    head: bytes, lines: list[bytes], size: int, long_line: int
) -> None:
    data = head + b"".join(lines)
    whole = summarise(data)
    with pieces_of(size, long_line):
        assert summarise(data) == whole


@given(HEADS, records(), st.data())
def test_reading_on_gives_what_reading_all_gives(
    head: bytes, lines: list[bytes], data: st.DataObject
) -> None:
    whole = head + b"".join(lines)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 0x0A]
    cut = data.draw(st.sampled_from(ends))
    known = summarise(whole[:cut])
    if known.can_go_on:
        assert summarise(whole, known) == summarise(whole)


@given(HEADS, records(), st.integers(1, 200))
def test_frames_see_what_a_parser_sees(head: bytes, lines: list[bytes], size: int) -> None:
    data = head + b"".join(lines)
    with mock.patch(
        "sessiontree.discovery.catalogue.summary._Scan._scan_frames", return_value=False
    ):
        parsed = summarise(data)
    with pieces_of(size, 1 << 20):
        assert summarise(data) == parsed


def test_random_bytes_are_survived(tmp_path: Path) -> None:
    dice = random.Random(7)
    good = dump(header()) + b"\n" + dump(message("00000000", None, user("x"))) + b"\n"
    for _ in range(300):
        data = bytearray(good * 3)
        for _ in range(dice.randrange(1, 8)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        summary = summarise(bytes(data))
        assert summary.end == len(data)
        assert 0 <= summary.message_count <= 6
