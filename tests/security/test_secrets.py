"""Secrets: found on request, left out of every export on request, and never written by us.

Which values are taken for secrets is in ``tests/unit/export/test_redact.py``.
"""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, assistant, user
from tests.samples import assistant as answer
from tests.samples import user as prompt

from sessiontree import SessionManager
from sessiontree.export.bundle import export_bundle, import_bundle
from sessiontree.export.redact import Redactor
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


@pytest.mark.parametrize("kind", ["markdown", "json", "bundle"])
def test_every_export_can_leave_secrets_out(machine: Machine, kind: str) -> None:
    call = {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"api_key": "hunter22x9"}}
    entries = [user(f"use {KEY}"), assistant(f"{KEY} it is", call)]
    path = machine.session("0199a3f2", entries=entries, title=f"about {KEY}")
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "output.txt").write_text(f"key: {KEY}\n")
    result = machine.run("export", "--format", kind, "--redact", "-o", "out")
    assert result.code == 0, result.err
    target = machine.project / "out"
    content = target.read_bytes()
    if kind == "bundle":
        with zipfile.ZipFile(target) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist())
    assert KEY.encode() not in content
    assert b"hunter22x9" not in content
    assert b"[redacted:" in content


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
