"""The conversation on screen: scrolling, following, folding, however long it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from sessiontree.tui.theme import ThemedApp
from sessiontree.tui.transcript.blocks import Block
from sessiontree.tui.transcript.widget import Transcript

from .support import react, screen_lines, until


class Host(ThemedApp[None]):
    def __init__(self) -> None:
        super().__init__()
        self.wanted = 0

    def compose(self) -> ComposeResult:
        yield Transcript()

    def on_transcript_earlier_wanted(self) -> None:
        self.wanted += 1


@asynccontextmanager
async def showing(
    blocks: list[Block], size: tuple[int, int] = (60, 12), earlier: str = ""
) -> AsyncIterator[tuple[Host, Transcript, Pilot[Any]]]:
    app = Host()
    async with app.run_test(size=size) as pilot:
        transcript = app.query_one(Transcript)
        transcript.show(blocks, earlier)
        await pilot.pause()
        yield app, transcript, pilot


def talk(count: int) -> list[Block]:
    made = []
    for n in range(count):
        made.append(Block("user", f"prompt {n}"))
        made.append(Block("answer", f"answer {n}\n\n" + f"line of {n} " * (n % 30)))
    return made


async def test_every_key_that_scrolls_ends_where_it_should() -> None:
    async with showing(talk(40), size=(60, 12)) as (app, transcript, pilot):
        transcript.focus()
        for key in ("pageup", "pageup", "pagedown", "end", "home", "pagedown", "end", "pagedown"):
            await pilot.press(key)
            await react(pilot)
        await until(lambda: transcript.is_following, pilot)
        assert "line of 39" in screen_lines(app)[-1]
        await pilot.press("home")
        await until(lambda: transcript.scroll_offset.y == 0, pilot)
        assert "prompt 0" in screen_lines(app)[0]


async def test_it_opens_at_the_end_and_follows_what_is_added() -> None:
    blocks = talk(20)
    async with showing(blocks) as (app, transcript, pilot):
        assert "line of 19" in screen_lines(app)[-1]
        blocks.append(Block("user", "the newest"))
        transcript.sync(blocks)
        await pilot.pause()
        assert "the newest" in screen_lines(app)[-1]
        blocks[-1].change(text="the newest\nhas grown")
        transcript.sync(blocks)
        await pilot.pause()
        assert "has grown" in screen_lines(app)[-1]


async def test_whoever_has_scrolled_up_is_not_moved_by_what_is_added() -> None:
    blocks = talk(30)
    async with showing(blocks) as (app, transcript, pilot):
        transcript.scroll_relative(y=-20, animate=False)
        await pilot.pause()
        before = screen_lines(app)
        blocks.append(Block("answer", "something new"))
        transcript.sync(blocks)
        await pilot.pause()
        assert screen_lines(app) == before
        assert not transcript.is_following
        transcript.follow()
        await pilot.pause()
        assert "something new" in screen_lines(app)[-1]


def text_lines(app: Host) -> list[str]:
    """The lines without the column of the scrollbar."""
    return [line[:59].rstrip() for line in screen_lines(app)]


async def test_scrolling_up_line_by_line_shows_every_line_once_and_in_order() -> None:
    async with showing(talk(25)) as (app, transcript, pilot):
        seen = text_lines(app)
        while transcript.scroll_offset.y > 0:
            transcript.scroll_relative(y=-1, animate=False)
            await react(pilot)
            now = text_lines(app)
            assert now[1:] == seen[: len(now) - 1]
            seen = [now[0], *seen]
        prompts = [line.split()[-1] for line in seen if "prompt" in line]
        assert prompts == [str(n) for n in range(25)]


async def test_ten_thousand_blocks_open_at_once() -> None:
    blocks = talk(5_000)
    async with showing([]) as (app, transcript, pilot):
        started = time.process_time()
        transcript.show(blocks)
        await pilot.pause()
        assert time.process_time() - started < 5
        assert "line of 4999" in screen_lines(app)[-1]
        transcript.scroll_home(animate=False)
        await pilot.pause()
        assert "prompt 0" in screen_lines(app)[0]


async def test_folding_keeps_what_is_seen_in_place() -> None:
    blocks = [
        block
        for n in range(20)
        for block in (
            Block("user", f"prompt {n}"),
            Block("thinking", f"a{n}\nb\nc\nd", status="done"),
        )
    ]
    async with showing(blocks) as (app, transcript, pilot):
        transcript.scroll_to(y=20, animate=False)
        await pilot.pause()
        first = next(line for line in screen_lines(app) if "prompt" in line)
        row = screen_lines(app).index(first)
        transcript.toggle_thinking()
        await pilot.pause()
        assert screen_lines(app)[row] == first
        transcript.toggle_thinking()
        await pilot.pause()
        assert first in screen_lines(app)


async def test_what_is_prepended_does_not_move_what_is_seen() -> None:
    async with showing(talk(20), earlier="5 earlier entries") as (app, transcript, pilot):
        transcript.scroll_home(animate=False)
        await pilot.pause()
        assert "▲ 5 earlier entries" in screen_lines(app)[0]
        await until(lambda: app.wanted, pilot)
        second = screen_lines(app)[2]
        transcript.prepend([Block("user", "an older prompt")], "")
        await pilot.pause()
        assert second in screen_lines(app)
        transcript.scroll_home(animate=False)
        await pilot.pause()
        assert "an older prompt" in screen_lines(app)[0]


async def test_resizing_keeps_following() -> None:
    async with showing(talk(40), size=(100, 20)) as (app, _, pilot):
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert "line of 39" in "".join(screen_lines(app))
        assert all(len(line) <= 40 for line in screen_lines(app))


async def test_a_shorter_conversation_replaces_the_one_before() -> None:
    blocks = talk(10)
    async with showing(blocks) as (app, transcript, pilot):
        transcript.sync([Block("user", "only this")])
        await pilot.pause()
        assert screen_lines(app)[0] == "▌ only this"
        assert not any(screen_lines(app)[1:])


async def test_text_can_be_selected() -> None:
    async with showing([Block("answer", "first line\n\nsecond line")]) as (_, transcript, _pilot):
        picked = transcript.get_selection(Selection(Offset(2, 0), Offset(8, 2)))
        assert picked is not None
        assert picked[0] == "first line\n\n  second"


@pytest.mark.parametrize("theme", ["sessiontree-light", "sessiontree-dark"])
async def test_another_theme_draws_everything_anew(theme: str) -> None:
    async with showing(talk(3)) as (app, _, pilot):
        app.theme = theme
        await pilot.pause()
        assert "line of 2" in "".join(screen_lines(app))
