"""The chat, driven by keys: asking, steering, stopping, commands of the shell, history."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color
from tests.agent_samples import claude_prompt, put_claude, put_codex

from sessiontree import SessionManager
from sessiontree.agents.offline import OfflineAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools
from sessiontree.runtime.agent_base import ToolOutput
from sessiontree.runtime.create import create_agent_session
from sessiontree.scope import Scope
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent
from sessiontree.tui.chat import session_link
from sessiontree.tui.chat.confirm import Confirmer
from sessiontree.tui.chat.session_link import OpenedSession
from sessiontree.tui.palette import DARK, LIGHT, Palette
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ReadingPane
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.tree_picker import TreePicker

from .support import Shop, assistant, burst, call, result, running_chat, screen_lines, user


def blocks(rig: Any) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in rig.chat.transcript.blocks]


# -- talking -------------------------------------------------------------------------------------


async def test_a_prompt_is_answered_and_both_are_in_the_session(shop: Shop) -> None:
    async with running_chat(shop.create(), "The **answer**.") as rig:
        await rig.type("What is it?")
        await rig.press("enter")
        await rig.until(lambda: ("answer", "The **answer**.") in blocks(rig) and rig.is_idle)
        assert ("user", "What is it?") in blocks(rig)
        assert "The answer." in rig.text
        assert rig.chat.editor.text == ""
        assert [message["role"] for message in rig.session.messages] == ["user", "assistant"]
        assert all(b.entry_id for b in rig.chat.transcript.blocks if b.kind in ("user", "answer"))


async def test_an_answer_is_seen_while_it_comes_and_esc_stops_it(shop: Shop) -> None:
    async with running_chat(shop.create(), Reply("first half and second half", hold=True)) as rig:
        await rig.send("go")
        await rig.agent.wait_held()
        await rig.until(lambda: "first half an" in rig.text)
        assert "Esc stops" in rig.text
        await rig.press("escape")
        await rig.until(lambda: rig.is_idle)
        assert blocks(rig)[-1] == ("notice", "Stopped")
        assert rig.session.messages[-1]["stopReason"] == "aborted"


async def test_an_error_of_the_model_is_shown(shop: Shop) -> None:
    async with running_chat(shop.create(), Reply("Half", error="overloaded")) as rig:
        await rig.ask("go")
        assert ("error", "overloaded") in blocks(rig)
        assert "✗ overloaded" in rig.text


async def test_thinking_is_folded_and_ctrl_t_unfolds_it(shop: Shop) -> None:
    reply = Reply("Done.", thinking="I wonder about it\nsecond thought")
    async with running_chat(shop.create(), reply) as rig:
        await rig.ask("go")
        assert "✦ Thought  I wonder about it" in rig.text
        assert "second thought" not in rig.text
        await rig.press("ctrl+t")
        assert "second thought" in rig.text
        await rig.press("ctrl+t")
        assert "second thought" not in rig.text


async def test_tools_are_folded_with_their_status_and_ctrl_o_unfolds_them(shop: Shop) -> None:
    async def look(arguments: Any, progress: Any) -> ToolOutput:
        return ToolOutput("line one\nline two")

    async def fail(arguments: Any, progress: Any) -> ToolOutput:
        return ToolOutput("it broke", is_error=True, details={"exitCode": 3})

    replies = (
        Reply("", tool_calls=[("read", {"path": "a.py"}), ("bash", {"command": "make"})]),
        "Done.",
    )
    tools = {"read": look, "bash": fail}
    async with running_chat(shop.create(), *replies, tools=tools) as rig:
        await rig.send("go")
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert "✓ read  a.py  2 lines" in rig.text
        assert "✗ bash  make  exit 3" in rig.text
        assert "line two" not in rig.text
        await rig.press("ctrl+o")
        assert "│ line two" in rig.text


async def test_a_running_tool_shows_what_it_prints(shop: Shop) -> None:
    may_end = asyncio.Event()

    async def slow(arguments: Any, progress: Any) -> str:
        await progress("half way there")
        await may_end.wait()
        return "all of it"

    reply = Reply("", tool_calls=[("build", {"target": "all"})])
    async with running_chat(shop.create(), reply, "Done.", tools={"build": slow}) as rig:
        await rig.send("go")
        await rig.until(lambda: "half way there" in rig.text)
        assert "Running build" in rig.text
        may_end.set()
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert "✓ build  all  1 line" in rig.text


async def test_enter_while_it_answers_steers_and_alt_enter_queues(shop: Shop) -> None:
    async with running_chat(
        shop.create(), Reply("one two", hold=True), "Steered.", "Queued."
    ) as rig:
        await rig.send("go")
        await rig.agent.wait_held()
        await rig.send("rather this")
        rig.chat.editor.put("and then that")
        await rig.press("alt+enter")
        await rig.until(lambda: "↳ steer  rather this" in rig.text)
        await rig.until(lambda: "↳ next  and then that" in rig.text)
        rig.agent.release()
        await rig.until(lambda: ("answer", "Queued.") in blocks(rig) and rig.is_idle)
        said = [text for kind, text in blocks(rig) if kind in ("user", "answer")]
        assert said == ["go", "one two", "rather this", "Steered.", "and then that", "Queued."]
        assert "↳" not in rig.text


async def test_stopping_brings_what_was_queued_back_into_the_editor(shop: Shop) -> None:
    async with running_chat(shop.create(), Reply("one two", hold=True)) as rig:
        await rig.send("go")
        await rig.agent.wait_held()
        await rig.send("rather this")
        await rig.until(lambda: "↳ steer  rather this" in rig.text)
        rig.chat.editor.put("typed meanwhile")
        await rig.press("escape")
        await rig.until(lambda: rig.is_idle)
        assert rig.chat.editor.text == "rather this\n\ntyped meanwhile"


async def test_an_initial_prompt_is_sent_and_a_notice_is_said(shop: Shop) -> None:
    notice = 'Resuming "x" · 2h ago'
    async with running_chat(shop.create(), "Hi.", initial_prompt="hello", notice=notice) as rig:
        await rig.until(lambda: ("answer", "Hi.") in blocks(rig) and rig.is_idle)
        assert blocks(rig)[-2:] == [("user", "hello"), ("answer", "Hi.")]
        assert rig.said == notice


async def test_hostile_answers_are_escaped(shop: Shop) -> None:
    async with running_chat(shop.create(), "\x1b[2J[red]x[/red] \u202eevil\x07") as rig:
        await rig.ask("\x1b]0;title\x07 prompt")
        assert "\x1b" not in rig.text
        assert "\u202e" not in rig.text
        assert "[red]x[/red]" in rig.text


# -- the editor ----------------------------------------------------------------------------------


async def test_several_lines_by_three_keys(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok") as rig:
        await rig.type("one")
        await rig.press("ctrl+j")
        await rig.type("two")
        await rig.press("shift+enter")
        await rig.type("three\\")
        await rig.press("enter")
        await rig.type("four")
        assert rig.chat.editor.text == "one\ntwo\nthree\nfour"
        assert rig.chat.editor.size.height == 4
        await rig.press("enter")
        await rig.until(lambda: ("user", "one\ntwo\nthree\nfour") in blocks(rig))


async def test_keys_that_come_all_at_once_take_effect_in_their_order(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok") as rig:
        burst(rig.app, "abX", "backspace", "c", "ctrl+j", "d", "enter", "typed after")
        await rig.until(lambda: ("user", "abc\nd") in blocks(rig) and rig.is_idle)
        assert rig.chat.editor.text == "typed after"
        rig.chat.editor.put("")
        burst(rig.app, "/sess", "enter")
        await rig.until_screen(ReadingPane)


@pytest.mark.parametrize("height", [15, 24, 40, 60])
async def test_the_end_of_a_long_prompt_is_seen_on_a_screen_of_any_height(
    shop: Shop, height: int
) -> None:
    async with running_chat(shop.create(), size=(80, height)) as rig:
        rig.chat.editor.put("".join(f"line {number}\n" for number in range(100)))
        await rig.type("the end")
        await rig.until(lambda: "the end" in rig.text)
        assert rig.chat.editor.size.height <= max(height // 2, 1)


async def test_the_cursor_stays_in_sight_when_the_screen_gets_smaller(shop: Shop) -> None:
    async with running_chat(shop.create(), size=(80, 40)) as rig:
        rig.chat.editor.put("".join(f"line {number}\n" for number in range(100)) + "the end")
        await rig.until(lambda: "the end" in rig.text)
        await rig.pilot.resize_terminal(50, 15)
        await rig.until(lambda: rig.chat.editor.size.height <= 7 and "the end" in rig.text)


async def test_an_empty_editor_sends_nothing(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.press("enter", "space", "enter", "alt+enter")
        assert not rig.session.is_running
        assert rig.session.messages == []


async def test_up_and_down_go_through_earlier_prompts(shop: Shop) -> None:
    async with running_chat(shop.create(), "a", "b") as rig:
        await rig.ask("first")
        await rig.ask("second\nline")
        rig.chat.editor.put("unsent")
        await rig.press("up")
        assert rig.chat.editor.text == "second\nline"
        await rig.press("up", "up")
        assert rig.chat.editor.text == "first"
        await rig.press("down")
        assert rig.chat.editor.text == "second\nline"
        await rig.press("down")
        assert rig.chat.editor.text == "unsent"


async def test_earlier_prompts_of_this_project_come_from_the_history(shop: Shop) -> None:
    async with running_chat(shop.create(), "a") as rig:
        await rig.ask("from an earlier run")
    async with running_chat(shop.create()) as rig:
        await rig.press("up")
        assert rig.chat.editor.text == "from an earlier run"


async def test_ctrl_r_searches_earlier_prompts(shop: Shop) -> None:
    async with running_chat(shop.create(), "a", "b") as rig:
        await rig.ask("fix the parser")
        await rig.ask("write the docs")
        await rig.press("ctrl+r")
        await rig.until_screen(ListPicker)
        await rig.type("pars")
        await rig.until_screen(ListPicker)
        await rig.press("enter")
        await rig.until(lambda: rig.chat.editor.text == "fix the parser")


async def test_ctrl_r_can_be_called_off(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("mine")
        await rig.press("ctrl+r")
        await rig.until_screen(ListPicker)
        assert "No earlier prompt" in rig.text
        await rig.press("enter", "escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
        assert rig.chat.editor.text == "mine"


async def test_a_pasted_text_loses_its_control_characters(shop: Shop) -> None:
    from textual.events import Paste

    async with running_chat(shop.create()) as rig:
        rig.chat.editor.post_message(Paste("a\x1b[31mb\r\nc\td\x00"))
        await rig.until(lambda: rig.chat.editor.text)
        assert rig.chat.editor.text == "a[31mb\nc\td"


async def test_a_slash_lists_commands_and_tab_or_enter_completes(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("/")
        assert "/resume [words]" in rig.text
        await rig.type("se")
        await rig.press("down", "up", "tab")
        assert rig.chat.editor.text == "/session "
        assert "facts about this session" not in rig.text
        rig.chat.editor.put("")
        await rig.type("/sear")
        await rig.press("enter")
        assert rig.chat.editor.text == "/search "


async def test_esc_closes_the_list_of_commands_only(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("/re")
        await rig.press("escape")
        assert "open another session" not in rig.text
        assert rig.chat.editor.text == "/re"


async def test_a_mistyped_command_stays_in_the_editor_and_is_explained(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.send("/resmue now")
        assert "Did you mean /resume?" in rig.said
        assert rig.chat.editor.text == "/resmue now"


async def test_shift_tab_goes_through_the_thinking_levels(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.session.set_model("anthropic/claude-opus-5-5")
        before = rig.session.thinking_level
        await rig.press("shift+tab")
        await rig.until_said("Thinking: ")
        assert rig.session.thinking_level != before


# -- the shell -----------------------------------------------------------------------------------


async def test_a_shell_command_is_shown_recorded_and_seen_by_the_model(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok", "I see.") as rig:
        await rig.ask("hi")
        await rig.send("!printf 'a\\nb\\n'; exit 3")
        await rig.until(lambda: any(m["role"] == "bashExecution" for m in rig.session.messages))
        await rig.until(lambda: "exit 3" in rig.text)
        message = rig.session.messages[-1]
        assert (message["output"], message["exitCode"]) == ("a\nb", 3)
        await rig.ask("what did it print?")
        assert "a\nb" in json.dumps(rig.agent.requests[-1].messages).replace("\\n", "\n")


async def test_two_marks_keep_a_command_from_the_model(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok", "No.") as rig:
        await rig.ask("hi")
        await rig.send("!!echo secret")
        await rig.until(lambda: any(m["role"] == "bashExecution" for m in rig.session.messages))
        assert "not shown to the model" in rig.text
        await rig.ask("what did it print?")
        assert "secret" not in json.dumps(rig.agent.requests[-1].messages)


async def test_a_command_runs_in_the_project_and_esc_stops_it(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok") as rig:
        await rig.ask("hi")
        await rig.send("!pwd; sleep 60")
        await rig.until(lambda: str(Path(shop.project).name) in rig.text and "●" in rig.text)
        await rig.send("!echo second")
        assert "still running" in rig.said
        await rig.press("escape")
        await rig.until(lambda: "stopped" in rig.text)
        assert rig.session.messages[-1]["cancelled"] is True
        assert rig.session.messages[-1]["output"] == shop.project


async def test_long_output_is_cut_and_kept_whole_in_a_file(shop: Shop) -> None:
    async with running_chat(shop.create(), "ok") as rig:
        await rig.ask("hi")
        await rig.send("!seq 1 30000")
        await rig.until(lambda: any(m["role"] == "bashExecution" for m in rig.session.messages))
        message = rig.session.messages[-1]
        assert message["truncated"] is True
        assert lines_of(message["fullOutputPath"])[-1] == "30000"
        assert len(lines_of(message["fullOutputPath"])) == 30_000


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


# -- asking before tools -------------------------------------------------------------------------


def confirming(answers: list[bool]) -> Any:
    """A session whose tool asks the user before it runs."""

    async def open_with(confirmer: Confirmer, agent: ScriptedAgent) -> OpenedSession:
        async def write(arguments: Any, progress: Any) -> ToolOutput:
            question = Confirmation("1", "write", "write", "Write a.py", "+new line\x1b[2J")
            is_allowed = await confirmer.confirm(question)
            answers.append(is_allowed)
            return ToolOutput("written" if is_allowed else "declined", is_error=not is_allowed)

        agent.tools["write"] = write
        manager = SessionManager.in_memory()
        return OpenedSession(await create_agent_session(agent, manager=manager))

    return open_with


WRITE = Reply("", tool_calls=[("write", {"path": "a.py"})])


@pytest.mark.parametrize(
    ("key", "is_allowed"), [("y", True), ("n", False), ("escape", False), ("enter", False)]
)
async def test_a_tool_runs_only_after_a_yes(shop: Shop, key: str, is_allowed: bool) -> None:
    answers: list[bool] = []
    async with running_chat(shop.create(), WRITE, "Done.", open_with=confirming(answers)) as rig:
        await rig.send("go")
        await rig.until_asked()
        assert "Write a.py" in rig.text
        assert "+new line\\x1b[2J" in rig.text
        await rig.press(key)
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert answers == [is_allowed]


async def test_while_it_asks_no_tool_is_said_to_run(shop: Shop) -> None:
    async with running_chat(shop.create(), WRITE, "Done.", open_with=confirming([])) as rig:
        await rig.send("go")
        await rig.until_asked()
        await rig.until(lambda: "Waiting for your answer" in rig.text)
        assert "Running write" not in rig.text
        await rig.press("y")
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert "Waiting for your answer" not in rig.text


async def test_a_notice_ends_when_something_else_is_sent(shop: Shop) -> None:
    async with running_chat(shop.create(), Reply("one two", hold=True)) as rig:
        rig.chat.say("New session: edit the prompt and send it")
        await rig.send("go")
        await rig.agent.wait_held()
        await rig.until(lambda: "Answering" in rig.text)
        assert rig.said == ""
        assert "A new session" not in rig.text
        rig.agent.release()
        await rig.until(lambda: rig.is_idle)


@pytest.mark.parametrize(("height", "lines"), [(10, 1), (16, 2), (40, 3)])
async def test_a_long_notice_leaves_a_small_screen_to_the_conversation(
    shop: Shop, height: int, lines: int
) -> None:
    async with running_chat(shop.create(), size=(40, height)) as rig:
        rig.chat.say("word " * 100)
        await rig.until(lambda: rig.chat.status.size.height == lines)


async def test_a_notice_is_whole_at_80_columns(shop: Shop) -> None:
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        notice = "Model sample/no-model is not available: using offline/offline, which needs no key"
        rig.chat.say(notice)
        await rig.until(lambda: notice in " ".join(line.strip() for line in screen_lines(rig.app)))
        assert "›" in screen_lines(rig.app)[-2]
        rig.chat.say("Short")
        await rig.until(lambda: screen_lines(rig.app)[-3].strip() == "Short")
        assert "which needs no key" not in rig.text


async def test_always_is_asked_once(shop: Shop) -> None:
    answers: list[bool] = []
    async with running_chat(
        shop.create(), WRITE, WRITE, "Done.", open_with=confirming(answers)
    ) as rig:
        await rig.send("go")
        await rig.until_asked()
        await rig.press("a")
        await rig.until_screen(ChoiceDialog)
        await rig.press("down", "enter")
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert answers == [True, True]
        rig.chat.confirmer.forget()
        rig.agent.say_next(WRITE, "Again.")
        await rig.send("once more")
        await rig.until_asked()
        await rig.press("n")
        await rig.until(lambda: ("answer", "Again.") in blocks(rig) and rig.is_idle)
        assert answers == [True, True, False]


async def test_a_question_goes_away_when_its_turn_is_aborted(shop: Shop) -> None:
    async with running_chat(shop.create(), WRITE, open_with=confirming([])) as rig:
        await rig.send("go")
        await rig.until_asked()
        await rig.session.abort()
        await rig.until(lambda: rig.app.screen is rig.chat and rig.is_idle)


# -- what is shown of a session ------------------------------------------------------------------


async def test_a_resumed_session_is_shown_with_all_its_parts(shop: Shop) -> None:
    manager = shop.create()
    manager.append_message(user("look at it"))
    manager.append_message(
        assistant(content=[{"type": "text", "text": "Yes."}, call("1", "read", path="a.py")])
    )
    manager.append_message(result("1", "read", "text"))
    manager.append_message(assistant("Seen."))
    manager.append_custom_message_entry("hook", "a note", True)
    manager.branch_with_summary(manager.leaf_id, "What was tried")
    async with running_chat(manager) as rig:
        kinds = [kind for kind, _ in blocks(rig)]
        assert kinds == ["user", "answer", "tool", "answer", "note", "summary"]
        assert "What happened on the branch you came from" in rig.text


async def test_what_a_compaction_hides_can_be_shown(shop: Shop) -> None:
    manager = shop.create()
    for number in range(5):
        manager.append_message(user(f"old prompt {number}"))
        manager.append_message(assistant(f"old answer {number}"))
    kept = manager.append_message(user("kept prompt"))
    manager.append_message(assistant("kept answer"))
    manager.append_compaction("The summary", kept, 50_000)
    async with running_chat(manager, size=(90, 50)) as rig:
        assert "10 earlier entries" in rig.text
        assert "Compacted · 50,000 tokens" in rig.text
        assert "old prompt 4" not in rig.text
        await rig.press("pageup")
        await rig.until(lambda: "old prompt 4" in rig.text)


async def test_a_long_session_opens_at_its_end_and_more_is_shown_on_demand(shop: Shop) -> None:
    manager = shop.create()
    for number in range(600):
        manager.append_message(user(f"prompt number {number}"))
        manager.append_message(assistant(f"answer number {number}"))
    async with running_chat(manager) as rig:
        assert "answer number 599" in rig.text
        first = len(rig.chat.transcript.blocks)
        assert first < 500
        while len(rig.chat.transcript.blocks) == first:
            await rig.press("pageup")
        assert len(rig.chat.transcript.blocks) > first


async def test_todos_of_the_session_are_shown_and_follow_the_file(shop: Shop) -> None:
    manager = shop.create()
    manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    write_todos(manager, "Write the tests")
    async with running_chat(manager) as rig:
        assert "☐ Write the tests" in rig.text
        write_todos(manager, "Ship it")
        await rig.until(lambda: "☐ Ship it" in rig.text)


async def test_the_agent_writes_todos_with_its_tool_and_each_branch_has_its_own(shop: Shop) -> None:
    manager = shop.create()
    manager.append_message(user("first"))
    fork = manager.append_message(assistant("hello"))
    ends: list[str] = []
    for name in ("Read the log", "Fix the parser"):
        manager.branch(fork)
        tasks = [{"content": name, "status": "in_progress"}, {"content": "Ship it"}]
        manager.append_message(user("go on"))
        manager.append_message(assistant(content=[call("t1", "todo", todos=tasks)]))
        said = result("t1", "todo", "…", details={"todos": tasks})
        ends.append(manager.append_message(said))
    write_todos(manager, "An older file")
    async with running_chat(manager) as rig:
        await rig.until(lambda: "▸ Fix the parser" in rig.text)
        assert "An older file" not in rig.text
        await rig.session.navigate_tree(ends[0])
        await rig.until(lambda: "▸ Read the log" in rig.text)
        assert "Fix the parser" not in rig.text


async def test_a_todo_list_is_shown_as_soon_as_the_agent_writes_it(shop: Shop) -> None:
    manager = shop.create()

    async def open_offline(_: Confirmer, __: ScriptedAgent) -> OpenedSession:
        agent = OfflineAgent(Toolbox(project_tools(shop.project)))
        return OpenedSession(await create_agent_session(agent, manager=manager))

    async with running_chat(manager, open_with=open_offline) as rig:
        await rig.send("todo: Write the tests; Ship it")
        await rig.until(lambda: "▸ Write the tests" in rig.text)
        assert "Todo · 0 of 2 done" in rig.text
        assert "0 of 2 done · Write the tests" in rig.text


def write_todos(manager: SessionManager, text: str) -> None:
    folder = Path(str(manager.artifacts_dir))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "todos.json").write_text(json.dumps([{"content": text, "status": "pending"}]))


async def test_the_footer_says_session_model_tokens_and_cost(shop: Shop) -> None:
    manager = shop.create()
    manager.append_model_change("anthropic/claude-opus-5-5")
    manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    manager.set_session_name("Greetings")
    async with running_chat(manager, size=(140, 30)) as rig:
        footer = screen_lines(rig.app)[-1]
        assert footer.startswith(" Greetings ")
        assert "Claude Opus 5.5" in footer
        assert "$0.01" in footer


async def test_an_empty_session_says_what_to_do_and_offers_samples(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.until(lambda: "No sessions yet: /demo adds three samples" in rig.text)
    shop.session("something")
    async with running_chat(shop.create()) as rig:
        assert "New session in" in rig.text
        await rig.until(lambda: "something" in rig.text)
        assert "/demo" not in rig.text


async def test_the_start_page_names_recent_sessions_here(shop: Shop) -> None:
    for number in range(7):
        shop.session(f"prompt {number}", age_s=3600 * (number + 1))
    shop.session("elsewhere", cwd=shop.other_project)
    async with running_chat(shop.create(), size=(100, 32)) as rig:
        await rig.until(lambda: "Recent in this project" in rig.text)
        lines = screen_lines(rig.app)
        at = next(n for n, line in enumerate(lines) if "Recent in this project" in line)
        assert [line.split() for line in lines[at + 1 : at + 6]] == [
            ["prompt", str(number), f"{number + 1}h", "ago"] for number in range(5)
        ]
        assert "prompt 5" not in rig.text
        assert "elsewhere" not in rig.text
        assert "Sessiontree 0." in rig.text
        assert "F1 help" in rig.text
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        await rig.until(lambda: "Recent in this project" in rig.text)
        assert "prompt 2" in rig.text
        assert "prompt 3" not in rig.text


async def test_the_start_page_begins_with_this_projects_sessions_of_any_agent(
    shop: Shop, home: Path
) -> None:
    put_codex(home, "0199c0de-0000-7000-8000-000000000001", ("user", "elsewhere"))
    title = "Why does the parser lose the last line of a file that has no line break at its end?"
    put_codex(home, "0199c0de-0000-7000-8000-000000000002", ("user", title), cwd=shop.project)
    async with running_chat(shop.create(), size=(140, 32)) as rig:
        await rig.until(lambda: "Recent in this project, of all agents" in rig.text)
        assert title in rig.text, "a name gets the room that there is"
        assert "elsewhere" not in rig.text
        assert screen_lines(rig.app)[0].strip().startswith("Sessiontree 0.")


async def test_nobody_with_sessions_of_other_agents_is_told_there_are_none(
    shop: Shop, home: Path
) -> None:
    put_claude(home, "0b6a8a52-1111-4222-8333-444455556666", claude_prompt("Why?"))
    put_codex(home, "0199c0de-0000-7000-8000-000000000001", ("user", "faster parser"))
    async with running_chat(shop.create()) as rig:
        await rig.until(lambda: "Recent, of all agents" in rig.text)
        assert "Found: 1 of Claude Code, 1 of Codex. /resume lists them" in rig.text
        assert "faster parser" in rig.text
        assert "No sessions" not in rig.text


async def test_what_another_process_appends_shows_up(shop: Shop) -> None:
    manager = shop.create()
    manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    async with running_chat(manager) as rig:
        other = SessionManager.open(str(manager.session_file), profile=shop.profile)
        other.append_message(user("from the other window"))
        other.append_message(assistant("answered over there"))
        other.close()
        await rig.until(lambda: "answered over there" in rig.text)
        assert "from another process" in rig.said
        assert rig.session.messages[-1]["content"][0]["text"] == "answered over there"


def is_shown(rig: Any, text: str) -> bool:
    return text in rig.text


async def test_the_chat_waits_for_the_store_to_tell_of_a_change(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_link, "_LOOK_S", 3600.0)
    manager = shop.create()
    manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    async with running_chat(manager) as rig:
        for text in ("from the other window", "and again"):
            with SessionManager.open(str(manager.session_file), profile=shop.profile) as other:
                other.append_message(user(text))
            await rig.until(partial(is_shown, rig, text))


async def test_after_a_switch_the_chat_follows_the_other_session(shop: Shop) -> None:
    manager = shop.create()
    manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    second = shop.session("the other question")
    async with running_chat(manager) as rig:
        left = str(manager.session_file)
        await rig.session.switch_session(second)
        await rig.until(lambda: "the other question" in rig.text)
        for path, text in ((left, "to the one that was left"), (second, "from elsewhere")):
            with SessionManager.open(path, profile=shop.profile) as other:
                other.append_message(user(text))
        await rig.until(lambda: "from elsewhere" in rig.text)
        assert "to the one that was left" not in rig.text


async def test_what_another_process_appends_elsewhere_leaves_us_where_we_are(shop: Shop) -> None:
    manager = shop.create()
    first = manager.append_message(user("hi"))
    manager.append_message(assistant("hello"))
    async with running_chat(manager) as rig:
        other = SessionManager.open(str(manager.session_file), profile=shop.profile)
        other.branch(first)
        other.append_message(assistant("another answer"))
        other.close()
        await rig.until_said("from another process")
        assert "another answer" not in rig.text


# -- moving around -------------------------------------------------------------------------------


async def test_esc_twice_opens_the_tree(shop: Shop) -> None:
    async with running_chat(shop.create(), "a") as rig:
        await rig.ask("hi")
        await rig.press("escape", "escape")
        await rig.until_screen(TreePicker)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)


async def test_the_conversation_can_be_walked_with_keys(shop: Shop) -> None:
    reply = Reply("Done.", thinking="a thought\nand another")
    async with running_chat(shop.create(), reply) as rig:
        await rig.ask("go")
        await rig.press("ctrl+up")
        assert rig.chat.transcript.has_focus
        await rig.press("up")
        chosen = rig.chat.transcript.chosen_block
        assert chosen is not None
        assert chosen.kind == "thinking"
        await rig.press("enter")
        assert "and another" in rig.text
        await rig.press("c")
        assert rig.app.clipboard == "a thought\nand another"
        await rig.press("escape")
        assert rig.chat.editor.has_focus


async def test_typing_in_the_conversation_goes_to_the_editor(shop: Shop) -> None:
    async with running_chat(shop.create(), "a") as rig:
        await rig.ask("hi")
        await rig.press("ctrl+up")
        await rig.type("new prompt")
        assert rig.chat.editor.text == "new prompt"


async def test_a_running_command_survives_that_the_conversation_is_read_anew(shop: Shop) -> None:
    async with running_chat(shop.create(), "a") as rig:
        await rig.ask("hi")
        await rig.send("!echo begun; sleep 60")
        await rig.until(lambda: "│ begun" in rig.text)
        await rig.chat.link.reload()
        await rig.until(lambda: "│ begun" in rig.text)
        await rig.press("escape")
        await rig.until(lambda: "stopped" in rig.text)


async def test_a_click_on_the_first_line_folds_and_unfolds(shop: Shop) -> None:
    reply = Reply("Done.", thinking="a thought\nand another")
    async with running_chat(shop.create(), reply) as rig:
        await rig.ask("go")
        row = next(n for n, line in enumerate(screen_lines(rig.app)) if "✦ Thought" in line)
        await rig.pilot.click("#transcript", offset=(5, row))
        await rig.until(lambda: "and another" in rig.text)


@pytest.mark.parametrize("size", [(30, 8), (60, 15), (80, 24), (200, 60)])
async def test_the_chat_fits_terminals_of_all_sizes(shop: Shop, size: tuple[int, int]) -> None:
    async with running_chat(shop.create(), "An *answer* of some length. " * 5, size=size) as rig:
        await rig.ask("hi")
        lines = screen_lines(rig.app)
        assert len(lines) == size[1]
        assert all(len(line) <= size[0] for line in lines)
        assert "answer" in rig.text


async def test_resizing_wraps_the_conversation_anew(shop: Shop) -> None:
    async with running_chat(shop.create(), "word " * 40 + "end", size=(120, 30)) as rig:
        await rig.ask("hi")
        await rig.pilot.resize_terminal(40, 30)
        await rig.pilot.pause()
        assert all(len(line) <= 40 for line in screen_lines(rig.app))
        assert "end" in rig.text


# -- leaving -------------------------------------------------------------------------------------


async def test_ctrl_c_clears_the_editor_then_warns_then_leaves(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.type("typed")
        await rig.press("ctrl+c")
        assert rig.chat.editor.text == ""
        await rig.press("up")
        assert rig.chat.editor.text == "typed"
        rig.chat.editor.put("")
        rig.chat._stopping._interrupted_at = 0.0
        await rig.press("ctrl+c")
        assert "again leaves" in rig.said
        assert not rig.app._exit
        await rig.press("ctrl+c")
        await rig.until(lambda: rig.app._exit)


async def test_what_ctrl_c_would_do_is_said_only_while_it_would(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.press("ctrl+c")
        assert rig.said == "Ctrl+C again leaves"
        await rig.until(lambda: rig.said == "")
        await rig.press("ctrl+c", "x")
        assert rig.said == ""
        await rig.press("ctrl+c")
        assert rig.said == "Cleared: Up brings it back, Ctrl+C again leaves"
        await rig.until(lambda: rig.said == "Cleared: Up brings it back")
        assert not rig.app._exit


@pytest.mark.parametrize("key", ["ctrl+d", "ctrl+q"])
async def test_other_keys_that_leave(shop: Shop, key: str) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.press(key)
        await rig.until(lambda: rig.app._exit)


async def test_ctrl_c_in_a_picker_leaves_the_program(shop: Shop) -> None:
    async with running_chat(shop.create(), "a") as rig:
        await rig.ask("hi")
        await rig.press("escape", "escape")
        await rig.until_screen(TreePicker)
        await rig.press("ctrl+c")
        await rig.until(lambda: rig.app._exit)


async def test_ctrl_c_in_a_question_answers_no_and_stays(shop: Shop) -> None:
    answers: list[bool] = []
    async with running_chat(shop.create(), WRITE, "Done.", open_with=confirming(answers)) as rig:
        await rig.send("go")
        await rig.until_asked()
        await rig.press("ctrl+c")
        await rig.until(lambda: ("answer", "Done.") in blocks(rig) and rig.is_idle)
        assert answers == [False]
        assert not rig.app._exit


async def test_a_session_that_can_not_be_opened_ends_the_program_with_the_reason(
    shop: Shop,
) -> None:
    from sessiontree.runtime.models import ModelNotFoundError
    from sessiontree.tui.app import ChatApp
    from sessiontree.tui.chat.screen import ChatSetup

    async def fail(_: Confirmer) -> OpenedSession:
        raise ModelNotFoundError("nobody/nothing")

    app = ChatApp(ChatSetup(Scope(shop.project, shop.profile)), fail)
    async with app.run_test() as pilot:
        for _ in range(200):
            if app._exit:
                break
            await pilot.pause(0.01)
    assert isinstance(app.failure, ModelNotFoundError)


# -- the mouse -----------------------------------------------------------------------------------


async def test_whoever_types_after_a_click_means_the_editor(shop: Shop) -> None:
    async with running_chat(shop.create(), "an answer") as rig:
        await rig.ask("hi")
        await rig.pilot.click(rig.chat.transcript, offset=(5, 2))
        await rig.type("cl c l")
        assert rig.chat.editor.text == "cl c l"
        assert rig.app.screen is rig.chat
        assert "Copied" not in rig.said


async def test_keys_of_the_conversation_work_after_ctrl_up_until_something_else_is_typed(
    shop: Shop,
) -> None:
    async with running_chat(shop.create(), "an answer") as rig:
        await rig.ask("hi")
        await rig.press("tab")
        await rig.type("c")
        assert rig.chat.editor.text == "c"
        await rig.press("backspace", "ctrl+up")
        await rig.type("c")
        await rig.until_said("Copied 9 characters")
        await rig.type("xc")
        assert rig.chat.editor.text == "xc"


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
async def test_selected_text_can_be_read(shop: Shop, palette: Palette) -> None:
    async with running_chat(shop.create(), "an answer", palette=palette) as rig:
        await rig.ask("hi")
        transcript = rig.chat.transcript
        row = next(n for n, line in enumerate(screen_lines(rig.app)) if line == "  an answer")
        await rig.pilot.mouse_down(transcript, offset=(2, row))
        await rig.pilot.hover(transcript, offset=(8, row))
        await rig.pilot.mouse_up(transcript, offset=(8, row))
        await rig.until(lambda: rig.chat.get_selected_text() == "an answ")
        drawn = next(s for s in transcript.render_line(row) if "an answ" in s.text)
        assert drawn.style is not None
        assert (drawn.style.color, drawn.style.bgcolor) == (
            Color.parse(palette.background),
            Color.parse(palette.accent),
        )
