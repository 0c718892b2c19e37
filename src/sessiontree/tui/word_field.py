"""A long text to look in, in little room: the words it has, each once. Pure.

Whether a word, its beginning or a piece of it stands in a text follows from its words alone. Where
in it, and whether a phrase or a pattern does, only the text tells: it is read when that is asked,
and not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sessiontree.tui.fuzzy import Field, Hit, Kind, fold

_WORD = re.compile(r"[^\W_]+")
_SEPARATOR = b"\n"
_FAR = 50
"""How far from the beginning a word counts as standing, since that is not known."""
# What is ASCII and in no word becomes a blank: many times quicker than the pattern.
_BLANKED = bytes(code if code >= 128 or chr(code).isalnum() else ord(" ") for code in range(256))


def distinct_words(text: str) -> bytes:
    """The words of a text, folded, each once."""
    found = set(_encode(fold(text)).translate(_BLANKED).split())
    odd = {run for run in found if not run.isascii()}
    found -= odd
    for run in odd:  # signs that are not ASCII may stand in it
        found.update(map(_encode, _WORD.findall(run.decode("utf-8", "surrogatepass"))))
    return _SEPARATOR + _SEPARATOR.join(found) + _SEPARATOR


@dataclass(frozen=True, slots=True)
class WordField:
    """A text of which only the words are held; ``read`` gives all of it."""

    name: str
    words: bytes
    read: Callable[[], str]
    weight: int = 0
    fuzzy: ClassVar[bool] = False

    @property
    def text(self) -> str:
        return self.read()

    def find(self, term: str) -> Hit | None:
        """How the term is found; where, it says only of one that is no single word."""
        if not all(piece in self.words for piece in _pieces(term)):
            return None
        if not term.isalnum():
            return Field.of(self.name, self.read(), self.weight).find(term)
        kind = _kind_of(_encode(term), self.words)
        return Hit(self.name, kind, kind * 1_000 + self.weight * 100 - _FAR, (), term)


@lru_cache(64)
def _pieces(term: str) -> tuple[bytes, ...]:
    return tuple(map(_encode, _WORD.findall(term)))


def _encode(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


def _kind_of(word: bytes, words: bytes) -> Kind:
    """What a word that stands somewhere in these is to them."""
    if _SEPARATOR + word + _SEPARATOR in words:
        return Kind.WORD
    return Kind.PREFIX if _SEPARATOR + word in words else Kind.PART
