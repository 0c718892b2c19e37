"""Filter, sort, thread and draw the sessions of a picker.

Fast enough for thousands of sessions at every key. The caller passes the sessions and the words of
their texts; a text itself is read only where its words don't decide. Pure: sessions in, lines out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Literal, get_args

from rich.cells import cell_len
from rich.text import Text

from sessiontree.discovery.copies import put_copies_below
from sessiontree.discovery.listing import NO_MESSAGES, SessionInfo
from sessiontree.profiles import short_agent_name
from sessiontree.text.words import (
    clean_line,
    format_short_age,
    format_time_ago,
    without_marks_around,
)
from sessiontree.tui import safe_text
from sessiontree.tui.fuzzy import (
    Field,
    Hit,
    Kind,
    Match,
    Query,
    Searchable,
    WordField,
    distinct_words,
)
from sessiontree.tui.palette import Palette

Sort = Literal["recent", "threaded", "relevance"]
SORTS: tuple[Sort, ...] = get_args(Sort)

TEXT_LIMIT = 2_000_000
"""Characters of a session's text to search."""

_MAX_GUIDES = 8
_CHECK_EVERY = 64
_PART_S = 0.3
"""Seconds between two reports of the rows found so far."""
_LEAD = 24
_SPOKEN = frozenset(("text", "first"))
"""Fields with what was said, which may be Markdown."""
_TEXT_SCORE = 3_000
"""The score of a whole word in a text, as a `WordField` gives it."""
_REMEMBERED_REASONS = 256
"""Reasons to keep: more than a screen has rows, because each row is drawn many times."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One line of the picker."""

    info: SessionInfo
    name: str
    """The session's title, else its first prompt, else its id."""
    guides: str = ""
    """The guides before the name: of a copy, or in the threaded order."""
    match: Match | None = None
    find_reason: FindReason | None = field(default=None, compare=False, repr=False)
    """Find why it matched; cached for a while."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The piece of text because of which a session matched, if its name doesn't show it."""

    field: str
    text: str
    marks: tuple[tuple[int, int], ...]


