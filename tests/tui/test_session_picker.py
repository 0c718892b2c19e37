"""The session picker, driven by keys."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent_samples import claude_answer, claude_output, claude_prompt, put_claude, put_codex
from textual.pilot import Pilot
from textual.widgets import Input

from sessiontree import SessionManager
from sessiontree.discovery.listing import SessionInfo, SessionList
from sessiontree.discovery.native_agent import NativeCommand
from sessiontree.export.view import open_view
from sessiontree.profiles import Profile
from sessiontree.scope import Scope
from sessiontree.tui.palette import DARK
from sessiontree.tui.pickers import session_loading, session_rows
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ConfirmDialog, ReadingPane, TextDialog
from sessiontree.tui.pickers.preview_pane import PreviewPane
from sessiontree.tui.pickers.session_actions import Breadth, Progress, SessionShelf
from sessiontree.tui.pickers.session_picker import (
    Picked,
    PickedElsewhere,
    PickerApp,
    SessionPicker,
)
from sessiontree.tui.pickers.session_query import SessionQuery
from sessiontree.tui.theme import ThemedApp

from .support import Shop, burst, make_info, press, screen_lines, screen_text, type_text, until


class Rig:
    """A running picker."""

    def __init__(self, app: PickerApp, pilot: Pilot[Any], picker: SessionPicker) -> None:
        self.app, self.pilot, self.picker = app, pilot, picker

    @property
    def names(self) -> list[str]:
        return [row.guides + row.name for row in self.picker.row_list.rows]

    @property
    def current(self) -> str | None:
        row = self.picker.row_list.current
        return row.name if row else None

    @property
    def text(self) -> str:
        return screen_text(self.app)

    async def settle(self) -> None:
        await until(lambda: not self.picker.is_busy, self.pilot)

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)
        await self.settle()

    async def type(self, text: str) -> None:
        await type_text(self.pilot, text)
        await self.settle()

    async def ended(self) -> Picked | PickedElsewhere:
        await until(lambda: self.app._exit, self.pilot)
        return self.app.return_value


@asynccontextmanager
async def picking(
    shop: Shop,
    *,
    size: tuple[int, int] = (100, 24),
    shelf: SessionShelf | None = None,
    **options: Any,
) -> AsyncIterator[Rig]:
    shelf = shelf or SessionShelf(Scope(shop.project, shop.profile))
    app = PickerApp(lambda: SessionPicker(shelf, **options))
    async with app.run_test(size=size) as pilot:
        await until(lambda: isinstance(app.screen, SessionPicker), pilot)
        picker = app.screen
        assert isinstance(picker, SessionPicker)
        rig = Rig(app, pilot, picker)
        await rig.settle()
        yield rig


@pytest.fixture
def stocked(shop: Shop) -> Shop:
    shop.session("please fix the login", title="Login", age_s=10)
    shop.session("dark mode please", "the tokenizer is unrelated", age_s=7_300)
    shop.session("third prompt", title="Oldest", age_s=90_000)
    shop.session("elsewhere", title="Other project", cwd=shop.other_project, age_s=50)
    return shop


# -- choosing ------------------------------------------------------------------------------------


async def test_enter_gives_the_path_of_the_chosen_session(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        assert rig.names == ["Login", "dark mode please", "Oldest"]
        await rig.press("down", "enter")
        path = await rig.ended()
    assert isinstance(path, str)
    with open_view(path) as view:
        assert view.path[-1].data["message"]["content"][0]["text"] == "the tokenizer is unrelated"


async def test_esc_gives_none(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await press(rig.pilot, "escape")
        assert await rig.ended() is None
        assert not rig.app.was_left


async def test_ctrl_c_leaves_the_program(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await press(rig.pilot, "ctrl+c")
        assert await rig.ended() is None
        assert rig.app.was_left


async def test_it_resolves_once_however_often_enter_and_esc_are_pressed(stocked: Shop) -> None:
    ended: list[Picked] = []
    shelf = SessionShelf(Scope(stocked.project, stocked.profile))

    class Waiting(ThemedApp[None]):
        def on_mount(self) -> None:
            self.push_screen(SessionPicker(shelf), ended.append)

    app = Waiting()
    async with app.run_test() as pilot:
        await until(lambda: isinstance(app.screen, SessionPicker), pilot)
        picker = app.screen
        assert isinstance(picker, SessionPicker)
        await until(lambda: not picker.is_busy, pilot)
        picker.action_choose()
        picker.action_choose()
        picker.action_cancel()
        await pilot.pause()
    assert len(ended) == 1
    assert ended[0] is not None


async def test_arrows_and_page_keys_move_and_stop_at_the_ends(shop: Shop) -> None:
    infos = [make_info(f"s{n:02}", age_s=n) for n in range(50)]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf, size=(80, 24)) as rig:
        assert rig.current == "s00"
        await rig.press("up")
        assert rig.current == "s00"
        await rig.press("down", "down")
        assert rig.current == "s02"
        await rig.press("pagedown")
        after_page = rig.current
        assert after_page is not None
        assert after_page > "s05"
        await rig.press("pageup", "pageup")
        assert rig.current == "s00"
        await rig.press("ctrl+end")
        assert rig.current == "s49"
        assert "s49" in rig.text
        await rig.press("down", "ctrl+home")
        assert rig.current == "s00"


async def test_a_double_click_chooses(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.pilot.click("#sessions", offset=(5, 2), times=2)
        path = await rig.ended()
    assert path is not None


# -- finding -------------------------------------------------------------------------------------


async def test_typing_filters_at_once_and_says_why(stocked: Shop) -> None:
    async with picking(stocked, size=(120, 30)) as rig:
        await rig.type("tokenizer")
        assert rig.names == ["dark mode please"]
        assert "1 of 3 sessions" in rig.text
        assert "relevance" in rig.text
        assert "said: dark mode please the tokenizer" in rig.text


@pytest.mark.parametrize(
    ("keys", "title"),
    [
        (("Oldest", "enter"), "Oldest"),
        (("OldX", "backspace", "est", "enter"), "Oldest"),
        (("down", "down", "enter"), "Oldest"),
        (("o", "down", "up", "enter"), "Oldest"),
    ],
)
async def test_keys_that_come_all_at_once_choose_what_was_meant(
    stocked: Shop, keys: tuple[str, ...], title: str
) -> None:
    async with picking(stocked) as rig:
        burst(rig.app, *keys)
        path = await rig.ended()
    assert isinstance(path, str)
    with open_view(path) as view:
        assert view.name == title


async def test_a_query_that_finds_nothing_says_so_and_enter_does_nothing(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.type("zzzz")
        assert "Nothing matches zzzz · Tab shows all projects" in rig.text
        await rig.press("enter")
        assert not rig.app._exit
        await press(rig.pilot, "escape")
        assert await rig.ended() is None


async def test_a_bad_pattern_says_what_is_wrong(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.type("re:(")
        assert "not a regular expression" in rig.text


async def test_tab_switches_between_this_project_and_all(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        assert "this project" in rig.text
        await rig.press("tab")
        assert rig.names == ["Login", "Other project", "dark mode please", "Oldest"]
        assert "all projects" in rig.text
        assert "other" in rig.text
        await rig.press("tab")
        assert "Other project" not in rig.names


async def test_tab_goes_on_to_the_sessions_of_other_agents(
    stocked: Shop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", stocked.profile.agent_dir)
    theirs = Shop(stocked.root)
    theirs.profile = Profile("omp", str(home / ".omp" / "agent"), "omp")
    path = theirs.session("asked elsewhere", title="From omp", age_s=3)
    async with picking(stocked) as rig:
        await rig.press("tab", "tab")
        assert rig.names[0] == "From omp"
        row = next(line for line in screen_lines(rig.app) if "From omp" in line)
        assert " omp " in row
        await rig.press("enter")
        await until(lambda: isinstance(rig.app.screen, ChoiceDialog), rig.pilot)
        assert "is a session of omp" in rig.text
        await rig.press("enter")
        assert await rig.ended() == path


async def test_a_project_without_sessions_shows_those_of_all_projects(shop: Shop) -> None:
    shop.session("asked there", title="Elsewhere", cwd=shop.other_project)
    async with picking(shop) as rig:
        assert rig.names == ["Elsewhere"]
        assert "all projects" in rig.text
        await rig.press("tab")
        assert rig.names == []
        assert "No sessions in this project yet" in rig.text


async def test_a_user_of_another_agent_sees_its_sessions_at_once(
    shop: Shop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", shop.profile.agent_dir)
    theirs = Shop(shop.root)
    theirs.profile = Profile("pi", str(home / ".pi" / "agent"), "pi")
    theirs.session("asked of pi", title="From pi")
    listed: list[Breadth] = []

    class Watched(SessionShelf):
        def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
            listed.append(breadth)
            return super().load(breadth, on_progress)

    async with picking(shop, shelf=Watched(Scope(shop.project, shop.profile))) as rig:
        assert rig.names == ["From pi"]
        assert "all agents" in rig.text
        assert listed == ["agents"]  # what can have none was not looked through before
        await rig.press("tab")
        assert "No sessions of sessiontree in this project yet" in rig.text


async def test_a_first_prompt_of_a_page_leaves_room_for_the_question(
    stocked: Shop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", stocked.profile.agent_dir)
    theirs = Shop(stocked.root)
    theirs.profile = Profile("omp", str(home / ".omp" / "agent"), "omp")
    theirs.session("asked of omp " + "at length " * 60)
    async with picking(stocked) as rig:
        await rig.press("tab", "tab")
        await until(lambda: rig.names[0].startswith("asked of omp"), rig.pilot)
        await rig.press("ctrl+home", "enter")
        await until(lambda: isinstance(rig.app.screen, ChoiceDialog), rig.pilot)
        question = rig.app.screen.query_one("#question")
        assert question.size.height <= 2
        assert "is a session of omp" in rig.text


@pytest.mark.parametrize(
    ("words", "name", "where"),
    [
        ("dark", "dark mode please", "this project"),
        ("from elsewhere", "Other project", "all projects"),
        ("quokka", "From pi", "all agents"),
        ('"the quokka"', "From pi", "all agents"),
    ],
)
async def test_words_that_it_begins_with_are_looked_for_wider_until_something_has_them(
    stocked: Shop, home: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str, where: str
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", stocked.profile.agent_dir)
    theirs = Shop(stocked.root)
    theirs.profile = Profile("pi", str(home / ".pi" / "agent"), "pi")
    theirs.session("asked of pi about the quokka", title="From pi")
    stocked.session("from elsewhere", title="Other project", cwd=stocked.other_project)
    async with picking(stocked, query=words) as rig:
        await until(lambda: rig.names[:1] == [name], rig.pilot)
        assert where in rig.text


async def test_of_letters_typed_at_once_the_last_is_looked_for_and_only_then_texts_are_read(
    stocked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find, read = SessionQuery.find_texts, session_rows.read_words

    def note(query: SessionQuery, scope: Scope) -> Any:
        asked.append(query.text)
        return find(query, scope)

    def note_reading(info: SessionInfo) -> bytes:
        asked.append("reading")
        return read(info)

    monkeypatch.setattr(session_loading, "_TURN_S", 0.5)  # all letters come within it
    monkeypatch.setattr(SessionQuery, "find_texts", note)
    monkeypatch.setattr(session_loading, "read_words", note_reading)
    async with picking(stocked) as rig:
        burst(rig.app, "tokenizer")
        await until(lambda: rig.names == ["dark mode please"], rig.pilot)
        await rig.settle()
    assert asked[0] == "tokenizer"
    assert "reading" in asked[1:]


async def test_words_that_are_typed_are_looked_for_where_the_picker_is(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.type("other project")
        assert rig.names == []
        assert "this project" in rig.text


@pytest.fixture
def foreign(shop: Shop, home: Path) -> Shop:
    """A project with a session of its own, one of Claude Code and one of Codex."""
    shop.session("own prompt", title="Own", age_s=5)
    put_claude(
        home,
        "0b6a8a52-1111-4222-8333-444455556666",
        claude_prompt("Why is the token lost?", 1, cwd=shop.project),
        claude_answer("It is **refreshed** late.\n\n- move it up", 2, cwd=shop.project),
        claude_output("zebra crossing", 3, cwd=shop.project),
    )
    put_codex(home, "0199c0de-0000-7000-8000-000000000001", ("user", "faster parser"), cwd="/srv")
    return shop


async def test_all_agents_are_all_that_have_an_adapter(foreign: Shop) -> None:
    async with picking(foreign) as rig:
        await rig.press("tab", "tab")
        assert set(rig.names) == {"Own", "Why is the token lost?", "faster parser"}
        assert {"claude", "codex"} <= set(rig.text.split())


async def test_filters_leave_what_they_say_and_look_where_it_is(foreign: Shop) -> None:
    async with picking(foreign, size=(120, 30)) as rig:
        assert rig.names == ["Own"]
        await rig.type("agent:cl")
        assert rig.names == ["Why is the token lost?"], "other agents are looked at by themselves"
        await rig.press("right")
        assert "agent:claude-code" in rig.text
        await rig.type("parser")
        assert rig.names == []
    async with picking(foreign, query="is:named") as rig:
        assert rig.names == ["Own"]
    async with picking(foreign, query="is:new") as rig:
        assert "is:new is unknown: use named, fork" in rig.text
        await rig.press("enter", "escape")
        assert await rig.ended() is None


async def test_tool_output_is_searched_on_request_and_the_screen_says_so(foreign: Shop) -> None:
    async with picking(foreign, size=(120, 30), query="zebra") as rig:
        assert rig.names == []
        assert "not searched: tool output (in:tools)" in rig.text
    async with picking(foreign, size=(120, 30), query="in:tools agent:claude zebra") as rig:
        assert rig.names == ["Why is the token lost?"]
        assert "zebra crossing" in rig.text
        assert "not searched" not in rig.text


async def test_whose_words_count(foreign: Shop) -> None:
    async with picking(foreign, query="agent:claude role:user token") as rig:
        assert rig.names == ["Why is the token lost?"]
    async with picking(foreign, query="agent:claude role:assistant token") as rig:
        assert rig.names == []


async def test_a_typo_shows_what_was_meant(shop: Shop) -> None:
    shop.session("refresh the token", title="Session one")
    async with picking(shop, size=(120, 30), query="refersh") as rig:
        assert rig.names == ["Session one"]
        assert "nothing found; showing refresh" in rig.text


async def test_where_only_letters_match_the_screen_says_so(shop: Shop) -> None:
    shop.session("hello", title="Fix the login")
    async with picking(shop, size=(120, 30), query="fxlgn") as rig:
        assert rig.names == ["Fix the login"]
        assert "only the letters match" in rig.text
        await rig.press("backspace", "backspace", "backspace", "backspace", "i", "x")
        assert rig.names == ["Fix the login"]
        assert "only the letters match" not in rig.text


async def test_a_typo_counts_also_where_its_letters_are_in_a_name(shop: Shop) -> None:
    shop.session("refresh the token", title="Session one")
    shop.session("something else", title="Rebase every file every rainy Saturday here")
    async with picking(shop, size=(120, 30), query="refersh") as rig:
        assert rig.names == ["Session one"]
        assert "nothing found; showing refresh" in rig.text


async def test_columns_are_no_wider_than_their_contents(foreign: Shop) -> None:
    title = "The cart loses its rows when the page is loaded again and again"
    foreign.session("hello", title=title)
    async with picking(foreign, size=(120, 30)) as rig:
        await rig.press("tab", "tab")
        row = next(line for line in screen_lines(rig.app) if "The cart loses" in line)
        assert title[:46] in row


async def test_the_preview_is_markdown_marks_the_match_and_names_the_session(foreign: Shop) -> None:
    async with picking(foreign, size=(120, 30), query="agent:claude refreshed") as rig:
        await until(lambda: rig.picker.query_one(PreviewPane).is_ready, rig.pilot)
        assert "It is refreshed late." in rig.text
        assert "• move it up" in rig.text
        assert "0b6a8a52" in rig.text
        pane = rig.picker.query_one(PreviewPane).render()
        at = pane.plain.index("refreshed late")
        assert any(span.start <= at < span.end and span.style == DARK.mark for span in pane.spans)


def put_program(folder: Path, name: str) -> str:
    """A program that does nothing; its folder."""
    folder.mkdir()
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return str(folder)


async def test_a_foreign_session_is_opened_there_copied_here_or_its_command_copied(
    foreign: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", put_program(foreign.root / "bin", "claude"))
    wanted = f"cd {foreign.project} && claude --resume 0b6a8a52-1111-4222-8333-444455556666"
    async with picking(foreign, size=(120, 30), query="agent:claude") as rig:
        await rig.press("ctrl+y")
        assert rig.app.clipboard == wanted
        assert "Copied: cd " in rig.text
        await rig.press("enter")
        await until(lambda: isinstance(rig.app.screen, ChoiceDialog), rig.pilot)
        for choice in ("Open in Claude Code", "Continue here", "Copy the command", "Cancel"):
            assert choice in rig.text
        await rig.press("enter")
        picked = await rig.ended()
    assert isinstance(picked, NativeCommand)
    assert picked.shell == wanted
    async with picking(foreign, size=(120, 30), query="agent:claude") as rig:
        await rig.press("enter")
        await until(lambda: isinstance(rig.app.screen, ChoiceDialog), rig.pilot)
        await rig.press("down", "enter")
        copy = await rig.ended()
    assert isinstance(copy, str)
    assert copy.startswith(foreign.profile.agent_dir)
    manager = SessionManager.open(copy, profile=foreign.profile)
    assert len(manager.get_entries()) >= 3
    manager.close()


async def test_sessions_of_read_only_agents_keep_name_and_place(foreign: Shop) -> None:
    async with picking(foreign, size=(120, 30), query="agent:codex") as rig:
        await rig.press("ctrl+d")
        await until(lambda: isinstance(rig.app.screen, ConfirmDialog), rig.pilot)
        await press(rig.pilot, "y")
        await until(lambda: "Only Codex itself can remove its sessions" in rig.text, rig.pilot)
        assert rig.names == ["faster parser"]


async def test_ctrl_n_and_ctrl_p_move(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.press("ctrl+n", "ctrl+n", "ctrl+p")
        assert rig.picker.row_list.cursor == 1


async def test_the_folder_of_a_session_opened_by_path_is_listed(shop: Shop) -> None:
    lying = Shop(shop.root)
    lying.profile = Profile("sessiontree", str(shop.root / "elsewhere"), "omp")
    path = lying.session("lies elsewhere", title="Lying")
    shop.session("own", title="Own")
    folder = os.path.dirname(path)
    shelf = SessionShelf(Scope(shop.project, shop.profile), folder=folder)
    async with picking(shop, shelf=shelf) as rig:
        assert rig.names == ["Lying"]
        assert "this folder" in rig.text
        await rig.press("tab")
        assert rig.names == ["Own"]


async def test_sort_named_only_and_path(stocked: Shop) -> None:
    parent = stocked.session("root", title="Root", age_s=500)
    stocked.session("child", title="Child", parent=parent, age_s=5)
    async with picking(stocked) as rig:
        assert rig.names[0] == "Child"
        await rig.press("ctrl+s")
        assert rig.names[:2] == ["Root", "└ Child"]
        assert "threaded" in rig.text
        await rig.press("ctrl+s", "ctrl+s", "ctrl+o")
        assert "dark mode please" not in rig.names
        assert "named only" in rig.text
        await rig.type("dark")
        assert "Nothing with a name matches dark · Ctrl+O shows those without" in rig.text
        await rig.press("backspace", "backspace", "backspace", "backspace")
        await rig.press("ctrl+l")
        assert ".jsonl" in rig.text


async def test_the_preview_shows_the_last_messages_and_can_be_hidden(stocked: Shop) -> None:
    async with picking(stocked, size=(120, 30)) as rig:
        await until(lambda: rig.picker.query_one(PreviewPane).is_ready, rig.pilot)
        assert "please fix the login" in rig.text
        assert "Understood." in rig.text
        await rig.press("down")
        await until(lambda: "the tokenizer is unrelated" in rig.text, rig.pilot)
        await rig.press("ctrl+t")
        assert "the tokenizer is unrelated" not in rig.text


def damage(path: Path) -> None:
    """A torn line in this session, and a file beside it that is none."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"{torn\n", *lines[2:]]))
    (path.parent / "2026-01-01T00-00-00-000Z_dead.jsonl").write_bytes(b"\x00" * 50)


def is_there(path: str) -> bool:
    return os.path.exists(path)


# -- states --------------------------------------------------------------------------------------


async def test_no_sessions_say_so_and_only_leaving_works(shop: Shop) -> None:
    async with picking(shop) as rig:
        assert "No sessions yet" in rig.text
        await rig.press("enter", "down", "ctrl+d", "ctrl+r", "ctrl+z")
        assert not rig.app._exit
        await rig.press("tab")
        assert "No sessions in this project yet · Tab shows all projects" in rig.text
        await press(rig.pilot, "escape")
        assert await rig.ended() is None


async def test_one_session(shop: Shop) -> None:
    shop.session("only", title="Only one")
    async with picking(shop) as rig:
        assert rig.names == ["Only one"]
        assert "1 session " in rig.text.replace("·", " ")
        await rig.press("up", "down", "pagedown")
        assert rig.current == "Only one"


async def test_damaged_sessions_are_listed_marked_and_counted(shop: Shop) -> None:
    damage(Path(shop.session("fine", title="Hurt")))
    async with picking(shop, size=(120, 30)) as rig:
        assert rig.names == ["Hurt"]
        assert "! Hurt" in rig.text
        await until(lambda: "damaged" in rig.text, rig.pilot)
        await until(lambda: rig.picker.query_one(PreviewPane).is_ready, rig.pilot)
        assert "1 unreadable" in rig.text


async def test_hostile_titles_are_escaped(shop: Shop) -> None:
    infos = [make_info("evil", title="\x1b]0;pwned\x07[red]bold[/red]", first_message="x")]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf) as rig:
        assert "\x1b" not in rig.text
        assert "[red]bold[/red]" in rig.text


