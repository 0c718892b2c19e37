"""Render what people and models write as HTML: Markdown by markdown-it-py, else paragraphs.

markdown-it-py belongs to the extras. Without it, for a text that is too long or too deeply nested,
and once a page has had its share (it reads about 1 MB a second), this module recognizes
paragraphs and fenced code, and shows the rest as it was written: plain, but complete.

Nothing of the text is passed through: HTML in it is shown as text, addresses go through
``safe_url``, and images become words, because a page never loads anything.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from sessiontree.export.html.code import Colours
from sessiontree.export.html.markup import attribute, clean, escape, safe_url, text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token

MAX_CHARACTERS = 100_000
"""Characters of one text that is still read as Markdown."""
PAGE_CHARACTERS = 800_000
"""Characters of a page that are read as Markdown."""
_MAX_MARKS = 6_000
_MARKS = "*_`[<|~\\&"
_MAX_NESTING = 40
# What markdown-it would drop because it is nested too deeply is not meant as Markdown anyway.
_TOO_DEEP = re.compile(
    r"^(?!(?:[- \t]+|[* \t]+)$)(?:[ \t]*+(?:>|(?:[*+-]|\d++[.)])(?=[ \t]|$))){20}", re.MULTILINE
)
_IS_MARKED = re.compile(r"[*_`\[<|~\\&!]|^[ \t]*(?:#|>|[-+=]|\d+[.)])|^(?: {4}|\t)", re.MULTILINE)
_FENCE = re.compile(
    r"^(```+|~~~+)([^\n`]*)\n(.*?)(?:^\1[`~]*[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL
)
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


class Prose:
    """Renders the texts of one page."""

    def __init__(self, colours: Colours, left: int = PAGE_CHARACTERS) -> None:
        self._colours = colours
        self._left = left
        self._parser = _make_parser(colours)

    def render(self, source: str) -> str:
        """The text as the content of an element that may hold blocks."""
        safe = clean(source).strip("\n")
        if _IS_MARKED.search(safe) is None:
            return "".join(f"<p>{escape(part)}</p>" for part in _BLANK_LINES.split(safe) if part)
        if self._parser is None or self._is_too_much(safe):
            return self._plain(safe)
        self._left -= len(safe)
        return str(self._parser.render(safe))

    def _is_too_much(self, safe: str) -> bool:
        return (
            len(safe) > min(MAX_CHARACTERS, self._left)
            or sum(map(safe.count, _MARKS)) > _MAX_MARKS
            or _TOO_DEEP.search(safe) is not None
        )

    def _plain(self, safe: str) -> str:
        pieces = []
        done = 0
        for fence in _FENCE.finditer(safe):
            pieces += [_as_written(safe[done : fence.start()])]
            pieces += [self._code(fence[3].removesuffix("\n"), fence[2])]
            done = fence.end()
        return "".join((*pieces, _as_written(safe[done:])))

    def _code(self, code: str, info: str) -> str:
        return code_block(self._colours, code, info)


def code_block(colours: Colours, code: str, info: str) -> str:
    """A block of code; ``info`` is what stands behind the fence."""
    words = info.split(maxsplit=1)
    return f'<pre tabindex="0"><code>{colours.paint(code, words[0] if words else "")}</code></pre>'


def _as_written(safe: str) -> str:
    safe = safe.strip("\n")
    return f'<p class="as-written">{escape(safe)}</p>' if safe.strip() else ""


def _make_parser(colours: Colours) -> MarkdownIt | None:
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        return None
    options = {"html": False, "linkify": False, "typographer": False, "maxNesting": _MAX_NESTING}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    # Every address comes to the rules below, which decide; refused here it would stay as Markdown.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005

    def fence(
        _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
    ) -> str:
        token = tokens[at]
        return code_block(colours, token.content.removesuffix("\n"), token.info)

    parser.add_render_rule("fence", fence)
    parser.add_render_rule("code_block", fence)
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _text(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    """Cleaned again: an entity such as ``&#x202e;`` is a character only now."""
    return text(tokens[at].content)


def _code_inline(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    return f"<code>{text(tokens[at].content)}</code>"


def _open_link(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: MutableMapping[str, Any]
) -> str:
    target = str(tokens[at].attrGet("href") or "")
    url = safe_url(target)
    env["link"] = "a" if url is not None else "span"
    if url is None:
        return f'<span class="target" title="{attribute(target)}">'
    return f'<a href="{attribute(url)}" rel="noopener noreferrer nofollow" target="_blank">'


def _close_link(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: MutableMapping[str, Any]
) -> str:
    del tokens, at
    return f"</{env.get('link', 'span')}>"


def _image(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    token = tokens[at]
    source = attribute(str(token.attrGet("src") or ""))
    return f'<span class="target" title="{source}">[image: {text(token.content)}]</span>'


def _heading(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    """Below the page's title and the message's own heading."""
    token = tokens[at]
    level = min(6, int(token.tag[1:]) + 2)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>"


def _cell(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    """The alignment as a class: the page allows no style in an element."""
    token = tokens[at]
    side = str(token.attrGet("style") or "").removeprefix("text-align:")
    return f'<{token.tag} class="{side}">' if side in ("right", "center") else f"<{token.tag}>"


def _open_table(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    del tokens, at
    return '<div class="table" tabindex="0"><table>'


def _close_table(
    _: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: MutableMapping[str, Any]
) -> str:
    del tokens, at
    return "</table></div>"


_RULES = {
    "text": _text,
    "code_inline": _code_inline,
    "link_open": _open_link,
    "link_close": _close_link,
    "image": _image,
    "heading_open": _heading,
    "heading_close": _heading,
    "th_open": _cell,
    "td_open": _cell,
    "table_open": _open_table,
    "table_close": _close_table,
}
