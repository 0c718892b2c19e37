"""Strands' session repository on Sessiontree."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands import Agent, tool
from strands.models.model import Model
from strands.session import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from tests.adapters.contract import AdapterContract, AdapterOnFiles
from tests.adapters.test_verbatim import same

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.strands import SessiontreeSessionRepository


class Driver:
    """One repository; numbers messages as Strands' session manager does."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.repository = SessiontreeSessionRepository(storage=url, scope=scope)
        self.last: dict[str, int] = {}

    async def add(self, session_id: str, text: str) -> None:
        await asyncio.to_thread(self._create, session_id, ask(text))

    async def answer(self, session_id: str, text: str) -> None:
        usage = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
        answer = {**say(text), "metadata": {"usage": usage}}
        await asyncio.to_thread(self._create, session_id, answer)

    def _create(self, session_id: str, message: Any) -> None:
        made = SessionMessage.from_message(message, self.last.get(session_id, -1) + 1)
        self.repository.create_message(session_id, "default", made)
        self.last[session_id] = made.message_id

    async def texts(self, session_id: str) -> list[str]:
        try:
            found = await asyncio.to_thread(self.repository.list_messages, session_id, "default")
        except SessionException:
            return []
        return [text_of(each) for each in found]

    async def close(self) -> None:
        await asyncio.to_thread(self.repository.close)


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AdapterOnFiles):
    driver = Driver


def ask(text: str) -> Any:
    return {"role": "user", "content": [{"text": text}]}


def say(text: str) -> Any:
    return {"role": "assistant", "content": [{"text": text}]}


def text_of(message: SessionMessage) -> str:
    return message.to_message()["content"][0]["text"]


@pytest.fixture
def repository(kept: MemoryStore) -> SessiontreeSessionRepository:
    made = SessiontreeSessionRepository(storage=kept)
    made.create_session(Session("s", SessionType.AGENT))
    made.create_agent("s", SessionAgent("a", {"mood": "calm"}, {"removed_message_count": 0}))
    return made


def add(repository: SessiontreeSessionRepository, *messages: Any, agent: str = "a") -> None:
    for number, message in enumerate(messages):
        repository.create_message("s", agent, SessionMessage.from_message(message, number))


def context(kept: MemoryStore) -> list[Any]:
    """What a model sees of the session."""
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        return [
            (message["role"], message["content"])
            for message in manager.build_session_context().messages
        ]


# -- exactness ---------------------------------------------------------------------------------

words = st.text(max_size=30) | st.sampled_from(["blob:sha256:" + "0" * 64, "x" * 60, "\ud83d"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.binary(max_size=20)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(words, json_values, max_size=3)
pictures = st.fixed_dictionaries(
    {"format": st.sampled_from(["png", "jpeg"]), "source": st.builds(dict, bytes=st.binary())}
)
documents = st.fixed_dictionaries(
    {"format": st.just("pdf"), "name": words, "source": st.builds(dict, bytes=st.binary())}
)
results = st.fixed_dictionaries(
    {
        "toolUseId": st.sampled_from(["t1", "t2"]),
        "status": st.sampled_from(["success", "error"]),
        "content": st.lists(
            st.builds(dict, text=words)
            | st.builds(dict, json=json_values)
            | st.builds(dict, image=pictures)
            | st.builds(dict, document=documents),
            max_size=2,
        ),
    }
)
uses = st.fixed_dictionaries(
    {"toolUseId": st.sampled_from(["t1", "t2"]), "name": words, "input": objects | json_values}
)
thoughts: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"reasoningText": st.fixed_dictionaries({"text": words, "signature": words | st.none()})}
) | st.builds(dict, redactedContent=st.binary())
blocks: st.SearchStrategy[Any] = (
    st.builds(dict, text=words)
    | st.builds(dict, image=pictures)
    | st.builds(dict, document=documents)
    | st.builds(dict, toolUse=uses)
    | st.builds(dict, toolResult=results)
    | st.builds(dict, reasoningContent=thoughts)
    | st.just({"cachePoint": {"type": "default"}})
    | st.just({"citationsContent": {"content": [{"text": "said"}], "citations": []}})
    | st.just({"guardContent": {"text": {"text": "guarded", "qualifiers": ["query"]}}})
    | objects
)
usages = st.fixed_dictionaries({name: st.integers(0) for name in ("inputTokens", "outputTokens")})
messages = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, max_size=4),
    st.just({})
    | st.builds(lambda u, c: {"metadata": {"usage": u, "custom": c}}, usages, objects)
    | st.builds(dict, tracking_id=words),
)


