"""The frameworks' adapters on PostgreSQL: what each of them must do, by its own tests' driver."""

from __future__ import annotations

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from tests.adapters import (
    test_agent_framework,
    test_claude_agent_sdk,
    test_google_adk,
    test_openai_agents,
    test_pydantic_ai,
    test_strands,
)
from tests.adapters.contract import SharedAdapterContract

from sessiontree.adapters.claude_agent_sdk import SessiontreeSessionStore


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


async def test_the_vendors_conformance_suite_passes_for_claude(url: str) -> None:
    made: list[SessiontreeSessionStore] = []

    def make() -> SessiontreeSessionStore:
        made.append(SessiontreeSessionStore(storage=url, scope=f"suite-{len(made)}"))
        return made[-1]

    await run_session_store_conformance(make)
    assert len(made) > 10
    for store in made:
        await store.aclose()
