"""Code and differences as HTML: colours by Pygments, added and removed lines marked. Pure.

Pygments belongs to the extras; without it code is plain. It reads about 300 KB a second, so only so
much of a page is coloured (``Colours``): code beyond that, and any single long text, stays plain.
"""

from __future__ import annotations

import difflib
import os
from functools import lru_cache
from typing import TYPE_CHECKING

from sessiontree.export.html.markup import clean, escape

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

MAX_HIGHLIGHTED = 20_000
"""Characters of one text that is still coloured."""
PAGE_HIGHLIGHTED = 150_000
"""Characters that are coloured on one page."""
_MAX_DIFF_LINES = 1_500
"""Lines of both sides for which a difference is worked out."""

_ALIASES = {"console": "bash", "shell": "bash", "sh": "bash", "zsh": "bash", "jsonl": "json"}
_BY_ENDING = {
    "bash": "bash", "c": "c", "cc": "cpp", "cpp": "cpp", "cs": "csharp", "css": "css",
    "diff": "diff", "go": "go", "h": "c", "hpp": "cpp", "html": "html", "java": "java",
    "js": "javascript", "json": "json", "jsx": "jsx", "kt": "kotlin", "lua": "lua",
    "md": "markdown", "mjs": "javascript", "php": "php", "pl": "perl", "py": "python",
    "rb": "ruby", "rs": "rust", "scss": "scss", "sh": "bash", "sql": "sql", "swift": "swift",
    "toml": "toml", "ts": "typescript", "tsx": "tsx", "xml": "xml", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
_CLASSES = {
    "Comment": "c",
    "Keyword": "k",
    "Operator.Word": "k",
    "Name.Function": "f",
    "Name.Class": "f",
    "Name.Tag": "f",
    "Name.Attribute": "a",
    "Name.Decorator": "a",
    "Name.Builtin": "b",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Generic.Deleted": "del",
    "Generic.Inserted": "ins",
    "Generic.Heading": "f",
}


class Colours:
    """Colours code until a page has had its share."""

    def __init__(self, left: int = PAGE_HIGHLIGHTED) -> None:
        self._left = left

    def paint(self, code: str, language: str) -> str:
        """The code as the content of an element; plain if the language is not known."""
        safe = clean(code)
        if not language or len(safe) > min(MAX_HIGHLIGHTED, self._left):
            return escape(safe)
        lexer = _lexer(language.strip().casefold())
        if lexer is None:
            return escape(safe)
        self._left -= len(safe)
        return _paint(safe, lexer)


def language_of(path: str) -> str:
    """The language that a file's ending stands for; empty if none is known."""
    return _BY_ENDING.get(os.path.splitext(path)[1].lstrip(".").lower(), "")


def _paint(safe: str, lexer: Lexer) -> str:
    pieces: list[str] = []
    last, run = "", ""
    size = 0
    # Several lexers know a line only by its end, so it gets one, which is cut off again.
    for token, value in lexer.get_tokens(f"{safe}\n"):
        value = value[: len(safe) - size]
        size += len(value)
        kind = _class_of(token)
        if kind == last:
            run += value
            continue
        _put(pieces, last, run)
        last, run = kind, value
    _put(pieces, last, run)
    if size != len(
        safe
    ):  # a lexer that drops or adds characters is not to be trusted with the text
        return escape(safe)
    return "".join(pieces)


def _put(pieces: list[str], kind: str, run: str) -> None:
    if run:
        pieces.append(f'<span class="{kind}">{escape(run)}</span>' if kind else escape(run))


@lru_cache(maxsize=256)
def _class_of(token: object) -> str:
    name = str(token).removeprefix("Token.")
    while name:
        if name in _CLASSES:
            return _CLASSES[name]
        name = name.rpartition(".")[0]
    return ""


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    name = _ALIASES.get(language, language)
    if not name or len(name) > 40:
        return None
    try:
        from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
        from pygments.util import ClassNotFound  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return None
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


# -- differences -----------------------------------------------------------------------------------


def draw_change(old: str, new: str) -> str:
    """Draw an edit: the lines it takes out and puts in, with those around them."""
    before, after = clean(old).splitlines(), clean(new).splitlines()
    if len(before) + len(after) > _MAX_DIFF_LINES:
        lines = [f"-{line}" for line in before] + [f"+{line}" for line in after]
    else:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return draw_diff("\n".join(lines))


def draw_diff(diff: str) -> str:
    """The lines of a difference, each marked by what it begins with."""
    return "\n".join(_diff_line(line) for line in clean(diff).split("\n"))


def _diff_line(line: str) -> str:
    kind = {"+": "ins", "-": "del", "@": "c"}.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)
