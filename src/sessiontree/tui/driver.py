"""The terminal under our screens: Textual's driver, made thrifty and able to take any terminal."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from textual.driver import Driver

from sessiontree.text.charsets import is_unicode, spell_cells
from sessiontree.tui.thrift import Thrift


def thrifty_driver() -> type[Driver] | None:
    """Textual's driver for this system, made to send only what changes; None where it has none."""
    try:
        from textual.drivers import linux_driver
    except ImportError:  # no Unix
        return None
    # Textual decodes keys strictly, so that one byte that is not UTF-8 (Alt with a letter in an old
    # terminal, noise on a line) would end the program. It has no other way to say so.
    setattr(linux_driver, "getincrementaldecoder", _lenient_decoder)  # noqa: B010

    class ThriftyDriver(linux_driver.LinuxDriver):
        """Sends a terminal only the differences, in characters that it has."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.thrift = Thrift(can_erase=fills_with_ground(os.environ))
            self._is_away = False
            self._encoding = getattr(sys.__stderr__, "encoding", None)  # where Textual writes
            self._is_unicode = is_unicode(self._encoding)

        def suspend_application_mode(self) -> None:
            """Leave the terminal to another program, and draw nothing meanwhile.

            Without this, Textual queues what it would draw, for a thread that has ended, and
            stands still once the queue is full.
            """
            super().suspend_application_mode()
            self._is_away = True

        def resume_application_mode(self) -> None:
            """Take the terminal back; its contents are unknown."""
            self._is_away = False
            self.thrift.forget()
            super().resume_application_mode()

        def write(self, data: str) -> None:
            """Send what ``data`` changes."""
            if self._is_away:
                return
            size = self._app.size
            if size != self.thrift.size:
                self.thrift.resize(*size)
            sent = self.thrift.squeeze(data)
            super().write(sent if self._is_unicode else spell_cells(sent, self._encoding))

    return ThriftyDriver


_FILLING = (
    *("xterm", "tmux", "alacritty", "kitty", "foot", "wezterm", "ghostty", "rxvt", "konsole"),
    *("gnome", "vte", "contour", "mintty", "putty", "st-", "linux"),
)
"""Terminals, by the beginning of their TERM, that fill what they erase with the ground in force."""


def fills_with_ground(environ: Mapping[str, str]) -> bool:
    """Tell if the terminal fills what it erases with the ground in force; GNU screen does not."""
    if environ.get("STY") and not environ.get("TMUX"):
        return False
    return bool(environ.get("TMUX")) or environ.get("TERM", "").startswith(_FILLING)


def _lenient_decoder(_: str) -> Callable[[], codecs.IncrementalDecoder]:
    """Decode keys in the terminal's encoding; what it doesn't have becomes U+FFFD."""
    encoding = getattr(sys.__stdin__, "encoding", None) or "utf-8"
    known = encoding if not is_unicode(encoding) else "utf-8"
    return partial(codecs.getincrementaldecoder(known), errors="replace")
