"""Draw entries in the tree picker: one line each, or whole in the pane beside. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sessiontree.core.tree_entries import Kind, TreeEntry
from sessiontree.model.ids import parse_timestamp
from sessiontree.text.words import format_time_ago, without_marks
from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.tree_rows import GUIDE_WIDTH, Label, TreeRow
from sessiontree.tui.transcript.markdown import draw_markdown

_COLOURS: dict[Kind, str] = {
    "user": "accent",
    "assistant": "success",
    "calls": "muted",
    "tool": "muted",
    "command": "secondary",
    "note": "secondary",
    "compaction": "warning",
    "summary": "warning",
    "state": "muted",
}
_LEAST_MARKDOWN = 8
_SPOKEN = frozenset(("user", "assistant"))


def age_of(timestamp: str, now: datetime) -> str:
    """Word an age, such as ``2h ago``; empty if the timestamp is invalid."""
    time_ms = parse_timestamp(timestamp)
    if time_ms is None:
        return ""
    try:
        return format_time_ago(datetime.fromtimestamp(time_ms / 1000, UTC), now)
    except (OverflowError, ValueError, OSError):
        return ""


def draw_row(row: TreeRow, width: int, palette: Palette, now: datetime, *, is_chosen: bool) -> Text:
    """Draw the line of one entry."""
    entry = row.entry
    right = _right_side(row, palette, now, width)
    line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
    line.append(_guides(row, width), palette.rule)
    line.append("● " if row.is_active else "○ ", _dot_style(row, palette))
    name = _name_of(entry)
    colour = "error" if entry.is_failed else _COLOURS[entry.kind]
    line.append(safe_text.fit(name, max(6, width // 5)), palette.of(colour, bold=row.is_active))
    room = width - line.cell_len - right.cell_len - 2
    text = entry.text.strip()[: max(0, room) * 2 + 8]
    text = safe_text.one_line(without_marks(text) if entry.kind == "assistant" else text)
    if room > 3 and text:
        style = palette.text if entry.kind in _SPOKEN else palette.dim
        line.append(" " + safe_text.fit(text, room - 1), style)
        _mark_matches(line, row, palette, len(line.plain) - len(safe_text.fit(text, room - 1)))
    line.append(" " * max(0, width - line.cell_len - right.cell_len - 1))
    line.append_text(right)
    if is_chosen:
        line.style = palette.chosen
    return line


def _name_of(entry: TreeEntry) -> str:
    if entry.name == "assistant":
        return safe_text.one_line(f"agent {entry.agent}").rstrip()
    return safe_text.one_line(entry.name)


def _guides(row: TreeRow, width: int) -> str:
    """Cut the guides to half of the line; a number replaces those left out."""
    levels = len(row.guides) // GUIDE_WIDTH
    most = max(1, width // (2 * GUIDE_WIDTH))
    if row.depth <= most and levels == row.depth:
        return row.guides
    left_out = row.depth - min(levels, most)
    return f"{left_out}… " + row.guides[-GUIDE_WIDTH * min(levels, most) :]


def _dot_style(row: TreeRow, palette: Palette) -> Style:
    return palette.of("success") if row.is_active else palette.rule


def _right_side(row: TreeRow, palette: Palette, now: datetime, width: int) -> Text:
    side = Text()
    if row.folded:
        side.append(f" ▸ {row.folded:,} folded", palette.of("warning"))
    if row.label is not None:
        side.append_text(_draw_label(row.label, palette, now, max(8, width // 3)))
    if row.is_here:
        side.append(" ← here", palette.of("success", bold=True))
    elif row.is_above_here:
        side.append(" ← here, below", palette.of("success"))
    return side


def _draw_label(label: Label, palette: Palette, now: datetime, room: int) -> Text:
    age = age_of(label.timestamp, now)
    tail = f" · {age}" if age else ""
    text = safe_text.fit(safe_text.one_line(label.text), max(4, room - len(tail) - 3))
    return Text.assemble(
        (f" [{text}", palette.of("warning")), (tail, palette.dim), ("]", palette.of("warning"))
    )


def _mark_matches(line: Text, row: TreeRow, palette: Palette, start: int) -> None:
    if row.match is None:
        return
    # Escaping and Markdown may have moved what matched, so it is looked for again.
    for a, b in row.match.spans_in("text"):
        found = row.entry.text[a:b]
        at = line.plain.find(found, start) if found else -1
        if at >= 0:
            line.stylize(palette.mark, at, at + len(found))


def draw_entry(
    entry: TreeEntry, label: Label | None, width: int, height: int, palette: Palette, now: datetime
) -> list[Text]:
    """Draw as much of an entry as fits the box: who, when, its label, its text."""
    facts = [
        _name_of(entry),
        age_of(entry.timestamp, now),
        safe_text.one_line(entry.id),
    ]
    head = Text(safe_text.fit(" · ".join(fact for fact in facts if fact), width), palette.dim)
    if label is not None:
        head.append_text(_draw_label(label, palette, now, max(8, width - cell_len(head.plain))))
    lines = [head, *islice(_draw_words(entry, width, height, palette), height)]
    if len(lines) > height:
        lines[height - 1 :] = [Text("…", palette.dim)]
    return lines


def _draw_words(entry: TreeEntry, width: int, height: int, palette: Palette) -> Iterator[Text]:
    """Draw an entry's text: what an agent wrote as Markdown, as the chat shows it."""
    text = entry.text.strip()
    if entry.kind in ("assistant", "compaction", "summary") and width >= _LEAST_MARKDOWN:
        yield from draw_markdown(text[: width * height * 2], width, palette)
        return
    for paragraph in safe_text.block(text).split("\n"):
        for piece in safe_text.wrap(paragraph, width):
            yield Text(piece, palette.text)
