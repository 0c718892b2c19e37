"""Index the words of tool calls and their output, without their places.

Tool output is most of what agents write, and the same code is printed again and again. So each
segment has one row with its distinct words, in a table of its own. A single word is answered by
that table alone. For a phrase, the segments with all of its words are read again.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from sessiontree.discovery.search.query import Term
from sessiontree.discovery.search.words import TOKENIZER, is_word_char, split_words

TABLE = (
    "CREATE VIRTUAL TABLE tools USING fts5(words, content='', detail='none', columnsize=0, "
    f"tokenize={TOKENIZER})"
)
# Of ASCII, only letters and digits are in words, and their case doesn't count. What is beyond
# ASCII stays for ``split_words``, unless all of it are signs (an arrow, a frame, a tick): then only
# its ASCII has words.
_LOWERED = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() else 0x20 for byte in bytes(range(256)).lower()
)
_LOWERED_ASCII = bytes(byte if byte < 0x80 else 0x20 for byte in _LOWERED)
_ASCII = bytes(range(128))
_MOST_SIGNS = 4_096
_signs: set[str] = set()
"""Signs beyond ASCII that were met and are of no word."""
_SHORT = 256


class Gathering:
    """The distinct words of some texts."""

    def __init__(self) -> None:
        self.size = 0
        self._words: set[bytes] = set()
        self._odd_words: set[bytes] = set()
        self._short: set[str] = set()

    def add(self, text: str) -> None:
        """Add the words of a text."""
        self.size += len(text)
        if len(text) <= _SHORT:  # "make", "done": the same again and again
            if text in self._short:
                return
            self._short.add(text)
        raw = text.encode("utf-8", "surrogatepass")
        if text.isascii() or _are_signs(raw.translate(None, _ASCII)):
            self._words.update(raw.translate(_LOWERED_ASCII).split())
        else:
            self._odd_words.update(raw.translate(_LOWERED).split())

    def spell(self) -> str:
        """Return the words as the index takes them."""
        others: set[str] = set()
        for word in self._odd_words:
            if word.isascii():
                self._words.add(word)
            else:
                others.update(_split_odd(word))
        plain = b" ".join(self._words).decode()
        return plain + " " * bool(others) + " ".join(sorted(others))


def _are_signs(raw: bytes) -> bool:
    """Whether none of these characters can be in a word."""
    chars = set(raw.decode("utf-8", "surrogatepass"))
    if chars <= _signs:
        return True
    new = chars - _signs
    if any(map(is_word_char, new)):
        return False
    if len(_signs) < _MOST_SIGNS:
        _signs.update(new)
    return True


@lru_cache(maxsize=1 << 14)
def _split_odd(word: bytes) -> tuple[str, ...]:
    """The words in one that is not ASCII: the same ones are printed again and again."""
    text = word.decode("utf-8", "surrogatepass")
    return tuple({each.text for each in split_words(text)})


def put_words(database: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Add the words of segments."""
    database.executemany(
        "INSERT INTO tools (rowid, words) VALUES (?, ?)", [row for row in rows if row[1]]
    )


def match_words(database: sqlite3.Connection, term: Term) -> list[int]:
    """Find the segments that have all words of a term; see ``is_exact``."""
    words = [f'"{word}"' for word in _split(term)]
    if term.is_prefix:
        words[-1] += " *"
    found = database.execute("SELECT rowid FROM tools WHERE tools MATCH ?", (" AND ".join(words),))
    return [rowid for (rowid,) in found]


def is_exact(term: Term) -> bool:
    """Whether the words alone tell that the term is there."""
    return len(_split(term)) == 1


def _split(term: Term) -> list[str]:
    """The words as SQLite has them: folding can put a sign into one (a half becomes 1/2)."""
    text = " ".join(term.words)
    return "".join(char if _is_of_word(char) else " " for char in text).split()


def _is_of_word(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category in ("Mn", "Mc")
