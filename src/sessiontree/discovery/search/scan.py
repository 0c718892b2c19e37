"""Search session files directly: for files that the index does not hold, and for snippets.

A session matches if its messages of the wanted roles and times contain all wanted terms and no
excluded one. The hit is its newest message with the most of the wanted terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from sessiontree.discovery.kept import open_session
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search.hits import SearchHit
from sessiontree.discovery.search.query import Query, Term
from sessiontree.discovery.search.times import to_datetime
from sessiontree.discovery.search.words import Word, fold_text, is_plain, split_words
from sessiontree.discovery.texts import (
    SPOKEN_ROLES,
    TOOL_ROLES,
    IsSilent,
    SaidText,
    speaking_lines,
    speaking_lines_backwards,
)
from sessiontree.model import codec
from sessiontree.storage.base import SessionStorage

if TYPE_CHECKING:
    from sessiontree.discovery.adapters.base import AgentAdapter

Range = tuple[int, int]

# UTF-8 of letters that folding may turn into others: a superset, without punctuation, emoji and
# most of the unspaced characters.
_FOLDABLE_BYTES = (
    rb"[\xc3-\xdf\xe0\xe1\xea\xef]|\xc2[\xaa\xb2\xb3\xb5\xb9\xba\xbc-\xbe]"
    rb"|\xe2[\x81\x82\x84-\x86\x91-\x93\x9d\x9e\xb0-\xbf]"
    rb"|\xe3\x80[\x86\xa1-\xbc]|\xe3\x82[\x99-\x9f]|\xe3\x83\xbf"
    rb"|\xe3[\x84-\x86\x88-\x8b]|\xed[\x9e-\x9f]"
    rb"|\xf0[\x90-\x9e]|\xf0\x9f(?:\x84|\xaf)"
)
# A character spelled by its number, except control characters: no word holds those.
_SPELLED_OUT = re.compile(rb"\\u(?!00[01])")
# What JSON may spell in several ways that the pattern above does not tell: "\t" and "\u0009".
_SPELLED_VARIOUSLY = re.compile(r"[\x00-\x1f/]")
_ASCII = bytes(range(128))


@cache
def _foldable_bytes() -> re.Pattern[bytes]:
    return re.compile(_FOLDABLE_BYTES)  # when a line is not ASCII: compiling it takes a while


class SessionMatch(msgspec.Struct):
    """A session's match: the count of each wanted term, and the message (or the name) to show."""

    counts: list[int]
    said: SaidText
    spans: list[Span]


class Piece(msgspec.Struct, frozen=True):
    """A file of a session, and the ranges of it to look through; all of it without."""

    path: str
    adapter: AgentAdapter
    ranges: Sequence[Range] | None = None


class Scanner:
    """Search session files for one query."""

    def __init__(self, matcher: Matcher, roles: frozenset[str], since_ms: int | None) -> None:
        self._matcher = matcher
        self._roles = roles
        self._since_ms = since_ms
        self._wants_tools = not roles.isdisjoint(TOOL_ROLES)
        self._wanted = len(matcher.query.wanted)
        needles = [_needle(term) for term in matcher.terms]
        self._needles = [needle for needle in needles if needle is not None]

    def scan(
        self, storage: SessionStorage, pieces: Sequence[Piece], name: Sequence[SaidText] = ()
    ) -> SessionMatch | None:
        """Search a session; None if it does not match. Raises OSError.

        ``name`` is the session's name, if names count. Where the index knows all places of the
        words, the pieces name them.
        """
        said = (item for piece in pieces for item in self._texts_of(piece, storage))
        return self._judge(chain(name, said))

    def locate(
        self, storage: SessionStorage, pieces: Sequence[Piece], name: Sequence[SaidText]
    ) -> SessionMatch | None:
        """Find the message to show of a session that should match; None if it does not.

        Looks from the end and stops at a message that has all that is wanted. The name is shown if
        no message has as much of it.
        """
        # A part is older than the session's own file, or as old: its caller goes on.
        found = (item for piece in pieces for item in self._texts_backwards(piece, storage))
        return self._judge(chain(found, name), is_newest_first=True)

    def count_terms(self, said: SaidText) -> int:
        """Count the wanted terms in a text."""
        return sum(1 for spans in self._matcher.find(said.text)[: self._wanted] if spans)

    def _judge(
        self, texts: Iterable[SaidText], *, is_newest_first: bool = False
    ) -> SessionMatch | None:
        return judge_texts(self._matcher, texts, is_newest_first=is_newest_first)

    def _texts_of(self, piece: Piece, storage: SessionStorage) -> Iterator[SaidText]:
        with closing(open_session(piece.adapter, piece.path, storage)) as reader:
            ranges = piece.ranges if piece.ranges is not None else [(0, reader.stat().size)]
            for start, end in ranges:
                lines = speaking_lines(reader, start, end, self._is_silent(piece.adapter))
                yield from self._spoken(piece.adapter, lines)

    def _texts_backwards(self, piece: Piece, storage: SessionStorage) -> Iterator[SaidText]:
        with closing(open_session(piece.adapter, piece.path, storage)) as reader:
            ranges = piece.ranges if piece.ranges is not None else [(0, reader.stat().size)]
            for start, end in reversed(ranges):
                lines = speaking_lines_backwards(reader, start, end, self._is_silent(piece.adapter))
                yield from self._spoken(piece.adapter, lines)

    def _is_silent(self, adapter: AgentAdapter) -> IsSilent | None:
        return None if self._wants_tools else adapter.is_silent

    def _spoken(
        self, adapter: AgentAdapter, lines: Iterable[tuple[bytes, int]]
    ) -> Iterator[SaidText]:
        texts = (
            said
            for line, offset in lines
            if self._may_match(line)
            for said in adapter.texts_of_line(line, offset, include_tools=self._wants_tools)
            if said.text and said.role in self._roles and self._is_recent(said)
        )
        return adapter.drop_repeated(texts)

    def _may_match(self, line: bytes) -> bool:
        """Return False only if none of the terms can be in the line, however it is spelled."""
        lowered = line.lower()
        for needle in self._needles:
            if needle in lowered:
                return True
        if _SPELLED_OUT.search(line):
            return True
        # taking the ASCII out first makes the pattern's work small
        return not line.isascii() and bool(_foldable_bytes().search(line.translate(None, _ASCII)))

    def _is_recent(self, said: SaidText) -> bool:
        return self._since_ms is None or (said.time_ms or 0) >= self._since_ms


