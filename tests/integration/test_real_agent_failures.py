"""The real agent against a real server that fails, drops connections, or is aborted."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.integration.chat_server import ChatServer, Connection, breaks_off, calls, fails, says
from tests.integration.rig import MODEL, RETRY, Heard, alive
from tests.samples import text_of, user

from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.retries import RetryPolicy
from sessiontree.agents.tools.base import Confirmation
from sessiontree.runtime import events
from sessiontree.runtime.models import Model

# --- failures ---------------------------------------------------------------------------------


async def test_transient_errors_are_tried_again(agent: PydanticAIAgent, server: ChatServer) -> None:
    server.script = [
        fails("429 Too Many Requests", "slow down", "rate_limit_exceeded"),
        fails("500 Internal Server Error", "oops"),
        fails("503 Service Unavailable", "later"),
        says("At last."),
    ]
    heard = Heard(agent)
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 4
    assert [m["role"] for m in heard.ended()] == ["user", "assistant"]
    assert text_of(agent.messages[-1]) == "At last."
    assert agent.messages[-1]["stopReason"] == "stop"
    told = [event for event in heard.events if isinstance(event, events.ModelRetry)]
    assert [(each.attempt, each.attempts) for each in told] == [(2, 4), (3, 4), (4, 4)]
    assert [each.reason for each in told] == ["429 slow down", "500 oops", "503 later"]
    assert all(each.wait_s > 0 for each in told)


async def test_tries_are_bounded_and_the_error_is_recorded(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [fails("500 Internal Server Error", "the disk is on fire")] * 10
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 4
    answer = agent.messages[-1]
    assert answer["stopReason"] == "error"
    assert answer["errorMessage"] == "500 the disk is on fire (after 4 attempts)"
    assert answer["content"] == []


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("401 Unauthorized", "invalid_api_key", "401 wrong"),
        ("400 Bad Request", None, "400 wrong"),
        ("404 Not Found", "model_not_found", "404 wrong"),
        ("429 Too Many Requests", "insufficient_quota", "429 wrong"),
    ],
)
async def test_errors_that_will_not_pass_are_recorded_at_once(
    agent: PydanticAIAgent, server: ChatServer, status: str, code: str | None, words: str
) -> None:
    server.script = [fails(status, "wrong", code)]
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 1
    assert agent.messages[-1]["stopReason"] == "error"
    assert agent.messages[-1]["errorMessage"] == words


async def test_a_wait_beyond_all_patience_is_not_waited(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [fails("429 Too Many Requests", "tomorrow", retry_after="86400")]
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 1
    assert agent.messages[-1]["errorMessage"] == "429 tomorrow"


async def test_an_overflow_is_told_in_words_that_a_session_compacts_on(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    from sessiontree.core.compaction import is_context_overflow

    server.script = [fails("400 Bad Request", "too much", "context_length_exceeded")]
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 1
    assert is_context_overflow(agent.messages[-1], MODEL.context_window)


async def test_a_connection_that_drops_before_anything_came_is_tried_again_in_silence(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [breaks_off(), breaks_off(quietly=True), says("Whole answer.")]
    heard = Heard(agent)
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 3
    assert [m["role"] for m in heard.ended()] == ["user", "assistant"]
    assert text_of(agent.messages[-1]) == "Whole answer."


async def test_an_answer_that_breaks_off_is_recorded_and_another_one_asked_for(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [breaks_off("This will ne"), says("Whole answer."), says("Bye.")]
    heard = Heard(agent)
    await agent.prompt([user("Hi")])
    _, broken, whole = heard.ended()
    assert (text_of(broken), broken["stopReason"]) == ("This will ne", "error")
    assert (text_of(whole), whole["stopReason"]) == ("Whole answer.", "stop")
    wanted = (events.TurnStart, events.TurnEnd, events.ModelRetry)
    kinds = [type(e).__name__ for e in heard.events if isinstance(e, wanted)]
    assert kinds == ["TurnStart", "TurnEnd", "ModelRetry", "TurnStart", "TurnEnd"]
    await agent.prompt([user("Thanks")])
    sent = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "assistant"]
    assert sent == ["Whole answer."]


async def test_a_connection_that_always_drops_is_given_up(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [breaks_off("Half an answ")] * 10
    await agent.prompt([user("Hi")])
    assert len(server.requests) == 4
    answers = [m for m in agent.messages if m["role"] == "assistant"]
    assert [m["stopReason"] for m in answers] == ["error"] * 4
    assert text_of(answers[-1]) == "Half an answ"
    assert answers[-1]["errorMessage"].endswith("(after 4 attempts)")


async def test_an_abort_while_a_broken_answer_waits_for_its_next_try(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    agent._retry = RetryPolicy(first_wait_s=1_000, longest_wait_s=1_000)
    server.script = [breaks_off("Half an answ")]
    heard = Heard(agent)
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await heard.until(lambda e: isinstance(e, events.TurnEnd))
    await agent.abort()
    await asyncio.wait_for(run, 20)
    assert [m["stopReason"] for m in agent.messages[1:]] == ["error", "aborted"]
    assert isinstance(heard.events[-1], events.AgentEnd)


async def test_a_stream_that_ends_without_a_reason_is_believed_unless_it_is_cut(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [breaks_off("All there is", quietly=True)]
    await agent.prompt([user("Hi")])
    assert text_of(agent.messages[-1]) == "All there is"
    assert agent.messages[-1]["stopReason"] == "stop"

    async def half_a_call(connection: Connection) -> None:
        await connection.open_stream()
        function = {"name": "ls", "arguments": '{"pa'}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        await connection.chunk({"tool_calls": [call]})
        await connection.end_quietly()

    server.script = [half_a_call, says("Whole.")]
    await agent.prompt([user("Again")])
    assert text_of(agent.messages[-1]) == "Whole."


async def test_a_server_that_is_not_there_is_an_error_not_an_exception(
    server: ChatServer, project: Path
) -> None:
    nowhere = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = nowhere.sockets[0].getsockname()[1]
    nowhere.close()
    await nowhere.wait_closed()
    agent = PydanticAIAgent(
        model=MODEL, retry=RETRY, environ={"LOOPBACK_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    )
    await agent.prompt([user("Hi")])
    assert agent.messages[-1]["stopReason"] == "error"
    assert "after 4 attempts" in agent.messages[-1]["errorMessage"]


async def test_a_provider_that_is_not_set_up_is_an_error_that_says_what_to_do() -> None:
    agent = PydanticAIAgent(model=Model("anthropic", "claude-x"), environ={})
    await agent.prompt([user("Hi")])
    assert agent.messages[-1]["errorMessage"] == (
        '"anthropic" is not set up: set ANTHROPIC_API_KEY'
    )
    agent.model = None
    await agent.prompt([user("Hi")])
    assert agent.messages[-1]["errorMessage"] == "No model is chosen"


# --- aborts -----------------------------------------------------------------------------------


async def test_an_abort_in_the_middle_of_an_answer_keeps_what_came_and_hangs_up(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    left = asyncio.Event()

    async def slow(connection: Connection) -> None:
        await connection.open_stream()
        await connection.chunk({"reasoning_content": "well"})
        await connection.chunk({"content": "So far"})
        await connection.until_client_leaves()
        left.set()

    server.script = [slow]
    heard = Heard(agent)
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await heard.until(lambda e: isinstance(e, events.MessageUpdate) and e.delta.text == "So far")
    await agent.abort()
    await run
    await asyncio.wait_for(left.wait(), 20)
    answer = agent.messages[-1]
    assert answer["stopReason"] == "aborted"
    assert text_of(answer) == "So far"
    assert not agent.is_running

    server.script = [says("Fresh start.")]
    await agent.prompt([user("Again")])
    sent = server.requests[-1]["messages"]
    assert [m["content"] for m in sent if m["role"] == "assistant"] == ["So far"]
    assert text_of(agent.messages[-1]) == "Fresh start."


async def test_an_abort_before_the_first_byte_and_while_waiting_to_retry(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    asked = asyncio.Event()

    async def silent(connection: Connection) -> None:
        asked.set()
        await connection.until_client_leaves()

    server.script = [silent]
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await asyncio.wait_for(asked.wait(), 20)
    await agent.abort()
    await asyncio.wait_for(run, 20)
    assert agent.messages[-1]["stopReason"] == "aborted"

    agent._retry = RetryPolicy(first_wait_s=1_000, longest_wait_s=1_000)
    failed = asyncio.Event()

    async def fail(connection: Connection) -> None:
        await fails("500 Internal Server Error", "oops")(connection)
        failed.set()

    server.script = [fail]
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await asyncio.wait_for(failed.wait(), 20)
    await agent.abort()
    await asyncio.wait_for(run, 20)
    assert agent.messages[-1]["stopReason"] == "aborted"


async def test_an_abort_in_the_middle_of_a_tool_call_does_not_run_it(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    async def half_a_call(connection: Connection) -> None:
        await connection.open_stream()
        function = {"name": "bash", "arguments": '{"command": "touch ma'}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        await connection.chunk({"tool_calls": [call]})
        await connection.until_client_leaves()

    server.script = [half_a_call]
    heard = Heard(agent)
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await heard.until(lambda e: isinstance(e, events.MessageUpdate) and e.delta.kind == "tool_call")
    await agent.abort()
    await run
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert agent.messages[-1]["content"] == []
    assert os.listdir(project) == []


async def test_an_abort_ends_the_command_and_its_children(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    command = "sleep 300 & echo pids=$$,$!=; setsid sleep 300 & wait"
    server.script = [calls(("c1", "bash", json.dumps({"command": command})))]
    heard = Heard(agent)
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    shown = await heard.until(
        lambda e: isinstance(e, events.ToolUpdate) and "=" in e.partial.partition("=")[2]
    )
    pids = [int(pid) for pid in re.findall(r"\d+", shown.partial)]
    assert all(alive(pid) for pid in pids)
    await agent.abort()
    await asyncio.wait_for(run, 30)
    assert [pid for pid in pids if alive(pid)] == []
    _, call, result, aborted = agent.messages
    assert call["stopReason"] == "toolUse"
    assert result["isError"] is True
    assert text_of(result).startswith("pids="), "what it had printed is kept"
    assert "aborted" in text_of(result)
    assert (aborted["content"], aborted["stopReason"]) == ([], "aborted")
    assert len(server.requests) == 1
    assert heard.ended() == list(agent.messages)
    assert isinstance(heard.events[-1], events.AgentEnd)
    assert list(heard.events[-1].messages) == list(agent.messages)


async def test_an_abort_while_the_user_is_asked_runs_nothing(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    asked = asyncio.Event()

    async def thinking(_: Confirmation) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    agent.confirm = thinking
    server.script = [
        calls(("c1", "bash", '{"command": "touch x"}'), ("c2", "bash", '{"command": "touch y"}'))
    ]
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await asyncio.wait_for(asked.wait(), 20)
    await agent.abort()
    await asyncio.wait_for(run, 20)
    results = [m for m in agent.messages if m["role"] == "toolResult"]
    assert [(m["toolCallId"], m["isError"]) for m in results] == [("c1", True), ("c2", True)]
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert os.listdir(project) == []


async def test_cancelling_the_prompt_counts_as_an_abort(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    async def slow(connection: Connection) -> None:
        await connection.open_stream()
        await connection.chunk({"content": "So far"})
        await connection.until_client_leaves()

    server.script = [slow]
    heard = Heard(agent)
    run = asyncio.create_task(agent.prompt([user("Hi")]))
    await heard.until(lambda e: isinstance(e, events.MessageUpdate))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert isinstance(heard.events[-1], events.AgentEnd)
