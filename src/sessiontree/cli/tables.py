"""Sessions in lines: columns that fit the terminal, short ids that still name one session.

Knows how a session looks in a listing, not which sessions there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sessiontree.cli import output
from sessiontree.clock import now

if TYPE_CHECKING:
    from sessiontree.stores.base import TrashedSession

MIN_ID = 8
_GAP = "  "
_MOST_CANDIDATES = 20
# A flexible column shrinks to this width first, and to the second only if necessary.
_LEAST_TEXTS = (16, 8)


class ListedSession(Protocol):
    """The columns that all listings have, those of other agents included."""

    @property
    def id(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def cwd(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def first_message(self) -> str | None: ...
    @property
    def modified(self) -> datetime: ...


class Column(msgspec.Struct, frozen=True):
    """One column: how it is headed, painted and aligned, and whether it gives way when narrow.

    A path's end says more than its beginning: ``keeps_end`` cuts it there.
    """

    head: str
    style: str = ""
    is_number: bool = False
    is_flexible: bool = False
    keeps_end: bool = False


def write_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, is_padded_in_pipe: bool = True
) -> None:
    """Write rows in columns: headed and fitted on a terminal, whole and bare in a pipe.

    In a pipe, rows that are not padded have just two spaces between two cells.
    """
    cells = [[output.one_line(cell) for cell in row] for row in rows]
    room = output.terminal_width()
    heads = [column.head for column in columns]
    widths = None
    if room is not None or is_padded_in_pipe:
        widths = _measure([*cells, heads] if room is not None else cells, len(columns))
    if room is not None and widths is not None:
        _narrow(widths, columns, room)
        _write_row(columns, heads, widths, "dim")
    for row in cells:
        _write_row(columns, row, widths)


def can_fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], least_text: int = _LEAST_TEXTS[0]
) -> bool:
    """Whether the rows fit the terminal if texts are cut to this width; in a pipe all do."""
    room = output.terminal_width()
    if room is None:
        return True
    cells = [[output.one_line(cell) for cell in row] for row in rows]
    widths = _measure([*cells, [column.head for column in columns]], len(columns))
    return _narrow(widths, columns, room, (least_text,))


def _measure(rows: Sequence[Sequence[str]], count: int) -> list[int]:
    return [max((output.text_width(row[i]) for row in rows), default=0) for i in range(count)]


def _narrow(
    widths: list[int],
    columns: Sequence[Column],
    room: int,
    least_texts: Sequence[int] = _LEAST_TEXTS,
) -> bool:
    """Shrink the flexible columns, the widest first; return whether that was enough."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    flexible = [i for i, column in enumerate(columns) if column.is_flexible]
    for least in least_texts:
        while excess > 0:
            candidates = [i for i in flexible if widths[i] > least]
            if not candidates:
                break
            widest = max(candidates, key=lambda i: widths[i])
            widths[widest] -= 1
            excess -= 1
    return excess <= 0


def _write_row(
    columns: Sequence[Column],
    row: Sequence[str],
    widths: Sequence[int] | None,
    style: str | None = None,
) -> None:
    spans: list[output.Span] = []
    last = max((i for i, text in enumerate(row) if text), default=0)
    for i, (column, text) in enumerate(zip(columns, row, strict=True)):
        if i > last:
            break
        fitted, padding = text, ""
        if widths is not None:
            fitted = (output.fit_end if column.keeps_end else output.fit)(text, widths[i])
            padding = " " * (widths[i] - output.text_width(fitted))
        painted = (fitted, column.style if style is None else style)
        if column.is_number:
            spans += [padding, painted]
        else:
            spans += [painted, padding if i < last else ""]
        if i < last:
            spans.append(_GAP)
    output.write_line(*spans)


# -- sessions --------------------------------------------------------------------------------------


def shorten_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id its shortest beginning, of at least 8 characters, that no other one shares.

    On a pipe ids stay whole: a program has no use for short ones.
    """
    known = sorted(set(ids))
    if not output.is_terminal():
        return {each: each for each in known}
    short = {}
    for i, each in enumerate(known):
        shared = max(
            (_shared(each, known[j]) for j in (i - 1, i + 1) if 0 <= j < len(known)), default=0
        )
        short[each] = each[: max(MIN_ID, shared + 1)]
    return short


def _shared(one: str, other: str) -> int:
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))


def session_name(session: ListedSession) -> str:
    """Title, else first prompt, else id, in one safe line."""
    from sessiontree.text.words import clean_line

    return clean_line(session.title) or clean_line(session.first_message) or session.id


def trash_name(item: TrashedSession) -> str:
    """The title of a session in the trash, in one safe line."""
    from sessiontree.text.words import clean_line

    return clean_line(item.title) or "(no title)"


def age(moment: datetime) -> str:
    """``5m ago``."""
    from sessiontree.text.words import format_time_ago

    return format_time_ago(moment, now())


def short_age(moment: datetime) -> str:
    """``5m``."""
    from sessiontree.text.words import format_short_age

    return format_short_age(moment, now())


def short_path(path: str | None) -> str:
    """The path with the home folder as ``~``."""
    if not path:
        return "?"
    home = os.path.expanduser("~")
    if path == home:
        return "~"
    return "~" + path[len(home) :] if path.startswith(home.rstrip("/") + "/") else path


def plural(count: int, noun: str) -> str:
    """``1 session``, ``2 sessions``."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun}"


def unreadable_files(count: int) -> str:
    """The note on files that a listing passed over, with the command that says more."""
    return f"{plural(count, 'unreadable file')} (sessiontree doctor)"


def whole_number(number: int) -> str:
    """``1,234,567``."""
    return f"{number:,}"


def short_number(number: int) -> str:
    """``1.2M``: never more than six characters, up to what anybody can pay for."""
    if number < 10_000:
        return whole_number(number)
    amount = float(number)
    for unit in ("k", "M", "G"):
        amount /= 1000
        if amount < 999.5:
            return f"{amount:.1f}{unit}" if amount < 99.95 else f"{amount:.0f}{unit}"
    return f"{amount / 1000:,.0f}T"


def size_text(size: int) -> str:
    """``34 KB``."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def write_candidates(sessions: Iterable[Any]) -> None:
    """The sessions that an id could mean, on standard error: id, age, title, project.

    Only the newest of many: hundreds would push the error itself out of sight.
    """
    found = list(sessions)
    longest = max((len(session.id) for session in found[:_MOST_CANDIDATES]), default=0)
    for session in found[:_MOST_CANDIDATES]:
        output.write_message(
            "  ",
            (session.id.ljust(longest), "yellow"),
            f"{_GAP}{age(session.modified):>10}{_GAP}",
            output.fit(session_name(session), 60),
            (f"{_GAP}{short_path(session.cwd)}", "dim"),
        )
    if len(found) > _MOST_CANDIDATES:
        more = f"{len(found) - _MOST_CANDIDATES:,} older ones"
        output.write_message((f"  and {more}: give more of the id, or see sessiontree ls", "dim"))
