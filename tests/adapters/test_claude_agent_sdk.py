"""The store for the Claude Agent SDK: the vendor's suite, exact records, readable sessions."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles

from sessiontree import MemoryStore, SessionManager, open_store
from sessiontree.adapters.claude_agent_sdk import SessiontreeSessionStore
from sessiontree.discovery.adapters.records import read_records
from sessiontree.importers.foreign import load_foreign

GOLDEN = Path(__file__).parents[1] / "golden" / "claude-code"
TRANSCRIPT = GOLDEN / "3f2a9c10-7b1e-4c55-9d0a-5e6f7a8b9c01.jsonl"

PROJECT = "-work-app"
KEY: sdk.SessionKey = {"project_key": PROJECT, "session_id": "s"}
SUB: sdk.SessionKey = {**KEY, "subpath": "subagents/agent-a1"}

MakeStore = Callable[[], SessiontreeSessionStore]


@pytest.fixture(params=["files", "memory"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes a store on sessions of its own."""
    count = iter(range(100))

    def make() -> SessiontreeSessionStore:
        if request.param == "memory":
            return SessiontreeSessionStore(storage=MemoryStore())
        return SessiontreeSessionStore(storage=f"file:{tmp_path / str(next(count))}")

    return make


@pytest.fixture
def store(new_store: MakeStore) -> SessiontreeSessionStore:
    return new_store()


