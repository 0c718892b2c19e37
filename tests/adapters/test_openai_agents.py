"""The OpenAI Agents SDK's session on Sessiontree."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import (
    Agent,
    ModelResponse,
    RunContextWrapper,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.memory import (
    OpenAIResponsesCompactionAwareSession,
    OpenAIResponsesCompactionSession,
    Session,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles
from tests.adapters.test_verbatim import same

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.openai_agents import SessiontreeSession


class Driver:
    """One session object for each id, as a server would have."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.url, self.scope = url, scope
        self.sessions: dict[str, SessiontreeSession] = {}

    def session(self, session_id: str) -> SessiontreeSession:
        if session_id not in self.sessions:
            made = SessiontreeSession(session_id, storage=self.url, scope=self.scope)
            self.sessions[session_id] = made
        return self.sessions[session_id]

    async def add(self, session_id: str, text: str) -> None:
        await self.session(session_id).add_items([ask(text)])

    async def answer(self, session_id: str, text: str) -> None:
        wrapper = RunContextWrapper(None, Usage(input_tokens=10, output_tokens=2))
        await self.session(session_id).add_items([say(text)], wrapper=wrapper)

    async def texts(self, session_id: str) -> list[str]:
        return texts(await self.session(session_id).get_items())

    async def close(self) -> None:
        for session in self.sessions.values():
            await session.aclose()


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver


def ask(text: str) -> Any:
    return {"content": text, "role": "user"}


def say(text: str) -> Any:
    part = {"annotations": [], "text": text, "type": "output_text", "logprobs": []}
    return {
        "id": "msg_1",
        "content": [part],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }


def texts(items: Any) -> list[str]:
    return [
        i["content"] if isinstance(i["content"], str) else i["content"][0]["text"] for i in items
    ]


@pytest.fixture
def session(kept: MemoryStore) -> SessiontreeSession:
    return SessiontreeSession("s", storage=kept)


def all_texts(kept: MemoryStore) -> list[Any]:
    """Every text of the session, on whatever branch, in the order in which they were written."""
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        messages = [entry.data.get("message") for entry in manager.get_entries()]
    contents = [message["content"] for message in messages if message]
    return [each if isinstance(each, str) else each[0]["text"] for each in contents]


async def test_it_is_what_the_sdk_calls_a_session(session: SessiontreeSession) -> None:
    assert isinstance(session, Session)
    assert isinstance(session, OpenAIResponsesCompactionAwareSession)


# -- exactness ---------------------------------------------------------------------------------

