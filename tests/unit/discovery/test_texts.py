"""Lines for searches, read from either end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sessiontree.discovery.texts import speaking_lines, speaking_lines_backwards
from sessiontree.storage.file import FileSessionStorage

_LENGTHS = (0, 1, 80, 3_000, 65_534, 65_535, 65_536, 65_537, 131_072, 300_000, 700_000)


@pytest.mark.parametrize("seed", range(12))
def test_lines_backwards_are_the_lines_from_the_last_to_the_first(
    tmp_path: Path, seed: int
) -> None:
    made = random.Random(seed)
    lines = [
        made.choice(b"abs").to_bytes(1) * made.choice(_LENGTHS)
        for _ in range(made.randrange(1, 40))
    ]
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n" * made.randrange(2))
    start = sum(len(line) + 1 for line in lines[: made.randrange(len(lines))])
    reader = FileSessionStorage().open_reader(str(file))
    size = file.stat().st_size

    def is_silent(data: bytes, begin: int, end: int) -> bool:
        return data[begin:end].startswith(b"s")

    for silent in (is_silent, None):
        forwards = list(speaking_lines(reader, start, size, silent))
        assert list(speaking_lines_backwards(reader, start, size, silent)) == forwards[::-1]
    reader.close()


def test_the_end_of_a_long_file_is_read_alone(tmp_path: Path) -> None:
    """A search shows the newest place of its words: as a rule that is near the end."""
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"".join(b"%0999d\n" % number for number in range(4_000)))
    reader = FileSessionStorage().open_reader(str(file))
    read: list[int] = []

    class Counting:
        """The reader, counting."""

        def read_at(self, offset: int, length: int) -> bytes:
            read.append(length)
            return reader.read_at(offset, length)

    lines = speaking_lines_backwards(Counting(), 0, 4_000_000, None)  # type: ignore[arg-type]
    assert next(lines) == (b"%0999d" % 3_999, 3_999_000)
    assert sum(read) < 100_000
    reader.close()


def test_a_file_that_was_cut_meanwhile_gives_what_is_left(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"first\nsecond\nthird\n")
    reader = FileSessionStorage().open_reader(str(file))
    file.write_bytes(b"first\nsecond\n")
    found = [line for line, _ in speaking_lines_backwards(reader, 0, 19, None) if line]
    assert found == [b"second", b"first"]
    reader.close()
