"""When the garbage collector runs: rarely in a short command, as usual in what runs for long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from sessiontree.core.gc import collect_as_usual, collect_rarely


@pytest.fixture(autouse=True)
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_a_short_command_collects_rarely_and_a_server_as_python_does(
    usual: tuple[int, int, int],
) -> None:
    collect_rarely()
    assert gc.get_threshold()[0] > 10 * usual[0]
    collect_as_usual()
    assert gc.get_threshold() == usual
