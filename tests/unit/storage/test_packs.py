"""Packs: what was committed is read as it was written, whatever a crash leaves behind it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sessiontree.errors import PersistenceError, SessionBusyError
from sessiontree.storage.packs import (
    CHUNK,
    HEAD_BYTES,
    MANIFEST,
    DamagedPackError,
    PackFolder,
    PackWriter,
    Record,
)


def write(packs: PackFolder, *payloads: tuple[bytes, bytes], ends: dict[int, int]) -> list[Record]:
    with packs.locked(1):
        writer = PackWriter(packs, ends)
        try:
            records = [writer.add(kind, payload) for kind, payload in payloads]
            writer.commit()
        finally:
            writer.close()
    return records


@pytest.fixture
def packs(tmp_path: Path) -> PackFolder:
    return PackFolder(str(tmp_path / "kept"))


@pytest.mark.parametrize(
    "payload", [b"", b"x", b"\0" * 100_000, os.urandom(70_000), "é日".encode()]
)
def test_what_is_written_is_read(packs: PackFolder, payload: bytes) -> None:
    (record,) = write(packs, (CHUNK, payload), ends={})
    assert packs.read(record) == payload
    assert record.digest == hashlib.sha256(payload).digest()
    assert list(packs.scan(1)) == [record]


def test_only_the_owner_may_read(packs: PackFolder) -> None:
    write(packs, (CHUNK, b"x"), ends={})
    assert Path(packs.folder).stat().st_mode & 0o777 == 0o700
    for file in Path(packs.folder).iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_torn_end_is_not_read_and_the_next_writer_cuts_it_off(packs: PackFolder) -> None:
    first, second = write(packs, (MANIFEST, b"one"), (CHUNK, b"two" * 50), ends={})
    path = Path(packs.path(1))
    whole = path.read_bytes()
    for cut in range(first.end, len(whole)):
        path.write_bytes(whole[:cut])
        assert list(packs.scan(1)) == [first]
        (third,) = write(packs, (CHUNK, b"three"), ends={1: first.end})
        assert third.at == first.end
        assert list(packs.scan(1)) == [first, third]
    path.write_bytes(whole)
    assert list(packs.scan(1)) == [first, second]


def test_damage_is_found(packs: PackFolder) -> None:
    first, second = write(packs, (CHUNK, b"one" * 9), (CHUNK, b"two" * 9), ends={})
    path = Path(packs.path(1))
    whole = path.read_bytes()
    for at in range(HEAD_BYTES, first.end):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DamagedPackError):
            packs.read(first)
        assert packs.read(second) == b"two" * 9
    for at in range(HEAD_BYTES):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert list(packs.scan(1)) == []
        with pytest.raises(DamagedPackError):
            packs.read(first)


def test_a_payload_larger_than_it_says_is_damage(packs: PackFolder) -> None:
    (record,) = write(packs, (CHUNK, b"0" * 1000), ends={})
    small = Record(record.kind, record.digest, 1, 0, 10, record.stored)
    with pytest.raises(DamagedPackError):
        packs.read(small)


def test_one_writer_at_a_time(packs: PackFolder) -> None:
    with packs.locked(1), pytest.raises(SessionBusyError), packs.locked(0.01):
        raise AssertionError


def test_no_folder_has_no_packs(tmp_path: Path) -> None:
    packs = PackFolder(str(tmp_path / "none"))
    assert packs.sizes() == {}
    assert not Path(packs.folder).exists()


def test_a_link_in_the_place_of_a_pack_is_no_pack(packs: PackFolder, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    os.mkdir(packs.folder)
    os.symlink(target, packs.path(1))
    assert packs.sizes() == {}
    with pytest.raises(PersistenceError, match=r"00000001\.pack: "):
        write(packs, (CHUNK, b"x"), ends={})
    assert target.read_text() == "mine"