FindReason = Callable[[SessionRow], Reason | None]


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The sessions whose text matches by the search index, and how to read why."""

    paths: Container[str]
    find_reason: FindReason
    """Read why a session matched; the caller keeps what it read."""
    are_alone: bool = False
    """Whether these decide: where only the text of one speaker counts, or tool output does, too."""


class SessionIndex:
    """Listed sessions, ready to be filtered again and again.

    ``words`` are those of their texts, by path; several indexes may share them.
    """

    def __init__(
        self, infos: Iterable[SessionInfo] = (), words: dict[str, bytes] | None = None
    ) -> None:
        self._infos: dict[str, SessionInfo] = {info.path: info for info in infos}
        self._fields: dict[str, list[Field]] = {}
        self._words = words if words is not None else {}
        self._find_reason = lru_cache(_REMEMBERED_REASONS)(_find_reason)

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def infos(self) -> list[SessionInfo]:
        return list(self._infos.values())

    def get(self, path: str) -> SessionInfo | None:
        """Return the session of this file, if it is listed."""
        return self._infos.get(path)

    def replace_all(self, infos: Iterable[SessionInfo]) -> None:
        """Replace the sessions; keep the words of those that stay."""
        self._infos = {info.path: info for info in infos}
        self._fields.clear()

    def put(self, info: SessionInfo) -> None:
        """Add or replace a session."""
        self._infos[info.path] = info
        self._fields.pop(info.path, None)

    def remove(self, path: str) -> None:
        """Remove a session."""
        for known in (self._infos, self._fields, self._words):
            known.pop(path, None)

    def has_text(self, path: str) -> bool:
        """Whether the session's text is known."""
        return path in self._words

    def put_words(self, path: str, words: bytes) -> None:
        """Add the words of a session's messages to the search."""
        self._words[path] = words

    # -- rows ------------------------------------------------------------------------------------

    def rows(
        self,
        query: Query,
        sort: Sort,
        *,
        named_only: bool = False,
        accept: Callable[[SessionInfo], bool] | None = None,
        texts: TextMatches | None = None,
        should_stop: Callable[[], bool] | None = None,
        on_part: Callable[[list[SessionRow], int], object] | None = None,
    ) -> list[SessionRow] | None:
        """Find the rows of this view; None if ``is_stopped`` became true on the way.

        Where texts must be read this takes a while: ``on_part`` then receives the rows found so
        far, and how many sessions were checked. ``texts`` are the sessions whose text matches, as
        far as that is known without reading it; if they are ``alone``, other texts don't count.
        """
        found: list[SessionRow] = []
        told_at = time.monotonic()
        for number, info in enumerate(self.infos):
            if number % _CHECK_EVERY == 0 and should_stop is not None and should_stop():
                return None
            if on_part is not None and time.monotonic() - told_at > _PART_S:
                on_part(_ordered(found, sort), number)
                told_at = time.monotonic()
            if (named_only and not info.title) or (accept is not None and not accept(info)):
                continue
            row = self._match(info, query, texts)
            if row is not None:
                found.append(row)
        return _ordered(found, sort)

    def _match(
        self, info: SessionInfo, query: Query, texts: TextMatches | None
    ) -> SessionRow | None:
        """The session's row, if it matches."""
        if texts is None or not texts.are_alone:
            fields = self._fields_of(info)
            match = None if query.is_empty else query.match(fields)
            if match is not None or query.is_empty:
                return SessionRow(info, fields[0].text, "", match, self._find_reason)
        if texts is None or info.path not in texts.paths:
            return None
        found = Match((Hit("text", Kind.WORD, _TEXT_SCORE, ()),))
        return SessionRow(info, name_of(info), "", found, texts.find_reason)

    def _fields_of(self, info: SessionInfo) -> Sequence[Searchable]:
        fields = self._fields.get(info.path)
        if fields is None:
            fields = self._fields[info.path] = _make_fields(info)
        words = self._words.get(info.path)
        if words is None:
            return fields
        return [*fields[:-1], WordField("text", words, partial(read_text, info), 2), fields[-1]]


def read_text(info: SessionInfo) -> str:
    """Read the part of a session's messages that is searched."""
    return info.read_messages_text()[:TEXT_LIMIT]


def read_words(info: SessionInfo) -> bytes:
    """Read the words of that text."""
    return distinct_words(read_text(info))


def is_one_letter(term: str) -> bool:
    """Whether a term is in nearly every message, as a first letter is, but not a Chinese word.

    Showing where it is would say nothing, and over a slow line each mark costs time.
    """
    return len(term) == 1 and term.isascii()


def name_of(info: SessionInfo) -> str:
    """Return title, else first prompt, else id, in one line."""
    prompt = "" if info.first_message == NO_MESSAGES else info.first_message
    return clean_line(info.title) or clean_line(prompt) or info.id or os.path.basename(info.path)


def effective_sort(chosen: Sort | None, query: Query) -> Sort:
    """Return the chosen order; by default by time, or by relevance if there is a query."""
    if chosen is not None:
        return chosen
    return "recent" if query.is_empty else "relevance"


def explain(row: SessionRow) -> Reason | None:
    """Find why the row matched, if its name doesn't show it. May read the session's text."""
    return row.find_reason(row) if row.find_reason is not None else None


def _find_reason(row: SessionRow) -> Reason | None:
    if row.match is None:
        return None
    for hit in row.match.hits:
        if hit.field != "name" and not is_one_letter(hit.term):
            return _reason(row, row.match, hit.field)
    return None


def _make_fields(info: SessionInfo) -> list[Field]:
    """Make the fields to search, the weightiest first; a text goes before the last."""
    name = name_of(info)
    fields = [Field.of("name", name, 6, fuzzy=True)]
    first = "" if info.first_message == NO_MESSAGES else info.first_message
    if first and clean_line(first) != name:
        fields.append(Field.of("first", first[:TEXT_LIMIT], 5))
    return [
        *fields,
        Field.of("id", info.id, 4),
        Field.of("cwd", info.cwd, 3, fuzzy=True),
        Field.of("path", os.sep.join(info.path.split(os.sep)[-2:]), 1),
    ]


