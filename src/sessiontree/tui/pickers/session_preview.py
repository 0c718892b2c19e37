"""The last messages of a session, for a look before it is resumed. Never writes.

Reads them where the session lies, whichever agent's it is, makes them safe and draws them for a
box: answers as Markdown, and the searched words marked. If what matches was said earlier, that
message comes first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from sessiontree.core.tree_entries import TEXT_LIMIT, Digester, TreeEntry
from sessiontree.errors import SessionTreeError
from sessiontree.export.view import SessionView, read_view
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.serving.sessions import read_foreign, read_foreign_end
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.markdown import draw_markdown

_LAST = 40
_END_BYTES = 1_000_000
"""Enough for the last messages. All of a session of 20 MB takes 70 MB of memory, and a second."""
_SHOWN_KINDS = frozenset(("user", "assistant", "tool", "command", "note", "compaction", "summary"))
_NAMES = {"assistant": "agent", "branch summary": "summary"}
_NAME_WIDTH = 9
_LINES_EACH = 6
_FOUND_LINES = 60
_BEFORE_MATCH = 200
"""Characters to show of a long message before what matches in it."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The end of a conversation, or the ``problem`` that prevented reading it.

    ``found`` is the latest message that has the searched words; ``later`` counts those after it.
    """

    entries: tuple[TreeEntry, ...] = ()
    branches: int = 1
    problem: str | None = None
    found: TreeEntry | None = None
    later: int = 0


def load_preview(
    ref: Ref, store: SessionStore, *, agent: str = "", words: Sequence[str] = ()
) -> Preview:
    """Read the last messages of a session; a failure becomes the preview's ``problem``.

    ``agent`` names the agent whose session it is; ``words`` are searched, in lower case.
    """
    try:
        if agent and agent not in PROFILE_NAMES:
            return _read_end(ref, agent, words) or _read(read_foreign(ref), words)
        with read_view(store, ref) as view:
            return _read(view, words)
    except (SessionTreeError, OSError) as error:
        return Preview(problem=str(error))


def _read_end(ref: Ref, agent: str, words: Sequence[str]) -> Preview | None:
    """Read the end of a large session, if that has what is to be shown."""
    view = read_foreign_end(ref, agent, _END_BYTES)
    if view is None or len(view.path) <= _LAST:
        return None
    preview = _read(view, words)
    said = preview.found.text.lower() if preview.found is not None else ""
    return preview if all(word in said for word in words) else None


def _read(view: SessionView, words: Sequence[str]) -> Preview:
    parents = {entry.parent_id for entry in view.tree.entries}
    branches = sum(1 for e in view.tree.entries if e.id not in parents and e.type == "message")
    digests = list(Digester().digest_all(view.path[-_LAST:]))
    shown = tuple(entry for entry in digests if entry.kind in _SHOWN_KINDS)
    preview = Preview(shown, max(branches, 1))
    return _with_match(preview, view, words) if words else preview


def _has(text: str, words: Sequence[str]) -> bool:
    folded = text.lower()
    return any(word in folded for word in words)


def _with_match(preview: Preview, view: SessionView, words: Sequence[str]) -> Preview:
    """Add the latest message with all of the words, else with any; on any branch."""
    path = {entry.id for entry in view.path}
    ordered = [*reversed(view.path), *(e for e in reversed(view.tree.entries) if e.id not in path)]
    some: tuple[int, Entry, str] | None = None
    for later, entry in enumerate(ordered):
        text = _said(entry)
        folded = text.lower()
        if not text or not _has(text, words):
            continue
        some = some or (later, entry, text)
        if all(word in folded for word in words):
            some = (later, entry, text)
            break
    if some is None:
        return preview
    later, entry, text = some
    digest = replace(Digester().digest(entry), text=_around(text, words))
    return replace(preview, found=digest, later=later if entry.id in path else 0)


def _said(entry: Entry) -> str:
    if entry.type != "message":
        return ""
    try:
        message = entry.decode().get("message")
    except (OSError, ValueError):
        return ""
    return text_of(message.get("content"), "\n") if isinstance(message, dict) else ""


def _around(text: str, words: Sequence[str]) -> str:
    """The piece of a long message that begins a little before the first match."""
    folded = text.lower()
    first = min((at for at in map(folded.find, words) if at >= 0), default=0)
    if first <= _BEFORE_MATCH:
        return text[:TEXT_LIMIT]
    start = text.rfind("\n", max(0, first - _BEFORE_MATCH), first) + 1
    start = start or max(0, first - _BEFORE_MATCH // 2)
    return "…" + text[start : start + TEXT_LIMIT]


# -- drawing -------------------------------------------------------------------------------------


def draw_preview(
    preview: Preview, palette: Palette, width: int, height: int, words: Sequence[str] = ()
) -> list[Text]:
    """Draw the last entries that fit the box; if none shows what matches, that comes first."""
    if preview.problem is not None:
        problem = safe_text.fit(safe_text.one_line(preview.problem), width)
        return [Text(problem, palette.of("error"))]
    first: list[Text] = []
    entries = preview.entries
    if preview.found is not None:
        last = _draw_last(entries, palette, width, height)
        if any(_has(line.plain, words) for line in last):
            return [_marked(line, words, palette) for line in last]
        most = max(1, min(height // 2 if height > 8 else height, 4 * _LINES_EACH))
        first = _draw_found(preview.found, palette, width, most, words)
        ids = [entry.id for entry in entries]
        if preview.found.id in ids:  # what is left follows it
            entries = entries[ids.index(preview.found.id) + 1 :]
        elif preview.later > 1 and len(first) + 3 < height:
            first.append(Text(safe_text.fit(f"… {preview.later - 1} later", width), palette.dim))
    lines = _draw_last(entries, palette, width, height - len(first))
    return [_marked(line, words, palette) for line in (*first, *lines)]


def _draw_found(
    entry: TreeEntry, palette: Palette, width: int, most: int, words: Sequence[str]
) -> list[Text]:
    """Draw the piece of a message that shows the first match."""
    lines = _draw_entry(entry, palette, width, _FOUND_LINES)
    hit = next((number for number, line in enumerate(lines) if _has(line.plain, words)), 0)
    if hit >= most - 1 > 1:  # the first line has the speaker's name
        head = Text.assemble(lines[0][: _NAME_WIDTH + 1], ("…", palette.dim))
        lines = [head, *lines[hit - 1 :]]
    return lines[:most]


def _draw_last(
    entries: Sequence[TreeEntry], palette: Palette, width: int, height: int
) -> list[Text]:
    most = max(_LINES_EACH, height // 3)
    lines: list[Text] = []
    for entry in reversed(entries):
        made = _draw_entry(entry, palette, width, most)
        if len(lines) + len(made) > height:
            if not lines and height > 1:
                lines = [*made[: height - 1], Text(" " * (_NAME_WIDTH + 1) + "…", palette.text)]
            break
        lines = made + lines
    return lines


def _marked(line: Text, words: Sequence[str], palette: Palette) -> Text:
    if words:
        line = line.copy()
        pattern = "|".join(re.escape(safe_text.one_line(word)) for word in words)
        line.highlight_regex(f"(?i:{pattern})", palette.mark)
    return line


def _draw_entry(entry: TreeEntry, palette: Palette, width: int, most: int) -> list[Text]:
    name = safe_text.one_line(_NAMES.get(entry.name, entry.name))
    colour = "accent" if entry.kind == "user" else "error" if entry.is_failed else "muted"
    style = palette.text if entry.kind in ("user", "assistant") else palette.dim
    room = max(1, width - _NAME_WIDTH - 1)
    text = entry.text.strip()[: room * most * 2]
    if entry.kind in ("assistant", "compaction", "summary") and room >= 8:
        body = [line.copy() for line in draw_markdown(text, room, palette)[: most + 1]]
    else:
        pieces = safe_text.wrap(safe_text.one_line(text), room)
        body = [Text(piece, style) for piece in pieces[: most + 1]]
    if len(body) > most:
        body = [*body[: most - 1], Text("…", style)]
    lines = []
    for number, piece in enumerate(body or [Text()]):
        head = safe_text.fill(name if number == 0 else "", _NAME_WIDTH) + " "
        lines.append(Text.assemble((head, palette.of(colour)), piece))
    return lines
