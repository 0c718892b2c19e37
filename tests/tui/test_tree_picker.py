"""The tree picker, driven by keys."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.samples import assistant, user
from textual.pilot import Pilot
from textual.widgets import Input

from sessiontree import SessionManager
from sessiontree.core.tree_entries import Digester, Kind, TreeEntry
from sessiontree.errors import EntryNotFoundError
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ReadingPane, TextDialog
from sessiontree.tui.pickers.tree_picker import TreeChoice, TreePicker, TreeSource
from sessiontree.tui.pickers.tree_rows import Filter, Label, TreeModel
from sessiontree.tui.theme import ThemedApp

from .support import NOW, burst, press, screen_lines, screen_text, until


def entry(entry_id: str, parent: str | None, kind: Kind, text: str) -> TreeEntry:
    name = {"user": "you", "tool": "bash"}.get(kind, kind)
    return TreeEntry(
        entry_id, parent, "2026-03-01T10:00:00.000Z", kind, name, text, is_prompt=kind == "user"
    )


ENTRIES = [
    entry("m1", None, "state", "anthropic/claude"),
    entry("u1", "m1", "user", "first prompt"),
    entry("a1", "u1", "assistant", "first answer"),
    entry("u2", "a1", "user", "one way"),
    entry("t1", "u2", "tool", "pytest -q"),
    entry("a2", "t1", "assistant", "it failed"),
    entry("u3", "a1", "user", "other way"),
    entry("a3", "u3", "assistant", "it works"),
]


class Session:
    """A tree that can be labeled, in memory."""

    def __init__(self, entries: list[TreeEntry], leaf: str | None) -> None:
        self.entries, self.leaf = entries, leaf
        self.labels: dict[str, Label] = {}
        self.refuses = False

    async def load(self) -> TreeModel:
        return TreeModel(self.entries, self.leaf, dict(self.labels))

    async def set_label(self, entry_id: str, label: str | None) -> None:
        if self.refuses:
            raise EntryNotFoundError(entry_id)
        self.labels.pop(entry_id, None)
        if label is not None:
            self.labels[entry_id] = Label(label, "2026-03-01T11:00:00.000Z")


class Host(ThemedApp[None]):
    def __init__(self, picker: TreePicker) -> None:
        super().__init__()
        self.picker = picker
        self.results: list[TreeChoice | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.results.append)


class Rig:
    def __init__(self, app: Host, pilot: Pilot[Any], session: Session) -> None:
        self.app, self.pilot, self.session = app, pilot, session

    @property
    def ids(self) -> list[str]:
        return [row.entry.id for row in self.app.picker.row_list.rows]

    @property
    def current(self) -> str | None:
        row = self.app.picker.row_list.current
        return row.entry.id if row else None

    @property
    def text(self) -> str:
        return screen_text(self.app)

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)
        await until(lambda: self.app.results or not self.app.picker.is_busy, self.pilot)

    async def result(self) -> TreeChoice | None:
        await until(lambda: self.app.results, self.pilot)
        assert len(self.app.results) == 1
        return self.app.results[0]

    async def until_screen(self, kind: type[Any]) -> None:
        await until(lambda: isinstance(self.app.screen, kind), self.pilot)


@asynccontextmanager
async def picking(
    entries: list[TreeEntry] | None = None,
    leaf: str | None = "a3",
    size: tuple[int, int] = (100, 30),
    **labels: str,
) -> AsyncIterator[Rig]:
    session = Session(ENTRIES if entries is None else entries, leaf)
    for entry_id, text in labels.items():
        session.labels[entry_id] = Label(text, "2026-03-01T11:00:00.000Z")
    picker = TreePicker(TreeSource(session.load, session.set_label), clock=lambda: NOW)
    app = Host(picker)
    async with app.run_test(size=size) as pilot:
        await until(lambda: app.screen is picker and not picker.is_busy, pilot)
        yield Rig(app, pilot, session)


async def test_it_opens_where_the_conversation_stands() -> None:
    async with picking() as rig:
        assert rig.current == "a3"
        assert rig.ids == ["u1", "a1", "u2", "t1", "a2", "u3", "a3"]
        assert "← here" in rig.text
        assert "You are already here" in rig.text


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
@pytest.mark.parametrize("count", [11, 26, 123])
async def test_it_opens_with_the_cursor_in_sight_however_long_the_tree_is(
    size: tuple[int, int], count: int
) -> None:
    kinds: tuple[Kind, Kind] = ("user", "assistant")
    entries = [
        entry(f"e{n}", f"e{n - 1}" if n else None, kinds[n % 2], f"text {n}") for n in range(count)
    ]
    async with picking(entries, f"e{count - 1}", size=size) as rig:
        marked = [line for line in screen_lines(rig.app) if line.startswith("❯")]
        assert len(marked) == 1
        assert f"text {count - 1}" in marked[0]
        assert "← here" in marked[0]


async def test_a_line_shows_what_an_answer_says_without_the_marks_of_markdown() -> None:
    answer = "## Done\n\nThe **token** is in `client.py`:\n\n```python\nf(**kw)\n```"
    entries = [
        entry("u1", None, "user", "Keep **this** and `that`"),
        entry("a1", "u1", "assistant", answer),
    ]
    async with picking(entries, "a1", size=(200, 20)) as rig:
        lines = [" ".join(line.split()) for line in rig.text.splitlines() if "●" in line]
        assert "you Keep **this** and `that`" in lines[0]
        assert "agent Done The token is in client.py: f(**kw)" in lines[1]
        await rig.press(*"token")
        assert "The token is in client.py" in rig.text


async def test_answers_are_shown_and_found_by_the_agent_that_gives_them() -> None:
    session = SessionManager.in_memory()
    session.append_message(user("plan a trip"))
    session.append_message({**assistant("two days there"), "agentName": "planner"})
    session.append_message({**assistant("and it rains"), "agentName": "forecaster\x1b[31m"})
    entries = [*Digester().digest_all(session.get_entries())]
    async with picking(entries, session.leaf_id) as rig:
        assert "agent planner two days there" in rig.text
        assert "agent forecaster" in rig.text
        assert "\x1b" not in rig.text
        await rig.press(*"planner")
        assert rig.ids == [entries[1].id]


async def test_what_a_choice_will_do_is_said_before_enter() -> None:
    async with picking() as rig:
        await rig.press("up")
        assert "Edit and resend this prompt · 2 messages stay on the old branch" in rig.text
        await rig.press("up")
        assert "Continue from here · 2 messages stay on the old branch" in rig.text


async def test_esc_cancels_and_enter_where_we_are_changes_nothing() -> None:
    async with picking() as rig:
        await rig.press("escape", "escape", "enter")
        assert await rig.result() is None
    async with picking() as rig:
        await rig.press("enter")
        assert await rig.result() is None


@pytest.mark.parametrize(
    ("keys", "choice"),
    [
        ((), TreeChoice("a2", False, None)),
        (("down",), TreeChoice("a2", True, None)),
    ],
)
async def test_leaving_messages_asks_about_a_summary(
    keys: tuple[str, ...], choice: TreeChoice
) -> None:
    async with picking() as rig:
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        assert "You leave 2 messages behind" in rig.text
        await rig.press(*keys, "enter")
        assert await rig.result() == choice


async def test_one_message_left_behind_is_it_and_not_them() -> None:
    async with picking(ENTRIES[:3], "a1") as rig:
        await rig.press("ctrl+home", "enter")
        await rig.until_screen(ChoiceDialog)
        assert "You leave 2 messages behind. Summarize them" in rig.text
    async with picking(ENTRIES[:4], "u2") as rig:
        await rig.press("up", "enter")
        await rig.until_screen(ChoiceDialog)
        assert "You leave 1 message behind. Summarize it for the agent?" in rig.text


async def test_a_summary_with_instructions_asks_for_them() -> None:
    async with picking() as rig:
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "down", "enter")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = "what failed"
        await rig.press("enter")
        assert await rig.result() == TreeChoice("a2", True, "what failed")


async def test_esc_in_the_summary_question_goes_back_to_the_tree() -> None:
    async with picking() as rig:
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("escape")
        await rig.until_screen(TreePicker)
        assert rig.app.results == []
        assert rig.current == "a2"


async def test_going_deeper_asks_nothing() -> None:
    async with picking(leaf="a1") as rig:
        await rig.press("down", "down", "down", "enter")
        assert await rig.result() == TreeChoice("a2")


async def test_tab_goes_through_the_filters() -> None:
    async with picking(u2="dead end") as rig:
        await rig.press("tab")
        assert "no tools" in rig.text
        assert "t1" not in rig.ids
        await rig.press("tab")
        assert rig.ids == ["u1", "u2", "u3"]
        await rig.press("tab")
        assert rig.ids == ["u2"]
        await rig.press("tab")
        assert rig.ids[0] == "m1"
        assert "everything" in rig.text
        await rig.press("tab", "shift+tab")
        assert "everything" in rig.text


async def test_a_filter_that_hides_where_we_are_marks_what_is_above_it() -> None:
    async with picking() as rig:
        await rig.press("tab", "tab")
        assert rig.current == "u3"
        assert "← here, below" in rig.text
        assert "Edit and resend this prompt" in rig.text
        await rig.press("shift+tab")
        assert "← here" in rig.text
        assert "below" not in rig.text


async def test_typing_searches() -> None:
    async with picking() as rig:
        await rig.press(*"way")
        assert rig.ids == ["u2", "u3"]
        await rig.press(*"zzz")
        assert "Nothing matches wayzzz" in rig.text
        await rig.press("enter")
        assert rig.app.results == []


async def test_keys_that_come_all_at_once_choose_what_was_meant() -> None:
    async with picking() as rig:
        burst(rig.app, "one X", "backspace", "way", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("enter")
        assert await rig.result() == TreeChoice("u2")


async def test_a_view_that_nobody_waits_for_any_more_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = threading.Event()
    rows_of = TreeModel.rows

    def rows(model: TreeModel, shown: Filter, query: Query, *args: Any, **more: Any) -> object:
        if query.text == "w":
            while not more["should_stop"]():
                stopped.wait(0.01)
            stopped.set()
        return rows_of(model, shown, query, *args, **more)

    monkeypatch.setattr(TreeModel, "rows", rows)
    async with picking() as rig:
        burst(rig.app, "way")
        await until(stopped.is_set, rig.pilot)
        await until(lambda: not rig.app.picker.is_busy, rig.pilot)
        assert rig.ids == ["u2", "u3"]


async def test_left_folds_and_right_unfolds() -> None:
    async with picking() as rig:
        await rig.press("ctrl+home", "down", "left")
        assert rig.ids == ["u1", "a1"]
        assert "▸ 5 folded" in rig.text
        assert rig.current == "a1"
        await rig.press("right")
        assert len(rig.ids) == 7
        await rig.press("ctrl+end", "left", "right")
        assert len(rig.ids) == 7


async def test_jumping_from_prompt_to_prompt() -> None:
    async with picking() as rig:
        await rig.press("ctrl+up")
        assert rig.current == "u3"
        await rig.press("ctrl+up", "ctrl+up", "ctrl+up")
        assert rig.current == "u1"
        await rig.press("alt+down")
        assert rig.current == "u2"


async def test_a_label_is_set_shown_with_its_time_and_taken_away() -> None:
    async with picking() as rig:
        await rig.press("ctrl+l")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = "works"
        await rig.press("enter")
        await until(lambda: "[works · 1h ago]" in rig.text, rig.pilot)
        assert rig.session.labels["a3"].text == "works"
        await rig.press("ctrl+l")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = ""
        await rig.press("enter")
        await until(lambda: "Label removed" in rig.text, rig.pilot)
        assert rig.session.labels == {}


async def test_a_label_that_can_not_be_set_says_why() -> None:
    async with picking() as rig:
        rig.session.refuses = True
        await rig.press("ctrl+l")
        await rig.until_screen(TextDialog)
        await rig.press("x", "enter")
        await until(lambda: "Not labeled: Entry a3 not found" in rig.text, rig.pilot)


async def test_the_chosen_entry_is_shown_whole_and_can_be_hidden() -> None:
    long = entry("u1", None, "user", "word " * 60 + "the end")
    async with picking([long], "u1") as rig:
        assert "the end" in rig.text
        assert "you · 2h ago · u1" in rig.text
        await rig.press("ctrl+t")
        assert "the end" not in rig.text


async def test_an_answer_is_shown_as_markdown_beside_the_tree() -> None:
    answer = entry("a1", None, "assistant", "# Plan\n\n**First** this:\n\n```python\nx = 1\n```\n")
    async with picking([answer], "a1") as rig:
        pane = [line.strip() for line in screen_lines(rig.app)]
        assert "First this:" in pane
        assert "x = 1" in pane
        assert "```python" not in pane


async def test_a_view_without_lines_says_why() -> None:
    async with picking([entry("m1", None, "state", "a/b")], "m1") as rig:
        assert "No messages yet" in rig.text
        await rig.press("tab", "tab", "tab")
        assert "Nothing is labeled yet" in rig.text


async def test_an_empty_session_says_so() -> None:
    async with picking([], None) as rig:
        assert "The session is empty" in rig.text
        await rig.press("enter", "left", "right", "ctrl+l", "tab", "ctrl+up", "down")
        assert rig.app.results == []
        await rig.press("escape")
        assert await rig.result() is None


async def test_thousands_of_entries_and_deep_branches_stay_readable() -> None:
    entries = [entry("e0", None, "user", "start")]
    for n in range(1, 3_000):
        entries += [
            entry(f"e{n}", f"e{n - 1}", "assistant", f"text {n}"),
            entry(f"s{n}", f"e{n - 1}", "user", f"side {n}"),
        ]
    async with picking(entries, "e2999", size=(80, 24)) as rig:
        assert rig.current == "e2999"
        assert "text 2999" in rig.text
        await rig.press("pageup", "ctrl+home")
        assert rig.current == "e0"


@pytest.mark.parametrize("size", [(24, 6), (50, 12), (80, 24), (200, 60)])
async def test_it_fits_terminals_of_all_sizes(size: tuple[int, int]) -> None:
    async with picking(size=size, a1="a label that is rather long") as rig:
        await rig.press("up", "up", "up")
        assert len(screen_lines(rig.app)) == size[1]
        assert "❯" in rig.text
        assert all(len(line) <= size[0] for line in screen_lines(rig.app))


async def test_f1_shows_the_keys() -> None:
    async with picking(size=(80, 24)) as rig:
        assert "F1 keys" in screen_lines(rig.app)[-1]
        await press(rig.pilot, "f1")
        await rig.until_screen(ReadingPane)
        assert "from prompt to prompt" in rig.text
        await press(rig.pilot, "escape")
        await rig.until_screen(TreePicker)
        assert rig.app.results == []


async def test_what_stays_behind_is_said_whole_at_80_columns() -> None:
    async with picking(size=(80, 24)) as rig:
        await rig.press("up")
        assert "2 messages stay on the old branch" in rig.text


async def test_hostile_text_is_escaped() -> None:
    evil = entry("u1", None, "user", "\x1b[2J[bold]x[/bold]\u202e")
    async with picking([evil], "u1", u1="\x1b]0;x\x07") as rig:
        assert "\x1b" not in rig.text
        assert "[bold]x[/bold]" in rig.text
