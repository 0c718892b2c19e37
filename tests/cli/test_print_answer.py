"""``-p``: one answer, no screen. The offline agent answers, so that no model is needed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path

from .conftest import PROGRAM, Machine

A = "01a1f00000000001"
OFFLINE = ("--model", "offline")


def _session(machine: Machine) -> list[dict[str, object]]:
    (path,) = machine.agent_dir.rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_answer_goes_to_standard_output_and_the_session_is_kept(machine: Machine) -> None:
    (machine.project / "notes.txt").write_text("the secret word is quokka\n")
    result = machine.run("-p", "read notes.txt", *OFFLINE)
    assert (result.code, result.err) == (0, "")
    assert "the secret word is quokka" in result.out
    assert result.out.endswith("\n")
    roles = [line["message"]["role"] for line in _session(machine) if line["type"] == "message"]  # type: ignore[index]
    assert roles[0] == "user"
    assert roles[-1] == "assistant"
    assert "read notes.txt" in machine.run("history").out


def test_going_on_with_the_same_session(machine: Machine) -> None:
    machine.run("-p", "hello", *OFFLINE)
    result = machine.run("-c", "-p", "hello again", *OFFLINE)
    assert result.code == 0
    assert 'Resuming "hello"' in result.err
    assert len(list(machine.agent_dir.rglob("*.jsonl"))) == 1


def test_the_prompt_can_come_from_standard_input(machine: Machine) -> None:
    result = machine.run("-p", "-", *OFFLINE, stdin="read missing.txt")
    assert result.code == 0
    assert machine.run("history").lines[0].split("  ")[1] == "read missing.txt"
    empty = machine.run("-p", "-", *OFFLINE)
    assert (empty.code, empty.out) == (2, "")


def test_a_provider_key_in_a_prompt_reaches_no_file(machine: Machine) -> None:
    key = "zz-" + "Qk7f9secret" * 3
    machine.env["OPENAI_API_KEY"] = key
    assert machine.run("-p", f"my key is {key}", *OFFLINE).code == 0
    assert "my key is [key hidden]" in machine.run("history").out
    files = [path for path in machine.agent_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if key.encode() in path.read_bytes()]


def test_nothing_is_kept_without_a_session(machine: Machine) -> None:
    result = machine.run("--no-session", "-p", "hello", *OFFLINE)
    assert result.code == 0
    assert list(machine.agent_dir.rglob("*")) == []


def test_without_a_provider_it_fails_and_leaves_nothing(machine: Machine) -> None:
    result = machine.run("-p", "hello")
    assert (result.code, result.out) == (1, "")
    assert "No API key found" in result.err
    assert result.err.count("\n") == 1
    assert [path for path in machine.agent_dir.rglob("*") if path.is_file()] == []


def test_without_a_provider_a_fork_is_not_left_behind(machine: Machine) -> None:
    source = machine.session(A, "hello", "hi", title="Source")
    before = source.read_bytes()
    result = machine.run("--fork", A[:8], "-p", "hello")
    assert result.code == 1
    assert "No API key found" in result.err
    assert [each["id"] for each in machine.run("ls", "--all", "--json").json] == [A]
    assert source.read_bytes() == before


def test_a_model_that_is_not_known_is_said(machine: Machine) -> None:
    result = machine.run("-p", "hello", "--model", "nonsense")
    assert result.code == 1
    assert "nonsense" in result.err
    assert result.err.count("\n") == 1


def test_tools_that_write_are_refused_when_nobody_can_be_asked(machine: Machine) -> None:
    result = machine.run("-p", "write out.txt\nhello", *OFFLINE)
    assert not (machine.project / "out.txt").exists()
    assert "no one can be asked" in result.out


def test_tools_that_write_ask_on_the_terminal(machine: Machine) -> None:
    prompt = "write out.txt\nhello"
    refused = machine.on_terminal("-p", prompt, *OFFLINE, replies=[("[y/N]", "n\n")])
    assert "Allow write? [y/N]" in refused.out
    assert not (machine.project / "out.txt").exists()
    allowed = machine.on_terminal("-p", prompt, *OFFLINE, replies=[("[y/N]", "y\n")])
    assert allowed.code == 0
    assert (machine.project / "out.txt").read_text().strip() == "hello"
    assert "Resume with: " in allowed.out


def test_what_an_answer_holds_can_not_harm_the_terminal(machine: Machine) -> None:
    Path(machine.project / "evil.txt").write_text("before \x1b]0;owned\x07 after\n")
    shown = machine.on_terminal("-p", "read evil.txt", *OFFLINE, NO_COLOR="1")
    assert "owned" in shown.out
    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out


def test_a_reader_that_is_gone_ends_the_run_quietly(machine: Machine) -> None:
    (machine.project / "long.txt").write_text("a line of many\n" * 2000)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [PROGRAM, "-p", "read long.txt", *OFFLINE],
        cwd=machine.project,
        env=machine.env,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    said = [line["message"] for line in _session(machine) if line["type"] == "message"]
    assert [message["role"] for message in said] == ["user", "assistant"]  # type: ignore[index]
    assert said[-1]["stopReason"] == "aborted"  # type: ignore[index]
    assert machine.run("-c", "-p", "hello", *OFFLINE).code == 0


def test_an_answer_that_can_not_be_written_is_one_line_of_complaint(machine: Machine) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [PROGRAM, "-p", "hello", *OFFLINE],
            cwd=machine.project,
            env=machine.env,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"No space left on device\n")


def test_a_store_that_can_not_be_written_is_one_line_of_complaint(machine: Machine) -> None:
    machine.agent_dir.write_text("no folder")
    result = machine.run("-p", "hello", *OFFLINE)
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert result.err.startswith(str(machine.agent_dir))


def test_a_history_that_can_not_be_written_is_a_warning_after_the_answer(machine: Machine) -> None:
    (machine.agent_dir / "history.db").mkdir(parents=True)
    result = machine.run("-p", "hello", *OFFLINE)
    assert result.code == 0
    assert "offline agent" in result.out
    assert result.err.startswith("warning: prompt history")
    assert result.err.count("\n") == 1


def test_a_history_that_another_program_holds_does_not_delay_the_answer(machine: Machine) -> None:
    machine.run("-p", "first", *OFFLINE)
    holder = sqlite3.connect(machine.agent_dir / "history.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    try:
        result = machine.run("-p", "second", *OFFLINE)
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert result.code == 0
    assert "1 prompt could not be saved" in result.err
    # the wait was 10 s; what the program itself takes depends on the machine
    assert time.monotonic() - began < 8
