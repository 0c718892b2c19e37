"""Answering a query from session files themselves: where the index does not reach, and for hits.

A session matches if it contains all that is wanted and nothing that is not, anywhere in what counts
(roles, time). The hit shown is its newest message with the most of the wanted terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.blocks import Block, line_end, read_blocks
from sessiontree.discovery.search.matching import Matcher, Span
from sessiontree.discovery.search.query import Term
from sessiontree.discovery.search.texts import SPOKEN_ROLES, TOOL_ROLES, SaidText, texts_of_line
from sessiontree.discovery.search.words import is_plain
from sessiontree.model import codec
from sessiontree.storage.base import SessionStorage, SessionStorageReader

Range = tuple[int, int]

# UTF-8 of letters that folding may turn into others: a superset, without punctuation, emoji and
# most of the unspaced characters.
_FOLDABLE_BYTES = re.compile(
    rb"[\xc3-\xdf\xe0\xe1\xea\xef]|\xc2[\xaa\xb2\xb3\xb5\xb9\xba\xbc-\xbe]"
    rb"|\xe2[\x81\x82\x84-\x86\x91-\x93\x9d\x9e\xb0-\xbf]"
    rb"|\xe3\x80[\x86\xa1-\xbc]|\xe3\x82[\x99-\x9f]|\xe3\x83\xbf"
    rb"|\xe3[\x84-\x86\x88-\x8b]|\xed[\x9e-\x9f]"
    rb"|\xf0[\x90-\x9e]|\xf0\x9f(?:\x84|\xaf)"
)
# A character spelled by its number, if it is no control character: those are in no word.
_SPELLED_OUT = re.compile(rb"\\u(?!00[01])")
# What JSON may spell in several ways that the pattern above does not tell: "\t" and "\u0009".
_SPELLED_VARIOUSLY = re.compile(r"[\x00-\x1f/]")
_ASCII = bytes(range(128))


@dataclass(slots=True)
class SessionMatch:
    """How often each wanted term stands in a session, and the message (or the name) to show."""

    counts: list[int]
    said: SaidText
    spans: list[Span]


class Scanner:
    """Looks through session files for one query."""

    def __init__(self, matcher: Matcher, roles: frozenset[str], since_ms: int | None) -> None:
        self._matcher = matcher
        self._roles = roles
        self._since_ms = since_ms
        self._wants_tools = not roles.isdisjoint(TOOL_ROLES)
        self._wanted = len(matcher.query.wanted)
        needles = [_needle(term) for term in matcher.terms]
        self._needles = [needle for needle in needles if needle is not None]

    def scan(
        self, storage: SessionStorage, path: str, name: Sequence[SaidText] = ()
    ) -> SessionMatch | None:
        """What the query finds in a file; None if it does not match. Raises OSError.

        ``name`` holds what the session is called, if that counts.
        """
        reader = storage.open_reader(path)
        try:
            return self._judge(chain(name, self._read(reader, 0, reader.stat().size)))
        finally:
            reader.close()

    def check(
        self, storage: SessionStorage, path: str, ranges: Iterable[Range], name: Sequence[SaidText]
    ) -> SessionMatch | None:
        """As ``scan``, for a session of which the index knows where all its matches are."""
        reader = storage.open_reader(path)
        try:
            said = (item for start, end in ranges for item in self._read(reader, start, end))
            return self._judge(chain(name, said))
        finally:
            reader.close()

    def locate(
        self, storage: SessionStorage, path: str, ranges: Sequence[Range], name: Sequence[SaidText]
    ) -> SessionMatch | None:
        """The message to show of a session that surely matches; None if it does not after all.

        Looks from the end and stops at a message that has all that is wanted. The name is shown if
        no message has as much of it.
        """
        reader = storage.open_reader(path)
        try:
            said = chain(self._read_backwards(reader, ranges), name)
            return self._judge(said, is_newest_first=True)
        finally:
            reader.close()

    def count_terms(self, said: SaidText) -> int:
        """How many of the wanted terms stand in a text."""
        return sum(1 for spans in self._matcher.find(said.text)[: self._wanted] if spans)

    def _judge(
        self, texts: Iterable[SaidText], *, is_newest_first: bool = False
    ) -> SessionMatch | None:
        totals = [0] * len(self._matcher.terms)
        best: tuple[int, SaidText, list[list[Span]]] | None = None
        for said in texts:
            found = self._matcher.find(said.text)
            for at, spans in enumerate(found):
                totals[at] += len(spans)
            score = sum(1 for spans in found[: self._wanted] if spans)
            least = best[0] + is_newest_first if best is not None else 1
            if score >= least:
                best = (score, said, found[: self._wanted])
                if is_newest_first and score == self._wanted:
                    break
        if best is None or not all(totals[: self._wanted]) or any(totals[self._wanted :]):
            return None
        spans = [span for each in best[2] for span in each]
        return SessionMatch(totals[: self._wanted], best[1], spans)

    def _read(self, reader: SessionStorageReader, start: int, end: int) -> Iterator[SaidText]:
        for block in read_blocks(reader, start, end):
            if not block.is_long_line:
                for line in self._lines(block):
                    yield from self._texts(*line)
            elif self._wants_tools:
                yield from self._texts(reader.read_at(block.offset, block.length), block.offset)

    def _read_backwards(
        self, reader: SessionStorageReader, ranges: Sequence[Range]
    ) -> Iterator[SaidText]:
        for start, end in reversed(ranges):
            lines = [
                line
                for block in read_blocks(reader, start, end)
                if not block.is_long_line
                for line in self._lines(block)
            ]
            for line in reversed(lines):
                yield from self._texts(*line)

    def _texts(self, line: bytes, offset: int) -> Iterator[SaidText]:
        if not self._may_match(line):
            return
        for said in texts_of_line(line, offset, include_tools=self._wants_tools):
            if said.text and said.role in self._roles and self._is_recent(said):
                yield said

    def _lines(self, block: Block) -> Iterator[tuple[bytes, int]]:
        """The lines that say something that counts."""
        data, at, cut = block.data, 0, block.cut
        while at < cut:
            end = line_end(data, at, cut)
            if self._wants_tools or not fast_lines.is_tool_result(data, at, end):
                yield data[at:end], block.offset + at
            at = end + 1

    def _may_match(self, line: bytes) -> bool:
        """False only if none of the terms can stand in the line, however it is spelled."""
        lowered = line.lower()
        for needle in self._needles:
            if needle in lowered:
                return True
        if _SPELLED_OUT.search(line):
            return True
        # taking the ASCII out first makes the pattern's work small
        return not line.isascii() and bool(_FOLDABLE_BYTES.search(line.translate(None, _ASCII)))

    def _is_recent(self, said: SaidText) -> bool:
        return self._since_ms is None or (said.time_ms or 0) >= self._since_ms


def roles_for(role: str | None, include_tools: bool) -> frozenset[str]:
    """The roles whose text counts; ``tool`` stands for all that has to do with tools."""
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
