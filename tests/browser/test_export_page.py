"""An exported page in a real browser: what it shows, how it is used, what it never does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, calling, entry, header, message, result, user

from sessiontree.export.html import render_html
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view

from .attacks import ATTACKS, hostile_session
from .chromium import Page

pytestmark = pytest.mark.xdist_group("browser")

_TAGS = {
    *(
        "article",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "p",
        "a",
        "span",
        "mark",
        "time",
        "small",
        "b",
        "em",
    ),
    *("strong", "s", "code", "pre", "details", "summary", "div", "table", "thead", "tbody", "tr"),
    *("th", "td", "ul", "ol", "li", "blockquote", "hr", "br", "figure", "figcaption", "img"),
    *("button", "em"),
}
_ATTRIBUTES = {
    *("class", "id", "data-i", "data-line", "href", "rel", "target", "title", "datetime"),
    *("tabindex", "src", "alt", "loading", "start", "open", "type", "style", "aria-current"),
}
_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def export(tmp_path: Path, records: list[dict[str, Any]], redactor: Redactor | None = None) -> Path:
    """Write the records as a session, and that as a page."""
    source = tmp_path / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"
    source.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    made = tmp_path / "talk.html"
    with open_view(source) as view, made.open("w", encoding="utf-8") as file:
        file.writelines(render_html(view, redactor=redactor))
    return made


def branched() -> list[dict[str, Any]]:
    """Two ways from one answer; the second is the active one."""
    return [
        header(title="Two ways"),
        message("q1", None, user("Why does the basket fail?")),
        message("a1", "q1", assistant("Because **reduce** has no start.\n\n```python\nx = 1\n```")),
        message("q2", "a1", user("Give it a start")),
        message("a2", "q2", assistant("Done with a start value")),
        entry("branch_summary", "s1", "a1", summary="Tried a start value", fromId="a2"),
        message("q3", "s1", user("Use sum instead")),
        message("c3", "q3", calling("t1")),
        message("r3", "c3", result("t1", "8 passed\nzebra")),
        message("a3", "r3", assistant("It is `sum` now")),
        entry("label", "l1", "a3", targetId="a1", label="cause found"),
    ]


# -- hostile content -------------------------------------------------------------------------------


def test_no_script_of_a_session_ever_runs(tmp_path: Path, page: Page) -> None:
    """Every attack in every place; every branch opened, everything unfolded, searched, printed."""
    made = export(tmp_path, hostile_session())
    page.go(made)
    page.wait("document.querySelectorAll('#talk article').length > 5")
    page.click("#fold")
    page.js("for (let i = 0; i < 40; i++) setTimeout(() => scrollBy(0, 5000), i * 5)")
    _look_at_every_article(page)
    for number in range(0, len(ATTACKS), 5):
        row = f"sessiontreePage.rows.findIndex(row => row[0] === 'm-side{number:04x}')"
        page.js(f"sessiontreePage.go({row})")
        _check(page)
    page.js("document.querySelectorAll('#talk summary, .forks button').forEach(e => e.click())")
    page.click("#find")
    page.type("<script> onerror")
    page.wait("document.querySelector('#found').textContent.includes('found')")
    _check(page)
    page.pdf(tmp_path / "talk.pdf")
    assert page.js("window.pwned") is None
    assert all(url.startswith((made.as_uri(), "data:image/")) for url in page.requests)
    assert page.js("location.href.split('#')[0]") == made.as_uri()


def _look_at_every_article(page: Page) -> None:
    """The beginning of a print draws all of a branch."""
    page.js("dispatchEvent(new Event('beforeprint'))")
    _check(page)


def _check(page: Page) -> None:
    """Nothing but our own elements, attributes, addresses and ids."""
    told = page.js(
        """(() => { const tags = new Set(), attributes = new Set(), bad = [];
        for (const e of document.querySelectorAll('#talk *, #rows *')) {
          tags.add(e.localName);
          for (const a of e.attributes) attributes.add(a.name);
          const href = e.getAttribute('href');
          if (href !== null && !/^(https?:\\/\\/|mailto:|#m)/.test(href)) bad.push(href);
          const src = e.getAttribute('src');
          const image = /^data:image\\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+\\/=]*$/;
          if (src !== null && !image.test(src)) bad.push(src);
          if (e.id && !/^m[-.]/.test(e.id)) bad.push(e.id);
          if (e.closest('article') && e.hasAttribute('style')) bad.push('style');
        }
        return [[...tags], [...attributes], bad]; })()"""
    )
    tags, attributes, bad = told
    assert set(tags) <= _TAGS
    assert set(attributes) <= _ATTRIBUTES
    assert bad == []


def test_what_misleads_a_reader_is_visible(tmp_path: Path, page: Page) -> None:
    text = "a\u202eb &#x202e;c \x1b[31md\x07"
    page.go(export(tmp_path, [header(), message("q1", None, user(text))]))
    page.wait("document.querySelector('#talk article')")
    assert page.text("#talk article p") == "a\\u202eb \\u202ec d\\x07"
    assert not page.js("/[\\u202a-\\u202e\\u0007]/.test(document.body.innerText)")


def test_the_page_itself_refuses_scripts_that_are_not_ours(tmp_path: Path, page: Page) -> None:
    """The policy is a wall of its own: even an element that gets in runs nothing."""
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelector('#talk article')")
    assert page.js("fetch('https://evil.example/').then(() => 1, () => 0)") == 0
    with pytest.raises(AssertionError, match="TrustedHTML"):
        page.js("document.body.innerHTML = '<b>x</b>'")
    with pytest.raises(AssertionError, match="TrustedScript"):
        page.js("document.body.setAttribute('onclick', 'window.pwned=1')")
    assert any("policy" in line or "Content Security Policy" in line for line in page.log)
    page.log.clear()


# -- reading ---------------------------------------------------------------------------------------


def test_the_active_path_is_shown_and_the_tree_beside_it(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelectorAll('#talk article').length === 7")
    text = page.text("#talk")
    assert "Use sum instead" in text
    assert "Done with a start value" not in text
    assert page.count("#talk pre .n") == 1
    assert page.text("h1") == "Two ways"
    assert page.count("#rows li") == 7
    assert page.count("#rows li.active") == 5
    assert page.text("#rows li .label") == "cause found"
    assert page.count("#talk .label") == 1
    assert "8 messages" in page.text("#facts")


def test_every_branch_opens_and_the_way_back(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelectorAll('#talk article').length === 7")
    assert page.text(".forks button") == "Give it a start"
    page.click(".forks button")
    page.wait("document.querySelector('#talk').innerText.includes('Done with a start value')")
    assert "Use sum instead" not in page.text("#talk")
    assert "another branch" in page.text("#banner")
    assert page.js("location.hash") == "#m-q2"
    page.click("#banner button")
    page.wait("document.querySelector('#talk').innerText.includes('Use sum instead')")
    assert page.js("document.querySelector('#banner').hidden")


def test_lines_in_the_tree_lead_from_a_fork_to_its_branches(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelectorAll('#rows li').length === 7")
    drawn = page.js(
        "[...document.querySelectorAll('#rows li')].map(li => [...li.querySelectorAll('span')]"
        ".map(e => e.className).filter(name => /rail|arm/.test(name)).join('+'))"
    )
    assert drawn == ["", "", "rail+arm", "rail", "rail last+arm", "", ""]
    page.click("#find")
    page.type("start")
    page.wait("document.querySelector('#found').textContent.includes('found')")
    assert page.count("#rows .rail") == 0  # what was found is a list


def test_another_branch_leaves_the_beginning_of_a_message_in_view(
    tmp_path: Path, page: Page
) -> None:
    """The line about the branch stands above the conversation, not on it."""
    records = branched()
    long = assistant("\n\n".join(["words"] * 200))
    page.go(export(tmp_path, [*records, message("a9", "a2", long)]))
    page.wait("document.querySelectorAll('#talk article').length > 3")
    page.js("sessiontreePage.go(sessiontreePage.rows.findIndex(row => row[0] === 'm-a2'))")
    page.wait("document.querySelector('#m-a2.came')")
    page.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    below = "document.querySelector('#banner').getBoundingClientRect().bottom"
    assert page.js(f"document.querySelector('#m-a2').getBoundingClientRect().top >= {below}")


def test_a_wide_table_keeps_its_words_and_scrolls(tmp_path: Path, page: Page) -> None:
    row = f"|{'wonderful|' * 40}"
    table = f"{row}\n|{'--|' * 40}\n{row}"
    page.go(export(tmp_path, [header(), message("a1", None, assistant(table))]))
    page.wait("document.querySelector('#talk td')")
    assert page.js("document.querySelector('#talk td').getBoundingClientRect().height") < 40
    assert page.js("document.documentElement.scrollWidth - innerWidth") <= 0


def test_paper_is_white_whatever_the_screen_shows(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelector('#talk article')")
    page.media(dark=True)
    page.click("#theme")
    page.click("#theme")
    page.media(dark=True, medium="print")
    assert page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.js("getComputedStyle(document.body).color") == "rgb(29, 33, 40)"
    sizes = page.js(
        "[...document.querySelectorAll('#talk p, #talk h2, #talk pre')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert max(sizes) < 13


def test_a_wide_table_is_not_cut_on_paper(tmp_path: Path, page: Page) -> None:
    row = f"|{'wonderful|' * 40}"
    small = "|name|what|\n|--|--|\n|option|does something|"
    text = f"{row}\n|{'--|' * 40}\n{row}\n\nand\n\n{small}"
    page.go(export(tmp_path, [header(), message("a1", None, assistant(text))]))
    page.wait("document.querySelector('#talk td')")
    page.resize(720, 1000)
    page.media(medium="print")
    page.js("dispatchEvent(new Event('beforeprint'))")
    assert page.js(
        "[...document.querySelectorAll('#talk table')]"
        ".every(e => e.getBoundingClientRect().right <= innerWidth)"
    )
    assert page.js("document.querySelectorAll('#talk .table.wide').length") == 1


def test_a_link_to_a_message_opens_its_branch(tmp_path: Path, page: Page) -> None:
    made = export(tmp_path, branched())
    page.go(f"{made.as_uri()}#%")  # no link of ours
    page.wait("document.querySelectorAll('#talk article').length === 7")
    page.go("about:blank")
    page.go(f"{made.as_uri()}#m-a2")
    page.wait("document.querySelector('#m-a2.came')")
    assert "Done with a start value" in page.text("#m-a2")


def test_search_finds_what_is_folded_and_on_other_branches(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelectorAll('#talk article').length === 7")
    page.type("/")
    page.type("start")
    page.wait("document.querySelector('#found').textContent === '4 found, 2 on other branches'")
    page.key("Backspace")
    page.js(
        "document.querySelector('#find').value = 'zebra';"
        "document.querySelector('#find').dispatchEvent(new Event('input'))"
    )
    page.wait("document.querySelector('#found').textContent === '1 found'")
    page.key("Enter")
    page.wait("document.querySelector('#m-r3 details').open")
    page.key("Escape")
    page.wait("document.querySelectorAll('#rows li').length === 7")


def test_keys_move_through_tree_and_prompts(tmp_path: Path, page: Page) -> None:
    page.go(export(tmp_path, branched()))
    page.wait("document.querySelectorAll('#talk article').length === 7")
    page.type("n")
    page.wait("location.hash === '#m-q3'")
    page.type("p")
    page.wait("location.hash === '#m-q1'")
    page.type("t")
    page.key("End")
    assert page.js("document.activeElement.closest('li').innerText").endswith("It is sum now")
    page.key("Enter")
    page.wait("location.hash === '#m-a3'")
    assert page.js("document.activeElement.id") == "m-a3"


def test_edits_are_differences_and_images_are_shown(tmp_path: Path, page: Page) -> None:
    edit = assistant(content=[{"type": "toolCall", "id": "e", "name": "edit", "arguments": {
        "path": "a.py", "oldText": "one\ntwo", "newText": "one\nthree"}}])  # fmt: skip
    image = {"type": "image", "mimeType": "image/png", "data": _PIXEL}
    records = [header(), message("e1", None, edit), message("q1", "e1", user([image]))]
    page.go(export(tmp_path, records))
    page.wait("document.querySelector('#talk img')?.complete")
    assert page.js("document.querySelector('#talk img').naturalWidth") == 1
    page.click("#fold")
    assert page.text(".diff .del") == "-two"
    assert page.text(".diff .ins") == "+three"
    assert page.text("#talk details.call summary") == "edit a.py +1 −1"


def test_redaction_says_how_much_it_took_out(tmp_path: Path, page: Page) -> None:
    records = [header(), message("q1", None, user(f"use {_TOKEN} now"))]
    made = export(tmp_path, records, Redactor())
    assert _TOKEN[:12] not in made.read_text()  # neither in the title, which is cut
    page.go(made)
    assert "2 secrets were redacted: github-token (2)" in page.text("#redacted")


def test_without_scripts_the_active_path_can_be_read(tmp_path: Path, page: Page) -> None:
    page.without_scripts()
    page.go(export(tmp_path, branched()))
    tree = page.call("DOM.getDocument", depth=-1)["root"]
    shown = page.call("DOM.getOuterHTML", nodeId=tree["nodeId"])["outerHTML"]
    assert "Use sum instead" in shown
    box = page.call("DOM.querySelector", nodeId=tree["nodeId"], selector="#m-q3")
    assert page.call("DOM.getBoxModel", nodeId=box["nodeId"])["model"]["height"] > 10


def test_a_large_session_opens_in_a_second_and_stays_smooth(tmp_path: Path, page: Page) -> None:
    """20 MB: the first paint, the number of elements, and the longest pause while it scrolls."""
    prose = " ".join(f"word{n % 97}" for n in range(900))
    records: list[dict[str, Any]] = [header(title="Large")]
    parent: str | None = None
    for number in range(1_100):
        for kind, content in (
            ("q", user(f"Question {number}")),
            ("a", assistant(f"## Answer {number}\n\n{prose}")),
            ("r", result("t", f"{prose}\n" * 2)),
        ):
            records.append(message(f"{kind}{number}", parent, content))
            parent = f"{kind}{number}"
    made = export(tmp_path, records)
    assert made.stat().st_size > 19_000_000
    page.go(made)
    ready = page.wait(
        "document.querySelectorAll('#talk article').length > 3 &&"
        "document.querySelectorAll('#rows li').length > 10 && performance.now()"
    )
    assert ready < 3_000  # milliseconds, on a machine that does other things, too
    assert page.js("document.getElementsByTagName('*').length") < 5_000
    longest = page.js(
        """new Promise(done => { let last = performance.now(), worst = 0, left = 60;
        const step = now => { worst = Math.max(worst, now - last); last = now;
          scrollBy(0, 900); if (--left) requestAnimationFrame(step); else done(worst); };
        requestAnimationFrame(step); })"""
    )
    assert longest < 1_000
    page.js("scrollTo(0, document.documentElement.scrollHeight)")
    page.wait("[...document.querySelectorAll('#talk article h2')].some(e => e.innerText)")
    page.js("sessiontreePage.go(sessiontreePage.rows.length - 2)")
    page.wait("document.querySelector('#m-a1099')?.getBoundingClientRect().top < innerHeight")
