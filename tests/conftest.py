"""Every test has a home of its own: no test reads or writes the files of whoever runs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made and tried says how busy the machine is, and nothing of the code.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# A change is judged by what it did, not by what was never tried before.
settings.register_profile("ci", settings.get_profile("patient"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "patient")

# A background job is started with these ignored, and what the tests start inherits that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_FOREIGN = (
    *("SESSIONTREE_AGENT_DIR", "SESSIONTREE_PROFILE", "SESSIONTREE_STORE"),
    "PI_CODING_AGENT_DIR",
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME"),
    *("ZELLIJ", "ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID", "TMUX_PANE", "CMUX_SURFACE_ID"),
    *("KITTY_WINDOW_ID", "WEZTERM_PANE", "TERM_SESSION_ID", "WT_SESSION"),
)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; agent and cache folders follow from it."""
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
    return folder
