"""Long pastes: one mark in the editor, the whole text everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste

from sessiontree.config import Config
from sessiontree.tui.chat import commands

from .support import Shop, running_chat

LONG = "".join(f"line {number}\n" for number in range(213))
MARK = "[pasted 213 lines]"


async def paste(rig: Any, text: str) -> None:
    rig.chat.editor.post_message(Paste(text))
    await rig.press()


def prompts(rig: Any) -> list[Any]:
    return [message["content"] for message in rig.session.messages if message["role"] == "user"]


def prompt_text(rig: Any) -> str:
    (content,) = prompts(rig)
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def test_a_long_paste_is_one_mark_and_is_sent_whole(shop: Shop) -> None:
    async with running_chat(shop.create(), "I see.") as rig:
        await rig.type("look at ")
        await paste(rig, LONG)
        await rig.type(" please")
        assert rig.chat.editor.text == f"look at {MARK} please"
        assert f"{MARK} please" in rig.text
        assert "is sent whole" in rig.said
        await rig.press("enter")
        await rig.until(lambda: rig.is_idle and len(rig.session.messages) == 2)
        assert prompt_text(rig) == f"look at {LONG} please"
        await rig.press("up")
        assert rig.chat.editor.text == f"look at {LONG} please"


@pytest.mark.parametrize(
    "text", ["short", "\n".join(["ten", "lines", "of", "it"] * 2), "x" * 2_000]
)
async def test_what_fits_is_not_folded(shop: Shop, text: str) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, text)
        assert rig.chat.editor.text == text


async def test_one_long_line_is_folded_too(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, "x" * 2_001)
        assert rig.chat.editor.text == "[pasted 2,001 characters]"
        assert rig.chat.editor.whole_text == "x" * 2_001


@pytest.mark.parametrize("key", ["backspace", "ctrl+w"])
async def test_a_mark_is_removed_as_one(shop: Shop, key: str) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("a ")
        await paste(rig, LONG)
        await rig.press(key)
        assert rig.chat.editor.text == "a "
        await rig.press("ctrl+z")
        assert rig.chat.editor.whole_text == f"a {LONG}"


async def test_the_cursor_jumps_over_a_mark_and_delete_removes_it(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("a")
        await paste(rig, LONG)
        await rig.type("b")
        await rig.press("left", "left")
        await rig.type("<")
        assert rig.chat.editor.text == f"a<{MARK}b"
        await rig.press("right")
        await rig.type(">")
        assert rig.chat.editor.text == f"a<{MARK}>b"
        await rig.press("left", "left", "ctrl+d")
        assert rig.chat.editor.text == "a<>b"


async def test_typing_inside_of_a_mark_by_mouse_harms_nothing(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, LONG)
        rig.chat.editor.move_cursor((0, 5))
        await rig.type("x")
        assert rig.chat.editor.whole_text == f"{LONG}x"


async def test_tab_unfolds(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("see: ")
        await paste(rig, LONG)
        await rig.press("tab")
        assert rig.chat.editor.text == f"see: {LONG}"


async def test_two_pastes_of_one_size_are_told_apart(shop: Shop) -> None:
    other = LONG.replace("line", "word")
    async with running_chat(shop.create(), "Yes.") as rig:
        await paste(rig, LONG)
        await paste(rig, other)
        await paste(rig, LONG)
        assert rig.chat.editor.text == f"{MARK}[pasted 213 lines, 2]{MARK}"
        await rig.press("enter")
        await rig.until(lambda: rig.is_idle and len(rig.session.messages) == 2)
        assert prompt_text(rig) == (LONG + other + LONG).strip()


async def test_a_mark_within_a_paste_is_text(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, LONG)
        await paste(rig, f"{MARK}\n" * 20)
        assert rig.chat.editor.whole_text == LONG + f"{MARK}\n" * 20


async def test_a_cleared_paste_comes_back_whole(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, LONG)
        await rig.press("ctrl+c")
        assert rig.chat.editor.text == ""
        await rig.press("up")
        assert rig.chat.editor.text == LONG


async def test_a_draft_keeps_its_paste_while_earlier_prompts_are_shown(shop: Shop) -> None:
    async with running_chat(shop.create(), "Yes.") as rig:
        await rig.ask("earlier")
        await paste(rig, LONG)
        await rig.press("up", "down")
        assert rig.chat.editor.text == MARK
        assert rig.chat.editor.whole_text == LONG


async def test_copied_marks_are_their_text(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await paste(rig, LONG)
        rig.chat.editor.select_all()
        await rig.press("ctrl+c")
        assert rig.app.clipboard == LONG


async def test_the_own_editor_gets_the_whole_text(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    async def run_outside(app: object, work: Any) -> str:
        return str(work())

    def edit(text: str, config: Config) -> str:
        seen.append(text)
        return text if len(seen) == 1 else "changed"

    monkeypatch.setattr(commands, "run_outside", run_outside)
    monkeypatch.setattr(commands, "edit_text", edit)
    async with running_chat(shop.create()) as rig:
        await paste(rig, LONG)
        await rig.press("ctrl+g")
        await rig.until(lambda: len(seen) == 1)
        assert rig.chat.editor.text == MARK
        await rig.press("ctrl+g")
        await rig.until(lambda: rig.chat.editor.text == "changed")
        assert seen == [LONG, LONG]
