"""Send a terminal only what changes on it, so that the screens stay quick over slow lines.

Textual redraws whole widgets: a key that moves a cursor may cost ten kilobytes. `Thrift` knows what
the terminal shows. It applies each drawing to a copy of that, compares the two, and spells the
difference: pieces of rows, and a scroll where most rows have only moved. Of a style, only what
differs from the one before is sent, and of a blank only what can be seen of it: its ground. Long
blanks are erased where the terminal erases with the ground in force. Pure; knows no Textual.

It understands just what drawings consist of: cursor positions, colours, text. Whatever else comes
passes unchanged. If that may alter what is shown (another screen, an erasure), or if the size
changes, the terminal's contents count as unknown, and everything drawn is sent.

Cells whose width terminals may disagree about (emoji, marks) are never relied on: from such a
cell on, the row is sent as it was drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<style>[\d;]*)m"
    r"|(?P<harmless>\x1b\[\?(?:2026|25|1000|1002|1003|1004|1006|1015|1016|2004|2048)[hl]"
    r"|\x1b\](?!8;)[^\x07\x1b]*(?:\x07|\x1b\\)|\x07)"
    r"|(?P<break>\r?\n)"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<other>[\s\S])"
)
_LINK = re.compile(r"\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_GAP = 4
"""Unchanged bytes that are cheaper to send again than to jump over."""
_LEAST_MOVED = 6
"""Rows that must have moved before a scroll pays."""
_MOST_STEPS = 12
_ODD = "\u2e80"
"""The first character whose width terminals may disagree about."""

Cell = tuple[str, str]
"""A character and its style, spelled as the terminal takes it. An empty character is the second
half of a wide one. A blank has only the visible part of its style."""
Row = list[Cell | None]
"""The cells of a row; None where it is unknown what is shown."""


_Piece = tuple[int, int, Row]
"""Cells to send, and the row and column where they begin."""


@dataclass(slots=True)
class _Frame:
    """A drawing, applied to what was shown before."""

    rows: list[Row]
    spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The columns that were drawn, by row."""
    ends_at: tuple[int, int] | None = None
    """Where the drawing leaves the cursor, if it says so in the end."""


