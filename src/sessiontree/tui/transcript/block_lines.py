"""Draw the blocks of a conversation as lines for a width, folded or whole. Pure.

Every text of a block goes through ``safe_text`` on its way to a line. Texts may have any length;
the lines of long ones are made only when they are shown (`long_text`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.blocks import Block, Status
from sessiontree.tui.transcript.long_text import Draw, Rows, each, is_long, stack
from sessiontree.tui.transcript.markdown import Growth, draw_markdown
from sessiontree.tui.transcript.styled_text import highlight, wrap_text

MARGIN = 2
"""Columns left of every block; for the user's prompts they hold the bar."""

MAX_WIDTH = 120
"""Longer lines are hard to read."""

_MOST_IN_A_LINE = 2_000
"""Characters of a text to look at for one line."""
_MOST_ROWS_OF_A_LINE = 4
_LEAST_NAME = 24
"""Columns that a session's name on the start page gets at least."""
_LIVE_LINES = 6
_FAILED_LINES = 4
_COMMAND_LINES = 10
_GLYPHS: dict[Status, tuple[str, str]] = {
    "": ("·", "muted"),
    "running": ("●", "warning"),
    "done": ("✓", "success"),
    "failed": ("✗", "error"),
    "stopped": ("■", "muted"),
}


def draw_block(
    block: Block, width: int, palette: Palette, *, is_folded: bool, growth: Growth | None = None
) -> Sequence[Text]:
    """Draw the lines of one block. Pass a growing block its own ``Growth``."""
    width = min(width, MAX_WIDTH)
    room = max(8, width - 2 * MARGIN)
    growth = growth or Growth()
    match block.kind:
        case "user":
            return _said(block, width, palette, growth)
        case "answer":
            return _indented(draw_markdown(block.text, room, palette, growth))
        case "thinking":
            return _indented(_thinking(block, room, palette, is_folded, growth))
        case "tool":
            return _indented(_tool(block, room, palette, is_folded, growth))
        case "command":
            return _indented(_command(block, room, palette, is_folded, growth))
        case "note":
            return _indented(_note(block, room, palette, is_folded, growth))
        case "compaction":
            words = [word for word in ("Compacted", block.outcome) if word]
            title = " · ".join(words)
            return _indented(_summary(block, title, room, palette, is_folded, growth))
        case "summary":
            title = "What happened on the branch you came from"
            return _indented(_summary(block, title, room, palette, is_folded, growth))
        case "cleared":
            return _indented([_rule("The context was cleared here", room, palette)])
        case "image":
            return _indented([_image(block.text, room, palette)])
        case "error":
            return _indented(_marked("✗", block.text, room, palette.of("error"), growth))
        case "start":
            return _indented(_start_page(block.text, room, palette))
        case "state" | "notice":
            return _indented(_plain(safe_text.block(block.text), room, palette.dim, growth))


def plain_text(block: Block) -> str:
    """Return the text that copying a block yields: as the session has it."""
    if block.kind == "command":
        return f"$ {block.title}\n{block.text}".rstrip("\n")
    return block.text or block.about or block.title


def _indented(lines: Sequence[Text]) -> Sequence[Text]:
    return each(lines, lambda line: Text(" " * MARGIN).append_text(line))


def _said(block: Block, width: int, palette: Palette, growth: Growth) -> Sequence[Text]:
    room = max(8, width - 2 * MARGIN)
    text = safe_text.block(block.text.strip("\n"))
    lines = _plain(text, room, palette.text, growth) if block.text.strip() else []
    lines = stack(lines, [_image(image, room, palette) for image in block.images])

    def draw(line: Text) -> Text:
        said = Text.assemble(("▌ ", palette.of("accent")))
        said.append_text(line)
        said.append(" " * max(0, width - said.cell_len))
        said.stylize_before(palette.said)
        return said

    return each(lines or [Text("(empty)", palette.dim)], draw)


def _start_page(text: str, width: int, palette: Palette) -> list[Text]:
    """The start page: the program's name, facts, and sessions whose names get all the room."""
    title, *lines = text.split("\n")
    drawn = [Text(safe_text.fit(safe_text.block(title), width), palette.of("accent", bold=True))]
    rows = [tuple(map(safe_text.block, line.partition("\t"))) for line in lines]
    longest = max((cell_len(name) for name, tab, _ in rows if tab), default=0)
    rest_width = max((cell_len(rest) for _, tab, rest in rows if tab), default=0)
    name_width = min(longest, max(_LEAST_NAME, width - rest_width - 3))
    for name, tab, rest in rows:
        if not tab:
            drawn += wrap_text(Text(name, palette.dim), width)
            continue
        fitted = safe_text.fill(safe_text.fit(name, name_width), name_width)
        room = width - name_width - 3
        drawn.append(
            Text.assemble((fitted, palette.text), ("   " + safe_text.fit(rest, room), palette.dim))
            if room > 0
            else Text(safe_text.fit(name, width), palette.text)
        )
    return drawn


