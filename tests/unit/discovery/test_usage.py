"""What sessions used: each paid call once, wherever copies of it lie."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agent_samples import (
    Record,
    claude_answer,
    claude_prompt,
    put_claude,
    put_codex,
    put_subagent,
    write_lines,
)
from tests.unit.discovery.places import put

from sessiontree.discovery import catalogue
from sessiontree.discovery.usage import UsageTable
from sessiontree.importers.imports import import_all
from sessiontree.profiles import get_profile
from sessiontree.scope import choose_scope
from sessiontree.storage import sqlite

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def used(**options: Any) -> UsageTable:
    return choose_scope("/srv/shop").reaching("all", agents="all").usage(**options)


def tokens(**counts: int) -> dict[str, Any]:
    names = {"cached": "cache_read_input_tokens", "stored": "cache_creation_input_tokens"}
    made = {"input_tokens": 0, "output_tokens": 0}
    return {"usage": made | {names.get(key, f"{key}_tokens"): n for key, n in counts.items()}}


def count_codex(home: Path, session_id: str, *totals: tuple[int, int]) -> Path:
    """A rollout whose answers are counted: input and output of each."""
    path = put_codex(home, session_id, ("user", "go"))
    records: list[Record] = [{"type": "turn_context", "payload": {"model": "gpt-5-codex"}}]
    running = [0, 0]
    for number, (fresh, out) in enumerate(totals):
        running = [running[0] + fresh, running[1] + out]
        text = [{"type": "output_text", "text": f"answer {number}"}]
        said = {"type": "message", "role": "assistant", "content": text}
        records.append({"type": "response_item", "payload": said})
        info = {
            "total_token_usage": {"input_tokens": running[0], "output_tokens": running[1]},
            "last_token_usage": {"input_tokens": fresh, "output_tokens": out},
        }
        records.append({"type": "event_msg", "payload": {"type": "token_count", "info": info}})
    stamped = [
        {"timestamp": f"2026-01-01T09:01:{at:02d}.000Z", **each} for at, each in enumerate(records)
    ]
    lines = path.read_text()
    write_lines(path, stamped)
    path.write_text(lines + path.read_text())
    return path


def test_each_agent_counts_its_tokens_by_model(home: Path) -> None:
    counted = tokens(input=10, output=5, cached=1000, stored=200)
    put_claude(home, ONE, claude_prompt("hi"), claude_answer("yes", **counted))
    count_codex(home, TWO, (100, 7), (50, 3))
    pi = Path(get_profile("pi").sessions_dir) / "--srv-shop--"
    usage = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "cost": {"total": 0.25}}
    said = {"role": "assistant", "provider": "acme", "model": "m1", "usage": usage, "content": []}
    put(pi, {"type": "message", "id": "00000001", "parentId": None, "message": said})

    rows = {row.key: row.sums for row in used().group("agent", "model")}
    claude = rows["claude-code", "anthropic/claude-sonnet-4-5"]
    assert (claude.answers, claude.input, claude.output) == (1, 10, 5)
    assert (claude.cache_read, claude.cache_write, claude.total_tokens) == (1000, 200, 1215)
    codex = rows["codex", "openai/gpt-5-codex"]
    assert (codex.answers, codex.input, codex.output) == (2, 150, 10)
    assert (rows["pi", "acme/m1"].total_tokens, rows["pi", "acme/m1"].cost) == (10, 0.25)


def test_an_answer_in_many_files_counts_once(home: Path) -> None:
    """The provider's ids name it: in a resumed session, a fork, and a subagent's transcript."""
    answer = claude_answer("yes", **tokens(input=10, output=5))
    put_claude(home, ONE, claude_prompt("hi"), answer)
    more = claude_answer("more", 4, **tokens(input=1, output=1))
    put_claude(home, TWO, claude_prompt("hi"), answer, claude_prompt("go on", 3), more)
    put_subagent(home, ONE, "x", claude_prompt("hi"), answer)
    table = used()
    assert (table.total.input, table.total.output, table.total.answers) == (11, 6, 2)
    assert table.copies == 2
    rows = {row.key[0]: row for row in table.group("session")}
    assert (rows[ONE].sums.output, rows[TWO].sums.output) == (5, 6)
    assert (rows[TWO].copied.output, rows[TWO].copied.answers) == (5, 1)


def test_the_count_of_a_finished_answer_wins(home: Path) -> None:
    """A copy was taken while the answer was still coming: it says fewer tokens."""
    early = claude_answer("y", **tokens(input=10, output=1))
    late = claude_answer("yes", **tokens(input=10, output=500))
    put_claude(home, ONE, claude_prompt("hi"), early)
    put_claude(home, TWO, claude_prompt("hi"), late)
    assert (used().total.output, used().total.answers, used().total.input) == (500, 1, 10)


def test_imports_pay_nothing(home: Path) -> None:
    put_claude(home, ONE, claude_prompt("hi"), claude_answer("yes", **tokens(input=10, output=5)))
    count_codex(home, TWO, (100, 7), (100, 7))
    before = used().total
    import_all()
    after = used()
    assert after.total == before
    assert {row.key[0] for row in after.group("agent")} == {"claude-code", "codex"}
    # Without the originals the imports are what is left, and hold the same.
    shutil.rmtree(home / ".claude")
    shutil.rmtree(home / ".codex")
    left = used().total
    assert (left.input, left.output, left.answers) == (before.input, before.output, 3)


def test_sessions_of_the_same_moment_that_are_not_related_both_count(home: Path) -> None:
    first = count_codex(home, ONE, (100, 7))
    second = count_codex(home, TWO, (100, 7))
    assert first.read_text().replace(ONE, TWO) == second.read_text()
    assert used().total.input == 200


def test_prices_are_estimated_where_the_transcript_names_none(home: Path) -> None:
    counted = tokens(input=1_000, output=1_000, cached=10_000, stored=2_000)
    put_claude(home, ONE, claude_prompt("hi"), claude_answer("yes", **counted))
    total = used().total
    # $3, $15, $0.30 and $3.75 a million
    assert total.estimated == pytest.approx(0.003 + 0.015 + 0.003 + 0.0075)
    assert (total.cost, total.unpriced) == (0.0, 0)
    assert used(is_estimating=False).total.total_cost == 0


def test_a_model_without_a_price_says_so(home: Path) -> None:
    answer = claude_answer("yes", **tokens(input=10, output=5))
    answer["message"]["model"] = "no-such-model"
    put_claude(home, ONE, claude_prompt("hi"), answer)
    total = used().total
    assert (total.total_cost, total.unpriced) == (0.0, 15)


def test_times_bound_the_calls_and_not_the_sessions(home: Path) -> None:
    early = claude_answer("yes", 2, **tokens(input=1), timestamp="2026-01-01T10:00:00.000Z")
    late = claude_answer("no", 3, **tokens(input=10), timestamp="2026-01-03T10:00:00.000Z")
    put_claude(home, ONE, claude_prompt("hi"), early, late)
    middle = datetime(2026, 1, 2, tzinfo=UTC)
    assert used(since=middle).total.input == 10
    assert used(until=middle).total.input == 1
    assert [row.key for row in used().group("day")] == [("2026-01-03",), ("2026-01-01",)]
    assert len(used().group("day", "model")) == 2


def test_a_project_counts_its_own_sessions(home: Path) -> None:
    put_claude(home, ONE, claude_prompt("hi"), claude_answer("yes", **tokens(input=1)))
    elsewhere = [claude_prompt("hi", 5, cwd="/srv/other"), claude_answer("x", 6, cwd="/srv/other")]
    put_claude(home, TWO, *elsewhere, project="-srv-other")
    near = choose_scope("/srv/shop").reaching("project", agents="all").usage()
    assert near.total.input == 1
    assert {row.key[0] for row in used().group("project")} == {"/srv/shop", "/srv/other"}


@pytest.mark.parametrize("usage", [None, 7, {}, {"input_tokens": "9"}, {"input_tokens": -4}])
def test_odd_counts_are_nothing(home: Path, usage: object) -> None:
    answer = claude_answer("yes")
    answer["message"]["usage"] = usage
    put_claude(home, ONE, claude_prompt("hi"), answer)
    assert used().total.total_tokens == 0


def test_kept_answers_that_make_no_sense_are_read_again(home: Path) -> None:
    put_claude(home, ONE, claude_prompt("hi"), claude_answer("yes", **tokens(input=10, output=5)))
    before = used().total
    database = sqlite3.connect(catalogue.SCHEMA.path)
    ((data,),) = database.execute("SELECT data FROM details").fetchall()
    stamp, answers, state = msgspec.msgpack.decode(sqlite.unseal(data))
    for nonsense in ("text", [["m"]], [["m"], [["x"]]], [5, []], None):
        packed = msgspec.msgpack.encode([stamp, nonsense, state])
        database.execute("UPDATE details SET data = ?", (sqlite.seal(packed),))
        database.commit()
        catalogue.forget_process_memory()
        assert used().total == before
    assert answers
    database.close()