words = st.text(max_size=40) | st.sampled_from(["blob:sha256:" + "0" * 64, "x" * 60, "\ud83d"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(words, json_values, max_size=3)
images = st.integers(1, 900).map(lambda n: "data:image/png;base64," + "iVBORw0K" * n)
parts = (
    st.fixed_dictionaries({"type": st.just("input_text"), "text": words})
    | st.fixed_dictionaries({"type": st.just("input_image"), "image_url": images | words})
    | st.fixed_dictionaries({"type": st.just("input_file"), "filename": words})
)
prompts = st.fixed_dictionaries(
    {"content": words | st.lists(parts, max_size=3), "role": st.just("user")}
)
answers = words.map(say) | st.builds(lambda item, more: {**item, **more}, words.map(say), arguments)
calls = st.builds(
    lambda text, tool, status: {
        "arguments": text,
        "call_id": "call_1",
        "name": tool,
        "type": "function_call",
        **status,
    },
    arguments.map(lambda value: json.dumps(value, separators=(",", ":")))
    | arguments.map(json.dumps)
    | words,
    words,
    st.just({"id": "fc_1", "status": "completed"}) | st.just({}),
)
outputs = st.builds(
    lambda output: {"call_id": "call_1", "output": output, "type": "function_call_output"},
    words | st.lists(parts, max_size=2),
)
thoughts = st.builds(
    lambda text, more: {
        "id": "rs_1",
        "summary": [{"text": text, "type": "summary_text"}],
        "type": "reasoning",
        "encrypted_content": more,
    },
    words,
    words,
)
others = st.builds(lambda value: {"type": "web_search_call", **value}, arguments)
strange = st.dictionaries(words | st.sampled_from(["role", "type", "content"]), json_values)
items = st.lists(
    prompts | answers | calls | outputs | thoughts | others | strange, min_size=1, max_size=6
)


@given(items)
def test_items_come_back_exactly(given_items: list[Any]) -> None:
    async def round_trip() -> list[Any]:
        kept = MemoryStore()
        await SessiontreeSession("s", storage=kept).add_items(given_items)
        return cast("list[Any]", await SessiontreeSession("s", storage=kept).get_items())

    found = asyncio.run(round_trip())
    assert len(found) == len(given_items)
    assert all(map(same, found, given_items))


def test_usual_items_take_little_more_than_their_message(kept: MemoryStore) -> None:
    arguments = json.dumps({"path": "src/app.py"}, separators=(",", ":"))
    call = {"arguments": arguments, "call_id": "c", "name": "read", "type": "function_call"}
    turn = [
        ask("Why?"),
        {**call, "id": "fc", "status": "completed"},
        {"call_id": "c", "output": "text", "type": "function_call_output"},
        say("Because."),
    ]
    asyncio.run(SessiontreeSession("s", storage=kept).add_items(cast("Any", turn)))
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        natives = [entry.data["native"]["openai-agents"] for entry in manager.get_entries()]
        result = manager.get_entries()[2].data["message"]
    assert natives == [["prompt"], ["call", "fc"], ["output"], ["answer"]]
    assert result["toolName"] == "read"


# -- nothing is destroyed ----------------------------------------------------------------------


async def test_a_popped_item_stays_in_the_tree(
    kept: MemoryStore, session: SessiontreeSession
) -> None:
    await session.add_items([ask("one"), say("two")])
    assert await session.pop_item() == say("two")
    assert texts(await session.get_items()) == ["one"]
    await session.add_items([say("three")])
    assert texts(await session.get_items()) == ["one", "three"]
    assert await session.pop_item() == say("three")
    assert await session.pop_item() == ask("one")
    assert await session.pop_item() is None
    assert await session.get_items() == []
    await session.aclose()
    assert all_texts(kept) == ["one", "two", "three"]
    assert await SessiontreeSession("s", storage=kept).get_items() == []


async def test_a_cleared_session_stays_in_the_tree(
    kept: MemoryStore, session: SessiontreeSession
) -> None:
    await session.clear_session()
    assert await session.pop_item() is None
    assert kept.locate("s") is None
    await session.add_items([ask("one"), say("two")])
    await session.clear_session()
    other = SessiontreeSession("s", storage=kept)
    assert await other.get_items() == []
    await other.add_items([ask("three")])
    assert texts(await session.get_items()) == ["three"]
    assert all_texts(kept) == ["one", "two", "three"]


async def test_what_was_cleared_can_be_gone_back_to(
    kept: MemoryStore, session: SessiontreeSession
) -> None:
    await session.add_items([ask("one"), say("two")])
    await session.clear_session()
    await session.add_items([ask("three")])
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        manager.branch(manager.get_entries()[1].id)
    assert texts(await session.get_items()) == ["one", "two"]


async def test_a_limit_gives_the_last_items(session: SessiontreeSession) -> None:
    await session.add_items([ask(str(number)) for number in range(5)])
    assert texts(await session.get_items(2)) == ["3", "4"]
    assert await session.get_items(0) == []
    assert len(await session.get_items(9)) == 5
    limited = SessiontreeSession("s", session_settings={"limit": 3})
    assert limited.session_settings is not None
    assert limited.session_settings.limit == 3


async def test_what_was_read_may_be_changed(session: SessiontreeSession) -> None:
    await session.add_items([ask("one"), say("two")])
    found: Any = await session.get_items()
    found[0]["content"] = found[1]["content"][0]["text"] = "changed"
    assert texts(await session.get_items()) == ["one", "two"]


async def test_an_item_that_cannot_be_read_is_left_out_with_a_warning(
    kept: MemoryStore, session: SessiontreeSession, caplog: pytest.LogCaptureFixture
) -> None:
    await session.add_items([ask("one"), ask("two"), ask("three")])
    await session.aclose()
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        broken = manager.get_entries()[1]
        broken.data["native"]["openai-agents"] = ["a form to come"]
        manager.rewrite_entries()
    with caplog.at_level(logging.WARNING):
        assert texts(await session.get_items()) == ["one", "three"]
    assert broken.id in caplog.text


# -- the runner --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_tracing() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@function_tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in the {where}"


async def test_the_runner_talks_calls_tools_and_continues(kept: MemoryStore) -> None:
    model = ScriptedModel(
        [
            [function_call("look", {"where": "attic"}, call_id="call_1")],
            [assistant_message("It is empty.")],
            [assistant_message("Still empty.")],
        ]
    )
    agent = Agent(name="a", model=model, tools=[look])
    result = await Runner.run(agent, "Look!", session=SessiontreeSession("s", storage=kept))
    assert result.final_output == "It is empty."
    again = SessiontreeSession("s", storage=kept)
    result = await Runner.run(agent, "Again?", session=again)
    assert result.final_output == "Still empty."
    types = [item.get("type", item.get("role")) for item in await again.get_items()]
    assert types == [
        *("user", "function_call", "function_call_output", "message", "user", "message"),
    ]
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        messages = manager.build_session_context().messages
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "toolResult", "assistant", "user", "assistant"),
    ]
    assert messages[2]["toolName"] == "look"


