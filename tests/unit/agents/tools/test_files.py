"""read, write and edit: what a model sees and changes."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samples import text_of

from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools

RunTool = Callable[..., Awaitable[dict[str, Any]]]

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_read_gives_a_tool_result_message(run_tool: RunTool, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n")
    result = await run_tool("read", path="a.txt")
    assert result.pop("timestamp") > 1_600_000_000_000
    assert result == {
        "role": "toolResult",
        "toolCallId": "call-1",
        "toolName": "read",
        "content": [{"type": "text", "text": "one\ntwo"}],
        "isError": False,
        "details": {"totalLines": 2},
    }


async def test_read_shows_a_window_and_says_how_to_go_on(run_tool: RunTool, project: Path) -> None:
    (project / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    result = await run_tool("read", path="a.txt", offset=10, limit=3)
    assert text_of(result) == (
        "line 10\nline 11\nline 12\n\n[Lines 10-12 of 100. Use offset=13 to continue.]"
    )
    rest = await run_tool("read", path="a.txt", offset="99")
    assert text_of(rest) == "line 99\nline 100"


async def test_read_stops_at_two_thousand_lines(run_tool: RunTool, project: Path) -> None:
    (project / "a.txt").write_text("x\n" * 2_500)
    shown = text_of(await run_tool("read", path="a.txt"))
    assert shown.endswith("[Lines 1-2000 of 2500. Use offset=2001 to continue.]")


async def test_read_stops_at_fifty_thousand_characters(run_tool: RunTool, project: Path) -> None:
    (project / "a.txt").write_text(("y" * 999 + "\n") * 100)
    shown = text_of(await run_tool("read", path="a.txt"))
    assert len(shown) < 50_200
    assert shown.endswith("[Lines 1-50 of 100. Use offset=51 to continue.]")


async def test_read_cuts_an_endless_line(run_tool: RunTool, project: Path) -> None:
    (project / "a.txt").write_text("z" * 5_000_000)
    shown = text_of(await run_tool("read", path="a.txt"))
    assert shown.startswith("z" * 2_000 + "… [")
    assert len(shown) < 2_100


async def test_read_does_not_read_a_huge_file_to_its_end(run_tool: RunTool, project: Path) -> None:
    with (project / "sparse").open("wb") as file:
        file.write(b"first\n" * 2_000)
        file.seek(1 << 40)
        file.write(b"last")
    shown = text_of(await run_tool("read", path="sparse", limit=1))
    assert shown == "first\n\n[Lines 1-1 of more than 2000. Use offset=2 to continue.]"


async def test_read_says_what_cannot_be_shown(run_tool: RunTool, project: Path) -> None:
    (project / "binary").write_bytes(b"ab\0cd")
    (project / "empty").write_bytes(b"")
    (project / "short").write_text("x")
    (project / "big.png").write_bytes(PNG + b"\0" * 4_000_000)
    for path, words in (
        ("binary", "a binary file"),
        ("missing", "missing: No such file or directory"),
        (".", "Is a directory"),
        ("big.png", "too large"),
        ("/etc/passwd", "outside the project folder"),
    ):
        result = await run_tool("read", path=path)
        assert result["isError"], path
        assert words in text_of(result)
    beyond = await run_tool("read", path="short", offset=7)
    assert text_of(beyond) == "short: offset 7 is beyond the end (1 lines)"
    assert text_of(await run_tool("read", path="empty")) == "(empty file)"


async def test_read_replaces_bytes_that_are_not_utf8(run_tool: RunTool, project: Path) -> None:
    (project / "latin").write_bytes(b"caf\xe9\r\nend\r\n")
    assert text_of(await run_tool("read", path="latin")) == "caf\ufffd\nend"


async def test_read_gives_an_image_as_an_image_block(run_tool: RunTool, project: Path) -> None:
    (project / "p.dat").write_bytes(PNG)
    result = await run_tool("read", path="p.dat")
    assert result["content"][1] == {
        "type": "image",
        "data": base64.b64encode(PNG).decode(),
        "mimeType": "image/png",
    }


async def test_write_creates_and_replaces_after_asking(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    assert text_of(await run_tool("write", path="d/a.txt", content="one\n")) == (
        "Created d/a.txt (4 bytes)"
    )
    assert text_of(await run_tool("write", path="d/a.txt", content="two\n")) == (
        "Replaced d/a.txt (4 bytes)"
    )
    assert (project / "d" / "a.txt").read_text() == "two\n"
    create, replace = asked.questions
    assert (create.effect, create.title, create.preview) == (
        "write",
        "Create d/a.txt (4 bytes)",
        "one\n",
    )
    assert "-one\n+two" in replace.preview


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
async def test_anything_but_a_yes_leaves_every_file_alone(
    run_tool: RunTool, project: Path, asked: Any, answer: object
) -> None:
    (project / "a.txt").write_text("one")
    asked.answer = answer
    for name, arguments in (
        ("write", {"path": "a.txt", "content": "x"}),
        ("write", {"path": "new/b.txt", "content": "x"}),
        ("edit", {"path": "a.txt", "oldText": "one", "newText": "x"}),
        ("bash", {"command": "touch made"}),
    ):
        result = await run_tool(name, **arguments)
        assert result["isError"]
        assert text_of(result) == f"{name} was not run: the user declined"
    assert os.listdir(project) == ["a.txt"]
    assert (project / "a.txt").read_text() == "one"


async def test_without_anyone_to_ask_nothing_is_written_or_run(project: Path) -> None:
    toolbox = Toolbox(project_tools(project))

    async def report(_: str) -> None:
        return None

    for name, arguments in (
        ("write", {"path": "a", "content": "x"}),
        ("bash", {"command": "touch made"}),
    ):
        block = {"type": "toolCall", "id": "1", "name": name, "arguments": arguments}
        result = await toolbox.run(block, report=report)
        assert result["isError"]
        assert "no one can be asked" in text_of(result)
    assert os.listdir(project) == []


async def test_a_file_that_changes_while_the_user_thinks_is_not_overwritten(
    toolbox: Toolbox, run_tool: RunTool, project: Path
) -> None:
    target = project / "a.txt"
    target.write_text("one\n")

    async def slow_yes(_: Confirmation) -> bool:
        target.write_text("the user's own work\n")
        return True

    toolbox.confirm = slow_yes
    for name, arguments in (
        ("write", {"content": "ours"}),
        ("edit", {"oldText": "own", "newText": "x"}),
    ):
        result = await run_tool(name, path="a.txt", **arguments)
        assert result["isError"]
        assert "changed meanwhile" in text_of(result)
    assert target.read_text() == "the user's own work\n"


async def test_a_file_that_appears_while_the_user_thinks_is_not_overwritten(
    toolbox: Toolbox, run_tool: RunTool, project: Path
) -> None:
    async def slow_yes(_: Confirmation) -> bool:
        (project / "a.txt").write_text("mine")
        return True

    toolbox.confirm = slow_yes
    result = await run_tool("write", path="a.txt", content="ours")
    assert "changed meanwhile" in text_of(result)
    assert (project / "a.txt").read_text() == "mine"


async def test_edit_replaces_the_one_passage_and_keeps_a_diff(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    (project / "a.py").write_text("import os\n\nx = 1\ny = 2\n")
    result = await run_tool("edit", path="a.py", oldText="x = 1", newText="x = 10\nz = 3")
    assert (project / "a.py").read_text() == "import os\n\nx = 10\nz = 3\ny = 2\n"
    assert text_of(result) == "Edited a.py (1 replacement)"
    diff = result["details"]["diff"]
    assert "@@ line 3 @@" in diff
    assert "-x = 1\n+x = 10\n+z = 3" in diff
    assert asked.questions[0].preview == diff


async def test_edit_refuses_what_is_not_there_or_there_twice(
    run_tool: RunTool, project: Path
) -> None:
    (project / "a.txt").write_text("ab ab aaa")
    for old, words in (("zz", "not found"), ("ab", "more than once"), ("aa", "more than once")):
        result = await run_tool("edit", path="a.txt", oldText=old, newText="n")
        assert result["isError"]
        assert words in text_of(result)
    for arguments in ({"oldText": "", "newText": "x"}, {"oldText": "ab ab", "newText": "ab ab"}):
        assert (await run_tool("edit", path="a.txt", **arguments))["isError"]
    assert (project / "a.txt").read_text() == "ab ab aaa"
    result = await run_tool("edit", path="a.txt", oldText="ab", newText="-", replaceAll=True)
    assert result["details"]["replacements"] == 2
    assert (project / "a.txt").read_text() == "- - aaa"


async def test_edit_keeps_line_ends_byte_order_mark_and_foreign_bytes(
    run_tool: RunTool, project: Path
) -> None:
    target = project / "dos.txt"
    target.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\ncaf\xe9\r\n")
    result = await run_tool("edit", path="dos.txt", oldText="one\ntwo", newText="1\n2\n3")
    assert not result["isError"], text_of(result)
    assert target.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\ncaf\xe9\r\n"
    result["details"]["diff"].encode("utf-8")


async def test_half_a_character_is_not_written(run_tool: RunTool, project: Path) -> None:
    (project / "a").write_text("x")
    for name, arguments in (
        ("write", {"content": "\ud83d"}),
        ("edit", {"oldText": "x", "newText": "\udcff"}),
    ):
        result = await run_tool(name, path="a", **arguments)
        assert result["isError"]
        assert "half a character" in text_of(result)
    assert (project / "a").read_text() == "x"


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200), st.data())
async def test_an_edit_is_a_replacement_and_nothing_else(
    run_tool: RunTool, project: Path, text: str, data: st.DataObject
) -> None:
    old = data.draw(
        st.sampled_from([text[a:b] for a in range(0, len(text), 7) for b in (a + 5,)] or ["x"])
    )
    new = data.draw(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=20))
    target = project / "t"
    target.write_bytes(text.encode())
    result = await run_tool("edit", path="t", oldText=old, newText=new)
    after = target.read_bytes().decode()
    if result["isError"]:
        assert after == text
    else:
        assert after == text.replace(old, new)


def untouched(secret: Path) -> None:
    assert secret.read_text() == "the secret\n"
    assert os.listdir(secret.parent) == ["secret.txt"]


async def test_write_through_the_tool_cannot_leave_the_project(
    run_tool: RunTool, project: Path, secret: Path, asked: Any
) -> None:
    (project / "out").symlink_to(secret)
    (project / "dir").symlink_to(secret.parent)
    for path in ("../outside/new", "out", "dir/new", str(secret), "/tmp/x-sessiontree"):
        result = await run_tool("write", path=path, content="x")
        assert result["isError"], path
    assert asked.questions == [], "an impossible write must not even be asked about"
    untouched(secret)


# -- what is asked about -------------------------------------------------------------------------


async def test_the_user_is_shown_all_of_what_is_written(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    text = "".join(f"line {n}\n" for n in range(20_000)) + "the end\n"
    await run_tool("write", path="new.md", content=text)
    (project / "old.txt").write_text("kept\n" * 5 + "x\n")
    await run_tool("write", path="old.txt", content="kept\n" * 5 + "y\n")
    (project / "large.txt").write_text("before\n" * 40_000)
    await run_tool("write", path="large.txt", content=text)
    new, old, large = asked.questions
    assert (new.preview_kind, new.preview) == ("content", text)
    assert old.preview_kind == "diff"
    assert "-x\n+y" in old.preview
    assert (large.preview_kind, large.preview) == ("content", text)


async def test_the_user_is_shown_every_replacement(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    (project / "a.txt").write_text("".join(f"{n} old\n" for n in range(500)))
    result = await run_tool("edit", path="a.txt", oldText="old", newText="new", replaceAll=True)
    shown = asked.questions[0].preview
    assert all(f"\n-{n} old\n+{n} new" in shown for n in range(500))
    assert shown.count("@@ line ") == 500
    assert "@@ line 500 @@" in shown
    # What the session keeps of it stays small.
    assert "480 more replacements" in result["details"]["diff"]
    assert len(result["details"]["diff"]) < 10_000


async def test_a_long_new_text_is_shown_to_its_end(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    (project / "a.txt").write_text("x" * 1_000_000 + "HERE" + "y" * 1_000_000)
    new = "".join(f"line {n}\n" for n in range(3_000)) + "the end"
    await run_tool("edit", path="a.txt", oldText="HERE", newText=new)
    shown = asked.questions[0].preview
    assert "\n+".join(new.split("\n")) in shown
    assert "[… 999000 characters …]" in shown  # of the line around it
    assert len(shown) < 60_000


async def test_more_replacements_than_anybody_reads_are_refused(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    text = "a line of text\n" * 200_000
    (project / "a.txt").write_text(text)
    result = await run_tool("edit", path="a.txt", oldText="text", newText="words", replaceAll=True)
    assert result["isError"]
    assert "too many to be shown" in text_of(result)
    assert not asked.questions
    assert (project / "a.txt").read_text() == text


async def test_a_line_end_that_changes_is_seen(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    (project / "unix").write_bytes(b"one\ntwo\n")
    await run_tool("write", path="unix", content="one\r\ntwo\n")
    (project / "dos").write_bytes(b"one\r\ntwo\r\n")
    await run_tool("write", path="dos", content="one\r\n2\r\n")
    await run_tool("edit", path="dos", oldText="2", newText="3\rrm")
    changed, same, lone = asked.questions
    assert "-one\n+one\r\n" in changed.preview
    assert "\r" not in same.preview
    assert "+3\rrm" in lone.preview


async def test_the_question_names_the_file_that_a_link_leads_to(
    run_tool: RunTool, project: Path, asked: Any
) -> None:
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    await run_tool("write", path="link/a.txt", content="x")
    await run_tool("write", path="./real/../b.txt", content="x")
    through, plain = asked.questions
    root = await asyncio.to_thread(os.path.realpath, project)
    assert through.title == "Create link/a.txt, which is real/a.txt (1 bytes)"
    assert (through.subject, through.folder) == (f"{root}/real/a.txt", f"{root}/real")
    assert plain.title == "Create ./real/../b.txt (1 bytes)"
    assert (plain.subject, plain.folder) == (f"{root}/b.txt", root)
