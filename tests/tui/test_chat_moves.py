"""Going elsewhere from the chat: other sessions, other branches, copies; and what may go wrong."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from sessiontree import SessionManager
from sessiontree.discovery.breadcrumbs import read_breadcrumb
from sessiontree.export.view import open_view
from sessiontree.runtime.hooks import Cancel, Hooks
from sessiontree.samples import create_samples
from sessiontree.stores.files.store import FileStore
from sessiontree.testing.scripted_agent import Reply
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ConfirmDialog, ReadingPane, TextDialog
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.pickers.session_picker import SessionPicker
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.pickers.tree_picker import TreePicker

from .support import ChatRig, Shop, assistant, call, result, running_chat, user


def blocks(rig: ChatRig) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in rig.chat.transcript.blocks]


def texts(rig: ChatRig) -> list[str]:
    return [text for kind, text in blocks(rig) if kind in ("user", "answer")]


def talked(shop: Shop, *messages: str, cwd: str | None = None) -> SessionManager:
    manager = shop.create(cwd)
    for number, text in enumerate(messages):
        manager.append_message(user(text) if number % 2 == 0 else assistant(text))
    return manager


async def pick_first(rig: ChatRig, command: str = "/resume") -> None:
    await rig.send(command)
    await rig.until_screen(SessionPicker)
    await rig.press("enter")


# -- tools that nobody runs -----------------------------------------------------------------------


def with_a_call(shop: Shop) -> tuple[SessionManager, str]:
    """A session that ends in a tool call, as after kill -9; and the answer that made the call."""
    manager = talked(shop, "first", "fine", "look around")
    calls = [call("c1", "bash", command="sleep 99")]
    return manager, manager.append_message(assistant(content=calls, stopReason="toolUse"))


async def test_a_session_that_was_killed_shows_no_tool_as_running(shop: Shop) -> None:
    manager, _ = with_a_call(shop)
    async with running_chat(manager) as rig:
        assert "■ bash  sleep 99  no result" in rig.text
        assert "●" not in rig.text


async def test_going_back_to_a_call_without_its_result_shows_it_as_stopped(shop: Shop) -> None:
    manager, asked = with_a_call(shop)
    manager.append_message(result("c1", "bash", "slept"))
    manager.append_message(assistant("done"))
    async with running_chat(manager) as rig:
        assert "✓ bash" in rig.text
        await rig.session.navigate_tree(asked)
        await rig.chat.link.reload()
        await rig.until(lambda: rig.is_idle)
        assert "■ bash  sleep 99  no result" in rig.text
        assert "●" not in rig.text


# -- resuming ------------------------------------------------------------------------------------


async def test_resuming_shows_the_other_conversation_and_says_so(shop: Shop) -> None:
    path = shop.session("the other prompt", "the other answer", title="Zebra")
    write_todos(path, "other todo")
    async with running_chat(talked(shop, "this prompt", "this answer")) as rig:
        await rig.send("/resume Zebra")
        await rig.until_screen(SessionPicker)
        assert "this prompt" not in rig.text
        await rig.press("enter")
        await rig.until_said("Resumed session")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["the other prompt", "the other answer"]
        assert rig.session.session_file == path
        assert "☐ other todo" in rig.text
        assert rig.chat.facts.session == "Zebra"


def write_todos(path: str, text: str) -> None:
    folder = Path(path).with_suffix("")
    folder.mkdir()
    (folder / "todos.json").write_text(json.dumps([text]))


async def test_a_picker_that_is_left_changes_nothing(shop: Shop) -> None:
    shop.session("other", title="Other")
    async with running_chat(talked(shop, "this prompt", "this answer")) as rig:
        file = rig.session.session_file
        rig.chat.editor.put("/resume")
        await rig.press("enter")
        await rig.until_screen(SessionPicker)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        assert rig.session.session_file == file
        assert texts(rig) == ["this prompt", "this answer"]
        assert "Resumed" not in rig.said


async def test_a_switch_that_a_hook_calls_off_leaves_the_screen_as_it_was(shop: Shop) -> None:
    shop.session("other", title="Other")
    hooks = Hooks()
    hooks.on("session_before_switch", lambda _: Cancel("the tests are still running"))
    async with running_chat(talked(shop, "this prompt", "this answer"), hooks=hooks) as rig:
        shown = list(rig.chat.transcript.blocks)
        await rig.send("/resume Other")
        await rig.until_screen(SessionPicker)
        await rig.press("enter")
        await rig.until_said("called off (the tests are still running)")
        assert all(a is b for a, b in zip(rig.chat.transcript.blocks, shown, strict=True))
        assert "Resumed" not in rig.text


async def test_a_switch_that_fails_leaves_the_screen_as_it_was_and_says_why(shop: Shop) -> None:
    path = shop.session("other", title="Other")
    async with running_chat(talked(shop, "this prompt", "this answer")) as rig:
        shown = list(rig.chat.transcript.blocks)
        await rig.send("/resume Other")
        await rig.until_screen(SessionPicker)
        replace_by_folder(path)
        await rig.press("enter")
        await rig.until_said("Nothing changed")
        assert all(a is b for a, b in zip(rig.chat.transcript.blocks, shown, strict=True))
        await rig.ask("still here?")
        assert texts(rig)[-2:] == ["still here?", "Done."]


def replace_by_folder(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


async def test_switching_while_it_answers_stops_the_answer_and_keeps_it(shop: Shop) -> None:
    shop.session("other", title="Other")
    reply = Reply("one two three", hold=True)
    async with running_chat(talked(shop, "a", "b"), reply) as rig:
        first = str(rig.session.session_file)
        await rig.send("go")
        await rig.agent.wait_held()
        await rig.send("/resume Other")
        await rig.until_screen(SessionPicker)
        await rig.press("enter")
        await rig.until_said("Resumed session")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["other", "Understood."]
        assert "Esc stops" not in rig.text
    with open_view(first) as view:
        ends = [entry.data.get("message", {}).get("stopReason") for entry in view.path]
    assert "aborted" in ends


async def test_choosing_the_open_session_says_so(shop: Shop) -> None:
    async with running_chat(talked(shop, "this prompt", "this answer")) as rig:
        await pick_first(rig)
        await rig.until_said("already open")


async def choose_elsewhere(rig: ChatRig) -> None:
    """Choose the session "Elsewhere" among those of all projects."""
    await rig.send("/resume")
    await rig.until_screen(SessionPicker)
    await rig.press("tab")
    await rig.until_screen(SessionPicker)
    await rig.type("Elsewhere")
    await rig.until_screen(SessionPicker)
    await rig.press("enter")


async def test_a_session_of_another_project_is_gone_on_with_in_its_folder(shop: Shop) -> None:
    path = shop.session("over there", "answer", title="Elsewhere", cwd=shop.other_project)
    async with running_chat(talked(shop, "here", "yes")) as rig:
        rig.history.add("an earlier prompt over there", cwd=shop.other_project)
        assert rig.agent.cwd == shop.project
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        assert "Elsewhere belongs to another project" in rig.text
        await rig.press("enter")
        await rig.until_said("Resumed session")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["over there", "answer"]
        assert rig.session.session_file == path
        assert rig.agent.cwd == rig.session.cwd == shop.other_project
        assert blocks(rig)[-1][0] == "notice"
        assert "now work in" in blocks(rig)[-1][1]
        await rig.send("!pwd")
        await rig.until(lambda: ("command", shop.other_project) in blocks(rig))
        await rig.until(lambda: rig.is_idle)
        await rig.press("up", "up")
        assert rig.chat.editor.text == "an earlier prompt over there"


async def test_a_session_of_another_project_can_be_copied_here(shop: Shop) -> None:
    path = shop.session("over there", "answer", title="Elsewhere", cwd=shop.other_project)
    async with running_chat(talked(shop, "here", "yes")) as rig:
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        assert "Copy into" in rig.text
        await rig.press("down", "enter")
        await rig.until_said("Resumed session")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["over there", "answer"]
        assert rig.session.session_file != path
        assert rig.agent.cwd == rig.session.cwd == shop.project


def all_session_files(shop: Shop) -> list[Path]:
    return sorted(Path(shop.profile.sessions_dir).rglob("*.jsonl"))


async def test_a_copy_that_is_called_off_leaves_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX_PANE", "%77")
    shop.session("over there", "answer", title="Elsewhere", cwd=shop.other_project)
    hooks = Hooks()
    hooks.on("session_before_switch", lambda _: Cancel("no copies today"))
    async with running_chat(talked(shop, "here", "yes"), hooks=hooks) as rig:
        file = rig.session.session_file
        before = all_session_files(shop)
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until_said("called off (no copies today)")
        assert all_session_files(shop) == before
        assert rig.session.session_file == file
        assert read_breadcrumb(shop.profile, shop.project) == file


async def test_a_copy_that_fails_on_the_way_is_removed(shop: Shop) -> None:
    shop.session("over there", "answer", title="Elsewhere", cwd=shop.other_project)
    async with running_chat(talked(shop, "here", "yes")) as rig:
        before = all_session_files(shop)
        file = rig.session.session_file

        def fail(_: object) -> None:
            raise OSError("the agent takes no messages")

        rig.agent.replace_messages = fail  # type: ignore[assignment]
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until_said("Nothing changed: the agent takes no messages")
        await rig.until(lambda: all_session_files(shop) == before)
        assert rig.session.session_file == file


@pytest.mark.parametrize("no", [("escape",), ("down", "down", "enter")])
async def test_a_session_of_another_project_stays_there_after_a_no(
    shop: Shop, no: tuple[str, ...]
) -> None:
    path = shop.session("over there", title="Elsewhere", cwd=shop.other_project)
    async with running_chat(talked(shop, "here", "yes")) as rig:
        rig.chat.setup = replace(
            rig.chat.setup, spell_resume=lambda ref, _, cwd: f"cd {cwd} && resume {ref}"
        )
        file = rig.session.session_file
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        await rig.press(*no)
        await rig.until_said(f"Open it there: cd {shop.other_project} && resume {path}")
        assert rig.session.session_file == file
        assert rig.agent.cwd == shop.project


async def test_a_switch_to_another_project_that_fails_leaves_the_agent_in_this_one(
    shop: Shop,
) -> None:
    path = shop.session("over there", title="Elsewhere", cwd=shop.other_project)
    async with running_chat(talked(shop, "here", "yes")) as rig:
        await choose_elsewhere(rig)
        await rig.until_screen(ChoiceDialog)
        replace_by_folder(path)
        await rig.press("enter")
        await rig.until_said("Nothing changed")
        assert rig.agent.cwd == rig.session.cwd == shop.project
        await rig.send("!pwd")
        await rig.until(lambda: ("command", shop.project) in blocks(rig))


async def test_a_session_whose_folder_is_gone_can_only_be_copied(shop: Shop) -> None:
    path = shop.session("over there", "answer", title="Elsewhere", cwd=shop.other_project)
    (shop.root / "other").rmdir()
    async with running_chat(talked(shop, "here", "yes")) as rig:
        await choose_elsewhere(rig)
        await rig.until_screen(ConfirmDialog)
        assert "Fork into current directory?" in rig.text
        assert "a folder that no longer exists" in rig.text
        await rig.press("enter")
        await rig.until_said('Session "Elsewhere" is in another project')
        await choose_elsewhere(rig)
        await rig.until_screen(ConfirmDialog)
        await rig.press("y")
        await rig.until_said("Resumed session")
        assert rig.session.session_file != path
        assert rig.agent.cwd == rig.session.cwd == shop.project


# -- new sessions and copies ---------------------------------------------------------------------


async def test_new_starts_an_empty_session(shop: Shop) -> None:
    async with running_chat(talked(shop, "old", "answer"), "Hi.") as rig:
        first = rig.session.session_id
        await rig.send("/new")
        await rig.until_said("New session")
        await rig.until(lambda: "New session in" in rig.text)
        assert texts(rig) == []
        assert rig.session.session_id != first
        await rig.ask("fresh")
        assert texts(rig) == ["fresh", "Hi."]


async def test_fork_goes_on_in_a_copy(shop: Shop) -> None:
    async with running_chat(talked(shop, "old", "answer"), "In the copy.") as rig:
        first = str(rig.session.session_file)
        await rig.send("/fork")
        await rig.until_said("copy")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["old", "answer"]
        assert rig.session.session_file != first
        await rig.ask("more")
    with open_view(first) as view:
        assert not any("more" in str(entry.data) for entry in view.path)


async def test_forking_what_is_not_on_disk_says_so(shop: Shop) -> None:
    async with running_chat(SessionManager.in_memory(shop.project, profile=shop.profile)) as rig:
        await rig.send("/fork")
        await rig.until_said("Nothing to fork")
        await rig.send("/clone")
        await rig.until_said("Nothing to copy")


async def test_clone_copies_and_stays(shop: Shop) -> None:
    async with running_chat(talked(shop, "old", "answer")) as rig:
        first = str(rig.session.session_file)
        await rig.send("/clone")
        await rig.until_said("Copied")
        assert rig.session.session_file == first
        assert len(session_files(first)) == 2


def session_files(path: str) -> list[Path]:
    return sorted(Path(path).parent.glob("*.jsonl"))


async def test_branch_asks_an_earlier_prompt_anew_in_a_new_session(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1", "two", "2", "three", "3")) as rig:
        first = rig.session.session_file
        await rig.send("/branch")
        await rig.until_screen(ListPicker)
        assert "three" in rig.text
        await rig.type("two")
        await rig.until_screen(ListPicker)
        await rig.press("enter")
        await rig.until(lambda: rig.chat.editor.text == "two")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["one", "1"]
        assert rig.session.session_file != first


async def test_branch_without_a_prompt_says_so(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.send("/branch")
        await rig.until_said("No prompt to redo")


# -- the tree ------------------------------------------------------------------------------------


async def test_choosing_a_prompt_in_the_tree_puts_it_into_the_editor(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1", "two", "2")) as rig:
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("enter")
        await rig.until(lambda: rig.chat.editor.text == "two")
        await rig.until(lambda: rig.is_idle)
        assert texts(rig) == ["one", "1"]
        assert rig.chat.facts.branch == "a new branch"
        await rig.press("enter")
        await rig.until(lambda: texts(rig) == ["one", "1", "two", "Done."] and rig.is_idle)
        assert rig.chat.facts.branch == "branch 2 of 2"


async def test_a_summary_of_the_branch_that_is_left_is_shown(shop: Shop) -> None:
    manager = talked(shop, "one", "1", "two", "2")
    async with running_chat(manager, summaries=["Tried two things."]) as rig:
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until_said("Continuing from here")
        await rig.until(lambda: rig.is_idle)
        assert blocks(rig)[-1][0] == "summary"
        assert "Tried two things." in blocks(rig)[-1][1]


async def test_a_summary_that_fails_leaves_everything_as_it_was(shop: Shop) -> None:
    manager = talked(shop, "one", "1", "two", "2")
    async with running_chat(manager) as rig:
        rig.agent.summaries.append(Reply("", error="no quota"))
        leaf = rig.session.manager.leaf_id
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until_said("no quota")
        assert rig.session.manager.leaf_id == leaf
        assert texts(rig) == ["one", "1", "two", "2"]


async def test_a_move_that_a_hook_calls_off_is_said(shop: Shop) -> None:
    hooks = Hooks()
    hooks.on("session_before_tree", lambda _: Cancel("not now"))
    async with running_chat(talked(shop, "one", "1", "two", "2"), hooks=hooks) as rig:
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("up", "up", "enter")
        await rig.until_screen(ChoiceDialog)
        await rig.press("enter")
        await rig.until_said("called off (not now)")
        assert texts(rig) == ["one", "1", "two", "2"]


async def test_labels_set_in_the_tree_are_in_the_session_and_in_the_footer(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("ctrl+l")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = "checkpoint"
        await rig.press("enter")
        await rig.until(lambda: "[checkpoint · just now]" in rig.text)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        entries = await rig.session.read(lambda m: [m.get_label(e.id) for e in m.get_entries()])
        assert "checkpoint" in entries


# -- the other commands --------------------------------------------------------------------------


async def test_naming_by_argument_by_dialog_and_clearing(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/name  The   best one ")
        await rig.until_said("Renamed to The best one")
        await rig.until(lambda: rig.chat.facts.session == "The best one")
        await rig.send("/name")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = ""
        await rig.press("enter")
        await rig.until_said("Name cleared")
        assert rig.session.session_name is None


async def test_labeling_the_last_message_and_a_chosen_one(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/label good")
        await rig.until_said("Labeled good")
        assert rig.chat.facts.branch == "[good]"
        await rig.press("ctrl+up", "up", "l")
        await rig.until_screen(TextDialog)
        rig.app.screen.query_one(Input).value = "question"
        await rig.press("enter")
        await rig.until_said("Labeled question")
    async with running_chat(shop.create()) as rig:
        await rig.send("/label x")
        await rig.until_said("Nothing to label")


async def test_choosing_a_model_by_name_and_from_the_list(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/model claude-opus-5-5")
        await rig.until_said("Model: Claude Opus 5.5")
        await rig.send("/model")
        await rig.until_screen(ListPicker)
        await rig.type("sonnet 5.5")
        await rig.until_screen(ListPicker)
        await rig.press("enter")
        await rig.until_said("Model: Claude Sonnet 5.5")
        await rig.send("/model no-such-model")
        await rig.until_said("not known")
        assert rig.session.model is not None
        assert rig.session.model.name == "Claude Sonnet 5.5"


async def test_choosing_how_much_to_think(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/model claude-opus-5-5")
        await rig.until_said("Model")
        await rig.send("/thinking high")
        await rig.until_said("Thinking: high")
        await rig.send("/thinking")
        await rig.until_screen(ChoiceDialog)
        await rig.press("up", "enter")
        await rig.until_said("Thinking: medium")
        await rig.send("/thinking enormously")
        await rig.until_said("Unknown thinking level enormously")


async def test_plan_mode_goes_on_and_off_and_is_in_the_footer(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/plan")
        await rig.until_said("Plan mode: the agent may only read")
        await rig.until(lambda: "plan mode" in rig.text)
        assert rig.agent.mode == "plan"
        await rig.send("/plan")
        await rig.until_said("Left plan mode")
        assert rig.agent.mode == "none"


async def test_compacting_shows_the_summary_and_refuses_where_there_is_nothing(shop: Shop) -> None:
    manager = talked(shop, *(f"{'word ' * 4_000}{n}" for n in range(12)))
    async with running_chat(manager, summaries=["All that was said.", "Turn."]) as rig:
        await rig.send("/compact keep names")
        await rig.until_said("Compacted: a summary")
        await rig.until(lambda: rig.is_idle)
        assert any(kind == "compaction" for kind, _ in blocks(rig))
        assert "keep names" in str(rig.agent.completions[0].messages)
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/compact")
        await rig.until_said("Nothing to compact (session too small)")


async def test_facts_help_and_their_closing(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1"), size=(110, 40)) as rig:
        await rig.send("/session")
        await rig.until_screen(ReadingPane)
        assert rig.session.session_id in rig.text
        assert "1 yours, 1 answer, 0 tool calls" in rig.text
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        await rig.press("f1")
        await rig.until_screen(ReadingPane)
        assert "Keys and commands" in rig.text
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        await rig.send("/help")
        await rig.until_screen(ReadingPane)
        assert "Alt+Enter" in rig.text
        await rig.press("pagedown", "pagedown", "pagedown")
        await rig.until(lambda: "/quit" in rig.text)
        await rig.press("q")
        await rig.until(lambda: rig.app.screen is rig.chat)


async def test_exporting_never_overwrites(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "the answer")) as rig:
        await rig.send("/export")
        await rig.until_said("Written to")
        await rig.send("/export")
        await rig.until_said("-2.md")
        await rig.send("/export mine.json")
        await rig.until_said("mine.json")
        await rig.send("/export mine.json")
        await rig.until_said("File exists")
    written = files_in(shop.project)
    assert [path.suffix for path in written] == [".json", ".md", ".md"]
    assert "the answer" in written[1].read_text()
    assert json.loads(written[0].read_text())["entries"]


async def test_exporting_to_an_ending_that_no_format_has_is_refused(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/export page.pdf")
        await rig.until_said("Can't export to")
    assert files_in(shop.project) == []


def files_in(folder: str) -> list[Path]:
    return sorted(Path(folder).iterdir())


async def test_copying_the_last_answer(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "the **answer**")) as rig:
        await rig.send("/copy")
        await rig.until_said("Copied 14 characters")
        assert rig.app.clipboard == "the **answer**"
    async with running_chat(shop.create()) as rig:
        await rig.send("/copy")
        await rig.until_said("No answer to copy")


async def test_searching_all_sessions_and_opening_one(shop: Shop) -> None:
    path = shop.session("where is the flux capacitor", "In the garage.", title="Flux")
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/search capacitor")
        await rig.until_screen(SessionPicker)
        await rig.until(lambda: "flux capacitor" in rig.text and "all agents" in rig.text)
        await rig.press("enter")
        await rig.until_said("Resumed session")
        assert rig.session.session_file == path


async def test_a_session_is_searched_by_its_name_and_opened(shop: Shop) -> None:
    path = shop.session("hello", "hi", title="Payments refactor")
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/search payments refactor")
        await rig.until_screen(SessionPicker)
        await rig.until(lambda: "Search all sessions" in rig.text)
        await rig.until(lambda: "Payments refactor" in rig.text)
        await rig.press("enter")
        await rig.until_said("Resumed session")
        assert rig.session.session_file == path
        assert "another branch" not in rig.text


def long_session(shop: Shop, turns: int) -> SessionManager:
    """Many turns; the flux capacitor is spoken of in the third."""
    said = [f"{who} {n}" for n in range(turns) for who in ("question", "answer")]
    said[5] = "\n\n".join([*(f"paragraph {n}" for n in range(40)), "It is the flux capacitor."])
    return talked(shop, *said)


async def search_and_open(rig: ChatRig) -> None:
    await rig.send("/search capacitor")
    await rig.until_screen(SessionPicker)
    await rig.until(lambda: len(rig.app.screen.query_one(RowList).rows) == 1)
    await rig.press("enter")
    await rig.until(lambda: rig.app.screen is rig.chat and rig.is_idle)


async def test_a_search_leads_to_where_the_words_were_said(shop: Shop) -> None:
    long_session(shop, 300).close()
    async with running_chat(talked(shop, "one", "1")) as rig:
        await search_and_open(rig)
        await rig.until_said("Resumed session")
        await rig.until(lambda: "It is the flux capacitor." in rig.text)
        assert "answer 299" not in rig.text
        assert not rig.chat.transcript.is_following


async def test_a_search_leads_to_the_place_in_the_open_session_too(shop: Shop) -> None:
    async with running_chat(long_session(shop, 30)) as rig:
        await search_and_open(rig)
        await rig.until(lambda: "It is the flux capacitor." in rig.text)


async def test_words_that_were_said_on_another_branch_are_told_of(shop: Shop) -> None:
    manager = talked(shop, "one", "1", "where is the flux capacitor", "no idea")
    manager.branch(manager.get_branch()[-3].id)
    manager.append_message(user("something else"))
    manager.append_message(assistant("as you like"))
    manager.close()
    async with running_chat(talked(shop, "one", "1")) as rig:
        await search_and_open(rig)
        await rig.until_said("Resumed session · the match is on another branch: /tree finds it")
        assert texts(rig)[-1] == "as you like"


async def test_a_search_that_finds_nothing_says_so(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/search zzzzz")
        await rig.until_screen(SessionPicker)
        assert "Nothing matches zzzzz" in rig.text
        await rig.press("enter", "escape")
        await rig.until(lambda: rig.app.screen is rig.chat)


async def test_samples_of_another_project_are_told_with_the_way_to_them(shop: Shop) -> None:
    create_samples(shop.other_project, FileStore(profile=shop.profile))
    talked(shop, "another", "a").close()  # an empty project's picker shows all without Tab
    async with running_chat(talked(shop, "one", "1"), size=(160, 30)) as rig:
        await rig.send("/demo")
        await rig.until_said("You already have the samples")
        assert f"in {short_path(shop.other_project)}: /resume, then Tab, opens one" in rig.said
        await rig.send("/resume Sample:")  # the folder of this test has "samples" in its name
        await rig.until_screen(SessionPicker)
        # Nothing here has that word, so the picker goes on to all projects by itself.
        await rig.until(lambda: len(rig.app.screen.query_one("#sessions", RowList).rows) == 3)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)


async def test_samples_are_added_and_removed_in_one_step_each(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.send("/demo")
        await rig.until_said("3 sample sessions added")
        await rig.send("/demo")
        await rig.until_said("have the samples: /resume opens one")
        await rig.send("/resume Sample branched")
        await rig.until_screen(SessionPicker)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        await rig.send("/demo remove")
        await rig.until_screen(ConfirmDialog)
        await rig.press("y")
        await rig.until_said("3 samples moved to the trash")


async def test_quit_leaves(shop: Shop) -> None:
    async with running_chat(talked(shop, "one", "1")) as rig:
        await rig.send("/quit")
        await rig.until(lambda: rig.app._exit)


async def test_help_shows_how_to_close_it_on_a_small_screen_too(shop: Shop) -> None:
    for size in ((60, 18), (60, 12)):
        async with running_chat(shop.create(), size=size) as rig:
            await rig.send("/help")
            await rig.until_screen(ReadingPane)
            await rig.until(lambda: "Keys and commands" in rig.text)
            assert "Esc close" in rig.text


async def test_the_picker_says_what_tab_goes_to_and_shows_how_a_long_answer_begins(
    shop: Shop,
) -> None:
    shop.session("a prompt", "It begins so. " + "word " * 400, title="Long")
    async with running_chat(shop.create(), size=(100, 24)) as rig:
        await rig.send("/resume Long")
        await rig.until_screen(SessionPicker)
        await rig.until(lambda: "It begins so." in rig.text)
        assert "Tab all projects" in rig.text
        await rig.press("tab")
        await rig.until_screen(SessionPicker)
        assert "Tab this project" in rig.text
