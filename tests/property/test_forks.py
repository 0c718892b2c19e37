"""A fork is made in one of two ways; whatever the source holds, both make the same file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_loading import HEADS, PATH, records, store

from sessiontree import SessionManager, SessionTreeError

DAMAGE = st.none() | st.tuples(st.integers(0, 2_000), st.binary(max_size=2))


def _spoil(data: bytes, damage: tuple[int, bytes] | None) -> bytes:
    if damage is None:
        return data
    at, instead = damage[0] % (len(data) + 1), damage[1]
    return data[:at] + instead + data[at + 1 :]


def _tell(fork: SessionManager) -> tuple[list[tuple[str, str | None, Any]], str | None, list[str]]:
    entries = [(entry.id, entry.parent_id, entry.data) for entry in fork.get_entries()]
    return entries, fork.leaf_id, [str(warning) for warning in fork.warnings]


@given(records() | records(unsound=True), HEADS, DAMAGE, st.booleans())
@settings(max_examples=150, deadline=None)
def test_files_and_other_storages_fork_alike(
    entries: list[dict[str, Any]], head: bytes, damage: tuple[int, bytes] | None, is_torn: bool
) -> None:
    whole = head + b"".join(json.dumps(record).encode() + b"\n" for record in entries)
    data = _spoil(whole, damage)[: -1 if is_torn else None]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "session.jsonl"), Path(folder, "forks")
        source.write_bytes(data)
        storage = store(data)
        try:
            elsewhere = SessionManager.fork_from(PATH, "/p", "/t", profile="omp", storage=storage)
        except SessionTreeError as error:
            try:
                SessionManager.fork_from(source, "/p", target, profile="omp")
            except type(error):
                assert not target.exists() or not list(target.iterdir())
                return
            raise AssertionError("only the file could be forked") from error
        with elsewhere, SessionManager.fork_from(source, "/p", target, profile="omp") as fork:
            assert [str(file) for file in target.iterdir()] == [fork.session_file]
            assert _tell(fork) == _tell(elsewhere)
            lines = Path(str(fork.session_file)).read_bytes().split(b"\n")
            assert lines[1:] == storage.read(str(elsewhere.session_file)).split(b"\n")[1:]
            made = fork.append_message({"role": "user", "content": "on", "timestamp": 1})
        with SessionManager.open(str(fork.session_file)) as again:
            assert _tell(again)[0] == _tell(fork)[0]
            assert again.leaf_id == made
        assert source.read_bytes() == data