def _thinking(
    block: Block, width: int, palette: Palette, is_folded: bool, growth: Growth
) -> Sequence[Text]:
    is_running = block.status == "running"
    title = "Thinking…" if is_running else "Thought"
    text = block.text.strip()
    if not text:
        return [Text(f"✦ {title}", palette.thought)]
    if is_folded:
        # While the model thinks show the latest line; afterwards the first, as a title.
        line = _first(text.rpartition("\n")[2] if is_running else text).strip("*# ")
        return [_headline("✦", title, line, "", width, palette, palette.of("muted"))]
    body = _plain(safe_text.block(text), width - 2, palette.thought, growth)
    return stack([Text(f"✦ {title}", palette.thought)], _gutter(body, palette))


def _tool(
    block: Block, width: int, palette: Palette, is_folded: bool, growth: Growth
) -> Sequence[Text]:
    glyph, colour = _GLYPHS[block.status]
    outcome = block.outcome or ("stopped" if block.status == "stopped" else "")
    about = safe_text.one_line(block.about[:_MOST_IN_A_LINE])
    title = _first(block.title)
    head = _headline(glyph, title, about, outcome, width, palette, palette.of(colour))
    whole: Sequence[Text] = []
    lines: Sequence[Text] = []
    if block.status == "running":
        lines = _output(block.text, width, palette, last=_LIVE_LINES)
    elif not is_folded:
        if cell_len(about) > width // 2 or "\n" in block.about:
            whole = _gutter(_plain(safe_text.block(block.about), width - 2, Style()), palette)
        if block.is_diff:
            lines = _diff(block.text, width, palette, growth)
        else:
            lines = _output(block.text, width, palette, growth=growth)
            if block.written:
                text = safe_text.block(block.written.rstrip("\n"))
                body = _plain(text, width - 2, palette.text, keep_spaces=True)
                lines = stack(_gutter(body, palette), lines)
    elif block.status == "failed":
        lines = _output(block.text, width, palette, last=_FAILED_LINES, style=palette.of("error"))
    images = _gutter([_image(image, width - 2, palette) for image in block.images], palette)
    return stack([head], whole, lines, images)


def _command(
    block: Block, width: int, palette: Palette, is_folded: bool, growth: Growth
) -> Sequence[Text]:
    glyph, colour = _GLYPHS[block.status]
    words = [block.outcome, "not shown to the model" if block.is_excluded else ""]
    head = _headline(
        glyph if block.status not in ("done", "") else "$",
        safe_text.one_line(block.title[:_MOST_IN_A_LINE]),
        "",
        " · ".join(word for word in words if word),
        width,
        palette,
        palette.of(colour if block.status not in ("done", "") else "secondary"),
    )
    last = _COMMAND_LINES if is_folded else None
    return stack([head], _output(block.text, width, palette, last=last, growth=growth))


def _note(
    block: Block, width: int, palette: Palette, is_folded: bool, growth: Growth
) -> Sequence[Text]:
    lines = draw_markdown(block.text, width - 2, palette, growth)
    if is_folded and len(lines) > _COMMAND_LINES:
        more = len(lines) - _COMMAND_LINES
        words = "1 more line" if more == 1 else f"{more:,} more lines"
        lines = [*lines[:_COMMAND_LINES], Text(f"… {words}", palette.dim)]
    lines = stack(lines, [_image(image, width - 2, palette) for image in block.images])
    head = Text(safe_text.fit(f"◆ {_first(block.title)}", width), palette.of("secondary"))
    return stack([head], _gutter(lines, palette))


def _summary(
    block: Block, title: str, width: int, palette: Palette, is_folded: bool, growth: Growth
) -> Sequence[Text]:
    lines = [_rule(title, width, palette)]
    if is_folded:
        short = safe_text.one_line((block.title or block.text).strip()[:_MOST_IN_A_LINE]).strip(
            "# "
        )
        if short:
            lines.append(Text(safe_text.fit(short, width), palette.dim))
        return lines
    return stack(lines, draw_markdown(block.text, width, palette, growth))


