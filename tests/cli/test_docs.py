"""What docs/cli.md says is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from sessiontree.cli.program import _COMMANDS, start

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
_ROW = re.compile(r"^\| `([a-z]+)\b(.*?) \|", re.MULTILINE)


def _documented() -> dict[str, str]:
    """The usage of each command as its row in the table of commands spells it."""
    table = DOCS.read_text().partition("## Commands")[2].partition("\n\n`ID`")[0]
    return {name: usage for name, usage in _ROW.findall(table) if name in _COMMANDS}


def _options(command: click.Command) -> set[str]:
    return {
        spelling
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for spelling in parameter.opts
    }


def test_every_command_is_documented() -> None:
    assert set(_documented()) == set(_COMMANDS)


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_every_documented_option_exists(name: str) -> None:
    command = start.get_command(click.Context(start), name)
    assert command is not None
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", _documented()[name]))
    assert named <= _options(command)


def test_every_option_of_the_program_is_documented() -> None:
    text = DOCS.read_text()
    for spelling in _options(start) - {"--version", "-V", "--help", "-h"}:
        assert f"`{spelling}" in text, spelling


def test_the_completion_lines_are_what_the_shells_are_given() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_SESSIONTREE_COMPLETE={shell}_source sessiontree" in DOCS.read_text()
