"""Draw Markdown as lines for a width: headings, lists, quotes, tables, highlighted code.

The text is untrusted: this module makes it safe first, shows HTML as source and fetches nothing. An
answer that streams in is drawn at every step; its finished blocks come from a cache, so that a step
costs only the last part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.long_text import LongText, Rows
from sessiontree.tui.transcript.styled_text import highlight, wrap_text

MAX_CHARACTERS = 200_000
MAX_LINES = 3_000
MAX_MARKS = 6_000
"""Text with more characters, lines or possible marks than this is drawn as plain text: parsing it
as Markdown may take up to a thousand times its size."""
_MARKS = "*_`[<|~\\&"

_BULLETS = "•◦▪"
_MAX_NESTING = 100
# The parser drops deeper nesting; such a text is not meant as Markdown anyway. A rule is not
# nested, however long it is. Each line matches in one way only, so that one pass is enough.
_TOO_DEEP = re.compile(
    r"^(?!(?:[- \t]+|[* \t]+)$)(?:[ \t]*+(?:>|(?:[*+-]|\d++[.)])(?=[ \t]|$))){30}", re.MULTILINE
)
_GAP = "  "
_LEAST = 4


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "maxNesting": _MAX_NESTING}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


class Splitter:
    """Split a growing text into its top-level blocks, parsing only the last two again.

    Two, because the last one may become a part of the one before it, as when a list continues.
    """

    def __init__(self) -> None:
        self._text = ""
        self._closed: list[str] = []
        self._open_from = 0

    def split(self, text: str) -> list[str]:
        """Return the source of each top-level block.

        A text with link definitions stays in one piece, because they apply to all of it.
        """
        if not text.startswith(self._text):
            self._closed, self._open_from = [], 0
        blocks, has_definitions = _split(text[self._open_from :])
        if has_definitions:
            return [text]
        self._text = text
        pieces = self._closed + [piece for _, piece in blocks]
        if len(blocks) > 2:
            self._closed = pieces[:-2]
            self._open_from += blocks[-2][0]
        return pieces


class Growth:
    """The state kept between two drawings of a growing text, so that it is not parsed again."""

    def __init__(self) -> None:
        self.splitter = Splitter()
        self._rows: LongText | None = None

    def rows(self, safe: str, width: int, *, words: bool = False) -> LongText:
        """Lay out the rows of a long text."""
        if self._rows is None or (self._rows.width, self._rows.words) != (width, words):
            self._rows = LongText(width, words=words)
        return self._rows.show(safe)


def _split(text: str) -> tuple[list[tuple[int, str]], bool]:
    """Find the top-level blocks, each with where it begins, and whether the text defines links."""
    source = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in source), initial=0))
    blocks = []
    found: dict[str, Any] = {}
    for token in _parser().parse(text, found):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            first, end = token.map
            blocks.append((starts[first], "\n".join(source[first:end])))
    return blocks, bool(found.get("references"))


def draw_markdown(
    text: str, width: int, palette: Palette, growth: Growth | None = None
) -> Sequence[Text]:
    """Draw the text as lines of at most ``width`` columns. Pass a growing text its own ``Growth``.

    The lines are shared with later calls: don't change them.
    """
    growth = growth or Growth()
    safe = safe_text.block(text)
    if is_plain(safe):
        rows = growth.rows(safe, width, words=True)
        return Rows(rows, lambda row, _: Text(row, palette.text))
    if _TOO_DEEP.search(safe):
        return wrap_text(Text(safe, palette.text), width)
    lines: list[Text] = []
    pieces = growth.splitter.split(safe)
    for number, piece in enumerate(pieces, 1):
        draw = _draw_piece if number == len(pieces) else _draw_finished
        drawn = draw(piece, max(width, 8), palette)
        if lines and drawn:
            lines.append(Text())
        lines += drawn
    return lines


def is_plain(text: str) -> bool:
    """Whether a text is too large to parse as Markdown."""
    if len(text) > MAX_CHARACTERS or sum(map(text.count, _MARKS)) > MAX_MARKS:
        return True
    # Blank lines cost little.
    return sum(1 for line in text.split("\n") if line and not line.isspace()) > MAX_LINES


def _draw_piece(source: str, width: int, palette: Palette) -> tuple[Text, ...]:
    tree = SyntaxTreeNode(_parser().parse(source))
    return tuple(_Drawing(palette).blocks(tree.children, width))


# Only the pieces before the last are cached: the last may still grow, and each of its states is
# drawn once. The cache holds as many as a very long answer has; with fewer, each step would draw
# the whole answer again.
_draw_finished = lru_cache(maxsize=1_000)(_draw_piece)


class _Drawing:
    """Draw one syntax tree."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    # -- blocks ----------------------------------------------------------------------------------

    def blocks(
        self, nodes: Sequence[SyntaxTreeNode], width: int, *, is_tight: bool = False
    ) -> list[Text]:
        lines: list[Text] = []
        for node in nodes:
            drawn = self._block(node, width)
            if lines and drawn and not is_tight:
                lines.append(Text())
            lines += drawn
        return lines

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        palette = self._palette
        match node.type:
            case "paragraph":
                return wrap_text(self._inline(node), width)
            case "heading":
                return wrap_text(self._heading(node), width)
            case "fence" | "code_block":
                return self._code(node.content, node.info or "", width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "blockquote":
                return self._quote(node, width)
            case "hr":
                return [Text("─" * min(width, 40), palette.rule)]
            case "table":
                return draw_table(self._cells(node), width, palette)
            case "inline":
                return wrap_text(self._inline_children(node), width)
            case _:
                return wrap_text(Text(node.content or "", palette.text), width)

    def _heading(self, node: SyntaxTreeNode) -> Text:
        palette = self._palette
        style = palette.mark if node.tag in ("h1", "h2") else palette.strong
        made = Text(style=style)
        made.append_text(self._inline(node))
        made.stylize(style)
        return made

    def _code(self, code: str, language: str, width: int) -> list[Text]:
        palette = self._palette
        drawn = highlight(code.rstrip("\n"), language, palette)
        lines = []
        for line in wrap_text(drawn, max(1, width - 2), keep_spaces=True):
            padded = Text(" ", palette.code_ground)
            padded.append_text(line)
            padded.append(" " * max(0, width - 1 - line.cell_len))
            padded.stylize(Style(bgcolor=palette.panel))
            lines.append(padded)
        return lines

    def _list(self, node: SyntaxTreeNode, width: int, depth: int = 0) -> list[Text]:
        is_ordered = node.type == "ordered_list"
        first = _start_of(node) if is_ordered else 0
        marks = [
            f"{first + number}." if is_ordered else _BULLETS[depth % len(_BULLETS)]
            for number in range(len(node.children))
        ]
        room = max(map(cell_len, marks), default=1) + 1
        is_tight = _is_tight(node)
        lines: list[Text] = []
        for mark, item in zip(marks, node.children, strict=True):
            body: list[Text] = []
            for child in item.children:
                if child.type in ("bullet_list", "ordered_list"):
                    drawn = self._list(child, max(4, width - room), depth + 1)
                else:
                    drawn = self._block(child, max(4, width - room))
                if body and not is_tight:
                    body.append(Text())
                body += drawn
            if lines and not is_tight:
                lines.append(Text())
            lines += _hang(mark.rjust(room - 1), body, room, self._palette.of("accent"))
        return lines

    def _quote(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        lines = []
        for line in self.blocks(node.children, max(4, width - 2)):
            made = Text.assemble(("▎ ", self._palette.rule))
            line.stylize_before(self._palette.thought)
            made.append_text(line)
            lines.append(made)
        return lines

    def _cells(self, table: SyntaxTreeNode) -> list[list[Text]]:
        """Return the rows of a table, its head first."""
        return [
            [self._inline(cell) for cell in row.children]
            for part in table.children
            for row in part.children
        ]

    # -- inline ----------------------------------------------------------------------------------

    def _inline(self, node: SyntaxTreeNode) -> Text:
        made = Text(style=self._palette.text)
        for child in node.children:
            made.append_text(self._inline_children(child))
        return made

    def _inline_children(self, node: SyntaxTreeNode) -> Text:
        made = Text(style=self._palette.text)
        for child in node.children:
            made.append_text(self._span(child))
        return made

    def _span(self, node: SyntaxTreeNode) -> Text:
        palette = self._palette
        match node.type:
            case "text" | "text_special" | "html_inline":
                return Text(node.content, palette.text)
            case "code_inline":
                return Text(node.content, palette.code)
            case "softbreak":
                return Text(" ")
            case "hardbreak":
                return Text("\n")
            case "strong":
                return self._styled(node, Style(bold=True))
            case "em":
                return self._styled(node, Style(italic=True))
            case "s":
                return self._styled(node, Style(strike=True))
            case "link":
                return self._link(node)
            case "image":
                about = node.content or str(node.attrs.get("src", ""))
                return Text(f"[image: {about}]", palette.dim)
            case _:
                return self._inline_children(node) if node.children else Text(node.content or "")

    def _styled(self, node: SyntaxTreeNode, style: Style) -> Text:
        made = self._inline_children(node)
        made.stylize(style)
        return made

    def _link(self, node: SyntaxTreeNode) -> Text:
        """Draw a link's words and, if it differs, its address, so that no address is hidden."""
        made = self._inline_children(node)
        address = safe_text.one_line(str(node.attrs.get("href", "")))
        words = made.plain
        made.stylize(self._palette.link)
        if address and words.strip() not in (address, address.removeprefix("mailto:")):
            made.append(f" ({address})", self._palette.dim)
        return made


def _hang(mark: str, body: list[Text], room: int, style: Style) -> list[Text]:
    """Lay out a list item: the mark, its first line beside it, the others below that."""
    lines = []
    for number, line in enumerate(body or [Text()]):
        made = Text.assemble((mark if number == 0 else " " * (room - 1), style), " ")
        made.append_text(line)
        lines.append(made)
    return lines


def _is_tight(node: SyntaxTreeNode) -> bool:
    """Whether the list was written without blank lines: its paragraphs are hidden ones."""
    return all(
        child.hidden
        for item in node.children
        for child in item.children
        if child.type == "paragraph"
    )


def _start_of(node: SyntaxTreeNode) -> int:
    start = node.attrs.get("start", 1)
    return start if isinstance(start, int) else 1


def draw_table(rows: Sequence[Sequence[Text]], width: int, palette: Palette) -> list[Text]:
    """Draw the rows of a table; the first is the head."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    widths = _share(
        [max((row[i].cell_len for row in rows if i < len(row)), default=0) for i in range(columns)],
        width - len(_GAP) * (columns - 1),
    )
    if sum(widths) + len(_GAP) * (columns - 1) > width:
        return _stacked(rows, width, palette)
    lines: list[Text] = []
    for number, row in enumerate(rows):
        cells = [wrap_text(row[i] if i < len(row) else Text(), widths[i]) for i in range(columns)]
        for at in range(max(map(len, cells))):
            line = Text(_GAP).join(
                _padded(cell[at] if at < len(cell) else Text(), size)
                for cell, size in zip(cells, widths, strict=True)
            )
            if number == 0:
                line.stylize(palette.strong)
            line.rstrip()
            lines.append(line)
        if number == 0:
            rule = _GAP.join("─" * size for size in widths)
            lines.append(Text(rule, palette.rule))
    return lines


def _share(wanted: list[int], room: int) -> list[int]:
    """Share the room among the columns: if it is too narrow, the widest shrink first."""
    widths = [max(1, want) for want in wanted]
    excess = sum(widths) - room
    while excess > 0:
        widest = max(range(len(widths)), key=lambda i: widths[i])
        if widths[widest] <= _LEAST:
            break
        below = sorted({size for size in widths if size < widths[widest]} | {_LEAST})
        floor = max(_LEAST, below[-1])
        step = min(excess, max(1, widths[widest] - floor))
        widths[widest] -= step
        excess -= step
    return widths


def _stacked(rows: Sequence[Sequence[Text]], width: int, palette: Palette) -> list[Text]:
    """Draw a table that is too wide: each cell on its own line, under its column's head."""
    head, lines = rows[0], []
    for number, row in enumerate(rows[1:]):
        if number:
            lines.append(Text("─" * min(width, 20), palette.rule))
        for i, cell in enumerate(row):
            line = Text.assemble(head[i] if i < len(head) else "", (": ", palette.dim), cell)
            lines += wrap_text(line, width)
    return lines


def _padded(cell: Text, width: int) -> Text:
    made = cell.copy()
    made.append(" " * max(0, width - cell.cell_len))
    return made
