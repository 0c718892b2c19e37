"""``usage``: what was paid is counted once, and a table fits its terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree.cli import tables
from sessiontree.session.manager import SessionManager

from .conftest import Machine, Result, assistant, behead, user

A, B = "0199a3f2c0de1234", "0199b000c0de5678"
_COPIED = "{} (in forks and other copies): counted once"


@pytest.fixture
def here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine, whose sessions this process opens as well."""
    for name in ("SESSIONTREE_AGENT_DIR", "SESSIONTREE_CACHE_DIR", "HOME"):
        monkeypatch.setenv(name, machine.env[name])
    monkeypatch.delenv("SESSIONTREE_PROFILE", raising=False)
    return machine


def _fork(path: Path, project: Path) -> Path:
    with SessionManager.fork_from(path, project) as copy:
        assert copy.session_file is not None
        return Path(copy.session_file)


def _branch(path: Path, leaf_id: str) -> Path:
    with SessionManager.open(path) as manager:
        manager.create_branched_session(leaf_id)
        assert manager.session_file is not None
        return Path(manager.session_file)


def _clone(path: Path, _: str) -> Path:
    with SessionManager.open(path) as manager:
        manager.fork()
        assert manager.session_file is not None
        return Path(manager.session_file)


def _costs(result: Result, by: str) -> dict[str, float]:
    return {row[by]: row["cost"] for row in result.json}


# -- copies ----------------------------------------------------------------------------------------


def test_a_fork_does_not_pay_again(here: Machine) -> None:
    began = datetime(2026, 2, 16, 10, tzinfo=UTC)
    path = here.session(A, "one", "yes", "two", "yes", title="First", said=began)
    copy = _fork(path, here.project)
    result = here.run("usage")
    assert result.lines[-1].split()[-1] == "$1.00"
    assert [line.split()[-1] for line in result.lines[:-1]] == ["$1.00", "$1.00"]
    assert _COPIED.format("2 copied answers") in result.err
    assert _costs(here.run("usage", "--by", "model", "--json"), "model") == {"acme/m1": 1.0}
    assert _costs(here.run("usage", "--by", "day", "--json"), "day") == {"2026-02-16": 1.0}
    rows = {row["session"]: row for row in here.run("usage", "--json").json}
    own = rows.pop(A)
    assert (own["cost"], own["copied"]["cost"], own["copied"]["answers"]) == (1.0, 0, 0)
    (made,) = rows.values()
    assert (made["cost"], made["copied"]["cost"], made["copied"]["answers"]) == (1.0, 1.0, 2)
    # Alone it has no one to share with.
    copied = here.run("usage", str(copy))
    assert copied.lines[0].endswith("$1.00")
    assert "copied" not in copied.err


@pytest.mark.parametrize("make", [_branch, _clone])
def test_other_copies_do_not_pay_again_and_what_they_add_is_paid(
    here: Machine, make: Callable[[Path, str], Path]
) -> None:
    path = here.session(A, "one", "yes", "two", "yes")
    copy = make(path, "00000002")
    with SessionManager.open(copy) as manager:
        manager.append_message({"role": "user", "content": "more", "timestamp": 1})
        manager.append_message(assistant("new")["message"])
    assert _costs(here.run("usage", "--by", "model", "--json"), "model") == {"acme/m1": 1.5}


def test_a_copied_answer_counts_for_the_project_it_was_given_in(here: Machine) -> None:
    path = here.session(A, "one", "yes", age_s=600)
    other = here.root / "other"
    other.mkdir()
    _fork(path, other)
    found = _costs(here.run("usage", "--all", "--by", "project", "--json"), "project")
    assert found == {str(here.project): 0.5}
    assert _costs(here.run("usage", "--by", "project", "--json", cwd=other), "project") == {
        str(other): 0.5
    }


def test_a_copy_of_a_copy_is_known_when_what_was_between_is_gone(here: Machine) -> None:
    path = here.session(A, "one", "yes")
    between = _fork(path, here.project)
    _fork(between, here.project)
    between.unlink()
    assert _costs(here.run("usage", "--by", "model", "--json"), "model") == {"acme/m1": 0.5}


