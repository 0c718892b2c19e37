"""pydantic-ai's conversation store on Sessiontree."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RequestUsage, RunUsage
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.pydantic_ai import SessiontreeConversationStore

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Driver:
    """Conversations of texts. A conflict is an answer to be had, so it tries again."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.store = SessiontreeConversationStore(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self._save(session_id, ask(text))

    async def answer(self, session_id: str, text: str) -> None:
        await self._save(session_id, say(text))

    async def _save(self, session_id: str, message: ModelMessage) -> None:
        while True:
            with suppress(ConversationConflict):
                loaded = await self.store.load(session_id)
                conversation = loaded or Conversation(conversation_id=session_id)
                conversation.messages.append(message)
                await self.store.save(conversation)
                return

    async def texts(self, session_id: str) -> list[str]:
        conversation = await self.store.load(session_id)
        return [] if conversation is None else [text_of(m) for m in conversation.messages]

    async def close(self) -> None:
        await self.store.aclose()


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver


def ask(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text, timestamp=NOON)], timestamp=NOON)


def say(text: str) -> ModelResponse:
    usage = RequestUsage(input_tokens=10, output_tokens=2)
    return ModelResponse([TextPart(text)], usage=usage, timestamp=NOON)


def text_of(message: ModelMessage) -> str:
    part = message.parts[0]
    assert isinstance(part, UserPromptPart | TextPart)
    return str(part.content)


@pytest.fixture
def store() -> SessiontreeConversationStore:
    return SessiontreeConversationStore(storage=MemoryStore())


async def said(store: SessiontreeConversationStore, name: str, *texts: str) -> Conversation:
    conversation = Conversation(conversation_id=name, messages=[ask(text) for text in texts])
    await store.save(conversation)
    return conversation


# -- exactness ---------------------------------------------------------------------------------

