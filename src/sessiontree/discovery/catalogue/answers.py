"""The usage of the answers in a session file, and the keys that recognize their copies.

Forks, resumed sessions, imports and conversions copy answers from file to file. Each was paid for
once. So a row has names that its copies share; ``discovery.usage`` counts by them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from sessiontree.discovery.catalogue.summary import Summary


class Answer(msgspec.Struct, array_like=True, gc=False):
    """The usage of one call of a model, and the keys by which copies of it are recognized.

    ``key`` names it wherever it is copied to: a hash of the provider's ids, 0 without any.
    ``twins`` name it among sessions that are related. ``model`` is a position in
    ``Answers.models``, and ``input`` leaves out what was read from the provider's cache.
    """

    key: int
    twins: tuple[int, ...]
    time_ms: int | None
    model: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float = 0.0
    reasoning: int = 0
    cache_write_1h: int = 0
    is_answer: bool = True
    """Whether it is an answer of the model, rather than a summary or another paid call."""
    is_inherited: bool = False
    """Whether it looks copied from a session that may no longer exist."""


class Answers(msgspec.Struct, array_like=True, gc=False):
    """All paid calls of one file, in order, and the names of their models."""

    models: list[str] = msgspec.field(default_factory=list)
    rows: list[Answer] = msgspec.field(default_factory=list)

    def model_no(self, name: str) -> int:
        """Return the position of a model's name, adding it if it is new."""
        try:
            return self.models.index(name)
        except ValueError:
            self.models.append(name)
            return len(self.models) - 1


class Reading(msgspec.Struct):
    """The result of reading a file: its summary, its paid calls, and how to read on from its end.

    ``answers`` is None if the adapter reads them only when asked (``read_answers``). ``state`` is
    the adapter's own note of what it has seen; the catalogue keeps it and hands it back.
    """

    summary: Summary
    answers: Answers | None = None
    state: bytes = b""


def make_key(*parts: object) -> int:
    """Hash some values to 63 bits: the same in every process; 0 is kept for "none"."""
    seed = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(_hash()(seed, digest_size=8).digest()) >> 1 or 1


@cache
def _hash() -> Any:
    from hashlib import blake2b  # for reading, not for listing

    return blake2b


def twin_of(time_ms: int | None, *counts: int) -> int:
    """Name an answer by when it was given and what it used: copies and imports keep both."""
    return make_key(time_ms, *counts)
