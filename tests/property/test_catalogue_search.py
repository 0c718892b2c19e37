"""Whatever happens to session files, the search index finds what reading them finds."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.samples import TIME_MS, assistant, dump, entry, header, message, result, user

from sessiontree.discovery import catalogue
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.search import SearchResults, index, search, segments

NAMES = st.sampled_from(["a.jsonl", "b.jsonl", "c.jsonl"])
TEXTS = st.sampled_from(["apple", "pear", "apple pear", "Äpple", "日本語", "apple tree 🚀", ""])
QUERIES = [
    "apple",
    "pear",
    "apple pear",
    '"apple pear"',
    "app*",
    "apple -pear",
    "本語",
    "tree",
    "äpple",
]


def said(text: str, role: str, number: int) -> bytes:
    time = {"timestamp": TIME_MS + number * 1000}
    content = {
        "user": lambda: user(text, **time),
        "assistant": lambda: assistant(text, **time),
        "tool": lambda: result("t1", text, **time),
    }[role]()
    return dump(message(f"{number:08x}", None, content)) + b"\n"


def named(name: str) -> bytes:
    return dump(entry("session_info", "bbbbbbbb", None, name=name)) + b"\n"


LINES = st.one_of(
    st.builds(said, TEXTS, st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 1000)),
    st.builds(named, TEXTS),
)


class SearchMachine(RuleBasedStateMachine):
    """Does to files what agents and users do, and compares both roads after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="sessiontree-search-"))
        self.folder = self.root / "agent" / "sessions" / "--x--"
        self.folder.mkdir(parents=True)
        # Small files take the road of large ones. The machine itself never changes bytes in place,
        # so no tick of the clock has to be waited for.
        self.patches: list[Any] = [
            mock.patch.dict(
                os.environ,
                {
                    "SESSIONTREE_CACHE_DIR": str(self.root / "cache"),
                    "SESSIONTREE_AGENT_DIR": str(self.root / "agent"),
                    "HOME": str(self.root),
                },
            ),
            mock.patch.object(freshness, "SMALLEST_GROWN_BYTES", 64),
            mock.patch.object(freshness, "_TICK_NS", -(10**12)),
            mock.patch.object(segments, "_SEGMENT_CHARS", 8),
            mock.patch.object(index, "MOST_SEGMENTS", 4),
        ]
        for patch in self.patches:
            patch.start()
        catalogue.forget_process_memory()

    def teardown(self) -> None:
        catalogue.forget_process_memory()
        for patch in self.patches:
            patch.stop()
        shutil.rmtree(self.root)

    @rule(name=NAMES, lines=st.lists(LINES, max_size=4), title=st.none() | TEXTS)
    def write(self, name: str, lines: list[bytes], title: str | None) -> None:
        temp = self.root / "temp"
        temp.write_bytes(dump(header(id=name, title=title)) + b"\n" + b"".join(lines))
        os.replace(temp, self.folder / name)

    @rule(name=NAMES, lines=st.lists(LINES, min_size=1, max_size=3), is_torn=st.booleans())
    def append(self, name: str, lines: list[bytes], is_torn: bool) -> None:
        if (self.folder / name).exists():
            with (self.folder / name).open("ab") as stream:
                stream.write(b"".join(lines)[: -5 if is_torn else None])

    @rule(name=NAMES, other=NAMES)
    def rename(self, name: str, other: str) -> None:
        if (self.folder / name).exists():
            os.replace(self.folder / name, self.folder / other)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    @rule()
    def lose_the_index(self) -> None:
        shutil.rmtree(self.root / "cache", ignore_errors=True)

    @rule(query=st.sampled_from(QUERIES), role=st.sampled_from(["user", "assistant"]))
    def one_role_agrees(self, query: str, role: str) -> None:
        self.agree(query, role=role)

    @rule(query=st.sampled_from(QUERIES), seconds=st.integers(0, 1000))
    def a_time_agrees(self, query: str, seconds: int) -> None:
        self.agree(query, since=TIME_MS / 1000 + seconds)

    @invariant()
    def both_roads_agree(self) -> None:
        for query in QUERIES:
            self.agree(query)

    def agree(self, query: str, **keywords: Any) -> None:
        indexed = search(query, limit=None, max_indexing_s=None, **keywords)
        assert not indexed.is_indexing
        with mock.patch.dict(os.environ, {"SESSIONTREE_CACHE_DIR": "/dev/null/none"}):
            scanned = search(query, limit=None, **keywords)
        assert describe(indexed) == describe(scanned), query
        # two files of one session, as after a rename, count once
        sessions = [hit for hit in indexed if hit.session.copy_of is None]
        assert indexed.total == scanned.total == len(sessions)


def describe(results: SearchResults) -> dict[str, object]:
    return {hit.path: (hit.entry_id, hit.role, hit.snippet, hit.marks, hit.time) for hit in results}


SearchMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestSearching = SearchMachine.TestCase
