"""How the blocks of a conversation look: lines for a width, folded or whole. Pure.

Every text of a block goes through ``escaping`` on its way to a line.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sessiontree.tui import escaping
from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.blocks import Block, Status
from sessiontree.tui.transcript.markdown import Splitter, draw_markdown
from sessiontree.tui.transcript.styled_text import highlight
from sessiontree.tui.transcript.wrapping import wrap_text

MARGIN = 2
"""Columns left of everything but what the user said, which has its bar there."""

MAX_WIDTH = 120
"""Longer lines are hard to read."""

_MAX_OUTPUT_LINES = 1_000
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
    block: Block, width: int, palette: Palette, *, is_folded: bool, splitter: Splitter | None = None
) -> list[Text]:
    """The lines of one block."""
    width = min(width, MAX_WIDTH)
    room = max(8, width - 2 * MARGIN)
    match block.kind:
        case "user":
            return _said(block, width, palette)
        case "answer":
            lines = draw_markdown(block.text, room, palette, splitter)
            return _indented(lines)
        case "thinking":
            return _indented(_thinking(block, room, palette, is_folded))
        case "tool":
            return _indented(_tool(block, room, palette, is_folded))
        case "command":
            return _indented(_command(block, room, palette, is_folded))
        case "note":
            return _indented(_note(block, room, palette, is_folded))
        case "compaction":
            words = [word for word in ("Compacted", block.outcome) if word]
            return _indented(_summary(block, " · ".join(words), room, palette, is_folded))
        case "summary":
            title = "What happened on the branch you came from"
            return _indented(_summary(block, title, room, palette, is_folded))
        case "cleared":
            return _indented([_rule("The context was cleared here", room, palette)])
        case "image":
            return _indented([_image(block.text, room, palette)])
        case "error":
            return _indented(_marked("✗", block.text, room, palette.of("error")))
        case "state" | "notice":
            return _indented(wrap_text(Text(escaping.block(block.text), palette.dim), room))


def plain_text(block: Block) -> str:
    """What copying a block gives: its text as the session has it."""
    if block.kind == "command":
        return f"$ {block.title}\n{block.text}".rstrip("\n")
    return block.text or block.about or block.title


def _indented(lines: list[Text]) -> list[Text]:
    made = []
    for line in lines:
        moved = Text(" " * MARGIN)
        moved.append_text(line)
        made.append(moved)
    return made


def _said(block: Block, width: int, palette: Palette) -> list[Text]:
    text = Text(escaping.block(block.text.strip("\n")), palette.text)
    lines = wrap_text(text, max(8, width - 2 * MARGIN)) if block.text.strip() else []
    lines += [_image(image, max(8, width - 2 * MARGIN), palette) for image in block.images]
    made = []
    for line in lines or [Text("(empty)", palette.dim)]:
        said = Text.assemble(("▌ ", palette.of("accent")))
        said.append_text(line)
        said.append(" " * max(0, width - said.cell_len))
        said.stylize_before(palette.said)
        made.append(said)
    return made


def _thinking(block: Block, width: int, palette: Palette, is_folded: bool) -> list[Text]:
    is_running = block.status == "running"
    title = "Thinking…" if is_running else "Thought"
    if not block.text.strip():
        return [Text(f"✦ {title}", palette.thought)]
    if is_folded:
        lines = block.text.strip().split("\n")
        # While it thinks the latest line moves; afterwards the first says what it was about.
        line = escaping.one_line(lines[-1] if is_running else lines[0]).strip("*# ")
        return [_headline("✦", title, line, "", width, palette, palette.of("muted"))]
    body = wrap_text(Text(escaping.block(block.text.strip()), palette.thought), width - 2)
    return [Text(f"✦ {title}", palette.thought), *_gutter(body, palette)]


def _tool(block: Block, width: int, palette: Palette, is_folded: bool) -> list[Text]:
    glyph, colour = _GLYPHS[block.status]
    outcome = block.outcome or ("stopped" if block.status == "stopped" else "")
    about = escaping.one_line(block.about)
    head = _headline(
        glyph, escaping.one_line(block.title), about, outcome, width, palette, palette.of(colour)
    )
    lines = [head]
    if block.status == "running":
        lines += _output(block.text, width, palette, last=_LIVE_LINES)
    elif not is_folded:
        if cell_len(about) > width // 2 or "\n" in block.about:
            lines += _gutter(wrap_text(Text(escaping.block(block.about)), width - 2), palette)
        lines += (
            _diff(block.text, width, palette)
            if block.is_diff
            else _output(block.text, width, palette)
        )
    elif block.status == "failed":
        lines += _output(block.text, width, palette, last=_FAILED_LINES, style=palette.of("error"))
    lines += _gutter([_image(image, width - 2, palette) for image in block.images], palette)
    return lines


def _command(block: Block, width: int, palette: Palette, is_folded: bool) -> list[Text]:
    glyph, colour = _GLYPHS[block.status]
    words = [block.outcome, "not shown to the model" if block.is_excluded else ""]
    head = _headline(
        glyph if block.status not in ("done", "") else "$",
        escaping.one_line(block.title),
        "",
        " · ".join(word for word in words if word),
        width,
        palette,
        palette.of(colour if block.status not in ("done", "") else "secondary"),
    )
    return [head, *_output(block.text, width, palette, last=_COMMAND_LINES if is_folded else None)]


def _note(block: Block, width: int, palette: Palette, is_folded: bool) -> list[Text]:
    title = escaping.one_line(block.title)
    lines = draw_markdown(block.text, width - 2, palette)
    if is_folded and len(lines) > _COMMAND_LINES:
        more = len(lines) - _COMMAND_LINES
        words = "1 more line" if more == 1 else f"{more:,} more lines"
        lines = [*lines[:_COMMAND_LINES], Text(f"… {words}", palette.dim)]
    lines += [_image(image, width - 2, palette) for image in block.images]
    head = Text(escaping.fit(f"◆ {title}", width), palette.of("secondary"))
    return [head, *_gutter(lines, palette)]


def _summary(block: Block, title: str, width: int, palette: Palette, is_folded: bool) -> list[Text]:
    lines = [_rule(title, width, palette)]
    if is_folded:
        short = escaping.one_line((block.title or block.text).strip()).strip("# ")
        if short:
            lines.append(Text(escaping.fit(short, width), palette.dim))
        return lines
    return [*lines, *draw_markdown(block.text, width, palette)]


# -- pieces --------------------------------------------------------------------------------------


def _headline(
    glyph: str, name: str, about: str, outcome: str, width: int, palette: Palette, mark: Style
) -> Text:
    """``✓ read  src/app.py            12 lines``."""
    line = Text.assemble((f"{glyph} ", mark))
    right = "  " + escaping.fit(escaping.one_line(outcome), width // 2) if outcome else ""
    room = max(4, width - 2 - cell_len(right))
    shown = escaping.fit(name, room)
    line.append(shown, palette.text)
    left = room - cell_len(shown) - 2
    if about and left > 3:
        line.append("  " + escaping.fit(about, left), palette.dim)
    line.append(right, palette.dim)
    return line


def _image(words: str, width: int, palette: Palette) -> Text:
    return Text(escaping.fit(f"▣ {escaping.one_line(words)}", width), palette.dim)


def _rule(title: str, width: int, palette: Palette) -> Text:
    shown = escaping.fit(escaping.one_line(title), max(4, width - 8))
    line = Text.assemble(("── ", palette.rule), (shown, palette.of("warning")), " ")
    line.append("─" * max(0, min(width, 72) - line.cell_len), palette.rule)
    return line


def _gutter(lines: list[Text], palette: Palette) -> list[Text]:
    made = []
    for line in lines:
        with_bar = Text.assemble(("│ ", palette.rule))
        with_bar.append_text(line)
        made.append(with_bar)
    return made


def _output(
    text: str, width: int, palette: Palette, last: int | None = None, style: Style | None = None
) -> list[Text]:
    """What a command or tool printed; only its last lines if so wanted."""
    shown = escaping.terminal_output(text).strip("\n")
    if not shown.strip():
        return []
    source = shown.split("\n")
    limit = last if last is not None else _MAX_OUTPUT_LINES
    hidden = max(0, len(source) - limit)
    note: list[Text] = []
    if hidden:
        source = source[-limit:]
        lines = "1 earlier line" if hidden == 1 else f"{hidden:,} earlier lines"
        note = [Text(f"… {lines}", palette.dim)]
    body = Text("\n".join(source), style or palette.dim)
    return _gutter([*note, *wrap_text(body, width - 2, keep_spaces=True)], palette)


def _diff(text: str, width: int, palette: Palette) -> list[Text]:
    safe = escaping.block(text).strip("\n")
    drawn = highlight(safe, "diff", palette)
    lines = wrap_text(drawn, width - 2, keep_spaces=True)[:_MAX_OUTPUT_LINES]
    return _gutter(lines, palette)


def _marked(mark: str, text: str, width: int, style: Style) -> list[Text]:
    lines = wrap_text(Text(escaping.block(text.strip()), style), width - 2)
    return [
        Text.assemble((f"{mark} " if number == 0 else "  ", style), line)
        for number, line in enumerate(lines)
    ]