async def test_what_a_run_used_is_counted(kept: MemoryStore) -> None:
    session = SessiontreeSession("s", storage=kept)
    wrapper: Any = SimpleWrapper()
    wrapper.usage = Usage(requests=1, input_tokens=100, output_tokens=20, total_tokens=120)
    await session.add_items([ask("one"), say("two")], wrapper=wrapper)
    wrapper.usage = Usage(requests=2, input_tokens=250, output_tokens=30, total_tokens=280)
    await session.add_items([say("three")], wrapper=wrapper)
    await session.add_items([ask("four")], wrapper=wrapper)
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        usages = [entry.data["message"].get("usage") for entry in manager.get_entries()]
    assert [usage and (usage["input"], usage["output"]) for usage in usages] == [
        *(None, (100, 20), (150, 10), None),
    ]


class SimpleWrapper:
    """A run context, as far as a session looks at it; weak references to it must be possible."""

    usage: Any


# -- compaction --------------------------------------------------------------------------------


class Compactor:
    """OpenAI's client, as far as compaction calls it."""

    def __init__(self, *output: Any) -> None:
        self.responses = SimpleNamespace(compact=self._compact)
        self.output = output
        self.inputs: list[Any] = []

    async def _compact(self, **request: Any) -> Any:
        self.inputs.append(request.get("input"))
        return SimpleNamespace(output=list(self.output), usage=None)


SUMMARY = {"type": "compaction", "id": "cmp_1", "encrypted_content": "abc"}


async def test_compaction_is_a_new_branch(kept: MemoryStore) -> None:
    client = Compactor(ask("one"), SUMMARY)
    session = SessiontreeSession(
        "s", storage=kept, compaction_model="gpt-5", compaction_client=cast("Any", client)
    )
    await session.add_items([ask("one"), say("two"), say("three")])
    await session.run_compaction({"compaction_mode": "input"})
    assert len(await session.get_items()) == 3
    await session.run_compaction({"force": True, "compaction_mode": "input"})
    assert await session.get_items() == [ask("one"), SUMMARY]
    await session.add_items([ask("four")])
    assert await SessiontreeSession("s", storage=kept).get_items() == [
        *(ask("one"), SUMMARY, ask("four")),
    ]
    assert all_texts(kept) == ["one", "two", "three", "one", "four"]


async def test_without_a_model_nothing_is_compacted(session: SessiontreeSession) -> None:
    await session.add_items([ask("one"), say("two")])
    await session.run_compaction({"force": True})
    assert texts(await session.get_items()) == ["one", "two"]


def answering(*answers: Any) -> ScriptedModel:
    """A model that gives these answers, each a text or an item, in responses of their own ID."""
    items = [assistant_message(each) if isinstance(each, str) else each for each in answers]
    responses = [
        ModelResponse(output=[item], usage=Usage(), response_id=f"resp_{number}")
        for number, item in enumerate(items)
    ]
    return ScriptedModel(cast("Any", responses))


