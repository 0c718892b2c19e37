"""The frameworks' adapters on PostgreSQL: what each of them must do, by its own tests' driver."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from tests.adapters import (
    test_agent_framework,
    test_claude_agent_sdk,
    test_google_adk,
    test_langgraph,
    test_openai_agents,
    test_pydantic_ai,
    test_strands,
)
from tests.adapters.contract import SharedAdapterContract

from sessiontree.adapters.claude_agent_sdk import SessiontreeSessionStore
from sessiontree.adapters.pydantic_ai import SessiontreeConversationStore
from sessiontree.stores.postgres.database import Database


class OnPostgres(SharedAdapterContract):
    """One server, and a tenant for each test."""

    @pytest.fixture
    def url(self, url: str) -> str:
        return url


class TestPydanticAI(OnPostgres):
    driver = test_pydantic_ai.Driver


class TestOpenAIAgents(OnPostgres):
    driver = test_openai_agents.Driver


class TestClaude(OnPostgres):
    driver = test_claude_agent_sdk.Driver
    session_scope = test_claude_agent_sdk.TestOnFiles.session_scope


class TestStrands(OnPostgres):
    driver = test_strands.Driver


class TestGoogleADK(OnPostgres):
    driver = test_google_adk.Driver
    session_scope = test_google_adk.TestOnFiles.session_scope


class TestAgentFramework(OnPostgres):
    driver = test_agent_framework.Driver


class TestLangGraph(OnPostgres):
    driver = test_langgraph.Driver


async def test_the_vendors_conformance_suite_passes_for_langgraph(url: str) -> None:
    await test_langgraph.check_conformance(url)


async def test_the_vendors_conformance_suite_passes_for_claude(url: str) -> None:
    made: list[SessiontreeSessionStore] = []

    def make() -> SessiontreeSessionStore:
        made.append(SessiontreeSessionStore(storage=url, scope=f"suite-{len(made)}"))
        return made[-1]

    await run_session_store_conformance(make)
    assert len(made) > 10
    for store in made:
        await store.aclose()


@pytest.mark.parametrize("length", [2, 200])
async def test_a_history_is_read_in_one_query(
    url: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it there is one that asks whether the session is still there, whatever the length."""
    one = SessiontreeConversationStore(storage=url)
    texts = [f"{number}" for number in range(length)]
    saved = await test_pydantic_ai.said(one, "long", *texts)
    record = await one.read_record("long")
    assert record is not None
    sent: list[Any] = []
    attempt = Database.attempt

    def counting(self: Database, work: Any) -> Any:
        sent.append(work)
        return attempt(self, work)

    monkeypatch.setattr(Database, "attempt", counting)
    history = await one.read_history(record.head_id)
    assert [entry.message for entry in history] == saved.messages
    assert len(sent) == 2
    sent.clear()
    two = SessiontreeConversationStore(storage=url)
    assert await two.load("long") is not None  # its record, then its history
    assert len(sent) < 10
    await one.aclose()
    await two.aclose()
