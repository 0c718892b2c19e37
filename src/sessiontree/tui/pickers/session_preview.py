"""The last messages of a session, for a look before it is resumed. Never writes.

Reads them from the session's file, makes them safe and wraps them to a box.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from sessiontree.core.tree_entries import Digester, TreeEntry
from sessiontree.errors import SessionTreeError
from sessiontree.export.view import read_view
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette

_LAST = 40
_SHOWN_KINDS = frozenset(("user", "assistant", "tool", "command", "note", "compaction", "summary"))
_NAMES = {"assistant": "agent", "branch summary": "summary"}
_NAME_WIDTH = 9
_LINES_EACH = 6


@dataclass(frozen=True, slots=True)
class Preview:
    """The end of a conversation, or the ``problem`` that prevented reading it."""

    entries: tuple[TreeEntry, ...] = ()
    branches: int = 1
    problem: str | None = None


def load_preview(ref: Ref, store: SessionStore) -> Preview:
    """Read the last messages of a session file; a failure becomes the preview's ``problem``."""
    try:
        with read_view(store, ref) as view:
            parents = {entry.parent_id for entry in view.tree.entries}
            branches = sum(
                1 for e in view.tree.entries if e.id not in parents and e.type == "message"
            )
            digests = list(Digester().digest_all(view.path[-_LAST:]))
    except (SessionTreeError, OSError) as error:
        return Preview(problem=str(error))
    shown = tuple(entry for entry in digests if entry.kind in _SHOWN_KINDS)
    return Preview(shown, max(branches, 1))


def draw_preview(preview: Preview, palette: Palette, width: int, height: int) -> list[Text]:
    """Draw the last entries that fit the box, each cut to a few safe lines."""
    if preview.problem is not None:
        problem = safe_text.fit(safe_text.one_line(preview.problem), width)
        return [Text(problem, palette.of("error"))]
    lines: list[Text] = []
    for entry in reversed(preview.entries):
        made = _draw_entry(entry, palette, width)
        if len(lines) + len(made) > height:
            if not lines and height > 1:
                lines = [*made[: height - 1], Text(" " * (_NAME_WIDTH + 1) + "…", palette.text)]
            break
        lines = made + lines
    return lines


def _draw_entry(entry: TreeEntry, palette: Palette, width: int) -> list[Text]:
    name = safe_text.one_line(_NAMES.get(entry.name, entry.name))
    colour = "accent" if entry.kind == "user" else "error" if entry.is_failed else "muted"
    style = palette.text if entry.kind in ("user", "assistant") else palette.dim
    room = max(1, width - _NAME_WIDTH - 1)
    body = safe_text.wrap(safe_text.one_line(entry.text.strip())[: room * _LINES_EACH * 2], room)
    if len(body) > _LINES_EACH:
        body = [*body[: _LINES_EACH - 1], "…"]
    lines = []
    for number, piece in enumerate(body or [""]):
        head = safe_text.fill(name if number == 0 else "", _NAME_WIDTH) + " "
        lines.append(Text.assemble((head, palette.of(colour)), (piece, style)))
    return lines