async def test_a_compaction_that_waited_for_a_tool_is_made_after_it(kept: MemoryStore) -> None:
    session = SessiontreeSession(
        "s",
        storage=kept,
        compaction_model="gpt-5",
        compaction_client=cast("Any", Compactor(SUMMARY)),
        should_compact=lambda found: (found["response_id"] or "") == "resp_0",
    )
    call = function_call("look", {"where": "attic"}, call_id="c1")
    agent = Agent(name="a", model=answering(call, "It is empty."), tools=[look])
    await Runner.run(agent, "Look!", session=session)
    assert await session.get_items() == [SUMMARY]


async def test_the_runner_compacts_when_it_is_time(kept: MemoryStore) -> None:
    client = Compactor(SUMMARY)
    session = SessiontreeSession(
        "s",
        storage=kept,
        compaction_model="gpt-5",
        compaction_client=cast("Any", client),
        should_compact=lambda found: len(found["compaction_candidate_items"]) >= 2,
    )
    agent = Agent(name="a", model=answering("one", "two"))
    await Runner.run(agent, "first", session=session)
    assert len(await session.get_items()) == 2
    await Runner.run(agent, "second", session=session)
    assert await session.get_items() == [SUMMARY]
    assert all_texts(kept) == ["first", "one", "second", "two"]


async def test_the_sdks_own_compaction_works_around_it(kept: MemoryStore) -> None:
    inner = SessiontreeSession("s", storage=kept)
    client = Compactor(SUMMARY)
    outer = OpenAIResponsesCompactionSession(
        "s", cast("Any", inner), client=cast("Any", client), compaction_mode="input"
    )
    await outer.add_items([ask("one"), say("two")])
    await outer.run_compaction({"force": True})
    assert await inner.get_items() == [SUMMARY]
    assert all_texts(kept) == ["one", "two"]


async def test_an_end_that_has_changed_meanwhile_is_not_replaced(
    kept: MemoryStore, session: SessiontreeSession
) -> None:
    await session.add_items([ask("one"), say("two"), ask("three")])
    snapshot = await session._get_compaction_snapshot(2)
    assert snapshot is not None
    assert (texts(snapshot.items), snapshot.complete) == (["two", "three"], False)
    await SessiontreeSession("s", storage=kept).add_items([say("four")])
    assert not await snapshot.replace_suffix(0, [cast("Any", SUMMARY)])
    assert len(await session.get_items()) == 4
    snapshot = await session._get_compaction_snapshot(2)
    assert snapshot is not None
    assert await snapshot.replace_suffix(1, [cast("Any", SUMMARY)])
    assert texts((await session.get_items())[:3]) == ["one", "two", "three"]
    assert (await session.get_items())[3:] == [SUMMARY]


async def test_the_sdks_encryption_works_around_it(kept: MemoryStore) -> None:
    from agents.extensions.memory import EncryptedSession

    inner = SessiontreeSession("s", storage=kept)
    outer = EncryptedSession("s", cast("Any", inner), encryption_key="a key for tests")
    await outer.add_items([ask("a secret")])
    assert await outer.get_items() == [ask("a secret")]
    assert "secret" not in json.dumps(await inner.get_items())


async def test_what_is_encrypted_is_compacted_by_the_runner(kept: MemoryStore) -> None:
    from agents.extensions.memory import EncryptedSession

    inner = SessiontreeSession("s", storage=kept)
    client = Compactor(SUMMARY)
    compacting = OpenAIResponsesCompactionSession(
        "s",
        cast("Any", inner),
        client=cast("Any", client),
        should_trigger_compaction=lambda found: len(found["compaction_candidate_items"]) >= 2,
    )
    outer = EncryptedSession("s", cast("Any", compacting), encryption_key="a key for tests")
    agent = Agent(name="a", model=answering("one", "two", "three"))
    await Runner.run(agent, "first", session=outer)
    await Runner.run(agent, "second", session=outer)
    assert await outer.get_items() == [SUMMARY]
    await Runner.run(agent, "third", session=outer)
    assert texts((await outer.get_items())[1:]) == ["third", "three"]
    assert "third" not in json.dumps(await inner.get_items())
