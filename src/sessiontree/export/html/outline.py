"""The outline for a page's script: each entry's place in the tree and a line of text.

The script draws the tree from these rows, finds the path of any branch and knows which articles to
show, without the articles themselves. Rows are arrays, because a long session has 50,000 of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sessiontree.core.tree import SessionTree
from sessiontree.core.tree_entries import Kind, TreeEntry
from sessiontree.export.html.markup import anchor, clean
from sessiontree.model.entries import Entry

KINDS: tuple[Kind, ...] = (
    "user", "assistant", "calls", "tool", "command", "note", "compaction", "summary", "state",
)  # fmt: skip
TEXT_CHARACTERS = 140
HAS_ARTICLE, IS_FAILED = 1, 2
# Marks of Markdown that only say how a text looks; a single line leaves them out.
_MARKDOWN = re.compile(r"^[ \t]*#{1,6}[ \t]+|\*\*(?=\S)|(?<=\S)\*\*|`", re.MULTILINE)

Row = list[Any]
"""Anchor, parent's number (-1 for a root), kind, name, text, flags, height, label, block."""


class Outline:
    """The rows of a page, in the order of the session's entries."""

    def __init__(self, tree: SessionTree) -> None:
        self._tree = tree
        self._numbers: dict[str, int] = {}
        self._labels = tree.labels()

    def number(self, entry: Entry) -> int:
        """The entry's number: its place in the session."""
        return self._numbers.setdefault(entry.id, len(self._numbers))

    def label(self, entry: Entry) -> str | None:
        """The label that the entry bears."""
        found = self._labels.get(entry.id)
        return found[0] if found is not None else None

    def row(
        self,
        entry: Entry,
        shown_id: str,
        digest: TreeEntry,
        height: int,
        label: str | None,
        block: int = 0,
    ) -> Row:
        """An entry's row; ``shown_id`` is its id as the page may have it."""
        flags = (HAS_ARTICLE if height else 0) | (IS_FAILED if digest.is_failed else 0)
        return [
            anchor(shown_id, self.number(entry)),
            self.parent(entry),
            KINDS.index(digest.kind),
            _line(_name_of(digest), 40),
            _line(_MARKDOWN.sub("", digest.text[: TEXT_CHARACTERS * 4]), TEXT_CHARACTERS),
            flags,
            height,
            _line(label, 80) if label else "",
            block,
        ]

    def parent(self, entry: Entry) -> int:
        """The number of the entry's parent; -1 for a root."""
        if entry.parent_id is None or entry.parent_id not in self._tree.by_id:
            return -1
        return self._numbers.get(entry.parent_id, -1)


def number_all(outline: Outline, entries: Sequence[Entry]) -> None:
    """Give every entry its number first: a parent may stand behind its child."""
    for entry in entries:
        outline.number(entry)


def _name_of(digest: TreeEntry) -> str:
    is_answer = digest.kind in ("assistant", "calls")
    return f"agent {digest.agent}".rstrip() if is_answer else digest.name


def _line(text: str, limit: int) -> str:
    line = " ".join(clean(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def facts_of(rows: Sequence[Row], leaf: int, **more: Any) -> Mapping[str, Any]:
    """The facts that the page's script reads."""
    return {"rows": rows, "leaf": leaf, "kinds": KINDS, **more}
