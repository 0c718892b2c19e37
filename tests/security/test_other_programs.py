"""Files of other programs, whatever they are called: no command costs them a byte."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine
from tests.samples import assistant as answer
from tests.samples import chain, header, lines, slot, write
from tests.samples import user as prompt

from sessiontree import NotASessionError, SessionManager
from sessiontree.export.convert import convert_session
from sessiontree.maintenance.annotations import rename_session
from sessiontree.maintenance.checkup import check_profile, repair_findings
from sessiontree.profiles import Profile
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.rerooting import reroot_session
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.files.trash import move_to_trash

TIME = "2026-02-16T10:20:30.000Z"
UUID = "0b3a1c52-7c7e-4c0e-9a60-3f5d2f6b8a11"
CLAUDE = lines(
    {"type": "summary", "summary": "Fix", "leafUuid": UUID},
    {
        "parentUuid": None,
        "isSidechain": False,
        "cwd": "/work/app",
        "sessionId": UUID,
        "type": "user",
        "message": {"role": "user", "content": "hello"},
        "uuid": UUID,
        "timestamp": TIME,
    },
)
CODEX = lines(
    {"timestamp": TIME, "type": "session_meta", "payload": {"id": UUID, "cwd": "/work/app"}},
    {
        "timestamp": TIME,
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "hello"}],
        },
    },
)
OTHERS = {
    "training data": lines(*({"messages": [prompt("a"), answer("b")], "id": n} for n in range(9))),
    "prompts": lines(*({"prompt": "a", "completion": "b"} for _ in range(3))),
    "comments": lines(
        {"type": "comment", "id": "c1", "parentId": None, "timestamp": TIME, "text": "a"},
        {"type": "comment", "id": "c2", "parentId": "c1", "timestamp": TIME, "text": "b"},
    ),
    "chat export": lines(
        {"type": "message", "id": "m1", "parentId": None, "timestamp": TIME, "text": "a"}
    ),
    "visits": lines(*({"type": "session", "id": f"v{n}", "clicks": n} for n in range(4))),
    "visits and clicks": lines(
        {"type": "session", "id": "v1"}, {"type": "click", "id": "k1", "session": "v1"}
    ),
    # The same names as ours, below a head of its own.
    "another agent": lines(
        {"type": "session_start", "id": UUID, "title": "t", "cwd": "/work/app"},
        {
            "type": "message",
            "id": "m1",
            "parentId": None,
            "timestamp": TIME,
            "message": {"role": "user", "content": [{"type": "text", "text": "a"}]},
        },
    ),
    "logs": lines({"level": "info", "message": "a", "timestamp": TIME}, {"level": "warn"}),
    "text": b"not JSON at all\n",
    "arrays": b"[1,2]\n[3,4]\n",
    "a table": b'session,"session","id":7\n',
    "binary": b"\x7fELF\x00\x01\x02",
    "a session quoted in a dataset": lines({"text": lines(header(), *chain(prompt("1"))).decode()}),
    "one endless line": b'{"data":"' + b"x" * 300_000 + b'"}',
}
FILES = {"Claude Code": CLAUDE, "Codex": CODEX, **OTHERS}


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = write(tmp_path / "data" / "train.jsonl", FILES[request.param])
    path.chmod(0o644)
    os.utime(path, ns=(1_000, 1_000))
    return path


def _snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _operations(profile: Profile, folder: Path) -> list[Callable[[Path], object]]:
    storage = FileSessionStorage()
    session = SessionManager.create(folder / "p", folder / "s", profile=profile)
    return [
        SessionManager.open,
        session.set_session_file,
        lambda path: SessionManager.fork_from(path, folder / "p", folder / "s"),
        lambda path: rename_session(FileStore(storage), str(path), "x"),
        lambda path: move_to_trash(path, profile=profile),
        lambda path: convert_session(path, "pi", session_dir=folder / "s"),
        lambda path: reroot_session(storage, str(path), str(folder / "n.jsonl"), str(folder), {}),
    ]


def test_no_operation_touches_the_file(file: Path, profile: Profile, tmp_path: Path) -> None:
    before = _snapshot(file.parent)
    for operation in _operations(profile, tmp_path / "elsewhere"):
        with pytest.raises(NotASessionError) as caught:
            operation(file)
        assert str(file) in str(caught.value)
        assert _snapshot(file.parent) == before
    assert not list((tmp_path / "elsewhere").rglob("*.jsonl"))


def test_no_operation_touches_it_through_a_link(
    file: Path, profile: Profile, tmp_path: Path
) -> None:
    before = _snapshot(file.parent)
    folder = Path(profile.sessions_dir) / "--p--"
    folder.mkdir(parents=True)
    link = folder / "planted.jsonl"
    link.symlink_to(file)
    for operation in _operations(profile, tmp_path / "elsewhere"):
        with pytest.raises(NotASessionError):
            operation(link)
    assert _snapshot(file.parent) == before
    assert os.listdir(folder) == [link.name]


def test_a_repair_leaves_it_alone(file: Path, profile: Profile) -> None:
    folder = Path(profile.sessions_dir) / "--p--"
    folder.mkdir(parents=True)
    planted = folder / "train.jsonl"
    planted.write_bytes(file.read_bytes())
    planted.chmod(0o600)
    before = _snapshot(folder)
    checkup = check_profile(profile)
    (finding,) = [found for found in checkup.findings if found.path == str(planted)]
    assert (finding.kind, finding.is_problem) == ("not a session", False)
    repair_findings(checkup.findings, profile)
    assert _snapshot(folder) == before


@pytest.mark.parametrize(("agent", "content"), [("Claude Code", CLAUDE), ("Codex", CODEX)])
@pytest.mark.parametrize("name", ["x.jsonl", "it's x.jsonl"])
def test_for_another_agents_transcript_the_error_says_how_to_import_it(
    tmp_path: Path, agent: str, content: bytes, name: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(NotASessionError, match=f"a {agent} transcript") as caught:
        SessionManager.open(path)
    assert shlex.join(["sessiontree", "import", str(path)]) in str(caught.value)
    assert not caught.value.is_damaged


def test_a_large_dataset_is_refused_quickly(tmp_path: Path) -> None:
    row = json.dumps({"prompt": "x" * 400, "completion": "y" * 100}).encode() + b"\n"
    path = write(tmp_path / "train.jsonl", row * 60_000)
    began = time.monotonic()
    with pytest.raises(NotASessionError):
        SessionManager.open(path)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    "content",
    [
        lines(b'{"type":"session","version":3,"id":"1f9d', *chain(prompt("1"))),
        lines({"type": "session", "cwd": "/work", "timestamp": TIME}),
        b'{"type":"sess',
        lines(slot("named"), *chain(prompt("1"))),
        lines(b"", *chain(prompt("1"))),
        lines({"broken": True}, *chain(prompt("1"))),
        lines({"type": "newer_kind", "id": "0a1b2c3d", "parentId": None, "timestamp": TIME}),
        lines({"type": "message", "timestamp": TIME, "message": prompt("version 1")}),
        b"\x00" * 4096,
    ],
)
def test_a_damaged_session_is_recovered_and_the_warning_names_both_files(
    tmp_path: Path, content: bytes
) -> None:
    path = write(tmp_path / "x.jsonl", content)
    with SessionManager.open(path) as session:
        (aside,) = tmp_path.glob("x.jsonl.corrupt-*")
        first = str(session.warnings[0])
    assert str(path) in first
    assert str(aside) in first
    assert aside.read_bytes() == content


# -- commands ----------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("rename", "{}", "x"),
        ("mv", "{}", "."),
        ("rm", "{}"),
        ("convert", "{}", "--to", "pi"),
        ("--fork", "{}", "-p", "hello", "--model", "offline"),
        ("-r", "{}", "-p", "hello", "--model", "offline"),
        ("export", "{}"),
    ],
)
def test_commands_refuse_it_in_one_line(machine: Machine, arguments: tuple[str, ...]) -> None:
    path = write(machine.project / "train.jsonl", OTHERS["training data"])
    transcript = write(machine.project / "claude.jsonl", CLAUDE)
    before = _snapshot(machine.root)
    for file in (path, transcript):
        if arguments[0] in ("export", "convert") and file == transcript:
            continue  # which they read, and leave as it is: see the next test
        result = machine.run(*(word.format(file) for word in arguments))
        assert (result.code, result.out) == (1, "")
        assert result.err.count("\n") == 1
        assert str(file) in result.err
        assert ("sessiontree import" in result.err) == (file == transcript)
        assert {**_snapshot(machine.root), **before} == _snapshot(machine.root)
    assert len(list(machine.project.iterdir())) == len([path, transcript])


@pytest.mark.parametrize("arguments", [("export", "{}"), ("convert", "{}", "--to", "pi")])
def test_commands_that_read_a_transcript_leave_it_as_it_is(
    machine: Machine, arguments: tuple[str, ...]
) -> None:
    transcript = write(machine.project / "claude.jsonl", CLAUDE)
    before = _snapshot(machine.root)
    result = machine.run(*(word.format(transcript) for word in arguments))
    assert (result.code, result.err) == (0, "")
    assert {**_snapshot(machine.root), **before} == _snapshot(machine.root)


def test_commands_say_what_they_recovered(machine: Machine) -> None:
    damaged = lines(b"torn\n", *chain(prompt("1"), answer("2")))
    path = write(machine.project / "x.jsonl", damaged)
    renamed = machine.run("rename", str(path), "name")
    assert (renamed.code, renamed.out) == (0, "Renamed to name\n")
    (aside,) = machine.project.glob("x.jsonl.corrupt-*")
    assert str(path) in renamed.err
    assert str(aside) in renamed.err
    folder = machine.agent_dir / "sessions" / "--p--"
    kept = write(folder / "2026-02-16T10-20-30-000Z_abcdef0123456789.jsonl", damaged)
    repaired = machine.run("doctor", "--repair")
    assert repaired.code == 0
    (aside,) = folder.glob("*.corrupt-*")
    assert str(kept) in repaired.err
    assert str(aside) in repaired.err
    assert machine.run("doctor", "--repair", "--json").json["warnings"] == []
