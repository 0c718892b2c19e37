"""LangGraph's checkpoint saver on Sessiontree."""

from __future__ import annotations

import copy
import dataclasses
import logging
import operator
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from tests import processes
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.langgraph import SessiontreeSaver
from sessiontree.adapters.langgraph_values import spell, unspell
from sessiontree.adapters.verbatim import UnpackError
from sessiontree.model import codec
from sessiontree.stores.files.log import FileLog

SERDE = JsonPlusSerializer()


class Driver:
    """One saver; what is said are the pending writes of a thread's first checkpoint."""

    FIRST = "1f000000-0000-6000-8000-000000000000"

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.saver = SessiontreeSaver(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self._say(session_id, HumanMessage(text, id=str(uuid.uuid4())))

    async def answer(self, session_id: str, text: str) -> None:
        used: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        answer = AIMessage(text, id=str(uuid.uuid4()), usage_metadata=used)
        await self._say(session_id, answer)

    async def _say(self, session_id: str, message: BaseMessage) -> None:
        config: Any = config_of(session_id)
        if await self.saver.aget_tuple(config) is None:
            await self.saver.aput(config, checkpoint_of(self.FIRST), {"source": "input"}, {})
        config = config_of(session_id, self.FIRST)
        task = str(uuid6())
        await self.saver.aput_writes(config, [("messages", message)], task, task_path=task)

    async def texts(self, session_id: str) -> list[str]:
        found = await self.saver.aget_tuple(config_of(session_id))
        if found is None:
            return []
        return [message.content for _, _, message in found.pending_writes or ()]

    async def close(self) -> None:
        await self.saver.aclose()


class TestInMemory(AdapterContract):
    driver = Driver


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver


def config_of(thread_id: str, checkpoint_id: str | None = None, ns: str = "") -> Any:
    place = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": place | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def checkpoint_of(checkpoint_id: str | None = None, /, **values: Any) -> Any:
    made: Any = {**empty_checkpoint(), "channel_values": values}
    made["channel_versions"] = dict.fromkeys(values, 1)
    return {**made, "id": checkpoint_id or str(uuid6())}


def put(saver: SessiontreeSaver, config: Any, **values: Any) -> Any:
    """Put a checkpoint with these values below the one that ``config`` names; its config."""
    made = checkpoint_of(**values)
    return saver.put(
        config, made, {"source": "loop", "step": 0, "parents": {}}, dict.fromkeys(values, 1)
    )


def values_of(saver: SessiontreeSaver, config: Any) -> Any:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


@pytest.fixture
def saver(kept: MemoryStore) -> SessiontreeSaver:
    return SessiontreeSaver(storage=kept)


def session(kept: MemoryStore, thread_id: str = "t") -> SessionManager:
    ref = kept.locate(thread_id)
    assert ref is not None
    return SessionManager.open(ref, storage=kept)


def context(kept: MemoryStore, thread_id: str = "t") -> list[Any]:
    """What a model sees of the session: who said what."""
    with session(kept, thread_id) as manager:
        return [
            (message["role"], _text(message["content"]))
            for message in manager.build_session_context().messages
        ]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


# -- the vendor's suite ------------------------------------------------------------------------

SUITE = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""The tests of each part of langgraph-checkpoint-conformance 0.0.2."""


async def check_conformance(url: str) -> None:
    @checkpointer_test(name=f"SessiontreeSaver on {url}")
    async def make() -> AsyncIterator[SessiontreeSaver]:
        async with SessiontreeSaver(storage=url) as saver:
            yield saver

    report = await validate(make)
    failures = {name: found.failures for name, found in report.results.items() if found.failures}
    assert failures == {}
    assert {name: found.tests_passed for name, found in report.results.items()} == SUITE


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_vendors_conformance_suite_passes(kind: str, tmp_path: Path) -> None:
    await check_conformance(f"{kind}:{tmp_path}")


# -- exactness ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Note:
    """A type that only a program has."""

    text: str
    tags: list[str]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["blob:sha256:" + "0" * 64, "x" * 600, "\u0000"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | words
    | st.binary(max_size=20)
)
odd_keys = words | st.sampled_from(["$", "@", "native", "partialJson", "lineCount"])
own = (
    st.datetimes()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.sets(st.integers(0, 9))
    | st.dates()
    | st.timedeltas()
)
trees: st.SearchStrategy[Any] = st.recursive(
    scalars | own,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(odd_keys, inner, max_size=3)
        | st.dictionaries(st.integers(0, 9), inner, max_size=2)
    ),
    max_leaves=6,
)
blocks = st.sampled_from(
    [
        {"type": "text", "text": "in a block"},
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "something_new", "of": [1, 2]},
    ]
)
contents = words | st.lists(blocks, max_size=2)
ids = st.none() | st.uuids().map(str)
messages: st.SearchStrategy[Any] = (
    st.builds(HumanMessage, content=contents, id=ids)
    | st.builds(SystemMessage, content=words, id=ids)
    | st.builds(
        AIMessage,
        content=contents,
        id=ids,
        additional_kwargs=st.dictionaries(words, scalars, max_size=2),
        tool_calls=st.just([]) | st.just([{"name": "look", "args": {"at": "it"}, "id": "c"}]),
        usage_metadata=st.none()
        | st.just({"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}),
    )
    | st.builds(ToolMessage, content=words, tool_call_id=words, artifact=trees, id=ids)
)


@given(trees | messages)
def test_a_serialized_value_is_the_same_after_it_was_json(value: Any) -> None:
    for serde in (SERDE, JsonPlusSerializer(pickle_fallback=True)):
        typed = serde.dumps_typed(value)
        assert unspell(codec.decode(codec.encode(spell(typed)))) == typed


@dataclasses.dataclass
class Step:
    """What a node does to a list, and below which earlier checkpoint that is put."""

    edits: list[tuple[str, int, Any]]
    back: int
    other: Any


edits = st.tuples(
    st.sampled_from(["add", "add", "add", "drop", "replace", "mutate", "twice", "empty"]),
    st.integers(0, 9),
    messages | trees,
)
steps = st.builds(Step, st.lists(edits, max_size=4), st.integers(0, 2), trees)


def play(items: list[Any], step: Step) -> list[Any]:
    made = [*items]
    for what, at, value in step.edits:
        at = at % len(made) if made else 0
        if what == "add" or not made:
            made.append(copy.deepcopy(value))
        elif what == "drop":
            del made[at]
        elif what == "replace":
            made[at] = copy.deepcopy(value)
        elif what == "twice":
            made.append(made[at])
        elif what == "empty":
            made = []
        elif isinstance(made[at], BaseMessage):
            made[at].additional_kwargs["changed"] = made[at].additional_kwargs.get("changed", 0) + 1
        elif isinstance(made[at], list):
            made[at].append(1)
    return made


@given(st.lists(steps, min_size=1, max_size=8))
def test_every_checkpoint_comes_back_exactly(given_steps: list[Step]) -> None:
    kept = MemoryStore()
    saver = SessiontreeSaver(storage=kept)
    states: list[tuple[Any, list[Any]]] = [(config_of("t"), [])]
    expected: list[tuple[Any, dict[str, Any]]] = []
    for number, step in enumerate(given_steps):
        parent, items = states[-1 - step.back % len(states)]
        items = play(items, step)
        values = {"messages": items, "other": step.other, "same": ["always", {"the": "same"}]}
        serialized = {name: SERDE.dumps_typed(value) for name, value in values.items()}
        made = checkpoint_of(**values)
        made["channel_versions"] = {"messages": number, "other": number, "same": 1}
        new: Any = {"messages": number, "other": number} | ({} if number else {"same": 1})
        config = saver.put(parent, made, {"step": number}, new)
        states.append((config, items))
        expected.append((config, serialized))
    for reader in (saver, SessiontreeSaver(storage=kept)):
        for config, serialized in expected:
            found = values_of(reader, config)
            assert {name: SERDE.dumps_typed(found[name]) for name in found} == serialized


@given(st.lists(st.tuples(words, trees | messages | st.lists(messages, max_size=2)), max_size=4))
def test_pending_writes_come_back_exactly(given_writes: list[tuple[str, Any]]) -> None:
    kept = MemoryStore()
    saver = SessiontreeSaver(storage=kept)
    config = put(saver, config_of("t"))
    given_writes = [*given_writes, ("messages", AIMessage("said", id="1"))]
    serialized = [(name, SERDE.dumps_typed(value)) for name, value in given_writes]
    saver.put_writes(config, given_writes, "task")
    found = SessiontreeSaver(storage=kept).get_tuple(config)
    assert found is not None
    assert [(name, SERDE.dumps_typed(value)) for _, name, value in found.pending_writes or ()] == (
        serialized
    )


def test_odd_threads_namespaces_and_ids_are_kept_apart(saver: SessiontreeSaver) -> None:
    for thread_id in ("a/b", "a b", "Straße", "x" * 300):
        for ns in ("", "child", "child:1|grand:2", "@", "x" * 300):
            for checkpoint_id in ("1", "a:b", "a b", "~", "\u2028", "x" * 300):
                made = checkpoint_of(checkpoint_id, at=f"{thread_id}{ns}{checkpoint_id}")
                saver.put(config_of(thread_id, None, ns), made, {}, {"at": 1})
    for thread_id in ("a/b", "a b", "Straße", "x" * 300):
        for ns in ("", "child", "child:1|grand:2", "@", "x" * 300):
            for checkpoint_id in ("1", "a:b", "a b", "~", "\u2028", "x" * 300):
                found = values_of(saver, config_of(thread_id, checkpoint_id, ns))
                assert found == {"at": f"{thread_id}{ns}{checkpoint_id}"}
            latest = saver.get_tuple(config_of(thread_id, None, ns))
            assert latest is not None
            assert latest.checkpoint["id"] == "\u2028"
            assert len([*saver.list(config_of(thread_id, None, ns))]) == 6


def test_pending_writes_are_in_the_order_of_their_tasks(saver: SessiontreeSaver) -> None:
    config = put(saver, config_of("t"))
    saver.put_writes(config, [("c", 3)], "a", task_path="z")
    saver.put_writes(config, [("c", 2), ("c", 2.5)], "b", task_path="y")
    saver.put_writes(config, [("c", 1)], "aa", task_path="y")
    saver.put_writes(config, [("c", "late")], "b", task_path="y")  # its number is taken
    saver.put_writes(config, [("__error__", "first")], "e", task_path="")
    saver.put_writes(config, [("__error__", "last")], "e", task_path="")
    found = saver.get_tuple(config)
    assert found is not None
    assert [value for _, _, value in found.pending_writes or ()] == ["last", 1, 2, 2.5, 3]


def test_versions_go_on_from_numbers_and_from_texts(saver: SessiontreeSaver) -> None:
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(7, None) == 8
    text = InMemorySaver().get_next_version(None, None)
    following = saver.get_next_version(text, None)
    assert following > text
    assert int(following.split(".")[0]) == 2


# -- graphs ------------------------------------------------------------------------------------


class State(MessagesState):
    log: Annotated[list[Any], operator.add]


def helper(state: State) -> Any:
    """Calls a tool once, then answers."""
    said = state["messages"]
    if len(said) == 1:
        call = {"name": "look", "args": {"where": "attic"}, "id": "t1"}
        used: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        answer = AIMessage(
            "Let me look.",
            id="a1",
            tool_calls=[call],
            usage_metadata=used,
            response_metadata={"model_name": "large", "model_provider": "acme"},
        )
        return {"messages": [answer], "log": ["called"]}
    return {"messages": [AIMessage(f"Answer {len(said)}.")], "log": [{"said": len(said)}]}


def look(state: State) -> Any:
    return {"messages": [ToolMessage("Nothing there.", tool_call_id="t1", name="look")]}


def ask(state: State) -> Any:
    return {"messages": [HumanMessage(interrupt("Are you sure?"))]}


def route(state: State) -> str:
    if getattr(state["messages"][-1], "tool_calls", None):
        return "look"
    return "ask" if len(state["messages"]) < 5 else END


def graph_on(saver: Any) -> Any:
    builder = StateGraph(State)
    for node in (helper, look, ask):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "helper")
    builder.add_conditional_edges("helper", route, ["look", "ask", END])
    builder.add_edge("look", "helper")
    builder.add_edge("ask", "helper")
    return builder.compile(checkpointer=saver)


def said_in(state: Any) -> list[str]:
    return [message.content for message in state["messages"]]


def history(graph: Any) -> list[Any]:
    """What a graph knows of the thread, without what differs from run to run."""
    return [
        (state.metadata["step"], state.metadata["source"], state.next, said_in(state.values))
        if "messages" in state.values
        else (state.metadata["step"], state.metadata["source"], state.next, None)
        for state in graph.get_state_history(config_of("t"))
    ]


def run_through(make: Any) -> list[Any]:
    """Interrupt, resume, fork, time travel and removal, each step by a saver of its own."""
    config = config_of("t")
    told: list[Any] = []
    state = graph_on(make()).invoke({"messages": [("user", "Find the key")]}, config)
    told.append([each.value for each in state["__interrupt__"]])
    state = graph_on(make()).invoke(Command(resume="Yes"), config)
    told += [said_in(state), state["log"], history(graph_on(make()))]
    graph = graph_on(make())
    (asked,) = (each for each in graph.get_state_history(config) if each.next == ("ask",))
    fork = graph.update_state(asked.config, {"messages": [HumanMessage("No")]}, as_node="ask")
    told.append(said_in(graph_on(make()).invoke(None, fork)))
    told.append(said_in(graph_on(make()).invoke(Command(resume="Perhaps"), asked.config)))
    first = graph.get_state(config).values["messages"][0]
    graph.update_state(config, {"messages": [RemoveMessage(str(first.id))]}, as_node="helper")
    told.append(said_in(graph_on(make()).get_state(config).values))
    told.append(history(graph_on(make())))
    return told


def test_a_graph_is_interrupted_resumed_forked_and_goes_back(kept: MemoryStore) -> None:
    in_memory = InMemorySaver()
    expected = run_through(lambda: in_memory)
    assert run_through(lambda: SessiontreeSaver(storage=kept)) == expected
    assert [text for _, text in context(kept)] == expected[-2]
    with session(kept) as manager:
        asked = [
            entry
            for entry in manager.get_entries()
            if entry.type == "message" and _text(entry.data["message"]["content"]) == "Answer 3."
        ]
        answers = _said_below(manager, asked[0].id)
        message = asked[0].data["message"]
    assert len(asked) == 1  # three branches have it
    # LangGraph answers a question again as it was answered before
    assert sorted(answers) == ["No", "Yes", "Yes"]
    assert message["role"] == "assistant"


def _said_below(manager: SessionManager, entry_id: str) -> list[str]:
    """The first thing that a user says on each branch below an entry."""
    found: list[str] = []
    for entry in manager.get_children(entry_id):
        message = entry.data.get("message")
        if isinstance(message, dict) and message["role"] == "user":
            found.append(_text(message["content"]))
        else:
            found += _said_below(manager, entry.id)
    return found


async def test_an_asynchronous_graph_does_the_same(kept: MemoryStore) -> None:
    async with SessiontreeSaver(storage=kept) as saver:
        graph = graph_on(saver)
        config = config_of("t")
        await graph.ainvoke({"messages": [("user", "Find the key")]}, config)
        state = await graph.ainvoke(Command(resume="Yes"), config)
        assert said_in(state)[-2:] == ["Yes", "Answer 5."]
        states = [each async for each in graph.aget_state_history(config)]
        assert len(states) == 7


def test_an_answer_says_its_model_and_what_it_took(kept: MemoryStore) -> None:
    run_through(lambda: SessiontreeSaver(storage=kept))
    with session(kept) as manager:
        said = [entry.data["message"] for entry in manager.get_entries() if entry.type == "message"]
    (called,) = (message for message in said if _text(message["content"]) == "Let me look.")
    assert (called["provider"], called["model"], called["stopReason"]) == (
        "acme",
        "large",
        "toolUse",
    )
    assert (called["usage"]["input"], called["usage"]["output"]) == (10, 2)
    assert called["content"][1]["arguments"] == {"where": "attic"}
    (result,) = (message for message in said if message["role"] == "toolResult")
    assert (result["toolName"], result["toolCallId"]) == ("look", "t1")


def test_a_checkpoint_hangs_below_its_parent(kept: MemoryStore) -> None:
    run_through(lambda: SessiontreeSaver(storage=kept))
    with session(kept) as manager:
        checkpoints = {
            entry.data["data"]["id"]: entry
            for entry in manager.get_entries()
            if entry.data.get("customType") == "langgraph.checkpoint"
        }
        assert len(checkpoints) > 8
        for entry in checkpoints.values():
            above = [
                each.data["data"]["id"]
                for each in manager.get_branch(entry.id)[:-1]
                if each.data.get("customType") == "langgraph.checkpoint"
            ]
            assert (above or [None])[-1] == entry.data["data"]["parent"]


def test_nodes_that_run_at_once_and_subgraphs_keep_their_state(kept: MemoryStore) -> None:
    def sub_ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"sub heard {interrupt('Sub?')}", id="s2")]}

    def build(saver: Any) -> Any:
        inner = StateGraph(MessagesState)
        inner.add_node("think", lambda _: {"messages": [AIMessage("sub thinks", id="s1")]})
        inner.add_node("sub_ask", sub_ask)
        inner.add_edge(START, "think")
        inner.add_edge("think", "sub_ask")
        outer = StateGraph(State)
        outer.add_node("sub", inner.compile())
        outer.add_node("fan", lambda state: {"log": [state["n"]]})
        outer.add_conditional_edges(
            "sub", lambda _: [Send("fan", {"n": n}) for n in range(4)], ["fan"]
        )
        outer.add_edge(START, "sub")
        return outer.compile(checkpointer=saver)

    config = config_of("t")
    build(SessiontreeSaver(storage=kept)).invoke({"messages": [HumanMessage("Go", id="h")]}, config)
    state = build(SessiontreeSaver(storage=kept)).get_state(config, subgraphs=True)
    assert said_in(state.tasks[0].state.values) == ["Go", "sub thinks"]
    with session(kept) as manager:
        (thought,) = (
            each
            for each in manager.get_entries()
            if each.type == "message" and "thinks" in str(each.data["message"])
        )
        assert [
            _text(each.data["message"]["content"])
            for each in manager.get_branch(thought.id)
            if each.type == "message"
        ] == ["Go", "sub thinks"]
    state = build(SessiontreeSaver(storage=kept)).invoke(Command(resume="it"), config)
    assert said_in(state) == ["Go", "sub thinks", "sub heard it"]
    assert state["log"] == [0, 1, 2, 3]
    assert [text for _, text in context(kept)] == ["Go", "sub thinks", "sub heard it"]


def join_all(old: list[str], new: list[list[str]]) -> list[str]:
    return [*old, *(line for lines in new for line in lines)]


def test_a_delta_channel_is_restored_also_after_pruning(kept: MemoryStore) -> None:
    class Growing(MessagesState):
        lines: Annotated[list[str], DeltaChannel(join_all, list)]

    def build() -> Any:
        builder = StateGraph(Growing)
        builder.add_node("node", lambda state: {"lines": [f"line {len(state['lines'])}"]})
        builder.add_edge(START, "node")
        return builder.compile(checkpointer=SessiontreeSaver(storage=kept))

    for number in range(7):
        build().invoke({"lines": [f"in {number}"]}, config_of("t"))
    expected = build().get_state(config_of("t")).values["lines"]
    assert len(expected) == 14
    assert expected[-1] == "line 13"
    SessiontreeSaver(storage=kept).prune(["t"])
    assert len([*SessiontreeSaver(storage=kept).list(config_of("t"))]) == 1
    assert build().get_state(config_of("t")).values["lines"] == expected
    build().invoke({"lines": ["on"]}, config_of("t"))
    assert build().get_state(config_of("t")).values["lines"] == [*expected, "on", "line 15"]


# -- the conversation --------------------------------------------------------------------------


def test_a_list_that_slides_is_what_a_model_sees(
    kept: MemoryStore, saver: SessiontreeSaver
) -> None:
    config = config_of("t")
    said = [HumanMessage(f"m{number}", id=str(number)) for number in range(40)]
    for number in range(1, 40):
        config = put(saver, config, messages=said[max(0, number - 3) : number])
    assert context(kept) == [("user", "m36"), ("user", "m37"), ("user", "m38")]
    put(SessiontreeSaver(storage=kept), config, messages=[said[37]])
    assert context(kept) == [("user", "m37")]


def test_a_message_that_is_replaced_reads_differently_in_its_place(
    kept: MemoryStore, saver: SessiontreeSaver
) -> None:
    one, two = HumanMessage("My PIN is 1234", id="1"), AIMessage("Noted.", id="2")
    before = put(saver, config_of("t"), messages=[one, two])
    put(saver, before, messages=[HumanMessage("My PIN is ****", id="1"), two])
    assert context(kept) == [("user", "My PIN is ****"), ("assistant", "Noted.")]
    again = SessiontreeSaver(storage=kept)
    assert said_in(values_of(again, config_of("t"))) == ["My PIN is ****", "Noted."]
    put(again, before, messages=[one, two, HumanMessage("And?", id="3")])
    assert [text for _, text in context(kept)] == ["My PIN is 1234", "Noted.", "And?"]


def test_a_message_that_was_removed_can_come_back(
    kept: MemoryStore, saver: SessiontreeSaver
) -> None:
    one, two = HumanMessage("one", id="1"), AIMessage("two", id="2")
    config = put(saver, config_of("t"), messages=[one, two])
    config = put(saver, config, messages=[two])
    assert context(kept) == [("assistant", "two")]
    put(saver, config, messages=[two, one])
    assert context(kept) == [("assistant", "two"), ("user", "one")]


def test_what_has_not_changed_is_stored_once(kept: MemoryStore, saver: SessiontreeSaver) -> None:
    config, said = config_of("t"), [AIMessage("hello", id="0")]
    large = {"document": "page " * 2_000}
    sizes = []
    for number in range(1, 200):
        said = [*said, AIMessage(f"answer {number}", id=str(number))]
        saver.put_writes(
            config, [("messages", [said[-1]])], f"task {number}"
        ) if number > 1 else None
        config = put(saver, config, messages=said, document=large, copy=large)
        with session(kept) as manager:
            sizes.append(sum(len(codec.encode(each.decode())) for each in manager.get_entries()))
    assert sizes[0] < 20_000
    assert sizes[-1] - sizes[-51] < 50 * 3_000
    assert sizes[-1] < 500_000
    with session(kept) as manager:
        texts = [codec.encode(entry.decode()) for entry in manager.get_entries()]
    assert sum(b"page page" in text for text in texts) == 1
    assert sum(b'"answer 77"' in text for text in texts) == 1
    found = values_of(SessiontreeSaver(storage=kept), config_of("t"))
    assert found == {"messages": said, "document": large, "copy": large}


def test_reading_the_latest_decodes_what_it_needs_of_a_long_thread(
    kept: MemoryStore, saver: SessiontreeSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("t")
    for number in range(400):
        config = put(saver, config, count=number, window=[f"w{number}"], same=["x" * 500])
    from sessiontree.model.entries import Entry

    decoded: list[str] = []
    decode = Entry.decode

    def counting(self: Entry) -> Any:
        decoded.append(self.id)
        return decode(self)

    monkeypatch.setattr(Entry, "decode", counting)
    again = SessiontreeSaver(storage=kept)
    assert values_of(again, config_of("t"))["count"] == 399
    assert len(decoded) < 10


def test_a_message_that_a_node_changes_in_place_is_written_again(saver: SessiontreeSaver) -> None:
    said = [HumanMessage("one", id="1"), AIMessage("two", id="2")]
    first = put(saver, config_of("t"), messages=said)
    said[0].additional_kwargs["seen"] = True
    said[1].content = "2"
    second = put(saver, first, messages=[*said, HumanMessage("three", id="3")])
    assert values_of(saver, first)["messages"][0].additional_kwargs == {}
    found = values_of(saver, second)["messages"]
    assert found[0].additional_kwargs == {"seen": True}
    assert [each.content for each in found] == ["one", "2", "three"]


@pytest.mark.parametrize(
    "change",
    [
        lambda said: setattr(said, "content", "changed"),
        lambda said: said.tool_calls[0]["args"]["path"].append("b"),
        lambda said: said.tool_calls.append(copy.deepcopy(said.tool_calls[0])),
        lambda said: said.response_metadata.update(model="m"),
        lambda said: setattr(said, "noted", "a field that its type does not know"),
        lambda said: setattr(said, "additional_kwargs", {"is": "another"}),
        lambda said: said.__init__("made again", id=said.id),
    ],
    ids=["field", "deep", "list", "dict", "extra", "replaced", "init"],
)
@pytest.mark.parametrize("at", [0, 255, 256, 599])
def test_whatever_changes_in_a_message_of_many_is_seen(
    saver: SessiontreeSaver, change: Callable[[Any], object], at: int
) -> None:
    call: Any = {"name": "read", "args": {"path": ["a"]}, "id": "1", "type": "tool_call"}
    said = [AIMessage(str(number), id=str(number), tool_calls=[call]) for number in range(600)]
    config = put(saver, config_of("t"), messages=said)
    said = [*said, AIMessage("600", id="600")]
    config = put(saver, config, messages=said)
    before = said[at].model_dump()
    change(said[at])
    after = said[at].model_dump()
    said = [*said, AIMessage("601", id="601")]
    config = put(saver, config, messages=said)
    assert before != after
    found = values_of(saver, config)["messages"]
    assert [each.model_dump() for each in found] == [each.model_dump() for each in said]
    change(said[0])
    put(saver, config, messages=[*said, AIMessage("602", id="602")])
    assert values_of(saver, config_of("t"))["messages"][0].model_dump() == said[0].model_dump()


def test_in_a_very_long_list_a_change_is_seen_where_it_may_matter(
    kept: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the newest, in what a task gives back, and as soon as a moment has passed."""
    clock = count(1)  # a second at each look: the next whole one is due after eight
    monkeypatch.setattr("sessiontree.adapters.langgraph_lists.perf_counter", clock.__next__)
    saver, reader = SessiontreeSaver(storage=kept), SessiontreeSaver(storage=kept)
    said: list[Any] = [HumanMessage(str(number), id=str(number)) for number in range(1500)]
    config = config_of("t")

    def step() -> list[str]:
        nonlocal config, said
        said = [*said, HumanMessage("next", id=str(len(said)))]
        config = put(saver, config, messages=said)
        return said_in(values_of(reader, config))

    step()
    step()
    said[1400].content = "one of the newest"
    assert step()[1400] == "one of the newest"
    step()
    said[3].content = "given back"
    saver.put_writes(config, [("messages", [said[3]])], "task")
    assert step()[3] == "given back"
    step()
    said[4].content = "later"
    assert "later" in [step()[4] for _ in range(9)]


def test_what_a_failed_write_had_noted_of_a_list_is_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = SessiontreeSaver(storage=f"file:{tmp_path}")
    said: list[BaseMessage] = [HumanMessage("one", id="1")]
    config = put(saver, config_of("t"), messages=said)
    append = FileLog.append

    def fail(*_: object) -> None:
        raise ValueError("not now")

    said = [*said, AIMessage("two", id="2")]
    monkeypatch.setattr(FileLog, "append", fail)
    with pytest.raises(ValueError, match="not now"):
        put(saver, config, messages=said)
    monkeypatch.setattr(FileLog, "append", append)
    config = put(saver, config, messages=said)
    said = [*said, HumanMessage("three", id="3")]
    config = put(saver, config, messages=said)
    for each in (saver, SessiontreeSaver(storage=f"file:{tmp_path}")):
        assert said_in(values_of(each, config)) == ["one", "two", "three"]
    saver.close()


def test_writes_that_come_late_leave_the_conversation_where_it_stands(kept: MemoryStore) -> None:
    saver = SessiontreeSaver(storage=kept)
    asked, answer = HumanMessage("one", id="1"), AIMessage("two", id="2")
    first = put(saver, config_of("t"), messages=[asked])
    second = put(saver, first, messages=[asked, answer])
    for late in (second, first, second):
        saver.put_writes(late, [("messages", [answer])], "task")
        with SessionManager.open(kept.locate("t") or "", storage=kept) as session:
            said = [message["content"] for message in session.build_session_context().messages]
        assert said == ["one", [{"type": "text", "text": "two"}]]
    assert saver.get_tuple(first).pending_writes == [("task", "messages", [answer])]  # type: ignore[union-attr]


# -- whole threads -----------------------------------------------------------------------------


def test_a_deleted_thread_is_in_the_trash_or_gone(kept: MemoryStore) -> None:
    saver = SessiontreeSaver(storage=kept)
    put(saver, config_of("t"), messages=[HumanMessage("one", id="1"), AIMessage("two", id="2")])
    saver.delete_thread("t")
    assert saver.get_tuple(config_of("t")) is None
    assert [*saver.list(config_of("t"))] == []
    kept.restore("t")
    assert said_in(values_of(saver, config_of("t"))) == ["one", "two"]
    SessiontreeSaver(storage=kept, delete_permanently=True).delete_thread("t")
    assert [each.session_id for each in kept.list_trash()] == []
    put(saver, config_of("t"), count=1)
    assert values_of(saver, config_of("t")) == {"count": 1}


def test_a_copy_has_everything_and_goes_its_own_way(kept: MemoryStore) -> None:
    saver = SessiontreeSaver(storage=kept)
    graph = graph_on(saver)
    graph.invoke({"messages": [("user", "Find the key")]}, config_of("t"))
    saver.copy_thread("t", "u")
    graph.invoke(Command(resume="Yes"), config_of("u"))
    assert said_in(graph.get_state(config_of("u")).values)[-1] == "Answer 5."
    assert said_in(graph.get_state(config_of("t")).values)[-1] == "Answer 3."
    saver.delete_thread("t")
    assert len([*graph.get_state_history(config_of("u"))]) == 7
    with session(kept, "u") as manager:
        assert "parentSession" in manager.header


def test_all_threads_of_a_scope_are_listed_the_newest_first(kept: MemoryStore) -> None:
    saver, other = SessiontreeSaver(storage=kept), SessiontreeSaver(storage=kept, scope="anna")
    for number in range(3):
        for thread_id in ("a b", "c"):
            put(saver, config_of(thread_id), number=number)
    put(other, config_of("c"), number=9)
    found = [*saver.list(None)]
    assert [each.checkpoint["channel_values"]["number"] for each in found] == [2, 2, 1, 1, 0, 0]
    assert {each.config["configurable"]["thread_id"] for each in found} == {"a b", "c"}
    assert len([*saver.list(None, limit=4)]) == 4
    assert len([*other.list(None)]) == 1


def test_an_unknown_strategy_of_pruning_deletes_nothing(saver: SessiontreeSaver) -> None:
    put(saver, config_of("t"), number=1)
    with pytest.raises(ValueError, match="keep_latest"):
        saver.prune(["t"], strategy="keep_lastest")
    assert values_of(saver, config_of("t")) == {"number": 1}


# -- other processes ---------------------------------------------------------------------------

_STEPS = """
import sys
from tests.adapters.test_langgraph import *

url, mark, count = sys.argv[1:]
saver = SessiontreeSaver(storage=url)
print("ready", flush=True)
sys.stdin.readline()
config, said = config_of("t"), []
for number in range(int(count)):
    said = [*said, HumanMessage(f"{mark}{number}", id=f"{mark}{number}")]
    config = put(saver, config, messages=said)
    saver.put_writes(config, [("messages", said[-1])], "task")
    print(config["configurable"]["checkpoint_id"], flush=True)
saver.close()
"""


def test_processes_that_put_checkpoints_at_once_lose_nothing(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    started = [processes.start(_STEPS, url, mark, 15) for mark in "xyz"]
    for process in started:
        processes.wait_for(process, "ready")
    for process in started:
        print("go", file=process.stdin, flush=True)
    saver = SessiontreeSaver(storage=url)
    for process, mark in zip(started, "xyz", strict=True):
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        for number, checkpoint_id in enumerate(output.split()):
            found = saver.get_tuple(config_of("t", checkpoint_id))
            assert found is not None
            said = [each.content for each in found.checkpoint["channel_values"]["messages"]]
            assert said == [f"{mark}{at}" for at in range(number + 1)]
            assert [value.content for _, _, value in found.pending_writes or ()] == [said[-1]]
    assert len([*saver.list(config_of("t"))]) == 45
    saver.close()


def test_a_killed_process_loses_no_checkpoint_that_was_acknowledged(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    process = processes.start(_STEPS, url, "k", 100_000)
    processes.wait_for(process, "ready")
    print("go", file=process.stdin, flush=True)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    # communicate() alone would pass over the lines that readline() has taken into its buffer
    acknowledged += process.stdout.read().split("\n")[:-1]
    process.communicate()
    saver = SessiontreeSaver(storage=url)
    latest = saver.get_tuple(config_of("t"))
    assert latest is not None
    assert latest.checkpoint["id"] >= acknowledged[-1]
    said = said_in(latest.checkpoint["channel_values"])
    assert said == [f"k{number}" for number in range(len(said))]
    assert len(said) - len(acknowledged) in (0, 1)
    put(saver, latest.config, messages=[HumanMessage("on", id="on")])
    assert said_in(values_of(saver, config_of("t"))) == ["on"]
    saver.close()


def test_savers_that_are_open_see_each_other(kept: MemoryStore) -> None:
    one, two = SessiontreeSaver(storage=kept), SessiontreeSaver(storage=kept)
    config = put(one, config_of("t"), messages=[HumanMessage("1", id="1")])
    for number in range(2, 8):
        writer = (one, two)[number % 2]
        said = values_of(writer, config)["messages"]
        config = put(writer, config, messages=[*said, HumanMessage(str(number), id=str(number))])
        for reader in (one, two):
            assert said_in(values_of(reader, config_of("t")))[-1] == str(number)
    assert [text for _, text in context(kept)] == [*"1234567"]


# -- secrets and strangers ---------------------------------------------------------------------


class Rot:
    """A cipher that is only good for telling what it was used for."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "rot", bytes((each + 13) % 256 for each in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "rot"
        return bytes((each - 13) % 256 for each in ciphertext)


def test_what_is_encrypted_is_nowhere_in_the_session(tmp_path: Path) -> None:
    saver = SessiontreeSaver(storage=f"file:{tmp_path}", serde=EncryptedSerializer(Rot()))
    said = [HumanMessage("the kettle", id="1"), AIMessage("it whistles", id="2")]
    config = put(saver, config_of("t"), messages=said, numbers=[4711, 4712], note="kettle")
    saver.put_writes(config, [("messages", said[0]), ("numbers", [4713])], "task")
    saver.close()
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for word in (b"kettle", b"whistles", b"4711", b"4713"):
        assert word not in content
    again = SessiontreeSaver(storage=f"file:{tmp_path}", serde=EncryptedSerializer(Rot()))
    found = again.get_tuple(config_of("t"))
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == said
    assert found.checkpoint["channel_values"]["numbers"] == [4711, 4712]
    assert [value for _, _, value in found.pending_writes or ()] == [said[0], [4713]]
    again.close()


def test_a_session_of_a_stranger_runs_nothing_where_only_safe_types_are_allowed(
    kept: MemoryStore, tmp_path: Path
) -> None:
    target = tmp_path / "ran"
    put(SessiontreeSaver(storage=kept), config_of("t"), command="placeholder")
    evil = {"@": {"ext": [0, ["os", "mkdir", str(target)]]}}
    with session(kept) as manager:
        (entry,) = manager.get_entries()
        entry.data["data"]["values"]["command"] = {"v": {"msgpack": evil}}
        entry.data["data"]["values"]["pickled"] = {"v": {"bytes": ["pickle", "gASVAAAA"]}}
        manager.rewrite_entries()
    strict = SessiontreeSaver(storage=kept, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    assert values_of(strict, config_of("t")) == {"command": str(target)}
    assert not target.exists()


# -- versions to come, and damage --------------------------------------------------------------


def test_fields_of_a_newer_version_stay(kept: MemoryStore, saver: SessiontreeSaver) -> None:
    made: Any = {**checkpoint_of(count=1), "later": {"x": [1]}}
    later: Any = {"source": "loop", "later": 2}
    config = saver.put(config_of("t"), made, later, {"count": 1})
    with session(kept) as manager:
        for entry in manager.get_entries():
            entry.data["later"] = entry.data["data"]["later"] = True
        manager.rewrite_entries()
    saver.put_writes(config, [("count", 2)], "task")
    put(saver, config, count=2)
    found = SessiontreeSaver(storage=kept).get_tuple(config)
    assert found is not None
    assert dict(found.checkpoint)["later"] == {"x": [1]}
    assert dict(found.metadata)["later"] == 2
    with session(kept) as manager:
        assert manager.get_entries()[0].data["data"]["later"] is True


def damage(kept: MemoryStore, custom_type: str, change: Any) -> list[str]:
    """Change the data of entries of a type; their ids."""
    with session(kept) as manager:
        found = [
            entry for entry in manager.get_entries() if entry.data.get("customType") == custom_type
        ]
        changed = [entry.id for entry in found if change(entry.data)]
        manager.rewrite_entries()
    return changed


@pytest.mark.parametrize(
    "broken", [None, [], {"id": 1}, {"ns": "", "id": "x", "parent": 7}, {"$": "/not/there"}]
)
def test_a_broken_checkpoint_is_passed_over_with_a_warning(
    kept: MemoryStore, caplog: pytest.LogCaptureFixture, broken: Any
) -> None:
    saver = SessiontreeSaver(storage=kept)
    first = put(saver, config_of("t"), count=1)
    last = put(saver, first, count=2)

    def change(data: Any) -> bool:
        is_last: bool = data["id"] == f"cp:{last['configurable']['checkpoint_id']}"
        data["data"] = broken if is_last else data["data"]
        return is_last

    saver.close()
    (entry_id,) = damage(kept, "langgraph.checkpoint", change)
    with caplog.at_level(logging.WARNING):
        assert values_of(saver, config_of("t")) == {"count": 1}
        assert saver.get_tuple(last) is None
        assert [each.checkpoint["id"] for each in saver.list(config_of("t"))] == [
            first["configurable"]["checkpoint_id"]
        ]
    assert entry_id in caplog.text
    put(saver, last, count=3)
    assert values_of(saver, config_of("t")) == {"count": 3}


def test_a_value_that_cannot_be_read_is_left_out_with_a_warning(
    kept: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    saver = SessiontreeSaver(storage=kept)
    said = [HumanMessage(f"m{number}", id=str(number)) for number in range(3)]
    config = put(saver, config_of("t"), messages=said, large={"x": "y" * 500}, small=1)
    saver.put_writes(config, [("a", "written"), ("b", {"z": "y" * 501})], "task")
    saver.close()
    damage(kept, "langgraph.value", lambda data: data.update(data={"msgpack": {"@": "?"}}) is None)
    with session(kept) as manager:
        for entry in manager.get_entries():
            if entry.data.get("message", {}).get("content") == "m1":
                entry.data["native"]["langgraph"] = {"msgpack": {"$": "/not/there"}}
        manager.rewrite_entries()
    with caplog.at_level(logging.WARNING):
        found = saver.get_tuple(config)
    assert found is not None
    values = found.checkpoint["channel_values"]
    assert [each.content for each in values["messages"]] == ["m0", "m2"]
    assert values["small"] == 1
    assert "large" not in values
    assert [value for _, _, value in found.pending_writes or ()] == ["written"]
    assert len([each for each in caplog.records if "cannot be read" in each.message]) == 3


@pytest.mark.parametrize(
    "node",
    [
        {"items": 1},
        {"of": "cp:none", "keep": 1, "items": []},
        {"of": 1, "items": []},
        {"keep": -1, "items": []},
        {"items": ["0" * 32]},
        {"items": [{"msgpack": {"@": {"ext": [0, 1, 2]}}}]},
    ],
)
def test_a_list_that_leads_nowhere_is_left_out(kept: MemoryStore, node: Any) -> None:
    saver = SessiontreeSaver(storage=kept)
    config = put(saver, config_of("t"), items=["a"], small=1)
    saver.close()

    def change(data: Any) -> bool:
        data["data"]["values"]["items"] = {"list": node}
        return True

    damage(kept, "langgraph.checkpoint", change)
    assert values_of(saver, config) in ({"small": 1}, {"items": [], "small": 1})
    put(saver, config, items=["b"])
    assert values_of(saver, config_of("t")) == {"items": ["b"]}


def test_lists_that_continue_each_other_are_noticed(kept: MemoryStore) -> None:
    saver = SessiontreeSaver(storage=kept)
    first = put(saver, config_of("t"), items=["a"])
    second = put(saver, first, items=["a", "b"])
    saver.close()

    def change(data: Any) -> bool:
        mine = data["data"]["id"] == first["configurable"]["checkpoint_id"]
        other = (second if mine else first)["configurable"]["checkpoint_id"]
        data["data"]["values"]["items"] = {"list": {"of": f"cp:{other}", "keep": 1, "items": []}}
        return True

    damage(kept, "langgraph.checkpoint", change)
    assert values_of(saver, first) == {}
    assert values_of(saver, second) == {}


@pytest.mark.parametrize(
    "spelled",
    [
        None,
        {},
        {"msgpack": 1, "bytes": 2},
        {"bytes": ["msgpack"]},
        {"bytes": ["msgpack", "###"]},
        {"msgpack": {"@": {}}},
        {"msgpack": {"@": {"map": [1]}}},
        {"msgpack": {"@": {"map": [[[], 1]]}}},
        {"msgpack": {"@": {"bytes": "é"}}},
        {"msgpack": {"@": {"ext": [300, None]}}},
        {"msgpack": 2**70},
    ],
)
def test_what_is_no_value_is_refused(spelled: Any) -> None:
    with pytest.raises(UnpackError):
        unspell(spelled)


def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import sys
sys.modules["langgraph.checkpoint.base"] = None
try:
    import sessiontree.adapters.langgraph
except ModuleNotFoundError as error:
    print(error)
"""
    assert 'pip install "sessiontree[langgraph]"' in processes.run(code)