def _reason(row: SessionRow, match: Match, field: str) -> Reason | None:
    text = {
        "first": row.info.first_message,
        "id": row.info.id,
        "cwd": row.info.cwd,
        "path": os.sep.join(row.info.path.split(os.sep)[-2:]),
    }.get(field)
    if text is None:
        text = read_text(row.info)
        found = Field.of(field, text)
        hits = [_locate(hit, found) for hit in match.hits if hit.field == field]
        spans = sorted(span for hit in hits for span in hit.spans)
    else:
        spans = match.spans_in(field)
    if not spans:
        return None  # the text has changed since
    start = max(0, spans[0][0] - _LEAD)
    if start:
        space = text.find(" ", start, spans[0][0])
        start = space + 1 if space >= 0 else start
    lead = "…" if start else ""
    piece = text[start : start + 300]
    shift = len(lead) - start
    marks = [(a + shift, b + shift) for a, b in spans if b <= start + 300]
    if field in _SPOKEN:
        shown, marks = without_marks_around(lead + piece, marks)
        return Reason(field, shown, tuple(marks))
    return Reason(field, lead + piece, tuple(marks))


def _locate(hit: Hit, field: Field) -> Hit:
    """Add spans to the hit, now that the text is loaded."""
    return (field.find(hit.term) or hit) if not hit.spans else hit


# -- order ---------------------------------------------------------------------------------------


def _ordered(rows: Sequence[SessionRow], sort: Sort) -> list[SessionRow]:
    match sort:
        case "recent":
            return _copies_below(sorted(rows, key=_recency, reverse=True))
        case "relevance":
            return _copies_below(sorted(rows, key=_relevance, reverse=True))
        case "threaded":
            return _threaded(rows)


def _copies_below(rows: list[SessionRow]) -> list[SessionRow]:
    """Put copies of a session below it, where the first of them stands."""
    by_path = {row.info.path: row for row in rows}
    families = put_copies_below(row.info for row in rows)
    if len(families) == len(rows):
        return rows
    return [
        replace(by_path[info.path], guides="└ ") if at else by_path[info.path]
        for family in families
        for at, info in enumerate(family)
    ]


def _recency(row: SessionRow) -> tuple[float, str]:
    return (row.info.modified.timestamp(), row.info.path)


def _relevance(row: SessionRow) -> tuple[tuple[int, int], float, str]:
    rank = row.match.rank if row.match is not None else (0, 0)
    return (rank, *_recency(row))


