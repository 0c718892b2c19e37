"""Ctrl-C at every step of Python's machine: of each operation, in turn, as far as the time goes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interrupts import OPERATIONS, Operation, try_at

from sessiontree.stores.base import Durability
from sessiontree.stores.latch import logger

from .conftest import Budget


@pytest.mark.filterwarnings("ignore:unclosed scandir:ResourceWarning")
@pytest.mark.parametrize("durability", ["flush", "entry"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_interrupts(
    operation: Operation,
    durability: Durability,
    yard: Path,
    budget: Budget,
    rng: random.Random,
    figures: Callable[[str, float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a record that is kept keeps its error, and that keeps files open
    monkeypatch.setattr(logger, "disabled", True)
    # as many steps as there are processes, which come and go
    monkeypatch.setattr("sessiontree.stores.files.move.may_be_written", lambda *_: False)

    def attempt(at: int | None) -> int:
        try:
            return try_at(operation, at, yard / "agent", durability).steps
        finally:
            shutil.rmtree(yard / "agent")

    attempt(None)  # imports modules on its way
    steps = list(range(1, attempt(None) + 1))
    rng.shuffle(steps)
    for at in steps:
        if not budget.is_left():
            break
        attempt(at)
        figures("interrupts", 1)
