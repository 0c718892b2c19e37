"""Approving what a tool is about to do: what is shown, which keys count, and what stays allowed."""

from __future__ import annotations

import asyncio

import pytest
from textual import events

from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.permissions import Permission
from sessiontree.tui.chat.arming import ALONE_S, PAUSE_S
from sessiontree.tui.chat.confirm import ToolDialog, lay_out_question
from sessiontree.tui.palette import DARK
from sessiontree.tui.pickers.dialogs import ChoiceDialog
from sessiontree.tui.text_pane import TextPane

from .support import ChatRig, Shop, burst, running_chat, screen_lines


def command(text: str, folder: str = "/home/me/app") -> Confirmation:
    title = f"Run a command in {folder}"
    return Confirmation("1", "bash", "run", title, text, "command", text, folder)


def new_file(path: str, text: str) -> Confirmation:
    folder = path.rpartition("/")[0]
    title = f"Create {path} ({len(text)} bytes)"
    return Confirmation("1", "write", "write", title, text, "content", path, folder)


def ask(rig: ChatRig, question: Confirmation) -> asyncio.Task[bool]:
    return asyncio.ensure_future(rig.chat.confirmer.confirm(question))


def press_at(rig: ChatRig, key: str, moment: float) -> None:
    """Press a key at a moment of the clock that events have."""
    event = events.Key(key, key if len(key) == 1 else None)
    event.time = moment
    rig.app.post_message(event)


async def closed(rig: ChatRig, answer: asyncio.Task[bool]) -> bool:
    await rig.until(lambda: answer.done() and rig.app.screen is rig.chat)
    return answer.result()


# -- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["yesterday", "okay", "always", "y", "pls start ", "any"])
async def test_what_is_typed_as_the_question_comes_up_answers_nothing(
    shop: Shop, word: str
) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("rm -rf build"))
        await rig.until_screen(ToolDialog)
        burst(rig.app, word)
        await rig.until(lambda: rig.chat.editor.text == word)  # nothing of it is lost
        assert isinstance(rig.app.screen, ToolDialog)
        assert not answer.done()
        await rig.until_asked()
        await rig.press("escape")
        assert await closed(rig, answer) is False
        assert rig.chat.editor.text == word


async def test_a_key_that_was_pressed_before_the_question_was_drawn_is_no_answer(
    shop: Shop,
) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("rm -rf build"))
        dialog = await rig.until_asked()
        # A busy program comes to look at the key only now.
        press_at(rig, "y", events.Key("y", "y").time - 2 * PAUSE_S)
        await rig.until(lambda: rig.chat.editor.text == "y")
        assert not answer.done()
        dialog.action_answer("no")
        assert await closed(rig, answer) is False


async def test_whoever_types_on_after_a_pause_has_not_answered(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("rm -rf build"))
        await rig.until_asked()
        burst(rig.app, "yes but first ")
        await rig.until(lambda: rig.chat.editor.text == "yes but first ")
        assert not answer.done()
        await rig.until_asked()
        await rig.press("n")
        assert await closed(rig, answer) is False


async def test_a_typist_of_any_rhythm_answers_nothing_with_a_word(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("rm -rf build"))
        await rig.until_asked()
        moment = events.Key("y", "y").time
        for number, letter in enumerate("yay"):
            press_at(rig, letter, moment + number * ALONE_S * 0.9)
        await rig.until(lambda: rig.chat.editor.text == "yay")
        assert not answer.done()
        await rig.until_asked()
        await rig.press("n")
        assert await closed(rig, answer) is False


async def test_enter_after_y_confirms_it_at_once(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("make"))
        await rig.until_asked()
        burst(rig.app, "y", "enter")
        assert await closed(rig, answer) is True
        assert rig.chat.editor.text == ""


async def test_the_question_starts_on_no_and_arrows_choose(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("make"))
        await rig.until_asked()
        await rig.press("enter")
        assert await closed(rig, answer) is False
        answer = ask(rig, command("make"))
        await rig.until_asked()
        await rig.press("right", "enter")
        assert await closed(rig, answer) is True


