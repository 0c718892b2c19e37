"""What docs/cli.md says is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from sessiontree.cli.program import _COMMANDS, start
from sessiontree.profiles import PROFILE_NAMES, get_profile
from sessiontree.runtime.models import ModelRegistry

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


def _commands_in(text: str) -> list[str]:
    """The lines of a document's examples that run the program."""
    found = re.findall(r"^(?:\$ )?sessiontree ([a-z]+ .*)$", text, re.MULTILINE)
    return [each for each in found if each.partition(" ")[0] in _COMMANDS]


@pytest.mark.parametrize("document", ["cli.md", "importing.md"])
def test_every_example_is_understood(document: str) -> None:
    for line in _commands_in(DOCS.with_name(document).read_text()):
        # What stands behind it, after some blanks or a #, says what it does.
        name, *words = shlex.split(re.split(r"\s{3,}|\s#", line)[0])
        command = start.get_command(click.Context(start), name)
        assert command is not None
        command.make_context(name, words)


def test_the_examples_of_importing_are_found() -> None:
    lines = _commands_in(DOCS.with_name("importing.md").read_text())
    assert len(lines) >= 7


def test_the_place_of_the_table_of_models_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SESSIONTREE_AGENT_DIR", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    section = DOCS.read_text().partition("### Models of your own")[2].partition("\n### ")[0]
    for name in PROFILE_NAMES:
        folder = get_profile(name).agent_dir.replace(str(tmp_path), "~")
        assert f"`{folder}" in section
    agent_dir = Path(get_profile("sessiontree").agent_dir)
    agent_dir.mkdir(parents=True)
    example = section.partition("```toml\n")[2].partition("```")[0]
    (agent_dir / "models.toml").write_text(example.replace("ollama", "mine"))
    registry = ModelRegistry.load(agent_dir)
    assert registry.warnings == []
    assert "mine/qwen3:32b" in registry


def test_the_completion_lines_are_what_the_shells_are_given() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_SESSIONTREE_COMPLETE={shell}_source sessiontree" in DOCS.read_text()
