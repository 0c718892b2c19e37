"""Secrets: found on request, left out of every export on request, and never written by us.

Which values are taken for secrets is in ``tests/unit/export/test_redact.py``.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from tests import processes
from tests.cli.conftest import Machine, assistant, user
from tests.samples import assistant as answer
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree import SessionManager
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.export.redact import Redactor
from sessiontree.maintenance.checkup import Finding, check_profile
from sessiontree.profiles import Profile

KEY = "sk-ant-api03-" + "Ab1" * 20


def test_the_doctor_finds_secrets_and_does_not_repeat_them(machine: Machine) -> None:
    machine.session("0199a3f2", f"use {KEY} please", "ok", title="x")
    for flags in ((), ("--json",), ("--verbose",)):
        result = machine.run("doctor", "--secrets", *flags)
        assert "anthropic-key" in result.out
        assert KEY not in result.out + result.err


def test_the_doctor_looks_for_secrets_everywhere_in_a_session(machine: Machine) -> None:
    """In the title too: it is what a list shows to whoever looks over the shoulder."""
    call = {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"command": f"x {KEY}"}}
    machine.session("0199a3f2", entries=[user("hi"), assistant("ok", call)])
    machine.session("0199a3f3", "hi", "ok", title=f"about {KEY}")
    found = machine.run("doctor", "--secrets", "--json").json
    assert KEY not in json.dumps(found)
    secrets = sorted(one["text"] for one in found["findings"] if one["kind"] == "secret")
    assert secrets == ["anthropic-key (1); in entries 00000002", "anthropic-key (1); in the header"]


def _artifact(profile: Profile, name: str | bytes, content: bytes) -> str:
    """A file beside a sound session."""
    session = Path(profile.sessions_dir) / "--p--" / "s.jsonl"
    write(session, header(), *chain(prompt("hi"), answer("ok"))).chmod(0o600)
    path = os.path.join(session.with_suffix(""), os.fsdecode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(content)
    return path


def _search(profile: Profile) -> list[Finding]:
    return check_profile(profile, secrets=True).findings


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (f"one\ntwo {KEY}\n".encode(), "anthropic-key (1); in line 2"),
        (f"{KEY}\n\n{KEY}".encode(), "anthropic-key (2); in lines 1, 3"),
        (f"{KEY}\n".encode() * 9, "anthropic-key (9); in lines 1, 2, 3, 4, 5, …"),
        (b"\x00\xff\xfe" + KEY.encode() + b"\xff\x00", "anthropic-key (1); in line 1"),
        (f"key\n{KEY}".encode("utf-16"), "anthropic-key (1); in line 2"),
        (json.dumps({"text": f"a\n{KEY}"}).encode(), "anthropic-key (1); in line 1"),
    ],
)
def test_the_doctor_looks_into_artifacts_of_any_kind(
    profile: Profile, content: bytes, where: str
) -> None:
    path = _artifact(profile, "deep/down/output.bin", content)
    assert _search(profile) == [Finding("secret", path, where)]
    assert check_profile(profile).findings == []
    assert Path(path).read_bytes() == content


def test_the_doctor_finds_secrets_anywhere_in_a_large_artifact_in_little_memory(
    profile: Profile,
) -> None:
    """Wherever it is read in pieces: a key lies across every 64 K of it."""
    content = bytearray(b"\n" * (12 << 20))
    for place in range(1 << 16, len(content), 1 << 16):
        content[place - 20 : place - 20 + len(KEY)] = KEY.encode()
    path = _artifact(profile, "large.log", bytes(content))
    tracemalloc.start()
    try:
        (finding,) = _search(profile)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert finding.path == path
    assert finding.text.startswith(f"anthropic-key ({(12 << 4) - 1}); in lines 65517, ")
    assert peak < 10 << 20


def test_the_doctor_names_artifacts_without_repeating_secrets_or_escape_sequences(
    machine: Machine,
) -> None:
    session = machine.session("0199a3f2", "hi", "ok")
    folder = session.with_suffix("")
    folder.mkdir()
    for name in (b"a\x1b[2J\n.txt", b"b\xff.txt"):
        Path(os.path.join(folder, os.fsdecode(name))).write_text(KEY)
    for flags in ((), ("--verbose",)):
        result = machine.run("doctor", "--secrets", *flags)
        assert result.code == 1
        assert result.lines[0] == "secret (2)"
        assert "a\\x1b[2J" in result.out
        assert result.out.count("    anthropic-key (1); in line 1\n") == 2
        assert "\x1b" not in result.out
        assert KEY not in result.out + result.err
    told = machine.run("doctor", "--secrets", "--json")
    assert told.code == 1
    assert KEY not in told.out
    first, second = told.json["findings"]
    assert (first["kind"], first["path"]) == ("secret", f"{folder}/a\x1b[2J\n.txt")
    assert os.fsencode(second["path"]) == os.fsencode(folder) + b"/b\xff.txt"
    assert not first["problem"]


@pytest.mark.parametrize("place", ["s/link", "s/folder/link", "s/folder", "s"])
def test_the_doctor_follows_no_link_to_look_for_secrets(
    profile: Profile, outside: Path, place: str
) -> None:
    outside.write_text(KEY)
    Path(_artifact(profile, "plain.txt", b"nothing")).unlink()
    link = Path(profile.sessions_dir) / "--p--" / place
    if place == "s":
        link.rmdir()
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if link.name == "link" else outside.parent)
    (finding,) = _search(profile)
    assert (finding.kind, finding.path) == ("not searched", str(link))
    assert not finding.is_problem


UNPRIVILEGED = """
import sys
from sessiontree.profiles import get_profile
for found in check_profile(get_profile(), secrets=True).findings:
    print(found.kind, found.path.rsplit("/", 1)[1], found.text, sep=": ")