words = st.text(max_size=30) | st.sampled_from(["blob:sha256:" + "0" * 64, "x" * 60])
times = st.integers(10**9, 4 * 10**9).map(lambda s: datetime.fromtimestamp(s + 0.25, UTC))
details = st.none() | st.dictionaries(words, st.integers() | words | st.floats(allow_nan=False))
arguments = st.dictionaries(words | st.just("partialJson"), st.integers() | words, max_size=3)
user_parts = st.builds(
    UserPromptPart,
    words
    | st.lists(
        words
        | st.builds(BinaryContent, st.binary(max_size=1500), media_type=st.just("image/png"))
        | st.builds(ImageUrl, st.just("https://example.com/a.png")),
        max_size=3,
    ),
    timestamp=times,
)
results: st.SearchStrategy[ToolReturnPart] = st.builds(
    ToolReturnPart,
    words,
    words | st.lists(words, max_size=2) | arguments,
    words,
    metadata=details,
    timestamp=times,
)
retries = st.builds(
    RetryFeedbackPart, words, retry=st.just(RetryInfo(cause="no_output")), timestamp=times
)
requests = st.builds(
    ModelRequest,
    st.lists(
        user_parts | results | retries | st.builds(SystemPromptPart, words, timestamp=times),
        max_size=4,
    ),
    timestamp=times,
    instructions=st.none() | words,
    metadata=details,
)
calls: st.SearchStrategy[ToolCallPart] = st.builds(ToolCallPart, words, words | arguments, words)
responses = st.builds(
    ModelResponse,
    st.lists(
        st.builds(TextPart, words, id=st.none() | words, provider_details=details)
        | st.builds(ThinkingPart, words, signature=st.none() | words)
        | calls,
        max_size=4,
    ),
    usage=st.builds(RequestUsage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
    model_name=st.none() | words,
    timestamp=times,
    provider_name=st.none() | words,
    provider_details=details,
    finish_reason=st.sampled_from([None, "stop", "tool_call"]),
    metadata=details,
)
messages = st.lists(requests | responses, max_size=5)


@given(messages, calls, st.integers(0, 2**70))
def test_what_is_saved_comes_back_exactly(
    said: list[ModelMessage], call: ToolCallPart, tokens: int
) -> None:
    from pydantic_ai.conversation import ConversationTypeAdapter

    async def round_trip() -> None:
        kept = MemoryStore()
        conversation = Conversation(
            conversation_id="c",
            messages=said,
            usage=RunUsage(requests=1, input_tokens=tokens, details={"x": tokens}),
            deferred_tool_requests=DeferredToolRequests(calls=[call], metadata={"y": {"z": 1}}),
        )
        await SessiontreeConversationStore(storage=kept).save(conversation)
        loaded = await SessiontreeConversationStore(storage=kept).load("c")
        assert loaded is not None
        exact = ConversationTypeAdapter.dump_json(conversation, exclude={"new_message_index"})
        # what JSON does to a value, such as bytes in it, is pydantic-ai's own doing
        expected = ConversationTypeAdapter.validate_json(exact)
        assert loaded == expected
        assert ConversationTypeAdapter.dump_json(loaded, exclude={"new_message_index"}) == exact

    asyncio.run(round_trip())


# -- compare and swap --------------------------------------------------------------------------


async def test_one_of_two_that_loaded_the_same_has_to_load_again(
    store: SessiontreeConversationStore,
) -> None:
    await said(store, "c", "one")
    first, second = await store.load("c"), await store.load("c")
    assert first is not None
    assert second is not None
    first.messages.append(ask("first"))
    second.messages.append(ask("second"))
    await store.save(first)
    with pytest.raises(ConversationConflict):
        await store.save(second)
    loaded = await store.load("c")
    assert loaded is not None
    assert [text_of(message) for message in loaded.messages] == ["one", "first"]


async def test_a_conflict_leaves_nothing_behind(store: SessiontreeConversationStore) -> None:
    await said(store, "c", "one")
    entry = ConversationEntry(parent_id=None, message=ask("lost"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    for expected in (None, "another"):
        with pytest.raises(ConversationConflict):
            await store.write_record(record, new_entries=[entry], expected_revision=expected)
    with pytest.raises(LookupError):
        await store.read_entry(entry.id)
    with pytest.raises(ConversationConflict):
        await store.write_record(
            replace(record, conversation_id="new", head_id="nowhere"), expected_revision=None
        )
    with pytest.raises(ConversationConflict):
        await store.write_record(record, expected_revision="gone from a conversation not there")


async def test_a_conversation_deleted_in_between_is_a_conflict(
    store: SessiontreeConversationStore,
) -> None:
    conversation = await said(store, "c", "one")
    await store.delete("c")
    assert await store.load("c") is None
    conversation.messages.append(ask("two"))
    with pytest.raises(ConversationConflict):
        await store.save(conversation)
    again = await said(store, "c", "new")
    assert (await store.load("c")) == again
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision=conversation.revision or "")


async def test_a_crash_between_the_two_steps_of_deleting_leaves_it_deleted() -> None:
    kept = MemoryStore()
    store = SessiontreeConversationStore(storage=kept)
    await said(store, "c", "one")
    await store.aclose()
    ref = kept.locate("c")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as session:
        session.append_custom_entry("pydantic-ai.record", {"deleted": True})
    assert await store.load("c") is None
    assert await store.list_conversations() == []
    await said(store, "c", "new")
    loaded = await store.load("c")
    assert loaded is not None
    assert [text_of(message) for message in loaded.messages] == ["new"]
    assert kept.locate("c") != ref


# -- branches and forks ------------------------------------------------------------------------


async def test_a_branch_keeps_what_it_leaves(store: SessiontreeConversationStore) -> None:
    conversation = await said(store, "c", "one", "two", "three")
    left = (await store.load_entries("c") or [])[-1].id
    branched = await store.branch("c", at=1, expected_revision=conversation.revision)
    branched.messages.append(ask("other"))
    await store.save(branched)
    record = await store.read_record("c")
    assert record is not None
    assert record.branches == [left]
    history = await store.read_history(left)
    assert [text_of(entry.message) for entry in history] == ["one", "two", "three"]
    back = await store.branch("c", from_entry=left, expected_revision=branched.revision)
    assert [text_of(message) for message in back.messages] == ["one", "two", "three"]


async def test_the_leaf_of_the_session_is_the_head_of_the_conversation() -> None:
    kept = MemoryStore()
    store = SessiontreeConversationStore(storage=kept)
    conversation = await said(store, "c", "one", "two")
    branched = await store.branch("c", at=1, expected_revision=conversation.revision)
    ref = kept.locate("c")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as session:
        context = session.build_session_context().messages
        assert [message["content"] for message in context] == ["one"]
    branched.messages.append(ask("three"))
    await store.save(branched)
    with SessionManager.open(ref, storage=kept) as session:
        context = session.build_session_context().messages
        assert [message["content"] for message in context] == ["one", "three"]


async def test_forks_share_entries_and_outlive_each_other(
    store: SessiontreeConversationStore,
) -> None:
    await said(store, "c", "one", "two", "three")
    shared = await store.load_entries("c") or []
    fork = await store.fork("c", at=2, new_conversation_id="d")
    assert (await store.load_entries("d")) == shared[:2]
    fork.messages.append(ask("other"))
    await store.save(fork)
    again = await store.fork("d", new_conversation_id="e")
    assert [text_of(message) for message in again.messages] == ["one", "two", "other"]
    await store.delete("c")
    assert (await store.read_entry(shared[1].id)) == shared[1]
    with pytest.raises(LookupError):
        await store.read_entry(shared[2].id)
    await store.delete("d")
    assert [text_of(e.message) for e in await store.load_entries("e") or []] == [
        *("one", "two", "other")
    ]


async def test_a_fork_names_the_session_that_it_comes_from() -> None:
    kept = MemoryStore()
    store = SessiontreeConversationStore(storage=kept)
    await said(store, "c", "one")
    await store.fork("c", new_conversation_id="d")
    infos = {info.id: info for info in kept.find("")}
    assert infos["d"].parent_session == kept.locate("c")


async def test_an_entry_is_found_by_a_store_that_has_not_seen_it() -> None:
    kept = MemoryStore()
    await said(SessiontreeConversationStore(storage=kept), "a/b", "one", "two")
    other = SessiontreeConversationStore(storage=kept)
    entries = await other.load_entries("a/b") or []
    fresh = SessiontreeConversationStore(storage=kept)
    assert (await fresh.read_entry(entries[1].id)) == entries[1]
    assert await SessiontreeConversationStore(storage=kept).read_history(entries[1].id) == entries
    elsewhere = SessiontreeConversationStore(storage=kept, scope="anna")
    with pytest.raises(LookupError):
        await elsewhere.read_entry(entries[1].id)


# -- scopes, limits, lists ---------------------------------------------------------------------


async def test_conversations_are_listed_by_scope_with_the_last_one_first(
    store: SessiontreeConversationStore,
) -> None:
    for name, scope in [("a", "anna"), ("b", "ben"), ("c", "anna")]:
        conversation = Conversation(conversation_id=name, messages=[ask(name)])
        await store.save(conversation, scope=scope)
    loaded = await store.load("a", scope="anna")
    assert loaded is not None
    loaded.messages.append(ask("more"))
    await store.save(loaded)
    anna = await store.list_conversations(scope="anna")
    assert [record.conversation_id for record in anna] == ["a", "c"]
    newest = await store.list_conversations(limit=1)
    assert [record.conversation_id for record in newest] == ["a"]
    assert len(await store.list_conversations()) == 3
    assert await store.load("a", scope="ben") is None
    with pytest.raises(ConversationConflict):
        await store.save(loaded, scope="ben")


async def test_a_limit_gives_the_last_messages(store: SessiontreeConversationStore) -> None:
    await said(store, "c", *map(str, range(9)))
    entries = await store.load_entries("c") or []
    assert await store.load_entries("c", limit=3) == entries[-3:]
    assert await store.load_entries("c", limit=0) == []
    window = await store.load("c", limit=2)
    assert window is not None
    window.messages.append(ask("9"))
    await store.save(window)
    loaded = await store.load("c")
    assert loaded is not None
    assert [text_of(message) for message in loaded.messages] == [*map(str, range(10))]


async def test_an_empty_conversation_is_one(store: SessiontreeConversationStore) -> None:
    await said(store, "c")
    loaded = await store.load("c")
    assert loaded is not None
    assert loaded.messages == []


# -- what others wrote -------------------------------------------------------------------------


async def test_what_cannot_be_read_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = MemoryStore()
    store = SessiontreeConversationStore(storage=kept)
    await said(store, "c", "one", "two")
    await store.aclose()
    ref = kept.locate("c")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as session:
        first = session.get_entries()[0]
        first.data["native"] = {"pydantic-ai": {"kind": "of a version to come"}}
        session.rewrite_entries()
        session.append_custom_entry("pydantic-ai.record", {"revision": 7})
    with caplog.at_level(logging.WARNING):
        loaded = await SessiontreeConversationStore(storage=kept).load("c")
    assert loaded is not None
    assert [text_of(message) for message in loaded.messages] == ["two"]
    assert len(caplog.records) == 2
    assert first.id in caplog.text


async def test_fields_of_later_versions_stay() -> None:
    kept = MemoryStore()
    store = SessiontreeConversationStore(storage=kept)
    await said(store, "c", "one")
    await store.aclose()
    ref = kept.locate("c")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as session:
        record = session.get_entries()[-1]
        session.append_custom_entry("pydantic-ai.record", {**record.data["data"], "later": [1]})
        session.get_entries()[0].data["native"]["pydantic-ai"]["later"] = {"x": 1}
        session.rewrite_entries()
    loaded = await store.load("c")
    assert loaded is not None
    loaded.messages.append(ask("two"))
    await store.save(loaded)
    await store.aclose()
    with SessionManager.open(ref, storage=kept) as session:
        entries = session.get_entries()
        assert entries[-1].data["data"]["later"] == [1]
        assert entries[0].data["native"]["pydantic-ai"]["later"] == {"x": 1}


async def test_a_text_is_in_the_file_once(tmp_path: Path) -> None:
    store = SessiontreeConversationStore(storage=f"file:{tmp_path}")
    text = "a text of which one copy is enough"
    await said(store, "c", text)
    await store.aclose()
    (file,) = (tmp_path / "sessions").rglob("*c.jsonl*")
    assert file.read_text(encoding="utf-8").count(text) == 1


# -- an agent ----------------------------------------------------------------------------------


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that calls a tool once, then counts what it was sent."""
    if not any(isinstance(part, ToolReturnPart) for m in messages for part in m.parts):
        return ModelResponse([ToolCallPart("look", {"where": "attic"})])
    return ModelResponse([TextPart(f"{len(messages)} messages")])


async def test_an_agent_with_a_tool_is_continued_and_readable() -> None:
    kept = MemoryStore()
    agent = Agent(FunctionModel(scripted))

    @agent.tool_plain
    def look(where: str) -> str:
        return f"nothing in the {where}"

    store = SessiontreeConversationStore(storage=kept)
    result = await agent.run("Look!", conversation=Conversation(conversation_id="c"))
    await store.save(result)
    loaded = await SessiontreeConversationStore(storage=kept).load("c")
    assert loaded is not None
    assert loaded.usage == result.usage
    result = await agent.run("Again?", conversation=loaded)
    assert result.output == "5 messages"
    await store.save(result)
    ref = kept.locate("c")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as session:
        roles = [message["role"] for message in session.build_session_context().messages]
    assert roles == ["user", "assistant", "toolResult", "assistant", "user", "assistant"]


async def test_a_tool_that_waits_for_an_answer_waits_after_a_restart() -> None:
    kept = MemoryStore()
    agent = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def look(where: str) -> str:
        return f"nothing in the {where}"

    store = SessiontreeConversationStore(storage=kept)
    await store.save(await agent.run("Look!", conversation=Conversation(conversation_id="c")))
    loaded = await SessiontreeConversationStore(storage=kept).load("c")
    assert loaded is not None
    assert loaded.deferred_tool_requests is not None
    approved = loaded.deferred_tool_requests.build_results(approve_all=True)
    result = await agent.run(conversation=loaded, deferred_tool_results=approved)
    assert result.output == "3 messages"
    await store.save(result)
    assert (await store.load("c")).deferred_tool_requests is None  # type: ignore[union-attr]


async def test_a_branch_from_nowhere_is_an_error(store: SessiontreeConversationStore) -> None:
    with pytest.raises(UserError):
        await store.branch("nothing", at=0, expected_revision=None)
