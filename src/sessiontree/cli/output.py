"""Standard output, standard error and exit codes: the only module that writes to a terminal.

Whatever a session holds is untrusted. Everything that is written as text is escaped here, once, so
no command can forget it: control characters, escape sequences, bidirectional overrides and half
surrogates come out as visible escapes. Knows nothing of sessions beyond the errors it words.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

from sessiontree.errors import AmbiguousSessionError, SessionTreeError
from sessiontree.text.escaping import HAZARDS_IN_BLOCK
from sessiontree.text.escaping import block as block
from sessiontree.text.escaping import one_line as one_line
from sessiontree.text.width import fit as fit
from sessiontree.text.width import fit_end as fit_end
from sessiontree.text.width import text_width as text_width
from sessiontree.text.width import wrap as wrap

if TYPE_CHECKING:
    from sessiontree.cli.pager import Pager

OK = 0
FAILURE = 1
USAGE = 2
INTERRUPTED = 130

_WARNINGS = 5

_STYLES = {
    "": "",
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

_BEYOND_ASCII = re.compile("[^\x00-\x7e]")


_PROSE_COLUMNS = 100
"""Longer lines of prose are tiring to read."""

Span = str | tuple[str, str]
"""A piece of a line: text, or text and the name of its style."""

_pager: Pager | None = None


# -- escaping ------------------------------------------------------------------------------------


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Spell the value as JSON text that is readable and safe to show, whatever its strings hold."""
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except (RecursionError, ValueError):  # nested without end, or a number that JSON can't express
        from sessiontree.model import codec

        text = codec.encode(value).decode("utf-8")
    # Inside JSON only strings can hold hazards, and the line breaks are ours.
    return HAZARDS_IN_BLOCK.sub(_json_escape, text)


def _fit_json(text: str, stream: TextIO | None) -> str:
    """JSON text as the stream can hold it, and still JSON: only its strings have what to escape."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if not encoding.lower().startswith("utf"):
        return _BEYOND_ASCII.sub(_json_escape, text)
    return HAZARDS_IN_BLOCK.sub(_json_escape, text) if is_terminal(stream) else text


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


# -- terminals -----------------------------------------------------------------------------------


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether the stream (standard output) is a terminal."""
    chosen = sys.stdout if stream is None else stream
    try:
        return chosen.isatty()
    except (AttributeError, ValueError):  # none at all (``>&-``), or closed
        return False


def can_ask() -> bool:
    """Whether there is a person who can answer: both directions are a terminal."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def can_show_screen() -> bool:
    """Whether a full screen can be shown: keys come from a terminal and go to one."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def has_color(stream: TextIO | None = None) -> bool:
    """Whether the stream may be coloured: a terminal, not ``dumb``, and no ``NO_COLOR``."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def terminal_width() -> int | None:
    """Columns of the terminal on standard output; None when lines need not fit anything."""
    if not is_terminal():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


# -- writing -------------------------------------------------------------------------------------


def write_line(*spans: Span, stream: TextIO | None = None) -> None:
    """One line on standard output."""
    chosen = sys.stdout if stream is None else stream
    color = has_color(chosen)
    _write(chosen, "".join(_render(span, color) for span in spans) + "\n")


def write_block(text: str, style: str = "") -> None:
    """Text of any number of lines on standard output."""
    lines = block(text).rstrip("\n").split("\n")
    room = terminal_width()
    if room is not None:
        lines = [piece for line in lines for piece in wrap(line, room)]
    if style and has_color():
        lines = [_paint(line, style) if line else line for line in lines]
    _write(sys.stdout, "\n".join(lines) + "\n")


def write_markdown(text: str) -> None:
    """Write Markdown as the chat draws it; as plain text without colours or rich."""
    room = terminal_width()
    if room is None or not has_color():
        write_block(text)
        return
    try:
        from sessiontree.tui.transcript.ansi import spell_markdown
    except ModuleNotFoundError:  # without the extra ``tui``
        write_block(text)
        return
    for line in spell_markdown(text, min(room, _PROSE_COLUMNS)):
        _write(sys.stdout, line + "\n")


@contextlib.contextmanager
def paged() -> Iterator[None]:
    """Show what is longer than the screen in a pager; nothing else changes."""
    global _pager
    from sessiontree.cli.pager import Pager, pager_command

    command = pager_command(os.environ) if can_show_screen() else None
    rows = _terminal_rows() if command else 0
    if command is None or rows < 2 or sys.stderr is None:
        yield
        return
    _pager = Pager(command, rows, sys.stdout, sys.stderr)
    try:
        yield
    finally:
        pager, _pager = _pager, None
        flush()
        with _writing(sys.stdout):
            pager.close()


def _terminal_rows() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines
    except OSError:
        return 0


def write_json(value: object) -> None:
    """A JSON document on standard output."""
    write_document([to_json(value) + "\n"], is_json=True)


def write_json_list(frame: Mapping[str, object], name: str, items: Iterable[object]) -> None:
    """A JSON document whose last field is a list: item by item, so that no two need be held."""
    write_document(_spell_list(frame, name, items), is_json=True)


def _spell_list(frame: Mapping[str, object], name: str, items: Iterable[object]) -> Iterator[str]:
    before, _, after = to_json({**frame, name: []}).rpartition("[]")
    yield before + "["
    separator = "\n    "
    for item in items:
        # Inside JSON only the line breaks between values are line breaks.
        yield separator + to_json(item).replace("\n", "\n    ")
        separator = ",\n    "
    end = "\n  ]" if separator.startswith(",") else "]"
    yield f"{end}{after}\n"


def write_document(chunks: Iterable[str], *, is_json: bool = False) -> None:
    """A document (an export) on standard output: exact for a program, escaped for a terminal.

    JSON is escaped the way JSON does it, and so for every stream that can't hold all characters.
    """
    shown = is_terminal()
    for chunk in chunks:
        if is_json:
            _write(sys.stdout, _fit_json(chunk, sys.stdout), is_exact=True)
        else:
            _write(sys.stdout, block(chunk) if shown else chunk, is_exact=not shown)


def write_note(*spans: Span) -> None:
    """Write a hint, or what a listing left out, where it can't be taken for data."""
    write_line(*spans, stream=sys.stdout if is_terminal() else sys.stderr)


