"""agent-framework's history provider on Sessiontree."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    UsageDetails,
    tool,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import processes
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles
from tests.adapters.test_verbatim import same

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.agent_framework import SessiontreeHistoryProvider


class Driver:
    """One provider, which saves what is said as an agent's run does."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.provider = SessiontreeHistoryProvider(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self.provider.save_messages(session_id, [Message("user", [text])])

    async def answer(self, session_id: str, text: str) -> None:
        usage = Content.from_usage(UsageDetails(input_token_count=10, output_token_count=2))
        await self.provider.save_messages(session_id, [Message("assistant", [text, usage])])

    async def texts(self, session_id: str) -> list[str]:
        return [message.text for message in await self.provider.get_messages(session_id)]

    async def close(self) -> None:
        await self.provider.aclose()


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver


@pytest.fixture
def provider(kept: MemoryStore) -> SessiontreeHistoryProvider:
    return SessiontreeHistoryProvider(storage=kept)


def another(kept: MemoryStore, **options: Any) -> SessiontreeHistoryProvider:
    return SessiontreeHistoryProvider(storage=kept, **options)


def opened(kept: MemoryStore, session_id: str = "s") -> SessionManager:
    ref = kept.locate(session_id)
    assert ref is not None
    return SessionManager.open(ref, storage=kept)


def context(kept: MemoryStore) -> list[Any]:
    """What a model sees of the session."""
    with opened(kept) as manager:
        messages = manager.build_session_context().messages
    return [(message["role"], message["content"]) for message in messages]


def dicts(messages: Sequence[Message]) -> list[Any]:
    return [message.to_dict() for message in messages]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


# -- exactness ---------------------------------------------------------------------------------

words = st.text(max_size=30) | st.sampled_from(["blob:sha256:" + "0" * 64, "x" * 60])
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | words
keys = words | st.sampled_from(["$", "partialJson", "lineCount"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=3)
properties = st.dictionaries(keys.filter(lambda key: not key.startswith("_")), values, max_size=2)
usages = st.builds(
    UsageDetails, input_token_count=st.integers(0), output_token_count=st.integers(0)
)
contents = (
    st.builds(Content.from_text, words, additional_properties=properties)
    | st.builds(Content.from_text_reasoning, text=words, protected_data=st.none() | words)
    | st.builds(
        Content.from_function_call,
        words,
        words,
        arguments=objects | words | objects.map(str),
        status=st.none() | words,
    )
    | st.builds(Content.from_function_result, words, result=values)
    | st.builds(
        Content.from_data, st.binary(max_size=60), st.sampled_from(["image/png", "text/plain"])
    )
    | st.builds(Content.from_error, message=words, error_code=words)
    | st.builds(
        Content.from_usage,
        st.builds(
            UsageDetails, input_token_count=st.integers(0), output_token_count=st.integers(0)
        ),
    )
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(contents, max_size=4),
    author_name=st.none() | words,
    additional_properties=properties,
)


@settings(deadline=None)
@given(st.lists(messages, min_size=1, max_size=4))
def test_messages_come_back_exactly(given_messages: list[Message]) -> None:
    for number, message in enumerate(given_messages):
        message.message_id = str(number)  # else equal ones are taken for a replay

    async def check() -> None:
        kept = MemoryStore()
        for message in given_messages:
            await another(kept).save_messages("s", [message])
        found = await another(kept).get_messages("s")
        assert len(found) == len(given_messages)
        for one, other in zip(dicts(found), dicts(given_messages), strict=True):
            assert same(one, other)

    asyncio.run(check())


async def test_everybody_can_read_what_is_said(
    kept: MemoryStore, provider: SessiontreeHistoryProvider
) -> None:
    await provider.save_messages(
        "s",
        [
            Message("system", ["Be brief."]),
            Message("user", ["Look!", Content.from_data(b"png", "image/png")]),
            Message(
                "assistant",
                [
                    Content.from_text_reasoning(text="Hm."),
                    Content.from_function_call("c1", "look", arguments='{"where": "attic"}'),
                ],
            ),
            Message("tool", [Content.from_function_result("c1", result="nothing")]),
            Message("assistant", ["It is empty."]),
        ],
    )
    assert context(kept) == [
        (
            "user",
            [
                {"type": "text", "text": "Look!"},
                {"type": "image", "data": "cG5n", "mimeType": "image/png"},
            ],
        ),
        (
            "assistant",
            [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "toolCall", "id": "c1", "name": "look", "arguments": {"where": "attic"}},
            ],
        ),
        ("toolResult", [{"type": "text", "text": "nothing"}]),
        ("assistant", [{"type": "text", "text": "It is empty."}]),
    ]
    with opened(kept) as manager:
        assert manager.build_session_context().messages[2]["toolName"] == "look"


