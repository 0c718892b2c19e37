"""Blobs: by the hash of their content, verified, private, and never outside their folder."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from sessiontree import (
    BlobStore,
    FileSessionStorage,
    MemorySessionStorage,
    PersistenceError,
    SessionStorage,
)
from sessiontree.testing import FaultyStorage

DATA = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "blobs"


@pytest.fixture
def store(folder: Path) -> BlobStore:
    return BlobStore(str(folder), FileSessionStorage())


def test_a_blob_is_a_private_file_named_by_its_hash(store: BlobStore, folder: Path) -> None:
    assert store.put(DATA) == f"blob:sha256:{DIGEST}"
    file = folder / DIGEST
    assert file.read_bytes() == DATA
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == [DIGEST]


def test_a_blob_is_given_back(store: BlobStore) -> None:
    for data in (DATA, b"", b"\n", "é".encode()):
        assert store.get(store.put(data)) == data


def test_a_blob_that_is_there_is_not_written_again_but_counts_as_young(
    store: BlobStore, folder: Path
) -> None:
    store.put(DATA)
    file = folder / DIGEST
    inode = file.stat().st_ino
    os.utime(file, (1, 1))
    store.put(DATA)
    assert file.stat().st_ino == inode
    assert file.stat().st_mtime > 1_000_000


@pytest.mark.parametrize("damage", [b"", DATA[:-1], DATA + b"x", b"other"])
def test_a_damaged_blob_is_never_given_out_and_is_replaced_by_a_good_one(
    damage: bytes, store: BlobStore, folder: Path
) -> None:
    ref = store.put(DATA)
    (folder / DIGEST).write_bytes(damage)
    assert store.get(ref) is None
    assert store.put(DATA) == ref
    assert store.get(ref) == DATA


@pytest.mark.parametrize(
    "ref",
    [
        f"blob:sha256:{'0' * 64}",
        "",
        DIGEST,
        "blob:sha256:",
        f"blob:sha256:{DIGEST[:-1]}",
        f"blob:sha256:{DIGEST}0",
        f"blob:sha256:{DIGEST.upper()}",
        f"blob:sha256:{DIGEST}\n",
        "blob:sha256:../../secret",
        f"blob:sha256:{DIGEST[:32]}/{DIGEST[32:]}",
    ],
)
def test_what_is_no_reference_or_has_no_blob_gives_nothing(ref: str, store: BlobStore) -> None:
    store.put(DATA)
    assert store.get(ref) is None


def test_no_reference_leads_out_of_the_folder(tmp_path: Path) -> None:
    faulty = FaultyStorage(FileSessionStorage())
    store = BlobStore(str(tmp_path / "blobs"), faulty)
    for ref in ("blob:sha256:../secret", "blob:sha256:/etc/passwd", "blob:sha256:" + "." * 64):
        store.get(ref)
    assert faulty.trace == []


def test_other_folders_are_read_from_but_not_written_to(tmp_path: Path) -> None:
    storage = MemorySessionStorage()
    other = BlobStore("/other", storage)
    ref = other.put(DATA)
    store = BlobStore("/own", storage, ("/other", "/nowhere"))
    assert store.get(ref) == DATA
    store.put(b"new")
    assert len(storage.list_names("/other")) == 1
    assert len(storage.list_names("/own")) == 1


def test_a_damaged_own_blob_is_had_from_elsewhere() -> None:
    storage = MemorySessionStorage()
    ref = BlobStore("/other", storage).put(DATA)
    storage.ensure_dir("/own")
    storage.write_atomic(f"/own/{DIGEST}", b"damaged")
    assert BlobStore("/own", storage, ("/other",)).get(ref) == DATA


def test_a_full_disk_is_the_callers_to_hear_of() -> None:
    storage = FaultyStorage(MemorySessionStorage())
    store = BlobStore("/own", storage)
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError, match="space"):
        store.put(DATA)
    assert store.get(store.put(DATA)) == DATA


@pytest.mark.parametrize("storage", [FileSessionStorage(), MemorySessionStorage()])
def test_folders_may_be_path_objects(storage: SessionStorage, tmp_path: Path) -> None:
    old = BlobStore(tmp_path / "old", storage)
    store = BlobStore(tmp_path / "agent/blobs", storage, (tmp_path / "old",), tmp_path / "user")
    assert store.folder == str(tmp_path / "agent/blobs")
    assert store.get(store.put(DATA)) == DATA
    assert store.get(old.put(b"elsewhere")) == b"elsewhere"
    assert storage.read(f"{tmp_path}/agent/session-dirs") == f"{tmp_path}/user\n".encode()
