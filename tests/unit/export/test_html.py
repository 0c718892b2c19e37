"""A session as markup: only our own elements, all of the text, whatever the text is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.browser.attacks import hostile_session
from tests.samples import assistant, calling, header, message, result, user, write

from sessiontree.export.html import HtmlOptions, markup, render_html
from sessiontree.export.html.code import Colours, draw_change
from sessiontree.export.html.entries import Articles, Place, sketch_height
from sessiontree.export.html.prose import Prose
from sessiontree.export.view import open_view

_PIECES = st.sampled_from([
    "<script>", "</script>", "<img src=x onerror=y>", "</noscript>", "<!--", "-->", '"', "'", "<",
    ">", "&", "[a](", "![a](", "](", ")", "<a href='x'>", "javascript:x", "java&#115;cript:x",
    "data:text/html,x", "https://example.org/", "mailto:a@b", "[a]: ", "[a]", "`", "```", "~~~",
    "```html\n", "\\", "&lt;", "&#x202e;", "| a | b |\n|:-|-:|\n| ", "# ", "**", "_", "~~", "\n",
    "\n\n", "- ", "> ", "1. ", "    ", "\t", "x", "\u202e", "\x1b[31m", "\x00", "]]>",
    "//evil.example", "https:\\\\evil", "\u2028",
])  # fmt: skip
_TEXTS = st.lists(_PIECES, max_size=14).map("".join) | st.text(max_size=80)
_ALLOWED = {
    *("article", "h2", "h3", "h4", "h5", "h6", "p", "a", "span", "mark", "time", "small", "b"),
    *("strong", "s", "code", "pre", "details", "summary", "div", "table", "thead", "tbody", "tr"),
    *("th", "td", "ul", "ol", "li", "blockquote", "hr", "br", "figure", "figcaption", "img", "em"),
}
_ATTRIBUTES = {
    *("class", "id", "data-i", "href", "rel", "target", "title", "datetime", "tabindex", "src"),
    *("alt", "loading", "start"),
}


class _Reader(HTMLParser):
    """What a parser sees: elements, attributes, text. Every element must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _ALLOWED
        assert {name for name, _ in attrs} <= _ATTRIBUTES
        values = {name: value or "" for name, value in attrs}
        assert re.match(r"(https?://|mailto:|#m)", values.get("href", "#m"))
        assert re.match(
            r"data:image/(png|jpeg|gif|webp);base64,", values.get("src", "data:image/png;base64,")
        )
        if tag not in ("hr", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


@given(_TEXTS)
def test_text_is_never_markup(text: str) -> None:
    prose = Prose(Colours())
    read = "".join(_Reader(prose.render(text)).text)
    assert not re.search("[\u202a-\u202e\x00\x1b]", read)
    plain = Prose(Colours(), left=0)
    _Reader(plain.render(text))
    assert "".join(_Reader(f"<p>{markup.text(text)}</p>").text) == markup.clean(text)
    _Reader(f'<p title="{markup.attribute(text)}"></p>')


@given(_TEXTS, _TEXTS, st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "x"]))
def test_an_article_holds_only_our_elements(one: str, other: str, role: str) -> None:
    blocks = [
        {"type": "text", "text": one},
        {
            "type": "toolCall",
            "id": "1",
            "name": other,
            "arguments": {"path": one, "content": other},
        },
        {
            "type": "toolCall",
            "id": "2",
            "name": "edit",
            "arguments": {"oldText": one, "newText": other},
        },
        {"type": "image", "mimeType": "image/png", "data": other, "name": one},
        {"type": one},
    ]
    data = {"type": "message", "message": {
        "role": role, "content": blocks, "model": one, "command": other, "output": one,
        "errorMessage": other, "details": {"diff": one}, "customType": other}}  # fmt: skip
    made = Articles().make(Place(3, one, other, other), data)
    _Reader(made)


def test_a_sketch_is_nothing_exactly_where_there_is_no_article() -> None:
    """The viewer decides by it which entries a browser asks for."""
    odd: list[dict[str, Any]] = [
        {"type": "message", "message": each}
        for each in (
            {"role": "assistant", "content": []},
            {"role": "assistant", "content": None, "stopReason": "aborted"},
            {"role": "assistant", "content": "", "errorMessage": "x"},
            {"role": "assistant", "content": [{"type": "text", "text": " "}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "\n"}]},
            {"role": "assistant", "content": [{"type": "odd"}]},
            {"role": "assistant", "content": ["x", 7]},
            {"role": "system", "content": ""},
            {"role": "user", "content": ""},
            {},
        )
    ]
    odd += [{"type": "message", "message": "x"}, {"type": "custom_message", "display": False},
            {"type": "custom_message", "content": ""}, {"type": "model_change"},
            {"type": "label", "label": "x"}, {"type": "reset_boundary"}, {}]  # fmt: skip
    for entry in (*odd, *hostile_session()):
        made = Articles().make(Place(0, "e1", "2026-02-01T10:00:00Z"), entry)
        assert bool(sketch_height(entry)) == bool(made), entry


@given(_TEXTS)
def test_data_never_ends_its_element(text: str) -> None:
    spelled = markup.json_block({text: [text]})
    assert not re.search("[<>&\u2028\u2029]", spelled)
    assert json.loads(spelled) == {text: [text]}


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://example.org/a?b#c", True),
        ("HTTP://example.org", True),
        ("mailto:a@example.org", True),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)", False),
        ("java\nscript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("vbscript:x", False),
        ("file:///etc/passwd", False),
        ("//example.org", False),
        ("https:example.org", False),
        ("https://\\example.org", False),
        ("https://example.org/\u202eog", False),
        ("src/app.py", False),
        ("", False),
    ],
)
def test_only_addresses_that_a_reader_may_follow_are_links(url: str, is_safe: bool) -> None:
    assert (markup.safe_url(url) == url) is is_safe