def _threaded(rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Put each session below the one it was forked from; the most active threads come first."""
    by_name = {key: row for row in rows for key in (row.info.path, row.info.id) if key}
    parents: dict[str, str | None] = {}
    for row in rows:
        parent = by_name.get(row.info.parent_session or "")
        parents[row.info.path] = parent.info.path if parent else None
    _cut_cycles(parents)
    children: dict[str | None, list[SessionRow]] = {}
    for row in rows:
        children.setdefault(parents[row.info.path], []).append(row)
    newest = _newest_in_thread(rows, parents)
    for siblings in children.values():
        siblings.sort(key=lambda row: (newest[row.info.path], row.info.path), reverse=True)
    ordered: list[SessionRow] = []
    stack = [(row, "", "") for row in reversed(children.get(None, []))]
    while stack:
        row, mark, below = stack.pop()
        ordered.append(replace(row, guides=mark))
        kept = below[-2 * (_MAX_GUIDES - 1) :]
        for number, child in enumerate(reversed(children.get(row.info.path, []))):
            ends = ("└ ", "  ") if number == 0 else ("├ ", "│ ")
            stack.append((child, kept + ends[0], kept + ends[1]))
    return ordered


def _cut_cycles(parents: dict[str, str | None]) -> None:
    """Make a session that is its own ancestor (in a hand-edited file) begin a thread."""
    safe: set[str] = set()
    for path in parents:
        walked: list[str] = []
        seen: set[str] = set()
        at: str | None = path
        while at is not None and at not in safe:
            if at in seen:
                parents[at] = None
                break
            seen.add(at)
            walked.append(at)
            at = parents[at]
        safe.update(walked)


def _newest_in_thread(
    rows: Sequence[SessionRow], parents: dict[str, str | None]
) -> dict[str, float]:
    """Find for each session the latest activity in it and in all its forks."""
    newest = {row.info.path: row.info.modified.timestamp() for row in rows}
    # Newest first: each walk up stops where a newer session has passed.
    for row in sorted(rows, key=_recency, reverse=True):
        time = newest[row.info.path]
        at = parents[row.info.path]
        while at is not None and newest[at] < time:
            newest[at] = time
            at = parents[at]
    return newest


_AGE_WIDTH = 9
_AGENT_WIDTH = 9
_PROJECT_WIDTH = 24
_COUNT_WIDTH = 11
_ID_WIDTH = 14
_LEAST_PROJECT = 8
_ROOMY = 100
"""Columns from which on a row also counts messages; narrower rows leave the room to the title."""
_STATES = {
    "interrupted": "no answer yet",
    "error": "ended with an error",
    "aborted": "stopped",
    "damaged": "damaged",
}
_FIELDS = {
    "text": "said",
    "tool": "tool",
    "first": "first prompt",
    "id": "id",
    "cwd": "project",
    "path": "file",
}


def short_path(path: str, home: str | None = None) -> str:
    """Shorten the path: the home folder becomes ``~``."""
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


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide the columns beside the names are: no wider than what the listed sessions need."""

    agent: int = _AGENT_WIDTH
    project: int = _PROJECT_WIDTH
    path: int = _PROJECT_WIDTH
    """The project's, where its whole path is shown."""

    @classmethod
    def of(cls, infos: Iterable[SessionInfo], agents: Iterable[str] = ()) -> Columns:
        """Measure the columns for these sessions, of these agents."""
        words = [cell_len(_agent_word(agent)) + 1 for agent in agents]
        projects = {info.cwd for info in infos}
        return cls(
            min(_AGENT_WIDTH, max(words, default=_AGENT_WIDTH) + 1),
            *(
                min(
                    _PROJECT_WIDTH,
                    max((cell_len(_project_name(each, width)) for each in projects), default=1),
                )
                for width in (0, _ROOMY)
            ),
        )


def _agent_word(agent: str) -> str:
    return safe_text.one_line(short_agent_name(agent))


def _project_name(cwd: str, width: int) -> str:
    """What a row of this width calls a project: its folder's name, or its path."""
    project = cwd.rstrip(os.sep)
    return (
        safe_text.one_line(
            os.path.basename(project) if width < _ROOMY else short_path(cwd) if cwd else "?"
        )
        or "?"
    )


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
    columns: Columns | None = None,
) -> Text:
    """Draw a session: name and reason at the left; project, messages and age at the right.

    ``agent`` names the session's profile if several are listed.
    """
    info, columns = row.info, columns or Columns()
    right = _right_side(
        info, width, palette, now, columns, with_project=with_project, with_path=with_path
    )
    if agent and width >= 50:
        shown = safe_text.fit(_agent_word(agent), columns.agent - 1)
        right = Text.assemble(
            (safe_text.fill(shown, columns.agent), palette.of("secondary")), right
        )
    room = max(1, width - cell_len(right.plain) - 4)
    line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
    line.append(row.guides, palette.rule)
    if info.status == "damaged":
        line.append("! ", palette.of("warning"))
    if is_open:
        line.append("● ", palette.of("success"))
    used = cell_len(line.plain) - 2
    name = safe_text.fit(safe_text.one_line(row.name), room - used)
    start = len(line.plain)
    line.append(name, palette.strong if is_chosen else palette.text)
    if row.match is not None:
        for a, b in row.match.spans_in("name"):
            # Escaping may have moved characters: mark only where the name is unchanged.
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
    columns: Columns,
    *,
    with_project: bool,
    with_path: bool,
) -> Text:
    side = Text()
    if with_path and width >= 50:
        room = min(60, width // 2)
        side.append(safe_text.fit_middle(safe_text.one_line(short_path(info.path)), room))
    elif with_project and width >= 60:
        room = min(columns.project if width < _ROOMY else columns.path, width // 6)
        name = safe_text.fit_end(_project_name(info.cwd, width), room)
        side.append(safe_text.fill(name, room))
    if width >= _ROOMY and not with_path:
        count = count_text(info.message_count, "msg") if info.message_count else ""
        side.append(count.rjust(_COUNT_WIDTH))
    if width >= 30:
        side.append(format_short_age(info.modified, now).rjust(_AGE_WIDTH))
    side.stylize(palette.dim)
    return side


def _append_reason(line: Text, reason: Reason | None, palette: Palette, end: int) -> None:
    room = end - cell_len(line.plain) - 2
    if reason is None or room < 12:
        return
    line.append("  ")
    line.append_text(_draw_reason(_closer(reason, room), palette, room))


def _closer(reason: Reason, room: int) -> Reason:
    """Cut the reason's beginning so that its first mark is visible in the room."""
    if not reason.marks or cell_len(reason.text[: reason.marks[0][1]]) <= room:
        return reason
    cut = max(0, reason.marks[0][0] - room // 4)
    cut = reason.text.find(" ", cut, reason.marks[0][0]) + 1 or cut
    marks = tuple((a - cut + 1, b - cut + 1) for a, b in reason.marks)
    return Reason(reason.field, f"…{reason.text[cut:]}", marks)


def _draw_reason(reason: Reason, palette: Palette, room: int) -> Text:
    """Draw the piece of text that matched, with marks where escaping moved nothing."""
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    at = length = 0
    for a, b in reason.marks:
        if a < at:
            continue
        before, found = safe_text.one_line(reason.text[at:a]), safe_text.one_line(reason.text[a:b])
        marks.append((length + len(before), length + len(before) + len(found)))
        parts += [before, found]
        length += len(before) + len(found)
        at = b
    parts.append(safe_text.one_line(reason.text[at:]))
    drawn = Text(safe_text.fit("".join(parts), room), palette.dim)
    for a, b in marks:
        drawn.stylize(palette.mark, a, b)
    return drawn


def _draw_place(info: SessionInfo, width: int) -> str:
    """The id and the project: the id's head is what commands take, so the project is cut first."""
    session_id, project = safe_text.one_line(info.id), safe_text.one_line(short_path(info.cwd))
    if cell_len(session_id) + cell_len(project) + 3 > width:
        session_id = safe_text.fit(session_id, _ID_WIDTH)
    room = width - cell_len(session_id) - 3
    if room < _LEAST_PROJECT:
        return safe_text.fit(session_id, width)
    return f"{session_id} · {safe_text.fit_end(project, room)}"


def draw_heading(row: SessionRow, width: int, palette: Palette, now: datetime) -> list[Text]:
    """Draw the lines above a preview: the whole name, the facts, and why it matched."""
    info = row.info
    facts = [count_text(info.message_count, "message")] if info.message_count else []
    facts.append(format_time_ago(info.modified, now))
    state = _STATES.get(info.status)
    if state:
        facts.append(state)
    lines = [
        Text(safe_text.fit(safe_text.one_line(row.name), width), palette.strong),
        Text(safe_text.fit(" · ".join(facts), width), palette.dim),
        Text(_draw_place(info, width), palette.dim),
    ]
    reason = explain(row)
    if reason is not None:
        head = f"{_FIELDS.get(reason.field, reason.field)}: "
        piece = _draw_reason(reason, palette, width - len(head))
        lines.append(Text.assemble((head, palette.dim), piece))
    return lines