def test_a_bundle_that_is_taken_in_beside_its_session_does_not_pay_again(here: Machine) -> None:
    here.session(A, "one", "yes")
    assert here.run("export", A, "--bundle", "-o", "s.zip").code == 0
    assert here.run("import", "s.zip").code == 0
    assert len(here.run("usage", "--json").json) == 2
    assert _costs(here.run("usage", "--by", "model", "--json"), "model") == {"acme/m1": 0.5}


def test_unrelated_sessions_whose_entries_are_called_alike_both_pay(here: Machine) -> None:
    here.session(A, "one", "yes")
    here.session(B, "one", "yes")
    result = here.run("usage", "--by", "model")
    assert result.lines[0].endswith("$1.00")
    assert "copied" not in result.err


def test_an_answer_that_got_another_id_is_known_by_its_response(here: Machine) -> None:
    def answers(*ids: str) -> list[dict[str, Any]]:
        said = [assistant("yes", responseId=f"r{number}") for number in range(len(ids))]
        return [user("q"), *({**each, "id": name} for each, name in zip(said, ids, strict=True))]

    here.session(A, entries=answers("aaaaaaaa", "bbbbbbbb"))
    here.session(B, entries=answers("cccccccc"), header={"parentSession": A})
    assert _costs(here.run("usage", "--by", "model", "--json"), "model") == {"acme/m1": 1.0}


def test_a_file_that_was_copied_by_hand_is_one_session(here: Machine) -> None:
    path = here.session(A, "one", "yes")
    path.with_name(f"2026-02-17T10-20-30-000Z_{A}.jsonl").write_bytes(path.read_bytes())
    (row,) = here.run("usage", "--json").json
    assert (row["cost"], row["answers"]) == (0.5, 1)


# -- all agents ----------------------------------------------------------------------------------


def _put_claude(machine: Machine, **usage: int) -> None:
    folder = machine.home / ".claude" / "projects" / "-srv-shop"
    records: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "hello"}},
        {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "id": "msg_1",
                "model": "claude-haiku-4-5",
                "content": [{"type": "text", "text": "yes"}],
                "stop_reason": "end_turn",
                "usage": usage,
            },
        },
    ]
    base = {"cwd": "/srv/shop", "sessionId": "11111111-1111-4111-8111-111111111111"}
    folder.mkdir(parents=True)
    (folder / f"{base['sessionId']}.jsonl").write_text(
        "".join(
            json.dumps({**base, "uuid": str(no), "timestamp": f"2026-03-01T10:0{no}:00Z", **each})
            + "\n"
            for no, each in enumerate(records)
        )
    )


def test_all_agents_are_added_up_and_what_has_no_price_is_estimated(machine: Machine) -> None:
    machine.session(A, "one", "yes", title="First")
    _put_claude(machine, input_tokens=1_000_000, output_tokens=100_000)
    rows = {row["agent"]: row for row in machine.run("usage", "--all-agents", "--json").json}
    assert rows["claude-code"]["cost"] == pytest.approx(1.5)  # $1 and $5 a million
    assert rows["claude-code"]["estimatedCost"] == pytest.approx(1.5)
    assert (rows["sessiontree"]["cost"], rows["sessiontree"]["estimatedCost"]) == (0.5, 0)
    result = machine.run("usage", "--all-agents")
    assert [line.split()[-1] for line in result.lines] == ["~$1.50", "$0.50", "~$2.00"]
    assert "estimated by list prices" in result.err
    only = machine.run("usage", "--agent", "claude-code", "--all", "--by", "day", "--json").json
    assert [(row["day"], row["input"]) for row in only] == [("2026-03-01", 1_000_000)]
    assert machine.run("import", "--all").code == 0
    assert machine.run("usage", "--all-agents").lines == result.lines


def test_a_chart_shows_what_cost_most_on_a_terminal_only(machine: Machine) -> None:
    machine.session(A, "one", "yes")
    _put_claude(machine, input_tokens=1_000_000, output_tokens=100_000)
    args = ("usage", "--all-agents")
    shown = machine.on_terminal(*args, NO_COLOR="1", columns=100).out.splitlines()
    bars = [line.count("█") for line in shown[1:3]]
    assert bars[0] in (12, 20, 30, 40)
    assert bars[1] == bars[0] // 3
    assert all(len(line) <= 100 for line in shown)
    assert "█" not in machine.run(*args).out