@given(st.lists(st.tuples(messages, st.none() | messages), min_size=1, max_size=4))
def test_messages_come_back_exactly(given_messages: list[Any]) -> None:
    kept = MemoryStore()
    repository = SessiontreeSessionRepository(storage=kept)
    expected = []
    for number, (message, redacted) in enumerate(given_messages):
        made = SessionMessage(copy.deepcopy(message), number)
        repository.create_message("s", "a", made)
        if redacted is not None:
            made.redact_message = copy.deepcopy(redacted)
            repository.update_message("s", "a", made)
        expected.append(copy.deepcopy(made))
    found = SessiontreeSessionRepository(storage=kept).list_messages("s", "a")
    for one, other in zip(found, expected, strict=True):
        assert same(one.to_dict(), other.to_dict())


def test_agents_and_sessions_come_back_exactly(kept: MemoryStore) -> None:
    repository = SessiontreeSessionRepository(storage=kept)
    session = Session("s", SessionType.AGENT)
    agent = SessionAgent("a/1", {"$": [b"\0", 2**70]}, {"x": None}, {"interrupt_state": {}})
    repository.create_session(session)
    repository.create_agent("s", agent)
    again = SessiontreeSessionRepository(storage=kept)
    assert again.read_session("s") == session
    assert again.read_agent("s", "a/1") == agent
    assert again.read_agent("s", "b") is None
    assert again.read_session("t") is None


# -- what Strands expects ----------------------------------------------------------------------


def test_what_there_is_is_not_created_again_and_what_there_is_not_not_updated(
    repository: SessiontreeSessionRepository,
) -> None:
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(Session("s", SessionType.AGENT))
    stranger = SessionAgent("b", {}, {})
    for session_id in ("s", "t"):
        with pytest.raises(SessionException, match="does not exist"):
            repository.update_agent(session_id, stranger)
        with pytest.raises(SessionException, match="does not exist"):
            repository.update_message(session_id, "a", SessionMessage(ask("x"), 7))
        with pytest.raises(SessionException, match="does not exist"):
            repository.list_messages(session_id, "b")
        assert repository.read_message(session_id, "a", 7) is None
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("t")


def test_messages_are_given_in_pages(repository: SessiontreeSessionRepository) -> None:
    add(repository, *(ask(str(number)) for number in range(6)))
    assert [text_of(m) for m in repository.list_messages("s", "a", limit=2, offset=3)] == ["3", "4"]
    assert [text_of(m) for m in repository.list_messages("s", "a", offset=4)] == ["4", "5"]
    assert repository.list_messages("s", "a", limit=0) == []
    assert repository.list_messages("s", "a", offset=9) == []
    found = repository.read_message("s", "a", 2)
    assert found is not None
    assert text_of(found) == "2"


def test_a_number_is_given_once(repository: SessiontreeSessionRepository) -> None:
    one, two = SessionMessage(ask("one"), 0), SessionMessage(ask("two"), 0)
    repository.create_message("s", "a", one)
    repository.create_message("s", "a", two)
    assert (one.message_id, two.message_id) == (0, 1)
    assert [m.message_id for m in repository.list_messages("s", "a")] == [0, 1]


