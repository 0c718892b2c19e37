"""What a typed query means, and how well a text answers it.

Owns the query's syntax and the ranking: exact and word matches come before pieces of words, those
before letters in order (fuzzy). Knows nothing of sessions: it matches named fields of text. Pure.

- Words, in any order; each must be found in some field. Fuzzy counts only in fields that allow it.
- ``"some phrase"``: this very text.
- ``re:…``: a regular expression, ignoring case. A repeated group must be simple, because a pattern
  is tried on every session at every key and must not take for ever; for the same reason long
  lines are looked at in pieces.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

_TERM = re.compile(r'"([^"]*)"?|(\S+)')
_REGEX_PREFIX = "re:"
# A pattern with k open repetitions may take steps in the order of length ** (k + 1).
_REGEX_STEPS = 5_000_000
_UNBOUNDED = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\})")
_MAX_UNBOUNDED = 3
_PATIENCE_S = 5.0
"""How long a pattern may take over all texts it is tried on."""
_MIN_FUZZY = 3
_MAX_FUZZY = 400


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
        self._regex: re.Pattern[str] | None = None
        self._window = 0
        self._spent_s = 0.0
        self._terms: list[tuple[str, bool]] = []
        stripped = text.strip()
        if stripped.startswith(_REGEX_PREFIX):
            self._set_regex(stripped[len(_REGEX_PREFIX) :])
        else:
            self._terms = list(_terms(stripped))

    @property
    def is_empty(self) -> bool:
        return not self._terms and self._regex is None and self.error is None

    def match(self, fields: Sequence[Searchable]) -> Match | None:
        """The best match of every term; None if one is nowhere. An unusable query finds nothing.

        ``fields`` come in the order of their weights, the weightiest first.
        """
        if self.error is not None:
            return None
        if self._regex is not None:
            return self._match_regex(self._regex, fields)
        hits = []
        for term, is_phrase in self._terms:
            hit = _best_hit(term, is_phrase, fields)
            if hit is None:
                return None
            hits.append(hit)
        return Match(tuple(hits))

    def _match_regex(self, pattern: re.Pattern[str], fields: Sequence[Searchable]) -> Match | None:
        for field in fields:
            text = field.text  # reading it takes time as well, for which the pattern can do nothing
            started = time.perf_counter()
            span = _search(pattern, self._window, text)
            self._spent_s += time.perf_counter() - started
            if self._spent_s > _PATIENCE_S:
                self.error = "this pattern takes too long; try a simpler one"
            if span is not None:
                return Match((Hit(field.name, Kind.WORD, field.weight * 100, (span,)),))
        return None

    def _set_regex(self, pattern: str) -> None:
        if not pattern:
            return
        if _repeats_a_group(pattern):
            self.error = "a repeated group may not hold |, ?, *, + or {"
            return
        repetitions = len(_UNBOUNDED.findall(pattern))
        if repetitions > _MAX_UNBOUNDED:
            self.error = f"more than {_MAX_UNBOUNDED} of * and + are too many"
            return
        self._window = int(_REGEX_STEPS ** (1 / (repetitions + 1)))
        try:
            self._regex = re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
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


def _search(pattern: re.Pattern[str], size: int, text: str) -> tuple[int, int] | None:
    for offset, window in _windows(text, size):
        found = pattern.search(window)
        if found is not None and found.end() > found.start():
            return offset + found.start(), offset + found.end()
    return None


def _windows(text: str, size: int) -> Iterable[tuple[int, str]]:
    """The text in lines, long ones in pieces: what a pattern costs grows with what it is shown."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        for at in range(start, max(end, start + 1), size):
            yield at, text[at : min(end, at + size)]
        start = end + 1


def _repeats_a_group(pattern: str) -> bool:
    """Whether a group that is repeated holds a choice or a repetition itself."""
    stack: list[bool] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 2
            continue
        if letter == "[":
            at = _end_of_set(pattern, at)
        elif letter == "(":
            stack.append(False)
            at += 1 if pattern[at + 1 : at + 2] == "?" else 0
        elif letter == ")" and stack:
            holds = stack.pop()
            if holds and at + 1 < len(pattern) and pattern[at + 1] in "*+{":
                return True
            if holds and stack:
                stack[-1] = True
        elif letter in "|?*+{" and stack:
            stack[-1] = True
        at += 1
    return False


def _end_of_set(pattern: str, at: int) -> int:
    """The index of the bracket that closes a character set."""
    at += 1
    if at < len(pattern) and pattern[at] == "^":
        at += 1
    if at < len(pattern) and pattern[at] == "]":
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at
