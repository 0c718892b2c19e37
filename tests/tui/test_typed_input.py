"""What is typed: commands, shell commands, prompts, and going back to earlier ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.tui.chat.command_list import (
    COMMANDS,
    Invocation,
    Mistake,
    Prompt,
    ShellCommand,
    complete,
    parse_input,
)
from sessiontree.tui.chat.recall import Recall

WANTED = (
    "resume new tree branch fork clone name label session model thinking plan compact search "
    "export copy help quit"
)


def test_every_command_of_the_contract_is_there() -> None:
    assert set(WANTED.split()) <= {command.name for command in COMMANDS}


@pytest.mark.parametrize("name", WANTED.split())
def test_a_slash_and_a_name_is_a_command(name: str) -> None:
    parsed = parse_input(f"/{name.upper()}  some words ")
    assert isinstance(parsed, Invocation)
    assert (parsed.command.name, parsed.argument) == (name, "some words")


def test_names_of_other_programs_are_understood() -> None:
    parsed = parse_input("/exit")
    assert isinstance(parsed, Invocation)
    assert parsed.command.name == "quit"


def test_a_mistyped_command_is_not_sent_to_the_model() -> None:
    parsed = parse_input("/resmue")
    assert parsed == Mistake("Unknown command /resmue. Did you mean /resume? /help lists them all")


@pytest.mark.parametrize(
    "text", ["/etc/hosts is wrong", "/usr/bin/x", " /resume", "a /resume", "/ what"]
)
def test_what_only_looks_like_a_command_is_a_prompt(text: str) -> None:
    assert parse_input(text) == Prompt(text.strip())


def test_shell_commands_with_and_without_the_model() -> None:
    assert parse_input("!git status ") == ShellCommand("git status", False)
    assert parse_input("!!git status") == ShellCommand("git status", True)
    assert isinstance(parse_input("!"), Mistake)
    assert isinstance(parse_input("!! "), Mistake)


@given(st.text())
def test_any_text_is_one_of_these(text: str) -> None:
    parsed = parse_input(text)
    if isinstance(parsed, Prompt):
        assert parsed.text == text.strip()


def test_completions_offer_what_begins_so_first() -> None:
    assert [command.name for command in complete("/re")] == ["resume", "tree"]
    assert complete("/resume now") == []
    assert complete("hello") == []
    assert len(complete("/")) == len(COMMANDS)


# -- earlier prompts -----------------------------------------------------------------------------


def test_going_back_and_forth_ends_at_the_unsent_text() -> None:
    recall = Recall(["new", "old"])
    assert recall.older("draft") == "new"
    assert recall.older("new") == "old"
    assert recall.older("old") is None
    assert recall.newer() == "new"
    assert recall.newer() == "draft"
    assert recall.newer() is None


def test_a_sent_prompt_is_the_newest_and_is_offered_once() -> None:
    recall = Recall(["b", "a"])
    recall.older("")
    recall.add("a")
    assert [recall.older(""), recall.older(""), recall.older("")] == ["a", "b", None]


def test_without_any_prompt_there_is_nothing_to_go_back_to() -> None:
    recall = Recall()
    assert recall.older("draft") is None
    assert recall.newer() is None