def test_at_80_columns_numbers_are_rounded_to_leave_room_for_the_chart(here: Machine) -> None:
    big = _usage(
        input=123_456_789, output=9_876_543, cacheRead=876_543_210, cacheWrite=7_654_321, cost=1234
    )
    here.session(A, entries=[user("q"), assistant("a", usage=big, model="one")])
    here.session(B, entries=[user("q"), assistant("a", usage=big, model="two")])
    lines = here.on_terminal("usage", "--by", "model", NO_COLOR="1").lines
    assert "123M" in lines[1]
    assert lines[1].endswith("████████")
    assert max(map(len, lines)) <= 80


# -- fitting ---------------------------------------------------------------------------------------


def _usage(**fields: float) -> dict[str, Any]:
    cost = {"total": fields.pop("cost", 0.0)}
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, **fields, "cost": cost}


def test_a_table_fits_80_columns(machine: Machine) -> None:
    big = _usage(
        input=123_456_789, output=9_876_543, cacheRead=876_543_210, cacheWrite=7_654_321, cost=1234
    )
    title = "A title that goes on and on so that it can not possibly stand in one line"
    model = "claude-something-with-a-long-name-20260216"
    entries = [user("q"), assistant("a", usage=big, model=model)]
    machine.session(A, entries=entries, title=title)
    machine.session("0199a3f2c0de9999", entries=entries, title=title)
    for by in ("session", "model", "day", "project"):
        lines = machine.on_terminal("usage", "--by", by, NO_COLOR="1").out.splitlines()
        assert "COST" in lines[0], lines
        assert max(map(len, lines)) <= 80, lines
    # A program gets every digit.
    assert "123,456,789" in machine.run("usage").out


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (999_600, "1.0M"),
        (123_456_789, "123M"),
        (5_000_000_000, "5.0G"),
        (7_000_000_000_000, "7T"),
    ],
)
def test_a_number_that_does_not_fit_is_rounded(number: int, shown: str) -> None:
    assert tables.short_number(number) == shown


def test_columns_of_zeros_are_left_out_for_people_only(machine: Machine) -> None:
    machine.session(A, "one", "yes", title="First")
    lines = machine.on_terminal("usage", NO_COLOR="1").out.splitlines()
    assert lines[0].split() == ["SESSION", "TITLE", "ANSWERS", "INPUT", "OUTPUT", "COST"]
    assert lines[1].split() == [A[:8], "First", "1", "100", "20", "$0.50"]
    assert machine.run("usage").lines[0].split()[2:] == ["1", "100", "20", "0", "0", "$0.50"]


def test_all_projects_and_one_session_do_not_go_together(machine: Machine) -> None:
    machine.session(A, "one", "yes")
    result = machine.run("usage", A, "--all")
    assert result.code == 2
    assert "--all goes without an ID." in result.err
    assert "--agent goes without" in machine.run("usage", A, "--agent", "pi").err


def test_a_hostile_head_is_no_obstacle(machine: Machine) -> None:
    odd: dict[str, Any] = {"importedFrom": {"sessionId": [1]}, "convertedFrom": "x"}
    machine.session(A, "one", "yes", header=odd)
    said = [{**user("one"), "id": "aaaaaaaa"}, assistant("yes")]
    path = machine.session(B, entries=said, header={"parentSession": "no/such\x00.jsonl"})
    path.write_text(path.read_text() + json.dumps({"id": 1, "timestamp": []}) + "\n")
    assert machine.run("usage", "--by", "model").lines[0].endswith("$1.00")


@pytest.mark.parametrize("scope", [(), ("--all",), ("--all", "--by", "day")])
def test_what_can_not_be_read_costs_nobody_else_a_row(
    machine: Machine, scope: tuple[str, ...]
) -> None:
    machine.session(A, "one", "yes")
    behead(machine.session(B, "two", "yes"))
    machine.session("0199c111", "three", "yes").write_text("never a session\n")
    result = machine.run("usage", *scope)
    assert (result.code, len(result.lines)) == (0, 1)
    assert result.lines[0].endswith("$0.50")
    assert result.err.count("\n") == 1
    assert result.err.endswith("2 unreadable files (sessiontree doctor)\n")
    assert len(machine.run("usage", *scope, "--json").json) == 1
    alone = machine.run("usage", B)
    assert (alone.code, alone.out) == (1, "")
    assert "no session header" in alone.err
