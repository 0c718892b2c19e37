"""Whatever happens to session files, the catalogue's answer equals a full scan's."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.samples import assistant, dump, entry, header, message, slot, user

from sessiontree.discovery import catalogue
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.listing import SessionList, list_sessions

NAMES = st.sampled_from(["a.jsonl", "b.jsonl", "c.jsonl"])
LINES = st.sampled_from(
    [
        dump(message("b0000001", "a0000001", user("more"))) + b"\n",
        dump(message("b0000002", "a0000002", assistant("said " * 2_000))) + b"\n",
        dump(entry("session_info", "b0000003", "b0000002", name="Name")) + b"\n",
        dump(entry("custom", "b0000004", "a0000001", customType="sessiontree.leaf")) + b"\n",
        dump(entry("compaction", "b0000005", "b0000001", summary="s", shortSummary="t")) + b"\n",
        b'{"type":"message","id":"torn',
        b"junk\n",
        b"\n",
    ]
)


def beginning(title: str, with_slot: bool) -> bytes:
    lines = [
        dump(header(title=title)) + b"\n",
        dump(message("a0000001", None, user("first"))) + b"\n",
        dump(message("a0000002", "a0000001", assistant("answer " * 3_000))) + b"\n",
    ]
    return (slot(title) if with_slot else b"") + b"".join(lines)


class CatalogueMachine(RuleBasedStateMachine):
    """Does to files what agents, editors and users do, and compares after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="sessiontree-catalogue-"))
        self.folder = self.root / "sessions"
        self.folder.mkdir()
        # small files take the road of large ones here, and no clock is trusted for a whole tick
        self.patches: list[Any] = [
            mock.patch.dict(os.environ, {"SESSIONTREE_CACHE_DIR": str(self.root / "cache")}),
            mock.patch.object(freshness, "SMALLEST_GROWN_BYTES", 64),
        ]
        for patch in self.patches:
            patch.start()
        catalogue.forget_process_memory()

    def teardown(self) -> None:
        catalogue.forget_process_memory()
        for patch in self.patches:
            patch.stop()
        shutil.rmtree(self.root)

    def file(self, name: str) -> Path:
        return self.folder / name

    @rule(name=NAMES, title=st.sampled_from(["One", "Two"]), with_slot=st.booleans())
    def create(self, name: str, title: str, with_slot: bool) -> None:
        self.file(name).write_bytes(beginning(title, with_slot))

    @rule(name=NAMES, lines=st.lists(LINES, min_size=1, max_size=3))
    def append(self, name: str, lines: list[bytes]) -> None:
        if self.file(name).exists():
            with self.file(name).open("ab") as stream:
                stream.write(b"".join(lines))

    @rule(name=NAMES, keeps_mtime=st.booleans(), goes_on=st.booleans(), at=st.integers(0, 5))
    def edit_in_place(self, name: str, keeps_mtime: bool, goes_on: bool, at: int) -> None:
        """Change bytes without changing the size, perhaps with the old mtime, perhaps appending."""
        if not self.file(name).exists():
            return
        before = self.file(name).stat()
        edits = [
            (b"First", b"first"),
            (b"first", b"First"),
            (b"One", b"Uno"),
            (b"Uno", b"One"),
            (b'"stop"', b'"xxxx"'),
            (b"}\n", b"]\n"),
        ]
        data = self.file(name).read_bytes().replace(*edits[at], 1)
        with self.file(name).open("r+b") as stream:
            stream.write(data)
            if goes_on:
                stream.write(dump(message("c0000001", "a0000002", user("on"))) + b"\n")
        if keeps_mtime:
            os.utime(self.file(name), ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(name=NAMES)
    def rewrite(self, name: str) -> None:
        """As a migration does: a new file takes the name."""
        if self.file(name).exists():
            lines = self.file(name).read_bytes().splitlines(keepends=True)
            temp = self.root / "temp"
            temp.write_bytes(b"".join([*lines[:2], *lines[3:]]))
            os.replace(temp, self.file(name))

    @rule(name=NAMES, size=st.integers(0, 30_000))
    def truncate(self, name: str, size: int) -> None:
        if self.file(name).exists():
            os.truncate(self.file(name), min(size, self.file(name).stat().st_size))

    @rule(name=NAMES, other=NAMES)
    def rename(self, name: str, other: str) -> None:
        if self.file(name).exists():
            os.replace(self.file(name), self.file(other))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.file(name).unlink(missing_ok=True)

    @rule(name=NAMES, when=st.sampled_from([1_700_000_000, 1_790_000_000]))
    def touch(self, name: str, when: int) -> None:
        if self.file(name).exists():
            os.utime(self.file(name), (when, when))

    @rule()
    def let_the_clock_tick(self) -> None:
        """What is read from now on is trusted: its file is older than a tick."""
        time.sleep(0.025)
        list_sessions("/x", self.folder)

    @rule()
    def be_another_process(self) -> None:
        catalogue.forget_process_memory()

    @rule()
    def lose_the_catalogue(self) -> None:
        shutil.rmtree(self.root / "cache", ignore_errors=True)

    @invariant()
    def the_answer_is_a_full_scans(self) -> None:
        answer = list_sessions("/x", self.folder)
        with (
            mock.patch.dict(os.environ, {"SESSIONTREE_CACHE_DIR": "/dev/null/none"}),
            mock.patch.object(catalogue, "_memory", {}),
        ):
            scanned = list_sessions("/x", self.folder)
        assert describe(answer) == describe(scanned)


def describe(found: SessionList) -> object:
    infos = [(info, info.all_messages_text) for info in found]
    return infos, found.empty_count, found.unreadable


CatalogueMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None
)
TestTheCatalogue = CatalogueMachine.TestCase
