"""The registry of agents, and what every adapter must keep to."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree.discovery import adapters, catalogue
from sessiontree.discovery.adapters import (
    UnknownAgentError,
    agent_names,
    get_adapter,
    get_adapters,
    register_adapter,
    unregister_adapter,
)
from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.adapters.codex import Codex
from sessiontree.discovery.adapters.records import read_records
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.catalogue.answers import Reading
from sessiontree.discovery.sources import find_sources
from sessiontree.discovery.texts import SaidText, read_texts
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.storage.base import SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

GOLDEN = Path(__file__).parents[3] / "golden"


def golden_files(agent: str) -> list[Path]:
    return sorted((GOLDEN / agent).rglob("*.jsonl"))


EVERY = [(name, path) for name in ("claude-code", "codex", "pi") for path in golden_files(name)]


@pytest.fixture(autouse=True)
def fresh(home: Path) -> Iterator[Path]:
    catalogue.forget_process_memory()
    yield home
    catalogue.forget_process_memory()


@contextlib.contextmanager
def opened(path: Path, adapter: AgentAdapter) -> Iterator[SessionStorageReader]:
    reader = adapter.open(str(path), FileSessionStorage())
    try:
        yield reader
    finally:
        reader.close()


def read(path: Path, adapter: AgentAdapter, known: Reading | None = None) -> Reading:
    with opened(path, adapter) as reader:
        return adapter.read(reader, str(path), reader.stat().size, known)


def test_all_agents_are_those_of_pis_family_and_the_others() -> None:
    assert agent_names()[: len(PROFILE_NAMES) + 2] == [*PROFILE_NAMES, "claude-code", "codex"]
    assert [each.name for each in get_adapters("all")] == agent_names()
    assert [each.name for each in get_adapters("codex")] == ["codex"]
    assert [each.name for each in get_adapters(["pi", "codex", "pi"])] == ["pi", "codex"]
    with pytest.raises(UnknownAgentError, match="claude-code"):
        get_adapters(["nonesuch"])


def test_an_adapter_can_be_registered_and_removed() -> None:
    class Other(Codex):
        name = "other-agent"
        title = "Other"

    made = Other()
    register_adapter(made)
    try:
        assert get_adapter("other-agent") is made
        assert "other-agent" in agent_names()
    finally:
        unregister_adapter("other-agent")
    assert "other-agent" not in agent_names()


def _install(folder: Path, code: str) -> dict[str, str]:
    """A package with an agent ``foo``; the environment in which Python finds it."""
    info = folder / "foo_sessions-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foo-sessions\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sessiontree.agents]\nfoo = foo_sessions:Foo\n")
    (folder / "foo_sessions.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_an_installed_package_brings_its_agent(tmp_path: Path) -> None:
    environment = _install(
        tmp_path,
        "from sessiontree.discovery.adapters.codex import Codex\n"
        "class Foo(Codex):\n    name = 'foo'\n    title = 'Foo'\n",
    )
    code = "from sessiontree.discovery.adapters import get_adapter; print(get_adapter('foo').title)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "Foo\n", done.stderr


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            """
from sessiontree.discovery.adapters.base import AgentAdapter
class Foo(AgentAdapter):
    name = 'foo'
    title = 'Foo'
""",
            "abstract",
        ),
        ("import nonesuch\n", "No module named 'nonesuch'"),
        ("class Foo:\n    name = 'foo'\n", "title"),
    ],
    ids=["methods missing", "import fails", "no adapter"],
)
def test_an_installed_agent_that_does_not_load_is_left_out_and_logged(
    tmp_path: Path, code: str, reason: str
) -> None:
    listing = """