def write_message(*spans: Span) -> None:
    """A message to the person, on standard error."""
    write_line(*spans, stream=sys.stderr)


def write_prompt(text: str) -> None:
    """Write our own words to standard error without ending the line: a key is to follow."""
    _write(sys.stderr, text)
    flush()


def erase_prompt() -> None:
    """Erase the line of a prompt, or end it on a terminal that can't erase."""
    write_prompt("\r\x1b[K" if has_color(sys.stderr) else "\n")


def write_warnings(warnings: Sequence[object]) -> None:
    """Write the first of what had to be repaired to standard error."""
    for warning in warnings[:_WARNINGS]:
        write_message((f"warning: {warning}", "yellow"))
    if len(warnings) > _WARNINGS:
        write_message((f"warning: and {len(warnings) - _WARNINGS:,} more like these", "yellow"))


def write_notes(notes: Iterable[str]) -> None:
    """Write remarks on what was done, on standard error."""
    for line in notes:
        write_message((f"note: {line}", "dim"))


def flush() -> None:
    """Flush standard output."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with _writing(stream):
                stream.flush()


class ReaderGone(Exception):  # noqa: N818 - an ordinary end: ``sessiontree ls | head -1``
    """The reader of our output has gone."""


def _write(stream: TextIO | None, text: str, *, is_exact: bool = False) -> None:
    if stream is None:  # the program was started without one
        return
    text = _in_charset(text, stream.encoding, is_exact=is_exact)
    with _writing(stream):
        if _pager is not None and _pager.takes(stream):
            _pager.write(stream, text)
        else:
            stream.write(text)


def spell_for(stream: TextIO | None, text: str) -> str:
    """Spell our own words in characters that the stream has."""
    return text if stream is None else _in_charset(text, stream.encoding, is_exact=False)


def _in_charset(text: str, encoding: str | None, *, is_exact: bool) -> str:
    """The text in characters that the encoding has; an exact one changes none to a likeness."""
    if text.isascii() or encoding is None:  # a stream of text, not of bytes, has none
        return text
    from sessiontree.text.charsets import spell

    return spell(text, encoding, is_exact=is_exact)


@contextlib.contextmanager
def _writing(stream: TextIO) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError:
        # A full disk: what the stream still holds would fail once more as the interpreter ends,
        # with two lines of its own and another exit code.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        raise


def _render(span: Span, color: bool) -> str:
    text, style = (span, "") if isinstance(span, str) else span
    safe = one_line(text)
    return _paint(safe, style) if style and color and safe else safe


def _paint(safe: str, style: str) -> str:
    codes = ";".join(_STYLES[name] for name in style.split())
    return f"\x1b[{codes}m{safe}\x1b[0m"


class Progress:
    """A progress bar on standard error, which disappears when the work is done.

    Only on a terminal, and only after half a second. Call it with what is done and the total.
    Without rich (the extra ``tui``) it is a line of text.
    """

    _PATIENCE_S = 0.5
    _PAUSE_S = 0.1

    def __init__(self, what: str, *, is_size: bool = False) -> None:
        self._what = one_line(what)
        self._is_size = is_size
        self._bar: Any = None
        self._is_line = False
        self._next = 0.0

    def __enter__(self) -> Self:
        self._next = time.monotonic() + self._PATIENCE_S
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def hide(self) -> None:
        """Hide the bar, so that something else can be written; the next call shows it again."""
        if self._bar is not None:
            self._bar.stop()
        elif self._is_line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._bar, self._is_line = None, False

    def __call__(self, done: int, total: int, *_: object) -> None:
        """Show that so much is done; a total of 0 is not known yet."""
        now = time.monotonic()
        if now < self._next or not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
            return
        self._next = now + self._PAUSE_S
        if self._bar is None and not self._is_line:
            self._bar = self._make_bar()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)
            self._bar.refresh()
            return
        self._is_line = True
        of = f" of {total:,}" if total else ""
        sys.stderr.write(f"\r\x1b[K{self._what} {done:,}{of}")
        sys.stderr.flush()

    def count(self, pieces: Iterable[str]) -> Iterator[str]:
        """Pass on the pieces of a document, and show how much of it there is so far."""
        done = 0
        for piece in pieces:
            done += len(piece)
            self(done, 0)
            yield piece

    def _make_bar(self) -> Any:
        """The started bar, or None without rich."""
        try:
            from rich import progress
            from rich.console import Console
        except ImportError:
            return None
        amount = progress.DownloadColumn() if self._is_size else progress.MofNCompleteColumn(" of ")
        bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            amount,
            progress.TimeRemainingColumn(compact=True),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,  # no thread, which would outlive an interrupt
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task(self._what, total=None)
        bar.start()
        return bar


# -- asking --------------------------------------------------------------------------------------


def ask(question: str) -> bool:
    """Whether the person answers yes; no one there, no answer and anything else is a no."""
    return ask_word(question) in ("y", "yes")


def ask_word(question: str) -> str:
    """Return what the person answers, in lower case; empty if there is no answer."""
    if not can_ask():
        return ""
    from sessiontree.cli.line import read_answer

    try:
        return read_answer(one_line(question) + " ").strip().casefold()
    except (OSError, UnicodeDecodeError):
        return ""


@contextlib.contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Import from an optional extra; if it is missing, end the command and say how to install
    it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "sessiontree":
            raise
        fail(f'{what} needs {error.name}: pip install "sessiontree[{extra}]"')


# -- errors and exit codes -----------------------------------------------------------------------


class Failed(SessionTreeError):  # noqa: N818 - it is how a command ends, not an error of its own
    """Ends a command with a message in one line and an exit code."""

    def __init__(self, message: str, code: int = FAILURE) -> None:
        self.code = code
        super().__init__(message)


def fail(message: str, code: int = FAILURE) -> NoReturn:
    """End the command with this message on standard error."""
    raise Failed(message, code)


def without_keys(text: str) -> str:
    """The text without provider keys: a library's message about a failed call may contain one."""
    from sessiontree.runtime.masking import KeyMask

    return KeyMask.of_environment().text(text)


def report(error: BaseException) -> int:
    """Write an error to standard error in one line; return its exit code."""
    match error:
        case Failed():
            write_message(without_keys(str(error)))
            return error.code
        case AmbiguousSessionError():
            write_message(without_keys(str(error)))
            _write_candidates(error.candidates)
            return USAGE
        case SessionTreeError():
            write_message(without_keys(str(error)))
            return FAILURE
        case OSError():
            write_message(_word_os_error(error))
            return FAILURE
        case _:
            kind = type(error).__name__
            text = f"Internal error: {kind}: {error} (SESSIONTREE_DEBUG=1 shows where)"
            write_message(without_keys(text))
            return FAILURE


def _word_os_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _write_candidates(candidates: Iterable[Any]) -> None:
    from sessiontree.cli.tables import write_candidates

    write_candidates(candidates)
