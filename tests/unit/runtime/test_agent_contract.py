"""The contract of an agent, as `AgentBase` keeps it for every agent built on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent, AgentBusyError
from sessiontree.runtime.agent_base import Progress, ToolOutput
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import DEAR, texts


def ask(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}]


def watch(agent: ScriptedAgent) -> list[Any]:
    heard: list[Any] = []
    agent.subscribe(heard.append)
    return heard


def names(heard: list[Any]) -> list[str]:
    return [type(event).__name__ for event in heard]


def test_a_scripted_agent_is_an_agent() -> None:
    assert isinstance(ScriptedAgent(), Agent)


async def test_events_come_in_the_order_of_the_contract() -> None:
    async def look(arguments: Mapping[str, Any], progress: Progress) -> str:
        await progress("so far")
        return "found"

    agent = ScriptedAgent([Reply("hm", tool_calls=[("look", {})]), "yes"], tools={"look": look})
    heard = watch(agent)
    await agent.prompt(ask("where?"))
    assert [name for name in names(heard) if name != "MessageUpdate"] == [
        "AgentStart",
        "TurnStart",
        "MessageStart",
        "MessageEnd",
        "MessageStart",
        "MessageEnd",
        "ToolStart",
        "ToolUpdate",
        "ToolEnd",
        "MessageStart",
        "MessageEnd",
        "TurnEnd",
        "TurnStart",
        "MessageStart",
        "MessageEnd",
        "TurnEnd",
        "AgentEnd",
    ]
    ended = [event.message for event in heard if isinstance(event, events.MessageEnd)]
    assert ended == list(agent.messages)
    assert heard[-1] == events.AgentEnd(tuple(agent.messages))
    assert agent.messages[1]["stopReason"] == "toolUse"
    assert agent.messages[2]["content"] == [{"type": "text", "text": "found"}]


async def test_updates_add_up_to_the_message() -> None:
    agent = ScriptedAgent([Reply("hello there", thinking="hm")])
    heard = watch(agent)
    await agent.prompt(ask("hi"))
    deltas = [event.delta for event in heard if isinstance(event, events.MessageUpdate)]
    assert "".join(d.text for d in deltas if d.kind == "text") == "hello there"
    assert [d.index for d in deltas] == [0, 1, 1]
    content = agent.messages[-1]["content"]
    assert [block["type"] for block in content] == ["thinking", "text"]


async def test_an_abort_in_mid_answer_keeps_what_was_said() -> None:
    agent = ScriptedAgent([Reply("one two three", hold=True)])
    run = asyncio.create_task(agent.prompt(ask("count")))
    await agent.wait_held()
    assert agent.is_running
    await agent.abort()
    await agent.wait_idle()
    await run
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert texts(agent.messages)[-1] == ("assistant", "one two")
    assert not agent.is_running


async def test_an_abort_in_mid_tool_ends_the_tool_and_records_its_result() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow(arguments: Mapping[str, Any], progress: Progress) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    agent = ScriptedAgent(
        [Reply("", tool_calls=[("slow", {}), ("slow", {})])], tools={"slow": slow}
    )
    run = asyncio.create_task(agent.prompt(ask("go")))
    await started.wait()
    await agent.abort()
    await run
    assert ended.is_set()
    results = [m for m in agent.messages if m["role"] == "toolResult"]
    assert [m["isError"] for m in results] == [True, True]
    assert agent.messages[-1]["role"] == "toolResult"


async def test_cancelling_the_prompt_is_an_abort_that_comes_to_a_proper_end() -> None:
    agent = ScriptedAgent([Reply("one two", hold=True)])
    heard = watch(agent)
    run = asyncio.create_task(agent.prompt(ask("count")))
    await agent.wait_held()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not agent.is_running
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert names(heard)[-1] == "AgentEnd"


async def test_an_abort_from_inside_a_listener_does_not_wait_for_itself() -> None:
    agent = ScriptedAgent(["never said in full"])

    async def stop(event: Any) -> None:
        if isinstance(event, events.MessageUpdate):
            await agent.abort()

    agent.subscribe(stop)
    await asyncio.wait_for(agent.prompt(ask("hi")), 5)
    assert agent.messages[-1]["stopReason"] == "aborted"


async def test_a_failure_of_the_model_is_a_message_and_not_an_exception() -> None:
    agent = ScriptedAgent([Reply("so f", error="overloaded")])
    await agent.prompt(ask("hi"))
    assert agent.messages[-1]["stopReason"] == "error"
    assert agent.messages[-1]["errorMessage"] == "overloaded"


async def test_a_tool_that_raises_or_is_not_there_gives_an_error_result() -> None:
    async def broken(arguments: Mapping[str, Any], progress: Progress) -> ToolOutput:
        raise OSError("disk on fire")

    calls: list[tuple[str, dict[str, Any]]] = [("broken", {}), ("missing", {})]
    agent = ScriptedAgent([Reply("", tool_calls=calls), "well"], tools={"broken": broken})
    await agent.prompt(ask("go"))
    results = [m for m in agent.messages if m["role"] == "toolResult"]
    assert all(m["isError"] for m in results)
    assert "disk on fire" in results[0]["content"][0]["text"]
    assert "missing" in results[1]["content"][0]["text"]
    assert texts(agent.messages)[-1] == ("assistant", "well")


async def test_a_second_prompt_during_a_run_is_refused() -> None:
    agent = ScriptedAgent([Reply("hm", hold=True)])
    run = asyncio.create_task(agent.prompt(ask("one")))
    await agent.wait_held()
    with pytest.raises(AgentBusyError):
        await agent.prompt(ask("two"))
    agent.release()
    await run
    assert len(agent.messages) == 2


async def test_steering_comes_between_two_model_calls_and_follow_ups_at_the_end() -> None:
    async def nothing(arguments: Mapping[str, Any], progress: Progress) -> str:
        agent.steering.put(ask("faster")[0])
        return "ok"

    agent = ScriptedAgent(
        [Reply("", tool_calls=[("nothing", {})]), "second", "third"], tools={"nothing": nothing}
    )
    agent.follow_ups.put(ask("and then?")[0])
    await agent.prompt(ask("go"))
    assert texts(agent.messages) == [
        ("user", "go"),
        ("assistant", ""),
        ("toolResult", "ok"),
        ("user", "faster"),
        ("assistant", "second"),
        ("user", "and then?"),
        ("assistant", "third"),
    ]


async def test_a_prompt_of_nothing_goes_on_from_the_messages_as_they_are() -> None:
    agent = ScriptedAgent(["again"])
    agent.replace_messages(ask("hi"))
    await agent.prompt([])
    assert texts(agent.messages) == [("user", "hi"), ("assistant", "again")]


async def test_a_one_shot_call_leaves_the_conversation_alone() -> None:
    agent = ScriptedAgent(summaries=["in short", Reply(error="no")])
    agent.model = DEAR
    heard = watch(agent)
    answer = await agent.complete(system="be brief", messages=ask("long story"), max_tokens=50)
    assert texts([answer]) == [("assistant", "in short")]
    assert answer["usage"]["totalTokens"] > 0
    assert answer["usage"]["cost"]["total"] > 0
    assert (await agent.complete(system="", messages=[], max_tokens=1))["stopReason"] == "error"
    assert heard == []
    assert agent.messages == []
    assert agent.completions[0].system == "be brief"


async def test_a_listener_that_fails_does_not_keep_others_from_hearing() -> None:
    agent = ScriptedAgent()

    def fail(event: Any) -> None:
        raise RuntimeError

    agent.subscribe(fail)
    heard = watch(agent)
    await agent.prompt(ask("hi"))
    assert names(heard)[-1] == "AgentEnd"


async def test_an_unsubscribed_listener_hears_nothing_more() -> None:
    agent = ScriptedAgent()
    heard: list[Any] = []
    unsubscribe = agent.subscribe(heard.append)
    unsubscribe()
    unsubscribe()
    await agent.prompt(ask("hi"))
    assert heard == []


async def test_what_the_model_is_asked_has_only_roles_it_knows() -> None:
    agent = ScriptedAgent()
    agent.replace_messages([{"role": "compactionSummary", "summary": "before", "timestamp": 1}])
    await agent.prompt(ask("hi"))
    assert [m["role"] for m in agent.requests[0].messages] == ["user", "user"]
