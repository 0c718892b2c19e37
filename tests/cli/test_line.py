"""Answers to questions in a line, read from a real terminal."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import Iterator

import pytest

from sessiontree.cli import output


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal that is this program's standard input."""
    other, terminal = pty.openpty()
    with os.fdopen(terminal, "r+b", buffering=0) as raw, open(terminal, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr(output, "can_ask", lambda: True)
        before = termios.tcgetattr(raw)
        yield other
        assert termios.tcgetattr(raw) == before
    os.close(other)


@pytest.mark.parametrize(
    ("typed", "answer"), [(b"\x04", ""), (b"yes\n", "yes"), (b"no\x7f\x7fY\r", "y")]
)
def test_keys_that_come_before_the_question_answer_it(
    keyboard: int, typed: bytes, answer: str
) -> None:
    """The terminal still edits lines when they come."""
    os.write(keyboard, typed)
    assert output.ask_word("Go on?") == answer
