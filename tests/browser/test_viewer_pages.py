"""The viewer in a real browser: used by mouse and keyboard, and attacked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.samples import (
    SESSION_ID,
    TALK,
    assistant,
    chain,
    entry,
    header,
    lines,
    message,
    user,
    write,
)

from .attacks import ATTACKS, hostile_session
from .chromium import Page
from .test_export_page import branched
from .viewer import Viewer, run_viewer, write_session

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    write_session(made, "aaaa000000000001", *branched())
    write_session(made, "aaaa000000000002", header(title="Zebras", id="aaaa000000000002"),
                  *chain(user("where is the zebra"), assistant("in the zoo")))  # fmt: skip
    write_session(made, "aaaa000000000003", header(id="aaaa000000000003", cwd="/work/other"),
                  *chain(user("a prompt without a name"), assistant("yes")),
                  project="work-other")  # fmt: skip
    return made


@pytest.fixture(scope="module")
def viewer(home: Path) -> Iterator[Viewer]:
    with run_viewer(home) as running:
        yield running


# What a page of another site could try: to read, to change, to load as a script, to frame.
_ATTACK = """Promise.all([
  fetch('ROOT/rows', {credentials: 'include'}).then(() => 'read', () => 'refused'),
  fetch('ROOT/s/x/trash', {method: 'POST', credentials: 'include', mode: 'no-cors'})
    .then(answer => answer.type, () => 'refused'),
  new Promise(done => {
    const script = document.createElement('script');
    script.src = 'ROOT/rows';
    script.onload = () => done('ran');
    script.onerror = () => done('refused');
    document.head.append(script);
  }),
  new Promise(done => {
    const frame = document.createElement('iframe');
    frame.src = 'ROOT/';
    frame.onload = () => {
      let told = 'refused';
      try { told = frame.contentDocument.title; } catch {}
      done(told);
    };
    document.body.append(frame);
  }),
])"""


def names(page: Page) -> list[str]:
    found: list[str] = page.js("[...document.querySelectorAll('a.name')].map(a => a.innerText)")
    return found


# -- the list --------------------------------------------------------------------------------------


def test_the_link_leaves_no_token_behind(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    assert page.js("location.href") == f"{viewer.root}/"
    assert page.js("document.cookie") == ""  # scripts don't see it
    assert page.js("history.length") <= 2


def test_sessions_are_found_as_one_types(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.wait("document.querySelectorAll('a.name').length === 3")
    page.type("/")
    page.type("zebra")
    page.wait("document.querySelector('.snippet mark')?.innerText === 'zebra'")
    assert names(page) == ["Zebras"]
    assert page.js("location.search") == "?q=zebra"
    page.key("Escape")
    page.wait("document.querySelectorAll('a.name').length === 3")
    page.type("nothingofthekind")
    page.wait("!document.querySelector('#nothing').hidden")


def test_filters_narrow_the_list_and_can_be_cleared(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.js(
        "const f = document.querySelector('[name=project]'); f.value = '/work/other';"
        "f.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.wait("document.querySelectorAll('a.name').length === 1")
    assert page.text("#told") == "1 of 3 sessions"
    page.click("#reset")
    page.wait("document.querySelectorAll('a.name').length === 3")
    page.js(
        "const n = document.querySelector('[name=is]'); n.value = 'named';"
        "n.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.wait("document.querySelectorAll('a.name').length === 2")
    address = page.js("location.href")
    page.go(address)  # a filtered list can be bookmarked
    assert sorted(names(page)) == ["Two ways", "Zebras"]


def test_the_keyboard_alone_leads_into_a_session_and_back(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.type("/")
    page.type("zebra")
    page.wait("document.querySelectorAll('a.name').length === 1")
    page.key("ArrowDown")
    assert page.js("document.activeElement.innerText") == "Zebras"
    with page.expect_load():
        page.key("Enter")
    page.wait("document.querySelector('#talk article')")
    assert page.text("h1") == "Zebras"
    with page.expect_load():
        page.type("u")
    page.wait("document.querySelector('#filters')")


def test_a_row_opens_wherever_it_is_clicked(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.wait("document.querySelectorAll('a.name').length === 3")
    with page.expect_load():
        page.click("#sessions li:first-child .count")
    page.wait("document.querySelector('#talk article')")


# -- a session -------------------------------------------------------------------------------------


def test_a_hit_leads_to_its_message(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.click("#query")
    page.type("zoo")
    page.wait("document.querySelector('.snippet')")
    with page.expect_load():
        page.click("a.name")
    page.wait("document.querySelector('#m-a2.came')")


def test_branches_and_search_work_as_on_an_exported_page(viewer: Viewer, page: Page) -> None:
    viewer.open(page, "Two ways")
    page.wait("document.querySelectorAll('#talk article').length === 7")
    page.click(".forks button")
    page.wait("document.querySelector('#talk').innerText.includes('Done with a start value')")
    page.click("#find")
    page.type("8 passed")
    page.wait("document.querySelector('#found').textContent === '1 found, 1 on other branches'")


def test_an_open_session_grows_and_a_reader_at_its_end_follows(viewer: Viewer, page: Page) -> None:
    file = viewer.session("aaaa00000000000a", header(title="Growing", id="aaaa00000000000a"), *TALK)
    viewer.open(page, "Growing")
    page.wait("document.querySelectorAll('#talk article').length === 4")
    long = "\n\n".join(f"line {n}" for n in range(200))
    with file.open("ab") as out:
        out.write(lines(message("n1", "a4", user("what is new")),
                        message("n2", "n1", assistant(long)),
                        entry("label", "n3", "n2", targetId="a1", label="start")))  # fmt: skip
    page.wait("document.querySelector('#talk').innerText.includes('line 199')")
    page.wait("document.querySelector('#m-a1 .label')?.textContent === 'start'")
    page.wait("innerHeight + scrollY > document.documentElement.scrollHeight - 200")
    page.js("scrollTo(0, 0)")
    page.wait("scrollY === 0")
    with file.open("ab") as out:
        out.write(lines(message("n4", "n3", user("and more"))))
    page.wait("document.querySelector('#newer')")
    assert page.js("scrollY") == 0
    page.click("#newer")
    page.wait("document.querySelector('#talk').innerText.includes('and more')")
    file.unlink()
    page.wait("document.querySelector('#banner').innerText.includes('gone')")
    page.log[:] = [line for line in page.log if "404" not in line]


def test_rename_label_remove_and_undo(viewer: Viewer, page: Page) -> None:
    file = viewer.session("aaaa00000000000b", header(title="Before", id="aaaa00000000000b"), *TALK)
    viewer.open(page, "Before")
    page.type("r")
    page.wait("document.querySelector('#rename').open")
    page.type("After <i>")
    page.key("Enter")
    page.wait("document.querySelector('h1').innerText === 'After <i>'")
    page.click("#more summary")
    page.click("[data-dialog=label]")
    page.wait("document.querySelector('#label').open")
    page.type("here it is")
    page.click("#label [type=submit]")
    page.wait("document.querySelector('#rows .label')?.innerText === 'here it is'")
    page.wait("document.querySelector('#talk .label')?.innerText === 'here it is'")
    assert json.loads(file.read_text().splitlines()[-1])["label"] == "here it is"
    page.click("#more summary")
    page.click("[data-dialog=trash]")
    page.wait("document.querySelector('#trash').open")
    with page.expect_load():
        page.click("#trash [type=submit]")
    page.wait("document.querySelector('#toast button')")
    assert not file.exists()
    page.click("#toast button")
    page.wait("[...document.querySelectorAll('a.name')].some(a => a.innerText === 'After <i>')")
    assert file.exists()
    file.unlink()


def test_the_command_that_resumes_is_copied(viewer: Viewer, page: Page) -> None:
    viewer.open(page, "Zebras")
    page.js("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => "
            "{ window.copied = t; }}})")  # fmt: skip
    page.click("#copy")
    page.wait("window.copied")
    assert "sessiontree --resume" in page.js("window.copied")


def test_a_print_has_the_whole_conversation_and_no_empty_sheets(tmp_path: Path, page: Page) -> None:
    """A browser that prints waits for no answer of a server."""
    texts = [user(f"Question {n}") if n % 2 == 0 else assistant(f"Answer {n}") for n in range(900)]
    write_session(tmp_path, SESSION_ID, header(title="Long"), *chain(*texts))
    with run_viewer(tmp_path) as viewer:
        viewer.open(page, "Long")
        assert page.count("#talk article") < 900
        drawn = "document.querySelectorAll('#talk article').length"
        assert page.js(f"dispatchEvent(new Event('beforeprint')); {drawn}") == 900
        empty = "[...document.querySelectorAll('#talk .page')].filter(e => !e.childElementCount)"
        assert page.js(f"{empty}.length") == 0
        page.js("new Promise(done => setTimeout(done, 300))")  # answers to what was asked before
        assert page.js(drawn) == 900
        page.go("about:blank")  # no asking for news once the server is gone


def test_the_year_fits_on_paper(viewer: Viewer, page: Page) -> None:
    viewer.enter(page)
    page.go(f"{viewer.root}/usage")
    page.resize(720, 1000)
    page.media(medium="print")
    right = page.js("document.querySelector('.heat').getBoundingClientRect().right")
    assert 600 < right <= 720
    assert page.count("#bar a") > 0
    assert page.js("[...document.querySelectorAll('#bar a')].every(e => !e.offsetWidth)")


# -- hostile sessions and sites --------------------------------------------------------------------


def test_no_script_of_a_session_ever_runs(tmp_path: Path, page: Page) -> None:
    folder = tmp_path / ".sessiontree" / "agent" / "sessions" / "--work-pi--"
    write(folder / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl", *hostile_session())
    with run_viewer(tmp_path) as viewer:
        viewer.enter(page)
        page.wait("document.querySelector('a.name')")
        page.click("#query")
        page.type("window.pwned")
        page.wait("document.querySelector('.snippet')")
        with page.expect_load():
            page.click("a.name")
        page.wait("document.querySelectorAll('#talk article').length > 5")
        page.click("#fold")
        page.js("dispatchEvent(new Event('beforeprint'))")
        page.wait("document.querySelectorAll('#talk article').length > 200")
        page.js("document.querySelectorAll('#talk summary, .forks button').forEach(e => e.click())")
        page.click("#find")
        page.type("<script> onerror")
        page.wait("document.querySelector('#found').textContent.includes('found')")
        assert page.js("window.pwned") is None
        root = viewer.root
        assert all(url.startswith((root, "data:")) for url in page.requests)
        page.go("about:blank")  # no asking for news once the server is gone


def test_hostile_names_are_text_on_every_page(tmp_path: Path, page: Page) -> None:
    write_session(tmp_path, SESSION_ID, *hostile_session())
    for number, attack in enumerate(ATTACKS):
        texts = chain(user(f"word {attack}"), assistant(attack, provider=attack, model=attack))
        named = header(title=attack, cwd=f"/work/{attack}", id=f"{number:016x}")
        labelled = entry("label", "l1", "a2", targetId="a1", label=attack)
        write_session(tmp_path, f"{number:016x}", named, *texts, labelled, project=f"p{number}")
    with run_viewer(tmp_path) as viewer:
        viewer.enter(page)
        page.wait("document.querySelectorAll('a.name').length > 40")
        hrefs = "[...document.querySelectorAll('a.name')].map(e => e.href.split('#')[0])"
        links = page.js(hrefs)
        for attack in ATTACKS:
            spelled = quote(attack[:100].encode("utf-8", "surrogatepass"), safe="")
            page.go(f"{viewer.root}/?q={spelled}&agent={spelled}&model={spelled}")
            page.go(f"{viewer.root}/?q={spelled}")
        for link in links:
            page.go(f"{link}/tree")
            page.go(f"{link}/compare")
        for place in ("usage?days=all", "usage", "?q=word"):
            page.go(f"{viewer.root}/{place}")
        assert page.count("a.name") > 1
        gone = f"{links[0].rpartition('/')[2]}/trash"
        page.js(f"sessiontreeView.post('s/{gone}')")
        page.go(f"{viewer.root}/trash?restored={quote(ATTACKS[0], safe='')}")
        assert page.count(".trash li") == 1
        assert page.js("window.pwned") is None
        root = viewer.root
        assert all(url.startswith((root, "data:image/")) for url in page.requests)
        page.go("about:blank")  # no asking for news once the server is gone


def test_a_page_of_another_port_can_neither_ask_nor_change(viewer: Viewer, page: Page) -> None:
    """Ports are the same site: cookies don't tell them apart, so the gate must."""
    import http.server
    import threading

    class Evil(http.server.BaseHTTPRequestHandler):
        seen: list[str] = []  # noqa: RUF012

        def do_GET(self) -> None:
            Evil.seen.append(self.headers.get("cookie") or "")
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>evil</title>")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        viewer.enter(page)
        page.go(f"http://127.0.0.1:{server.server_port}/")
        told = page.js(_ATTACK.replace("ROOT", viewer.root))
        assert told == ["refused", "refused", "refused", "refused"]
        assert Evil.seen == [""] * len(Evil.seen)  # the viewer's cookie never went there
    finally:
        server.shutdown()
        server.server_close()
    page.log.clear()
