"""grep and ls."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import text_of

from sessiontree.agents.tools.confinement import ProjectFolder
from sessiontree.agents.tools.grep import GrepTool
from sessiontree.agents.tools.toolbox import Toolbox

RunTool = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def tree(project: Path) -> Path:
    (project / "src" / "deep").mkdir(parents=True)
    (project / "node_modules").mkdir()
    (project / "a.py").write_text("import os\nNeedle = 1\nend\n")
    (project / "src" / "b.py").write_text("x\nneedle(1.5)\ny\n")
    (project / "src" / "deep" / "c.txt").write_text("needle\n")
    (project / "node_modules" / "d.py").write_text("needle\n")
    (project / "bin").write_bytes(b"needle\0")
    return project


async def test_grep_names_file_and_line(run_tool: RunTool, tree: Path) -> None:
    result = await run_tool("grep", pattern="needle")
    assert text_of(result) == "src/b.py:2: needle(1.5)\nsrc/deep/c.txt:1: needle"
    assert result["details"] == {"matches": 2, "files": 2}
    assert not result["isError"]


async def test_grep_takes_case_literal_glob_and_path(run_tool: RunTool, tree: Path) -> None:
    async def found(**arguments: Any) -> list[str]:
        shown = text_of(await run_tool("grep", **arguments))
        return [line.partition(":")[0] for line in shown.split("\n")]

    assert await found(pattern="NEEDLE", ignoreCase=True, glob="*.py") == ["a.py", "src/b.py"]
    assert await found(pattern="needle(1.5)", literal=True) == ["src/b.py"]
    assert await found(pattern="needle(1.5)") == ["No matches found"]
    assert await found(pattern="needle", path="src/deep") == ["src/deep/c.txt"]
    assert await found(pattern="needle", path="src/b.py") == ["src/b.py"]
    assert await found(pattern="needle", glob="src/**/*.txt") == ["src/deep/c.txt"]
    assert await found(pattern="needle", glob="**/*.py") == ["src/b.py"]
    assert await found(pattern="needle", path="node_modules") == ["node_modules/d.py"]


async def test_grep_shows_context_once(run_tool: RunTool, project: Path) -> None:
    (project / "f").write_text(
        "".join(f"{n}{' hit' if n in (3, 4, 9) else ''}\n" for n in range(1, 12))
    )
    assert text_of(await run_tool("grep", pattern="hit", context=1)).split("\n") == [
        "f-2- 2",
        "f:3: 3 hit",
        "f:4: 4 hit",
        "f-5- 5",
        "--",
        "f-8- 8",
        "f:9: 9 hit",
        "f-10- 10",
    ]


async def test_grep_stops_at_its_limits_and_says_so(run_tool: RunTool, project: Path) -> None:
    (project / "many").write_text("hit\n" * 500)
    shown = text_of(await run_tool("grep", pattern="hit"))
    assert shown.count("hit") == 100
    assert "More matches were left out" in shown
    exact = text_of(await run_tool("grep", pattern="hit", limit=500))
    assert "left out" not in exact
    (project / "many").write_text(("hit" + "x" * 5_000 + "\n") * 300)
    assert len(text_of(await run_tool("grep", pattern="hit", limit=300))) < 51_000


async def test_a_pattern_that_would_take_for_ever_is_ended(
    tree: Path, run_tool: RunTool, toolbox: Toolbox
) -> None:
    """Catastrophic backtracking: exponential in the number of a's."""
    (tree / "trap").write_text("a" * 60 + "!\n")
    toolbox._tools["grep"] = GrepTool(ProjectFolder(tree), timeout_s=0.5)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    began = time.monotonic()
    result = await run_tool("grep", pattern="(a+)+$", path="trap")
    ticker.cancel()
    assert result["isError"]
    assert "ended after 0.5 seconds" in text_of(result)
    assert time.monotonic() - began < 20
    assert ticks > 5, "the event loop must stay alive meanwhile"


async def test_grep_reports_a_bad_pattern_and_a_bad_path(run_tool: RunTool, tree: Path) -> None:
    for arguments, words in (
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "x", "path": "missing"}, "No such file"),
        ({"pattern": "x", "path": "../outside"}, "leads out of the project"),
        ({"pattern": "x", "path": "/etc"}, "outside the project"),
        ({"path": "src"}, '"pattern" is missing'),
    ):
        result = await run_tool("grep", **arguments)
        assert result["isError"]
        assert words in text_of(result)


async def test_grep_follows_no_link(run_tool: RunTool, project: Path, secret: Path) -> None:
    (project / "out").symlink_to(secret)
    (project / "dir").symlink_to(secret.parent)
    os.mkfifo(project / "pipe")
    assert text_of(await run_tool("grep", pattern="secret")) == "No matches found"
    for path in ("out", "dir"):
        assert (await run_tool("grep", pattern="secret", path=path))["isError"]


async def test_a_module_of_the_project_is_not_imported_by_the_search(
    run_tool: RunTool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "fnmatch", "sessiontree", "sitecustomize"):
        (project / f"{name}.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    assert "json.py:1" in text_of(await run_tool("grep", pattern="ran"))
    assert not (project / "ran").exists()


async def test_grep_survives_names_and_lines_that_are_not_utf8(
    run_tool: RunTool, project: Path
) -> None:
    (project / os.fsdecode(b"n\xff")).write_bytes(b"hit \xfe\x1b[31m\n")
    shown = text_of(await run_tool("grep", pattern="hit"))
    assert shown.endswith(":1: hit \ufffd")
    shown.encode("utf-8")


async def test_ls_sorts_and_marks(run_tool: RunTool, project: Path) -> None:
    (project / "Beta").write_text("")
    (project / "alpha").mkdir()
    (project / ".hidden").write_text("")
    (project / "zlink").symlink_to("Beta")
    os.mkfifo(project / "pipe")
    (project / "new\nline\x1b[2J").write_text("")
    assert text_of(await run_tool("ls")) == ".hidden\nalpha/\nBeta\nnew?line\npipe?\nzlink@"
    assert text_of(await run_tool("ls", path="alpha")) == "(empty folder)"
    assert "[2 of 6 names shown" in text_of(await run_tool("ls", limit=2))
    for path in ("..", "/etc", "Beta", "missing"):
        assert (await run_tool("ls", path=path))["isError"]