async def test_a_picture_is_kept_once(tmp_path: Any) -> None:
    picture = bytes(range(256)) * 400
    provider = SessiontreeHistoryProvider(storage=f"file:{tmp_path}")
    await provider.save_messages("s", [Message("user", [Content.from_data(picture, "image/png")])])
    (found,) = await provider.get_messages("s")
    await provider.aclose()
    assert found.to_dict() == Message("user", [Content.from_data(picture, "image/png")]).to_dict()
    size = sum(each.stat().st_size for each in tmp_path.rglob("*") if each.is_file())
    assert size < 1.5 * len(picture)


# -- what the framework expects ----------------------------------------------------------------


@pytest.mark.parametrize(
    "batches",
    [
        ["u:a", "u:a b:c", "u:a b:c u:d"],
        ["u:a b:c", "b:c u:d", "u:d b:e u:f"],
        ["u:a", "u:a", "u:a"],
        ["u:a b:c", "u:a b:c", "u:a b:c u:a b:c"],
        ["b:c", "b:c"],
        ["u:a b:c u:d", "b:c u:d"],
        ["u:1#a", "u:1#a b:2#b", "b:2#other u:3#c"],
        ["s:x u:a b:b u:c b:d", "u:c b:d u:e", "u:e", "u:e"],
    ],
)
async def test_what_is_sent_again_is_kept_as_the_frameworks_own_provider_does(
    kept: MemoryStore, batches: list[str]
) -> None:
    def made(spelled: str) -> Message:
        role, _, text = spelled.partition(":")
        message_id, mark, rest = text.partition("#")
        roles = {"u": "user", "b": "assistant", "s": "system"}
        return Message(roles[role], [rest or text], message_id=message_id if mark else None)

    theirs, state = InMemoryHistoryProvider(), dict[str, Any]()
    for batch in batches:
        said = [made(each) for each in batch.split()]
        await another(kept).save_messages("s", said)
        await theirs.save_messages("s", said, state=state)
    expected = await theirs.get_messages("s", state=state)
    assert dicts(await another(kept).get_messages("s")) == dicts(expected)


async def test_messages_that_were_excluded_can_be_left_out(kept: MemoryStore) -> None:
    gone = Message("user", ["old"], additional_properties={"_excluded": True})
    await another(kept).save_messages("s", [gone, Message("assistant", ["new"])])
    assert texts(await another(kept).get_messages("s")) == ["old", "new"]
    assert texts(await another(kept, skip_excluded=True).get_messages("s")) == ["new"]


async def test_without_a_session_id_there_is_one_session(
    kept: MemoryStore, provider: SessiontreeHistoryProvider
) -> None:
    assert await provider.get_messages(None) == []
    await provider.save_messages(None, [])
    assert kept.locate("default") is None
    await provider.save_messages(None, [Message("user", ["hello"])])
    assert texts(await another(kept).get_messages(None)) == ["hello"]
    assert kept.locate("default") is not None


async def test_going_back_in_the_tree_takes_the_history_back(
    kept: MemoryStore, provider: SessiontreeHistoryProvider
) -> None:
    for role, text in [("user", "one"), ("assistant", "two"), ("user", "three")]:
        await provider.save_messages("s", [Message(role, [text])])
    with opened(kept) as manager:
        manager.branch(manager.get_entries()[1].id)
    assert texts(await provider.get_messages("s")) == ["one", "two"]
    await provider.save_messages("s", [Message("user", ["or three"])])
    assert texts(await another(kept).get_messages("s")) == ["one", "two", "or three"]
    assert "three" in str([entry.data for entry in opened(kept).get_entries()])


# -- versions to come, and damage --------------------------------------------------------------


