"""Large values: in the database, or in an S3 server that the tests start."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from tests.postgres_server import Server, free_port
from tests.samples import assistant, user

from sessiontree import FileStore, SessionManager
from sessiontree.errors import PersistenceError, StoreError
from sessiontree.stores.postgres import database
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import check, vacuum
from sessiontree.stores.transfer import transfer

CWD = "/work/blobs"
LARGE = b"large" * 300_000
SMALL = b"small" * 1_000
OURS = "tenant = (SELECT st_tenant())"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of an S3 server."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    try:
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket, of which the environment tells."""
    name = f"blobs-{next(_numbers)}"
    for variable, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(f"AWS_{variable}", value)
    monkeypatch.setenv("SESSIONTREE_BLOBS", f"s3://{name}/team?endpoint={s3}&region=us-east-1")
    client(s3).create_bucket(Bucket=name)
    return name


def client(s3: str) -> Any:
    return boto3.client("s3", endpoint_url=s3, region_name="us-east-1")


def objects(s3: str, bucket: str) -> list[str]:
    found = client(s3).list_objects_v2(Bucket=bucket).get("Contents", [])
    return [each["Key"] for each in found]


@pytest.fixture
def shelf(url: str, bucket: str) -> Iterator[PostgresStore]:
    """A store that keeps large blobs in the bucket."""
    made = PostgresStore(url)
    yield made
    made.close()


def say_long(store: PostgresStore | FileStore, text: str) -> str:
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user(text))
        session.append_message(assistant("that was long"))
    return session.ref


def age(store: PostgresStore) -> None:
    """As if two days had passed since blobs were kept."""
    store.database.run(f"UPDATE st_blob SET touched = now() - interval '2 days' WHERE {OURS}")


def test_large_blobs_are_objects_and_small_ones_rows(
    shelf: PostgresStore, s3: str, bucket: str
) -> None:
    large, small = shelf.put_blob(LARGE), shelf.put_blob(SMALL)
    assert large == "blob:sha256:" + hashlib.sha256(LARGE).hexdigest()
    (key,) = objects(s3, bucket)
    assert key.startswith(f"team/{shelf.database.address.tenant}/{large[12:]}-")
    assert shelf.get_blob(large) == LARGE
    assert shelf.get_blob(small) == SMALL
    assert shelf.put_blob(LARGE) == large
    assert objects(s3, bucket) == [key]
    rows = shelf.database.run(f"SELECT size, data IS NULL FROM st_blob WHERE {OURS} ORDER BY size")
    assert rows == [(len(SMALL), False), (len(LARGE), True)]