async def test_thousands_of_sessions_are_listed_and_filtered(shop: Shop) -> None:
    infos = [
        make_info(f"session number {n}", age_s=n, all_messages_text=f"unique{n} " + "word " * 400)
        for n in range(5_000)
    ]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf) as rig:
        assert len(rig.names) == 5_000
        await rig.type("unique4321")
        assert rig.names == ["session number 4321"]
        for _ in range(3):
            await rig.press("backspace")
        assert len(rig.names) > 100
        await rig.press("ctrl+end", "pageup")
        assert rig.current is not None


async def test_all_of_thousands_of_long_sessions_are_searched_and_no_text_is_kept(
    shop: Shop,
) -> None:
    filler = "word " * 20_000
    reads: dict[int, int] = {}

    def reader(number: int) -> Callable[[], str]:
        def read() -> str:
            reads[number] = reads.get(number, 0) + 1
            return f"{filler} unique{number} phrase"

        return read

    infos = [make_info(f"s{n}", age_s=n, all_messages_text=reader(n)) for n in range(2_000)]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf) as rig:
        await rig.type("unique1999")
        await until(lambda: rig.names == ["s1999"], rig.pilot)
        assert min(reads.values()) == 1
        before = reads[1999]
        assert infos[1999].read_messages_text().endswith("unique1999 phrase")
        assert reads[1999] == before + 1


