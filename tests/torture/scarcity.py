"""Real scarcity: what the process itself is refused, by the kernel, wherever it asks for it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(kind: int, amount: int) -> Iterator[None]:
    """The process gets no more of something (RLIMIT_...) until this ends."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (amount, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
