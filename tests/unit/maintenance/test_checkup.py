"""The doctor: what it finds, what it leaves alone, and that mending keeps everything."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiontree import SessionManager
from sessiontree.discovery import catalogue
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.listing import list_all_sessions
from sessiontree.history import HistoryStorage
from sessiontree.maintenance import checkup as checkup_module
from sessiontree.maintenance.checkup import Checkup, check_profile, repair_findings
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.files.reader import load_document

NAME = "2026-02-16T10-20-30-000Z_0199a3f2c0de1234"
_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("SESSIONTREE_AGENT_DIR", "PI_CODING_AGENT_DIR", "SESSIONTREE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    catalogue.forget_process_memory()
    return get_profile()


def test_time_grows_with_the_number_of_findings_and_not_faster(profile: Profile) -> None:
    lost = [_line(number, parentId=f"b{number:07x}") for number in range(1, 60_000)]
    (_folder(profile) / f"{NAME}.jsonl").write_text(_header() + "".join(lost))
    began = time.process_time()
    found = check_profile(profile)
    assert time.process_time() - began < 15
    assert "lost parent" in [finding.kind for finding in found.findings]


def _folder(profile: Profile) -> Path:
    folder = Path(profile.sessions_dir) / "--work--"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _line(number: int, text: str = "hello", **fields: Any) -> str:
    parent = f"{number - 1:08x}" if number > 1 else None
    message = {
        "role": "user" if number % 2 else "assistant",
        "content": [{"type": "text", "text": text}],
    }
    entry = {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": parent,
        "timestamp": "2026-02-16T10:20:31.000Z",
    }
    return json.dumps({**entry, "message": message, **fields}) + "\n"


def _header(**fields: Any) -> str:
    base = {
        "type": "session",
        "version": 3,
        "id": "0199a3f2c0de1234",
        "timestamp": "2026-02-16T10:20:30.000Z",
        "cwd": "/work",
    }
    return json.dumps({**base, **fields}) + "\n"


def _session(profile: Profile, *lines: str, name: str = NAME) -> Path:
    path = _folder(profile) / f"{name}.jsonl"
    path.write_text("".join(lines) if lines else _header() + _line(1) + _line(2))
    path.chmod(0o600)
    return path


def _found(checkup: Checkup) -> list[tuple[str, str]]:
    return [(finding.kind, os.path.basename(finding.path)) for finding in checkup.findings]


def test_a_sound_profile_has_nothing_to_say(profile: Profile) -> None:
    _session(profile)
    checkup = check_profile(profile, deep=True, secrets=True)
    assert (checkup.sessions, checkup.findings) == (1, [])


def test_a_profile_without_any_folder_is_sound(profile: Profile) -> None:
    assert check_profile(profile).findings == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([_header(), _line(1), '{"type":"mess\n', _line(2)], "1 damaged line, the first is line 3"),
        ([_header(), _line(1), "null\n", "[]\n"], "2 damaged lines"),
        ([_header(), _line(1), _line(1)], "duplicate id 00000001"),
        ([_header(), _line(1), _line(2, parentId="00000002")], "was its own parent"),
        ([_header(), _line(1), _line(2).rstrip("\n")], "its last line has no end"),
    ],
)
def test_damage_is_found_mended_and_kept_in_a_backup(
    profile: Profile, lines: list[str], words: str
) -> None:
    path = _session(profile, *lines)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    before = path.read_bytes()
    checkup = check_profile(profile)
    assert [finding.kind for finding in checkup.problems] == ["damaged"]
    assert words in checkup.problems[0].text
    assert path.read_bytes() == before

    report = repair_findings(checkup.findings, profile)
    assert (len(report.repaired), report.failed) == (1, [])
    assert report.backup_dir is not None
    copy = Path(report.backup_dir) / "sessions" / "--work--" / path.name
    assert copy.read_bytes() == before
    assert check_profile(profile).problems == []
    assert path.stat().st_mtime == 1_700_000_000
    assert path.read_text().count("hello") == before.count(b"hello")


def test_a_damaged_line_is_set_aside_not_lost(profile: Profile) -> None:
    path = _session(profile, _header(), _line(1), '{"type":"message","torn\n', _line(2))
    repair_findings(check_profile(profile).findings, profile)
    assert '{"type":"message","torn' in Path(f"{path}.rejected").read_text()
    assert _found(check_profile(profile)) == [("set aside", f"{path.name}.rejected")]


def test_a_lost_header_is_recovered_with_the_file_kept(profile: Profile) -> None:
    path = _session(profile, '{"type":"sess\n', _line(1), _line(2, "the answer"))
    before = path.read_bytes()
    checkup = check_profile(profile)
    assert _found(checkup) == [("no header", path.name)]
    report = repair_findings(checkup.findings, profile)
    assert report.failed == []
    assert "the answer" in path.read_text()
    assert json.loads(path.read_text().splitlines()[0])["id"] == "0199a3f2c0de1234"
    (aside,) = path.parent.glob("*.corrupt-*")
    assert aside.read_bytes() == before


def test_a_lost_parent_is_told_but_is_no_damage_of_the_file(profile: Profile) -> None:
    path = _session(profile, _header(), _line(1), _line(2, parentId="deadbeef"))
    checkup = check_profile(profile)
    assert _found(checkup) == [("lost parent", path.name)]
    assert checkup.problems == []


_NO_MESSAGE = [
    '"message":null', '"message":[]', '"message":"x"', '"message":7', '"other":{"message":{}}',
]  # fmt: skip


@pytest.mark.parametrize("field", _NO_MESSAGE)
def test_a_message_without_content_is_told_and_left_alone(profile: Profile, field: str) -> None:
    empty = f'{{"type":"message","id":"e1","parentId":"00000001","timestamp":"t",{field}}}\n'
    path = _session(profile, _header(), _line(1), empty, _line(2))
    before = path.read_bytes()
    checkup = check_profile(profile)
    (finding,) = checkup.findings
    assert (finding.kind, finding.path) == ("empty message", str(path))
    assert finding.text == "line 3: entry e1 is a message without content"
    assert (checkup.problems, finding.can_be_repaired) == ([], False)
    assert repair_findings(checkup.findings, profile).repaired == []
    assert path.read_bytes() == before
    with SessionManager.open(path) as session:
        assert list(session.warnings) == []


def test_many_messages_without_content_are_one_finding(profile: Profile) -> None:
    empty = [_line(number, message=None) for number in range(2, 9)]
    _session(profile, "\n" + _header(), "\n\n", _line(1), *empty)
    (finding,) = check_profile(profile).findings
    assert finding.text == "line 6: entry 00000002 is a message without content (and 6 more)"


def test_a_session_that_is_cut_short_meanwhile_does_not_stop_the_doctor(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _session(profile)
    other = _session(profile, _header(), _line(1, message=None), name=NAME[:-1] + "5")

    def load_and_cut(storage: SessionStorage, file: str, blobs: BlobStore) -> Any:
        document = load_document(storage, file, blobs)
        if file == str(path):
            os.truncate(file, len(_header()) + 9)
        return document

    monkeypatch.setattr(checkup_module, "load_document", load_and_cut)
    found = check_profile(profile).findings
    assert ("unreadable", str(path)) in [(finding.kind, finding.path) for finding in found]
    assert ("empty message", str(other)) in [(finding.kind, finding.path) for finding in found]


def test_only_messages_need_content_and_any_object_is_one(profile: Profile) -> None:
    """Also in a line that only the slow parser reads: a half surrogate, a number beyond all."""
    other = '{"type":"custom","id":"c1","parentId":null,"timestamp":"t"}\n'
    bare = _line(2, message={})
    odd = _line(3).replace('"hello"', '"\\ud800", "n": 1e999')
    _session(profile, _header(), other, _line(1), bare, odd)
    assert check_profile(profile).findings == []
    _session(profile, _header(), _line(1), _line(2, message=None, odd=[]).replace("[]", "1e999"))
    assert [finding.kind for finding in check_profile(profile).findings] == ["empty message"]


def test_a_message_without_content_is_found_in_an_old_session_too(profile: Profile) -> None:
    old = '{"type":"session","id":"s","timestamp":"2024-01-01T00:00:00.000Z","cwd":"/w"}\n'
    _session(profile, old, '{"type":"message","timestamp":"2024-01-01T00:00:00.000Z"}\n')
    found = check_profile(profile).findings
    assert sorted(finding.kind for finding in found) == ["empty message", "other version"]


def test_old_and_new_versions_are_told_apart_from_damage(profile: Profile) -> None:
    _session(profile, _header(version=9), _line(1))
    old = '{"type":"session","id":"s","timestamp":"2024-01-01T00:00:00.000Z","cwd":"/w"}\n'
    _session(
        profile,
        old,
        '{"type":"message","message":{"role":"user","content":"x"}}\n',
        name=NAME[:-1] + "5",
    )
    checkup = check_profile(profile)
    assert checkup.problems == []
    assert sorted(finding.text for finding in checkup.findings) == [
        "a newer version than this program knows",
        "an older version; upgraded when it is next opened",
    ]


def test_missing_and_damaged_blobs_are_found(profile: Profile) -> None:
    good, bad, gone = (hashlib.sha256(data).hexdigest() for data in (b"good", b"bad", b"gone"))
    blobs = Path(profile.blobs_dir)
    blobs.mkdir(parents=True)
    (blobs / good).write_bytes(b"good")
    (blobs / bad).write_bytes(b"something else")
    refs = " ".join(f"blob:sha256:{digest}" for digest in (good, bad, gone))
    path = _session(profile, _header(), _line(1, refs), _line(2))
    assert _found(check_profile(profile)) == [("missing blob", path.name)]
    checkup = check_profile(profile, deep=True)
    assert _found(checkup) == [("damaged blob", bad), ("missing blob", path.name)]
    assert gone[:12] in checkup.findings[1].text

    report = repair_findings(checkup.findings, profile)
    assert [finding.kind for finding in report.repaired] == ["damaged blob"]
    assert not (blobs / bad).exists()
    assert (Path(report.backup_dir or "") / "blobs" / bad).read_bytes() == b"something else"
    assert (blobs / good).exists()


@pytest.mark.parametrize("target", ["/dev/zero", "notes.txt"])
def test_a_blob_that_is_a_link_is_unlinked_and_what_it_leads_to_stays(
    profile: Profile, tmp_path: Path, target: str
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    blob = Path(profile.blobs_dir) / ("0" * 64)
    blob.parent.mkdir(parents=True)
    blob.symlink_to(tmp_path / target)
    _session(profile, _header(), _line(1, f"blob:sha256:{blob.name}"), _line(2))
    checkup = check_profile(profile, deep=True)
    assert _found(checkup) == [("damaged blob", blob.name)]
    report = repair_findings(checkup.findings, profile)
    assert report.failed == []
    assert not os.path.lexists(blob)
    assert os.readlink(f"{report.backup_dir}/blobs/{blob.name}") == str(tmp_path / target)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_catalogue_that_says_something_else_is_found_and_thrown_away(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _session(profile)
    # A file that was written just now is not trusted to the catalogue; look at it from later on.
    later = freshness.read_clock_ns() + 60_000_000_000
    monkeypatch.setattr(freshness, "read_clock_ns", lambda: later)
    assert list_all_sessions(profile=profile)[0].message_count == 2
    assert check_profile(profile).findings == []
    catalogue.forget_process_memory()
    with closing(sqlite3.connect(catalogue.SCHEMA.path)) as database:
        ((data,),) = database.execute("SELECT data FROM files")
        changed = data[4:].replace(b"/work", b"/else")
        assert changed != data[4:]
        tampered = zlib.crc32(changed).to_bytes(4) + changed  # a row proves itself by its checksum
        database.execute("UPDATE files SET data = ?", [tampered])
        database.commit()
    checkup = check_profile(profile)
    assert [finding.kind for finding in checkup.problems] == ["catalogue"]
    report = repair_findings(checkup.findings, profile)
    assert (report.failed, report.backup_dir) == ([], None)
    assert check_profile(profile).findings == []


def test_a_session_that_others_may_read_is_made_private(profile: Profile) -> None:
    path = _session(profile)
    path.chmod(0o644)
    checkup = check_profile(profile)
    assert _found(checkup) == [("not private", path.name)]
    assert checkup.problems == []
    repair_findings(checkup.findings, profile)
    assert path.stat().st_mode & 0o777 == 0o600


def test_drafts_leftovers_and_stray_folders_are_named(profile: Profile) -> None:
    folder = _folder(profile)
    (folder / f".{NAME}.jsonl.draft").write_text(_header() + _line(1, "never answered this"))
    (folder / "2026-02-16T10-20-30-000Z_gone").mkdir()
    (folder / "notes").mkdir()
    temporary = folder / ".x.jsonl.999999999-ab.tmp"
    temporary.write_text("x")
    (Path(profile.trash_dir) / "odd").mkdir(parents=True)
    checkup = check_profile(profile)
    assert ("draft", f".{NAME}.jsonl.draft") in _found(checkup)
    assert ("stray folder", "2026-02-16T10-20-30-000Z_gone") in _found(checkup)
    assert ("stray folder", "odd") in _found(checkup)
    assert not any(finding.is_problem or finding.can_be_repaired for finding in checkup.findings)
    (draft,) = [finding for finding in checkup.findings if finding.kind == "draft"]
    assert draft.text == "never answered: never answered this"


def test_secrets_are_looked_for_only_on_request(profile: Profile) -> None:
    path = _session(profile, _header(), _line(1, f"use {_TOKEN}"), _line(2))
    assert check_profile(profile).findings == []
    (finding,) = check_profile(profile, secrets=True).findings
    assert (finding.kind, finding.path) == ("secret", str(path))
    assert finding.text == "github-token (1); in entries 00000001"
    assert _TOKEN not in finding.text


def test_a_damaged_history_is_found_and_made_anew_with_its_prompts(profile: Profile) -> None:
    with HistoryStorage.for_profile(profile) as history:
        for number in range(200):
            history.add(f"prompt {number} " + "x" * 300)
    path = Path(profile.history_path)
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        pages = database.execute("PRAGMA page_count").fetchone()[0]
    raw = bytearray(path.read_bytes())
    for page in range(pages // 2, pages - 1):
        raw[page * size : page * size + 200] = b"\xff" * 200
    path.write_bytes(raw)
    checkup = check_profile(profile)
    assert _found(checkup) == [("history", "history.db")]
    assert repair_findings(checkup.findings, profile).failed == []
    assert check_profile(profile).findings == []
    with HistoryStorage.for_profile(profile) as history:
        assert history.search("prompt 0")


def test_one_folder_can_be_checked_alone(profile: Profile, tmp_path: Path) -> None:
    _session(profile, _header(), "damaged\n", _line(1))
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    (elsewhere / "a.jsonl").write_text(_header() + _line(1))
    (elsewhere / "a.jsonl").chmod(0o600)
    checkup = check_profile(profile, session_dir=str(elsewhere))
    assert (checkup.sessions, checkup.findings) == (1, [])


def test_a_repair_that_fails_is_told_and_does_not_stop_the_others(profile: Profile) -> None:
    gone = _session(profile, _header(), "damaged\n", _line(1))
    other = _session(profile, _header(), "damaged\n", _line(1), name=NAME[:-1] + "5")
    findings = check_profile(profile).findings
    gone.unlink()
    report = repair_findings(findings, profile)
    assert [finding.path for finding in report.repaired] == [str(other)]
    assert [finding.path for finding, _ in report.failed] == [str(gone)]
    assert not gone.exists()
