"""Highlight code with Pygments in the palette's colours, and wrap styled text. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Token  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sessiontree.tui.palette import Palette

MAX_HIGHLIGHTED = 20_000
"""Longer code stays plain, because highlighting it would cause a pause."""

_ALIASES = {"console": "bash", "shell": "bash", "sh": "bash", "jsonl": "json", "text": ""}
_WORD = re.compile(r"\s*\S+\s*|\s+")


def highlight(code: str, language: str, palette: Palette) -> Text:
    """Highlight safe code; plain if the language is unknown."""
    lexer = _lexer(language.strip().split(" ")[0].casefold())
    if lexer is None or len(code) > MAX_HIGHLIGHTED:
        return Text(code, palette.text)
    styles = _styles(palette)
    made = Text(style=palette.text)
    # Several lexers recognize a line only by its line break.
    for token, value in lexer.get_tokens(f"{code}\n"):
        made.append(value, _style_of(token, styles))
    return made[: len(code)]


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    name = _ALIASES.get(language, language)
    if not name or len(name) > 40:
        return None
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=4)
def _styles(palette: Palette) -> dict[object, Style]:
    return {
        Token.Comment: palette.thought,
        Token.Keyword: palette.of("secondary"),
        Token.Name.Function: palette.of("accent"),
        Token.Name.Class: palette.of("accent"),
        Token.Name.Tag: palette.of("accent"),
        Token.Name.Decorator: palette.of("warning"),
        Token.Literal.String: palette.of("success"),
        Token.Literal.Number: palette.of("warning"),
        Token.Generic.Deleted: palette.of("error"),
        Token.Generic.Inserted: palette.of("success"),
        Token.Generic.Heading: palette.strong,
        Token.Operator.Word: palette.of("secondary"),
    }


def _style_of(token: object, styles: dict[object, Style]) -> Style:
    while token is not None:
        style = styles.get(token)
        if style is not None:
            return style
        token = getattr(token, "parent", None)
    return Style.null()


def wrap_text(text: Text, width: int, *, keep_spaces: bool = False) -> list[Text]:
    """Wrap the text in lines of at most ``width`` columns; cut words that are too long.

    ``keep_spaces`` is for code: lines break anywhere and no space is lost.
    """
    width = max(1, width)
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            lines.append(line)
        elif keep_spaces:
            lines += line.divide(_hard_cuts(line.plain, width))
        else:
            lines += _divide_words(line, width)
    return lines


def _divide_words(line: Text, width: int) -> list[Text]:
    cuts: list[int] = []
    used = 0
    for found in _WORD.finditer(line.plain):
        word = found[0]
        full, bare = cell_len(word), cell_len(word.rstrip())
        if used and used + bare > width:
            cuts.append(found.start())
            used = 0
        if bare > width:
            inner = _hard_cuts(word.rstrip(), width)
            cuts += [found.start() + cut for cut in inner]
            used = cell_len(word[inner[-1] :]) if inner else full
        else:
            used += full
    pieces = list(line.divide(cuts))
    for piece in pieces:
        piece.rstrip()
    return pieces


def _hard_cuts(text: str, width: int) -> list[int]:
    """Find where to cut so that each piece fits."""
    cuts: list[int] = []
    used = 0
    for index, letter in enumerate(text):
        size = cell_len(letter)
        if used + size > width and used:
            cuts.append(index)
            used = 0
        used += size
    return cuts
