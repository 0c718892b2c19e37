"""Providers' own languages: what they sign must come back to them unchanged, through the session.

Real HTTP servers on loopback speak Anthropic's Messages and OpenAI's Responses; each conversation
goes through JSON in between, as it does when a session is closed and opened again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from tests.samples import user

from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.tools.toolbox import Toolbox, project_tools
from sessiontree.runtime.models import Model

Event = tuple[str, dict[str, Any]]


class Recording(ThreadingHTTPServer):
    """Answers each POST with the next list of server-sent events."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[list[Event]] = []
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Recording

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(json.loads(body))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for name, data in self.server.answers.pop(0):
            self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing: the tests look at what was recorded."""


@pytest.fixture
def server() -> Iterator[Recording]:
    with Recording() as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def reopened(agent: PydanticAIAgent, project: Path, **options: Any) -> PydanticAIAgent:
    """Another agent, with the conversation as a session file gives it back."""
    again = PydanticAIAgent(Toolbox(project_tools(project)), **options)
    again.replace_messages(json.loads(json.dumps(list(agent.messages))))
    return again


# --- Anthropic --------------------------------------------------------------------------------


def anthropic_answer(blocks: list[dict[str, Any]], stop: str) -> list[Event]:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    made: list[Event] = [("message_start", {"type": "message_start", "message": message})]
    for index, block in enumerate(blocks):
        empty, deltas = _anthropic_pieces(block)
        start = {"type": "content_block_start", "index": index, "content_block": empty}
        made.append(("content_block_start", start))
        for delta in deltas:
            piece = {"type": "content_block_delta", "index": index, "delta": delta}
            made.append(("content_block_delta", piece))
        made.append(("content_block_stop", {"type": "content_block_stop", "index": index}))
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {**usage, "output_tokens": 55},
    }
    return [*made, ("message_delta", end), ("message_stop", {"type": "message_stop"})]


def _anthropic_pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "redacted_thinking":
            return block, []
        case "tool_use":
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            ]
        case _:
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]


CLAUDE = Model("anthropic", "claude-test-5", max_output=8_000, max_thinking="high")


async def test_anthropics_signed_and_redacted_thinking_goes_back_to_it_unchanged(
    server: Recording, project: Path
) -> None:
    (project / "a.txt").write_text("inside a\n")
    options: dict[str, Any] = {
        "model": CLAUDE,
        "system_prompt": "Be brief.",
        "make_client": lambda model: AnthropicModel(
            model.id, provider=AnthropicProvider(base_url=server.url, api_key="k")
        ),
    }
    agent = PydanticAIAgent(Toolbox(project_tools(project)), **options)
    agent.thinking_level = "low"
    server.answers = [
        anthropic_answer(
            [
                {"type": "thinking", "thinking": "let me look", "signature": "c2lnbmVk"},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
            ],
            "tool_use",
        ),
        anthropic_answer([{"type": "text", "text": "It says so."}], "end_turn"),
        anthropic_answer([{"type": "text", "text": "Still."}], "end_turn"),
    ]
    await agent.prompt([user("what is in a.txt?")])
    answer = agent.messages[1]
    assert answer.get("errorMessage") is None
    assert answer["content"] == [
        {"type": "thinking", "thinking": "let me look", "thinkingSignature": "c2lnbmVk"},
        {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "b3BhcXVl"},
        {"type": "text", "text": "Reading."},
        {"type": "toolCall", "id": "toolu_1", "name": "read", "arguments": {"path": "a.txt"}},
    ]
    assert answer["api"] == "anthropic-messages"
    usage = {key: value for key, value in answer["usage"].items() if key != "cost"}
    assert usage == {
        "input": 10,
        "output": 55,
        "cacheRead": 200,
        "cacheWrite": 30,
        "totalTokens": 295,
    }
    assert server.requests[0]["thinking"]["type"] in ("enabled", "adaptive")

    again = reopened(agent, project, **options)
    again.thinking_level = "low"
    await again.prompt([user("sure?")])
    sent = server.requests[2]["messages"]
    assert [message["role"] for message in sent] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    kinds = [block["type"] for block in sent[1]["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert sent[1]["content"][0]["signature"] == "c2lnbmVk"
    assert sent[1]["content"][1]["data"] == "b3BhcXVl"
    (result,) = sent[2]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_1")
    assert "inside a" in json.dumps(result["content"])


async def test_failed_tools_are_failed_tools_for_anthropic(
    server: Recording, project: Path
) -> None:
    agent = PydanticAIAgent(
        Toolbox(project_tools(project)),
        model=CLAUDE,
        make_client=lambda model: AnthropicModel(
            model.id, provider=AnthropicProvider(base_url=server.url, api_key="k")
        ),
    )
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "/etc/passwd"}}
    other = {"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {}}
    server.answers = [
        anthropic_answer([call, other], "tool_use"),
        anthropic_answer([{"type": "text", "text": "No."}], "end_turn"),
    ]
    await agent.prompt([user("show me")])
    failed, listed = server.requests[1]["messages"][-1]["content"]
    assert failed["is_error"] is True
    assert listed.get("is_error", False) is False


# --- OpenAI Responses -------------------------------------------------------------------------


def responses_answer(items: list[dict[str, Any]]) -> list[Event]:
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "in_progress",
    }
    made: list[Event] = [_response_event("response.created", 0, response=response)]
    for index, item in enumerate(items):
        begun = dict(item)
        if item["type"] == "message":
            begun["content"] = []
        if item["type"] == "function_call":
            begun["arguments"] = ""
        made.append(
            _response_event("response.output_item.added", len(made), output_index=index, item=begun)
        )
        made.extend(_responses_pieces(item, index, len(made)))
        made.append(
            _response_event("response.output_item.done", len(made), output_index=index, item=item)
        )
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120,
    }
    done = {**response, "output": items, "status": "completed", "usage": usage}
    return [*made, _response_event("response.completed", len(made), response=done)]


def _responses_pieces(item: dict[str, Any], index: int, number: int) -> list[Event]:
    where = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            text = item["content"][0]["text"]
            part = {"type": "output_text", "text": "", "annotations": []}
            return [
                _response_event(
                    "response.content_part.added", number, **where, content_index=0, part=part
                ),
                _response_event(
                    "response.output_text.delta",
                    number + 1,
                    **where,
                    content_index=0,
                    delta=text,
                    logprobs=[],
                ),
            ]
        case "reasoning":
            part = {"type": "summary_text", "text": ""}
            return [
                _response_event(
                    "response.reasoning_summary_part.added",
                    number,
                    **where,
                    summary_index=0,
                    part=part,
                ),
                _response_event(
                    "response.reasoning_summary_text.delta",
                    number + 1,
                    **where,
                    summary_index=0,
                    delta=item["summary"][0]["text"],
                ),
            ]
        case _:
            return [
                _response_event(
                    "response.function_call_arguments.delta",
                    number,
                    **where,
                    delta=item["arguments"],
                )
            ]


def _response_event(kind: str, number: int, **fields: Any) -> Event:
    return kind, {"type": kind, "sequence_number": number, **fields}


async def test_openais_encrypted_reasoning_goes_back_to_it_unchanged(
    server: Recording, project: Path
) -> None:
    options: dict[str, Any] = {
        "model": Model("openai", "gpt-5", max_output=8_000, max_thinking="high"),
        "make_client": lambda model: OpenAIResponsesModel(
            model.id, provider=OpenAIProvider(base_url=f"{server.url}/v1", api_key="k")
        ),
    }
    agent = PydanticAIAgent(Toolbox(project_tools(project)), **options)
    agent.thinking_level = "medium"
    agent.session_id = "s-1"
    server.answers = [
        responses_answer(
            [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "Look first."}],
                    "encrypted_content": "gAAAA-opaque",
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": "ls",
                    "arguments": "{}",
                    "status": "completed",
                },
            ]
        ),
        responses_answer(
            [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Empty.", "annotations": []}],
                }
            ]
        ),
        responses_answer(
            [
                {
                    "type": "message",
                    "id": "msg_2",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
                }
            ]
        ),
    ]
    await agent.prompt([user("what is here?")])
    thinking, call = agent.messages[1]["content"]
    assert thinking["thinking"] == "Look first."
    item = json.loads(thinking["thinkingSignature"])
    assert (item["type"], item["id"], item["encrypted_content"]) == (
        "reasoning",
        "rs_1",
        "gAAAA-opaque",
    )
    assert (call["id"], call["name"], call["arguments"]) == ("call_1", "ls", {})
    assert agent.messages[1]["api"] == "openai-responses"
    assert agent.messages[1]["usage"]["cacheRead"] == 60
    assert agent.messages[1]["usage"]["input"] == 40
    assert server.requests[0]["reasoning"]["effort"] == "medium"
    assert server.requests[0]["prompt_cache_key"] == "s-1"

    again = reopened(agent, project, **options)
    await again.prompt([user("sure?")])
    sent = server.requests[2]["input"]
    reasoning = [entry for entry in sent if entry.get("type") == "reasoning"]
    assert [entry["encrypted_content"] for entry in reasoning] == ["gAAAA-opaque"]
    called = [entry for entry in sent if entry.get("type") == "function_call"]
    assert [entry["call_id"] for entry in called] == ["call_1"]
    results = [entry for entry in sent if entry.get("type") == "function_call_output"]
    assert [entry["call_id"] for entry in results] == ["call_1"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
