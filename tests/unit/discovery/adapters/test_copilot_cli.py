"""What is special to Copilot CLI: subagents between the lines, and sums of what was used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent_kinds import COPILOT_ID, CWD, CopilotEvents, copilot_call
from tests.agent_samples import write_lines

from sessiontree import search
from sessiontree.core.tree import SessionTreeNode
from sessiontree.discovery import catalogue
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import load_foreign
from sessiontree.maintenance.keeping import keep_sessions
from sessiontree.maintenance.kept_restoring import restore_session

Record = dict[str, Any]


@pytest.fixture
def events(home: Path) -> Iterator[CopilotEvents]:
    catalogue.forget_process_memory()
    yield CopilotEvents(home)
    catalogue.forget_process_memory()


def messages(path: Path) -> list[Record]:
    return list(load_foreign(path).build_session_context().messages)


def said(message: Record) -> str:
    return " ".join(block.get("text", "") for block in message["content"])


def used() -> list[tuple[int, int, int, bool]]:
    (source,) = find_sources("copilot-cli")
    (answers,) = source.survey_answers().values()
    return [(row.input, row.output, row.cache_read, row.is_answer) for row in answers.rows]


def shutdown(events: CopilotEvents, calls: int, tokens: int) -> Record:
    usage = {"inputTokens": tokens, "outputTokens": tokens // 10, "cacheReadTokens": 0}
    metrics = {"requests": {"count": calls, "cost": 0}, "usage": usage}
    return events.event("session.shutdown", {"modelMetrics": {"gpt-5.2": metrics}})


def test_a_subagent_is_a_branch_below_the_answer_that_called_it(events: CopilotEvents) -> None:
    agent = "agent-1"
    started = {"toolCallId": "call_t", "agentName": "task", "agentDisplayName": "Task"}
    write_lines(
        events.path,
        [
            events.start(),
            events.prompt("go"),
            events.answer("Delegating.", copilot_call("task", "call_t", prompt="look")),
            events.event("subagent.started", started, agentId=agent),
            events.prompt("look at the zebra", agentId=agent),
            events.answer("I see a quokka.", agentId=agent),
            events.result("call_t", "a quokka"),
            events.answer("Done."),
            events.prompt("never answered", agentId=agent),
        ],
    )
    assert [message["role"] for message in messages(events.path)] == [
        "user", "assistant", "toolResult", "assistant",
    ]  # fmt: skip
    below: dict[str, list[SessionTreeNode]] = {}

    def walk(node: SessionTreeNode) -> None:
        below[str(node.entry.data.get("message", {}).get("content"))] = node.children
        for child in node.children:
            walk(child)

    for root in load_foreign(events.path).get_tree():
        walk(root)
    (asked,) = [nodes for text, nodes in below.items() if "Delegating." in text]
    assert len(asked) == 2
    assert [hit.session.id for hit in search("quokka")] == [COPILOT_ID]
    (info,) = list_agent_sessions("copilot-cli")
    assert (info.status, info.first_message) == ("complete", "go")


def test_a_subagent_of_an_old_version_is_named_by_its_call(events: CopilotEvents) -> None:
    told = events.answer("I see a quokka.")
    told["data"]["parentToolCallId"] = "call_t"
    write_lines(
        events.path,
        [
            events.start(),
            events.prompt("go"),
            events.answer("Delegating.", copilot_call("task", "call_t", prompt="look")),
            told,
            events.result("call_t", "a quokka"),
            events.answer("Done."),
        ],
    )
    assert [said(message) for message in messages(events.path)] == [
        "go", "Delegating. ", "a quokka", "Done.",
    ]  # fmt: skip


def test_the_sums_of_each_run_are_added(events: CopilotEvents) -> None:
    run = [events.prompt("go"), events.answer("a"), events.answer("b")]
    again = [events.prompt("go on"), events.answer("c"), events.answer("d"), events.answer("e")]
    write_lines(
        events.path,
        [events.start(), *run, shutdown(events, 2, 800), *again, shutdown(events, 3, 1200)],
    )
    assert used() == [(800, 80, 0, False), (1200, 120, 0, False)]


def test_sums_that_go_on_count_once(events: CopilotEvents) -> None:
    run = [events.prompt("go"), events.answer("a"), events.answer("b")]
    again = [events.prompt("go on"), events.answer("c")]
    write_lines(
        events.path,
        [events.start(), *run, shutdown(events, 2, 800), *again, shutdown(events, 3, 1200)],
    )
    assert used() == [(800, 80, 0, False), (400, 40, 0, False)]


def test_answers_without_a_sum_tell_what_they_wrote(events: CopilotEvents) -> None:
    run = [events.prompt("go"), events.answer("a", outputTokens=7)]
    again = [events.prompt("go on"), events.answer("b", outputTokens=9)]
    write_lines(events.path, [events.start(), *run, shutdown(events, 1, 400), *again])
    assert used() == [(400, 40, 0, False), (0, 9, 0, True)]


def test_records_of_calls_win_over_later_sums(events: CopilotEvents) -> None:
    run = [events.prompt("go"), events.answer("a")]
    again = [events.prompt("go on"), events.used(), events.answer("b"), events.used()]
    write_lines(
        events.path,
        [events.start(), *run, shutdown(events, 1, 400), *again, shutdown(events, 3, 1200)],
    )
    assert used() == [(400, 40, 0, False), (100, 20, 300, True), (100, 20, 300, False)]


def test_a_command_of_the_user_is_one_message(events: CopilotEvents) -> None:
    asked = {"toolCallId": "u1", "toolName": "bash", "arguments": {"command": "make test"}}
    write_lines(
        events.path,
        [
            events.start(),
            events.prompt("go"),
            events.event("tool.user_requested", asked),
            events.result("u1", "ok", isUserRequested=True, shellExecution={"exitCode": 3}),
        ],
    )
    entries = [entry.data for entry in load_foreign(events.path).get_entries()]
    (ran,) = [each["message"] for each in entries if each["type"] == "message"][1:]
    assert (ran["role"], ran["command"], ran["output"]) == ("bashExecution", "make test", "ok")
    assert ran["exitCode"] == 3


def test_what_copilot_added_is_no_prompt_and_errors_are_told(events: CopilotEvents) -> None:
    skill = events.prompt("<skill-context>long</skill-context>")
    skill["data"]["source"] = "skill-pdf"
    image = {"type": "blob", "mimeType": "image/png", "assetId": "sha256:1"}
    shown = events.prompt("see")
    shown["data"]["attachments"] = [image, {"type": "file", "path": "/srv/shop/a.py"}]
    asset = {"assetId": "sha256:1", "mimeType": "image/png", "data": "aGk="}
    write_lines(
        events.path,
        [
            events.start(),
            skill,
            events.event("session.binary_asset", asset),
            shown,
            events.event("session.error", {"errorType": "quota", "message": "no quota left"}),
        ],
    )
    (info,) = list_agent_sessions("copilot-cli")
    assert (info.first_message, info.status, info.message_count) == ("see", "error", 2)
    document = load_foreign(events.path)
    assert document.report.kept == {"attachments": 1}
    prompt, failed = [
        entry.data["message"] for entry in document.get_entries() if entry.type == "message"
    ]
    assert [block["type"] for block in prompt["content"]] == ["text", "image"]
    assert failed["errorMessage"] == "no quota left"


def test_a_compaction_hides_what_came_before_it(events: CopilotEvents) -> None:
    done = {"success": True, "summaryContent": "We said hi.", "preCompactionTokens": 900}
    failed = {"success": False, "error": "no"}
    write_lines(
        events.path,
        [
            events.start(),
            events.prompt("hi"),
            events.event("session.compaction_complete", failed),
            events.answer("hello"),
            events.event("session.compaction_complete", done),
            events.prompt("and?"),
        ],
    )
    assert [message["role"] for message in messages(events.path)] == ["compactionSummary", "user"]


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("name: 'it''s: # 1'", "it's: # 1"),
        ('name: "a \\"b\\""', 'a "b"'),
        ("name: |-\n  a prompt\n  over two lines: yes", "a prompt over two lines: yes"),
        ("name: plain: yes", "plain: yes"),
        ("name:", None),
    ],
)
def test_a_name_is_read_and_a_new_one_noticed(
    events: CopilotEvents, spelled: str, name: str | None
) -> None:
    write_lines(events.path, [events.start(), events.prompt("hi")])
    names = events.path.parent / "workspace.yaml"
    names.write_text("name: before\nuser_named: true\n")
    assert [info.title for info in list_agent_sessions("copilot-cli")] == ["before"]
    names.write_text(f"id: x\n{spelled}\nuser_named: true\nsummary_count: 0\n")
    assert [info.title for info in list_agent_sessions("copilot-cli")] == [name]


def test_a_session_of_an_old_version_is_one_file(events: CopilotEvents, home: Path) -> None:
    old = home / ".copilot" / "session-state" / f"{COPILOT_ID}.jsonl"
    write_lines(old, [events.start(), events.prompt("hi")])
    (info,) = list_agent_sessions("copilot-cli")
    assert (info.id, info.path, info.cwd) == (COPILOT_ID, str(old), CWD)


def test_keep_copies_and_restores_the_whole_folder(events: CopilotEvents) -> None:
    write_lines(events.path, [events.start(), events.prompt("hi")])
    beside = {"workspace.yaml": "name: mine\n", "checkpoints/index.md": "# none\n"}
    for name, text in beside.items():
        (events.path.parent / name).parent.mkdir(exist_ok=True)
        (events.path.parent / name).write_text(text)
    (events.path.parent / ".workspace-fork.lock").touch()
    keep_sessions()
    for name in beside:
        (events.path.parent / name).unlink()
    events.path.unlink()
    assert [info.title for info in list_agent_sessions("copilot-cli")] == ["mine"]
    restore_session(str(events.path))
    assert {name: (events.path.parent / name).read_text() for name in beside} == beside
