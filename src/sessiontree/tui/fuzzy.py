"""What a typed query means, and how well a text answers it.

Owns the query's syntax and the ranking: exact and word matches come before pieces of words, those
before letters in order (fuzzy). Knows nothing of sessions: it matches named fields of text. Pure.

- Words, in any order; each must be found in some field. Fuzzy counts only in fields that allow it.
- ``"some phrase"``: this very text.
- ``re:…``: a regular expression, ignoring case; ``^`` and ``$`` are the ends of a line. The package
  ``regex`` runs it: it can be stopped, and it lets other threads run meanwhile (Python's ``re`` can
  do neither), so any pattern may be tried and one that takes too long ends with a message.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:  # takes longer to load than all of this module; only patterns need it
    import regex

_TERM = re.compile(r'"([^"]*)"?|(\S+)')
_REGEX_PREFIX = "re:"
_PATIENCE_S = 5.0
"""Time of the processor that a pattern may take over all texts it is tried on."""
_TOO_SLOW = "this pattern takes too long; try a simpler one"
_MIN_FUZZY = 3
_MAX_FUZZY = 400
_WORD = re.compile(r"[^\W_]+")
_SEPARATOR = b"\n"
_FAR = 50
"""How far from the beginning a word counts as standing, since that is not known."""
# What is ASCII and in no word becomes a blank: many times quicker than the pattern.
_BLANKED = bytes(code if code >= 128 or chr(code).isalnum() else ord(" ") for code in range(256))


class Kind(IntEnum):
    """How a term was found, from vague to certain."""

    FUZZY = 0
    PART = 1
    PREFIX = 2
    WORD = 3
    EXACT = 4


@dataclass(frozen=True, slots=True)
class Hit:
    """Where one term was found: ``spans`` are index pairs into the field's text.

    A field that does not hold its text has none, and gives the ``term`` instead.
    """

    field: str
    kind: Kind
    score: int
    spans: tuple[tuple[int, int], ...]
    term: str = ""


class Searchable(Protocol):
    """A named text to look in; ``weight`` breaks ties, ``fuzzy`` if letters in order count."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def fuzzy(self) -> bool: ...

    def find(self, term: str) -> Hit | None:
        """The term as it is: the whole text, a word of it, the beginning of one, or a piece."""


@dataclass(frozen=True, slots=True)
class Field:
    """A text to look in. ``folded`` is its casefolded form."""

    name: str
    text: str
    folded: str
    weight: int = 0
    fuzzy: bool = False

    @classmethod
    def of(cls, name: str, text: str, weight: int = 0, *, fuzzy: bool = False) -> Field:
        return cls(name, text, fold(text), weight, fuzzy)

    def find(self, term: str) -> Hit | None:
        return _find(term, self)