"""


def test_the_doctor_tells_of_artifacts_that_it_may_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = processes.make_open_folder()
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(root / "agent"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(root / "cache"))
    try:
        session = write(root / "agent/sessions/--p--/s.jsonl", header(), *chain(prompt("hi")))
        folder = session.with_suffix("")
        (folder / "closed").mkdir(parents=True, mode=0o700)
        (folder / "open.txt").write_text(KEY)
        (folder / "shut.txt").write_text(KEY)
        (folder / "shut.txt").chmod(0)
        (folder / "closed").chmod(0)
        first = "from sessiontree.maintenance.checkup import check_profile\n"
        told = processes.run(first + processes.DROP_RIGHTS + UNPRIVILEGED, root)
    finally:
        (folder / "closed").chmod(0o700)
        shutil.rmtree(root)
    assert told.splitlines()[-3:] == [
        "secret: open.txt: anthropic-key (1); in line 1",
        "unreadable: shut.txt: Permission denied",
        "unreadable: closed: Permission denied",
    ]


def test_the_doctor_looks_for_secrets_in_what_is_damaged(profile: Profile) -> None:
    folder = Path(profile.sessions_dir) / "--p--"
    torn = b'{"type":"message","text":"' + KEY.encode() + b"\n"
    damaged = write(folder / "a.jsonl", header(), torn, *chain(prompt("hi"), answer("ok")))
    headless = write(folder / "b.jsonl", torn, *chain(prompt("hi"), answer("ok")))
    (folder / "b").mkdir()
    (folder / "b" / "x.txt").write_text(KEY)
    found = {(one.path, one.text) for one in _search(profile) if one.kind == "secret"}
    assert found == {
        (str(damaged), "anthropic-key (1); in damaged line 2"),
        (str(headless), "anthropic-key (1); in line 1"),
        (str(folder / "b" / "x.txt"), "anthropic-key (1); in line 1"),
    }


@pytest.mark.parametrize(
    ("kind", "file"), [("markdown", "out.md"), ("json", "out.json"), ("bundle", "out.zip")]
)
def test_every_export_can_leave_secrets_out(machine: Machine, kind: str, file: str) -> None:
    call = {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"api_key": "hunter22x9"}}
    entries = [user(f"use {KEY}"), assistant(f"{KEY} it is", call)]
    path = machine.session("0199a3f2", entries=entries, title=f"about {KEY}")
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "output.txt").write_text(f"key: {KEY}\n")
    result = machine.run("export", "--format", kind, "--redact", "-o", file)
    assert result.code == 0, result.err
    target = machine.project / file
    content = target.read_bytes()
    if kind == "bundle":
        with zipfile.ZipFile(target) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist())
    assert KEY.encode() not in content
    assert b"hunter22x9" not in content
    assert b"[redacted:" in content


@pytest.mark.parametrize(
    ("kind", "file"), [("markdown", "out.md"), ("json", "out.json"), ("bundle", "out.zip")]
)
def test_no_corner_of_a_session_hides_a_secret(machine: Machine, kind: str, file: str) -> None:
    """Keys of objects, tool names, types, the project's path, ids, the names of artifacts."""
    call = {"type": "toolCall", "id": "1", "name": KEY, "arguments": {KEY: {KEY: 1}, KEY + "9": 2}}
    words = {"type": "toolCall", "id": "2", "name": "run", "arguments": {"argv": ["x", KEY]}}
    entries = [
        user("hi"),
        assistant("ok", call, words),
        {"type": KEY, "id": KEY},
        {"type": "custom", "customType": KEY, "data": {"name": "API_KEY", "value": "hunter22xyz"}},
        {"type": "model_change", "provider": KEY, "modelId": KEY},
        {"type": "mode_change", "mode": KEY},
        {"message": {"role": KEY, "content": [{"type": KEY}]}},
        {"message": {"role": "toolResult", "toolName": KEY, "content": []}},
        {"message": {"role": "user", "content": [{"type": "image", "mimeType": KEY, "data": ""}]}},
    ]
    path = machine.session("0199a3f2", entries=entries)
    content = path.read_text().replace(str(machine.project), f"{machine.project}/{KEY}", 1)
    path.write_text(content)
    artifacts = path.with_suffix("") / KEY
    artifacts.mkdir(parents=True)
    (artifacts / f"{KEY}.txt").write_text("plain")
    result = machine.run("export", "0199a3f2", "--format", kind, "--redact", "-o", file)
    assert result.code == 0, result.err
    assert KEY not in result.out + result.err
    exported = (machine.project / file).read_bytes()
    assert KEY.encode() not in exported
    if kind == "bundle":
        with zipfile.ZipFile(machine.project / file) as archive:
            assert KEY not in "".join(archive.namelist())
            assert [name for name in archive.namelist() if name.endswith("].txt")]
            exported = b"".join(map(archive.read, archive.namelist()))
    assert KEY.encode() not in exported
    assert b"hunter22xyz" not in exported