# -- pieces --------------------------------------------------------------------------------------


def _headline(
    glyph: str, name: str, about: str, outcome: str, width: int, palette: Palette, mark: Style
) -> Text:
    """``✓ read  src/app.py            12 lines``."""
    line = Text.assemble((f"{glyph} ", mark))
    right = "  " + safe_text.fit(safe_text.one_line(outcome), width // 2) if outcome else ""
    room = max(4, width - 2 - cell_len(right))
    shown = safe_text.fit(name, room)
    line.append(shown, palette.text)
    left = room - cell_len(shown) - 2
    if about and left > 3:
        line.append("  " + safe_text.fit(about, left), palette.dim)
    line.append(right, palette.dim)
    return line


def _image(words: str, width: int, palette: Palette) -> Text:
    return Text(safe_text.fit(f"▣ {safe_text.one_line(words)}", width), palette.dim)


def _rule(title: str, width: int, palette: Palette) -> Text:
    shown = safe_text.fit(safe_text.one_line(title), max(4, width - 8))
    line = Text.assemble(("── ", palette.rule), (shown, palette.of("warning")), " ")
    line.append("─" * max(0, min(width, 72) - line.cell_len), palette.rule)
    return line


def _first(text: str) -> str:
    """Return as much of a text's first line as can be shown, made safe."""
    return safe_text.one_line(text[:_MOST_IN_A_LINE].partition("\n")[0])


def _gutter(lines: Sequence[Text], palette: Palette) -> Sequence[Text]:
    return each(lines, lambda line: Text.assemble(("│ ", palette.rule)).append_text(line))


def _plain(
    safe: str,
    width: int,
    style: Style,
    growth: Growth | None = None,
    *,
    keep_spaces: bool = False,
) -> Sequence[Text]:
    """Split a safe text into lines."""
    if not is_long(safe):
        return wrap_text(Text(safe, style), width, keep_spaces=keep_spaces)
    rows = (growth or Growth()).rows(safe, width, words=not keep_spaces)
    return Rows(rows, lambda row, _: Text(row, style))


def _output(
    text: str,
    width: int,
    palette: Palette,
    last: int | None = None,
    style: Style | None = None,
    growth: Growth | None = None,
) -> Sequence[Text]:
    """Draw the output of a command or tool, or only its last lines."""
    shown = safe_text.terminal_output(text).strip("\n")
    if not shown.strip():
        return []
    if last is None:
        body = _plain(shown, width - 2, style or palette.dim, growth, keep_spaces=True)
        return _gutter(body, palette)
    start = len(shown)
    for _ in range(last):
        start = shown.rfind("\n", 0, start)
        if start < 0:
            break
    hidden = shown.count("\n", 0, start + 1)
    note: list[Text] = []
    if hidden:
        lines = "1 earlier line" if hidden == 1 else f"{hidden:,} earlier lines"
        note = [Text(f"… {lines}", palette.dim)]
    # Only the end, so that a huge line is not laid out as a whole.
    room = (width - 2) * last * _MOST_ROWS_OF_A_LINE
    tail = shown[start + 1 :][-room:]
    body = wrap_text(Text(tail, style or palette.dim), width - 2, keep_spaces=True)
    return _gutter([*note, *body], palette)


def _diff(text: str, width: int, palette: Palette, growth: Growth) -> Sequence[Text]:
    safe = safe_text.block(text).strip("\n")
    if not is_long(safe):
        drawn = highlight(safe, "diff", palette)
        return _gutter(wrap_text(drawn, width - 2, keep_spaces=True), palette)
    rows = Rows(growth.rows(safe, width - 2), diff_row(palette))
    return _gutter(rows, palette)


def diff_row(palette: Palette) -> Draw:
    """Draw a row of a diff that is too long to colour as a whole."""
    styles = {"+": palette.of("success"), "-": palette.of("error")}

    def draw(row: str, begins_line: bool) -> Text:
        return Text(row, styles.get(row[:1], palette.text) if begins_line else palette.text)

    return draw


def _marked(mark: str, text: str, width: int, style: Style, growth: Growth) -> Sequence[Text]:
    safe = safe_text.block(text.strip())
    if is_long(safe):
        lines = _plain(safe, width - 2, style, growth)
        return stack([Text(mark, style)], each(lines, lambda line: Text("  ").append_text(line)))
    return [
        Text.assemble((f"{mark} " if number == 0 else "  ", style), line)
        for number, line in enumerate(wrap_text(Text(safe, style), width - 2))
    ]
