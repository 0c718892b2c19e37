"""How a session looks in a picker's list and above its preview. Pure: rows in, lines out."""

from __future__ import annotations

import os
from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from sessiontree.discovery.listing import SessionInfo
from sessiontree.text.words import format_time_ago
from sessiontree.tui import escaping
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.session_rows import Reason, SessionRow, explain

_AGE_WIDTH = 10
_COUNT_WIDTH = 10
_STATES = {
    "interrupted": "no answer yet",
    "error": "ended with an error",
    "aborted": "stopped",
    "damaged": "damaged",
}
_FIELDS = {"text": "said", "first": "first prompt", "id": "id", "cwd": "project", "path": "file"}


def short_path(path: str, home: str | None = None) -> str:
    """The path with the home folder as ``~``."""
    home = (home if home is not None else os.path.expanduser("~")).rstrip(os.sep)
    if not path:
        return "?"
    if path == home:
        return "~"
    return "~" + path[len(home) :] if home and path.startswith(home + os.sep) else path


def count_text(count: int, noun: str) -> str:
    """``1 message``, ``2 messages``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def draw_session(
    row: SessionRow,
    width: int,
    palette: Palette,
    now: datetime,
    *,
    is_chosen: bool,
    is_open: bool = False,
    agent: str = "",
    with_project: bool = False,
    with_path: bool = False,
) -> Text:
    """The line of one session: name, why it matched; project, messages, age at the right.

    ``agent`` names the profile that the session belongs to, where several are listed.
    """
    info = row.info
    right = _right_side(info, width, palette, now, with_project=with_project, with_path=with_path)
    if agent and width >= 50:
        right = Text.assemble((f"{agent} ".ljust(12), palette.of("secondary")), right)
    room = max(1, width - cell_len(right.plain) - 4)
    line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
    line.append(row.guides, palette.rule)
    if info.status == "damaged":
        line.append("! ", palette.of("warning"))
    if is_open:
        line.append("● ", palette.of("success"))
    used = cell_len(line.plain) - 2
    name = escaping.fit(escaping.one_line(row.name), room - used)
    start = len(line.plain)
    line.append(name, palette.strong if is_chosen else palette.text)
    if row.match is not None:
        for a, b in row.match.spans_in("name"):
            # Escaping may have moved things: marks are drawn only where the name is as it was.
            if row.name[a:b] == name[a:b]:
                line.stylize(palette.mark, start + a, start + b)
        _append_reason(line, explain(row), palette, width - cell_len(right.plain) - 3)
    line.append(" " * max(1, width - cell_len(line.plain) - cell_len(right.plain) - 1))
    line.append_text(right)
    if is_chosen:
        line.style = palette.chosen
    return line


def _right_side(
    info: SessionInfo,
    width: int,
    palette: Palette,
    now: datetime,
    *,
    with_project: bool,
    with_path: bool,
) -> Text:
    side = Text()
    if with_path and width >= 50:
        room = min(60, width // 2)
        side.append(escaping.fit_middle(escaping.one_line(short_path(info.path)), room))
    elif with_project and width >= 60:
        room = min(32, width // 4)
        project = escaping.fit_end(escaping.one_line(short_path(info.cwd)), room)
        side.append(escaping.fill(project, room))
    if width >= 70 and not with_path:
        count = count_text(info.message_count, "msg") if info.message_count else ""
        side.append(count.rjust(_COUNT_WIDTH))
    if width >= 30:
        side.append("  " + format_time_ago(info.modified, now).rjust(_AGE_WIDTH))
    side.stylize(palette.dim)
    return side


def _append_reason(line: Text, reason: Reason | None, palette: Palette, end: int) -> None:
    room = end - cell_len(line.plain) - 2
    if reason is None or room < 12:
        return
    line.append("  ")
    line.append_text(_draw_reason(_closer(reason, room), palette, room))


def _closer(reason: Reason, room: int) -> Reason:
    """The reason with so little before its first mark that this has its place in the room."""
    if not reason.marks or cell_len(reason.text[: reason.marks[0][1]]) <= room:
        return reason
    cut = max(0, reason.marks[0][0] - room // 4)
    marks = tuple((a - cut + 1, b - cut + 1) for a, b in reason.marks)
    return Reason(reason.field, f"…{reason.text[cut:]}", marks)


def _draw_reason(reason: Reason, palette: Palette, room: int) -> Text:
    """The piece of text that matched, its marks in place wherever escaping left them there."""
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    at = length = 0
    for a, b in reason.marks:
        if a < at:
            continue
        before, found = escaping.one_line(reason.text[at:a]), escaping.one_line(reason.text[a:b])
        marks.append((length + len(before), length + len(before) + len(found)))
        parts += [before, found]
        length += len(before) + len(found)
        at = b
    parts.append(escaping.one_line(reason.text[at:]))
    drawn = Text(escaping.fit("".join(parts), room), palette.dim)
    for a, b in marks:
        drawn.stylize(palette.mark, a, b)
    return drawn


def draw_heading(row: SessionRow, width: int, palette: Palette, now: datetime) -> list[Text]:
    """What stands above a preview: the whole name, then the facts, then why it matched."""
    info = row.info
    facts = [count_text(info.message_count, "message")] if info.message_count else []
    facts.append(format_time_ago(info.modified, now))
    state = _STATES.get(info.status)
    if state:
        facts.append(state)
    lines = [
        Text(escaping.fit(escaping.one_line(row.name), width), palette.strong),
        Text(escaping.fit(" · ".join(facts), width), palette.dim),
        Text(
            escaping.fit_middle(
                f"{escaping.one_line(short_path(info.cwd))} · {escaping.one_line(info.id)}", width
            ),
            palette.dim,
        ),
    ]
    reason = explain(row)
    if reason is not None:
        head = f"{_FIELDS.get(reason.field, reason.field)}: "
        piece = _draw_reason(reason, palette, width - len(head))
        lines.append(Text.assemble((head, palette.dim), piece))
    return lines