def test_the_doctor_finds_secrets_in_the_names_of_artifacts(machine: Machine) -> None:
    session = machine.session("0199a3f2", "hi", "ok")
    session.with_suffix("").mkdir()
    (session.with_suffix("") / f"{KEY}.txt").write_text(f"x {KEY}")
    result = machine.run("doctor", "--secrets", "--json")
    assert KEY not in result.out + result.err
    folder = session.with_suffix("")
    assert [(one["path"], one["text"]) for one in result.json["findings"]] == [
        (f"{folder}/[redacted-anthropic-key].txt", "anthropic-key (1); in its name"),
        (f"{folder}/[redacted-anthropic-key].txt", "anthropic-key (1); in line 1"),
    ]


def test_a_bundle_without_secrets_is_the_same_session_otherwise(
    profile: Profile, tmp_path: Path
) -> None:
    """Also where a secret stands in a text that is kept in a blob, and beside an image."""
    picture = base64.b64encode(bytes(range(256)) * 20).decode()
    image = {"type": "image", "data": picture, "mimeType": "image/png"}
    long = "so long " * 80_000
    with SessionManager.create(tmp_path / "p") as session:
        session.append_message(prompt([image, {"type": "text", "text": f"{long}{KEY}"}]))
        session.append_message(answer("first"))
        session.branch(str(session.get_entries()[0].id))
        session.append_message(answer("second"))
        session.set_session_name(f"about {KEY}")
        file = Path(str(session.session_file))
    artifacts = file.with_suffix("")
    artifacts.mkdir()
    (artifacts / "a.txt").write_text(f"{KEY}\n")
    (artifacts / "b.bin").write_bytes(b"\xff" + KEY.encode())
    with open(file, "ab") as damaged:
        damaged.write(b"torn " + KEY.encode())
    report = export_bundle(file, tmp_path / "b.zip", redactor=Redactor())
    assert (report.blobs, report.artifacts, len(report.notes)) == (2, 1, 2)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert KEY.encode() not in b"".join(map(archive.read, archive.namelist()))
    made = import_bundle(tmp_path / "b.zip", session_dir=tmp_path / "in")
    copy = SessionManager.open(made.session_path)
    assert copy.session_name == "about [redacted:anthropic-key]"
    assert [entry.id for entry in copy.get_entries()][:3] == [
        entry.id for entry in SessionManager.open(file).get_entries()
    ][:3]
    messages = copy.build_session_context().messages
    text = {"type": "text", "text": f"{long}[redacted:anthropic-key]"}
    assert messages[0]["content"] == [image, text]
    assert messages[-1]["content"] == answer("second")["content"]


def test_a_key_of_the_environment_is_never_written_down(machine: Machine) -> None:
    """Not into the session, the history, or an error message, when the provider refuses it."""
    machine.env |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    result = machine.run("-p", "hello", "--model", "anthropic/claude-sonnet-4-5")
    assert result.code != 0
    assert KEY not in result.out + result.err
    kept = [path for path in machine.root.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