async def test_fields_of_a_newer_version_stay(
    kept: MemoryStore, provider: SessiontreeHistoryProvider
) -> None:
    nested = Content.from_function_result("c", result=[Content.from_text("deep")])
    await provider.save_messages("s", [Message("tool", [nested])])
    await provider.aclose()
    with opened(kept) as manager:
        message = manager.get_entries()[0].data["native"]["agent-framework"]
        message["later"] = message["contents"][0]["later"] = {"x": 1}
        message["contents"][0]["items"][0]["later"] = 1
        manager.rewrite_entries()
    (found,) = await another(kept).get_messages("s")
    assert found.to_dict() == Message("tool", [nested]).to_dict()
    await another(kept).save_messages("s", [Message("user", ["and on"])])
    with opened(kept) as manager:
        message = manager.get_entries()[0].data["native"]["agent-framework"]
        assert message["later"] == message["contents"][0]["later"] == {"x": 1}


async def test_a_message_that_cannot_be_read_is_left_out_with_a_warning(
    kept: MemoryStore, provider: SessiontreeHistoryProvider, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("one", "two", "three", "four", "five"):
        await provider.save_messages("s", [Message("assistant", [text])])
    await provider.aclose()
    with opened(kept) as manager:
        entries = manager.get_entries()
        entries[1].data["native"]["agent-framework"]["contents"] = {"$": "/not/there"}
        entries[2].data["native"]["agent-framework"]["contents"] = [{"text": "no type"}]
        entries[3].data["native"]["agent-framework"] = [1]
        manager.rewrite_entries()
    with caplog.at_level(logging.WARNING):
        found = await another(kept).get_messages("s")
    assert texts(found) == ["one", "five"]
    assert all(entry.id in caplog.text for entry in entries[1:4])
    await another(kept).save_messages("s", [Message("user", ["and on"])])
    assert texts(await another(kept).get_messages("s")) == ["one", "five", "and on"]


# -- agents ------------------------------------------------------------------------------------


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Gives the answers it was made with, and keeps what it was asked."""

    def __init__(self, *answers: Content) -> None:
        super().__init__()
        self.answers = [*answers]
        self.asked: list[list[Message]] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **kwargs: Any
    ) -> ChatResponse:
        self.asked.append([*messages])
        usage = UsageDetails(
            input_token_count=10, output_token_count=2, cache_read_input_token_count=4
        )
        return ChatResponse(
            messages=[Message("assistant", [self.answers.pop(0)], author_name="helper")],
            usage_details=usage,
            model="scripted-1",
        )


@tool(approval_mode="never_require")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in the {where}"


async def test_an_agent_talks_calls_tools_and_continues(kept: MemoryStore) -> None:
    async def run(question: str, *answers: Content) -> Scripted:
        client = Scripted(*answers)
        agent = Agent(client, tools=[look], context_providers=[another(kept)])
        await agent.run(question, session=agent.create_session(session_id="s"))
        return client

    call = Content.from_function_call("c1", "look", arguments={"where": "attic"})
    await run("Look!", call, Content.from_text("It is empty."))
    second = await run("Again?", Content.from_text("Still empty."))
    assert texts(second.asked[0]) == ["Look!", "", "", "It is empty.", "Again?"]
    assert [role for role, _ in context(kept)] == [
        *("user", "assistant", "toolResult", "assistant", "user", "assistant"),
    ]
    with opened(kept) as manager:
        answers = manager.build_session_context().messages
    assert answers[2]["toolName"] == "look"
    assert (answers[1]["agentName"], answers[1]["model"]) == ("helper", "scripted-1")
    spent: list[Any] = [answers[at].get("usage") for at in (1, 3, 5)]
    assert spent[0] is None
    # of a run with two answers, the last one has what both used
    assert [(usage["input"], usage["output"], usage["cacheRead"]) for usage in spent[1:]] == [
        *((12, 4, 8), (6, 2, 4)),
    ]


def test_it_is_what_the_framework_calls_a_provider(provider: SessiontreeHistoryProvider) -> None:
    assert isinstance(provider, HistoryProvider)
    assert provider.source_id == "sessiontree"
    assert SessiontreeHistoryProvider("audit", storage="memory:", load_messages=False).source_id


def test_without_the_framework_the_adapter_says_what_to_install() -> None:
    code = """
import sys
sys.modules["agent_framework"] = None
try:
    import sessiontree.adapters.agent_framework
except ModuleNotFoundError as error:
    print(error)
"""
    assert 'pip install "sessiontree[agent-framework]"' in processes.run(code)
