"""An exported document is text: shown in a browser, it runs nothing and leads nowhere odd."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sessiontree.export import markdown_safety as safe

# fmt: off
_PIECES = st.sampled_from([
    "<script>", "<img src=x onerror=y>", "</details>", "<a href='x'>", "<javascript:x>", "<", ">",
    "[a](", "![a](", "](", ")", "(", "[a]: ", "[a]:", "[a]", "javascript:x", "java&#115;cript:x",
    "javascript&colon;x", "javascript\\:x", "data:text/html,x", "`", "``", "```", "\\", ":", "&lt;",
    "\n", "\n\n", "- ", "> ", "1. ", " ", "    ", "\t", "x", "&#60;script>", "\xa0",
])
# fmt: on
_ACTIVE = st.lists(_PIECES, max_size=14).map("".join)


@given(_ACTIVE | st.text(max_size=60))
@example("`\n` <script> `")
@example("a ` b\n- c <script> `")
@example("\\<script>")
@example("[a](\njavascript:x)")
@example("[a]:\njavascript:x\n\n[a]")
@example("[a`](`javascript:x)")
@example("```<script>`")
@example("```<javascript:x>`")
def test_a_browser_that_shows_the_document_runs_nothing_of_it(text: str) -> None:
    parser = MarkdownIt("commonmark")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    waiting = parser.parse(f"# T\n\n{safe.contain(text)}\n\n[a]\n")
    while waiting:
        token = waiting.pop()
        waiting += token.children or []
        assert token.type not in ("html_block", "html_inline")
        target = str(token.attrGet("href") or token.attrGet("src") or "")
        assert ":" not in re.split("[/?#]", target)[0] or target.startswith(("http", "mailto:"))


@pytest.mark.parametrize(
    "text",
    [
        "a List<String> is `<div>`",
        "see [the page](https://example.org/a:b) and <https://example.org>",
        "[here](src/a.py#L1), [there](/x) and [up](../y)",
        "```html\n<script>\n```\nthen `<b>`",
        "if a < b and c > d",
        "[1]: https://example.org",
    ],
)
def test_html_and_links_read_as_they_were_meant(text: str) -> None:
    shown = MarkdownIt("commonmark").render(safe.contain(text))
    plain = html.unescape(re.sub("<[^>]*>", "", shown))
    for word in re.findall(r"List<String>|<div>|<script>|<b>|a < b", text):
        assert word in plain
    for target in re.findall(r"\]\(([^)]*)\)|<(https?:[^>]*)>", text):
        assert f'href="{"".join(target)}"' in shown