def test_without_the_variable_everything_is_in_the_database(
    url: str, bucket: str, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONTREE_BLOBS")
    store = PostgresStore(url)
    assert store.get_blob(store.put_blob(LARGE)) == LARGE
    assert objects(s3, bucket) == []
    store.close()


def test_a_long_message_is_whole_again_also_in_a_fork_and_over_there(
    shelf: PostgresStore, s3: str, bucket: str, tmp_path: Path
) -> None:
    text = "word " * 500_000
    ref = say_long(shelf, text)
    assert len(objects(s3, bucket)) == 1
    with SessionManager.open(ref, storage=shelf) as session:
        assert session.get_entries()[0].data["message"]["content"] == text
    with SessionManager.fork_from(ref, "/work/other", storage=shelf) as copy:
        fork = copy.ref
    shelf.delete(ref, permanently=True)
    age(shelf)
    vacuum(shelf.database)
    assert len(objects(s3, bucket)) == 1
    files = FileStore(session_dir=tmp_path / "sessions")
    assert transfer(shelf, files, shelf.list()).failed == []
    (info,) = files.list()
    with SessionManager.open(info.path, storage=files) as session:
        assert session.get_entries()[0].data["message"]["content"] == text
    assert fork == info.id


def test_vacuum_removes_objects_that_nothing_names_and_young_ones_stay(
    shelf: PostgresStore, s3: str, bucket: str
) -> None:
    ref = say_long(shelf, "word " * 500_000)
    lonely = shelf.put_blob(LARGE)
    assert vacuum(shelf.database).blobs == 0
    age(shelf)
    assert vacuum(shelf.database).blobs == 1
    assert shelf.get_blob(lonely) is None
    assert len(objects(s3, bucket)) == 1
    shelf.delete(ref, permanently=True)
    age(shelf)
    assert vacuum(shelf.database).blobs == 1
    assert objects(s3, bucket) == []


def test_a_process_that_was_not_told_of_the_bucket_says_so_and_removes_nothing(
    shelf: PostgresStore, url: str, s3: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = shelf.put_blob(LARGE)
    age(shelf)
    monkeypatch.delenv("SESSIONTREE_BLOBS")
    store = PostgresStore(url)
    with pytest.raises(PersistenceError, match="set SESSIONTREE_BLOBS"):
        store.get_blob(ref)
    assert vacuum(store.database).blobs == 0
    (finding,) = check(store.database)
    assert "set SESSIONTREE_BLOBS" in finding.what
    assert len(objects(s3, bucket)) == 1
    store.close()


def test_damaged_and_missing_objects_are_found(shelf: PostgresStore, s3: str, bucket: str) -> None:
    ref = shelf.put_blob(LARGE)
    (key,) = objects(s3, bucket)
    client(s3).put_object(Bucket=bucket, Key=key, Body=LARGE[:-1] + b"!")
    assert shelf.get_blob(ref) is None
    client(s3).delete_object(Bucket=bucket, Key=key)
    assert shelf.get_blob(ref) is None
    assert [finding.what for finding in check(shelf.database)] == [
        f"blob {ref[12:]}: its object is not there"
    ]


def test_a_row_that_names_the_object_of_another_tenant_is_not_believed(
    shelf: PostgresStore, server: Server, database: str, s3: str, bucket: str
) -> None:
    ref = shelf.put_blob(LARGE)
    ((place,),) = shelf.database.run(f"SELECT place FROM st_blob WHERE {OURS}")
    thief = PostgresStore(f"{server.url(database)}?tenant=thief{bucket}")
    thief.database.run(
        "INSERT INTO st_blob (tenant, sha, size, place) VALUES (st_tenant(), %b, 1, %s)",
        (bytes.fromhex(ref[12:]), place),
    )
    assert thief.get_blob(ref) is None
    age(thief)
    vacuum(thief.database)
    assert shelf.get_blob(ref) == LARGE
    thief.close()


def test_a_bucket_that_cannot_be_reached_stops_the_message_that_needs_it(
    url: str, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    gone = f"s3://{bucket}?endpoint=http://127.0.0.1:{free_port()}&region=us-east-1"
    monkeypatch.setenv("SESSIONTREE_BLOBS", gone)
    store = PostgresStore(url)
    session = SessionManager.create(CWD, storage=store)
    session.append_message(user("short"))
    with pytest.raises(PersistenceError, match=f"s3://{bucket}: "):
        session.append_message(assistant("word " * 500_000))
    session.recover()
    session.append_message(assistant("short, too"))
    assert len(store.read(session.ref).tree.entries) == 2
    session.close()
    store.close()


def test_more_than_the_server_takes_at_once_is_refused_in_one_line(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end the connection, and the value be sent again and again."""
    monkeypatch.setattr(database, "MOST_BYTES", 1_000_000)
    before = store.database.round_trips
    with pytest.raises(PersistenceError, match=r"takes at most .* SESSIONTREE_BLOBS"):
        store.put_blob(LARGE)
    assert store.database.round_trips == before
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
        many = [{"type": "message", "message": user("x" * 400_000)}] * 3
        with pytest.raises(PersistenceError, match="takes at most"):
            session.append_many(many)
        session.recover()
        session.append_many(many[:2])
        assert len(store.read(session.ref).tree.entries) == 4


@pytest.mark.parametrize(
    "wrong", ["bucket", "s3://", "http://x/y", "s3://key:secret@bucket/x", "s3://b?tenant=x"]
)
def test_a_wrong_url_is_told_without_what_stands_before_the_host(
    url: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_BLOBS", wrong)
    with pytest.raises(StoreError, match="SESSIONTREE_BLOBS: use s3://bucket") as caught:
        PostgresStore(url)
    assert "secret" not in str(caught.value)