async def test_what_a_phrase_has_found_so_far_is_shown_while_more_is_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_rows, "_PART_S", -1)
    may_go_on = threading.Event()
    may_go_on.set()

    def slow() -> str:
        may_go_on.wait(20)
        return "the needle in here"

    infos = [
        make_info("first", age_s=1, all_messages_text="a needle in hay"),
        make_info("second", age_s=2, all_messages_text=slow),
    ]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf) as rig:
        await rig.type("needle")
        assert rig.names == ["first", "second"]
        may_go_on.clear()
        rig.picker.query_one(Input).value = '"needle in"'
        await until(lambda: rig.names == ["first"] and "reading 1 of 2" in rig.text)
        may_go_on.set()
        await until(lambda: "2 sessions" in rig.text, rig.pilot)
        assert rig.names == ["first", "second"]


async def test_the_list_is_there_before_everything_is_read(shop: Shop) -> None:
    shop.session("quick", title="Seen at once")
    may_go_on = threading.Event()

    class SlowShelf(SessionShelf):
        def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
            if on_progress is not None:
                on_progress(3, 12)
            may_go_on.wait(20)
            return super().load(breadth, on_progress)

    shelf = SlowShelf(Scope(shop.project, shop.profile))
    app = PickerApp(lambda: SessionPicker(shelf))
    async with app.run_test(size=(100, 24)) as pilot:
        await until(lambda: "Seen at once" in screen_text(app), pilot)
        await until(lambda: "reading 3 of 12" in screen_text(app), pilot)
        may_go_on.set()
        await until(lambda: "1 session " in screen_text(app).replace("·", " "), pilot)


