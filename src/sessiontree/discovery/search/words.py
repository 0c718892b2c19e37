"""Split text into words, in the one way that the index, the scan and the snippets share.

A word is a run of letters and digits, folded: case, accents and compatibility forms don't count.
Scripts that don't put spaces between words (Chinese, Japanese, Thai …), and Korean, whose words
carry endings, are cut into overlapping pairs of characters, so that any substring is a run of
pairs. The last character of such a run also stands alone, so that runs end where they end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

TOKENIZER = "\"unicode61 remove_diacritics 0 categories 'L* N* Mn Mc'\""
"""How SQLite is to split what `spell_for_index` gives."""

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Korean
    "\u3005\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese
)
# Signs that belong to the word they are in, though they are not letters.
_SIGNS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff\u0f00-\u0fff"
# Of these, the ones that writers leave out or put in as they like.
_OPTIONAL = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]")

# Spellings of unspaced characters that folding replaces by others.
_COMPATIBLE = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff\uf900-\ufaff\uff66-\uff9f"

_ASCII_RUN = re.compile("[0-9A-Za-z]+")
_NON_ASCII = re.compile("[^\\x00-\\x7f]+")
# Whole words, at least one of them not ASCII: in most texts few are, and the rest stays as it is.
_ODD_PIECE = re.compile("(?<![0-9A-Za-z])[0-9A-Za-z]*[^\\x00-\\x7f](?:[0-9A-Za-z]|[^\\x00-\\x7f])*")
_ASCII = bytes(range(128))
_SURROGATE = re.compile("[\ud800-\udfff]")


# Each of these takes Python milliseconds to compile, so it is made for the first text that is not
# ASCII.


@cache
def _runs() -> re.Pattern[str]:
    return re.compile(f"(?P<pairs>[{_UNSPACED}]+)|(?:[^\\W_{_UNSPACED}]|[{_SIGNS}])+")


@cache
def _unspaced_runs() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+")


@cache
def _foldable() -> re.Pattern[str]:
    return re.compile(f"[^\\W_\\x00-\\x7f{_UNSPACED}]|[{_SIGNS}{_COMPATIBLE}]")


class Word(NamedTuple):
    """A folded word or pair, and its range in the text."""

    text: str
    start: int
    end: int
    is_pair: bool = False


def split_words(text: str) -> Iterator[Word]:
    """Split a text into words, in order."""
    if text.isascii():
        for run in _ASCII_RUN.finditer(text):
            yield Word(run[0].lower(), *run.span())
        return
    for run in _runs().finditer(text):
        start, end = run.span()
        if run["pairs"] is None:
            word = fold(run[0])
            if word:  # not a sign that stands alone
                yield Word(word, start, end)
            continue
        for at in range(start, end):
            yield Word(_fold_pair(text[at : min(at + 2, end)]), at, min(at + 2, end), True)


def is_word_char(char: str) -> bool:
    """Whether a character stands in words, rather than between them."""
    return _runs().match(char) is not None


def find_words(text: str) -> set[str]:
    """The different words of a text: what ``split_words`` gives, many times quicker."""
    if text.isascii():
        return set(_ASCII_RUN.findall(text.lower()))
    runs = {run[0] for run in _runs().finditer(text)}
    return {word.text for run in runs for word in split_words(run)}


def fold(word: str) -> str:
    """Fold case, accents and compatibility forms: ``Café`` becomes ``cafe``."""
    if word.isascii():
        return word.lower()
    bare = _OPTIONAL.sub("", unicodedata.normalize("NFKD", word))
    return unicodedata.normalize("NFKC", bare.casefold())


def is_plain(text: str) -> bool:
    """Whether folding a text changes nothing but the case of ASCII letters."""
    return text.isascii() or _foldable().search(_without_ascii(text)) is None


def fold_text(text: str) -> str:
    """A whole text folded: every folded word of it is a piece of this.

    A word of ASCII is lowered. One with other signs lies between blanks, and few such pieces do.
    """
    odd = " ".join(piece for piece in text.split() if not piece.isascii())
    bare = _OPTIONAL.sub("", unicodedata.normalize("NFKD", odd))
    folded = unicodedata.normalize("NFKC", bare.casefold()), unicodedata.normalize("NFKC", odd)
    return " ".join((text.lower(), *folded))


def spell_for_index(text: str) -> str:
    """The text as the index is to have it: split by its tokenizer, it gives ``split_words``."""
    if text.isascii():
        return text
    rest = _without_ascii(text)
    if _SURROGATE.search(rest):
        text = _SURROGATE.sub(" ", text)  # half a character; a database takes whole ones only
    if _foldable().search(rest):
        return _ODD_PIECE.sub(_respell_piece, text)
    return _NON_ASCII.sub(_respell_unspaced, text) if _unspaced_runs().search(rest) else text


def _without_ascii(text: str) -> str:
    """The few characters that matter: many times quicker to look through than the whole text."""
    raw = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return raw.decode("utf-8", "surrogatepass")


def _respell_piece(piece: re.Match[str]) -> str:
    return _runs().sub(_respell, piece[0])


def _respell(run: re.Match[str]) -> str:
    return fold(run[0]) if run["pairs"] is None else _pairs(run)


def _respell_unspaced(run: re.Match[str]) -> str:
    return _unspaced_runs().sub(_pairs, run[0])


def _pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join(_fold_pair(text[at : at + 2]) for at in range(len(text)))} "


def _fold_pair(pair: str) -> str:
    return unicodedata.normalize("NFKC", pair)
