"""ADK's session service on Sessiontree."""

from __future__ import annotations

import asyncio
import copy
import logging
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import processes
from tests.adapters.contract import AdapterContract, AsyncAdapterOnFiles
from tests.adapters.test_verbatim import same

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.google_adk import SessiontreeSessionService
from sessiontree.model.entries import Entry

APP, USER = "app", "user"


class Driver:
    """One service; gets the session before each event, as ADK's runner does before each turn."""

    def __init__(self, url: Any, scope: str | None = None) -> None:
        self.service = SessiontreeSessionService(storage=url, scope=scope)

    async def add(self, session_id: str, text: str) -> None:
        await self._append(session_id, asked(text))

    async def answer(self, session_id: str, text: str) -> None:
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=2
        )
        await self._append(session_id, said(text, usage_metadata=usage))

    async def _append(self, session_id: str, event: Event) -> None:
        session = await get(self.service, session_id)
        if session is None:
            try:
                session = await create(self.service, session_id)
            except AlreadyExistsError:
                session = await get(self.service, session_id)
                assert session is not None
        await self.service.append_event(session, event)

    async def texts(self, session_id: str) -> list[str]:
        session = await get(self.service, session_id)
        return [] if session is None else texts(session.events)

    async def close(self) -> None:
        await self.service.aclose()


class TestInMemory(AdapterContract):
    driver = Driver
    session_scope = f"{APP}/{USER}"


class TestOnFiles(AsyncAdapterOnFiles):
    driver = Driver
    session_scope = f"{APP}/{USER}"