@dataclass(frozen=True, slots=True)
class Match:
    """One hit for each term of the query."""

    hits: tuple[Hit, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Greater is better: the vaguest term decides, then the sum."""
        if not self.hits:
            return (0, 0)
        return (min(hit.kind for hit in self.hits), sum(hit.score for hit in self.hits))

    def spans_in(self, field: str) -> list[tuple[int, int]]:
        """The found pieces of this field, in order."""
        return sorted(span for hit in self.hits if hit.field == field for span in hit.spans)


class Query:
    """A query, taken apart once and then matched against many."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.error: str | None = None
        """Why the query can't be used, for the person who types it."""
        self._pattern: regex.Pattern[str] | None = None
        self._left_s = _PATIENCE_S
        self._terms: list[tuple[str, bool]] = []
        stripped = text.strip()
        if stripped.startswith(_REGEX_PREFIX):
            self._set_pattern(stripped[len(_REGEX_PREFIX) :])
        else:
            self._terms = list(_terms(stripped))

    @property
    def is_empty(self) -> bool:
        return not self._terms and self._pattern is None and self.error is None

    def match(self, fields: Sequence[Searchable]) -> Match | None:
        """The best match of every term; None if one is nowhere. An unusable query finds nothing.

        ``fields`` come in the order of their weights, the weightiest first.
        """
        if self.error is not None:
            return None
        if self._pattern is not None:
            return self._match_pattern(self._pattern, fields)
        hits = []
        for term, is_phrase in self._terms:
            hit = _best_hit(term, is_phrase, fields)
            if hit is None:
                return None
            hits.append(hit)
        return Match(tuple(hits))

    def _match_pattern(
        self, pattern: regex.Pattern[str], fields: Sequence[Searchable]
    ) -> Match | None:
        for field in fields:
            text = field.text  # reading it takes time as well, for which the pattern can do nothing
            started = time.thread_time()
            try:
                span = _search(pattern, text, self._left_s)
            except (TimeoutError, MemoryError):
                self.error = _TOO_SLOW
                return None
            # Never 0: the next search has to be stopped, and without a time it would not be.
            self._left_s = max(1e-3, self._left_s - (time.thread_time() - started))
            if span is not None:
                return Match((Hit(field.name, Kind.WORD, field.weight * 100, (span,)),))
        return None

    def _set_pattern(self, source: str) -> None:
        if not source:
            return
        try:
            self._pattern = _compile(source)
        except ImportError:
            self.error = 're: needs the package "regex": pip install "sessiontree[tui]"'
        except ValueError as error:
            self.error = f"not a regular expression: {error}"


def fold(text: str) -> str:
    """The text for comparing without case, index by index the same as ``text``."""
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    # A few letters grow when folded (İ); spans must still fit the text they mark.
    return "".join(one if len(one := letter.lower()) == 1 else letter for letter in text)


def _terms(text: str) -> Iterable[tuple[str, bool]]:
    for found in _TERM.finditer(text):
        if found[2] is not None:
            yield fold(found[2]), False
        elif found[1].strip():
            yield fold(" ".join(found[1].split())), True


def _best_hit(term: str, is_phrase: bool, fields: Sequence[Searchable]) -> Hit | None:
    best: Hit | None = None
    for field in fields:
        hit = field.find(term)
        if hit is None and field.fuzzy and not is_phrase and len(term) >= _MIN_FUZZY:
            hit = _find_fuzzy(term, field)
        if hit is not None and (best is None or (hit.kind, hit.score) > (best.kind, best.score)):
            best = hit
            if hit.kind >= Kind.WORD:
                break  # nothing in a field of less weight is better than that
    return best


def _find(term: str, field: Field) -> Hit | None:
    folded = field.folded
    at = folded.find(term)
    if at < 0:
        return None
    if len(term) == len(folded):
        return _hit(field, Kind.EXACT, 0, at, term)
    best_at, best_kind = at, Kind.PART
    # The first few places are enough to find a whole word where there is one.
    for _ in range(8):
        kind = _kind_at(folded, at, at + len(term))
        if kind > best_kind:
            best_at, best_kind = at, kind
        if kind is Kind.WORD:
            break
        at = folded.find(term, at + 1)
        if at < 0:
            break
    return _hit(field, best_kind, min(best_at, 50), best_at, term)


def _kind_at(folded: str, start: int, end: int) -> Kind:
    if start > 0 and folded[start - 1].isalnum() and folded[start].isalnum():
        return Kind.PART
    if end < len(folded) and folded[end].isalnum() and folded[end - 1].isalnum():
        return Kind.PREFIX
    return Kind.WORD


def _hit(field: Field, kind: Kind, distance: int, at: int, term: str) -> Hit:
    score = kind * 1_000 + field.weight * 100 - distance
    return Hit(field.name, kind, score, ((at, at + len(term)),))


def _find_fuzzy(term: str, field: Searchable) -> Hit | None:
    """The term's letters in order, close together; the tightest place near the first one."""
    folded = fold(field.text[:_MAX_FUZZY])
    best: tuple[int, list[int]] | None = None
    start = folded.find(term[0])
    while start >= 0:
        if start == 0 or not folded[start - 1].isalnum():
            places = _places(term, folded, start)
            if places is None:
                break
            width = places[-1] - places[0] + 1
            if width <= 3 * len(term) and (best is None or width < best[0]):
                best = (width, places)
        start = folded.find(term[0], start + 1)
    if best is None:
        return None
    width, places = best
    score = field.weight * 10 - (width - len(term))
    return Hit(field.name, Kind.FUZZY, score, _runs(places))


def _places(term: str, folded: str, start: int) -> list[int] | None:
    places = [start]
    for letter in term[1:]:
        at = folded.find(letter, places[-1] + 1)
        if at < 0:
            return None
        places.append(at)
    return places


def _runs(places: list[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return tuple(runs)


# -- regular expressions -------------------------------------------------------------------------


def _compile(source: str) -> regex.Pattern[str]:
    """The pattern. Raises ValueError with the reason; ImportError without the package."""
    import regex

    with warnings.catch_warnings():
        # What may mean something else one day is no news for the person who types it.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return regex.compile(source, regex.IGNORECASE | regex.MULTILINE)
        except (regex.error, OverflowError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from error


def _search(pattern: regex.Pattern[str], text: str, timeout_s: float) -> tuple[int, int] | None:
    """The first place where the pattern finds at least one character. Raises TimeoutError."""
    for found in pattern.finditer(text, timeout=timeout_s, concurrent=True):
        start, end = found.span()
        if end > start:
            return start, end
    return None


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