class Thrift:
    """A terminal's content, and the shortest output that changes it to another."""

    def __init__(self, width: int = 0, height: int = 0, *, can_erase: bool = False) -> None:
        """``can_erase``: the terminal fills what it erases with the ground in force."""
        self._rows: list[Row] = []
        self._can_erase = can_erase
        self.resize(width, height)

    @property
    def size(self) -> tuple[int, int]:
        return self._width, self._height

    @property
    def rows(self) -> list[Row]:
        """The rows that the terminal shows."""
        return self._rows

    def resize(self, width: int, height: int) -> None:
        """Note the terminal's size; its contents are unknown from now on."""
        self._width, self._height = width, height
        self.forget()

    def forget(self) -> None:
        """Note that it is unknown what the terminal shows."""
        self._rows = [[None] * self._width for _ in range(self._height)]

    def squeeze(self, data: str) -> str:
        """Return what to send instead of ``data``."""
        tokens = list(_TOKEN.finditer(data))
        if not any(token["text"] for token in tokens) or _LINK.search(data):
            return self._pass(data, tokens)
        kept: list[str] = []
        frame = self._apply(tokens, kept)
        if frame is None:
            self.forget()
            return data
        sent = self._spell(frame)
        self._rows = frame.rows
        return "".join(kept) + sent

    def _pass(self, data: str, tokens: list[re.Match[str]]) -> str:
        known = ("row", "style", "harmless", "break")
        if any(token.lastgroup not in (*known, "column") for token in tokens):
            self.forget()
        return data

    # -- reading a drawing -----------------------------------------------------------------------

    def _apply(self, tokens: list[re.Match[str]], kept: list[str]) -> _Frame | None:
        """Apply a drawing to a copy of the rows; None if it has what is not understood."""
        frame = _Frame([row.copy() for row in self._rows])
        at: tuple[int, int] | None = None
        style = ""
        for token in tokens:
            if token["row"] is not None:
                at = int(token["row"]) - 1, int(token["column"]) - 1
                frame.ends_at = at
            elif token["style"] is not None:
                style = _add_style(style, token["style"])
            elif token["harmless"] is not None:
                kept.append(token["harmless"])
            elif token["break"] is not None:
                at = (at[0] + 1, 0) if at is not None else None
            elif token["text"] is not None and at is not None:
                frame.ends_at = None
                row, column = at
                end = self._put(frame, row, column, token["text"], style)
                if end is None:
                    return None
                at = row, end
            else:
                return None
        return frame

    def _put(self, frame: _Frame, row: int, column: int, text: str, style: str) -> int | None:
        """Put text into a row; return the column after it, None if it leads out of the screen."""
        if not 0 <= row < self._height:
            return None
        cells = list(_cells(text, style))
        end = column + len(cells)
        if end > self._width:
            return None
        line = frame.rows[row]
        if cells and cells[0][0] == "":
            return None  # a mark without a letter to stand on
        if cells and column > 0 and _is_second_half(line[column]):
            line[column - 1] = None
        line[column:end] = cells
        if end < self._width and _is_second_half(line[end]):
            line[end] = None  # the other half of what was just overwritten
        frame.spans.setdefault(row, []).append((column, end))
        return end

    # -- spelling the difference -----------------------------------------------------------------

    def _spell(self, frame: _Frame) -> str:
        before = self._rows
        scroll = self._find_scroll(frame)
        if scroll is not None:
            before = _scrolled(before, *scroll)
        pieces: list[_Piece] = []
        for row in sorted(frame.spans if scroll is None else range(self._height)):
            if before[row] != frame.rows[row]:
                spans = frame.spans.get(row, []) if scroll is None else [(0, self._width)]
                pieces += self._find_pieces(row, before[row], frame.rows[row], spans)
        # A list whose rows look alike is shorter style by style, a paragraph row by row.
        spelled = [
            self._spell_pieces(ordered, scroll, frame.ends_at)
            for ordered in (pieces, _ordered_by_style(pieces))
        ]
        return min(spelled, key=len)

    def _spell_pieces(
        self,
        pieces: list[_Piece],
        scroll: tuple[int, int, int] | None,
        ends_at: tuple[int, int] | None,
    ) -> str:
        pen = _Pen(self._width, can_erase=self._can_erase)
        if scroll is not None:
            pen.scroll(*scroll)
        for piece in pieces:
            pen.write(*piece)
        return pen.finish(ends_at)

    def _find_pieces(
        self, row: int, old: Row, new: Row, spans: list[tuple[int, int]]
    ) -> Iterator[_Piece]:
        """Find what of a row must be sent."""
        odd = min(_find_odd(new), _find_odd(old))
        column = 0
        while column < odd:
            if new[column] == old[column] or new[column] is None:
                column += 1
                continue
            end: int = column + 1
            gap: int | None = 0
            while gap is not None:
                end += gap
                while end < odd and new[end] != old[end] and new[end] is not None:
                    end += 1
                gap = _gap_after(old, new, end, odd)
            yield row, column, new[column:end]
            column = end
        if odd < self._width and new[odd:] != old[odd:]:
            # In pieces as they were drawn, each at its own place: no width is relied on.
            for begin, end in _merged(spans):
                for start, stop in _known_parts(new, max(begin, odd), end):
                    yield row, start, new[start:stop]

    def _find_scroll(self, frame: _Frame) -> tuple[int, int, int] | None:
        """Find rows that have moved up or down together: first, last, and by how many."""
        old, new = self._rows, frame.rows
        changed = [n for n in range(self._height) if old[n] != new[n]]
        if len(changed) < _LEAST_MOVED:
            return None
        best: tuple[int, int, int] | None = None
        most = _LEAST_MOVED - 1
        for steps in [n for k in range(1, _MOST_STEPS + 1) for n in (k, -k)]:
            run = _longest_run(old, new, steps)
            if run is not None and run[1] - run[0] + 1 > most:
                most = run[1] - run[0] + 1
                best = (run[0], run[1], steps)
        if best is None:
            return None
        first, last, steps = best
        top, bottom = (first, last + steps) if steps > 0 else (first + steps, last)
        is_known = all(None not in new[row] for row in range(top, bottom + 1))
        return (top, bottom, steps) if is_known else None


def _gap_after(old: Row, new: Row, start: int, stop: int) -> int | None:
    """Count the cells that need not be sent before the next that must.

    None if no other must be sent, or if jumping over the gap is cheaper.
    """
    last = new[start - 1] if start else None
    before = last[1] if last is not None else ""
    cost = 0
    for at in range(start, stop):
        cell = new[at]
        if cell is None:
            return None
        if cell != old[at]:
            return at - start
        letter, style = cell
        looks_alike = style == before or (letter == " " and _style_of_blank(before) == style)
        cost += len(letter.encode("utf-8", "replace"))
        if cost > _GAP or not looks_alike:
            return None
    return None