async def test_pasted_text_answers_nothing(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("make"))
        await rig.until_asked()
        rig.app.post_message(events.Paste("y\n"))
        await rig.until(lambda: rig.chat.editor.text.startswith("y"))
        assert not answer.done()
        await rig.until_asked()
        await rig.press("escape")
        assert await closed(rig, answer) is False


# -- what is shown -------------------------------------------------------------------------------


async def test_a_command_is_approved_only_after_its_last_line_was_on_the_screen(
    shop: Shop,
) -> None:
    lines = "\n".join(f"echo {n}" for n in range(500)) + "\nrm -rf /"
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        answer = ask(rig, command(lines))
        dialog = await rig.until_asked()
        height = dialog.query_one(TextPane).size.height
        assert f"{501 - height} more lines" in rig.text
        assert "rm -rf /" not in rig.text
        await rig.press("y")
        await rig.until(lambda: f"{501 - 2 * height + 1} more lines" in rig.text)
        assert not answer.done()
        await rig.press("end")
        await rig.until(lambda: "rm -rf /" in rig.text)
        assert "more line" not in rig.text
        await rig.until_asked()
        await rig.press("y")
        assert await closed(rig, answer) is True


async def test_a_file_of_megabytes_is_shown_to_its_end(shop: Shop) -> None:
    text = "\n".join(f"line {n}" for n in range(200_000)) + "\nthe end\n"
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        answer = ask(rig, new_file("/home/me/app/notes.md", text))
        await rig.until_asked()
        await rig.press("end")
        await rig.until(lambda: "the end" in rig.text and "line 199999" in rig.text)
        await rig.press("escape")
        assert await closed(rig, answer) is False


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls\rrm -rf ~", r"ls\x0drm -rf ~"),
        ("ls \x1b[2J\x1b[1;1H", r"ls \x1b[2J\x1b[1;1H"),
        ("echo \u202etxt.exe", r"echo \u202etxt.exe"),
        ("rm\u200b -rf", r"rm\u200b -rf"),
        ("cat a\u00a0b", r"cat a\xa0b"),
        ("echo \ufeff\u2060\u00ad", r"echo \ufeff\u2060\xad"),
        ("echo x\ufe0f\u3164", r"echo x\ufe0f\u3164"),
    ],
)
async def test_nothing_that_is_approved_is_invisible(shop: Shop, text: str, shown: str) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command(text))
        await rig.until_asked()
        assert shown in rig.text
        await rig.press("escape")
        assert await closed(rig, answer) is False


def test_a_line_that_goes_on_is_told_from_two() -> None:
    drawn = lay_out_question(command("a" * 30 + "\nb"), 22, DARK)
    assert [line.plain for line in drawn] == ["  " + "a" * 20, "↪ " + "a" * 10, "  b"]


def test_a_new_file_is_not_coloured_as_a_diff() -> None:
    question = new_file("/home/me/app/notes.md", "- one\n- two\n+ three\n")
    for line in lay_out_question(question, 60, DARK):
        styles = {str(span.style) for span in line.spans}
        assert str(DARK.of("error")) not in styles


async def test_a_title_without_end_is_shown_whole(shop: Shop) -> None:
    path = "/home/me/app/" + "very/" * 100 + "last.txt"
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        answer = ask(rig, new_file(path, "text\n"))
        await rig.until_asked()
        shown = "".join(line.strip() for line in screen_lines(rig.app))
        while "text" not in shown:
            await rig.press("pagedown")
            shown += "".join(line.strip() for line in screen_lines(rig.app))
        assert "last.txt" in shown
        await rig.press("escape")
        assert await closed(rig, answer) is False


@pytest.mark.parametrize("size", [(40, 10), (25, 6), (20, 8)])
async def test_a_question_is_read_and_answered_in_the_smallest_terminal(
    shop: Shop, size: tuple[int, int]
) -> None:
    async with running_chat(shop.create(), size=size) as rig:
        answer = ask(rig, command("echo one\necho two\necho three\necho four", "/w"))
        await rig.until_asked()
        seen = ""
        for _ in range(6):
            seen += rig.text
            await rig.press("pagedown")
        assert all(f"echo {word}" in seen for word in ("one", "two", "three", "four"))
        assert " n no" in rig.text
        await rig.press("y")
        assert await closed(rig, answer) is True


