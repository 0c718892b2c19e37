"""The offline agent: rules, tools, streaming, aborts and summaries without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import text_of, user

from sessiontree.agents.offline import SIGNATURE, OfflineAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools
from sessiontree.core.summaries import (
    SYSTEM_PROMPT,
    branch_prompt,
    compaction_prompt,
    conversation_text,
    short_summary,
    turn_prefix_prompt,
)
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.models import Model, Prices


async def yes(_: Confirmation) -> bool:
    return True


@pytest.fixture
def agent(project: Path) -> OfflineAgent:
    (project / "notes.md").write_text("first line\nthe needle\n")
    return OfflineAgent(Toolbox(project_tools(project), confirm=yes))


def test_it_is_an_agent(agent: OfflineAgent) -> None:
    assert isinstance(agent, Agent)


async def test_it_says_plainly_what_it_is_and_what_it_can_do(agent: OfflineAgent) -> None:
    pieces: list[str] = []

    def hear(event: events.AgentEvent) -> None:
        if isinstance(event, events.MessageUpdate):
            pieces.append(event.delta.text)

    agent.subscribe(hear)
    await agent.prompt([user("Please fix the bug in the parser")])
    answer = agent.messages[-1]
    assert "offline agent" in text_of(answer)
    assert "ANTHROPIC_API_KEY" in text_of(answer)
    assert text_of(answer).endswith(SIGNATURE)
    assert "".join(pieces) == text_of(answer)
    assert len(pieces) > 20, "it streams"
    assert answer["stopReason"] == "stop"


@pytest.mark.parametrize(
    ("prompt", "tool", "expected"),
    [
        ("list", "ls", "notes.md"),
        ("List files", "ls", "notes.md"),
        ("ls .", "ls", "notes.md"),
        ("read notes.md", "read", "first line"),
        ("read @notes.md", "read", "first line"),
        ("show `notes.md`", "read", "first line"),
        ("grep needle", "grep", "notes.md:2: the needle"),
        ('search for "the needle" in .', "grep", "notes.md:2: the needle"),
        ("run: echo one two", "bash", "one two"),
        ("read missing.txt", "read", "No such file"),
        ("read ../outside/secret.txt", "read", "leads out of the project"),
    ],
)
async def test_it_calls_tools_by_simple_rules(
    agent: OfflineAgent, prompt: str, tool: str, expected: str
) -> None:
    await agent.prompt([user(prompt)])
    _, call, result, answer = agent.messages
    assert call["stopReason"] == "toolUse"
    assert call["content"][-1]["name"] == tool
    assert result["toolCallId"] == call["content"][-1]["id"]
    assert expected in text_of(result)
    assert expected in text_of(answer)
    assert text_of(answer).endswith(SIGNATURE)


async def test_it_writes_and_replaces_only_with_consent(agent: OfflineAgent, project: Path) -> None:
    await agent.prompt([user("write new.txt\nhello\nworld\n")])
    assert (project / "new.txt").read_text() == "hello\nworld"
    await agent.prompt([user("replace hello with good bye in new.txt")])
    assert (project / "new.txt").read_text() == "good bye\nworld"
    agent.confirm = None
    await agent.prompt([user("run: touch made")])
    assert not (project / "made").exists()
    assert "failed" in text_of(agent.messages[-1])


async def test_nothing_is_charged_and_no_other_model_is_blamed(agent: OfflineAgent) -> None:
    agent.model = Model("anthropic", "claude", prices=Prices(input=5, output=25))
    await agent.prompt([user("hello")])
    answer = agent.messages[-1]
    assert (answer["provider"], answer["model"]) == ("offline", "offline")
    assert answer["usage"]["totalTokens"] > 0
    assert answer["usage"]["cost"]["total"] == 0


async def test_an_abort_stops_it_between_two_words(project: Path) -> None:
    agent = OfflineAgent(Toolbox(project_tools(project)), delay_s=0.01)
    begun = asyncio.Event()

    def hear(event: events.AgentEvent) -> None:
        if isinstance(event, events.MessageUpdate):
            begun.set()

    agent.subscribe(hear)
    run = asyncio.create_task(agent.prompt([user("hello")]))
    await begun.wait()
    await agent.abort()
    await run
    assert agent.messages[-1]["stopReason"] == "aborted"
    assert 0 < len(text_of(agent.messages[-1])) < 200


async def test_it_has_the_last_word_about_text_that_looks_like_its_fences(
    agent: OfflineAgent, project: Path
) -> None:
    (project / "fence.md").write_text("````\ncode\n````\n")
    await agent.prompt([user("read fence.md")])
    assert "`````\n````\ncode\n````\n`````" in text_of(agent.messages[-1])


CONVERSATION: list[dict[str, Any]] = [
    user("Make the parser faster\nand keep it simple"),
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "parser.py"}},
        ],
        "stopReason": "toolUse",
    },
    {
        "role": "toolResult",
        "toolCallId": "1",
        "toolName": "read",
        "content": [{"type": "text", "text": "parser.py: No such file or directory"}],
        "isError": True,
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "It is in src."}],
        "stopReason": "stop",
    },
    user("Then edit src/parser.py"),
]


async def ask(agent: OfflineAgent, prompt: str) -> str:
    answer = await agent.complete(system=SYSTEM_PROMPT, messages=[user(prompt)], max_tokens=4_000)
    assert answer["stopReason"] == "stop"
    return text_of(answer)


async def test_it_summarises_for_a_compaction(agent: OfflineAgent) -> None:
    notes = await ask(agent, compaction_prompt(conversation_text(CONVERSATION)))
    headings = [line for line in notes.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Goal",
        "## Constraints",
        "## Progress",
        "## Decisions",
        "## Next steps",
        "## Critical context",
    ]
    assert short_summary(notes) == "Make the parser faster and keep it simple"
    assert '- [x] read {"path":"parser.py"}' in notes
    assert "- [ ] Then edit src/parser.py" in notes
    assert "No such file or directory" in notes
    assert "Last answer: It is in src." in notes
    assert list(agent.messages) == []


async def test_it_carries_earlier_notes_on(agent: OfflineAgent) -> None:
    first = await ask(agent, compaction_prompt(conversation_text(CONVERSATION)))
    later = [user("Now write tests"), *CONVERSATION[1:2]]
    second = await ask(agent, compaction_prompt(conversation_text(later), previous=first))
    assert short_summary(second) == "Make the parser faster and keep it simple"
    assert "- [ ] Now write tests" in second
    assert "No such file or directory" in second
    assert second.count('- [x] read {"path":"parser.py"}') == 1
    third = await ask(agent, compaction_prompt(conversation_text(later), previous=second))
    assert len(third) < 2 * len(second), "notes must not grow without end"


@pytest.mark.parametrize(
    ("prompt", "heading"),
    [(branch_prompt, "## Goal"), (turn_prefix_prompt, "## Request")],
)
async def test_it_summarises_branches_and_halves_of_turns(
    agent: OfflineAgent, prompt: Callable[[str], str], heading: str
) -> None:
    notes = await ask(agent, prompt(conversation_text(CONVERSATION)))
    assert notes.startswith(f"{heading}\nMake the parser faster")


async def test_a_summary_keeps_to_its_length(agent: OfflineAgent) -> None:
    answer = await agent.complete(
        system=SYSTEM_PROMPT,
        messages=[user(compaction_prompt(conversation_text(CONVERSATION)))],
        max_tokens=10,
    )
    assert len(text_of(answer)) <= 40
