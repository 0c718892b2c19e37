"""One Chromium for all tests of a process, and pages that must have stayed quiet in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .chromium import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab; nothing may have failed in it, broken its policy or opened a dialog."""
    opened = browser.page()
    yield opened
    opened.close()
    assert opened.log == []
    assert opened.dialogs == []