async def test_leaving_does_not_wait_for_a_listing_that_takes_for_ever(shop: Shop) -> None:
    never = threading.Event()

    class StuckShelf(SessionShelf):
        def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
            never.wait(60)
            return SessionList()

    shelf = StuckShelf(Scope(shop.project, shop.profile))
    app = PickerApp(lambda: SessionPicker(shelf))
    async with app.run_test() as pilot:
        await until(lambda: isinstance(app.screen, SessionPicker), pilot)
        await press(pilot, "escape")
        await until(lambda: app._exit, pilot)
    never.set()
    assert app.return_value is None


async def test_a_listing_that_fails_says_why(shop: Shop) -> None:
    class BrokenShelf(SessionShelf):
        def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
            raise PermissionError(13, "Permission denied", "/sessions")

    async with picking(shop, shelf=BrokenShelf(Scope(shop.project, shop.profile))) as rig:
        assert "/sessions: Permission denied" in rig.text


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (119, 17), (200, 60)])
async def test_it_fits_terminals_of_all_sizes(stocked: Shop, size: tuple[int, int]) -> None:
    async with picking(stocked, size=size) as rig:
        await rig.press("down")
        assert rig.current == "dark mode please"
        assert len(screen_lines(rig.app)) == size[1]
        assert "❯" in rig.text


