"""The real agent against a real server: answers, tools, one-shot calls."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from tests.integration.chat_server import ChatServer, calls, fails, says
from tests.integration.rig import Heard
from tests.samples import text_of, user

from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.models import Model


def test_it_is_an_agent(agent: PydanticAIAgent) -> None:
    assert isinstance(agent, Agent)


# --- answers ----------------------------------------------------------------------------------


async def test_an_answer_streams_in_and_is_recorded_with_usage_and_cost(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [says("Hel", "lo", " there", thinks=("I ", "think"))]
    heard = Heard(agent)
    await agent.prompt([user("Hi")])
    assert heard.deltas("thinking") == ["I ", "think"]
    assert heard.deltas("text") == ["Hel", "lo", " there"]
    question, answer = heard.ended()
    assert question == user("Hi")
    assert answer.pop("timestamp") > 1_600_000_000_000
    assert answer == {
        "role": "assistant",
        "content": [
            {
                "type": "thinking",
                "thinking": "I think",
                "thinkingSignature": "reasoning_content",
            },
            {"type": "text", "text": "Hello there"},
        ],
        "api": "openai-completions",
        "provider": "loopback",
        "model": "test-model",
        "usage": {
            "input": 600,
            "output": 100,
            "cacheRead": 400,
            "cacheWrite": 0,
            "totalTokens": 1100,
            "cost": {
                "input": 600 / 1e6,
                "output": 1000 / 1e6,
                "cacheRead": 200 / 1e6,
                "cacheWrite": 0.0,
                "total": pytest.approx(1800 / 1e6),
            },
        },
        "stopReason": "stop",
        "responseId": "chatcmpl-1",
    }
    assert list(agent.messages) == heard.ended()


async def test_the_request_has_the_conversation_the_tools_and_the_key(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [says("ok")]
    agent.thinking_level = "high"
    agent.replace_messages(
        [
            {"role": "compactionSummary", "summary": "earlier", "timestamp": 1},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(),
                        "mimeType": "image/png",
                    },
                ],
                "timestamp": 2,
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "reading"},
                    {
                        "type": "toolCall",
                        "id": "c|" + "x" * 80,
                        "name": "read",
                        "arguments": {"path": "a"},
                    },
                ],
                "provider": "openai",
                "model": "other",
                "usage": {},
                "stopReason": "toolUse",
                "timestamp": 3,
            },
            {
                "role": "toolResult",
                "toolCallId": "c|" + "x" * 80,
                "toolName": "read",
                "content": [{"type": "text", "text": "half \ud83d"}],
                "isError": False,
                "timestamp": 4,
            },
            {
                "role": "assistant",
                "content": [],
                "provider": "openai",
                "model": "other",
                "usage": {},
                "stopReason": "error",
                "errorMessage": "x",
                "timestamp": 5,
            },
        ]
    )
    await agent.prompt([user("go on")])
    (request,) = server.requests
    assert server.keys == ["k-123"]
    assert request["model"] == "test-model"
    assert request["stream"] is True
    assert request["reasoning_effort"] == "high"
    assert 1_024 <= request["max_tokens"] <= 4_000
    names = [tool["function"]["name"] for tool in request["tools"]]
    assert names == ["read", "write", "edit", "bash", "grep", "ls", "todo"]
    roles = [message["role"] for message in request["messages"]]
    assert roles == ["system", "user", "user", "assistant", "tool", "user"]
    system, summary, picture, call, result, last = request["messages"]
    assert system["content"] == "Be brief."
    assert "<summary>\nearlier\n</summary>" in json.dumps(summary["content"]).replace("\\n", "\n")
    assert picture["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0K")
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "c"
    assert result["content"] == "half \ufffd"
    assert last["content"] == "go on"


async def test_a_model_that_cannot_see_gets_a_note_instead_of_an_image(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    agent.model = Model("loopback", "blind")
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    await agent.prompt([{"role": "user", "content": [image], "timestamp": 1}])
    sent = json.dumps(server.requests[0]["messages"])
    assert "cannot see images" in sent
    assert "AAAA" not in sent
    assert agent.messages[0]["content"] == [image]


async def test_a_model_that_should_not_think_is_not_told_about_thinking(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    await agent.prompt([user("Hi")])
    assert "reasoning_effort" not in server.requests[0]


async def test_an_answer_cut_by_its_length_says_so(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [says("and then", finish="length")]
    await agent.prompt([user("go")])
    assert agent.messages[-1]["stopReason"] == "length"


# --- tools ------------------------------------------------------------------------------------


async def test_tools_run_and_their_results_go_back_to_the_model(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    (project / "a.txt").write_text("content of a\n")
    server.script = [
        calls(
            ("c1", "read", '{"path": "a.txt"}'),
            ("c2", "write", '{"path": "b.txt", "content": "new"}'),
            ("c3", "read", '{"path": "../secret"}'),
        ),
        says("Done."),
    ]
    heard = Heard(agent)
    await agent.prompt([user("work")])
    _, call, read, write, refused, done = heard.ended()
    assert call["stopReason"] == "toolUse"
    assert call["content"][0] == {
        "type": "toolCall",
        "id": "c1",
        "name": "read",
        "arguments": {"path": "a.txt"},
    }
    assert (text_of(read), read["toolCallId"], read["isError"]) == ("content of a", "c1", False)
    assert (project / "b.txt").read_text() == "new"
    assert not write["isError"]
    assert refused["isError"]
    assert text_of(done) == "Done."
    back = [m for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in back] == ["c1", "c2", "c3"]
    assert back[0]["content"] == "content of a"
    assert "leads out of the project" in back[2]["content"]
    starts = [e.tool_call_id for e in heard.events if isinstance(e, events.ToolStart)]
    assert starts == ["c1", "c2", "c3"]
    assert "".join(heard.deltas("tool_call")).startswith('{"pat{"pat{"pat')


async def test_the_user_is_asked_with_the_id_of_the_call(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    asked: list[Confirmation] = []

    async def no(question: Confirmation) -> bool:
        asked.append(question)
        return False

    agent.confirm = no
    server.script = [calls(("c9", "bash", '{"command": "touch x"}')), says("As you wish.")]
    await agent.prompt([user("work")])
    (question,) = asked
    assert (question.tool_call_id, question.preview) == ("c9", "touch x")
    assert os.listdir(project) == []
    assert agent.messages[2]["isError"]
    assert "declined" in text_of(agent.messages[2])


async def test_arguments_that_are_not_json_are_told_to_the_model(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [calls(("c1", "read", '{"path": ')), says("Sorry.")]
    await agent.prompt([user("work")])
    assert agent.messages[2]["isError"]
    assert "not a JSON object" in text_of(agent.messages[2])
    assert text_of(agent.messages[-1]) == "Sorry."


async def test_plan_mode_is_told_and_kept(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    agent.mode = "plan"
    server.script = [calls(("c1", "bash", '{"command": "touch x"}')), says("A plan.")]
    await agent.prompt([user("work")])
    assert "Plan mode is on" in server.requests[0]["messages"][0]["content"]
    assert "plan mode" in text_of(agent.messages[2])
    assert os.listdir(project) == []


async def test_steering_comes_between_two_calls_and_follow_ups_at_the_end(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    server.script = [calls(("c1", "ls", "{}")), says("Steered."), says("Followed.")]
    agent.steering.put(user("rather this"))
    agent.follow_ups.put(user("and that"))
    await agent.prompt([user("work")])
    texts = [m["content"] if m["role"] == "user" else m["role"] for m in agent.messages]
    assert texts == [
        "work", "assistant", "toolResult", "rather this", "assistant", "and that", "assistant",
    ]  # fmt: skip


# --- one-shot calls ---------------------------------------------------------------------------


async def test_a_one_shot_call_has_no_tools_tells_retries_only_and_leaves_the_conversation_alone(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [fails("500 Internal Server Error", "oops"), says("## Goal", thinks=("hm",))]
    heard = Heard(agent)
    agent.thinking_level = "high"
    answer = await agent.complete(system="Summarise.", messages=[user("x")], max_tokens=77)
    assert text_of(answer) == "## Goal"
    assert answer["usage"]["totalTokens"] == 1100
    assert answer["usage"]["cost"]["total"] > 0
    request = server.requests[-1]
    assert "tools" not in request
    assert request["max_tokens"] == 77
    assert request["messages"][0]["content"] == "Summarise."
    assert [type(event) for event in heard.events] == [events.ModelRetry]
    assert list(agent.messages) == []

    server.script = [fails("401 Unauthorized", "who?")]
    failed = await agent.complete(system="s", messages=[user("x")], max_tokens=5)
    assert (failed["stopReason"], failed["errorMessage"]) == ("error", "401 who?")


async def test_the_model_can_be_changed_between_two_prompts(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [says("one", thinks=("t",)), says("two")]
    await agent.prompt([user("1")])
    agent.model = Model("loopback", "other-model")
    await agent.prompt([user("2")])
    assert [m["model"] for m in agent.messages if m["role"] == "assistant"] == [
        "test-model",
        "other-model",
    ]
    assert server.requests[1]["model"] == "other-model"
    assert agent.messages[-1]["usage"]["cost"]["total"] == 0
