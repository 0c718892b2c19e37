"""The manual page that the wheel brings, as ``man`` shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Machine

from sessiontree.cli.program import start

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("man") / "sessiontree.1"
    with path.open("wb") as file:
        subprocess.run([sys.executable, str(SCRIPTS / "man_page.py")], stdout=file, check=True)
    return path


@pytest.fixture(scope="module")
def shown(page: Path) -> str:
    """The page as ``man`` prints it."""
    env = {**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    done = subprocess.run(["man", str(page)], capture_output=True, text=True, check=True, env=env)
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def test_the_page_has_every_command_and_option(machine: Machine, shown: str) -> None:
    for name in start.list_commands(start.make_context("sessiontree", [], resilient_parsing=True)):
        assert re.search(rf"^   {re.escape(name)}$", shown, re.MULTILINE), name
        helped = machine.run(name, "--help").out
        for option in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", helped, re.MULTILINE):
            assert option == "--help" or option in shown


def test_examples_keep_their_lines(shown: str) -> None:
    assert re.search(r"^ +sessiontree ls --all -n 50 +the 50 newest", shown, re.MULTILINE)
