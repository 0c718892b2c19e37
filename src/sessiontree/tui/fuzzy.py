"""Parse a typed query and rank texts against it.

Exact and word matches rank above parts of words, and those above letters in order (fuzzy). Matches
named fields of text and knows nothing of sessions. Pure.

- Words, in any order; each must match some field. Fuzzy matches count only in fields that allow it.
- ``"some phrase"``: exactly this text.
- ``re:…``: a regular expression, ignoring case; ``^`` and ``$`` are the ends of a line. The package
  ``regex`` runs it: it can be stopped, and it lets other threads run meanwhile (Python's ``re`` can
  do neither), so any pattern may be tried and one that takes too long ends with a message.

Not every text is held in memory. A `WordField` keeps only the distinct words of a long text, which
is enough to decide whether a word, the beginning or a part of one occurs in it. A phrase or a
pattern needs the text itself: `WordField` reads it then, and does not keep it.
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
"""CPU seconds that a pattern may take over all texts."""
_TOO_SLOW = "this pattern takes too long; try a simpler one"
_MIN_FUZZY = 3
_MAX_FUZZY = 400
_WORD = re.compile(r"[^\W_]+")
_SEPARATOR = b"\n"
_FAR = 50
"""Assumed distance of a word from the beginning: a `WordField` doesn't know where it is."""
# ASCII characters outside words become blanks, which is many times quicker than the pattern.
_BLANKED = bytes(code if code >= 128 or chr(code).isalnum() else ord(" ") for code in range(256))


class Kind(IntEnum):
    """The way a term was found, from vague to certain."""

    FUZZY = 0
    PART = 1
    PREFIX = 2
    WORD = 3
    EXACT = 4


@dataclass(frozen=True, slots=True)
class Hit:
    """The place where one term was found: ``spans`` are index pairs into the field's text.

    A field that does not hold its text gives no spans, but the ``term``.
    """

    field: str
    kind: Kind
    score: int
    spans: tuple[tuple[int, int], ...]
    term: str = ""


class Searchable(Protocol):
    """A named text to search; ``weight`` breaks ties, ``fuzzy`` allows letters in order."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def fuzzy(self) -> bool: ...

    def find(self, term: str) -> Hit | None:
        """Find the term as the whole text, a word, the beginning of a word, or part of one."""


@dataclass(frozen=True, slots=True)
class Field:
    """A text to search. ``folded`` is its casefolded form."""

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
    def is_fuzzy(self) -> bool:
        """Whether only letters in order were found, of one term at least."""
        return any(hit.kind is Kind.FUZZY for hit in self.hits)

    @property
    def rank(self) -> tuple[int, int]:
        """The rank; greater is better. The vaguest term decides, then the sum."""
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
        """The reason why the query can't be used, shown to the user; None if it can."""
        self._pattern: regex.Pattern[str] | None = None
        self._left_s = _PATIENCE_S
        self._terms: list[tuple[str, bool]] = []
        stripped = text.strip()
        if stripped.startswith(_REGEX_PREFIX):
            self._set_pattern(stripped[len(_REGEX_PREFIX) :])
        else:
            self._terms = list(_terms(stripped))

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases to look for, folded; none for a pattern."""
        return tuple(term for term, _ in self._terms)

    @property
    def is_empty(self) -> bool:
        return not self._terms and self._pattern is None and self.error is None

    def match(self, fields: Sequence[Searchable]) -> Match | None:
        """Return the best match of every term; None if one is nowhere or the query is unusable.

        Pass ``fields`` in the order of their weights, the weightiest first.
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
            text = field.text  # reading takes time as well; don't charge the pattern for it
            started = time.thread_time()
            try:
                span = _search(pattern, text, self._left_s)
            except (TimeoutError, MemoryError):
                self.error = _TOO_SLOW
                return None
            # Never 0: that would mean no time limit, and the next search could not be stopped.
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
    """Fold case for comparing; index by index the same as ``text``."""
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
                break  # no match in a field of less weight can be better
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
    """The term's letters in order, close together; the tightest place near the first one.

    Of each word that they reach into they must have the first letter, as abbreviations do: in a
    long name, letters in order are found nearly everywhere.
    """
    folded = fold(field.text[:_MAX_FUZZY])
    best: tuple[int, list[int]] | None = None
    start = folded.find(term[0])
    while start >= 0:
        if start == 0 or not folded[start - 1].isalnum():
            places = _places(term, folded, start)
            if places is None:
                start = folded.find(term[0], start + 1)
                continue
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
    """Where the letters are: each in the word that was reached, else at the beginning of a later
    one."""
    places = [start]
    for letter in term[1:]:
        at = folded.find(letter, places[-1] + 1)
        while at >= 0 and not _is_reached(folded, places[-1], at):
            at = folded.find(letter, at + 1)
        if at < 0:
            return None
        places.append(at)
    return places


def _is_reached(folded: str, last: int, at: int) -> bool:
    """Whether a letter is in the word of the last one, or begins a word."""
    return not folded[at].isalnum() or not folded[at - 1].isalnum() or folded[last:at].isalnum()


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
        # The user need not know what a later version of the package may read differently.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return regex.compile(source, regex.IGNORECASE | regex.MULTILINE)
        except (regex.error, OverflowError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from error


def _search(pattern: regex.Pattern[str], text: str, timeout_s: float) -> tuple[int, int] | None:
    """Find the first non-empty match. Raises TimeoutError."""
    for found in pattern.finditer(text, timeout=timeout_s, concurrent=True):
        start, end = found.span()
        if end > start:
            return start, end
    return None


def distinct_words(text: str) -> bytes:
    """Return the words of a text, folded, each once, with a separator around each."""
    found = set(_encode(fold(text)).translate(_BLANKED).split())
    odd = {run for run in found if not run.isascii()}
    found -= odd
    for run in odd:  # it may contain non-ASCII characters that belong to no word
        found.update(map(_encode, _WORD.findall(run.decode("utf-8", "surrogatepass"))))
    return _SEPARATOR + _SEPARATOR.join(found) + _SEPARATOR


@dataclass(frozen=True, slots=True)
class WordField:
    """A text whose words alone are in memory; ``read`` returns all of it."""

    name: str
    words: bytes
    read: Callable[[], str]
    weight: int = 0
    fuzzy: ClassVar[bool] = False

    @property
    def text(self) -> str:
        return self.read()

    def find(self, term: str) -> Hit | None:
        """Find the term. The hit has spans only if the term is more than a single word."""
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
    """Tell whether the found word is a whole word, the beginning of one, or part of one."""
    if _SEPARATOR + word + _SEPARATOR in words:
        return Kind.WORD
    return Kind.PREFIX if _SEPARATOR + word in words else Kind.PART