import logging
logging.basicConfig()
from sessiontree.discovery.adapters import get_adapters
print(*(adapter.name for adapter in get_adapters()))
"""
    done = subprocess.run(
        [sys.executable, "-c", listing],
        env=_install(tmp_path, code),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == agent_names()
    assert "agent foo (foo_sessions:Foo) left out" in done.stderr
    assert reason in done.stderr


def test_looking_at_one_agent_loads_no_other_and_no_importer() -> None:
    code = (
        "import sys; from sessiontree.discovery.adapters import get_adapter; get_adapter('codex');"
        "print([m for m in sys.modules if 'importers' in m or 'adapters.claude' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_environment_variables_say_where_sessions_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "claude" / "projects" / "-srv-shop"
    shutil.copytree(GOLDEN / "claude-code", project)
    shutil.copytree(GOLDEN / "codex", tmp_path / "codex")
    assert all(not list(source.places.files()) for source in find_sources())
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    found = {source.adapter.name: len(list(source.places.files())) for source in find_sources()}
    assert found["claude-code"]
    assert found["codex"]


@pytest.mark.parametrize("agent", ["goose", "opencode"])
def test_the_folder_of_programs_data_may_lie_elsewhere(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "_loaded", {})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert adapters.is_absent(agent)
    (tmp_path / "data" / agent).mkdir(parents=True)
    assert not adapters.is_absent(agent)


@pytest.mark.parametrize(("agent", "path"), EVERY, ids=lambda value: Path(value).name)
def test_a_file_is_recognized_by_its_own_agent_only(agent: str, path: Path) -> None:
    records = read_records(path.read_bytes()).records[:50]
    others = [name for name in ("claude-code", "codex", "pi") if name != agent]
    if get_adapter(agent).is_session(str(path), records):
        assert not any(get_adapter(name).is_session(str(path), records) for name in others)


@pytest.mark.parametrize(("agent", "path"), EVERY, ids=lambda value: Path(value).name)
def test_reading_on_gives_what_reading_everything_gives(
    agent: str, path: Path, tmp_path: Path
) -> None:
    adapter = get_adapter(agent)
    data = path.read_bytes()
    copy = tmp_path / path.name
    copy.write_bytes(data)
    whole = read(copy, adapter)
    cuts = [at + 1 for at, byte in enumerate(data) if byte == 10][::3]
    for cut in cuts if adapter.can_read_on else ():
        copy.write_bytes(data[:cut])
        known = read(copy, adapter)
        copy.write_bytes(data)
        if known.summary.can_go_on:
            again = read(copy, adapter, known)
            assert again.summary == whole.summary
            assert again.answers == whole.answers


@pytest.mark.parametrize("damage", [b"", b'{"torn', b"\xff", b"\\ud83d"], ids=str)
@pytest.mark.parametrize(("agent", "path"), EVERY, ids=lambda value: Path(value).name)
def test_one_reading_for_list_and_index_gives_what_two_give(
    agent: str, path: Path, damage: bytes, tmp_path: Path
) -> None:
    adapter = get_adapter(agent)
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(2, len(lines), 3):  # in the middle of a line
        half = len(lines[at]) // 2
        lines[at] = lines[at][:half] + damage + lines[at][half:]
    copy = tmp_path / path.name
    copy.write_bytes(b"".join(lines))
    with opened(copy, adapter) as reader:
        size = reader.stat().size
        both = adapter.read_with_texts(reader, str(copy), size)
        if both is None:
            return
        said: list[SaidText] = []
        try:
            while True:
                said.append(next(both))
        except StopIteration as end:
            reading = end.value
        twice = list(read_texts(reader, 0, size, include_tools=True, adapter=adapter))

    assert reading == read(copy, adapter)
    assert list(adapter.drop_repeated(iter(said))) == twice


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_catalogue_says_what_a_full_scan_says(
    agent: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "SMALLEST_GROWN_BYTES", 64)
    folder = fresh / (".claude/projects/-x" if agent == "claude-code" else ".codex/sessions")
    shutil.copytree(GOLDEN / agent, folder)
    files = sorted(folder.rglob("*.jsonl"))

    def answer() -> dict[str, object]:
        (source,) = find_sources(agent)
        found = {stat.path: summary for stat, summary in source.survey().found}
        paid = source.survey_answers()
        return {path: (summary, paid[path]) for path, summary in found.items()}

    def full_scan() -> dict[str, object]:
        adapter = get_adapter(agent)
        found: dict[str, object] = {}
        for path in files:
            reading = read(path, adapter)
            if str(path) in listed:
                found[str(path)] = (reading.summary, reading.answers)
        return found

    listed = answer()
    assert listed == full_scan()
    for path in files:
        lines = path.read_bytes().splitlines(keepends=True)
        with path.open("ab") as file:
            file.write(b"".join(lines[-2:]) + b'{"torn')
        catalogue.forget_process_memory()
        assert answer() == full_scan()
    assert adapters.get_adapter(agent) is get_adapter(agent)
