"""Any bytes as a session file: opened, looked at, gone on with, opened again."""

from __future__ import annotations

import random

import atheris

with atheris.instrument_imports(include=["sessiontree"]):
    from tests.torture.hostile import SessionInMemory, session_seeds

    from sessiontree import SessionTreeError

from tests.torture.fuzzing import fuzz

_target = SessionInMemory.__new__(SessionInMemory)


def try_one(data: bytes) -> None:
    rng = random.Random(len(data))
    try:
        _target.read(data, rng)
    except SessionTreeError:
        pass


if __name__ == "__main__":
    fuzz(try_one, [seed for seed in session_seeds() if len(seed) < 30_000])
