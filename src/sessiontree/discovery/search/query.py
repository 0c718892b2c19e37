"""Parse search queries; any text is valid. Pure.

A query consists of ``word``, ``"a phrase"``, ``begin*`` and ``-without`` (or ``-"without this"``);
other punctuation separates words. A query of exclusions alone is searched as words (``-rf`` finds
rf), and one without a letter or digit (``->``, an emoji) as literal text.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from sessiontree.discovery.search.words import split_words

_PART = re.compile(r'(?P<minus>-(?=["\w]))?(?:"(?P<phrase>[^"]*)"(?P<star>\*)?|(?P<word>[^\s"]+))')
_MAX_TERMS = 32
_MAX_WORDS = 64
_LEAST_BEGINNING = 3


class Term(msgspec.Struct, frozen=True):
    """Words that must follow each other; the last may be a prefix.

    ``run`` if they are the pairs of one run of unspaced characters. A ``literal`` has no words and
    is looked for as a piece of text.
    """

    words: tuple[str, ...]
    is_prefix: bool = False
    run: str | None = None
    literal: str | None = None

    @property
    def is_ascii(self) -> bool:
        return (self.literal or "").isascii() and all(word.isascii() for word in self.words)

    @property
    def expression(self) -> str:
        """Return the term as an expression of SQLite's full-text search."""
        phrase = " ".join(self.words).replace('"', '""')
        return f'"{phrase}"' + (" *" if self.is_prefix else "")


class Query(msgspec.Struct, frozen=True):
    """The terms that a session must contain, and those it must not."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()

    @property
    def needs_scan(self) -> bool:
        """Whether an index of words can't answer it."""
        return any(term.literal is not None for term in self.wanted + self.unwanted)

    def with_open_end(self) -> Query:
        """The query with its last word as the beginning of one: somebody is still typing it.

        One or two letters begin too much: they stay the word that they are.
        """
        if not self.wanted:
            return self
        *others, last = self.wanted
        if last.literal is not None or (last.is_ascii and len(last.words[-1]) < _LEAST_BEGINNING):
            return self
        return replace(self, wanted=(*others, replace(last, is_prefix=True)))


def parse_query(text: str) -> Query:
    """Parse a text; a blank one gives a query without terms."""
    wanted: list[Term] = []
    unwanted: list[Term] = []
    literals: list[Term] = []
    for part in _PART.finditer(text):
        body, star = part["phrase"], part["star"]
        if body is None:
            body, star = part["word"], "*" if part["word"].endswith("*") else None
        term = _make_term(body, star is not None)
        if term is not None:
            (unwanted if part["minus"] else wanted).append(term)
        elif body.strip():
            literals.append(Term((), literal=body.strip().casefold()))
    if not wanted:
        wanted, unwanted = unwanted or literals, []
    return Query(
        tuple(dict.fromkeys(wanted))[:_MAX_TERMS], tuple(dict.fromkeys(unwanted))[:_MAX_TERMS]
    )


def _make_term(body: str, is_prefix: bool) -> Term | None:
    words = list(split_words(body))[:_MAX_WORDS]
    if not words:
        return None
    last = words[-1]
    if last.is_pair:
        # A run of pairs may go on after what was asked for; a lone character begins a pair.
        is_lone = len(words) == 1 or not words[-2].is_pair or words[-2].end != last.end
        texts = tuple(word.text for word in (words if is_lone else words[:-1]))
        run = texts[0] + "".join(text[1:] for text in texts[1:])
        is_run = all(word.is_pair for word in words) and len(run) == last.end - words[0].start
        return Term(texts, is_prefix=is_lone, run=run if is_run else None)
    return Term(tuple(word.text for word in words), is_prefix=is_prefix)
