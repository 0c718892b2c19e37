"""A ``SessionManager`` beside a model of it, driven by Hypothesis through everything it can do.

The model is a plain dictionary of entries and a leaf. Another manager on the same storage plays the
other process, and the storage fails now and then.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.samples import user
from tests.torture.operations import answer, picture

from sessiontree import MemorySessionStorage, PersistenceError, SessionManager, convert_to_llm
from sessiontree.model.entries import LEAF_MARKER
from sessiontree.profiles import Profile
from sessiontree.testing import FaultyStorage

T = TypeVar("T")
TEXTS = st.text(st.characters(), max_size=20)
WRITES = ["write_line", "lock", "write_atomic", "open_writer", "fsync", "open_reader", "read_at"]


PICKS = st.integers(0, 999)


def choose(things: Iterable[T], pick: int) -> T:
    """One of them, by number: ids are random, so they can not be drawn themselves."""
    listed = list(things)
    return listed[pick % len(listed)]


@dataclass(frozen=True, slots=True)
class Node:
    """An entry of the model: its parent, and what it adds to a context (role and text)."""

    parent: str | None
    said: tuple[str, str] | None = None
    first_kept: str | None = None


@dataclass
class Book:
    """What one session file should hold."""

    nodes: dict[str, Node] = field(default_factory=dict)
    leaf: str | None = None
    name: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    cwd: str = "/project"

    def copy(self) -> Book:
        return replace(self, nodes=dict(self.nodes), labels=dict(self.labels))

    @property
    def is_spoken_in(self) -> bool:
        """Whether there is anything that is worth a file."""
        roles = {node.said[0] for node in self.nodes.values() if node.said is not None}
        return bool(roles & {"user", "assistant", "custom"})

    def path(self, leaf: str | None) -> list[str]:
        found = []
        while leaf is not None:
            found.append(leaf)
            leaf = self.nodes[leaf].parent
        return found[::-1]

    def context(self) -> list[tuple[str, str]]:
        path = self.path(self.leaf)
        nodes = [self.nodes[entry_id] for entry_id in path]
        at = max((n for n, node in enumerate(nodes) if node.first_kept is not None), default=None)
        if at is None:
            return [node.said for node in nodes if node.said is not None]
        begin = path.index(str(nodes[at].first_kept))
        shown = [nodes[at], *nodes[begin:at], *nodes[at + 1 :]]
        return [
            node.said
            for number, node in enumerate(shown)
            if node.said is not None and (number == 0 or node.first_kept is None)
        ]


def said(message: dict[str, Any]) -> tuple[str, str]:
    content = message.get("content", message.get("summary"))
    if isinstance(content, list):
        content = "".join(
            str(block.get("text", block.get("data", "")))
            for block in content
            if block["type"] in ("text", "image")
        )
    return str(message["role"]), str(content)


class SessionMachine(RuleBasedStateMachine):
    """One manager under test, one that plays another process, one model."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = FaultyStorage(MemorySessionStorage())
        self.profile = Profile("sessiontree", "/home/agent", "omp")
        self.books: dict[str, Book] = {}
        self.session = SessionManager.create("/project", profile=self.profile, storage=self.storage)
        self._arrive(Book())

    @property
    def file(self) -> str:
        return str(self.session.session_file)

    @property
    def book(self) -> Book:
        return self.books[self.file]

    def _arrive(self, book: Book) -> None:
        self.books[self.file] = book

    def _note(self, entry_id: str, node: Node) -> None:
        assert entry_id not in self.book.nodes, "an id was given twice"
        self.book.nodes[entry_id] = node
        self.book.leaf = entry_id

    def _open(self, path: str) -> SessionManager:
        return SessionManager.open(path, profile=self.profile, storage=self.storage)

    # -- saying something ------------------------------------------------------------------

    @rule(kind=st.sampled_from([user, answer]), text=TEXTS)
    def say(self, kind: Any, text: str) -> None:
        leaf = self.book.leaf
        message = kind(text)
        self._note(self.session.append_message(message), Node(leaf, said(message)))

    @rule(seed=st.integers(0, 2))
    def show_a_picture(self, seed: int) -> None:
        leaf = self.book.leaf
        message = picture(seed)
        self._note(self.session.append_message(message), Node(leaf, said(message)))

    @rule()
    def say_at_length(self) -> None:
        leaf = self.book.leaf
        text = "long 漢 " * 90_000
        self._note(self.session.append_message(user(text)), Node(leaf, ("user", text)))

    @rule(text=TEXTS, display=st.booleans())
    def say_as_a_program(self, text: str, display: bool) -> None:
        leaf = self.book.leaf
        made = self.session.append_custom_message_entry("x", text, display)
        self._note(made, Node(leaf, ("custom", text)))

    @rule(level=st.sampled_from(["off", "low", "high"]), mode=TEXTS)
    def change_state(self, level: str, mode: str) -> None:
        changes: list[Callable[[], str]] = [
            lambda: self.session.append_thinking_level_change(level),
            lambda: self.session.append_mode_change(mode, {"a": [1]}),
            lambda: self.session.append_custom_entry("x", {"n": 1}),
            lambda: self.session.append_model_change("p/m"),
        ]
        for change in changes:
            leaf = self.book.leaf
            self._note(change(), Node(leaf))

    @precondition(lambda self: self.book.leaf is not None)
    @rule(pick=PICKS, text=st.text(st.characters(), min_size=1, max_size=9))
    def compact(self, pick: int, text: str) -> None:
        leaf = self.book.leaf
        kept = choose(self.book.path(leaf), pick)
        made = self.session.append_compaction(text, kept, 10)
        self._note(made, Node(leaf, ("compactionSummary", text), first_kept=kept))

    # -- going elsewhere in the tree -------------------------------------------------------

    @precondition(lambda self: self.book.nodes)
    @rule(pick=PICKS)
    def branch(self, pick: int) -> None:
        target = choose(self.book.nodes, pick)
        self.session.branch(target)
        self.book.leaf = target

    @rule()
    def begin_again(self) -> None:
        self.session.reset_leaf()
        self.book.leaf = None

    @precondition(lambda self: self.book.nodes)
    @rule(pick=PICKS, text=st.text(st.characters(), min_size=1, max_size=9))
    def branch_with_summary(self, pick: int, text: str) -> None:
        target = choose([None, *self.book.nodes], pick)
        made = self.session.branch_with_summary(target, text)
        self._note(made, Node(target, ("branchSummary", text)))

    @precondition(lambda self: self.book.nodes)
    @rule(pick=PICKS, label=st.text("ab", max_size=2))
    def label(self, pick: int, label: str) -> None:
        target = choose(self.book.nodes, pick)
        leaf = self.book.leaf
        self._note(self.session.append_label_change(target, label), Node(leaf))
        self.book.labels.pop(target, None)
        if label:
            self.book.labels[target] = label

    # -- the whole file --------------------------------------------------------------------

    @rule(name=st.text("ab \x1b\n", max_size=5))
    def rename(self, name: str) -> None:
        self.session.set_session_name(name)
        self.book.name = " ".join(name.replace("\x1b", " ").split()) or None

    @rule()
    def rewrite(self) -> None:
        self.session.rewrite_entries()

    @rule()
    def flush(self) -> None:
        self.session.flush()

    @rule()
    def close_and_open(self) -> None:
        self._leave()
        if self.book.is_spoken_in:
            self.session = self._open(self.file)
        else:
            cwd = self.book.cwd
            self.session.new_session()
            self._arrive(Book(cwd=cwd))

    def _leave(self) -> None:
        self.session.close()
        self._adopt_marker(self.session, self.book)

    def _adopt_marker(self, session: SessionManager, book: Book) -> None:
        """Leaving may note where the leaf is."""
        for entry in session.get_entries():
            if entry.id not in book.nodes and entry.data.get("customType") == LEAF_MARKER:
                assert entry.parent_id == book.leaf
                book.nodes[entry.id] = Node(entry.parent_id)
                book.leaf = entry.id

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def fork(self) -> None:
        left = self.book
        copy = left.copy()
        session = self.session
        old = self.file
        forked = session.fork()
        assert forked == (old, self.file)
        self._adopt_marker(session, copy)
        self.books[old] = self._book_on_disk(old, left)
        self._arrive(copy)

    @precondition(lambda self: self.book.nodes)
    @rule(pick=PICKS)
    def take_a_branch_out(self, pick: int) -> None:
        target = choose(self.book.nodes, pick)
        context = replace(self.book, leaf=target).context()
        old, left = self.file, self.book
        self.session.create_branched_session(target)
        self.books[old] = self._book_on_disk(old, left)
        made = self._read_book(self.session, left.cwd)
        made.name = left.name
        assert made.context() == context
        self._arrive(made)

    @rule(folder=st.sampled_from(["/project", "/second", "/third"]))
    def move(self, folder: str) -> None:
        book = self.books.pop(self.file)
        self.session.move_to(folder)
        book.cwd = folder
        self._arrive(book)

    @precondition(lambda self: len(self.books) > 1)
    @rule(pick=PICKS)
    def switch(self, pick: int) -> None:
        known = [path for path in self.books if self._is_there(path) and path != self.file]
        if not known:
            return
        target = choose(known, pick)
        old, left = self.file, self.book
        self.session.set_session_file(target)
        self.books[old] = self._book_on_disk(old, left)

    # -- others, and bad days --------------------------------------------------------------

    @precondition(lambda self: self.is_on_disk)
    @rule(text=TEXTS, also_rewrites=st.booleans())
    def another_process_writes(self, text: str, also_rewrites: bool) -> None:
        other = self._open(self.file)
        if other.get_entries():
            other.branch(other.get_entries()[-1].id)
        message = user(text)
        made = other.append_message(message)
        entry = other.get_entry(made)
        assert entry is not None
        if also_rewrites:
            other.rewrite_entries()
        other.close()
        self.session.refresh()
        self.book.nodes[made] = Node(entry.parent_id, said(message))
        # who only looks leaves no note of where he stood; from here on we do more than look
        if self.book.leaf is None:
            self.session.reset_leaf()
        else:
            self.session.branch(self.book.leaf)

    @precondition(lambda self: self.is_on_disk)
    @rule(torn=st.sampled_from([b'{"type":"mess', b"\x00\x00\x00", b"garbage\n"]))
    def a_crash_leaves_half_a_line(self, torn: bytes) -> None:
        writer = self.storage.inside.open_writer(self._written_file())
        writer.write_line(torn)
        writer.close()

    @rule(
        operation=st.sampled_from(WRITES),
        code=st.sampled_from([errno.ENOSPC, errno.EIO, errno.EROFS]),
        at=st.integers(1, 3),
        text=TEXTS,
    )
    def the_disk_fails(self, operation: str, code: int, at: int, text: str) -> None:
        self.storage.fail(operation, code, at=at)
        leaf = self.book.leaf
        message = answer(text)
        try:
            made = self.session.append_message(message)
            self.session.flush()
        except PersistenceError:
            self.storage.heal()
            self.session.recover()
            known = [entry.id for entry in self.session.get_entries()]
            new = [entry_id for entry_id in known if entry_id not in self.book.nodes]
            for entry_id in new:
                self._note(entry_id, Node(leaf, said(message)))
        else:
            self.storage.heal()
            self._note(made, Node(leaf, said(message)))

    # -- what must hold --------------------------------------------------------------------

    @property
    def is_on_disk(self) -> bool:
        return self._is_there(self.file) and bool(self.book.nodes)

    def _is_there(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        inside = self.storage.inside
        return inside.exists(path) or inside.exists(f"{folder}/.{name}.draft")

    def _written_file(self) -> str:
        folder, _, name = self.file.rpartition("/")
        draft = f"{folder}/.{name}.draft"
        return draft if self.storage.inside.exists(draft) else self.file

    def _read_book(self, session: SessionManager, cwd: str) -> Book:
        """The model of a session that is taken at its word."""
        book = Book(cwd=cwd, name=session.session_name, leaf=session.leaf_id)
        for entry in session.get_entries():
            message = entry.data.get("message")
            spoken = said(message) if isinstance(message, dict) else None
            match entry.type:
                case "custom_message":
                    spoken = ("custom", entry.data["content"])
                case "branch_summary":
                    spoken = ("branchSummary", entry.data["summary"])
                case "compaction":
                    spoken = ("compactionSummary", entry.data["summary"])
                case "label":
                    book.labels[entry.data["targetId"]] = entry.data["label"]
            book.nodes[entry.id] = Node(entry.parent_id, spoken, entry.data.get("firstKeptEntryId"))
        return book

    def _book_on_disk(self, path: str, expected: Book) -> Book:
        """The model of a session just left: as it was, and perhaps with a note of its leaf."""
        if not self._is_there(path):
            assert not expected.is_spoken_in
            return expected
        other = self._open(path)
        self._adopt_marker(other, expected)
        assert sorted(entry.id for entry in other.get_entries()) == sorted(expected.nodes)
        return expected

    @invariant()
    def the_tree_is_what_was_done(self) -> None:
        session, book = self.session, self.book
        found = {entry.id: entry.parent_id for entry in session.get_entries()}
        assert found == {entry_id: node.parent for entry_id, node in book.nodes.items()}
        assert session.leaf_id == book.leaf
        assert [entry.id for entry in session.get_branch()] == book.path(book.leaf)
        assert (session.session_name, session.cwd) == (book.name, book.cwd)
        for entry_id in book.nodes:
            assert session.get_label(entry_id) == book.labels.get(entry_id)

    @invariant()
    def the_context_is_what_was_said(self) -> None:
        context = self.session.build_session_context()
        assert [said(message) for message in context.messages] == self.book.context()
        convert_to_llm(context.messages, repair=True)

    @invariant()
    def a_fresh_look_sees_the_same(self) -> None:
        if not self.is_on_disk:
            return
        other = self._open(self.file)
        assert {entry.id for entry in other.get_entries()} == set(self.book.nodes)
        assert other.session_name == self.book.name
        if self.book.leaf is not None:
            other.branch(self.book.leaf)
            messages = other.build_session_context().messages
            assert [said(message) for message in messages] == self.book.context()