def _ordered_by_style(pieces: list[_Piece]) -> list[_Piece]:
    """Cut the pieces where their style changes, and put those of one style together.

    The first style that is met comes first. Pieces with odd cells follow as they are.
    """
    by_style: dict[str, list[_Piece]] = {}
    odd: list[_Piece] = []
    for row, column, cells in pieces:
        if _find_odd(cells) < len(cells):
            odd.append((row, column, cells))
            continue
        start, style = 0, ""
        for at, cell in enumerate(cells):
            assert cell is not None
            letter, own = cell
            if at == start:
                style = own
            elif letter == " " and _style_of_blank(style) == own:
                continue  # looks the same in this style
            elif own != style and _is_blank(cells[start:at]) and _style_of_blank(own) == style:
                style = own
            elif own != style:
                by_style.setdefault(style, []).append((row, column + start, cells[start:at]))
                start, style = at, own
        by_style.setdefault(style, []).append((row, column + start, cells[start:]))
    return [piece for alike in by_style.values() for piece in alike] + odd


def _is_blank(cells: Row) -> bool:
    return all(cell is not None and cell[0] == " " for cell in cells)


def _longest_run(old: list[Row], new: list[Row], steps: int) -> tuple[int, int] | None:
    """The longest run of changed rows that show what another row showed, so many rows away."""
    best: tuple[int, int] | None = None
    start: int | None = None
    for row in range(len(new) + 1):
        is_moved = (
            row < len(new)
            and 0 <= row + steps < len(old)
            and new[row] == old[row + steps]
            and None not in new[row]
        )
        if is_moved and start is None:
            start = row
        elif not is_moved and start is not None:
            gained = sum(new[n] != old[n] for n in range(start, row))
            if gained >= _LEAST_MOVED and (best is None or row - start > best[1] - best[0] + 1):
                best = (start, row - 1)
            start = None
    return best