def asked(text: str, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(**{"invocation_id": "i", "author": "user", "content": content, **fields})


def said(text: str, **fields: Any) -> Event:
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(**{"invocation_id": "i", "author": "helper", "content": content, **fields})


def setting(delta: dict[str, Any], **fields: Any) -> Event:
    return said("set", actions=EventActions(state_delta=delta), **fields)


def texts(events: list[Event]) -> list[str]:
    return [
        event.content.parts[0].text or ""
        for event in events
        if event.content and event.content.parts
    ]


async def create(
    service: Any, session_id: str | None = "s", state: dict[str, Any] | None = None
) -> Session:
    made: Session = await service.create_session(
        app_name=APP, user_id=USER, session_id=session_id, state=state
    )
    return made


async def get(service: Any, session_id: str = "s", **config: Any) -> Session | None:
    found: Session | None = await service.get_session(
        app_name=APP, user_id=USER, session_id=session_id, config=GetSessionConfig(**config)
    )
    return found


async def there(service: Any, session_id: str = "s", **config: Any) -> Session:
    found = await get(service, session_id, **config)
    assert found is not None
    return found


@pytest.fixture
def service(kept: MemoryStore) -> SessiontreeSessionService:
    return SessiontreeSessionService(storage=kept)


def another(kept: MemoryStore) -> SessiontreeSessionService:
    return SessiontreeSessionService(storage=kept)


def opened(kept: MemoryStore, session_id: str = "s") -> SessionManager:
    ref = kept.locate(session_id, scope=f"{APP}/{USER}")
    assert ref is not None
    return SessionManager.open(ref, storage=kept)


# -- exactness ---------------------------------------------------------------------------------

words = st.text(max_size=30) | st.sampled_from(["blob:sha256:" + "0" * 64, "x" * 60])
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | words
numbers = st.floats(allow_nan=False, allow_infinity=False)
keys = words | st.sampled_from(["$", "partialJson", "lineCount"])
values = st.recursive(
    scalars | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=3)
blobs = st.builds(
    types.Blob,
    data=st.binary(max_size=40),
    mime_type=st.sampled_from(["image/png", "audio/wav", "text/plain"]),
)
parts = (
    st.builds(types.Part, text=words, thought=st.none() | st.booleans())
    | st.builds(types.Part, text=words, thought_signature=st.binary(max_size=9))
    | st.builds(
        types.Part,
        function_call=st.builds(types.FunctionCall, id=words, name=words, args=objects),
    )
    | st.builds(
        types.Part,
        function_response=st.builds(types.FunctionResponse, id=words, name=words, response=objects),
    )
    | st.builds(types.Part, inline_data=blobs)
    | st.builds(types.Part, file_data=st.builds(types.FileData, file_uri=words, mime_type=words))
    | st.builds(
        types.Part,
        executable_code=st.builds(
            types.ExecutableCode, code=words, language=st.just(types.Language.PYTHON)
        ),
    )
)
contents = st.builds(
    types.Content, role=st.sampled_from(["user", "model"]), parts=st.lists(parts, max_size=4)
)
deltas = st.dictionaries(words.filter(lambda key: not key.startswith("temp:")), values, max_size=3)
actions = st.builds(
    EventActions,
    state_delta=deltas,
    artifact_delta=st.dictionaries(words, st.integers(0, 9), max_size=2),
    transfer_to_agent=st.none() | words,
    escalate=st.none() | st.booleans(),
    agent_state=st.none() | objects,
)
counts = st.integers(0, 10**6)
usages = st.builds(
    types.GenerateContentResponseUsageMetadata,
    prompt_token_count=counts,
    candidates_token_count=counts,
    cached_content_token_count=st.none() | counts,
)
events = st.builds(
    Event,
    content=st.none() | contents,
    author=st.sampled_from(["user", "helper", ""]),
    invocation_id=words,
    actions=actions,
    branch=st.none() | words,
    output=values,
    long_running_tool_ids=st.none() | st.sets(words, max_size=2),
    timestamp=st.floats(0, 2**32),
    custom_metadata=st.none() | objects,
    error_code=st.none() | words,
    error_message=st.none() | words,
    model_version=st.none() | words,
    usage_metadata=st.none() | usages,
    turn_complete=st.none() | st.booleans(),
    output_transcription=st.none() | st.builds(types.Transcription, text=words),
)


def dumped(event: Event) -> Any:
    return event.model_dump(mode="json")


@settings(deadline=None)
@given(st.lists(events, min_size=1, max_size=4))
def test_events_come_back_exactly(given_events: list[Event]) -> None:
    async def check() -> None:
        kept = MemoryStore()
        service, expected = another(kept), [copy.deepcopy(event) for event in given_events]
        session = await create(service)
        for event in given_events:
            await service.append_event(session, event)
        found = (await there(another(kept))).events
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert same(dumped(one), dumped(other))
        assert [dumped(each) for each in session.events] == [dumped(each) for each in expected]

    asyncio.run(check())


@settings(deadline=None)
@given(st.dictionaries(keys, values, max_size=4), st.lists(deltas, max_size=5))
def test_state_is_that_of_adks_own_service(first: Any, changes: list[Any]) -> None:
    async def check() -> None:
        kept = MemoryStore()
        ours, theirs = another(kept), InMemorySessionService()
        states = []
        for service in (ours, theirs):
            session = await create(service, "s", copy.deepcopy(first))
            for number, delta in enumerate(changes):
                await service.append_event(
                    session, setting(copy.deepcopy(delta), timestamp=number, id=str(number))
                )
            states += [session.state, (await there(service)).state]
        states.append((await there(another(kept))).state)
        listed = await another(kept).list_sessions(app_name=APP, user_id=USER)
        states.append(listed.sessions[0].state)
        assert all(state == states[3] for state in states)

    asyncio.run(check())


# -- what ADK expects --------------------------------------------------------------------------


async def test_a_session_is_created_once(kept: MemoryStore) -> None:
    service = another(kept)
    made = await create(service, "  s ", {"a": 1, "app:b": 2, "user:c": 3, "temp:d": 4})
    assert (made.id, made.app_name, made.user_id) == ("s", APP, USER)
    assert made.state == {"a": 1, "app:b": 2, "user:c": 3}
    with pytest.raises(AlreadyExistsError):
        await create(another(kept), "s", {"app:b": 9})
    found = await there(another(kept))
    assert found.state == made.state
    assert found.last_update_time == made.last_update_time > 0
    assert (await create(service, None)).id != (await create(service, None)).id


async def test_what_is_not_there_is_none_or_an_error(service: SessiontreeSessionService) -> None:
    assert await get(service, "nowhere") is None
    with pytest.raises(ValueError, match="Session nowhere not found"):
        await service.append_event(
            Session(app_name=APP, user_id=USER, id="nowhere"), setting({"user:x": 1})
        )
    assert await service.get_user_state(app_name=APP, user_id=USER) == {}
    await service.delete_session(app_name=APP, user_id=USER, session_id="nowhere")
    assert (await service.list_sessions(app_name=APP)).sessions == []


async def test_partial_events_are_not_kept(service: SessiontreeSessionService) -> None:
    session = await create(service)
    event = said("Tok", partial=True)
    assert await service.append_event(session, event) is event
    assert session.events == (await there(service)).events == []


async def test_an_event_that_comes_twice_is_kept_once(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service)
    event = setting({"n": 1, "user:n": 1})
    await service.append_event(session, event)
    await service.append_event(session, setting({"n": 2, "user:n": 2}))
    await service.append_event(session, event)
    stale = await there(another(kept), num_recent_events=0)
    await another(kept).append_event(stale, copy.deepcopy(event))
    found = await there(another(kept))
    assert len(found.events) == len(session.events) == 2
    assert found.state == {"n": 2, "user:n": 2}


async def test_different_events_may_have_one_id(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service)
    for text in ("one", "two"):
        await service.append_event(session, asked(text, id="same"))
    assert texts(session.events) == texts((await there(another(kept))).events) == ["one", "two"]


async def test_ids_of_events_may_be_any_text(service: SessiontreeSessionService) -> None:
    session = await create(service)
    ids = ["a\nb", "x" * 200, "é/é", " "]
    for event_id in ids:
        await service.append_event(session, setting({"app:x": event_id}, id=event_id))
    found = await there(service)
    assert [event.id for event in found.events] == ids
    assert found.state == {"app:x": " "}


async def test_only_the_events_that_are_wanted_are_read(
    kept: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = another(kept)
    session = await create(service, "s", {"a": 0})
    for number in range(400):
        event = (asked, said)[number % 2](f"q{number}", timestamp=float(number))
        if number == 7:
            event.actions.state_delta["b"] = 7
        await service.append_event(session, event)
    await service.aclose()
    decoded: list[str] = []
    decode = Entry.decode

    def counting(self: Entry) -> Any:
        decoded.append(self.id)
        return decode(self)

    monkeypatch.setattr(Entry, "decode", counting)
    cases: list[tuple[dict[str, Any], range]] = [
        ({"num_recent_events": 3}, range(397, 400)),
        ({"after_timestamp": 397.0}, range(397, 400)),
        ({"num_recent_events": 2, "after_timestamp": 397.0}, range(398, 400)),
        ({"num_recent_events": 9, "after_timestamp": 398.5}, range(399, 400)),
        ({"num_recent_events": 0}, range(0)),
        ({"after_timestamp": 1000.0}, range(0)),
    ]
    for config, wanted in cases:
        decoded.clear()
        found = await there(another(kept), **config)
        assert texts(found.events) == [f"q{number}" for number in wanted]
        assert found.state == {"a": 0, "b": 7}
        assert found.last_update_time == 399.0
        assert len(decoded) < 130
    assert len((await there(another(kept))).events) == 400


async def test_an_event_that_comes_late_hides_none_before_it(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service)
    for at in (1.0, 5.0, 3.0, 2.0, 6.0):
        await service.append_event(session, asked(str(at), timestamp=at))
    found = await there(another(kept), after_timestamp=4.0)
    assert texts(found.events) == ["5.0", "6.0"]
    found = await there(another(kept), after_timestamp=3.0)
    assert texts(found.events) == ["5.0", "3.0", "6.0"]


async def test_sessions_are_listed_by_when_they_were_used(kept: MemoryStore) -> None:
    service = another(kept)
    for user_id, session_id, at in [("u", "b", 3.0), ("v/w", "a", 1.0), ("u", "c", 2.0)]:
        session = await service.create_session(
            app_name=APP, user_id=user_id, session_id=session_id, state={"user:at": at, "own": at}
        )
        await service.append_event(session, asked("-", timestamp=at))
    await service.create_session(app_name="other", user_id="u", session_id="z")
    again = another(kept)
    everybody = (await again.list_sessions(app_name=APP)).sessions
    assert [(each.user_id, each.id) for each in everybody] == [
        *(("v/w", "a"), ("u", "c"), ("u", "b")),
    ]
    assert [each.events for each in everybody] == [[], [], []]
    assert everybody[0].state == {"own": 1.0, "user:at": 1.0}
    assert [each.last_update_time for each in everybody] == [1.0, 2.0, 3.0]
    ours = (await again.list_sessions(app_name=APP, user_id="u")).sessions
    assert [each.id for each in ours] == ["c", "b"]
    session = await there_of(again, APP, "u", "c")
    await service.append_event(session, asked("-", timestamp=9.0))
    ours = (await again.list_sessions(app_name=APP, user_id="u")).sessions
    assert [each.id for each in ours] == ["b", "c"]
    await again.delete_session(app_name=APP, user_id="u", session_id="b")
    ours = (await again.list_sessions(app_name=APP, user_id="u")).sessions
    assert [each.id for each in ours] == ["c"]


async def test_a_deleted_session_is_in_the_trash(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service, "s", {"a": 1, "user:b": 1})
    await service.append_event(session, asked("hello"))
    await service.delete_session(app_name=APP, user_id=USER, session_id="s")
    assert await get(service) is None
    assert [each.session_id for each in kept.list_trash()] == ["s"]
    with pytest.raises(ValueError, match="not found"):
        await service.append_event(session, asked("more"))
    assert (await create(service)).state == {"user:b": 1}
    gone = SessiontreeSessionService(storage=kept, delete_permanently=True)
    await gone.delete_session(app_name=APP, user_id=USER, session_id="s")
    assert len(kept.list_trash()) == 1


# -- users and apps ----------------------------------------------------------------------------


async def test_users_and_apps_have_a_state_of_their_own(kept: MemoryStore) -> None:
    service = another(kept)

    async def state(app: str, user: str) -> Any:
        session_id = f"{app}-{user}"
        found = await service.get_session(app_name=app, user_id=user, session_id=session_id)
        assert found is not None
        return found.state

    for app, user in (("a", "u"), ("a", "v"), ("a/u", "w"), ("b", "u")):
        await service.create_session(app_name=app, user_id=user, session_id=f"{app}-{user}")
    session = await service.get_session(app_name="a", user_id="u", session_id="a-u")
    assert session is not None
    await service.append_event(session, setting({"app:x": 1, "user:y": 2, "temp:t": 3, "z": 4}))
    assert session.state == {"app:x": 1, "user:y": 2, "temp:t": 3, "z": 4}
    assert await state("a", "u") == {"app:x": 1, "user:y": 2, "z": 4}
    assert await state("a", "v") == {"app:x": 1}
    assert await state("a/u", "w") == await state("b", "u") == {}
    assert await another(kept).get_user_state(app_name="a", user_id="u") == {"y": 2}
    stored = (await there_of(another(kept), "a", "u", "a-u")).events[-1]
    assert stored.actions.state_delta == {"app:x": 1, "user:y": 2, "z": 4}


async def there_of(service: Any, app: str, user: str, session_id: str) -> Session:
    found = await service.get_session(app_name=app, user_id=user, session_id=session_id)
    assert isinstance(found, Session)
    return found


async def test_no_session_takes_the_place_of_a_state(kept: MemoryStore) -> None:
    service = another(kept)
    for user_id in ("app", ":state", "user:x", ""):
        session = await service.create_session(
            app_name=APP, user_id=user_id, session_id="app", state={"user:me": user_id}
        )
        await service.append_event(session, asked("hello"))
    for user_id in ("app", ":state", "user:x", ""):
        assert (await there_of(service, APP, user_id, "app")).state == {"user:me": user_id}
    assert len((await service.list_sessions(app_name=APP)).sessions) == 4


async def test_the_state_of_users_and_apps_is_not_listed(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service, "s", {"app:a": 1, "user:b": 1})
    await service.append_event(session, said("hello"))
    assert [info.id for info in kept.list()] == ["s"]


_SETTER = """
import asyncio, sys
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from sessiontree.adapters.google_adk import SessiontreeSessionService

url, mark = sys.argv[1:]

async def main():
    service = SessiontreeSessionService(storage=url)
    session = await service.create_session(app_name="app", user_id="user", session_id=mark)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(10):
        delta = {f"app:{mark}{number}": number, f"user:{mark}": number, "app:last": mark}
        event = Event(author="a", actions=EventActions(state_delta=delta))
        await service.append_event(session, event)

asyncio.run(main())
"""


async def test_several_processes_set_the_state_of_an_app(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    started = [processes.start(_SETTER, url, mark) for mark in "xyz"]
    for process in started:
        processes.wait_for(process, "ready")
    for process in started:
        print("go", file=process.stdin, flush=True)
    for process in started:
        _, errors = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, errors
    service = SessiontreeSessionService(storage=url)
    state = (await there(service, "x")).state
    for mark in "xyz":
        assert state[f"user:{mark}"] == 9
        assert [state[f"app:{mark}{number}"] for number in range(10)] == [*range(10)]
    assert state["app:last"] in "xyz"
    await service.aclose()


# -- sessions that others have changed ---------------------------------------------------------


async def test_what_others_have_added_comes_into_a_stale_session(kept: MemoryStore) -> None:
    one, two = another(kept), another(kept)
    session = await create(one)
    await two.append_event(await there(two), setting({"theirs": 1, "both": 1, "user:u": 1}))
    await one.append_event(session, setting({"mine": 2, "both": 1}))
    assert [each.actions.state_delta for each in session.events] == [
        {"theirs": 1, "both": 1, "user:u": 1},
        {"mine": 2, "both": 1},
    ]
    assert session.state == {"theirs": 1, "mine": 2, "both": 1, "user:u": 1}
    assert session.state == (await there(another(kept))).state
    assert session.events == (await there(another(kept))).events


async def test_a_change_of_somebody_else_is_not_lost(kept: MemoryStore) -> None:
    one, two = another(kept), another(kept)
    session = await create(one, "s", {"count": 0, "user:count": 0})
    await two.append_event(await there(two), setting({"count": 1}))
    with pytest.raises(StaleSessionError, match="'count' of session s was changed meanwhile"):
        await one.append_event(session, setting({"count": 1.5, "user:count": 9}))
    found = await there(another(kept))
    assert found.state == {"count": 1, "user:count": 0}
    assert len(found.events) == 1
    await one.append_event(found, setting({"count": 2}))
    assert (await there(another(kept))).state["count"] == 2


async def test_a_session_made_by_hand_takes_events(kept: MemoryStore) -> None:
    service = another(kept)
    await service.append_event(await create(service), asked("one"))
    await service.append_event(Session(app_name=APP, user_id=USER, id="s"), asked("two"))
    found = await there(another(kept))
    assert texts(found.events) == ["one", "two"]
    by_hand = Session(app_name=APP, user_id=USER, id="s", events=[*found.events])
    await service.append_event(found, asked("three"))
    await service.append_event(by_hand, asked("four"))
    assert texts(by_hand.events) == ["one", "two", "three", "four"]
    strange = Session(app_name=APP, user_id=USER, id="s", events=[asked("never stored")])
    with pytest.raises(StaleSessionError):
        await service.append_event(strange, asked("five"))


async def test_events_appended_at_once_to_one_session_come_once(
    service: SessiontreeSessionService,
) -> None:
    session = await create(service)
    await asyncio.gather(
        *(service.append_event(session, setting({"n": n}, id=str(n))) for n in range(6))
    )
    assert [event.id for event in session.events] == [*map(str, range(6))]
    assert session.state == (await there(service)).state == {"n": 5}


# -- rewinding ---------------------------------------------------------------------------------


class Scripted(BaseLlm):
    """Answers with the number of contents it was asked with; calls a tool if told to."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [])[-1]
        part = types.Part(text=f"{len(llm_request.contents)} contents")
        if last.text and last.text.startswith("Remember"):
            call = types.FunctionCall(name="remember", args={"what": last.text.split()[-1]})
            part = types.Part(function_call=call)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=2, cached_content_token_count=4
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=usage,
            model_version="scripted-1",
        )


def remember(what: str, tool_context: Any) -> dict[str, Any]:
    """Remember something."""
    tool_context.state["remembered"] = what
    tool_context.state["user:last"] = what
    return {"result": f"noted {what}"}


def runner(service: Any) -> Runner:
    agent = LlmAgent(name="helper", model=Scripted(model="s"), tools=[remember], output_key="said")
    return Runner(app_name=APP, agent=agent, session_service=service)


async def ask(service: Any, text: str) -> str:
    """A turn; its invocation."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    invocation = ""
    async for event in runner(service).run_async(user_id=USER, session_id="s", new_message=message):
        invocation = event.invocation_id
    return invocation


async def test_an_agent_talks_calls_tools_and_continues(kept: MemoryStore) -> None:
    await create(another(kept))
    await ask(another(kept), "Remember cheese")
    await ask(another(kept), "And now?")
    session = await there(another(kept))
    assert session.state == {
        "remembered": "cheese",
        "user:last": "cheese",
        "said": "5 contents",
    }
    with opened(kept) as manager:
        messages = manager.build_session_context().messages
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "toolResult", "assistant", "user", "assistant"),
    ]
    assert messages[1]["content"][0]["name"] == messages[2]["toolName"] == "remember"
    assert messages[2]["content"] == [{"type": "text", "text": "noted cheese"}]
    assert (messages[1]["agentName"], messages[1]["model"]) == ("helper", "scripted-1")
    usage = messages[1]["usage"]
    assert (usage["input"], usage["output"], usage["cacheRead"]) == (6, 2, 4)


async def test_a_rewind_is_a_branch(kept: MemoryStore) -> None:
    service = another(kept)
    await create(service, "s", {"mood": "calm"})
    await ask(service, "Remember ham")
    second = await ask(service, "Remember cheese")
    await ask(service, "And now?")
    before = await there(service, num_recent_events=None)
    await runner(service).rewind_async(
        user_id=USER, session_id="s", rewind_before_invocation_id=second
    )
    found = await there(another(kept))
    live = [event for event in found.events if event.content]
    assert [dumped(event) for event in live] == [dumped(event) for event in before.events[:4]]
    assert found.state == {
        "mood": "calm",
        "remembered": "ham",
        "said": "3 contents",
        "user:last": "cheese",
    }
    await ask(service, "Or rather?")
    after = await there(another(kept))
    assert after.state["said"] == "5 contents"
    with opened(kept) as manager:
        roles = [message["role"] for message in manager.build_session_context().messages]
        assert len(roles) == 6
        every = [entry for entry in manager.get_entries() if entry.type == "message"]
    assert len(every) == 12


async def test_a_copy_is_rewound_with_its_session(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service, "s", {"a": 0})
    for number in range(3):
        await service.append_event(
            session, setting({"a": number, "user:u": number}, invocation_id=f"i{number}")
        )
    other = await there(service)
    rewind = Event(author="user", actions=EventActions(rewind_before_invocation_id="i1"))
    rewind.actions.state_delta["a"] = 0
    await service.append_event(session, rewind)
    found = await there(another(kept))
    assert session.events == found.events
    assert [event.invocation_id for event in found.events] == ["i0", ""]
    assert session.state == found.state == {"a": 0, "user:u": 2}
    with pytest.raises(StaleSessionError, match="taken back"):
        await service.append_event(other, setting({"b": 1}))
    await service.append_event(session, setting({"b": 1}))
    assert (await there(another(kept))).state == {"a": 0, "b": 1, "user:u": 2}


async def test_a_rewind_to_what_is_not_there_is_an_event_like_others(
    service: SessiontreeSessionService,
) -> None:
    session = await create(service)
    await service.append_event(session, setting({"a": 1}))
    rewind = Event(author="user", actions=EventActions(rewind_before_invocation_id="nope"))
    await service.append_event(session, rewind)
    assert len((await there(service)).events) == len(session.events) == 2


async def test_going_back_in_the_tree_takes_the_state_back(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service)
    await service.append_event(session, setting({"a": 1}))
    with opened(kept) as manager:
        first = manager.leaf_id
    await service.append_event(session, setting({"a": 2}))
    with opened(kept) as manager:
        assert first is not None
        manager.branch(first)
    found = await there(service)
    assert found.state == {"a": 1}
    assert len(found.events) == 1


# -- versions to come, and damage --------------------------------------------------------------


def change(kept: MemoryStore, work: Any) -> None:
    """Change what is kept of the events."""
    with opened(kept) as manager:
        work([entry.data for entry in manager.get_entries() if "native" in entry.data])
        manager.rewrite_entries()


async def test_fields_of_a_newer_version_stay(kept: MemoryStore) -> None:
    service = another(kept)
    session = await create(service)
    await service.append_event(session, setting({"a": 1}))
    await service.aclose()

    def add_fields(entries: list[Any]) -> None:
        event = entries[0]["native"]["google-adk"]
        event["later"] = event["actions"]["later"] = {"x": 1}
        event["content"]["parts"][0]["later"] = 1

    change(kept, add_fields)
    found = await there(another(kept))
    assert texts(found.events) == ["set"]
    assert found.state == {"a": 1}
    await another(kept).append_event(found, asked("and on"))
    with opened(kept) as manager:
        event = manager.get_entries()[1].data["native"]["google-adk"]
        assert event["later"] == event["actions"]["later"] == {"x": 1}


async def test_an_event_that_cannot_be_read_is_left_out_with_a_warning(
    kept: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    service = another(kept)
    session = await create(service, "s", {"a": 0})
    for number in range(1, 5):
        await service.append_event(session, asked(str(number)))
    await service.aclose()
    broken: list[str] = []

    def damage(entries: list[Any]) -> None:
        entries[1]["native"]["google-adk"]["content"] = {"$": "/not/there"}
        entries[2]["native"]["google-adk"]["timestamp"] = "yesterday"
        broken.extend(entry["id"] for entry in entries[1:3])

    change(kept, damage)
    with caplog.at_level(logging.WARNING):
        found = await there(another(kept))
    assert texts(found.events) == ["1", "4"]
    assert all(entry_id in caplog.text for entry_id in broken)
    await another(kept).append_event(found, asked("5"))
    listed = await another(kept).list_sessions(app_name=APP)
    assert listed.sessions[0].state == {"a": 0}


async def test_a_broken_state_is_left_out_with_a_warning(
    kept: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    service = another(kept)
    await create(service, "s", {"app:a": 1, "user:b": 2})
    await create(service, "t", {"app:c": 3})
    await service.aclose()
    ref = kept.locate("app", scope=f"{APP}/:state")
    assert ref is not None
    with SessionManager.open(ref, storage=kept) as manager:
        entries = [entry for entry in manager.get_entries() if "data" in entry.data]
        entries[1].data["data"] = [1]
        entries[-1].data["data"]["later"] = True
        manager.rewrite_entries()
    with caplog.at_level(logging.WARNING):
        found = await there(another(kept), "t")
    assert found.state == {"app:c": 3, "user:b": 2}
    assert entries[1].id in caplog.text


def test_without_adk_the_adapter_says_what_to_install() -> None:
    code = """
import sys
sys.modules["google.adk"] = None
try:
    import sessiontree.adapters.google_adk
except ModuleNotFoundError as error:
    print(error)
"""
    assert 'pip install "sessiontree[adk]"' in processes.run(code)
    assert "google.adk" in sys.modules
