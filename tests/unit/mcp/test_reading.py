"""A session in few words: numbering, branches, budget, redaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, calling, chain, entry, header, message, result, user, write

from sessiontree.errors import EntryNotFoundError
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view
from sessiontree.mcp.reading import Part, read_part

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def read(tmp_path: Path, records: list[Any], redactor: Redactor | None = None, **part: Any) -> str:
    file = write(tmp_path / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl", *records)
    with open_view(file) as view:
        return read_part(view, Part(**part), redactor)


def branched() -> list[Any]:
    return [
        header(title="Two ways"),
        message("q1", None, user("Why does the basket fail?")),
        message("a1", "q1", assistant("Reduce has no start.")),
        message("q2", "a1", user("Give it a start")),
        message("a2", "q2", assistant("Done with a start value")),
        message("q3", "a1", user("Use sum instead")),
        message("c3", "q3", calling("t1")),
        message("r3", "c3", result("t1", "8 passed\nzebra")),
        message("a3", "r3", assistant("It is sum now")),
    ]


def test_the_active_branch_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    assert read(tmp_path, branched()) == (
        "# Two ways\n"
        "session 1f9d2a6b9c0d1234 · /work/pi · messages 1-6 of 6\n"
        "Other branches (pass as branch):\n"
        "- a2: Give it a start\n\n"
        "[1] user · q1 · 2026-02-16 10:20\nWhy does the basket fail?\n\n"
        "[2] assistant · a1 · 2026-02-16 10:20\nReduce has no start.\n\n"
        "[3] user · q3 · 2026-02-16 10:20\nUse sum instead\n\n"
        "[4] assistant · c3 · 2026-02-16 10:20\n→ bash: ls\n\n"
        "[5] tool result · r3 · 2026-02-16 10:20\n← bash: ls (2 lines)\n\n"
        "[6] assistant · a3 · 2026-02-16 10:20\nIt is sum now\n\n"
        "[End of the branch.]"
    )


def test_another_branch_is_read_by_its_end(tmp_path: Path) -> None:
    text = read(tmp_path, branched(), branch="a2")
    assert "Done with a start value" in text
    assert "Use sum instead" not in text.partition("[1]")[2]
    assert "- a3: Use sum instead" in text


def test_around_an_entry_begins_before_it_and_on_its_branch(tmp_path: Path) -> None:
    text = read(tmp_path, branched(), around="a2", count=2)
    assert "messages 2-3 of 4" in text
    assert "Give it a start" in text
    text = read(tmp_path, branched(), around="q2", count=9)
    assert "Done with a start value" in text
    with pytest.raises(EntryNotFoundError):
        read(tmp_path, branched(), around="zz")


def test_full_has_tool_output_and_failures_are_told_anyway(tmp_path: Path) -> None:
    assert "zebra" in read(tmp_path, branched(), detail="full")
    failed = [header(), *chain(user(), calling("t"), result("t", "no\nlion", isError=True))]
    text = read(tmp_path, failed)
    assert "← bash: ls (2 lines) FAILED\nno\nlion" in text


def test_the_call_of_a_result_is_known_though_it_is_before_the_part(tmp_path: Path) -> None:
    assert "← bash: ls (2 lines)" in read(tmp_path, branched(), start=5)


def test_a_part_says_where_to_read_on(tmp_path: Path) -> None:
    records = [header(), *chain(*(user(f"text {n}") for n in range(20)))]
    text = read(tmp_path, records, start=3, count=2)
    assert "messages 3-4 of 20" in text
    assert text.endswith("[Read on with start=5.]")
    assert "text 18" in read(tmp_path, records, start=-2)
    assert "text 17" not in read(tmp_path, records, start=-2)
    assert "no messages shown of 20" in read(tmp_path, records, start=99)


def test_the_budget_bounds_what_is_returned(tmp_path: Path) -> None:
    records = [header(), *chain(*(user(f"{n} " + "word " * 100) for n in range(50)))]
    text = read(tmp_path, records, budget=3_000)
    assert len(text) < 3_600
    assert text.endswith("[The budget is used up. Read on with start=6.]")
    one = read(tmp_path, [header(), message("q", None, user("x" * 50_000))], budget=1_000)
    assert len(one) < 1_200
    assert "[… 49,500 more characters; raise budget to see them]" in one


def test_secrets_are_replaced_everywhere_before_anything_is_cut(tmp_path: Path) -> None:
    records = [
        header(title=f"Key {TOKEN}", cwd=f"/work/{TOKEN}"),
        message("q1", None, user(f"use {TOKEN}")),
        message("q2", "q1", user("x" * 480 + f" {TOKEN}")),
        message("q3", "q1", user("other way")),
        message("q4", "q3", calling("t")),
        entry("branch_summary", "s1", "q4", summary=f"had {TOKEN}", fromId="q2"),
    ]
    for part in ({}, {"branch": "q2", "budget": 1_000}):
        text = read(tmp_path, records, Redactor(), **part)
        assert "ghp_" not in text
        assert "[redacted:github-token]" in text
    assert TOKEN in read(tmp_path, records)


def test_terminal_sequences_and_misleading_characters_do_not_get_through(tmp_path: Path) -> None:
    text = read(
        tmp_path, [header(title="a\x1b[31mb"), message("q", None, user("x\u202ey\x1b]0;t\x07"))]
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "# ab\n" in text


def test_a_session_without_messages_can_be_read(tmp_path: Path) -> None:
    assert "no messages shown of 0" in read(tmp_path, [header()])