def _known_parts(row: Row, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a row between these columns of which it is known what to show."""
    start = begin
    for column in range(begin, end + 1):
        if column == end or row[column] is None:
            if start < column:
                yield start, column
            start = column + 1


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, those that overlap joined."""
    made: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if made and begin < made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((begin, end))
    return made


def _scrolled(rows: list[Row], top: int, bottom: int, steps: int) -> list[Row]:
    """The rows after a scroll; those that come in are unknown."""
    blank: list[Row] = [[None] * len(rows[0]) for _ in range(abs(steps))]
    inside = rows[top : bottom + 1]
    moved = inside[steps:] + blank if steps > 0 else blank + inside[:steps]
    return rows[:top] + moved + rows[bottom + 1 :]


def _add_style(style: str, codes: str) -> str:
    """The style after these codes; a reset leaves none."""
    if codes in ("", "0"):
        return ""
    if codes.startswith("0;"):
        return codes[2:]
    return f"{style};{codes}" if style else codes


def _cells(text: str, style: str) -> Iterator[Cell]:
    """One cell for each column. What has no width belongs to the cell before it."""
    blank = _style_of_blank(style)
    if text.isascii():
        for letter in text:
            yield letter, blank if letter == " " else style
        return
    waiting = ""
    for letter in text:
        width = cell_len(letter)
        if width == 0:
            waiting += letter
            continue
        if waiting:
            yield from _finish(waiting, style)
        waiting = letter
    if waiting:
        yield from _finish(waiting, style)


def _finish(cluster: str, style: str) -> Iterator[Cell]:
    width = cell_len(cluster[:1])
    if width == 0:
        yield "", style
        return
    yield cluster, _style_of_blank(style) if cluster == " " else style
    for _ in range(width - 1):
        yield "", style


def _is_second_half(cell: Cell | None) -> bool:
    return cell is not None and cell[0] == ""


def _find_odd(cells: Row) -> int:
    """The first cell about whose width terminals may disagree; the number of cells if none."""
    for at, cell in enumerate(cells):
        if cell is not None:
            letter = cell[0]
            if letter >= _ODD or len(letter) != 1:
                return at
    return len(cells)


def _count_blanks(cells: Row, at: int) -> int:
    """How many blanks of one style begin here."""
    first, end = cells[at], at
    if first is not None and first[0] == " ":
        while end < len(cells) and cells[end] == first:
            end += 1
    return end - at


class _Pen:
    """Spells positions, styles and text, each only where it changes."""

    def __init__(self, width: int, *, can_erase: bool) -> None:
        self._width = width
        self._can_erase = can_erase
        self._made: list[str] = []
        self._at: tuple[int, int] | None = None
        self._style = ""

    def scroll(self, top: int, bottom: int, steps: int) -> None:
        """Move rows up, or down if ``steps`` is negative."""
        way = f"{steps}S" if steps > 0 else f"{-steps}T"
        self._made.append(f"\x1b[0m\x1b[{top + 1};{bottom + 1}r\x1b[{way}\x1b[r")
        self._at, self._style = None, ""

    def write(self, row: int, column: int, cells: Row) -> None:
        """Write cells at a place."""
        self._go(row, column)
        made, size = self._made, len(cells)
        at = looked = 0
        self._at, is_odd = (row, column + size), False
        while at < size:
            cell = cells[at]
            assert cell is not None
            letter, style = cell
            # The shortest erasing takes the place of four blanks.
            is_long = letter == " " and looked <= at and cells[at + 3 : at + 4] == [cell]
            if is_long and self._can_erase:
                looked = at + _count_blanks(cells, at)
                if self._erase(row, column + at, looked - at, style, is_end=looked == size):
                    at = looked
                    continue
            if style != self._style and letter and not (letter == " " and self._has_ground(style)):
                self._take(style)
            made.append(letter)
            is_odd = is_odd or letter >= _ODD or len(letter) != 1
            at += 1
        if is_odd:
            self._at = None

    def _go(self, row: int, column: int) -> None:
        at = self._at
        if at == (row, column):
            return
        ways = [f"\x1b[{row + 1};{column + 1}H"]
        if at is not None and at[0] == row:
            ways.append(f"\x1b[{column + 1}G")
            if at[1] < column:
                steps = column - at[1]
                ways.append("\x1b[C" if steps == 1 else f"\x1b[{steps}C")
        elif at is not None and at[0] + 1 == row and column == 0:
            ways.append("\r\n")
        self._made.append(min(ways, key=len))
        self._at = row, column

    def _take(self, style: str) -> None:
        self._made.append(f"\x1b[{_change_style(self._style, style)}m")
        self._style = style

    def _erase(self, row: int, column: int, count: int, style: str, *, is_end: bool) -> bool:
        """Erase cells if that is shorter than blanks; tell if it is."""
        if not self._can_erase or not _is_ground(style):
            return False
        code = "\x1b[K" if column + count == self._width else f"\x1b[{count}X"
        jump = "" if is_end else f"\x1b[{count}C"
        if len(code) + len(jump) >= count:
            return False
        if not self._has_ground(style):
            self._take(style)
        self._made.append(code + jump)
        if is_end:
            self._at = row, column  # erasing moves no cursor
        return True

    def _has_ground(self, style: str) -> bool:
        """Whether a blank of this style looks the same in the present one."""
        return _style_of_blank(self._style) == style

    def finish(self, ends_at: tuple[int, int] | None) -> str:
        """Everything that was written."""
        if self._style:
            self._made.append("\x1b[0m")
        if ends_at is not None and (self._made or ends_at != self._at):
            self._made.append(f"\x1b[{ends_at[0] + 1};{ends_at[1] + 1}H")
        return "".join(self._made)


# -- styles ----------------------------------------------------------------------------------------

_ATTRIBUTE_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
"""The attributes that a style may have, and the code that ends each."""
_SHOWN_ON_BLANKS = frozenset("479")
_COLOUR = re.compile(r"([34])8;(?:2;\d+;\d+;\d+|5;\d+)(?=;|$)|(3|9|4|10)[0-7](?=;|$)")


@lru_cache(4096)
def _take_apart(style: str) -> tuple[frozenset[str], str, str] | None:
    """The attributes, the ink and the ground of a style; None if it has anything else."""
    attributes: set[str] = set()
    ink = ground = ""
    at = 0
    while at < len(style):
        found = _COLOUR.match(style, at)
        if found is not None:
            code = found[0]
            at = found.end() + 1
            if found[1] == "3" or found[2] in ("3", "9"):
                ink = code
            else:
                ground = code
            continue
        code = style[at:].partition(";")[0]
        if code not in _ATTRIBUTE_ENDS:
            return None
        attributes.add(code)
        at += len(code) + 1
    return frozenset(attributes), ink, ground


@lru_cache(4096)
def _style_of_blank(style: str) -> str:
    """The part of a style that shows on a blank."""
    parts = _take_apart(style)
    if parts is None or parts[0] & _SHOWN_ON_BLANKS:
        return style
    return parts[2]


@lru_cache(4096)
def _is_ground(style: str) -> bool:
    """Whether a style has a ground and nothing else, so that erasing shows the same."""
    parts = _take_apart(style)
    return parts is not None and parts == (frozenset(), "", parts[2])


@lru_cache(4096)
def _change_style(old: str, new: str) -> str:
    """The codes that lead from one style to another."""
    whole = f"0;{new}" if new else "0"
    before, after = _take_apart(old), _take_apart(new)
    if before is None or after is None:
        return whole
    ends = {_ATTRIBUTE_ENDS[code] for code in before[0] - after[0]}
    # "22" ends bold and dim at once.
    begins = {code for code in after[0] if code not in before[0] or _ATTRIBUTE_ENDS[code] in ends}
    codes = [*sorted(ends), *sorted(begins)]
    if before[1] != after[1]:
        codes.append(after[1] or "39")
    if before[2] != after[2]:
        codes.append(after[2] or "49")
    return min(";".join(codes), whole, key=len)