class Driver:
    """Writes as the SDK does: one record for each message."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self._store = SessiontreeSessionStore(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self._append(session_id, prompt(text))

    async def answer(self, session_id: str, text: str) -> None:
        usage = {"input_tokens": 10, "output_tokens": 2}
        await self._append(session_id, answer(text, id=f"msg_{uuid.uuid4()}", usage=usage))

    async def texts(self, session_id: str) -> list[str]:
        found = await self._store.load({"project_key": PROJECT, "session_id": session_id})
        return [each["message"]["content"] for each in found or ()]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        await self._store.aclose()

    async def _append(self, session_id: str, record: Any) -> None:
        key: sdk.SessionKey = {"project_key": PROJECT, "session_id": session_id}
        loaded = await self._store.load(key)
        record["parentUuid"] = loaded[-1]["uuid"] if loaded else None
        await self._store.append(key, [record])


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver
    session_scope = PROJECT


class TestInMemory(AdapterContract):
    driver = Driver
    session_scope = PROJECT


def prompt(text: str, **fields: Any) -> Any:
    return {
        "type": "user",
        "uuid": str(uuid.uuid4()),
        "parentUuid": None,
        "timestamp": "2026-03-01T10:00:00.000Z",
        "cwd": "/work/app",
        "sessionId": "s",
        "message": {"role": "user", "content": text},
        **fields,
    }


def answer(content: Any, **fields: Any) -> Any:
    body = {"role": "assistant", "model": "claude-sonnet-4-5", "content": content}
    return {**prompt(""), "type": "assistant", "message": {**body, **fields}}


def chain(*records: Any) -> list[Any]:
    """The records, each the child of the one before."""
    for before, record in itertools.pairwise(records):
        record["parentUuid"] = before["uuid"]
    return [*records]


def open_session(store: SessiontreeSessionStore, session_id: str = "s") -> SessionManager:
    ref = store.store.locate(session_id, scope=store.scope_of(PROJECT))
    assert ref is not None
    return SessionManager.open(ref, storage=store.store)


def said(session: SessionManager) -> list[tuple[str, str]]:
    """The role and text of each message that a model would see."""
    found = []
    for message in session.build_session_context().messages:
        content = message.get("content", message.get("summary"))
        if isinstance(content, list):
            content = " ".join(str(each.get("text", each["type"])) for each in content)
        found.append((message["role"], str(content)))
    return found


async def test_the_vendors_suite_passes_whole(new_store: MakeStore) -> None:
    await run_session_store_conformance(new_store)


# -- records -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["message", "content", "partialJson", "lineCount", "a/b~c", ""])
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("a text that is long enough to be kept once and not twice")
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(NAMES | st.text(), inner), max_leaves=8
)
RECORDS = st.builds(
    lambda kind, body, extra, known: {**extra, "type": kind, "message": body, **known},
    st.sampled_from(["user", "assistant", "system", "summary", "attachment", "deleted", "x"]),
    st.fixed_dictionaries(
        {"content": JSON}, optional={"id": st.sampled_from("ab"), "usage": JSON, "model": JSON}
    )
    | JSON,
    st.dictionaries(NAMES | st.text(), JSON, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "uuid": st.uuids().map(str),
            "parentUuid": JSON,
            "timestamp": JSON,
            "isMeta": st.booleans(),
            "isCompactSummary": st.booleans(),
            "subtype": st.sampled_from(["compact_boundary", "local_command"]),
        },
    ),
)


@settings(max_examples=150)
@given(st.lists(st.lists(RECORDS, min_size=1, max_size=4), min_size=1, max_size=3))
async def test_any_records_come_back_equal_and_in_order(batches: list[list[Any]]) -> None:
    kept = MemoryStore()
    store = SessiontreeSessionStore(storage=kept)
    for batch in batches:
        await store.append(KEY, copy.deepcopy(batch))
    other = SessiontreeSessionStore(storage=kept)
    assert await other.load(KEY) == [record for batch in batches for record in batch]
    with open_session(other) as session:
        session.build_session_context()
        assert session.warnings == []
    await store.aclose()
    await other.aclose()


@pytest.mark.parametrize("text", ["x" * 600_000, "\ud83d half", "1e999"])
async def test_texts_that_sessions_cut_or_respell_come_back_whole(
    store: SessiontreeSessionStore, text: str
) -> None:
    record = prompt(text, toolUseResult={"stdout": text, "lineCount": 3, "partialJson": text})
    await store.append(KEY, [record])
    await store.aclose()
    assert await store.load(KEY) == [record]


async def test_an_image_comes_back(store: SessiontreeSessionStore) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 400}
    record = prompt("")
    record["message"]["content"] = [{"type": "image", "source": source}]
    await store.append(KEY, [record])
    await store.aclose()
    assert await store.load(KEY) == [record]


async def test_a_long_text_is_stored_once(tmp_path: Path) -> None:
    store = SessiontreeSessionStore(storage=f"file:{tmp_path}")
    output = "the same words over and over, " * 100
    asked = answer([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}])
    result = prompt("", toolUseResult={"stdout": output, "stderr": ""})
    block = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    result["message"]["content"] = [block]
    await store.append(KEY, chain(prompt("list"), asked, result))
    await store.aclose()
    assert len(kept_with(tmp_path, output)) == 1
    assert (await store.load(KEY) or [])[2] == result


async def test_a_batch_that_comes_again_adds_nothing(store: SessiontreeSessionStore) -> None:
    records = chain(prompt("a"), answer("b"), prompt("c"))
    await store.append(KEY, records[:2])
    await store.append(KEY, records)
    await store.append(KEY, records)
    assert await store.load(KEY) == records


async def test_records_without_a_uuid_are_all_kept(store: SessiontreeSessionStore) -> None:
    note: Any = {"type": "queue-operation", "operation": "enqueue"}
    await store.append(KEY, [note, note])
    await store.append(KEY, [note])
    assert await store.load(KEY) == [note, note, note]


async def test_a_record_that_was_broken_in_the_file_is_left_out(
    store: SessiontreeSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    records = chain(prompt("a"), answer("b" * 50), prompt("c"))
    await store.append(KEY, records)
    await store.aclose()
    with open_session(store) as session:
        session.get_entries()[2].data["native"]["claude-code"] = {"$": "/nowhere"}
        session.rewrite_entries()
    assert await store.load(KEY) == [records[0], records[2]]
    assert "left out" in caplog.text
    await store.append(KEY, [prompt("d", parentUuid=records[2]["uuid"])])
    assert len(await store.load(KEY) or ()) == 3


# -- as a session ------------------------------------------------------------------------------


def records_of(file: Path) -> Any:
    return read_records(file.read_bytes()).records


async def feed(store: SessiontreeSessionStore, records: Any, size: int) -> None:
    """Append records in batches."""
    for start in range(0, len(records), size):
        await store.append(KEY, records[start : start + size])


def kept_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text, once for each time that they do."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files for _ in range(file.read_text("latin-1").count(text))]


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.jsonl")), ids=lambda file: file.stem[:8])
async def test_the_model_sees_what_it_sees_of_an_imported_transcript(
    store: SessiontreeSessionStore, file: Path, size: int
) -> None:
    await feed(store, records_of(file), size)
    imported = load_foreign(file)
    with open_session(store) as session:
        ours = session.build_session_context().messages
        theirs = imported.build_session_context().messages
        assert [(each["role"], each.get("content")) for each in ours] == [
            (each["role"], each.get("content")) for each in theirs
        ]
        assert session.session_name == imported.title


async def test_parts_of_an_answer_and_its_results_stay_on_one_path(
    store: SessiontreeSessionStore,
) -> None:
    def call(number: int) -> Any:
        block = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {}}
        usage = {"input_tokens": 100, "output_tokens": 10 * number}
        return answer([block], id="msg_1", usage=usage)

    def result(number: int, of: Any) -> Any:
        made = prompt("", parentUuid=of["uuid"])
        made["message"]["content"] = [
            {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"file {number}"}
        ]
        return made

    asked, first, second = chain(prompt("read both"), call(1), call(2))
    one, two = result(1, first), result(2, second)
    last = answer("done", id="msg_2")
    last["parentUuid"] = one["uuid"]
    for record in (asked, first, second, one, two, last):
        await store.append(KEY, [record])
    with open_session(store) as session:
        messages = session.build_session_context().messages
        assert [each["role"] for each in messages] == [
            *("user", "assistant", "assistant", "toolResult", "toolResult", "assistant")
        ]
        assert [each.get("toolName") for each in messages[3:5]] == ["Read", "Read"]
        spent = [each["usage"] for each in messages if "usage" in each]
        assert sum(usage["input"] for usage in spent) == 100
        assert sum(usage["output"] for usage in spent) == 20


async def test_a_rewound_prompt_is_a_branch(store: SessiontreeSessionStore) -> None:
    first = chain(prompt("a"), answer("b"), prompt("c"))
    await store.append(KEY, first)
    await store.append(KEY, [prompt("d", parentUuid=first[1]["uuid"])])
    with open_session(store) as session:
        assert said(session) == [("user", "a"), ("assistant", "b"), ("user", "d")]
        assert len(session.get_children(first[1]["uuid"])) == 2


async def test_subagents_are_roots_of_their_own_and_leave_the_conversation_alone(
    store: SessiontreeSessionStore,
) -> None:
    main = chain(prompt("look around"), answer("I'll ask a subagent."))
    sub = chain(prompt("find the callers"), answer("There are two."))
    await store.append(KEY, main)
    await store.append(SUB, sub)
    with open_session(store) as session:  # as after a crash: nothing was closed
        assert said(session)[0] == ("user", "look around")
        assert len(session.get_children(None)) == 2
    more = prompt("and now?", parentUuid=main[1]["uuid"])
    await store.append(KEY, [more])
    await store.append(SUB, sub)
    assert await store.load(KEY) == [*main, more]
    assert await store.load(SUB) == sub
    assert await store.list_subkeys({"project_key": PROJECT, "session_id": "s"}) == [
        "subagents/agent-a1"
    ]
    with open_session(store) as session:
        assert [text for _, text in said(session)] == [
            "look around",
            "I'll ask a subagent.",
            "and now?",
        ]


async def test_a_deleted_subagent_may_come_again(store: SessiontreeSessionStore) -> None:
    sub = chain(prompt("find"), answer("found"))
    await store.append(KEY, [prompt("x")])
    await store.append(SUB, sub)
    await store.delete(SUB)
    assert await store.load(SUB) is None
    await store.append(SUB, sub)
    assert await store.load(SUB) == sub


async def test_titles_name_the_session(store: SessiontreeSessionStore) -> None:
    def title(kind: str, key: str, text: str) -> Any:
        return {"type": kind, key: text}

    await store.append(KEY, [prompt("a"), title("ai-title", "aiTitle", "Made up")])
    with open_session(store) as session:
        assert session.session_name == "Made up"
    await store.append(KEY, [title("custom-title", "customTitle", "Chosen")])
    await store.append(KEY, [title("ai-title", "aiTitle", "Made up later")])
    with open_session(store) as session:
        assert session.session_name == "Chosen"


async def test_a_project_is_a_scope(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    anna = SessiontreeSessionStore(storage=url, scope="anna")
    ben = SessiontreeSessionStore(storage=url, scope="ben")
    await anna.append(KEY, chain(prompt("the kettle whistles"), answer("yes")))
    assert await ben.load(KEY) is None
    assert await ben.list_sessions(PROJECT) == []
    scope = anna.scope_of(PROJECT)
    (listed,) = SessionManager.list(None, scope=scope, storage=url)
    assert (listed.id, listed.cwd) == ("s", "/work/app")
    (hit,) = open_store(url).search("kettle", scope=scope)
    assert hit.session.id == "s"


async def test_other_sessions_of_a_scope_are_none_of_the_sdks(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    store = SessiontreeSessionStore(storage=url)
    with SessionManager.create("/work", id="x", scope=PROJECT, storage=url) as session:
        session.append_message({"role": "user", "content": "hello", "timestamp": 0})
    assert await store.list_sessions(PROJECT) == []


@pytest.mark.parametrize("permanently", [False, True])
async def test_a_deleted_session_is_in_the_trash_unless_it_is_removed_for_good(
    tmp_path: Path, permanently: bool
) -> None:
    url = f"file:{tmp_path}"
    store = SessiontreeSessionStore(storage=url, delete_permanently=permanently)
    records = chain(prompt("a secret"), answer("kept"))
    await store.append(KEY, records)
    await store.delete(KEY)
    assert await store.load(KEY) is None
    left = kept_with(tmp_path, "a secret")
    assert bool(left) != permanently
    if not permanently:
        open_store(url).restore("s")
        assert await store.load(KEY) == records


# -- the SDK's own functions -------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> str:
    folder = tmp_path / "project"
    folder.mkdir()
    return str(folder)


async def test_the_sdk_lists_reads_renames_forks_and_deletes(
    store: SessiontreeSessionStore, project: str
) -> None:
    session_id = str(uuid.uuid4())
    key: sdk.SessionKey = {
        "project_key": sdk.project_key_for_directory(project),
        "session_id": session_id,
    }
    records = chain(prompt("why?"), answer("because"), prompt("go on"), answer("done"))
    await store.append(key, records)
    (listed,) = await sdk.list_sessions_from_store(store, directory=project)
    assert (listed.session_id, listed.first_prompt) == (session_id, "why?")
    messages = await sdk.get_session_messages_from_store(store, session_id, directory=project)
    assert [each.uuid for each in messages] == [each["uuid"] for each in records]
    await sdk.rename_session_via_store(store, session_id, "Whys", directory=project)
    await sdk.tag_session_via_store(store, session_id, "asked", directory=project)
    (listed,) = await sdk.list_sessions_from_store(store, directory=project)
    assert (listed.custom_title, listed.tag) == ("Whys", "asked")
    fork = await sdk.fork_session_via_store(
        store, session_id, directory=project, up_to_message_id=records[1]["uuid"]
    )
    forked = await sdk.get_session_messages_from_store(store, fork.session_id, directory=project)
    assert [each.message["content"] for each in forked] == ["why?", "because"]
    await sdk.delete_session_via_store(store, session_id, directory=project)
    assert [
        each.session_id for each in await sdk.list_sessions_from_store(store, directory=project)
    ] == [fork.session_id]


async def test_the_summary_is_the_one_that_all_records_give(store: SessiontreeSessionStore) -> None:
    await feed(store, records_of(TRANSCRIPT), 3)
    kept = await store.load(KEY) or []
    whole = sdk.fold_session_summary(None, KEY, kept)
    (summary,) = await store.list_session_summaries(PROJECT)
    (listed,) = await store.list_sessions(PROJECT)
    assert summary["data"] == whole["data"]
    assert summary["mtime"] == listed["mtime"]
