"""The real agent against a real server that speaks OpenAI's chat language, on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.retries import RetryPolicy
from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.models import Model, Prices

MODEL = Model(
    "loopback",
    "test-model",
    context_window=32_000,
    max_output=4_000,
    max_thinking="high",
    images=True,
    prices=Prices(input=1.0, output=10.0, cache_read=0.5),
)

# --- the server -------------------------------------------------------------------------------

Answer = Callable[["Connection"], Awaitable[None]]


class Connection:
    """One request to the server, and the way back."""

    def __init__(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.body = body
        self._reader = reader
        self._writer = writer

    async def send_json(self, status: str, body: object, **headers: str) -> None:
        payload = json.dumps(body).encode()
        await self._head(
            status, "application/json", {**headers, "Content-Length": str(len(payload))}
        )
        self._writer.write(payload)
        await self._writer.drain()

    async def open_stream(self) -> None:
        await self._head("200 OK", "text/event-stream", {"Transfer-Encoding": "chunked"})

    async def chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        await self._event(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "test-model",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
        )

    async def close_stream(self, usage: dict[str, Any] | None = None) -> None:
        if usage is not None:
            await self._event(
                {
                    "id": "chatcmpl-1",
                    "object": "chat.completion.chunk",
                    "created": 1,
                    "model": "test-model",
                    "choices": [],
                    "usage": usage,
                }
            )
        await self._data(b"data: [DONE]\n\n")
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def drop(self) -> None:
        """Cut the connection without a word."""
        self._writer.transport.abort()

    async def end_quietly(self) -> None:
        """End the stream as HTTP wants it, but without saying why the answer ends."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def until_client_leaves(self) -> None:
        async with asyncio.timeout(20):
            assert await self._reader.read() == b""

    async def _event(self, value: object) -> None:
        await self._data(f"data: {json.dumps(value)}\n\n".encode())

    async def _data(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def _head(self, status: str, kind: str, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._writer.drain()


class ChatServer:
    """Answers one request after the other with its script."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return server

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = json.loads(await reader.readexactly(int(length.group(1)) if length else 0))
                key = re.search(rb"authorization: Bearer (\S+)", head, re.IGNORECASE)
                self.keys.append(key.group(1).decode() if key else "")
                assert head.startswith(b"POST /v1/chat/completions ")
                self.requests.append(body)
                answer = self.script.pop(0) if self.script else says("(script at its end)")
                await answer(Connection(body, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 100,
    "total_tokens": 1100,
    "prompt_tokens_details": {"cached_tokens": 400},
}


def says(*pieces: str, finish: str = "stop", thinks: tuple[str, ...] = ()) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for piece in thinks:
            await connection.chunk({"reasoning_content": piece})
        for piece in pieces:
            await connection.chunk({"role": "assistant", "content": piece})
        await connection.chunk({}, finish)
        await connection.close_stream(USAGE)

    return answer


def calls(*made: tuple[str, str, str]) -> Answer:
    """Tool calls (id, name, arguments as JSON), the arguments in two pieces."""

    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for index, (call_id, name, arguments) in enumerate(made):
            function = {"name": name, "arguments": arguments[:5]}
            call = {"index": index, "id": call_id, "type": "function", "function": function}
            await connection.chunk({"tool_calls": [call]})
        for index, (_, _, arguments) in enumerate(made):
            rest = {"index": index, "function": {"arguments": arguments[5:]}}
            await connection.chunk({"tool_calls": [rest]})
        await connection.chunk({}, "tool_calls")
        await connection.close_stream(USAGE)

    return answer


def fails(status: str, message: str, code: str | None = None, **headers: str) -> Answer:
    async def answer(connection: Connection) -> None:
        error = {"message": message, "type": "error", "code": code}
        await connection.send_json(status, {"error": error}, **headers)

    return answer


def breaks_off(*pieces: str, quietly: bool = False) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for piece in pieces:
            await connection.chunk({"content": piece})
        if quietly:
            await connection.end_quietly()
        else:
            await connection.drop()

    return answer


# --- the agent --------------------------------------------------------------------------------


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    chat = ChatServer()
    listening = await chat.start()
    yield chat
    listening.close()
    await chat.stop()
    await listening.wait_closed()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def yes(_: Confirmation) -> bool:
    return True


RETRY = RetryPolicy(attempts=4, first_wait_s=0.01, longest_wait_s=0.05)


@pytest.fixture
def agent(server: ChatServer, project: Path) -> PydanticAIAgent:
    environ = {"LOOPBACK_BASE_URL": server.url, "LOOPBACK_API_KEY": "k-123"}
    made = PydanticAIAgent(
        Toolbox(project_tools(project), confirm=yes),
        model=MODEL,
        system_prompt="Be brief.",
        retry=RETRY,
        environ=environ,
    )
    assert isinstance(made, Agent)
    return made


class Heard:
    """Every event, and a way to wait for one."""

    def __init__(self, agent: PydanticAIAgent) -> None:
        self.events: list[Any] = []
        self._changed = asyncio.Condition()
        agent.subscribe(self._hear)

    async def _hear(self, event: events.AgentEvent) -> None:
        async with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(20), self._changed:
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                await self._changed.wait()

    def ended(self) -> list[dict[str, Any]]:
        return [e.message for e in self.events if isinstance(e, events.MessageEnd)]

    def deltas(self, kind: str) -> list[str]:
        updates = [e for e in self.events if isinstance(e, events.MessageUpdate)]
        return [e.delta.text for e in updates if e.delta.kind == kind and e.delta.text]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def text_of(message: dict[str, Any]) -> str:
    return "".join(b["text"] for b in message["content"] if b["type"] == "text")


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


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
    assert names == ["read", "write", "edit", "bash", "grep", "ls"]
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
    kinds = [type(e).__name__ for e in heard.events if "Turn" in type(e).__name__]
    assert kinds == ["TurnStart", "TurnEnd", "TurnStart", "TurnEnd"]
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


# --- one-shot calls ---------------------------------------------------------------------------


async def test_a_one_shot_call_has_no_tools_no_events_and_leaves_the_conversation_alone(
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
    assert heard.events == []
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
