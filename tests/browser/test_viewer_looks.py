"""Every page of the viewer: for all readers, in every size and colour; thousands of sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, chain, dump, header, user

from .chromium import Page
from .test_export_page import branched
from .viewer import Viewer, run_viewer, write_session

pytestmark = pytest.mark.xdist_group("browser")

_MANY = 5_000
_CHECK = """axe.run(document, {resultTypes: ['violations']}).then(told => JSON.stringify(
  told.violations.map(each => [each.id, each.nodes.map(node => node.html.slice(0, 160))])))"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    write_session(made, "aaaa000000000001", *branched())
    long = "averylongwordwithoutanyspace" * 30
    titles = (
        "\u0625\u0635\u0644\u0627\u062d \u0635\u0641\u062d\u0629",
        "\u65e5\u672c\u8a9e" * 60,
        long,
    )
    for number, title in enumerate(titles):
        session_id = f"bbbb00000000000{number}"
        records = chain(user(title), assistant(f"{title}\n\n```python\nx = 1\n```"))
        write_session(made, session_id, header(id=session_id, title=title), *records)
    return made


@pytest.fixture(scope="module")
def viewer(home: Path) -> Iterator[Viewer]:
    with run_viewer(home) as running:
        yield running


def axe() -> str:
    """The checker's source."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8")


def places(viewer: Viewer, page: Page) -> dict[str, str]:
    """Every page, by its name."""
    viewer.enter(page)
    page.wait("document.querySelectorAll('a.name').length === 4")
    key = page.js(
        "[...document.querySelectorAll('a.name')].find(a => a.innerText === 'Two ways').href"
    )
    return {
        "list": f"{viewer.root}/",
        "found": f"{viewer.root}/?q=start",
        "nothing": f"{viewer.root}/?q=nothingofthekind",
        "session": key,
        "tree": f"{key}/tree",
        "compare": f"{key}/compare",
        "usage": f"{viewer.root}/usage?days=",
        "trash": f"{viewer.root}/trash",
        "missing": f"{viewer.root}/s/none",
    }


def settle(page: Page, name: str) -> None:
    """Wait until a page shows what it has."""
    if name == "session":
        page.wait("document.querySelectorAll('#talk article').length === 7")
        page.click("#fold")
    page.wait("document.readyState === 'complete'")


@pytest.mark.parametrize("is_dark", [False, True])
def test_axe_finds_nothing_that_keeps_people_out(viewer: Viewer, page: Page, is_dark: bool) -> None:
    source = axe()
    found: dict[str, Any] = {}
    page.media(dark=is_dark)
    for name, address in places(viewer, page).items():
        page.go(address)
        settle(page, name)
        page.js(source)
        told = page.js(_CHECK)
        if json.loads(told):
            found[name] = json.loads(told)
    assert found == {}
    page.log[:] = [line for line in page.log if "404" not in line]


def test_axe_finds_nothing_in_dialogs_and_at_the_entrance(viewer: Viewer, page: Page) -> None:
    source = axe()
    page.go(viewer.root + "/")  # nobody is in yet
    page.js(source)
    assert page.js(_CHECK) == "[]"
    viewer.open(page, "Two ways")
    page.js(source)
    for name in ("rename", "label", "trash"):
        page.js(f"document.querySelector('[data-dialog={name}]').click()")
        page.wait(f"document.querySelector('#{name}').open")
        assert page.js(_CHECK) == "[]"
        page.key("Escape")
    page.log[:] = [line for line in page.log if "401" not in line]


@pytest.mark.parametrize("width", [360, 800, 1280, 2000])
def test_no_page_is_wider_than_the_window(viewer: Viewer, page: Page, width: int) -> None:
    """Wide things scroll inside of it."""
    page.resize(width, 800, phone=width < 500)
    for name, address in places(viewer, page).items():
        page.go(address)
        settle(page, name)
        assert page.js("document.documentElement.scrollWidth - innerWidth") <= 0, name
    page.log[:] = [line for line in page.log if "404" not in line]


def test_the_picture_grows_and_shrinks_and_leads_to_messages(viewer: Viewer, page: Page) -> None:
    page.go(places(viewer, page)["tree"])
    assert page.count("#picture a") == 7
    wide = page.js("document.querySelector('#picture').getBoundingClientRect().width")
    page.click("[data-zoom=in]")
    assert page.text("#zoomed") == "125%"
    assert page.js("document.querySelector('#picture').getBoundingClientRect().width") > wide
    page.type("0")
    assert page.text("#zoomed") == "100%"
    page.js("document.querySelector('#frame').focus()")
    page.key("ArrowDown")
    page.key("ArrowDown")
    page.key("ArrowDown")
    assert "Give it a start" in page.js("document.activeElement.textContent")
    with page.expect_load():
        page.key("Enter")
    page.wait("document.querySelector('#m-q2.came')")
    assert "Done with a start value" in page.text("#talk")


def test_two_branches_stand_side_by_side(viewer: Viewer, page: Page) -> None:
    page.go(places(viewer, page)["compare"])
    assert "2 messages in common" in page.text(".common")
    left = page.js("[...document.querySelectorAll('.sides .one')].map(e => e.innerText).join()")
    right = page.js("[...document.querySelectorAll('.sides .other')].map(e => e.innerText).join()")
    assert "Use sum instead" in left
    assert "Done with a start value" in right
    assert "Why does the basket fail" not in left + right


def test_a_day_of_the_year_leads_to_its_sessions(viewer: Viewer, page: Page) -> None:
    page.go(places(viewer, page)["usage"])
    page.wait("window.sessiontreeView")
    with page.expect_load():
        page.js("document.querySelector('.heat [data-day=\"2026-02-16\"]')?.dispatchEvent("
                "new MouseEvent('click', {bubbles: true}))")  # fmt: skip
    page.wait("document.querySelector('#query').value === 'date:2026-02-16'")
    assert page.count("a.name") == 4


def test_what_was_removed_is_restored_on_the_page_of_the_trash(viewer: Viewer, page: Page) -> None:
    file = viewer.session("cccc000000000001", header(title="Gone", id="cccc000000000001"),
                          *chain(user("x"), assistant("y")))  # fmt: skip
    viewer.open(page, "Gone")
    with page.expect_load():
        page.js("sessiontreeView.post(location.pathname.split('/').slice(2).join('/') + '/trash')"
                ".then(() => location.assign(sessiontreeView.root + '/trash'))")  # fmt: skip
    assert "Gone" in page.text("#sessions")
    assert not file.exists()
    with page.expect_load():
        page.click("#sessions button")
    assert "Restored" in page.text("[role=status]")
    assert file.exists()
    file.unlink()


def test_five_thousand_sessions_are_a_list_like_any_other(tmp_path: Path, page: Page) -> None:
    folder = tmp_path / ".sessiontree" / "agent" / "sessions" / "--work-pi--"
    folder.mkdir(parents=True)
    for number in range(_MANY):
        session_id = f"{number:016x}"
        records = (header(id=session_id), *chain(user(f"prompt {number} word{number % 1000}"),
                                                 assistant("yes")))  # fmt: skip
        name = f"2026-02-16T10-20-30-{number:03d}Z_{session_id}.jsonl"
        (folder / name).write_bytes(b"".join(dump(each) + b"\n" for each in records))
    with run_viewer(tmp_path) as viewer:
        page.go(viewer.url)
        page.wait("document.querySelector('#told')?.innerText === '5,000 sessions'", 60)
        assert page.count("a.name") == 60
        page.js("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait("document.querySelectorAll('a.name').length > 100")
        page.js("scrollTo(0, 0)")
        page.click("#query")
        page.type("word77")
        page.wait("document.querySelector('#told').innerText === '55 of 5,000 sessions'", 60)
        assert page.count(".snippet mark") == 20
        page.key("Home")
        page.type('"')
        page.key("End")
        page.type('"')
        page.wait("document.querySelector('#told').innerText === '5 of 5,000 sessions'", 60)
        assert page.count(".snippet mark") == 5
        page.go("about:blank")