@pytest.mark.parametrize("height", [12, 17, 18, 20, 22, 23, 24, 30])
async def test_the_answers_are_in_sight_at_every_height(shop: Shop, height: int) -> None:
    async with running_chat(shop.create(), size=(90, height)) as rig:
        answer = ask(rig, new_file("notes.md", "a line\n" * 60))
        await rig.until_asked()
        await rig.until(lambda: " n no" in rig.text and "more lines" in rig.text)
        await rig.press("end")
        await rig.until(lambda: "y yes" in rig.text and "more lines" not in rig.text)
        await rig.press("escape")
        assert await closed(rig, answer) is False


# -- what stays allowed --------------------------------------------------------------------------


async def allow(rig: ChatRig, question: Confirmation, reach: str) -> None:
    answer = ask(rig, question)
    await rig.until_asked()
    await rig.press("a")
    await rig.until_screen(ChoiceDialog)
    await rig.press(*["down"] * (1 + question.reaches.index(reach)), "enter")
    assert await closed(rig, answer) is True


async def is_asked(rig: ChatRig, question: Confirmation) -> bool:
    answer = ask(rig, question)
    await rig.until(lambda: answer.done() or isinstance(rig.app.screen, ToolDialog))
    if answer.done():
        assert answer.result() is True
        return False
    await rig.until_asked()
    await rig.press("escape")
    assert await closed(rig, answer) is False
    return True


async def test_always_means_what_it_says(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await allow(rig, command("git status"), "call")
        assert "bash: git status" in rig.said
        assert not await is_asked(rig, command("git status"))
        assert await is_asked(rig, command("git status; rm -rf ~"))
        assert await is_asked(rig, command("git status", "/elsewhere"))
        await allow(rig, new_file("/home/me/app/src/a.py", "a"), "folder")
        assert not await is_asked(rig, new_file("/home/me/app/src/deep/b.py", "b"))
        assert await is_asked(rig, new_file("/home/me/app/src2/b.py", "b"))
        assert await is_asked(rig, new_file("/home/me/app/b.py", "b"))


async def test_always_is_left_without_an_answer_by_default(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        answer = ask(rig, command("make"))
        await rig.until_asked()
        await rig.press("a")
        await rig.until_screen(ChoiceDialog)
        await rig.press("enter")
        await rig.until_screen(ToolDialog)
        assert not answer.done()
        await rig.until_asked()
        await rig.press("escape")
        assert await closed(rig, answer) is False
        assert not list(rig.chat.confirmer.permissions)


async def test_what_is_allowed_is_listed_and_revoked(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.send("/allowed")
        await rig.until_said("Nothing is allowed yet")
        await allow(rig, command("git status"), "call")
        await allow(rig, command("make"), "folder")
        await rig.send("/allowed")
        await rig.until_screen(ChoiceDialog)
        assert "bash: git status" in rig.text
        assert "bash: everything in /home/me/app" in rig.text
        await rig.press("down", "enter")
        await rig.until(lambda: len(rig.chat.confirmer.permissions) == 1)
        await rig.until_screen(ChoiceDialog)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        assert await is_asked(rig, command("make"))
        assert not await is_asked(rig, command("git status"))
        await rig.send("/allowed")
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until(lambda: rig.app.screen is rig.chat)
        assert await is_asked(rig, command("git status"))


async def test_two_questions_are_asked_one_after_the_other(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        first, second = ask(rig, command("echo first")), ask(rig, command("echo second"))
        await rig.until_asked()
        assert "echo first" in rig.text
        await rig.press("y")
        await rig.until(lambda: first.done() and "echo second" in rig.text)
        assert not second.done()
        await rig.until_asked()
        await rig.press("n")
        assert await closed(rig, second) is False


def test_a_tool_that_names_no_subject_is_allowed_for_the_same_text_only() -> None:
    question = Confirmation("1", "deploy", "run", "Deploy", "to production")
    permission = Permission.of(question, "call")
    assert permission.covers(Confirmation("2", "deploy", "run", "Deploy", "to production"))
    assert not permission.covers(Confirmation("2", "deploy", "run", "Deploy", "to staging"))
    assert question.reaches == ("call", "session")
    with pytest.raises(ValueError, match="which folder"):
        Permission.of(question, "folder")
