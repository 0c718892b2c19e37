"""bash and the toolbox around all tools."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import text_of

from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools

RunTool = Callable[..., Awaitable[dict[str, Any]]]


async def yes(_: Confirmation) -> bool:
    return True


async def silent(_: str) -> None:
    return None


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": "c1", "name": name, "arguments": arguments}


async def test_bash_shows_the_command_before_it_runs_it(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    result = await run_tool("bash", command="pwd; echo err >&2")
    assert text_of(result) == f"{project}\nerr"
    assert result["isError"] is False
    assert result["details"] == {"exitCode": 0}
    (question,) = asked.questions
    assert (question.effect, question.preview) == ("run", "pwd; echo err >&2")


async def test_bash_tells_how_a_command_failed(run_tool: RunTool) -> None:
    failed = await run_tool("bash", command="echo partial; exit 7")
    assert text_of(failed) == "partial\n\nCommand exited with code 7"
    assert failed["isError"] is True
    killed = await run_tool("bash", command="kill -9 $$")
    assert text_of(killed) == "(no output)\n\nCommand was ended by signal 9"
    slow = await run_tool("bash", command="echo begun; sleep 60", timeout=1)
    assert text_of(slow) == "begun\n\nCommand timed out after 1 seconds and was ended"
    assert slow["details"] == {"exitCode": None, "timedOut": True}
    left = await run_tool("bash", command="sleep 300 >/dev/null 2>&1 & echo started")
    assert text_of(left) == "started\n\nEnded 1 background process it left"


async def test_bash_keeps_both_ends_of_a_long_output(run_tool: RunTool) -> None:
    shown = text_of(await run_tool("bash", command="echo FIRST; seq 200000; echo LAST"))
    assert shown.startswith("FIRST\n1\n2\n")
    assert shown.endswith("200000\nLAST")
    assert "characters left out" in shown
    assert len(shown) < 51_000


async def test_bash_reports_while_it_runs(toolbox: Toolbox, project: Path) -> None:
    os.mkfifo(project / "gate")
    seen: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(
        toolbox.run(call("bash", command="echo one; read x < gate; echo two"), report=seen.put)
    )
    assert await asyncio.wait_for(seen.get(), 20) == "one"
    await asyncio.to_thread((project / "gate").write_text, "go\n")
    assert text_of(await task) == "one\ntwo"


async def test_bash_runs_with_the_environment_it_is_given(project: Path) -> None:
    toolbox = Toolbox(
        project_tools(project, env={"PATH": os.environ["PATH"], "A": "b"}), confirm=yes
    )
    shown = text_of(await toolbox.run(call("bash", command="env"), report=silent))
    assert "A=b" in shown
    assert "HOME=" not in shown
    assert "PAGER=cat" in shown


async def test_plan_mode_reads_but_neither_writes_nor_runs(
    toolbox: Toolbox, project: Path, asked: Any
) -> None:
    (project / "a").write_text("x")
    for block in (
        call("bash", command="touch b"),
        call("write", path="b", content=""),
        call("edit", path="a", oldText="x", newText="y"),
    ):
        result = await toolbox.run(block, mode="plan", report=silent)
        assert "blocked: plan mode is on (/plan turns it off)" in text_of(result)
    assert asked.questions == []
    assert text_of(await toolbox.run(call("read", path="a"), mode="plan", report=silent)) == "x"
    paused = await toolbox.run(
        call("write", path="b", content=""), mode="plan_paused", report=silent
    )
    assert not paused["isError"]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (call("fly"), 'Unknown tool "fly". Tools: read, write, edit, bash, grep, ls, todo'),
        ({"id": "c1", "name": "read", "arguments": "{"}, "not a JSON object"),
        ({"id": "c1", "name": "read"}, "not a JSON object"),
        (call("read"), 'the argument "path" is missing'),
        (call("read", path=None), 'the argument "path" is missing'),
        (call("read", path=3), '"path" must be of type string'),
        (call("read", path="a", offset=0), '"offset" must be at least 1'),
        (call("read", path="a", offset=True), '"offset" must be of type integer'),
        (call("read", path="a", offset="x"), '"offset" must be of type integer'),
        ({}, 'Unknown tool ""'),
    ],
)
async def test_a_bad_call_is_an_error_result(
    toolbox: Toolbox, block: dict[str, Any], words: str
) -> None:
    result = await toolbox.run(block, report=silent)
    assert result["isError"] is True
    assert words in text_of(result)
    assert result["role"] == "toolResult"


async def test_a_failing_confirmation_means_no(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: Confirmation) -> bool:
        raise RuntimeError("the dialog fell over")

    toolbox = Toolbox(project_tools(project), confirm=broken)
    with caplog.at_level(logging.ERROR):
        result = await toolbox.run(call("bash", command="touch made"), report=silent)
    assert text_of(result) == "bash failed: RuntimeError"
    assert "the dialog fell over" in caplog.text
    assert os.listdir(project) == []


def test_every_tool_describes_its_arguments_as_a_json_schema(project: Path) -> None:
    specs = {spec.name: spec for spec in Toolbox(project_tools(project)).specs}
    assert list(specs) == ["read", "write", "edit", "bash", "grep", "ls", "todo"]
    assert specs["read"].schema() == {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "Path of the file, relative to the project folder",
            },
            "offset": {
                "type": "integer",
                "description": "First line to show, from 1",
                "minimum": 1,
            },
            "limit": {"type": "integer", "description": "How many lines to show", "minimum": 1},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert {name: spec.effect for name, spec in specs.items()} == {
        "read": "read",
        "write": "write",
        "edit": "write",
        "bash": "run",
        "grep": "read",
        "ls": "read",
        "todo": "read",
    }