def test_an_agents_state_is_the_last_one(repository: SessiontreeSessionRepository) -> None:
    first = repository.read_agent("s", "a")
    assert first is not None
    repository.update_agent("s", SessionAgent("a", {"mood": "cross"}, {}))
    found = repository.read_agent("s", "a")
    assert found is not None
    assert found.state == {"mood": "cross"}
    assert found.created_at == first.created_at


def test_a_deleted_session_can_be_restored(
    kept: MemoryStore, repository: SessiontreeSessionRepository
) -> None:
    add(repository, ask("one"))
    repository.delete_session("s")
    assert repository.read_session("s") is None
    repository.create_session(Session("s", SessionType.AGENT))
    with pytest.raises(SessionException):
        repository.list_messages("s", "a")


def test_agents_of_a_session_do_not_mix(
    kept: MemoryStore, repository: SessiontreeSessionRepository
) -> None:
    add(repository, ask("for a"), say("from a"))
    repository.create_agent("s", SessionAgent("b", {}, {}))
    add(repository, ask("for b"), agent="b")
    repository.create_message("s", "a", SessionMessage(ask("again for a"), 2))
    again = SessiontreeSessionRepository(storage=kept)
    texts = [text_of(each) for each in again.list_messages("s", "a")]
    assert texts == ["for a", "from a", "again for a"]
    assert [text_of(each) for each in again.list_messages("s", "b")] == ["for b"]
    assert [content for _, content in context(kept)][-1] == "again for a"


def test_going_back_in_the_tree_takes_the_agent_back(
    kept: MemoryStore, repository: SessiontreeSessionRepository
) -> None:
    add(repository, ask("one"), say("two"))
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        after_two = manager.leaf_id
    repository.update_agent("s", SessionAgent("a", {"mood": "cross"}, {}))
    repository.create_message("s", "a", SessionMessage(ask("three"), 2))
    with SessionManager.open(ref, storage=kept) as manager:
        assert after_two is not None
        manager.branch(after_two)
    again = SessiontreeSessionRepository(storage=kept)
    assert [text_of(each) for each in again.list_messages("s", "a")] == ["one", "two"]
    found = again.read_agent("s", "a")
    assert found is not None
    assert found.state == {"mood": "calm"}
    again.create_message("s", "a", SessionMessage(ask("or three"), 2))
    assert text_of(again.list_messages("s", "a")[-1]) == "or three"


# -- redaction ---------------------------------------------------------------------------------


def test_what_is_redacted_is_no_longer_seen(
    kept: MemoryStore, repository: SessiontreeSessionRepository
) -> None:
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "secret"}]}
    add(repository, ask("hello"), {"role": "user", "content": [{"toolResult": result}]})
    found = repository.read_message("s", "a", 1)
    assert found is not None
    changed = {**result, "content": [{"text": "[gone]"}]}
    found.redact_message = cast("Any", {"role": "user", "content": [{"toolResult": changed}]})
    repository.update_message("s", "a", found)
    assert context(kept) == [
        ("user", "hello"),
        ("toolResult", [{"type": "text", "text": "[gone]"}]),
    ]
    found = repository.read_message("s", "a", 1)
    assert found is not None
    found.redact_message = cast("Any", say("nothing here"))
    repository.update_message("s", "a", found)
    assert context(kept)[1] == ("toolResult", [{"type": "text", "text": "nothing here"}])
    again = SessiontreeSessionRepository(storage=kept).list_messages("s", "a")
    assert again[1].to_message() == say("nothing here")
    assert again[1].message["content"][0]["toolResult"] == result


# -- versions to come, and damage --------------------------------------------------------------


