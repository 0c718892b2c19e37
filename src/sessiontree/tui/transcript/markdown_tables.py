"""A table in columns that fit the width; when there is not enough of it, cells wrap. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.wrapping import wrap_text

_GAP = "  "
_LEAST = 4


def draw_table(rows: Sequence[Sequence[Text]], width: int, palette: Palette) -> list[Text]:
    """The rows as lines; the first is the head."""
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
    """Column widths: what they want if there is room, else the widest give way first."""
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
    """Too many columns for the width: each cell on a line of its own, under its head."""
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