def test_images_are_their_own_bytes_or_words() -> None:
    assert markup.image_url("iVBORw0K Ggo", "image/PNG") == "data:image/png;base64,iVBORw0KGgo="
    for data, kind in (
        ("PHN2Zy8+", "image/svg+xml"),
        ('AA"x', "image/png"),
        ("blob:1", "image/png"),
    ):
        assert markup.image_url(data, kind) is None


def test_markdown_reads_as_it_was_meant() -> None:
    shown = Prose(Colours()).render("# Title\n\n- a **b** `c`\n\n| x | y |\n|---|--:|\n| 1 | 2 |\n")
    assert "<h3>Title</h3>" in shown
    assert "<li>a <strong>b</strong> <code>c</code></li>" in shown
    assert '<td class="right">2</td>' in shown


@pytest.mark.parametrize("left", [0, 10_000])
def test_fenced_code_is_a_block_with_and_without_the_parser(left: int) -> None:
    shown = Prose(Colours(0), left).render(
        "See:\n\n```python\nif a < b:\n    x\n```\nDone & dusted"
    )
    assert "<code>if a &lt; b:\n    x</code>" in shown
    assert "Done &amp; dusted" in shown


def test_colours_change_no_character() -> None:
    code = "def f(x):\n    return x < 1  # é\n\n\n"
    for language in ("python", "bash", "json", "html", "diff", "unknown", ""):
        painted = Colours().paint(code, language)
        assert "".join(_Reader(f"<pre>{painted}</pre>").text) == code


def test_an_edit_shows_what_changes() -> None:
    drawn = draw_change("a\nold\nz", "a\nnew\nz")
    assert '<span class="del">-old</span>\n<span class="ins">+new</span>' in drawn


# -- the page ----------------------------------------------------------------------------------


def page_of(tmp_path: Path, *records: Any, options: HtmlOptions | None = None) -> str:
    path = write(tmp_path / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl", *records)
    with open_view(path) as view:
        return "".join(render_html(view, options=options))


def test_the_page_is_complete_and_allows_no_network(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        header(title="T"),
        message("q1", None, user("first")),
        message("a1", "q1", assistant("second")),
        message("b1", "q1", assistant("third")),
    )
    assert page.startswith("<!doctype html>")
    assert "default-src &#39;none&#39;" in page
    assert [page.index(text) for text in ("first", "third")]
    assert re.search(r'<noscript class="other">\s*<article[^>]*id="m-a1"', page)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:|//)""", page)
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(script) == len(style) == 1
    assert markup.digest(script[0]) in page
    assert markup.digest(style[0]) in page


def test_thinking_and_tools_can_be_left_out(tmp_path: Path) -> None:
    thought = assistant(
        content=[{"type": "thinking", "thinking": "musing"}, *calling("t")["content"]]
    )
    records = (
        header(), message("q", None, user("hi")), message("a", "q", thought),
        message("r", "a", result("t", "output")),
    )  # fmt: skip
    assert {"musing", "output"} <= set(re.findall("musing|output", page_of(tmp_path, *records)))
    plain = HtmlOptions(thinking=False, tools=False)
    body = page_of(tmp_path, *records, options=plain).partition("<main")[2].partition("</main>")[0]
    assert "musing" not in body
    assert "output" not in body


def test_it_works_without_the_extras(tmp_path: Path) -> None:
    """Without Markdown and Pygments the page is plain, and complete."""
    write(
        tmp_path / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl",
        header(), message("q1", None, user("some **bold**\n\n```python\nx = 1\n```")),
    )  # fmt: skip
    code = (
        "import sys; sys.modules['markdown_it'] = sys.modules['pygments'] = None\n"
        "from sessiontree.export.view import open_view\n"
        "from sessiontree.export.html import render_html\n"
        "print(''.join(render_html(open_view(sys.argv[1]))))"
    )
    path = next(tmp_path.glob("*.jsonl"))
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert "some **bold**" in done.stdout
    assert "<code>x = 1</code>" in done.stdout


@pytest.mark.parametrize("kind", [{"a": 1}, ["message"], 5, None])
def test_entries_of_a_type_that_is_no_text_do_not_keep_the_page_away(
    tmp_path: Path, kind: object
) -> None:
    odd = {"type": kind, "id": "0000000f", "parentId": None, "usage": {"input": 5}}
    path = write(tmp_path / "s.jsonl", header(), message("00000001", None, user("hello")), odd)
    with open_view(path) as view:
        assert "hello" in "".join(render_html(view))


@pytest.mark.parametrize("width", [1, 20_000])
def test_deep_arguments_are_not_drawn_out_with_blanks(tmp_path: Path, width: int) -> None:
    """Each of many values would stand at the end of a thousand blanks."""
    deep: object = [1] * width
    for _ in range(400):
        deep = {"a": deep}
    call = {"type": "toolCall", "id": "c", "name": "odd", "arguments": deep}
    path = write(tmp_path / "s.jsonl", header(), message("1", None, assistant(content=[call])))
    with open_view(path) as view:
        page = "".join(render_html(view))
    assert len(page) < 150_000 + 40 * width
    assert page.count("}") > 400


def test_the_arguments_of_a_call_are_spelled_in_lines(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "c", "name": "odd", "arguments": {"a": {"b": [1, "x"]}}}
    path = write(tmp_path / "s.jsonl", header(), message("1", None, assistant(content=[call])))
    with open_view(path) as view:
        page = "".join(render_html(view))
    shown = re.sub("<[^>]*>", "", page.partition("<pre")[2].partition("</pre>")[0])
    assert '\n  "a": {\n    "b": [\n      1,' in shown