async def test_resizing_keeps_the_cursor_and_shows_it(stocked: Shop) -> None:
    async with picking(stocked, size=(140, 40)) as rig:
        await rig.press("ctrl+end")
        await rig.pilot.resize_terminal(50, 9)
        await rig.pilot.pause()
        assert rig.current == "Oldest"
        assert "❯" in rig.text
        await rig.pilot.resize_terminal(160, 50)
        await rig.pilot.pause()
        assert "Oldest" in rig.text


# -- changing ------------------------------------------------------------------------------------


async def test_a_session_is_renamed_and_the_name_can_be_taken_back(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await press(rig.pilot, "ctrl+r")
        await until(lambda: isinstance(rig.app.screen, TextDialog), rig.pilot)
        rig.app.screen.query_one(Input).value = "  A better   name "
        await press(rig.pilot, "enter")
        await until(lambda: "A better name" in rig.names, rig.pilot)
        assert "Renamed" in rig.text
        await rig.press("ctrl+z")
        await until(lambda: "Login" in rig.names, rig.pilot)


async def test_a_new_name_is_no_work_on_the_session(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await rig.press("ctrl+end")
        row = rig.picker.row_list.current
        assert row is not None
        assert row.name == "Oldest"
        before = modified(row.info.path)
        await press(rig.pilot, "ctrl+r")
        await until(lambda: isinstance(rig.app.screen, TextDialog), rig.pilot)
        rig.app.screen.query_one(Input).value = "Renamed one"
        await press(rig.pilot, "enter")
        await until(lambda: "Renamed one" in rig.names, rig.pilot)
        assert modified(row.info.path) == before
        assert rig.names[-1] == "Renamed one"
        await rig.settle()
        await rig.press("ctrl+z")
        await until(lambda: "Oldest" in rig.names, rig.pilot)
        assert modified(row.info.path) == before


def modified(path: str) -> int:
    return os.stat(path).st_mtime_ns


async def test_a_rename_that_is_cancelled_changes_nothing(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        await press(rig.pilot, "ctrl+r")
        await until(lambda: isinstance(rig.app.screen, TextDialog), rig.pilot)
        await press(rig.pilot, "x", "escape")
        await rig.settle()
        assert "Login" in rig.names


async def test_a_session_goes_to_the_trash_after_a_yes_and_comes_back(stocked: Shop) -> None:
    async with picking(stocked) as rig:
        row = rig.picker.row_list.current
        assert row is not None
        path = row.info.path
        await press(rig.pilot, "ctrl+d")
        await until(lambda: isinstance(rig.app.screen, ConfirmDialog), rig.pilot)
        await press(rig.pilot, "y")
        await until(lambda: "Login" not in rig.names, rig.pilot)
        assert not is_there(path)
        assert "^Z brings it back" in rig.text
        await rig.settle()
        await rig.press("ctrl+z")
        await until(lambda: "Login" in rig.names, rig.pilot)
        assert is_there(path)


async def test_notices_are_whole_and_the_keys_of_changes_stay_at_80_columns(shop: Shop) -> None:
    name = "Sample: a conversation about the parser and about its tests, too"
    shop.session("one", title=name)
    shop.session("two", title="Second", age_s=60)
    async with picking(shop, size=(80, 24)) as rig:
        assert "^R rename  ^D delete" in rig.text
        assert "F1 keys" in rig.text
        await press(rig.pilot, "ctrl+d")
        await until(lambda: isinstance(rig.app.screen, ConfirmDialog), rig.pilot)
        await press(rig.pilot, "y")
        await until(lambda: "Moved to the trash, ^Z brings it back" in rig.text, rig.pilot)
        await rig.settle()
        assert "^Z undo  ^R rename  ^D delete" in rig.text
        await rig.press("ctrl+z")
        await until(lambda: "Restored from the trash" in rig.text, rig.pilot)
        await rig.press("ctrl+home")
        await press(rig.pilot, "ctrl+r")
        await until(lambda: isinstance(rig.app.screen, TextDialog), rig.pilot)
        rig.app.screen.query_one(Input).value = "Short"
        await press(rig.pilot, "enter")
        await until(lambda: "Short" in rig.names, rig.pilot)
        await rig.settle()
        await rig.press("ctrl+z")
        shown = "The name is Sample: a conversation about the parser"
        await until(lambda: shown in rig.text and "… again" in rig.text, rig.pilot)


async def test_f1_shows_all_keys(stocked: Shop) -> None:
    async with picking(stocked, size=(80, 24)) as rig:
        await press(rig.pilot, "f1")
        await until(lambda: isinstance(rig.app.screen, ReadingPane), rig.pilot)
        await press(rig.pilot, "pagedown")
        for key in ("Ctrl+O", "Ctrl+L", "Ctrl+T", "Ctrl+Y"):
            assert key in rig.text
        await press(rig.pilot, "escape")
        await until(lambda: rig.app.screen is rig.picker, rig.pilot)
        assert not rig.app._exit


@pytest.mark.parametrize("key", ["n", "escape", "enter"])
async def test_anything_but_yes_keeps_the_session(stocked: Shop, key: str) -> None:
    async with picking(stocked) as rig:
        await press(rig.pilot, "ctrl+d")
        await until(lambda: isinstance(rig.app.screen, ConfirmDialog), rig.pilot)
        await press(rig.pilot, key)
        await rig.settle()
        assert "Login" in rig.names
        assert not rig.app._exit


async def test_a_change_that_fails_says_why(stocked: Shop) -> None:
    class StubbornShelf(SessionShelf):
        def remove(self, info: SessionInfo) -> Any:
            raise PermissionError(13, "Permission denied", info.path)

    shelf = StubbornShelf(Scope(stocked.project, stocked.profile))
    async with picking(stocked, shelf=shelf) as rig:
        await press(rig.pilot, "ctrl+d")
        await until(lambda: isinstance(rig.app.screen, ConfirmDialog), rig.pilot)
        await press(rig.pilot, "y")
        await until(lambda: "That failed" in rig.text, rig.pilot)
        assert "Login" in rig.names


async def test_the_open_session_is_marked_and_can_neither_be_removed_nor_renamed_here(
    stocked: Shop,
) -> None:
    path = stocked.session("this one", title="Open now")
    async with picking(stocked, open_path=path) as rig:
        assert "● Open now" in rig.text
        await rig.press("ctrl+d")
        assert "stays" in rig.text
        await rig.press("ctrl+r")
        assert "/name" in rig.text


async def test_candidates_are_all_there_is(shop: Shop) -> None:
    infos = [make_info("one"), make_info("two", age_s=5)]
    shelf = SessionShelf(Scope(shop.project, shop.profile), candidates=infos)
    async with picking(shop, shelf=shelf) as rig:
        assert rig.names == ["one", "two"]
        assert "Which session?" in rig.text
        await rig.press("tab")
        assert rig.names == ["one", "two"]
        await rig.press("down", "enter")
        assert await rig.ended() == "/sessions/two.jsonl"


def test_pick_session_ends_the_program_on_ctrl_c(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessiontree.tui.pickers.session_picker import pick_session

    def left(app: PickerApp, *_: object, **__: object) -> None:
        app.was_left = True

    monkeypatch.setattr(PickerApp, "run", left)
    with pytest.raises(SystemExit) as ended:
        pick_session(Scope(shop.project, shop.profile))
    assert ended.value.code == 0
