"""docs/teams.md, followed word for word on a server, and its figures made again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import fleet
from tests.postgres_server import Server, own_server, tool

from sessiontree import SessionManager
from sessiontree.stores import open_store

PAGE = Path(__file__).parents[2] / "docs" / "teams.md"
_BLOCK = re.compile(r"<!-- run on a server -->\n```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as own:
        yield own


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Each command of the page, and the lines that it shows below."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(_BLOCK.findall(page)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def test_its_commands_lead_from_nothing_to_a_team(server: Server, tmp_path: Path) -> None:
    folders = [str(Path(sys.executable).parent), str(Path(tool("psql")).parent), os.environ["PATH"]]
    env = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join(folders),
        "PGPORT": str(server.port),
        "PGHOSTADDR": "127.0.0.1",
        "LANG": "C.UTF-8",
    }
    project = tmp_path / "project"
    project.mkdir()
    told = commands(PAGE.read_text(encoding="utf-8"))
    assert len(told) > 15
    script = "".join(f"{command}\necho '--- end'\n" for command, _ in told)
    done = subprocess.run(
        ["bash", "-e"],
        input=script,
        capture_output=True,
        text=True,
        env=env,
        cwd=project,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split("--- end\n")
    for (command, expected), output in zip(told, outputs, strict=False):
        for line in expected:
            assert line in output.splitlines(), command
    (shown,) = [
        output
        for (command, _), output in zip(told, outputs, strict=False)
        if command == "sessiontree show"
    ]
    assert shown.count("You  ") == 2  # Anna's prompt and Ben's
    assert "secret" not in done.stdout + done.stderr


def test_its_figures_are_those_of_the_simulation() -> None:
    assert fleet.report() in PAGE.read_text(encoding="utf-8")


def test_groups_of_tenants_share_a_database_each_in_its_schema(server: Server) -> None:
    server.execute("CREATE DATABASE shared")
    stores = []
    for group in ("group6", "group7"):
        server.execute(f"CREATE SCHEMA {group}", "shared")
        url = f"{server.url('shared')}?tenant=acme&options=-csearch_path%3D{group}"
        done = subprocess.run(
            [sys.executable, "-m", "sessiontree", "store", "init", url],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with SessionManager.create("/work", storage=url) as session:
            session.append_message({"role": "user", "content": f"word of {group}", "timestamp": 0})
            session.append_message({"role": "assistant", "content": [], "timestamp": 0})
        stores.append(open_store(url))
    for store in stores:
        assert len(store.list()) == len(store.search("word")) == 1