def judge_texts(
    matcher: Matcher, texts: Iterable[SaidText], *, is_newest_first: bool = False
) -> SessionMatch | None:
    """Match a session's texts with what is wanted; None if they don't match."""
    wanted = len(matcher.query.wanted)
    totals = [0] * len(matcher.terms)
    best: tuple[int, SaidText, list[list[Span]]] | None = None
    for said in texts:
        found = matcher.find(said.text)
        for at, spans in enumerate(found):
            totals[at] += len(spans)
        score = sum(1 for spans in found[:wanted] if spans)
        least = best[0] + is_newest_first if best is not None else 1
        if score >= least:
            best = (score, said, found[:wanted])
            if is_newest_first and score == wanted:
                break
    if best is None or not all(totals[:wanted]) or any(totals[wanted:]):
        return None
    spans = [span for each in best[2] for span in each]
    return SessionMatch(totals[:wanted], best[1], spans)


def roles_for(role: str | None, include_tools: bool) -> frozenset[str]:
    """Return the roles to search; ``tool`` means tool calls and their results."""
    if role == "tool":
        return TOOL_ROLES
    if role is not None:
        return frozenset((role,))
    return SPOKEN_ROLES | TOOL_ROLES if include_tools else SPOKEN_ROLES


def _needle(term: Term) -> bytes | None:
    """Bytes that every line with the term has, if folding changes nothing in it; None if none has.

    Words that are not plain themselves stand only in lines that folding does change.
    """
    if term.literal is not None:
        pieces = _SPELLED_VARIOUSLY.split(term.literal)
        return codec.encode(max(pieces, key=len))[1:-1].lower()
    plain = [word for word in term.words if is_plain(word)]
    return max(plain, key=len).encode() if len(plain) == len(term.words) else None


SNIPPET_CHARS = 160
_LEAD_CHARS = 48
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")

Span = tuple[int, int]


class Snippet(msgspec.Struct, frozen=True):
    """A piece of text on one line, and the ranges (start, end) of the words in it."""

    text: str
    marks: tuple[Span, ...]


class Matcher:
    """Find the terms of one query in texts."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.terms = query.wanted + query.unwanted
        self._patterns = [_pattern(term) for term in self.terms]
        self._needles = [
            term.run or term.literal or max(term.words, key=len) for term in self.terms
        ]

    def find(self, text: str) -> list[list[Span]]:
        """Find the spans of each term (wanted, then unwanted) in the text."""
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
    """Cut the piece of a text around the first span, with all spans in it marked."""
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
    """Merge spans that touch or overlap, as pairs of characters do."""
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


def make_hit(info: SessionInfo, match: SessionMatch, score: float, agent: str) -> SearchHit:
    """The hit for a session and the message to show of it."""
    snippet = make_snippet(match.said.text, match.spans)
    return SearchHit(
        info,
        match.said.entry_id,
        match.said.role,
        to_datetime(match.said.time_ms),
        snippet.text,
        snippet.marks,
        score,
        agent,
    )
