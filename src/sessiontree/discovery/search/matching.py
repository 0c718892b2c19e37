"""Finding a query's words in a text, and cutting the piece around them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sessiontree.discovery.search.query import Query, Term
from sessiontree.discovery.search.words import Word, fold_text, is_plain, split_words

SNIPPET_CHARS = 160
_LEAD_CHARS = 48
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of text on one line, and where in it the words stand (start, end)."""

    text: str
    marks: tuple[Span, ...]


class Matcher:
    """Looks for the terms of one query in texts."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.terms = query.wanted + query.unwanted
        self._patterns = [_pattern(term) for term in self.terms]
        self._needles = [
            term.run or term.literal or max(term.words, key=len) for term in self.terms
        ]

    def find(self, text: str) -> list[list[Span]]:
        """Where each of the terms (wanted, then unwanted) stands in the text."""
        if is_plain(text):
            lowered = text.lower()
            found = [
                _find_pattern(pattern, needle, lowered) if pattern else None
                for pattern, needle in zip(self._patterns, self._needles, strict=True)
            ]
        else:
            found = [None] * len(self.terms)
        if None not in found:
            return [spans for spans in found if spans is not None]
        folded = fold_text(text)
        words: list[Word] | None = None
        result: list[list[Span]] = []
        for term, spans in zip(self.terms, found, strict=True):
            if spans is None and term.literal is not None:
                spans = _find_literal(term.literal, text)
            elif spans is None and all(word in folded for word in term.words):
                words = list(split_words(text)) if words is None else words
                spans = _find_words(term, words)
            result.append(spans or [])
        return result


def make_snippet(text: str, spans: Iterable[Span], limit: int = SNIPPET_CHARS) -> Snippet:
    """The piece of a text around the first span, with all spans in it marked."""
    ordered = sorted(spans)
    first = ordered[0][0] if ordered else 0
    start = max(0, min(first - _LEAD_CHARS, len(text) - limit))
    if start > 0:
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    end = min(len(text), start + limit)
    if end < len(text):
        space = text.rfind(" ", first + 1, end)
        end = space if space > start + limit // 2 else end
    before, after = "…" if start > 0 else "", "…" if end < len(text) else ""
    shown = _SURROGATES.sub("\ufffd", _UNSHOWABLE.sub(" ", text[start:end]))
    offset = len(before) - start
    marks = _merge((max(a, start), min(b, end)) for a, b in ordered if a < end and b > start)
    return Snippet(f"{before}{shown}{after}", tuple((a + offset, b + offset) for a, b in marks))


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Spans that touch or overlap become one: pairs of characters do."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pattern(term: Term) -> re.Pattern[str] | None:
    """What to look for in plain text, lowered; None if it takes splitting into words."""
    if term.literal is not None:
        return re.compile(re.escape(term.literal)) if term.is_ascii else None
    if term.run is not None:
        return re.compile(re.escape(term.run))
    if not term.is_ascii:
        return None
    body = "[^a-z0-9]+".join(map(re.escape, term.words))
    return re.compile(f"(?<![a-z0-9]){body}" + ("[a-z0-9]*" if term.is_prefix else "(?![a-z0-9])"))


def _find_pattern(pattern: re.Pattern[str], needle: str, text: str) -> list[Span]:
    if needle not in text:  # many times quicker than the pattern
        return []
    return [match.span() for match in pattern.finditer(text)]


def _find_literal(literal: str, text: str) -> list[Span]:
    folded = text.casefold()
    if len(folded) != len(text):
        folded = text.lower() if len(text.lower()) == len(text) else text
    spans: list[Span] = []
    at = folded.find(literal)
    while at >= 0:
        spans.append((at, at + len(literal)))
        at = folded.find(literal, at + len(literal))
    return spans


def _find_words(term: Term, words: list[Word]) -> list[Span]:
    spans: list[Span] = []
    length = len(term.words)
    head, last = term.words[:-1], term.words[-1]
    for at in range(len(words) - length + 1):
        final = words[at + length - 1].text
        if final != last and not (term.is_prefix and final.startswith(last)):
            continue
        if all(words[at + n].text == word for n, word in enumerate(head)):
            end = words[at + length - 1].end
            if term.is_prefix and words[at + length - 1].is_pair:
                end = words[at + length - 1].start + len(last)
            spans.append((words[at].start, end))
    return spans
