"""What reaches a terminal: escaping as properties, widths, and the words for errors."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sessiontree.cli
from sessiontree.cli import output
from sessiontree.errors import NotASessionError, PersistenceError, SessionNotFoundError

from .conftest import Machine

_ANY = st.text(st.characters(), max_size=60) | st.text(
    alphabet="\x1b[]0;31m\x07\x9b\x85\x00\r\n\t ab\u202e\u2066\u200f\u2028\ud83d\U000e0041é漢",
    max_size=40,
)


def _is_hazard(character: str) -> bool:
    """Worked out from the Unicode database, not from the code's own list."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or (
        unicodedata.bidirectional(character)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        or character in "\u200e\u200f\u061c"
    )


@given(_ANY)
@example("\x1b]0;owned\x07")
@example("a\u202etxt.exe")
def test_no_control_or_direction_character_survives_in_a_line(text: str) -> None:
    assert not [c for c in output.one_line(text) if _is_hazard(c)]


@given(_ANY)
def test_a_block_keeps_only_its_line_breaks_and_tabs(text: str) -> None:
    assert not [c for c in output.block(text) if _is_hazard(c) and c not in "\n\t"]


@given(_ANY)
def test_safe_text_is_left_alone_however_often_it_is_escaped(text: str) -> None:
    once = output.one_line(text)
    assert output.one_line(once) == once
    assert output.block(output.block(text)) == output.block(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert output.one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two lines"),
        ("two \r\n  lines", "two lines"),
        ("a\tb", "a b"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("bell\x07", "bell\\x07"),
        ("over\u202eride", "over\\u202eride"),
        ("half \ud83d pair", "half \\ud83d pair"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("family 👨‍👩‍👧 и 漢字", "family 👨‍👩‍👧 и 漢字"),
    ],
)
def test_hazards_become_visible(text: str, shown: str) -> None:
    assert output.one_line(text) == shown


@pytest.mark.parametrize("blank", [" ", "\t ", " \x1f"])
def test_a_long_run_of_blanks_is_read_once(blank: str) -> None:
    text = blank * 500_000
    assert output.one_line(f"a{text}\nb").endswith(" b")
    assert output.one_line(f"a{text}b").endswith("b")


def _paired(text: str) -> str:
    """Two halves that happen to meet are one character, in JSON and here."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _ANY.map(_paired),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_json_is_safe_to_show_and_means_the_same(value: object) -> None:
    text = output.to_json(value)
    assert not [c for c in text if _is_hazard(c) and c != "\n"]
    assert json.loads(text) == value


def test_json_copes_with_what_a_hostile_file_can_hold() -> None:
    nested: object = "\x9b"
    for _ in range(1000):
        nested = [nested]
    assert output.to_json({"nested": nested, "big": 1e999, "int": 10**400}).startswith(
        '{"nested":[[['
    )
    assert "\x9b" not in output.to_json(nested)


@given(st.dictionaries(st.text(), _VALUES, max_size=3), st.lists(_VALUES, max_size=3))
def test_json_written_item_by_item_reads_as_if_written_at_once(
    frame: dict[str, object], items: list[object]
) -> None:
    frame.pop("items", None)
    with redirect_stdout(io.StringIO()) as shown:
        output.write_json_list(frame, "items", items)
    assert shown.getvalue() == output.to_json({**frame, "items": items}) + "\n"


def test_json_items_are_written_before_the_next_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def items() -> Iterator[object]:
        for number in range(3):
            yield {"number": number, "nested": [[]]}
            assert f'"number": {number}' in capsys.readouterr().out

    output.write_json_list({"id": "a"}, "items", items())
    assert capsys.readouterr().out == "\n  ]\n}\n"


def test_an_item_that_is_nested_without_end_is_still_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nested: object = "\x9b"
    for _ in range(900):
        nested = [nested]
    output.write_json_list({"id": "a"}, "items", [nested, 1])
    assert json.loads(capsys.readouterr().out) == {"id": "a", "items": [nested, 1]}


@given(_ANY, st.integers(0, 30))
def test_a_fitted_line_never_exceeds_its_width(text: str, width: int) -> None:
    assert output.text_width(output.fit(output.one_line(text), width)) <= width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("exactly", 7, "exactly"),
        ("a long title", 8, "a long…"),
        ("漢字漢字", 5, "漢字…"),
        ("anything", 0, ""),
    ],
)
def test_a_cut_is_marked(text: str, width: int, shown: str) -> None:
    assert output.fit(text, width) == shown


@pytest.mark.parametrize("text", ["漢" * 100_000, "é" * 100_000, "é" + "a" * 100_000])
def test_no_more_of_a_line_is_looked_at_than_fits(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    looked_at: list[str] = []
    combining = unicodedata.combining

    def look_at(character: str) -> int:
        looked_at.append(character)
        return combining(character)

    monkeypatch.setattr(unicodedata, "combining", look_at)
    assert len(output.fit(text, 20)) <= 20
    assert len(looked_at) <= 21


@given(_ANY, st.integers(20, 60))
def test_wrapping_breaks_only_at_spaces_and_keeps_every_word(text: str, width: int) -> None:
    line = output.one_line(text).replace("  ", " ").strip()
    pieces = output.wrap(line, width)
    assert " ".join(pieces).split() == line.split()
    assert all(output.text_width(piece) <= width or " " not in piece for piece in pieces)


def test_what_hangs_over_is_indented_like_its_line() -> None:
    assert output.wrap("  a long line of words", 14) == ["  a long line", "  of words"]
    assert output.wrap("漢字 漢字 漢字 漢字 漢字 漢字", 20) == ["漢字 漢字 漢字 漢字", "漢字 漢字"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_span_of_a_line_is_escaped_and_styles_are_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal()
    output.write_line("a\x1b[2J", ("b\x1b[0m\nc", "bold"), stream=stream)
    assert stream.getvalue() == "a\\x1b[2J\x1b[1mb\\x1b[0m c\x1b[0m\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_means_no_escape_sequences(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    stream = _Terminal()
    output.write_line(("plain", "bold"), stream=stream)
    assert stream.getvalue() == "plain\n"


def test_a_stream_that_cannot_spell_a_character_still_shows_the_line() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    output.write_line("naïve 漢", stream=stream)
    stream.flush()
    assert raw.getvalue() == b"na\\xefve \\u6f22\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize(
    "command", [("ls", "--json"), ("show", "--json"), ("export", "-f", "json")], ids=lambda c: c[0]
)
def test_json_is_json_in_every_encoding(
    machine: Machine, command: tuple[str, ...], encoding: str
) -> None:
    text = "café 漢 😀 \x9b"
    machine.session("0199a3f2", text, "yes", title=text)
    told = machine.run(*command, PYTHONIOENCODING=encoding)
    assert (told.code, told.out.isascii()) == (0, encoding != "utf-8")
    session = told.json[0] if command[0] == "ls" else told.json
    assert session["title" if command[0] == "ls" else "name"] == text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", [(), ("ls",), ("keep",), ("config", "set")])
def test_help_is_ascii_where_the_terminal_is_not_utf_8(
    machine: Machine, command: tuple[str, ...], encoding: str
) -> None:
    told = machine.run(*command, "--help", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert told.code == 0
    assert "Usage: sessiontree" in told.out
    assert told.out.isascii()


def test_json_on_a_terminal_is_json_too(machine: Machine) -> None:
    machine.session("0199a3f2", "café \x9b\x7f\u202e", "yes")
    shown = machine.on_terminal("export", "-f", "json")
    assert not [c for c in shown.out if _is_hazard(c) and c != "\n"]
    said = shown.json["entries"][0]["message"]["content"][0]["text"]
    assert said == "café \x9b\x7f\u202e"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (SessionNotFoundError("abc"), 1, 'Session "abc" not found.\n'),
        (SessionNotFoundError("a\x1bc\nd"), 1, 'Session "a\\x1bc d" not found.\n'),
        (
            NotASessionError("/x/README.md"),
            1,
            "/x/README.md: not a session file; the file was not modified\n",
        ),
        (
            PersistenceError("/x/s.jsonl", "No space left on device"),
            1,
            "/x/s.jsonl: No space left on device\n",
        ),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied\n"),
        (output.Failed("told so", 2), 2, "told so\n"),
        (
            ZeroDivisionError("oops"),
            1,
            "Internal error: ZeroDivisionError: oops (SESSIONTREE_DEBUG=1 shows where)\n",
        ),
    ],
)
def test_errors_are_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, text: str
) -> None:
    assert output.report(error) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", text)


def test_only_the_output_module_writes_to_the_terminal() -> None:
    writes = re.compile(r"\bprint\(|click\.(secho|echo|confirm|prompt)|sys\.std(out|err)\.write")
    package = Path(sessiontree.cli.__file__).parent
    found = {
        file.name: lines
        for file in sorted(package.rglob("*.py"))
        if file.name != "output.py"
        and (lines := [line for line in file.read_text().splitlines() if writes.search(line)])
    }
    # The version is answered before anything is imported, and is our own text.
    assert list(found) == ["main.py"]
    assert [line.strip() for line in found["main.py"]] == [
        'sys.stdout.write(f"sessiontree {__version__}\\n")'
    ]


# -- progress ------------------------------------------------------------------------------------


@contextmanager
def terminal_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Standard error on a terminal of 60 columns; the function reads what was written so far."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(output.Progress, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(output.Progress, "_PAUSE_S", 0.0)
    with open(slave, "w", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stderr", stream)

        def read() -> str:
            stream.flush()
            text = b""
            while select.select([master], [], [], 0.05)[0]:
                text += os.read(master, 1 << 16)
            return text.decode()

        yield read
    os.close(master)


def test_a_long_work_shows_a_bar_that_goes_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal_errors(monkeypatch) as read:
        with output.Progress("Reading\x1b[31m all") as progress:
            progress(312, 1641)
            shown = read()
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
        assert "Reading\\x1b[31m all" in plain
        assert "━" in plain
        assert " 312 of 1641" in plain
        # The line is erased and the cursor is visible again.
        ending = read()
        assert "\x1b[2K" in ending
        assert "\x1b[?25h" in ending


def test_without_rich_progress_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with terminal_errors(monkeypatch) as read:
        with output.Progress("Reading sessions") as progress:
            progress(3, 10)
            assert read() == "\r\x1b[KReading sessions 3 of 10"
        assert read() == "\r\x1b[K"


def test_progress_is_for_terminals_that_can_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal_errors(monkeypatch) as read:
        monkeypatch.setenv("TERM", "dumb")
        with output.Progress("Reading sessions") as progress:
            progress(3, 10)
        assert read() == ""
    errors = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", errors)
    with output.Progress("Reading sessions") as progress:
        assert list(progress.count(["a", "b"])) == ["a", "b"]
    assert errors.getvalue() == ""