def test_fields_of_a_newer_version_stay(
    kept: MemoryStore, repository: SessiontreeSessionRepository
) -> None:
    add(repository, ask("one"))
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        for entry in manager.get_entries():
            for holder in (entry.data.get("data"), entry.data.get("native", {}).get("strands")):
                if isinstance(holder, dict):
                    holder["later"] = {"x": 1}
        manager.rewrite_entries()
    again = SessiontreeSessionRepository(storage=kept)
    (message,) = again.list_messages("s", "a")
    message.redact_message = ask("-")
    again.update_message("s", "a", message)
    again.update_agent("s", SessionAgent("a", {}, {}))
    with SessionManager.open(ref, storage=kept) as manager:
        last = manager.get_entries()[-1]
        assert last.data["data"]["later"] == {"x": 1}
        assert manager.get_entries()[2].data["native"]["strands"]["later"] == {"x": 1}


def test_a_message_that_cannot_be_read_is_left_out_with_a_warning(
    kept: MemoryStore,
    repository: SessiontreeSessionRepository,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add(repository, ask("one"), ask("two"), ask("three"), ask("four"))
    repository.close()
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        entries = [entry for entry in manager.get_entries() if "native" in entry.data]
        entries[1].data["native"]["strands"]["message"] = {"$": "/not/there"}
        del entries[2].data["native"]["strands"]["message"]
        manager.rewrite_entries()
    with caplog.at_level(logging.WARNING):
        found = repository.list_messages("s", "a")
    assert [text_of(each) for each in found] == ["one", "four"]
    assert entries[1].id in caplog.text
    assert "message 2 cannot be read" in caplog.text


# -- agents ------------------------------------------------------------------------------------


class Scripted(Model):
    """Gives the answers it was made with, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]

    def update_config(self, **_: Any) -> None:
        raise AssertionError

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        answer = self.answers.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(answer, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": answer}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"where": "attic"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(answer, str) else "tool_use"}}
        usage = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in the {where}"


def make_agent(kept: MemoryStore, *answers: Any) -> Agent:
    manager = RepositorySessionManager("s", SessiontreeSessionRepository(storage=kept))
    return Agent(
        model=Scripted(*answers),
        tools=[look],
        agent_id="helper",
        session_manager=manager,
        callback_handler=None,
    )


def test_an_agent_talks_calls_tools_and_continues(kept: MemoryStore) -> None:
    first = make_agent(kept, {"toolUseId": "t1", "name": "look"}, "It is empty.")
    first("Look!")
    second = make_agent(kept, "Still empty.")
    assert second.messages == first.messages
    second.state.set("looked", 2)
    second("Again?")
    third = make_agent(kept)
    assert third.messages == second.messages
    assert third.state.get("looked") == 2
    assert [role for role, _ in context(kept)] == [
        *("user", "assistant", "toolResult", "assistant", "user", "assistant"),
    ]
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        messages = manager.build_session_context().messages
    assert messages[2]["toolName"] == "look"
    assert messages[1]["agentName"] == "helper"
    assert (messages[1]["usage"]["input"], messages[1]["usage"]["output"]) == (10, 2)


def test_each_agent_of_a_session_is_named(kept: MemoryStore) -> None:
    repository = SessiontreeSessionRepository(storage=kept)
    for name in ("ann", "ben"):
        repository.create_message("s", name, SessionMessage(say(f"I am {name}."), 0))
    ref = kept.locate("s")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        said = [entry.data["message"] for entry in manager.get_entries() if entry.type == "message"]
    assert [message["agentName"] for message in said] == ["ann", "ben"]


def test_a_graph_keeps_its_state(kept: MemoryStore) -> None:
    from strands.multiagent import GraphBuilder

    def build(*answers: Any) -> Any:
        manager = RepositorySessionManager("g", SessiontreeSessionRepository(storage=kept))
        builder = GraphBuilder()
        builder.add_node(Agent(model=Scripted(*answers), callback_handler=None), "only")
        builder.set_session_manager(manager)
        builder.set_max_node_executions(3)
        return builder.build()

    build("Done.")("Do it")
    repository = SessiontreeSessionRepository(storage=kept)
    state = repository.read_multi_agent("g", build().id)
    assert state is not None
    assert state["status"] == "completed"
    assert repository.read_multi_agent("g", "another") is None
